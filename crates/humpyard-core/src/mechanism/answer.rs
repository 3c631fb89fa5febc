//! The answers of the mechanism.

use serde::{Deserialize, Serialize};

use super::account::DropReason;
use super::allocation::Switch;
use super::exit::Exit;
use crate::id::{ExitSlot, ServiceId, Slot};
use crate::packet::Packet;
use crate::policy::CoreDistance;
use crate::unit::Work;

/// What happened to an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// It waits in this slot.
    Queued(Slot),
    /// It was dropped.
    Dropped(DropReason),
}

/// A packet to be served: a copy, or a `&Packet` that the scheduler lends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch<P = Packet> {
    /// Its slot; the driver passes it back at completion.
    pub slot: Slot,
    /// The packet.
    pub packet: P,
    /// Whether the core's previous packet had another service, or there was none.
    pub cold: bool,
    /// The distance from the core that served the flow's previous packet. `None`: it is the same
    /// core, there was no previous packet, or nobody counts moves.
    /// [`Measured`](crate::measure::Measured) counts them if the run has a topology.
    pub moved: Option<CoreDistance>,
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
    /// The work that it was finally charged, in the unit of the run.
    pub used: Work,
    /// The next service of its chain, to which it goes in the same slot. `None`: this was the last
    /// service, or the packet ends here.
    pub onward: Option<ServiceId>,
    /// Whether the packet ends here and does not leave.
    pub ends: bool,
    /// The place at the exit where it waits for earlier packets of its flow. `None`: it leaves now,
    /// or goes on, or ends.
    pub exit: Option<ExitSlot>,
}

/// The result for a packet that was served, without the packet: see [`Completed`].
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

/// A packet that had a slot and was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Dropped {
    /// The slot that it had.
    pub slot: Slot,
    /// The packet.
    pub packet: Packet,
    /// The reason.
    pub reason: DropReason,
}

/// A consequence of a call: see [`Scheduler::next_effect`](super::Scheduler::next_effect).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A packet was dropped after it had a slot, which is now free. It was pushed out, or its queue
    /// had no room after it was held back or after a hop.
    Dropped(Dropped),
    /// A packet that waited at the exit for earlier ones of its flow leaves now.
    Left(Exit),
    /// A core begins to switch to another service. The driver calls
    /// [`Scheduler::on_switched`](super::Scheduler::on_switched) when the switch is over.
    Switch(Switch),
}
