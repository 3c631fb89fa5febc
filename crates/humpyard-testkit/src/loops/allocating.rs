//! The loop of an allocation policy.

use std::collections::VecDeque;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::LinearCost;
use humpyard_core::hash::mix;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::policy::{Allocate, Build, Cause, Machine};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

/// An allocation policy and its cores. They serve packets of 10 us, at two thirds of their
/// capacity, and switch between services.
pub struct Allocating<A> {
    policy: A,
    machine: Machine,
    now: Time,
    /// The time between two arrivals.
    gap: Time,
    switch_cost: Time,
    /// When the packets that wait arrived, by service.
    waiting: IdVec<ServiceId, VecDeque<Time>>,
    /// The idle cores of each service.
    idle: IdVec<ServiceId, IdSet<CoreId>>,
    /// The busy cores, in the order in which they will be done.
    busy: VecDeque<CoreId>,
    /// The cores that are switching, and when they arrive.
    switching: VecDeque<(Time, CoreId)>,
    /// Packets waiting and in service.
    held: usize,
    /// The number of packets from which on every arrival also completes one.
    held_max: usize,
    arrived: u64,
}

impl<A: Allocate + Build> Allocating<A> {
    /// Makes a host without packets; `switch_cost` is the time that a core takes to change its service.
    ///
    /// # Panics
    /// If the policy rejects these numbers of services and cores.
    pub fn new(services: usize, cores: usize, switch_cost: Time) -> Self {
        let service = ServiceConfig {
            packet_time: Time::from_ns(10_000),
            switch_cost,
            tolerance: Time::from_ns(500_000),
            guarantee_millionths: (1_000_000 / services) as u32,
            ..ServiceConfig::default()
        };
        let (all, estimates) = (vec![service; services], vec![LinearCost::BYTES; services]);
        let config = SchedulerConfig::new(cores).with_services(all, estimates);
        let mut policy = A::new(&A::Params::default(), &config).expect("defaults fit");
        let mut initial = IdVec::from_fn(cores, |_| ServiceId(0));
        policy.initial(&mut initial);
        let mut idle = IdVec::from_fn(services, |_| IdSet::new(cores));
        initial.ids().for_each(|core| idle[initial[core]].insert(core));
        Self {
            policy,
            machine: Machine::new(&initial, services),
            now: Time::ZERO,
            gap: Time::from_ns(15_000 / cores as u64),
            switch_cost,
            waiting: IdVec::from_fn(services, |_| VecDeque::with_capacity(1024)),
            idle,
            busy: VecDeque::with_capacity(cores),
            switching: VecDeque::with_capacity(cores),
            held: 0,
            held_max: cores * 2 / 3,
            arrived: 0,
        }
    }

    /// Lets a packet arrive and, if enough are in the host, completes one.
    pub fn step(&mut self) {
        self.now += self.gap;
        while let Some((_, core)) = self.switching.front().copied().filter(|&(time, _)| time <= self.now) {
            self.switching.pop_front();
            self.machine.on_switched(self.now, core);
            self.idle[self.machine.core(core).service].insert(core);
            self.has_nothing(core);
        }
        self.arrive();
        if self.held > self.held_max
            && let Some(core) = self.busy.pop_front()
        {
            self.complete(core);
        }
    }

    fn arrive(&mut self) {
        let service = ServiceId((((mix(self.arrived) >> 32) * self.waiting.len() as u64) >> 32) as u16);
        self.arrived += 1;
        self.held += 1;
        self.waiting[service].push_back(self.now);
        self.tell_waiting(service);
        self.policy.on_arrival(self.now, service);
        self.reassign(Cause::Arrival(service));
        self.serve(service);
    }

    fn complete(&mut self, core: CoreId) {
        let service = self.machine.core(core).service;
        self.held -= 1;
        self.policy.on_completion(self.now, core, service, Time::ZERO);
        if self.machine.core(core).leaving {
            self.machine.on_leave(core);
            self.switching.push_back((self.now + self.switch_cost, core));
            return;
        }
        self.reassign(Cause::Completion(core));
        if self.waiting[service].is_empty() {
            self.machine.on_idle(self.now, core);
            self.idle[service].insert(core);
            self.has_nothing(core);
        } else {
            self.waiting[service].pop_front();
            self.tell_waiting(service);
            self.busy.push_back(core);
        }
    }

    fn has_nothing(&mut self, core: CoreId) {
        let service = self.machine.core(core).service;
        if self.waiting[service].is_empty() {
            self.reassign(Cause::Idle(core));
        }
        self.serve(service);
    }

    /// Gives the packets that wait for the service to its idle cores.
    fn serve(&mut self, service: ServiceId) {
        while !self.waiting[service].is_empty() && !self.idle[service].is_empty() {
            let core = self.policy.place(service, &self.idle[service], &self.machine);
            self.idle[service].remove(core);
            self.machine.on_dispatch(self.now, core);
            self.waiting[service].pop_front();
            self.tell_waiting(service);
            self.busy.push_back(core);
        }
    }

    fn tell_waiting(&mut self, service: ServiceId) {
        let waiting = &self.waiting[service];
        self.machine.set_waiting(service, waiting.len() as u32, waiting.front().copied());
    }

    fn reassign(&mut self, cause: Cause) {
        while let Some(order) = self.policy.reassign(self.now, cause, &self.machine) {
            let from = self.machine.core(order.core).service;
            let is_idle = self.idle[from].contains(order.core);
            self.idle[from].remove(order.core);
            self.machine.on_move(order, is_idle);
            if is_idle {
                self.switching.push_back((self.now + self.switch_cost, order.core));
            }
        }
        if self.policy.next_timeout().is_some_and(|timeout| timeout <= self.now) {
            self.policy.on_timeout(self.now);
            self.reassign(Cause::Timeout);
        }
    }
}
