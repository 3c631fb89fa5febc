//! Adaptive highest random weight: rendezvous hashing with a multiplier for each core, adapted to
//! the loads at intervals.
//!
//! **Idea.** A core's bid is its hash times its multiplier, at first 1. At the end of an interval
//! in which some cores had too much load, one common factor reduces the multipliers of all these
//! cores. Then connections leave those cores, and no connection moves between two of them or
//! between two others. So the fewest possible connections move.
//!
//! **Source.** Kencl, Le Boudec. Adaptive load sharing for network processors. INFOCOM 2002; ToN
//! 16, 2008. STEERING section 2.
//!
//! **Promises.** Minimal disruption: when a core goes, only its connections move; when a core
//! comes, connections move only to it. At the end of an interval, connections move only from one
//! set of cores to the rest. No order at that moment.
//!
//! **Cost.** O(N) in the eligible cores; O(N) at the end of an interval. No state per connection.
//!
//! **Invariants.** Every multiplier is above 0, and the greatest is 1.
//!
//! **Departures.** Only the abstracts of the papers were available. Thresholds are parameters, and
//! the factor is our own. If all multipliers were equal, a factor c would leave s of N cores
//! c^(N−s) of their connections. So c is chosen such that the load at the threshold remains. If no
//! core has too much load but some have too little, the multipliers of the others shrink. This is
//! as if the multipliers of the former grew. The load of a core is the estimated work that arrived
//! in the interval, of all services together.

use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{salt, score};
use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::{Time, Work};

use super::bid::{Exact, highest};
use super::interval::Interval;

params! {
    /// Parameters of adaptive highest random weight.
    pub struct HrwKenclParams {
        /// How often multipliers are adapted.
        interval: u64 = 10_000, in 1..=60_000_000, unit "us";
        /// The load, relative to the mean, above which a core has too much.
        over: f64 = 1.1, in 1.0..=1000.0;
        /// The load, relative to the mean, below which a core has too little.
        under: f64 = 0.9, in 0.0..=1.0;
        /// The mean number of packets for each core in an interval, below which the multipliers
        /// stay: fewer packets say too little.
        packets: u64 = 16, in 0..=1_000_000;
    }
}

/// The greatest multiplier.
const ONE: u64 = 1 << 32;

/// The least multiplier: nearly no connection goes to such a core.
const LEAST: u64 = 1 << 8;

/// Adaptive highest random weight.
#[derive(Debug)]
pub struct HrwKencl {
    over: f64,
    under: f64,
    packets_min: u64,
    interval: Interval,
    /// The salt of each core.
    salts: Vec<u64>,
    /// The multiplier of each core, in 1/2^32.
    multipliers: IdVec<CoreId, u64>,
    /// The estimated work that arrived in this interval.
    loads: IdVec<CoreId, Work>,
    /// The number of packets that arrived in this interval.
    packets: u64,
    /// The number of times that multipliers were changed.
    adapted: u64,
}

impl Build for HrwKencl {
    type Params = HrwKenclParams;
    const INFO: Info = Info {
        name: "hrw-kencl",
        family: Family::Steer,
        summary: "each connection on the core with the highest hash times a multiplier that adapts to loads",
        source: "Kencl, Le Boudec. Adaptive load sharing for network processors. ToN 16, 2008",
        promises: &[Promise::MinimalDisruption],
        complexity: "O(N)",
    };
    const VARIANTS: &'static [&'static str] = &["interval=100,packets=1", "over=2,under=0,interval=1000,packets=0"];

    fn new(params: &HrwKenclParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self {
            over: params.over,
            under: params.under,
            packets_min: params.packets * config.cores as u64,
            interval: Interval::new(Time::from_ns(1000 * params.interval)),
            salts: (0..config.cores as u64).map(salt).collect(),
            multipliers: IdVec::from_fn(config.cores, |_| ONE),
            loads: IdVec::from_fn(config.cores, |_| 0),
            packets: 0,
            adapted: 0,
        })
    }
}

impl Policy for HrwKencl {
    fn next_timeout(&self) -> Option<Time> {
        self.interval.end()
    }

    fn on_timeout(&mut self, now: Time) {
        if !self.interval.is_over(now) {
            return;
        }
        if self.packets >= self.packets_min.max(1) {
            self.adapt();
        }
        self.packets = 0;
        self.loads.iter_mut().for_each(|load| *load = 0);
    }

    fn check(&self) {
        assert!(self.multipliers.iter().all(|multiplier| (LEAST..=ONE).contains(multiplier)), "{:?}", self.multipliers);
        assert_eq!(self.multipliers.iter().max(), Some(&ONE), "the greatest multiplier");
    }
}

impl Steer for HrwKencl {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let bid =
            |core: CoreId| Exact::weighted(score(packet.key, self.salts[core.index()]), self.multipliers[core], 1);
        let winner = highest(view.eligible.iter().map(|&core| (core, bid(core))));
        Target::Core(winner.expect("at least one core is eligible"))
    }

    #[inline]
    fn on_enqueue(&mut self, now: Time, target: Target, packet: &Packet) {
        if let Some(core) = target.core() {
            self.interval.on_packet(now);
            self.loads[core] += packet.estimate;
            self.packets += 1;
        }
    }
}

impl HrwKencl {
    /// Returns the number of times that multipliers were changed.
    pub fn adapted(&self) -> u64 {
        self.adapted
    }

    /// Reduces the multipliers of one set of cores by one factor if loads are too far from their mean.
    fn adapt(&mut self) {
        let (cores, total) = (self.loads.len() as f64, self.loads.iter().sum::<Work>() as f64);
        let relative = |load: Work| if total > 0.0 { load as f64 * cores / total } else { 1.0 };
        let (over, under) = (self.over, self.under);
        let has_too_much = |load: Work| relative(load) > over;
        let has_too_little = |load: Work| relative(load) < under;
        if self.loads.iter().any(|&load| has_too_much(load)) {
            self.shrink(has_too_much, |count| count * over / cores);
        } else if self.loads.iter().any(|&load| has_too_little(load)) {
            self.shrink(|load| !has_too_little(load), |count| 1.0 - (cores - count) * under / cores);
        }
    }

    /// Multiplies the multipliers of a set by one factor, so that the load of the set becomes a
    /// fraction of all load. `is_of_set` selects the cores of the set by their load. `fraction`
    /// computes the fraction from their number.
    fn shrink(&mut self, is_of_set: impl Fn(Work) -> bool, fraction: impl Fn(f64) -> f64) {
        let own = || self.loads.iter().copied().filter(|&load| is_of_set(load));
        let (count, cores) = (own().count(), self.loads.len());
        let (load, total) = (own().sum::<Work>() as f64, self.loads.iter().sum::<Work>() as f64);
        if count == cores || load <= 0.0 {
            return;
        }
        let kept = (fraction(count as f64) * total / load).min(1.0);
        let factor = libm::pow(kept, 1.0 / (cores - count) as f64);
        for (multiplier, &load) in self.multipliers.iter_mut().zip(&self.loads) {
            if is_of_set(load) {
                *multiplier = ((*multiplier as f64 * factor) as u64).max(LEAST);
            }
        }
        self.renormalise();
        self.adapted += 1;
    }

    /// Multiplies all multipliers by one factor so that the greatest is 1. This changes no decision.
    fn renormalise(&mut self) {
        let greatest = self.multipliers.iter().copied().max().expect("there is a core");
        for multiplier in self.multipliers.iter_mut() {
            *multiplier = (u128::from(*multiplier) * u128::from(ONE) / u128::from(greatest)) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::hrw::{Hrw, HrwParams};
    use crate::steer::testing::{cores_of, keys, moved, shares, targets, views};
    use crate::testing::config;
    use alloc::vec;

    fn fresh(cores: usize) -> HrwKencl {
        HrwKencl::new(&HrwKenclParams::default(), &config(cores, 1, &[])).unwrap()
    }

    fn steered(policy: &mut HrwKencl, eligible: &[CoreId], keys: &[u64]) -> Vec<CoreId> {
        let cores = views(&vec![0; policy.salts.len()]);
        let view = View { as_of: Time::ZERO, cores: &cores, eligible };
        let mut steer = |&key: &u64| policy.steer(Time::ZERO, &Packet { key, ..Packet::default() }, &view);
        keys.iter().map(|key| steer(key).core().expect("a core")).collect()
    }

    /// Gives each core packets of the given work, then ends the interval.
    fn interval(policy: &mut HrwKencl, loads: &[u64]) {
        let now = policy.next_timeout().unwrap_or(Time::ZERO);
        for (core, &estimate) in loads.iter().enumerate() {
            let packet = Packet { estimate: estimate / 20, ..Packet::default() };
            (0..20).for_each(|_| policy.on_enqueue(now, Target::Core(CoreId::from_index(core)), &packet));
        }
        let end = policy.next_timeout().expect("packets came");
        policy.on_timeout(end);
        policy.check();
    }

    fn all(cores: u16) -> Vec<CoreId> {
        (0..cores).map(CoreId).collect()
    }

    #[test]
    fn at_first_it_is_hrw_and_even_loads_change_nothing() {
        let (keys, mut policy) = (keys(5000), fresh(8));
        assert_eq!(steered(&mut policy, &all(8), &keys), targets::<Hrw>(&HrwParams::default(), 8, &keys));
        interval(&mut policy, &[1000, 1080, 920, 1000, 1000, 1000, 1000, 1000]);
        assert_eq!(policy.adapted(), 0);
    }

    /// Two of eight cores had twice the load of the others. They keep the load at the threshold,
    /// and the fewest possible connections move.
    #[test]
    fn one_factor_moves_connections_out_of_the_overused_set_alone_and_no_more_than_it_must() {
        let (keys, mut policy) = (keys(200_000), fresh(8));
        let before = steered(&mut policy, &all(8), &keys);
        interval(&mut policy, &[2000, 2000, 1000, 1000, 1000, 1000, 1000, 1000]);
        let after = steered(&mut policy, &all(8), &keys);
        let of_set = |core: CoreId| core.0 < 2;
        for (&before, &after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
            assert!(of_set(before) && !of_set(after), "from {before} to {after}");
        }
        // Their load was 0.4 of all and is to be 2 · 1.1 / 8: that part of their connections stays.
        let kept = 0.25 * (2.0 * 1.1 / 8.0) / 0.4;
        assert!((moved(&before, &after) - (0.25 - kept)).abs() < 4e-3, "{} moved", moved(&before, &after));
        let found = shares(&after, 8);
        assert!((found[0] - kept / 2.0).abs() < 3e-3 && (found[1] - kept / 2.0).abs() < 3e-3);
    }

    #[test]
    fn where_some_have_too_little_connections_move_to_them_alone() {
        let (keys, mut policy) = (keys(100_000), fresh(4));
        policy.over = 2.0;
        let before = steered(&mut policy, &all(4), &keys);
        interval(&mut policy, &[400, 1200, 1200, 1200]);
        let after = steered(&mut policy, &all(4), &keys);
        assert_eq!(policy.adapted(), 1);
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *after == CoreId(0)));
        // The others had 0.9 of all load, and are to have 1 - 0.9 / 4.
        let expected = 0.75 * (1.0 - (1.0 - 0.9 / 4.0) / 0.9);
        assert!((moved(&before, &after) - expected).abs() < 4e-3, "{} moved", moved(&before, &after));
    }

    /// Loads follow connections: after a few intervals all cores are within the thresholds,
    /// although some connections are heavy.
    #[test]
    fn loads_come_within_the_thresholds() {
        let (keys, mut policy) = (keys(20_000), fresh(8));
        let weight = |key: &u64| if key.is_multiple_of(50) { 40 } else { 1 };
        let mut spread = Vec::new();
        for _ in 0..12 {
            let mut loads = [0; 8];
            for (core, key) in steered(&mut policy, &all(8), &keys).into_iter().zip(&keys) {
                loads[core.index()] += weight(key) * 20 * if core.0 == 5 { 2 } else { 1 };
            }
            let mean = loads.iter().sum::<u64>() as f64 / 8.0;
            spread.push(*loads.iter().max().unwrap() as f64 / mean);
            interval(&mut policy, &loads);
        }
        assert!(spread[0] > 1.6 && spread[11] < 1.12, "{spread:?}");
    }

    #[test]
    fn whatever_the_multipliers_only_connections_of_a_core_that_goes_move() {
        let (keys, mut policy) = (keys(20_000), fresh(6));
        for loads in [[900, 100, 300, 300, 50, 700], [100, 2000, 50, 600, 10, 10]] {
            interval(&mut policy, &loads);
        }
        let before = steered(&mut policy, &all(6), &keys);
        for gone in all(6) {
            let left: Vec<CoreId> = all(6).into_iter().filter(|&core| core != gone).collect();
            let after = steered(&mut policy, &left, &keys);
            assert!(before.iter().zip(&after).all(|(before, after)| (before != after) == (*before == gone)));
        }
    }

    #[test]
    fn few_packets_say_nothing() {
        let mut policy = fresh(4);
        let packet = Packet { estimate: 1000, ..Packet::default() };
        (0..63).for_each(|_| policy.on_enqueue(Time::ZERO, Target::Core(CoreId(0)), &packet));
        policy.on_timeout(policy.next_timeout().unwrap());
        assert_eq!((policy.adapted(), policy.loads.as_slice()), (0, &[0; 4][..]));
    }

    #[test]
    fn a_core_alone_has_all() {
        let mut policy = fresh(1);
        interval(&mut policy, &[1000]);
        assert_eq!(steered(&mut policy, &all(1), &[1, 2]), cores_of([0, 0]));
    }
}
