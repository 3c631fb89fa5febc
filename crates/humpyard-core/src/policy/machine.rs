//! The machine as an allocation policy sees it.

use alloc::vec;
use alloc::vec::Vec;

use super::Move;
use crate::id::{CoreId, IdVec, ServiceId};
use crate::storage::IdRings;
use crate::unit::Time;

/// The present activity of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Idle since this time.
    Idle(Time),
    /// Serving packets without a pause since this time.
    Busy(Time),
    /// Switching to its service.
    Switching,
}

/// The state of a core, as an allocation policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreState {
    /// The service the core works for, or will work for when its switch is over.
    pub service: ServiceId,
    /// The core's present activity.
    pub activity: Activity,
    /// Whether the core changes to its service as soon as its packet is done.
    pub leaving: bool,
    /// Since when it has belonged to its service.
    pub held_since: Time,
}

impl CoreState {
    /// Whether the core may be moved now: it is neither switching nor about to switch.
    pub fn is_movable(&self) -> bool {
        !self.leaving && self.activity != Activity::Switching
    }

    /// Since when it has been idle, if it is.
    #[inline]
    pub fn idle_since(&self) -> Option<Time> {
        if let Activity::Idle(since) = self.activity { Some(since) } else { None }
    }
}

/// The state of a service, as an allocation policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServiceState {
    /// Packets waiting.
    pub waiting: u32,
    /// When the first of them arrived.
    pub oldest: Option<Time>,
    /// Cores of the service, including those that are switching to it.
    pub cores: u32,
    /// Cores of the service that are idle.
    pub idle: u32,
}

impl ServiceState {
    /// Packets that wait although every idle core of the service takes one.
    #[inline]
    pub fn backlog(&self) -> u32 {
        self.waiting.saturating_sub(self.idle)
    }
}

/// All that an allocation policy may know of the machine.
///
/// The mechanism reports every event to it. A program that uses a policy without the mechanism must
/// do the same.
#[derive(Clone, Debug)]
pub struct Machine {
    cores: IdVec<CoreId, CoreState>,
    services: IdVec<ServiceId, ServiceState>,
    /// The idle cores of each service, longest idle first, then by id.
    idle: IdRings<ServiceId, CoreId>,
    /// The movable cores of each service, longest held first, then by id.
    held: IdRings<ServiceId, CoreId>,
    /// The services whose code each core keeps, latest first.
    kept: IdVec<CoreId, Vec<ServiceId>>,
    /// How many these are at most.
    services_per_core: usize,
}

impl Machine {
    /// Returns a machine of idle cores; `initial` gives the service of each core.
    pub fn new(initial: &IdVec<CoreId, ServiceId>, services: usize) -> Self {
        let idle = Activity::Idle(Time::ZERO);
        let core = |service| CoreState { service, activity: idle, leaving: false, held_since: Time::ZERO };
        let mut machine = Self {
            cores: initial.iter().map(|&service| core(service)).collect(),
            services: IdVec::from_fn(services, |_| ServiceState::default()),
            idle: IdRings::new(services, initial.len()),
            held: IdRings::new(services, initial.len()),
            kept: initial.iter().map(|&service| vec![service]).collect(),
            services_per_core: 1,
        };
        for core in initial.ids() {
            let service = initial[core];
            machine.services[service].cores += 1;
            machine.services[service].idle += 1;
            machine.idle.push_back(service, core);
            machine.held.push_back(service, core);
        }
        machine
    }

    /// Sets how many services each core keeps the code of, from 1 (default 1). A core keeps the
    /// services that it worked for last.
    #[must_use]
    pub fn keeping(mut self, services: usize) -> Self {
        let more = services.max(1) - 1;
        self.kept.iter_mut().for_each(|kept| kept.reserve_exact(more));
        self.services_per_core = services.max(1);
        self
    }

    /// Whether the core keeps the code of this service, so that to go there takes it no time.
    #[inline]
    pub fn keeps(&self, core: CoreId, service: ServiceId) -> bool {
        self.kept[core].contains(&service)
    }

    /// Every core.
    pub fn cores(&self) -> &IdVec<CoreId, CoreState> {
        &self.cores
    }

    /// Every service.
    pub fn services(&self) -> &IdVec<ServiceId, ServiceState> {
        &self.services
    }

    /// Returns the state of a core.
    #[inline]
    pub fn core(&self, core: CoreId) -> &CoreState {
        &self.cores[core]
    }

    /// Returns the state of a service.
    #[inline]
    pub fn service(&self, service: ServiceId) -> &ServiceState {
        &self.services[service]
    }

    /// The idle cores of a service, longest idle first; of several idle since then the lower id.
    #[inline]
    pub fn idle(&self, service: ServiceId) -> impl Iterator<Item = CoreId> + '_ {
        self.idle.iter(service)
    }

    /// The idle cores of a service, latest idle first: [`Machine::idle`] backwards.
    #[inline]
    pub fn latest_idle(&self, service: ServiceId) -> impl Iterator<Item = CoreId> + '_ {
        self.idle.iter_back(service)
    }

    /// Returns the core of a service that became idle last, if no other core became idle at the
    /// same instant. [`Machine::latest_idle`] tries this first. O(1).
    #[inline]
    pub fn last_idle(&self, service: ServiceId) -> Option<CoreId> {
        let last = self.idle.back(service)?;
        let before = self.idle.previous(last);
        let is_alone = before == last || self.cores[before].idle_since() != self.cores[last].idle_since();
        is_alone.then_some(last)
    }

    /// The movable cores of a service, longest held first; of several held since then the lower id.
    #[inline]
    pub fn held(&self, service: ServiceId) -> impl Iterator<Item = CoreId> + '_ {
        self.held.iter(service)
    }

    /// Sets the number of packets that wait for a service, and when the first of them arrived.
    #[inline(always)]
    pub fn set_waiting(&mut self, service: ServiceId, waiting: u32, oldest: Option<Time>) {
        let state = &mut self.services[service];
        (state.waiting, state.oldest) = (waiting, oldest);
    }

    /// The core serves a packet. O(1).
    #[inline(always)]
    pub fn on_dispatch(&mut self, now: Time, core: CoreId) {
        let state = &mut self.cores[core];
        if let Activity::Idle(_) = state.activity {
            state.activity = Activity::Busy(now);
            let service = state.service;
            self.leave_idle(service, core);
        }
    }

    /// Marks the core as idle. O(1), plus the cores that became idle at the same instant.
    #[inline(always)]
    pub fn on_idle(&mut self, now: Time, core: CoreId) {
        if let Activity::Busy(_) = self.cores[core].activity {
            self.enter_idle(now, core);
        }
    }

    /// Applies a move: a core without a packet begins to switch; any other core leaves when its
    /// packet is done.
    ///
    /// # Panics
    /// If the core is not movable, or belongs to that service already.
    pub fn on_move(&mut self, Move { core, to }: Move, is_empty: bool) {
        let CoreState { service: from, activity, .. } = self.cores[core];
        assert!(self.cores[core].is_movable(), "core {core} cannot be moved: {:?}", self.cores[core]);
        assert_ne!(from, to, "core {core} belongs to service {to} already");
        self.services[from].cores -= 1;
        self.services[to].cores += 1;
        self.held.remove(from, core);
        if let Activity::Idle(_) = activity {
            self.leave_idle(from, core);
        }
        let state = &mut self.cores[core];
        state.service = to;
        state.leaving = !is_empty;
        if is_empty {
            state.activity = Activity::Switching;
        }
    }

    /// A core that was to leave begins to switch.
    pub fn on_leave(&mut self, core: CoreId) {
        self.cores[core].leaving = false;
        self.cores[core].activity = Activity::Switching;
    }

    /// Ends the core's switch: it is idle at its new service until it gets a packet.
    ///
    /// # Panics
    /// If it was not switching.
    pub fn on_switched(&mut self, now: Time, core: CoreId) {
        let state = &mut self.cores[core];
        assert_eq!(state.activity, Activity::Switching, "core {core} was not switching");
        state.held_since = now;
        let service = state.service;
        self.keep(core, service);
        let cores = &self.cores;
        self.held.insert_by(cores[core].service, core, |core| (cores[core].held_since, core));
        self.enter_idle(now, core);
    }

    /// Lets the core keep the code of this service, in place of the least recently used one.
    fn keep(&mut self, core: CoreId, service: ServiceId) {
        let kept = &mut self.kept[core];
        match kept.iter().position(|&known| known == service) {
            Some(at) => kept[..=at].rotate_right(1),
            None => {
                kept.truncate(self.services_per_core - 1);
                kept.insert(0, service);
            }
        }
    }

    #[inline]
    fn enter_idle(&mut self, now: Time, core: CoreId) {
        let state = &mut self.cores[core];
        state.activity = Activity::Idle(now);
        let service = state.service;
        self.services[service].idle += 1;
        match self.idle.back(service) {
            Some(last) if self.cores[last].activity == Activity::Idle(now) => {
                let cores = &self.cores;
                self.idle.insert_by(service, core, |core| (cores[core].idle_since(), core));
            }
            _ => self.idle.push_back(service, core),
        }
    }

    #[inline]
    fn leave_idle(&mut self, service: ServiceId, core: CoreId) {
        self.services[service].idle -= 1;
        self.idle.remove(service, core);
    }

    /// Panics unless counts and orders agree with what each core does. Slow: for tests.
    pub fn check(&self) {
        for service in self.services.ids() {
            let own = || self.cores.ids().filter(|&core| self.cores[core].service == service);
            let state = &self.services[service];
            assert_eq!(own().count(), state.cores as usize, "cores of service {service}");
            let is_idle = |core: &CoreId| self.cores[*core].idle_since().is_some();
            assert_eq!(own().filter(is_idle).count(), state.idle as usize, "idle cores of service {service}");
            let idle = self.idle(service).inspect(|core| assert!(is_idle(core), "core {core} is not idle"));
            assert_eq!(idle.count(), state.idle as usize, "idle cores of service {service} in order");
            if let Some(last) = self.last_idle(service) {
                assert_eq!(self.latest_idle(service).next(), Some(last), "the core of service {service} idle last");
            }
            assert!(self.idle(service).is_sorted_by_key(|core| (self.cores[core].idle_since(), core)));
            let movable = own().filter(|&core| self.cores[core].is_movable()).count();
            assert_eq!(self.held(service).count(), movable, "movable cores of service {service} in order");
            assert!(self.held(service).is_sorted_by_key(|core| (self.cores[core].held_since, core)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    fn us(us: u64) -> Time {
        Time::from_ns(1000 * us)
    }

    fn cores(cores: impl Iterator<Item = CoreId>) -> Vec<u16> {
        cores.map(|core| core.0).collect()
    }

    #[test]
    fn a_core_goes_over() {
        let (a, b) = (ServiceId(0), ServiceId(1));
        let mut machine = Machine::new(&[a, a, b].into_iter().collect(), 2);
        machine.on_dispatch(us(1), CoreId(0));
        assert_eq!((cores(machine.idle(a)), cores(machine.held(a))), (vec![1], vec![0, 1]));
        machine.on_move(Move { core: CoreId(0), to: b }, false);
        assert!(machine.core(CoreId(0)).leaving && !machine.core(CoreId(0)).is_movable());
        assert_eq!((machine.service(a).cores, machine.service(b).cores), (1, 2));
        machine.on_leave(CoreId(0));
        machine.on_switched(us(9), CoreId(0));
        assert_eq!((cores(machine.idle(b)), cores(machine.held(b))), (vec![2, 0], vec![2, 0]));
        assert_eq!(cores(machine.latest_idle(b)), [0, 2]);
        machine.check();
    }

    #[test]
    fn the_latest_services_are_kept() {
        let mut machine = Machine::new(&[ServiceId(0)].into_iter().collect(), 4).keeping(2);
        let core = CoreId(0);
        for (to, kept) in [(1, [0, 1]), (2, [1, 2]), (1, [2, 1]), (3, [1, 3])] {
            machine.on_move(Move { core, to: ServiceId(to) }, true);
            machine.on_switched(us(1), core);
            let keeps: Vec<u16> = (0..4).filter(|&service| machine.keeps(core, ServiceId(service))).collect();
            let mut expected = Vec::from(kept);
            expected.sort_unstable();
            assert_eq!(keeps, expected);
        }
    }

    #[test]
    fn whatever_happens_counts_and_orders_agree() {
        let mut random = Seed(3).stream("test");
        let mut machine = Machine::new(&(0..12).map(|core| ServiceId(core % 3)).collect(), 3);
        for step in 0..5000 {
            let core = CoreId(random.below(12) as u16);
            let now = us(step / 4);
            match (random.below(3), machine.core(core).activity) {
                (_, Activity::Switching) => machine.on_switched(now, core),
                (0, _) if machine.core(core).leaving => machine.on_leave(core),
                (0, activity) => {
                    let to = ServiceId(random.below(3) as u16);
                    if to != machine.core(core).service {
                        machine.on_move(Move { core, to }, matches!(activity, Activity::Idle(_)));
                    }
                }
                (1, _) => machine.on_dispatch(now, core),
                _ if !machine.core(core).leaving => machine.on_idle(now, core),
                _ => {}
            }
            machine.check();
        }
    }
}
