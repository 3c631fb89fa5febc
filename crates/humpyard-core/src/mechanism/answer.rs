//! What the mechanism answers.

use serde::{Deserialize, Serialize};

use super::account::DropReason;
use super::allocation::Switch;
use super::exit::Exit;
use crate::id::{ExitSlot, ServiceId, Slot};
use crate::packet::Packet;
use crate::policy::Apart;
use crate::unit::Work;

/// What became of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// It waits in this slot.
    Queued(Slot),
    /// It is gone.
    Dropped(DropReason),
}

/// A packet to be served: a copy of it, or a `&Packet` that the scheduler lends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch<P = Packet> {
    /// Its slot, to be named at completion.
    pub slot: Slot,
    /// The packet.
    pub packet: P,
    /// Whether the core's previous packet had another service, or there was none.
    pub cold: bool,
    /// How far it is from the core that had the packet of its flow before; none where that is the same core, or there was none,
    /// or nobody keeps account of it: [`Measured`](crate::measure::Measured) does where the run has a topology.
    pub moved: Option<Apart>,
}

impl Dispatch<&Packet> {
    /// The same, with a copy of the packet.
    #[inline]
    #[must_use]
    pub fn copied(&self) -> Dispatch {
        let Self { slot, packet, cold, moved } = *self;
        Dispatch { slot, packet: *packet, cold, moved }
    }
}

/// A packet that was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// The packet.
    pub packet: Packet,
    /// What it was charged in the end, in the unit of the run.
    pub used: Work,
    /// The next service of its chain, to which it goes on in the same slot; none if this was the last, or it ends here.
    pub onward: Option<ServiceId>,
    /// Whether it ends here: it does not leave.
    pub ends: bool,
    /// Where it waits for earlier packets of its flow; none if it leaves now, or does not leave now.
    pub exit: Option<ExitSlot>,
}

/// What became of a packet that was served, without the packet: see [`Completed`].
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub(crate) used: Work,
    pub(crate) onward: Option<ServiceId>,
    pub(crate) ends: bool,
    pub(crate) exit: Option<ExitSlot>,
    /// Whether the packet found its core cold.
    pub(crate) cold: bool,
}

impl Done {
    /// Returns the same with the packet.
    #[inline(always)]
    pub fn of(self, packet: Packet) -> Completed {
        let Self { used, onward, ends, exit, .. } = self;
        Completed { packet, used, onward, ends, exit }
    }

    /// Returns whether the packet leaves now.
    #[inline(always)]
    pub const fn leaves(&self) -> bool {
        self.onward.is_none() && self.exit.is_none() && !self.ends
    }
}

/// A packet that had a slot, and is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Dropped {
    /// Its slot until now.
    pub slot: Slot,
    /// The packet.
    pub packet: Packet,
    /// Why.
    pub reason: DropReason,
}

/// What follows from a call: see [`Scheduler::next_effect`](super::Scheduler::next_effect).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A packet was dropped after it had been given a slot, which is free from now on: it was pushed out, or no room was left
    /// where it went after it was held back, or after a hop.
    Dropped(Dropped),
    /// A packet that waited at the exit for earlier ones of its flow leaves now.
    Left(Exit),
    /// A core begins to go over to another service. The driver calls [`Scheduler::on_switched`](super::Scheduler::on_switched)
    /// when the switch is over.
    Switch(Switch),
}
