//! Caladan: every few microseconds, a service whose packets have waited for too long gets one core more.
//!
//! **Idea.** Cores are granted one at a time. At each interval a service is congested if its oldest
//! packet has waited for longer than a threshold. It gets an idle core; without one, a core of a
//! service that has more than its guarantee. So a service takes cores as its load grows, and an
//! idle core is soon free for others.
//!
//! **Source.** Fried, Ruan, Ousterhout, Belay. Caladan: mitigating interference at microsecond
//! timescales. OSDI 2020. Ousterhout, Fried, Behrens, Belay, Balakrishnan. Shenango. NSDI 2019. RIVALS.
//!
//! **Promises.** A service with packets waiting is served eventually, even if it has lost all its
//! cores. No isolation: it waits for its guaranteed cores, one in each interval.
//!
//! **Cost.** At an interval O(s log s) for s services, and O(N) for N cores and each congested
//! service; else O(1).
//!
//! **Invariants.** No core is taken from a service that has no more cores than its guarantee, except an idle one.
//!
//! **Departures.**
//! - Each core belongs to a service. An idle one stays with its service until another takes it, and
//!   serves the next packet of that service at once.
//! - Congestion is the wait alone. Interference by memory bandwidth and by hyperthreads is left out.
//! - Intervals begin at multiples of the interval since the start. While no packet waits for a core
//!   there are none.
//! - A core knows only the last service that it left. So the idle core "latest used" by a service
//!   is the one that left it latest, and has not been at two other services since.
//! - A service with its guarantee takes no busy core from one whose packets have waited as long, or
//!   the two would take it from each other for ever.
//! - A core that has just completed a packet is not yet idle, so the packet it takes next counts as waiting.

use alloc::vec::Vec;
use core::cmp::Reverse;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::params;
use humpyard_core::policy::{Allocate, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

use super::idle::latest_idle;
use super::r#static::{check_cores, deal, guaranteed_cores};

params! {
    /// Parameters of Caladan.
    pub struct CaladanParams {
        /// The time between two decisions.
        interval: u64 = 10_000, in 1..=1_000_000_000, unit "ns";
        /// A service is congested if its oldest packet has waited for longer.
        threshold: u64 = 10_000, in 0..=1_000_000_000, unit "ns";
        /// The time after which other services may take an idle core.
        park: u64 = 5_000, in 0..=1_000_000_000, unit "ns";
    }
}

/// Caladan.
#[derive(Debug)]
pub struct Caladan {
    interval: u64,
    threshold: Time,
    park: Time,
    /// The guarantee of each service, in whole cores.
    guaranteed: Vec<usize>,
    /// The service that each core left last, and when.
    left: IdVec<CoreId, Option<(ServiceId, Time)>>,
    /// The congested services that are still to get a core in this interval, the next one last.
    congested: Vec<(Time, Reverse<ServiceId>)>,
    /// Whether an interval has begun and its congested services are not known yet.
    is_due: bool,
    /// When the next interval begins. `None`: no packet waits for a core.
    alarm: Option<Time>,
}

impl Build for Caladan {
    type Params = CaladanParams;
    const INFO: Info = Info {
        name: "caladan",
        family: Family::Allocate,
        summary: "every few microseconds, a service whose oldest packet waits for too long gets one core more",
        source: "Fried et al. Caladan. OSDI 2020",
        promises: &[Promise::Served],
        complexity: "O(s log s + N) at an interval",
    };
    const VARIANTS: &'static [&'static str] = &["interval=1000,threshold=0,park=0"];

    fn new(params: &CaladanParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        check_cores("caladan", config)?;
        Ok(Self {
            interval: params.interval,
            threshold: Time::from_ns(params.threshold),
            park: Time::from_ns(params.park),
            guaranteed: guaranteed_cores(config),
            left: IdVec::from_fn(config.cores, |_| None),
            congested: Vec::with_capacity(config.services.len()),
            is_due: false,
            alarm: None,
        })
    }
}

impl Policy for Caladan {
    fn next_timeout(&self) -> Option<Time> {
        self.alarm
    }

    fn on_timeout(&mut self, now: Time) {
        // The mechanism has other timers, too.
        if self.alarm.is_some_and(|alarm| alarm <= now) {
            self.alarm = None;
            self.is_due = true;
        }
    }

    fn check(&self) {
        assert!(self.congested.is_empty() && !self.is_due, "an interval has begun and did not end");
    }
}

impl Allocate for Caladan {
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
        deal(&self.guaranteed, allocation);
    }

    fn moves(&self) -> bool {
        true
    }

    #[inline]
    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        match cause {
            Cause::Arrival(id) if self.alarm.is_none() && machine.service(id).backlog() > 0 => self.wind(now),
            Cause::Timeout => return self.grant(now, machine),
            _ => {}
        }
        None
    }

    #[inline]
    fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>, machine: &Machine) -> CoreId {
        latest_idle(service, idle, machine)
    }
}

impl Caladan {
    /// Sets the timer to the next interval.
    fn wind(&mut self, now: Time) {
        self.alarm = Some(Time::from_ns((now.as_ns() / self.interval + 1).saturating_mul(self.interval)));
    }

    /// Gives a core to the next congested service of this interval that can have one.
    fn grant(&mut self, now: Time, machine: &Machine) -> Option<Move> {
        if core::mem::take(&mut self.is_due) {
            self.find_congested(now, machine);
        }
        while let Some((delay, Reverse(to))) = self.congested.pop() {
            let core = self.parked(now, machine, to).or_else(|| self.taken(now, machine, to, delay));
            if let Some(core) = core {
                self.left[core] = Some((machine.core(core).service, now));
                return Some(Move { core, to });
            }
        }
        None
    }

    /// Lists the congested services, and sets the timer if packets wait.
    fn find_congested(&mut self, now: Time, machine: &Machine) {
        for id in machine.services().ids().filter(|&id| machine.service(id).backlog() > 0) {
            let delay = delay(now, machine, id);
            if delay > self.threshold {
                self.congested.push((delay, Reverse(id)));
            }
            if self.alarm.is_none() {
                self.wind(now);
            }
        }
        self.congested.sort_unstable();
    }

    /// Returns a core of another service that has been idle for long: the one that `to` used
    /// latest, else the lowest.
    fn parked(&self, now: Time, machine: &Machine, to: ServiceId) -> Option<CoreId> {
        let spare = |id: ServiceId| machine.service(id).idle > machine.service(id).waiting;
        let is_parked = |core: CoreId| {
            let since = machine.core(core).idle_since();
            machine.core(core).service != to && since.is_some_and(|since| since + self.park <= now)
        };
        let used = |core: CoreId| self.left[core].filter(|&(id, _)| id == to).map(|(_, when)| when);
        let cores = machine.cores().ids().filter(|&core| is_parked(core) && spare(machine.core(core).service));
        cores.max_by_key(|&core| (used(core), Reverse(core)))
    }

    /// Returns the lowest core of the service above its guarantee whose packets have waited least.
    fn taken(&self, now: Time, machine: &Machine, to: ServiceId, own: Time) -> Option<CoreId> {
        let beyond = |id: ServiceId| machine.service(id).cores as usize > self.guaranteed[usize::from(id.0)];
        let is_below = (machine.service(to).cores as usize) < self.guaranteed[usize::from(to.0)];
        let others = machine.services().ids().filter(|&id| id != to && beyond(id) && machine.held(id).next().is_some());
        let (least, from) = others.map(|id| (delay(now, machine, id), id)).min()?;
        if is_below || least < own { machine.held(from).min() } else { None }
    }
}

/// Returns how long the oldest waiting packet of a service has waited; 0 if none waits.
fn delay(now: Time, machine: &Machine, id: ServiceId) -> Time {
    machine.service(id).oldest.map_or(Time::ZERO, |oldest| now.since(oldest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{Bench, Scenario, packets_wait, service, us};
    use alloc::vec;
    use humpyard_core::config::ServiceConfig;

    const S: ServiceId = ServiceId(0);

    fn services(guarantees: &[u32]) -> Vec<ServiceConfig> {
        guarantees.iter().map(|&guarantee| service(20_000, 100, guarantee)).collect()
    }

    /// Returns when the packets of service S, of 20 us, are done on three cores, of which it has
    /// one. A switch takes no time.
    fn finish(params: &CaladanParams, arrivals_us: &[u64]) -> Vec<Time> {
        let free = |service| ServiceConfig { switch_cost: Time::ZERO, ..service };
        let services: Vec<ServiceConfig> = services(&[333_333, 666_667]).into_iter().map(free).collect();
        let arrivals: Vec<(Time, ServiceId)> = arrivals_us.iter().map(|&at| (us(at), S)).collect();
        let outcome = Scenario { cores: 3, services: &services, arrivals: &arrivals }.run_with::<Caladan>(params, true);
        outcome.completions.into_iter().map(|(time, _)| time).collect()
    }

    /// At 10 the second packet has waited for 9; at 20 the third for 18.
    #[test]
    fn the_vector_of_the_specification() {
        assert_eq!(finish(&CaladanParams::default(), &[0, 1, 2]), [20, 40, 40].map(us));
    }

    #[test]
    fn parameters_count() {
        let defaults = CaladanParams::default();
        let long = CaladanParams { threshold: 50_000, ..defaults };
        assert_eq!(finish(&long, &[0, 1, 2]), [20, 40, 60].map(us), "nobody waits for 50 us");
        let short = CaladanParams { threshold: 8_000, ..defaults };
        assert_eq!(finish(&short, &[0, 1, 2]), [20, 30, 40].map(us), "a core at 10");
        let often = CaladanParams { interval: 1_000, ..defaults };
        assert_eq!(finish(&often, &[0, 1, 2]), [20, 32, 33].map(us), "1 and 2 have waited for 11, one core each");
        let never = CaladanParams { park: 1_000_000, ..defaults };
        assert_eq!(finish(&never, &[0, 1, 2]), [20, 40, 60].map(us), "no core has been idle for long");
    }

    /// Service 1 has cores 1 and 2, and 1 more than its guarantee; service 2 has cores 3 to 5, and 2 more.
    fn bench() -> Bench<Caladan> {
        let cores = [0, 1, 1, 2, 2, 2];
        Bench::new(&CaladanParams::default(), &services(&[666_667, 166_667, 166_666]), &cores)
    }

    /// Lets these packets wait, each since a time, and begins an interval at 30.
    fn interval(bench: &mut Bench<Caladan>, waiting: &[(u16, u64)]) -> Vec<(u16, u16)> {
        for &(id, since) in waiting {
            bench.arrival(us(since), id, 2);
            packets_wait(&mut bench.machine, ServiceId(id), 2, us(since));
        }
        bench.timeout(us(30))
    }

    #[test]
    fn the_lowest_core_of_whom_has_waited_least() {
        let mut bench = bench().busy(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(interval(&mut bench, &[(0, 5), (1, 6), (2, 7)]), [(3, 0), (4, 1)], "2 has waited too, for less");
        assert_eq!(bench.machine.service(ServiceId(2)).cores, 1);
    }

    #[test]
    fn whoever_has_waited_longest_goes_first() {
        let mut bench = bench().busy(&[0, 2, 3, 4, 5]);
        bench.machine.on_move(Move { core: CoreId(3), to: S }, false);
        assert_eq!(interval(&mut bench, &[(0, 9), (2, 3)]), [(1, 2), (4, 0)], "the idle core, then one of 2");
    }

    #[test]
    fn no_core_of_a_guarantee_is_taken() {
        let mut bench: Bench<Caladan> = Bench::new(&CaladanParams::default(), &services(&[500_000; 2]), &[0, 0, 1, 1]);
        bench = bench.busy(&[0, 1, 2, 3]);
        assert_eq!(interval(&mut bench, &[(0, 5)]), []);
    }

    /// Of idle cores, 1 is the lowest, and 4 was at service 0 before.
    #[test]
    fn the_core_that_it_used_latest_comes_first() {
        let mut bench = bench().busy(&[0]);
        bench.policy.left[CoreId(4)] = Some((S, us(2)));
        bench.policy.left[CoreId(3)] = Some((S, us(1)));
        bench.policy.left[CoreId(5)] = Some((ServiceId(1), us(3)));
        assert_eq!(interval(&mut bench, &[(0, 5)]), [(4, 0)]);
    }

    /// Service 1 is silent until 200 us, and has lost both its cores by then.
    #[test]
    fn a_service_without_a_core_is_served_in_the_end() {
        let services = vec![service(10_000, 100, 500_000); 2];
        let mut arrivals = vec![(Time::ZERO, S); 100];
        arrivals.push((us(200), ServiceId(1)));
        let outcome = Scenario { cores: 4, services: &services, arrivals: &arrivals }.run::<Caladan>();
        // Congested at 220, one of S's cores is free at once or after a packet, and switches for 50.
        let done = outcome.completions.iter().find(|&&(_, service)| service == ServiceId(1)).expect("it is served");
        assert!(done.0 <= us(220 + 10 + 50 + 10), "{:?}", done.0);
        assert!(outcome.switches >= 3, "two to S, and one back: {}", outcome.switches);
    }

    /// Random machines and waits: a core is taken at most once in an interval, and only an idle
    /// core from a service without more than its guarantee.
    #[test]
    fn guarantees_hold_for_busy_cores() {
        let mut random = humpyard_core::random::Seed(5).stream("caladan");
        let mut taken = 0;
        for _ in 0..2_000 {
            let cores: Vec<u16> = [0, 1, 2].into_iter().chain((3..9).map(|_| random.below(3) as u16)).collect();
            let busy: Vec<u16> = (0..9).filter(|_| random.below(4) > 0).collect();
            let guarantees = [300_000, 400_000, 300_000];
            let mut bench: Bench<Caladan> =
                Bench::new(&CaladanParams::default(), &services(&guarantees), &cores).busy(&busy);
            let waiting: Vec<(u16, u64)> = (0..3).map(|id| (id, id as u64 + random.below(25))).collect();
            let mut held: Vec<i32> = (0..3).map(|id| cores.iter().filter(|&&core| core == id).count() as i32).collect();
            let mut served = vec![];
            let mut sorted = waiting.clone();
            sorted.sort_by_key(|&(_, since)| since);
            for (core, to) in interval(&mut bench, &sorted) {
                let from = cores[usize::from(core)];
                if busy.contains(&core) {
                    taken += 1;
                    assert!(held[usize::from(from)] > bench.policy.guaranteed[usize::from(from)] as i32);
                }
                held[usize::from(from)] -= 1;
                held[usize::from(to)] += 1;
                assert!(!served.contains(&to), "one core for each");
                served.push(to);
            }
        }
        assert!(taken > 500, "{taken} of busy cores are not much of a test");
    }
}
