//! The allocation of cores to services: the service and activity of each core, and the moves under
//! way.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::config::SchedulerConfig;
use crate::id::{CoreId, IdVec, ServiceId};
use crate::policy::{Allocate, Cause, Machine, Move};
use crate::storage::IdSet;
use crate::unit::Time;

/// A core that has begun to switch to another service. The driver reports when the switch is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Switch {
    /// The core, which serves nothing during the switch.
    pub core: CoreId,
    /// The new service.
    pub to: ServiceId,
    /// How long the switch takes.
    pub cost: Time,
}

/// The allocation policy, and the machine state that it sees.
#[derive(Debug)]
pub(super) struct Allocation<A> {
    pub(super) policy: A,
    machine: Machine,
    switch_costs: IdVec<ServiceId, Time>,
    /// After a takeover, the number of cores that the new policy wants for each service at its
    /// start, until it has them.
    wanted: Option<IdVec<ServiceId, u32>>,
    /// Switches that have begun and that the driver has not fetched yet.
    begun: VecDeque<Switch>,
    /// Cores that became free while packets waited for their service, and have got none of these
    /// packets yet.
    awaiting: IdSet<CoreId>,
}

impl<A> Allocation<A> {
    /// Converts the type of the policy.
    pub(super) fn retype<A2>(self, policy: impl FnOnce(A) -> A2) -> Allocation<A2> {
        let Self { machine, switch_costs, wanted, begun, awaiting, .. } = self;
        Allocation { policy: policy(self.policy), machine, switch_costs, wanted, begun, awaiting }
    }
}

impl<A: Allocate> Allocation<A> {
    pub(super) fn new(mut policy: A, config: &SchedulerConfig) -> Self {
        let mut initial = IdVec::from_fn(config.cores, |_| ServiceId(0));
        policy.initial(&mut initial);
        Self {
            policy,
            machine: Machine::new(&initial, config.services.len()).keeping(config.services_per_core),
            switch_costs: config.services.iter().map(|service| service.switch_cost).collect(),
            wanted: None,
            begun: VecDeque::with_capacity(config.cores),
            awaiting: IdSet::new(config.cores),
        }
    }

    #[inline]
    pub(super) fn service_of(&self, core: CoreId) -> ServiceId {
        self.machine.core(core).service
    }

    /// Whether the core is neither switching nor about to switch.
    #[inline]
    pub(super) fn is_movable(&self, core: CoreId) -> bool {
        self.machine.core(core).is_movable()
    }

    /// Sets the number of packets that wait for a service, and when the first of them arrived.
    #[inline]
    pub(super) fn set_waiting(&mut self, service: ServiceId, waiting: u32, oldest: Option<Time>) {
        self.machine.set_waiting(service, waiting, oldest);
    }

    /// The core serves a packet.
    #[inline]
    pub(super) fn on_dispatch(&mut self, now: Time, core: CoreId) {
        self.awaiting.remove(core);
        self.machine.on_dispatch(now, core);
    }

    /// Records that the core is free while packets wait for its service. Other cores may take all
    /// of them first.
    #[inline]
    pub(super) fn on_hope(&mut self, core: CoreId) {
        self.awaiting.insert(core);
    }

    /// Whether a core became free while packets waited for its service, and has got none of them
    /// yet.
    #[inline(always)]
    pub(super) fn has_awaiting(&self) -> bool {
        !self.awaiting.is_empty()
    }

    /// Returns a core that became free while packets waited for this service; now none waits, so
    /// the core is idle.
    pub(super) fn next_idle_after_waiting(&mut self, now: Time, service: ServiceId) -> Option<CoreId> {
        let core = self.awaiting.iter().find(|&core| self.service_of(core) == service)?;
        self.awaiting.remove(core);
        self.machine.on_idle(now, core);
        Some(core)
    }

    /// Records that the core has nothing to serve.
    #[inline]
    pub(super) fn on_idle(&mut self, now: Time, core: CoreId) {
        self.machine.on_idle(now, core);
    }

    /// Records that the core has no packet any more. A leaving core begins its switch. Returns
    /// whether it does.
    #[inline]
    pub(super) fn on_empty(&mut self, core: CoreId) -> bool {
        let leaving = self.machine.core(core).leaving;
        if leaving {
            self.machine.on_leave(core);
            self.begin(core);
        }
        leaving
    }

    /// Records that the core has arrived at its service; it is idle until it gets a packet.
    pub(super) fn on_switched(&mut self, now: Time, core: CoreId) {
        self.machine.on_switched(now, core);
    }

    /// Asks the policy for its next move and makes it; `empty` says whether a core has no packet in
    /// service. Returns the core that begins to switch, or will switch.
    #[inline(always)]
    pub(super) fn reassign(&mut self, now: Time, cause: Cause, empty: impl Fn(CoreId) -> bool) -> Option<CoreId> {
        let order = self.policy.reassign(now, cause, &self.machine)?;
        self.move_core(order, empty);
        Some(order.core)
    }

    /// Replaces the policy. Cores move until each service has as many as the new policy gives it at
    /// the start. `empty` says whether a core has no packet in service. Returns the cores that
    /// move, with the services they leave.
    pub(super) fn take_over(&mut self, mut policy: A, empty: impl Fn(CoreId) -> bool) -> Vec<(CoreId, ServiceId)> {
        let mut initial = self.machine.cores().iter().map(|core| core.service).collect();
        policy.initial(&mut initial);
        self.policy = policy;
        let mut wanted: IdVec<ServiceId, u32> = self.machine.services().iter().map(|_| 0).collect();
        initial.iter().for_each(|&service| wanted[service] += 1);
        self.wanted = Some(wanted);
        let cores = initial.ids();
        cores.filter_map(|core| self.settle(core, &empty).map(|from| (core, from))).collect()
    }

    /// After a takeover, moves this core if its service has more cores than the new policy wants at
    /// its start. Returns the service that the core leaves.
    pub(super) fn settle(&mut self, core: CoreId, empty: impl Fn(CoreId) -> bool) -> Option<ServiceId> {
        let wanted = self.wanted.as_ref()?;
        let services = self.machine.services();
        let Some(to) = services.ids().find(|&to| services[to].cores < wanted[to]) else {
            self.wanted = None;
            return None;
        };
        let from = self.service_of(core);
        if !self.is_movable(core) || services[from].cores <= wanted[from] {
            return None;
        }
        self.move_core(Move { core, to }, empty);
        Some(from)
    }

    /// Returns the number of cores that belong to a service, or will.
    pub(super) fn cores_coming_to(&self, service: ServiceId) -> usize {
        let wanted = self.wanted.as_ref().map_or(0, |wanted| wanted[service]);
        self.machine.service(service).cores.max(wanted) as usize
    }

    /// Lets the policy move cores itself from now on, if it moves any.
    pub(super) fn end_settling(&mut self) {
        if self.policy.moves() {
            self.wanted = None;
        }
    }

    /// Moves the core to a service: at once if it is empty, else when its packet is done.
    #[inline(never)]
    fn move_core(&mut self, order: Move, empty: impl Fn(CoreId) -> bool) {
        let is_empty = empty(order.core);
        self.awaiting.remove(order.core);
        self.machine.on_move(order, is_empty);
        if is_empty {
            self.begin(order.core);
        }
    }

    /// Returns which of several idle cores takes the next packet of a service.
    pub(super) fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>) -> CoreId {
        let core = self.policy.place(service, idle, &self.machine);
        assert!(idle.contains(core), "core {core} is not idle");
        core
    }

    /// Whether the driver has fetched every switch that has begun.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.begun.is_empty()
    }

    #[inline]
    pub(super) fn next_switch(&mut self) -> Option<Switch> {
        self.begun.pop_front()
    }

    pub(super) fn check(&self) {
        self.machine.check();
        self.policy.check();
    }

    fn begin(&mut self, core: CoreId) {
        let to = self.service_of(core);
        let cost = if self.machine.keeps(core, to) { Time::ZERO } else { self.switch_costs[to] };
        self.begun.push_back(Switch { core, to, cost });
    }

    /// Returns the cores of each service at the start.
    pub(super) fn cores_of(&self, service: ServiceId) -> impl Iterator<Item = CoreId> + '_ {
        self.machine.cores().ids().filter(move |&core| self.service_of(core) == service)
    }
}
