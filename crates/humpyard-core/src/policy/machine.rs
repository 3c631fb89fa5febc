//! The machine as an allocation policy sees it.

use alloc::vec;
use alloc::vec::Vec;

use super::Move;
use crate::id::{CoreId, IdVec, ServiceId};
use crate::storage::IdRings;
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

    /// Since when it has been idle, if it is.
    #[inline]
    pub fn idle_since(&self) -> Option<Time> {
        if let Activity::Idle(since) = self.activity { Some(since) } else { None }
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
    #[inline]
    pub fn backlog(&self) -> u32 {
        self.waiting.saturating_sub(self.idle)
    }
}

/// All that an allocation policy may know of the machine.
///
/// The mechanism tells it what happens, and so does whoever asks a policy without one.
#[derive(Clone, Debug)]
pub struct Machine {
    cores: IdVec<CoreId, CoreState>,
    services: IdVec<ServiceId, ServiceState>,
    /// The idle cores of each service, longest idle first, then by id.
    idle: IdRings<ServiceId, CoreId>,
    /// The movable cores of each service, longest held first, then by id.
    held: IdRings<ServiceId, CoreId>,
    /// The services whose code each core keeps, the latest first.
    kept: IdVec<CoreId, Vec<ServiceId>>,
    /// How many these are at most.
    services_per_core: usize,
}

impl Machine {
    /// Idle cores that belong to so many services as `initial` says.
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

    /// With cores that keep the code of so many services each, from 1, which is what it is without this: of those they have
    /// worked for, the latest.
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

    /// What is known of a core.
    #[inline]
    pub fn core(&self, core: CoreId) -> &CoreState {
        &self.cores[core]
    }

    /// What is known of a service.
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

    /// The idle core of a service that is idle for the shortest time, if no other is idle since the same instant: what
    /// [`Machine::latest_idle`] begins with. O(1).
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

    /// The packets that wait for a service are so many, the first of which arrived then.
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

    /// The core has nothing to serve. O(1), but for cores idle since the same instant.
    #[inline(always)]
    pub fn on_idle(&mut self, now: Time, core: CoreId) {
        if let Activity::Busy(_) = self.cores[core].activity {
            self.enter_idle(now, core);
        }
    }

    /// A move is ordered: a core with no packet begins to switch, another leaves when its packet is done.
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

    /// The core has arrived at its service, where it is idle until it is given a packet.
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

    /// The core has the code of this service, in place of the one it has not worked for longest.
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
