//! Push: which queue does an arriving packet join?

use alloc::string::String;

use ambassador::delegatable_trait;

use super::{Policy, View};
use crate::id::{CoreId, ElementId, FlowId};
use crate::packet::Packet;
use crate::unit::{Time, Work};

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The queue of this core, which must be eligible.
    Core(CoreId),
    /// The queue of this element: the first of its cores that has room takes the packet.
    Element(ElementId),
    /// The queue of all cores: the first that has room takes the packet.
    Shared,
    /// Nowhere yet: the packet waits, and all that come after it, until a completion or a timeout; then the policy is asked
    /// again.
    Hold,
}

impl Target {
    /// The core, if the target is one.
    pub fn core(self) -> Option<CoreId> {
        if let Self::Core(core) = self { Some(core) } else { None }
    }
}

/// Which queues a steering policy uses, beside that of each core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reach {
    /// No other.
    Core,
    /// One for each element.
    Element,
    /// One for each element, and one for all cores.
    Shared,
}

/// A steering policy.
#[delegatable_trait]
pub trait Steer: Policy {
    /// The widest target it may answer. Asked once.
    fn reach(&self) -> Reach {
        Reach::Core
    }

    /// The queue this packet joins. Asked once for each packet that finds room, and again only after [`Target::Hold`].
    fn steer(&mut self, now: Time, packet: &Packet, view: &View<'_>) -> Target;

    /// The packet has joined the queue of `target`, or was there, or in service on that core, when the policy took over. The
    /// policy may not have been asked: flows that are split go to cores of their own (`SchedulerConfig::split`).
    fn on_enqueue(&mut self, _now: Time, _target: Target, _packet: &Packet) {}

    /// The packet, which was steered to `target`, found the queue full, and was dropped.
    fn on_drop(&mut self, _now: Time, _target: Target, _packet: &Packet) {}

    /// The packet, which had joined the queue of `target`, was dropped to make room for another.
    fn on_push_out(&mut self, _now: Time, _target: Target, _packet: &Packet) {}

    /// The packet goes to `core`, from the queue of `target`.
    fn on_dispatch(&mut self, _now: Time, _core: CoreId, _target: Target, _packet: &Packet) {}

    /// The flow is over, with no packet left: its id may be used for another.
    fn on_flow_end(&mut self, _now: Time, _flow: FlowId) {}

    /// `core` has finished the packet, which was `used` work.
    fn on_completion(&mut self, _now: Time, _core: CoreId, _packet: &Packet, _used: Work) {}

    /// Says in a sentence, for people, by what the policy would choose for this packet now. `None`: by the view, or by
    /// nothing that a sentence can say.
    fn explain(&self, _packet: &Packet, _view: &View<'_>) -> Option<String> {
        None
    }
}
