//! Allocate: which service does each core work for?

use ambassador::delegatable_trait;

use super::{Machine, Policy};
use crate::id::{CoreId, IdVec, ServiceId};
use crate::storage::IdSet;
use crate::unit::Time;

/// An event after which the policy may move cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A packet of this service has arrived. An idle core of the service takes it, if there is one.
    Arrival(ServiceId),
    /// A core is done with a packet, and continues with the next.
    Completion(CoreId),
    /// A core has nothing to do: its packet is done, or its switch is over, and nothing waits for its service.
    Idle(CoreId),
    /// The time that the policy named has come.
    Timeout,
}

/// An order: this core changes to this service as soon as its packet is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The core, which must be movable.
    pub core: CoreId,
    /// The new service, which differs from the core's present one.
    pub to: ServiceId,
}

/// An allocation policy.
#[delegatable_trait]
pub trait Allocate: Policy {
    /// The service of each core at the start. Every service has at least one core.
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>);

    /// Whether cores ever move. Then each service has one queue, and steering has no place.
    fn moves(&self) -> bool {
        false
    }

    /// Whether the policy reads [`ServiceState::oldest`](super::ServiceState::oldest). That costs
    /// an access to a packet for each arrival and dispatch. The answer must never change. If it is
    /// false, `oldest` is always `None`.
    fn heeds_oldest(&self) -> bool {
        true
    }

    /// A packet of this service has arrived, and waits or is about to be served.
    fn on_arrival(&mut self, _now: Time, _service: ServiceId) {}

    /// A core is done with a packet of this service; `delay` is the packet's delay.
    fn on_completion(&mut self, _now: Time, _core: CoreId, _service: ServiceId, _delay: Time) {}

    /// Returns the next core to move for this cause. The mechanism makes the move and asks again
    /// until the answer is `None`.
    fn reassign(&mut self, _now: Time, _cause: Cause, _machine: &Machine) -> Option<Move> {
        None
    }

    /// Which of a service's idle cores takes its next packet: a member of `idle`, which is not empty.
    fn place(&mut self, _service: ServiceId, idle: &IdSet<CoreId>, _machine: &Machine) -> CoreId {
        idle.first().expect("a core is idle")
    }
}
