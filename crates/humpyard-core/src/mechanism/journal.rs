//! The journal: every call of a scheduler with its answers. A run can so be compared with another,
//! and replayed.

use alloc::string::String;
use core::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::account::DropReason;
use super::allocation::Switch;
use super::answer::Arrival;
use crate::id::{ClientId, CoreId, ExitSlot, FlowId, ServiceId, Slot};
use crate::packet::Packet;
use crate::unit::{Time, Weight, Work};

/// One line of a journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When, in ns.
    pub now: Time,
    /// The event.
    pub event: Event,
}

/// A call of the scheduler, with its answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// [`Scheduler::on_arrival`](super::Scheduler::on_arrival).
    Arrival {
        /// The packet, as the driver handed it over.
        packet: Packet,
        /// Its slot, or why it has none.
        answer: Arrival,
    },
    /// [`Scheduler::next_core`](super::Scheduler::next_core) named this core.
    Core(CoreId),
    /// [`Scheduler::next`](super::Scheduler::next).
    Next {
        /// The core that asked.
        core: CoreId,
        /// The packet that it serves.
        answer: Option<Given>,
    },
    /// [`Scheduler::on_completion`](super::Scheduler::on_completion), or
    /// [`Scheduler::on_end`](super::Scheduler::on_end).
    Completion {
        /// The packet's slot.
        slot: Slot,
        /// How long its core was busy with it, in ns.
        busy: Time,
        /// Whether the packet ended at its service.
        ends: bool,
        /// The work that it was charged.
        used: Work,
        /// The next service of its chain.
        onward: Option<ServiceId>,
        /// The place where it waits for earlier packets of its flow.
        exit: Option<ExitSlot>,
    },
    /// [`Scheduler::on_preemption`](super::Scheduler::on_preemption).
    Preemption {
        /// The packet's slot.
        slot: Slot,
        /// How long its core had served it in this turn, in ns.
        served: Time,
        /// How long the core was then busy with the packet's state, in ns.
        saving: Time,
    },
    /// [`Scheduler::next_effect`](super::Scheduler::next_effect) named this switch.
    Switch(Switch),
    /// [`Scheduler::on_switched`](super::Scheduler::on_switched).
    Switched(CoreId),
    /// [`Scheduler::next_effect`](super::Scheduler::next_effect) named this dropped packet.
    Dropped(Slot, DropReason),
    /// [`Scheduler::next_effect`](super::Scheduler::next_effect) named this place; its packet left.
    Exit(ExitSlot),
    /// [`Scheduler::on_timeout`](super::Scheduler::on_timeout).
    Timeout,
    /// [`Scheduler::on_client_end`](super::Scheduler::on_client_end).
    ClientEnd(ClientId),
    /// [`Scheduler::on_flow_end`](super::Scheduler::on_flow_end).
    FlowEnd(FlowId),
    /// [`Scheduler::set_weight`](super::Scheduler::set_weight).
    Weight(ClientId, Weight),
    /// [`Scheduler::withhold`](super::Scheduler::withhold).
    Withhold(ClientId),
    /// [`Scheduler::end_withholding`](super::Scheduler::end_withholding).
    EndWithholding(ClientId),
    /// Another policy took over; the driver's name for it.
    Swap(String),
}

/// A packet given to a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Given {
    /// Its slot.
    pub slot: Slot,
    /// Whether the core's previous packet had another service.
    pub cold: bool,
}

/// The destination of a scheduler's journal.
pub trait Journal: Debug {
    /// Writes one more record. A journal reports a failed write at its end, not here.
    fn record(&mut self, record: Record);
}
