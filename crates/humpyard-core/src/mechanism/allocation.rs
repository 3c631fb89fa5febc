//! Cores that belong to services: who has which, what each is doing, and the moves under way.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::config::SchedulerConfig;
use crate::id::{CoreId, IdVec, ServiceId};
use crate::policy::{Allocate, Cause, Machine, Move};
use crate::storage::IdSet;
use crate::unit::Time;

/// A core that has begun to go over to another service. The driver says when it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Switch {
    /// The core, which serves nothing meanwhile.
    pub core: CoreId,
    /// Where it goes.
    pub to: ServiceId,
    /// How long it takes.
    pub cost: Time,
}

/// The allocation policy, and all it may know.
#[derive(Debug)]
pub(super) struct Allocation<A> {
    pub(super) policy: A,
    machine: Machine,
    switch_costs: IdVec<ServiceId, Time>,
    /// Cores that each service had at the start of a policy that took over, until it has them.
    wanted: Option<IdVec<ServiceId, u32>>,
    /// Switches that have begun and that the driver has not yet been told of.
    begun: VecDeque<Switch>,
    /// The cores that were free when packets waited for their service, and have had none of them yet.
    hopeful: IdSet<CoreId>,
}

impl<A> Allocation<A> {
    /// Converts the type of the policy.
    pub(super) fn retype<A2>(self, policy: impl FnOnce(A) -> A2) -> Allocation<A2> {
        let Self { machine, switch_costs, wanted, begun, hopeful, .. } = self;
        Allocation { policy: policy(self.policy), machine, switch_costs, wanted, begun, hopeful }
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
            hopeful: IdSet::new(config.cores),
        }
    }

    #[inline]
    pub(super) fn service_of(&self, core: CoreId) -> ServiceId {
        self.machine.core(core).service
    }

    /// Whether the core is neither switching nor about to.
    #[inline]
    pub(super) fn is_movable(&self, core: CoreId) -> bool {
        self.machine.core(core).is_movable()
    }

    /// The packets that wait for a service are so many, the first of which arrived then.
    #[inline]
    pub(super) fn set_waiting(&mut self, service: ServiceId, waiting: u32, oldest: Option<Time>) {
        self.machine.set_waiting(service, waiting, oldest);
    }

    /// The core serves a packet.
    #[inline]
    pub(super) fn on_dispatch(&mut self, now: Time, core: CoreId) {
        self.hopeful.remove(core);
        self.machine.on_dispatch(now, core);
    }

    /// The core is free, and packets wait for its service: another core may have them all before it has one.
    #[inline]
    pub(super) fn on_hope(&mut self, core: CoreId) {
        self.hopeful.insert(core);
    }

    /// Whether a core was free when packets waited for its service, and has had none of them yet.
    #[inline(always)]
    pub(super) fn has_hopes(&self) -> bool {
        !self.hopeful.is_empty()
    }

    /// A core that was free when packets waited for this service, and has nothing now that none does.
    pub(super) fn next_disappointed(&mut self, now: Time, service: ServiceId) -> Option<CoreId> {
        let core = self.hopeful.iter().find(|&core| self.service_of(core) == service)?;
        self.hopeful.remove(core);
        self.machine.on_idle(now, core);
        Some(core)
    }

    /// The core has nothing to serve.
    #[inline]
    pub(super) fn on_idle(&mut self, now: Time, core: CoreId) {
        self.machine.on_idle(now, core);
    }

    /// The core has no packet any more: it goes, if it is to leave.
    #[inline]
    pub(super) fn on_empty(&mut self, core: CoreId) -> bool {
        let leaving = self.machine.core(core).leaving;
        if leaving {
            self.machine.on_leave(core);
            self.begin(core);
        }
        leaving
    }

    /// The core has arrived at its service, where it is idle until it is given a packet.
    pub(super) fn on_switched(&mut self, now: Time, core: CoreId) {
        self.machine.on_switched(now, core);
    }

    /// Asks the policy for its next move, and makes it; `empty` says whether a core has no packet in service. The core that
    /// begins to switch or will, if there is one.
    #[inline(always)]
    pub(super) fn reassign(&mut self, now: Time, cause: Cause, empty: impl Fn(CoreId) -> bool) -> Option<CoreId> {
        let order = self.policy.reassign(now, cause, &self.machine)?;
        self.move_core(order, empty);
        Some(order.core)
    }

    /// Another policy takes over, and cores move until each service has as many as it would have at the start; `empty` says
    /// whether a core has no packet in service. The cores that move, with the services they leave.
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

    /// Moves a core that its service has too many of, as long as the policy that took over has not what it began with. The
    /// service that it leaves.
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

    /// Cores that belong to a service, or will.
    pub(super) fn cores_coming_to(&self, service: ServiceId) -> usize {
        let wanted = self.wanted.as_ref().map_or(0, |wanted| wanted[service]);
        self.machine.service(service).cores.max(wanted) as usize
    }

    /// The policy moves cores itself from now on, if it moves any.
    pub(super) fn end_settling(&mut self) {
        if self.policy.moves() {
            self.wanted = None;
        }
    }

    /// The core goes to a service: at once if it is empty, else as soon as it is.
    #[inline(never)]
    fn move_core(&mut self, order: Move, empty: impl Fn(CoreId) -> bool) {
        let is_empty = empty(order.core);
        self.hopeful.remove(order.core);
        self.machine.on_move(order, is_empty);
        if is_empty {
            self.begin(order.core);
        }
    }

    /// Which of several cores takes the next packet of a service.
    pub(super) fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>) -> CoreId {
        let core = self.policy.place(service, idle, &self.machine);
        assert!(idle.contains(core), "core {core} is not idle");
        core
    }

    /// Whether the driver knows of every switch that has begun.
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

    /// The cores of each service at the start.
    pub(super) fn cores_of(&self, service: ServiceId) -> impl Iterator<Item = CoreId> + '_ {
        self.machine.cores().ids().filter(move |&core| self.service_of(core) == service)
    }
}
