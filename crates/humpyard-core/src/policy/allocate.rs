//! Allocate: which service does each core work for?

use super::Policy;
use crate::id::{CoreId, IdVec, ServiceId};
use crate::storage::IdSet;
use crate::unit::Time;

/// What a core is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Nothing, since then.
    Idle(Time),
    /// Serving packets, since then without a pause.
    Busy(Time),
    /// Going over to its service.
    Switching,
}

/// What an allocation policy sees of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreState {
    /// The service it works for, or will when its switch is over.
    pub service: ServiceId,
    /// What it is doing.
    pub activity: Activity,
    /// Whether it goes over to its service as soon as its packet is done.
    pub leaving: bool,
    /// Since when it has belonged to its service.
    pub held_since: Time,
}

impl CoreState {
    /// Whether it may be moved now: it is neither switching nor about to.
    pub fn is_movable(&self) -> bool {
        !self.leaving && self.activity != Activity::Switching
    }
}

/// What an allocation policy sees of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServiceState {
    /// Packets waiting.
    pub waiting: u32,
    /// When the first of them arrived.
    pub oldest: Option<Time>,
    /// Cores that belong to it, with those on their way.
    pub cores: u32,
    /// Those of them that are idle.
    pub idle: u32,
}

impl ServiceState {
    /// Packets that wait although every idle core of the service takes one.
    pub fn backlog(&self) -> u32 {
        self.waiting.saturating_sub(self.idle)
    }
}

/// All that an allocation policy may know of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Every core.
    pub cores: &'a IdVec<CoreId, CoreState>,
    /// Every service.
    pub services: &'a IdVec<ServiceId, ServiceState>,
}

/// What happened that cores might move for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A packet of this service has arrived. An idle core of the service takes it, if there is one.
    Arrival(ServiceId),
    /// A core is done with a packet, and goes on with the next.
    Completion(CoreId),
    /// A core has nothing to do: its packet is done, or its switch is over, and nothing waits for its service.
    Idle(CoreId),
    /// The time has come that the policy asked for.
    Timeout,
}

/// An order: this core goes to this service, as soon as its packet is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The core, which must be movable.
    pub core: CoreId,
    /// The service, another than the core's.
    pub to: ServiceId,
}

/// An allocation policy.
pub trait Allocate: Policy {
    /// The service of each core at the start. Every service has at least one core.
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>);

    /// Whether cores ever move. Then each service has one queue, and steering has no place.
    fn moves(&self) -> bool {
        false
    }

    /// A packet of this service has arrived, and waits or is about to be served.
    fn on_arrival(&mut self, _now: Time, _service: ServiceId) {}

    /// A core is done with a packet of this service, which was delayed so long.
    fn on_completion(&mut self, _now: Time, _core: CoreId, _service: ServiceId, _delay: Time) {}

    /// The next core to move for this cause; asked again, with the move made, until there is none.
    fn reassign(&mut self, _now: Time, _cause: Cause, _machine: &Machine<'_>) -> Option<Move> {
        None
    }

    /// Which of a service's idle cores takes its next packet: a member of `idle`, which is not empty.
    fn place(&mut self, _service: ServiceId, idle: &IdSet<CoreId>, _machine: &Machine<'_>) -> CoreId {
        idle.first().expect("a core is idle")
    }
}
