//! Push: which queue does an arriving packet join?

use super::{Policy, View};
use crate::id::{CoreId, FlowId};
use crate::packet::Packet;
use crate::unit::{Time, Work};

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The queue of this core, which must be eligible.
    Core(CoreId),
}

/// A steering policy.
pub trait Steer: Policy {
    /// The queue this packet joins. Asked exactly once for each packet that finds room.
    fn steer(&mut self, now: Time, packet: &Packet, view: &View<'_>) -> Target;

    /// The packet has joined the queue of `core`.
    fn on_enqueue(&mut self, _now: Time, _core: CoreId, _packet: &Packet) {}

    /// The packet found the queue of `core` full, and was dropped.
    fn on_drop(&mut self, _now: Time, _core: CoreId, _packet: &Packet) {}

    /// The flow is over, with no packet left: its id may be used for another.
    fn on_flow_end(&mut self, _now: Time, _flow: FlowId) {}

    /// `core` has finished the packet, which was `used` work.
    fn on_completion(&mut self, _now: Time, _core: CoreId, _packet: &Packet, _used: Work) {}
}
