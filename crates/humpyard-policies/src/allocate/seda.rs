//! SEDA: a service whose packets are slow gets a core that has been idle for a while.
//!
//! **Idea.** Delays are observed. When the 90th percentile of the latest hundred exceeds the
//! tolerance, the service gets a core from the free pool. It gets no other before that core can
//! have had an effect. A core that has been idle for long is in the pool. It keeps its service's
//! code, and leaves the pool with the next packet of that service.
//!
//! **Source.** Welsh, Culler, Brewer. SEDA. 2001; the row of observation schedulers in table 4 of
//! Everest (paper everest).
//!
//! **Promises.** A service with packets waiting is served eventually, even if it has lost all its
//! cores. No isolation: no service gives up a core that is in use.
//!
//! **Cost.** O(1); O(services) while a service is slow.
//!
//! **Invariants.** Only cores in the pool are moved.
//!
//! **Departures.** A service without a core completes no packet: it is slow when its first packet
//! exceeds the tolerance. A service without waiting packets takes no core, even if its latest
//! packets were slow. If any delay is tolerated, a core enters the pool after a switch time.

use alloc::vec::Vec;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::params;
use humpyard_core::policy::{Allocate, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

use super::eager::beyond_guarantee;
use super::idle::latest_idle;
use super::r#static::{check_cores, deal, guaranteed_cores};

params! {
    /// Parameters of SEDA.
    pub struct SedaParams {
        /// The number of completions between two checks of the delays.
        every: u64 = 10, in 1..=1_000, unit "packets";
    }
}

/// The state of one service.
#[derive(Clone, Debug)]
struct Service {
    guarantee_millionths: u32,
    tolerance: Time,
    switch_cost: Time,
    /// The longest time that a core is idle outside the pool, and that a packet waits without a core.
    patience: Time,
    delays: Delays,
    /// The number of packets done since the last check of the delays.
    done: u64,
    /// Whether the delays were too long at that check and the service has received no core since.
    slow: bool,
    /// The time when a core was last ordered for it.
    latest: Option<Time>,
}

/// The latest delays: which of them were too long.
#[derive(Clone, Copy, Default, Debug)]
struct Delays {
    /// One bit for each delay, the latest lowest.
    late: u128,
    len: u32,
}

impl Delays {
    fn push(&mut self, is_late: bool) {
        self.late = (self.late << 1 | u128::from(is_late)) & ((1 << LATEST) - 1);
        self.len = (self.len + 1).min(LATEST);
    }

    /// Whether the 90th percentile is too long: fewer than nine tenths of all delays are short enough.
    fn is_slow(self) -> bool {
        self.len - self.late.count_ones() < (9 * self.len).div_ceil(10)
    }
}

/// The number of delays remembered per service.
const LATEST: u32 = 100;

/// SEDA.
#[derive(Debug)]
pub struct Seda {
    /// The cores of each service at the start.
    initial: Vec<usize>,
    services: IdVec<ServiceId, Service>,
    /// The number of packets done between checks of the delays.
    every: u64,
    /// The services that are slow or have no core, and some that no longer are.
    seekers: IdSet<ServiceId>,
    /// The time when a core may go to one of them if no event happens before. `None`: there is no such time.
    alarm: Option<Time>,
}

impl Build for Seda {
    type Params = SedaParams;
    const INFO: Info = Info {
        name: "seda",
        family: Family::Allocate,
        summary: "a service whose latest packets were slow gets a core that has been idle for long",
        source: "SEDA (Welsh, Culler, Brewer 2001); table 4 of the Everest paper",
        promises: &[Promise::Served],
        complexity: "O(1); O(services) while one is slow",
    };
    const VARIANTS: &'static [&'static str] = &["every=1"];

    fn new(params: &SedaParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        check_cores("seda", config)?;
        let service = |service: &ServiceConfig| Service {
            guarantee_millionths: service.guarantee_millionths,
            tolerance: service.tolerance,
            switch_cost: service.switch_cost,
            patience: match service.tolerance {
                Time::MAX => service.switch_cost,
                tolerance => service.switch_cost.max(tolerance),
            },
            delays: Delays::default(),
            done: 0,
            slow: false,
            latest: None,
        };
        Ok(Self {
            initial: guaranteed_cores(config),
            services: config.services.iter().map(service).collect(),
            every: params.every,
            seekers: IdSet::new(config.services.len()),
            alarm: None,
        })
    }
}

impl Policy for Seda {
    fn next_timeout(&self) -> Option<Time> {
        self.alarm
    }

    fn on_timeout(&mut self, now: Time) {
        self.alarm = self.alarm.filter(|&alarm| alarm > now);
    }
}

impl Allocate for Seda {
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
        deal(&self.initial, allocation);
    }

    fn moves(&self) -> bool {
        true
    }

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, id: ServiceId, delay: Time) {
        let service = &mut self.services[id];
        service.delays.push(delay > service.tolerance);
        service.done += 1;
        if service.done >= self.every {
            service.done = 0;
            service.slow = service.delays.is_slow();
            if service.slow {
                self.seekers.insert(id);
            }
        }
    }

    #[inline]
    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        if let Cause::Arrival(id) = cause
            && machine.service(id).cores == 0
        {
            self.seekers.insert(id);
        }
        if self.seekers.is_empty() { None } else { self.serve(now, machine) }
    }

    #[inline]
    fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>, machine: &Machine) -> CoreId {
        latest_idle(service, idle, machine)
    }
}

impl Seda {
    /// Moves a core of the pool to the eligible service furthest below its guarantee.
    fn serve(&mut self, now: Time, machine: &Machine) -> Option<Move> {
        self.forget(machine);
        let eligible = self.seekers.iter().filter(|&id| self.eligible_at(machine, id) <= now);
        let lack = |id: ServiceId| beyond_guarantee(machine, self.services[id].guarantee_millionths, id);
        let ranked = eligible.filter_map(|id| Some((lack(id), core::cmp::Reverse(id), self.pooled(now, machine, id)?)));
        let Some((_, core::cmp::Reverse(to), core)) = ranked.max_by_key(|&(lack, id, _)| (lack, id)) else {
            self.alarm = self.next_chance(now, machine);
            return None;
        };
        self.services[to].slow = false;
        self.services[to].latest = Some(now);
        Some(Move { core, to })
    }

    /// Removes the seekers that have nothing waiting, or are no longer slow.
    fn forget(&mut self, machine: &Machine) {
        let mut next = self.seekers.first();
        while let Some(id) = next {
            next = self.seekers.after(id);
            let state = machine.service(id);
            if state.backlog() == 0 || !self.services[id].slow && state.cores > 0 {
                self.seekers.remove(id);
            }
        }
    }

    /// Returns the time from which a seeker may have a core.
    fn eligible_at(&self, machine: &Machine, id: ServiceId) -> Time {
        let service = &self.services[id];
        let spaced = service.latest.map_or(Time::ZERO, |latest| latest + service.switch_cost);
        let oldest = machine.service(id).oldest.unwrap_or_default();
        if service.slow { spaced } else { spaced.max(oldest + service.patience + Time::from_ns(1)) }
    }

    /// Returns the core longest in the pool, of another service.
    fn pooled(&self, now: Time, machine: &Machine, to: ServiceId) -> Option<CoreId> {
        let others = self.services.ids().filter(|&id| id != to);
        let idle = others.filter_map(|id| self.longest_idle(machine, id));
        let pooled = idle.filter(|&(_, _, from)| from <= now);
        pooled.min_by_key(|&(since, core, _)| (since, core)).map(|(_, core, _)| core)
    }

    /// Returns the core of a service that has been idle longest without a packet to take: since
    /// when, and when it enters the pool.
    fn longest_idle(&self, machine: &Machine, id: ServiceId) -> Option<(Time, CoreId, Time)> {
        let state = machine.service(id);
        let core = machine.idle(id).next().filter(|_| state.idle > state.waiting)?;
        let since = machine.core(core).idle_since()?;
        Some((since, core, since + self.services[id].patience + Time::from_ns(1)))
    }

    /// Returns the next time when a seeker may have a core or a core enters the pool.
    fn next_chance(&self, now: Time, machine: &Machine) -> Option<Time> {
        let pool = self.services.ids().filter_map(|id| self.longest_idle(machine, id)).map(|(_, _, from)| from);
        let eligible = self.seekers.iter().map(|id| self.eligible_at(machine, id));
        if self.seekers.is_empty() {
            return None;
        }
        pool.chain(eligible).filter(|&chance| chance > now && chance < Time::MAX).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{Bench, Scenario, service, us};
    use alloc::vec;

    fn bench(cores: &[u16]) -> Bench<Seda> {
        let busy: Vec<u16> = (0..cores.len() as u16).collect();
        let services = [300_000, 500_000, 200_000].map(|guarantee| service(10_000, 100, guarantee));
        Bench::new(&SedaParams::default(), &services, cores).busy(&busy)
    }

    #[test]
    fn the_ninetieth_of_a_hundred() {
        let mut delays = Delays::default();
        for packet in 0..100 {
            delays.push(packet % 10 == 0);
        }
        assert!(!delays.is_slow(), "10 of 100");
        delays.push(false);
        assert!(!delays.is_slow(), "the first has gone: 9");
        delays.push(true);
        delays.push(true);
        assert!(delays.is_slow(), "11");
        let mut few = Delays::default();
        assert!(!few.is_slow(), "of none");
        few.push(true);
        assert!(few.is_slow(), "of one");
    }

    #[test]
    fn a_slow_service_has_the_core_longest_in_the_pool() {
        let mut bench = bench(&[0, 1, 1, 2]);
        bench.idle(us(10), 2);
        bench.idle(us(20), 3);
        bench.arrival(us(200), 0, 50);
        for packet in 0..9 {
            assert_eq!(bench.completion(us(200 + packet), 0, us(101)), [], "looked at every ten");
        }
        assert_eq!(bench.completion(us(210), 0, us(101)), [(2, 0)], "idle for more than 100 us");
        for packet in 0..10 {
            assert_eq!(bench.completion(us(220 + packet), 0, us(101)), [], "the latest is not 50 us ago");
        }
        assert_eq!(bench.policy.next_timeout(), Some(us(260)));
        assert_eq!(bench.timeout(us(260)), [(3, 0)]);
    }

    #[test]
    fn a_core_is_in_the_pool_when_it_was_idle_for_long() {
        let mut bench = bench(&[0, 1, 2, 2]);
        bench.arrival(us(200), 0, 50);
        for packet in 0..10 {
            bench.completion(us(200 + packet), 0, us(101));
        }
        assert_eq!(bench.policy.next_timeout(), None, "no core is idle");
        assert_eq!(bench.idle(us(300), 1), []);
        let pooled = us(400) + Time::from_ns(1);
        assert_eq!(bench.policy.next_timeout(), Some(pooled));
        assert_eq!(bench.timeout(us(400)), []);
        assert_eq!(bench.timeout(pooled), [(1, 0)]);
    }

    #[test]
    fn of_several_the_one_furthest_below_its_guarantee() {
        let mut bench = bench(&[0, 0, 1, 2, 2]);
        for id in [0, 1] {
            bench.arrival(us(200), id, 50);
        }
        for core in [0, 2] {
            for packet in 0..10 {
                bench.completion(us(200 + packet), core, us(101));
            }
        }
        bench.idle(us(300), 4);
        assert_eq!(bench.timeout(us(500)), [(4, 1)], "B has 1 of 2.5, A 2 of 1.5");
    }

    /// A has lost its idle core. Its first packet is served when B, which floods its own cores,
    /// leaves one idle for long.
    #[test]
    fn a_service_without_a_core_is_served_in_the_end() {
        let services = vec![service(10_000, 100, 500_000); 2];
        let mut arrivals: Vec<_> = vec![(us(200), ServiceId(1)); 100];
        arrivals.push((us(900), ServiceId(0)));
        let outcome = Scenario { cores: 2, services: &services, arrivals: &arrivals }.run::<Seda>();
        assert_eq!(outcome.switches, 2, "one to B, and one back");
        // B is done at 850: its cores are in the pool after 100 us, and the packet is late after
        // 1000 us; then follows a switch.
        assert_eq!(outcome.completions.last(), Some(&(us(1_060) + Time::from_ns(1), ServiceId(0))));
    }
}
