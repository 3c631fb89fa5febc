//! The journal: everything that was told to a scheduler or asked of it, with its answers, so that a run can be compared
//! with another, and played again.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::account::DropReason;
use super::allocation::Switch;
use super::answer::Arrival;
use super::scheduler::Scheduler;
use crate::id::{ClientId, CoreId, ExitSlot, FlowId, ServiceId, Slot};
use crate::packet::Packet;
use crate::policy::{Allocate, Share, Steer};
use crate::unit::{Time, Weight, Work};

/// One line of a journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When, in ns.
    pub now: Time,
    /// What.
    pub event: Event,
}

/// A call of the scheduler, with its answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// [`Scheduler::on_arrival`].
    Arrival {
        /// The packet, as the driver handed it over.
        packet: Packet,
        /// The slot, or why there is none.
        answer: Arrival,
    },
    /// [`Scheduler::next_core`] named this core.
    Core(CoreId),
    /// [`Scheduler::next`].
    Next {
        /// The core that asked.
        core: CoreId,
        /// What it serves.
        answer: Option<Given>,
    },
    /// [`Scheduler::on_completion`] or [`Scheduler::on_end`].
    Completion {
        /// The packet's slot.
        slot: Slot,
        /// How long its core was busy with it, in ns.
        busy: Time,
        /// Whether the packet ended at its service.
        ends: bool,
        /// What it was charged.
        used: Work,
        /// The next service of its chain.
        onward: Option<ServiceId>,
        /// Where it waits for earlier packets of its flow.
        exit: Option<ExitSlot>,
    },
    /// [`Scheduler::next_switch`] named this one.
    Switch(Switch),
    /// [`Scheduler::on_switched`].
    Switched(CoreId),
    /// [`Scheduler::next_dropped`] named this slot.
    Dropped(Slot, DropReason),
    /// [`Scheduler::next_exit`] named this place.
    Exit(ExitSlot),
    /// [`Scheduler::on_timeout`].
    Timeout,
    /// [`Scheduler::on_client_end`].
    ClientEnd(ClientId),
    /// [`Scheduler::on_flow_end`].
    FlowEnd(FlowId),
    /// [`Scheduler::set_weight`].
    Weight(ClientId, Weight),
    /// [`Scheduler::withhold`].
    Withhold(ClientId),
    /// [`Scheduler::end_withholding`].
    EndWithholding(ClientId),
    /// Another policy took over: what the driver calls it.
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

/// Where a scheduler writes its journal.
pub trait Journal: Debug {
    /// One more record. A journal that cannot be written says so at its end, not here.
    fn record(&mut self, record: Record);
}

/// The first record of a journal to which a scheduler gave another answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    /// What the journal says.
    pub expected: Record,
    /// What the scheduler did.
    pub found: String,
    /// Its answer, where it gave one.
    pub answer: Option<Box<Event>>,
}

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Does what the record says, and compares the answer.
    ///
    /// # Errors
    /// Another answer than the record's.
    ///
    /// # Panics
    /// At [`Event::Swap`]: only who knows policies by name can play it.
    pub fn replay(&mut self, record: &Record) -> Result<(), Divergence> {
        let now = record.now;
        let found = match record.event.clone() {
            Event::Arrival { packet, .. } => {
                let answer = self.on_arrival(now, packet);
                Event::Arrival { packet, answer }
            }
            Event::Core(expected) => match self.next_core(now) {
                Some(core) => Event::Core(core),
                None => return Err(self.no(record, &format!("no core, not core {expected}"))),
            },
            Event::Next { core, .. } => {
                let answer = self.next(now, core).map(|given| Given { slot: given.slot, cold: given.cold });
                Event::Next { core, answer }
            }
            Event::Completion { slot, busy, ends, .. } => {
                if !self.is_in_service(slot) {
                    return Err(self.no(record, "no packet in service in this slot"));
                }
                let done = if ends { self.on_end(now, slot, busy) } else { self.on_completion(now, slot, busy) };
                Event::Completion { slot, busy, ends, used: done.used, onward: done.onward, exit: done.exit }
            }
            Event::Switch(_) => match self.next_switch() {
                Some(switch) => Event::Switch(switch),
                None => return Err(self.no(record, "no core switches")),
            },
            Event::Switched(core) => {
                self.on_switched(now, core);
                Event::Switched(core)
            }
            Event::Dropped(..) => match self.next_dropped() {
                Some(dropped) => Event::Dropped(dropped.slot, dropped.reason),
                None => return Err(self.no(record, "no packet is dropped")),
            },
            Event::Exit(_) => match self.next_exit() {
                Some(exit) => Event::Exit(exit.place),
                None => return Err(self.no(record, "no packet leaves")),
            },
            Event::Timeout => {
                self.on_timeout(now);
                Event::Timeout
            }
            Event::ClientEnd(client) => {
                self.on_client_end(now, client);
                Event::ClientEnd(client)
            }
            Event::FlowEnd(flow) => {
                self.on_flow_end(now, flow);
                Event::FlowEnd(flow)
            }
            Event::Weight(client, weight) => {
                self.set_weight(now, client, weight);
                Event::Weight(client, weight)
            }
            Event::Withhold(client) => {
                self.withhold(now, client);
                Event::Withhold(client)
            }
            Event::EndWithholding(client) => {
                self.end_withholding(now, client);
                Event::EndWithholding(client)
            }
            Event::Swap(policy) => panic!("`{policy}` takes over, which only its host can do"),
        };
        if found == record.event {
            return Ok(());
        }
        Err(Divergence { answer: Some(Box::new(found.clone())), ..self.no(record, &format!("{found:?}")) })
    }

    fn no(&self, expected: &Record, found: &str) -> Divergence {
        Divergence { expected: expected.clone(), found: found.into(), answer: None }
    }
}
