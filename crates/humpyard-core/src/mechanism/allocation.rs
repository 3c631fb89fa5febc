//! Cores that belong to services: who has which, what each is doing, and the moves under way.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::id::{CoreId, IdVec, ServiceId};
use crate::policy::{Activity, Allocate, Cause, CoreState, Machine, Move, ServiceState, Setup};
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
    cores: IdVec<CoreId, CoreState>,
    services: IdVec<ServiceId, ServiceState>,
    switch_costs: IdVec<ServiceId, Time>,
    /// Switches that have begun and that the driver has not yet been told of.
    begun: VecDeque<Switch>,
}

impl<A: Allocate> Allocation<A> {
    pub(super) fn new(mut policy: A, setup: &Setup<'_>) -> Self {
        let mut initial = IdVec::from_fn(setup.cores, |_| ServiceId(0));
        policy.initial(&mut initial);
        let mut services = IdVec::from_fn(setup.services.len(), |_| ServiceState::default());
        for &service in &initial {
            services[service].cores += 1;
            services[service].idle += 1;
        }
        let idle = Activity::Idle(Time::ZERO);
        let core = |service| CoreState { service, activity: idle, leaving: false, held_since: Time::ZERO };
        Self {
            policy,
            cores: initial.iter().map(|&service| core(service)).collect(),
            services,
            switch_costs: setup.services.iter().map(|service| service.switch_cost).collect(),
            begun: VecDeque::with_capacity(setup.cores),
        }
    }

    pub(super) fn service_of(&self, core: CoreId) -> ServiceId {
        self.cores[core].service
    }

    /// Whether the core is neither switching nor about to.
    pub(super) fn is_movable(&self, core: CoreId) -> bool {
        self.cores[core].is_movable()
    }

    /// The packets that wait for a service are so many, the first of which arrived then.
    pub(super) fn set_waiting(&mut self, service: ServiceId, waiting: u32, oldest: Option<Time>) {
        self.services[service].waiting = waiting;
        self.services[service].oldest = oldest;
    }

    /// The core serves a packet.
    pub(super) fn on_dispatch(&mut self, now: Time, core: CoreId) {
        if let Activity::Idle(_) = self.cores[core].activity {
            self.set_activity(core, Activity::Busy(now));
        }
    }

    /// The core has nothing to serve.
    pub(super) fn on_idle(&mut self, now: Time, core: CoreId) {
        if let Activity::Busy(_) = self.cores[core].activity {
            self.set_activity(core, Activity::Idle(now));
        }
    }

    /// The core has no packet any more: it goes, if it is to leave.
    pub(super) fn on_empty(&mut self, core: CoreId) -> bool {
        let leaving = self.cores[core].leaving;
        if leaving {
            self.begin(core);
        }
        leaving
    }

    /// The core has arrived at its service, where it is idle until it is given a packet.
    pub(super) fn on_switched(&mut self, now: Time, core: CoreId) {
        assert_eq!(self.cores[core].activity, Activity::Switching, "core {core} was not switching");
        self.cores[core].held_since = now;
        self.set_activity(core, Activity::Idle(now));
    }

    /// Asks the policy for its next move, and makes it; `empty` says whether a core has no packet in service. The core that
    /// begins to switch or will, if there is one.
    pub(super) fn reassign(&mut self, now: Time, cause: Cause, empty: impl Fn(CoreId) -> bool) -> Option<CoreId> {
        let machine = Machine { cores: &self.cores, services: &self.services };
        let Move { core, to } = self.policy.reassign(now, cause, &machine)?;
        self.move_core(core, to, empty);
        Some(core)
    }

    /// Another policy takes over, and cores move until each service has as many as it would have at the start; `empty` says
    /// whether a core has no packet in service. The cores that move, with the services they leave.
    pub(super) fn take_over(&mut self, mut policy: A, empty: impl Fn(CoreId) -> bool) -> Vec<(CoreId, ServiceId)> {
        let mut initial = self.cores.iter().map(|core| core.service).collect();
        policy.initial(&mut initial);
        self.policy = policy;
        let mut wanted: IdVec<ServiceId, u32> = self.services.iter().map(|_| 0).collect();
        initial.iter().for_each(|&service| wanted[service] += 1);
        let mut moved = Vec::new();
        for core in self.cores.ids() {
            let from = self.cores[core].service;
            if !self.is_movable(core) || self.services[from].cores <= wanted[from] {
                continue;
            }
            let to = self.services.ids().find(|&to| self.services[to].cores < wanted[to]);
            let to = to.expect("what one service has too much another has too little");
            self.move_core(core, to, &empty);
            moved.push((core, from));
        }
        moved
    }

    /// The core goes to a service: at once if it is `empty`, else as soon as it is.
    fn move_core(&mut self, core: CoreId, to: ServiceId, empty: impl Fn(CoreId) -> bool) {
        let from = self.cores[core].service;
        assert!(self.cores[core].is_movable(), "core {core} cannot be moved: {:?}", self.cores[core]);
        assert_ne!(from, to, "core {core} belongs to service {to} already");
        self.services[from].cores -= 1;
        self.services[to].cores += 1;
        if let Activity::Idle(_) = self.cores[core].activity {
            self.services[from].idle -= 1;
            self.cores[core].activity = Activity::Switching;
        }
        self.cores[core].service = to;
        if empty(core) {
            self.begin(core);
        } else {
            self.cores[core].leaving = true;
        }
    }

    /// Which of several cores takes the next packet of a service.
    pub(super) fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>) -> CoreId {
        let machine = Machine { cores: &self.cores, services: &self.services };
        let core = self.policy.place(service, idle, &machine);
        assert!(idle.contains(core), "core {core} is not idle");
        core
    }

    pub(super) fn next_switch(&mut self) -> Option<Switch> {
        self.begun.pop_front()
    }

    pub(super) fn check(&self) {
        for service in self.services.ids() {
            let of = || self.cores.iter().filter(|core| core.service == service);
            let idle = of().filter(|core| matches!(core.activity, Activity::Idle(_))).count();
            let state = &self.services[service];
            assert_eq!((of().count(), idle), (state.cores as usize, state.idle as usize), "cores of service {service}");
        }
        self.policy.check();
    }

    fn begin(&mut self, core: CoreId) {
        let state = &mut self.cores[core];
        state.leaving = false;
        state.activity = Activity::Switching;
        let to = state.service;
        self.begun.push_back(Switch { core, to, cost: self.switch_costs[to] });
    }

    fn set_activity(&mut self, core: CoreId, activity: Activity) {
        let state = &mut self.cores[core];
        let idle = |activity: &Activity| u32::from(matches!(activity, Activity::Idle(_)));
        let service = &mut self.services[state.service];
        service.idle = service.idle + idle(&activity) - idle(&state.activity);
        state.activity = activity;
    }

    /// The cores of each service at the start.
    pub(super) fn cores_of(&self, service: ServiceId) -> impl Iterator<Item = CoreId> + '_ {
        self.cores.ids().filter(move |&core| self.cores[core].service == service)
    }
}
