//! Push: which queue does an arriving packet join?

use alloc::string::String;

use ambassador::delegatable_trait;

use super::{Policy, View};
use crate::id::{CoreId, ElementId, FlowId};
use crate::packet::Packet;
use crate::unit::{Time, Work};

/// The destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The queue of this core, which must be eligible.
    Core(CoreId),
    /// The queue of this element: the first of its cores that has room takes the packet.
    Element(ElementId),
    /// The queue of all cores: the first that has room takes the packet.
    Shared,
    /// No queue yet: the packet and all later ones wait until a completion or a timeout. Then the
    /// mechanism asks the policy again.
    Hold,
}

impl Target {
    /// Returns the target's core. `None`: the target is not a single core.
    pub fn core(self) -> Option<CoreId> {
        if let Self::Core(core) = self { Some(core) } else { None }
    }
}

/// Which queues a steering policy uses, beside that of each core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reach {
    /// Only the queues of single cores.
    Core,
    /// Also one queue for each element.
    Element,
    /// Also one queue for each element, and one for all cores.
    Shared,
}

/// A steering policy.
#[delegatable_trait]
pub trait Steer: Policy {
    /// Returns the widest target that [`Steer::steer`] may return. Called once.
    fn reach(&self) -> Reach {
        Reach::Core
    }

    /// Returns the time that each packet takes a core beyond its service, because the policy has it
    /// carry more. Called once, when a run is built. A simulation adds this time to the work of every
    /// packet. In other runs the service itself does this work.
    fn further_work(&self) -> Time {
        Time::ZERO
    }

    /// Returns the queue that this packet joins. Called once for each packet that has room, and
    /// again only after [`Target::Hold`].
    fn steer(&mut self, now: Time, packet: &Packet, view: &View<'_>) -> Target;

    /// The packet has joined the queue of `target`. When the policy takes over, the mechanism also
    /// reports the packets already in that queue or in service on that core. The policy may not
    /// have been asked about the packet: split flows go to cores of their own
    /// (`SchedulerConfig::split`).
    fn on_enqueue(&mut self, _now: Time, _target: Target, _packet: &Packet) {}

    /// The packet was steered to `target`, found the queue full, and was dropped.
    fn on_drop(&mut self, _now: Time, _target: Target, _packet: &Packet) {}

    /// The packet, which had joined the queue of `target`, was dropped to make room for another.
    fn on_push_out(&mut self, _now: Time, _target: Target, _packet: &Packet) {}

    /// The packet goes from the queue of `target` to `core`.
    fn on_dispatch(&mut self, _now: Time, _core: CoreId, _target: Target, _packet: &Packet) {}

    /// The flow has ended, with no packet left: its id may be used again.
    fn on_flow_end(&mut self, _now: Time, _flow: FlowId) {}

    /// `core` has finished the packet, which was `used` work.
    fn on_completion(&mut self, _now: Time, _core: CoreId, _packet: &Packet, _used: Work) {}

    /// Describes in a sentence, for people, how the policy would steer this packet now. `None`: the
    /// view alone decides, or no sentence can describe it.
    fn explain(&self, _packet: &Packet, _view: &View<'_>) -> Option<String> {
        None
    }
}
