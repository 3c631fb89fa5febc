//! RSS++: receive-side scaling whose table is rewritten at intervals, bucket by bucket, until loads are even.
//!
//! **Idea.** Connections are hashed to buckets, and buckets belong to cores. The policy counts the
//! load of each bucket. At the end of every interval it moves buckets from cores above the mean to
//! the least loaded core. The heaviest buckets move first, while neither core ends up worse. A move
//! that does not help is not made.
//!
//! **Source.** Barbette, Katsikas, Maguire, Kostić. RSS++: load and state-aware receive side
//! scaling. CoNEXT 2019. Known from its README and sources (rsspp/fastclick), not from the paper.
//! STEERING section 2.
//!
//! **Promises.** Minimal disruption: when a core goes, only the connections of its buckets move;
//! when a core comes, connections move only to it. At the end of an interval, no core receives
//! buckets beyond 105 % of the mean, and the greatest load does not grow. No order at that moment.
//!
//! **Cost.** O(1) for a packet; O(B log B + B N) for each service at the end of an interval, in buckets and cores.
//!
//! **Invariants.** Every bucket is on a core that may serve it.
//!
//! **Departures.** This policy is greedy; the original solves an optimisation problem with a swarm
//! of heuristics. A bucket's load is the sum of its arrivals, halved with every interval; the
//! original measures it on cores. A bucket that is too heavy for any core is never split.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

use super::buckets::Buckets;
use super::interval::Interval;

choice! {
    /// The load that a packet adds to its bucket.
    pub enum Load {
        /// Its length in bytes.
        Bytes = "bytes",
        /// Its estimated work.
        Work = "work",
    }
}

params! {
    /// Parameters of RSS++.
    pub struct RssPlusPlusParams {
        /// Buckets of each service; a power of two.
        buckets: u64 = 128, in 1..=65536;
        /// How often buckets are moved.
        interval: u64 = 10_000, in 1..=60_000_000, unit "us";
        /// What a packet adds to the load of its bucket: its length, or its estimated work.
        load: Load = Load::Bytes;
        /// The load, relative to the mean, above which a core gives up buckets, in percent.
        above: u64 = 102, in 100..=1000, unit "%";
        /// A core that takes a bucket stays below this load, relative to the mean, in percent.
        below: u64 = 105, in 100..=1000, unit "%";
    }
}

/// RSS++.
#[derive(Debug)]
pub struct RssPlusPlus {
    load: Load,
    above_percent: u64,
    below_percent: u64,
    interval: Interval,
    buckets: Buckets,
    /// The load of each bucket, by service: the sum of its arrivals, halved with every interval.
    loads: IdVec<ServiceId, Vec<u64>>,
    /// Scratch space while buckets move: the loads of cores, and the buckets by load.
    cores: IdVec<CoreId, u64>,
    order: Vec<u32>,
    /// The number of buckets moved at the ends of intervals.
    moved: u64,
}

impl Build for RssPlusPlus {
    type Params = RssPlusPlusParams;
    const INFO: Info = Info {
        name: "rss++",
        family: Family::Steer,
        summary: "each connection by its bucket in a table, from which buckets of busy cores move to idle ones",
        source: "Barbette, Katsikas, Maguire, Kostic. RSS++: load and state-aware receive side scaling. CoNEXT 2019",
        promises: &[Promise::MinimalDisruption],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["interval=100", "load=work,interval=1000,buckets=16"];

    fn new(params: &RssPlusPlusParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        if !params.buckets.is_power_of_two() {
            return Err(BuildError::bad_value(format!(
                "rss++: `buckets` must be a power of two, not {}: try {}",
                params.buckets,
                params.buckets.next_power_of_two()
            )));
        }
        let buckets = params.buckets as usize;
        Ok(Self {
            load: params.load,
            above_percent: params.above,
            below_percent: params.below,
            interval: Interval::new(Time::from_ns(1000 * params.interval)),
            buckets: Buckets::new(buckets, config),
            loads: IdVec::from_fn(config.services.len(), |_| vec![0; buckets]),
            cores: IdVec::from_fn(config.cores, |_| 0),
            order: Vec::with_capacity(buckets),
            moved: 0,
        })
    }
}

impl Policy for RssPlusPlus {
    fn next_timeout(&self) -> Option<Time> {
        self.interval.end()
    }

    fn on_timeout(&mut self, now: Time) {
        if self.interval.is_over(now) {
            self.loads.ids().for_each(|service| self.rebalance(service));
        }
    }
}

impl Steer for RssPlusPlus {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let owners = self.buckets.owners(packet.service, view.eligible);
        Target::Core(owners[packet.rss as usize & (owners.len() - 1)])
    }

    #[inline]
    fn on_enqueue(&mut self, now: Time, _: Target, packet: &Packet) {
        self.interval.on_packet(now);
        let loads = &mut self.loads[packet.service];
        let bucket = packet.rss as usize & (loads.len() - 1);
        loads[bucket] += match self.load {
            Load::Bytes => u64::from(packet.length),
            Load::Work => packet.estimate,
        };
    }
}

impl RssPlusPlus {
    /// Returns the number of buckets moved because loads were not even.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Moves buckets of a service until no move helps, then halves their loads.
    fn rebalance(&mut self, service: ServiceId) {
        let (eligible, owners) = self.buckets.table(service);
        let (loads, cores) = (&mut self.loads[service], &mut self.cores);
        cores.iter_mut().for_each(|core| *core = 0);
        for (&owner, &load) in owners.iter().zip(loads.iter()) {
            cores[owner] += load;
        }
        let total = u128::from(loads.iter().sum::<u64>());
        let exceeds =
            |load: u64, percent: u64| u128::from(load) * eligible.len() as u128 * 100 > u128::from(percent) * total;
        self.order.clear();
        self.order.extend((0..loads.len() as u32).filter(|&bucket| loads[bucket as usize] > 0));
        self.order.sort_unstable_by_key(|&bucket| (Reverse(loads[bucket as usize]), bucket));
        for &bucket in &self.order {
            let (owner, load) = (owners[bucket as usize], loads[bucket as usize]);
            if !exceeds(cores[owner], self.above_percent) {
                continue;
            }
            let least = eligible.iter().copied().min_by_key(|&core| cores[core]).expect("at least one core");
            let after = cores[least] + load;
            if after < cores[owner] && !exceeds(after, self.below_percent) {
                owners[bucket as usize] = least;
                cores[owner] -= load;
                cores[least] = after;
                self.moved += 1;
            }
        }
        loads.iter_mut().for_each(|load| *load /= 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, views};
    use crate::testing::config;
    use alloc::string::ToString;
    use humpyard_core::id::Id;
    use humpyard_core::random::Seed;

    /// A policy of eight buckets on `cores` cores.
    struct Card {
        policy: RssPlusPlus,
        cores: usize,
        now: Time,
    }

    impl Card {
        fn new(cores: usize) -> Self {
            let params = RssPlusPlusParams { buckets: 8, ..RssPlusPlusParams::default() };
            Self { policy: RssPlusPlus::new(&params, &config(cores, 1, &[])).unwrap(), cores, now: Time::ZERO }
        }

        fn arrive(&mut self, bucket: u32, length: u32) -> CoreId {
            let (cores, eligible) = (views(&vec![0; self.cores]), (0..self.cores).map(CoreId::from_index));
            let eligible: Vec<CoreId> = eligible.collect();
            let view = View { as_of: self.now, cores: &cores, eligible: &eligible };
            let packet = Packet { rss: bucket, length, ..Packet::default() };
            let target = self.policy.steer(self.now, &packet, &view);
            self.policy.on_enqueue(self.now, target, &packet);
            target.core().expect("a core")
        }

        /// Adds the given load to each bucket, then ends the interval.
        fn interval(&mut self, lengths: &[u32; 8]) {
            for (bucket, &length) in (0..).zip(lengths) {
                self.arrive(bucket, length);
            }
            self.now = self.policy.next_timeout().expect("packets came");
            self.policy.on_timeout(self.now);
        }

        fn owners(&mut self) -> Vec<u16> {
            self.policy.buckets.table(ServiceId(0)).1.iter().map(|core| core.0).collect()
        }
    }

    #[test]
    fn even_loads_move_nothing() {
        let mut card = Card::new(4);
        card.interval(&[100; 8]);
        assert_eq!((card.owners(), card.policy.moved()), (vec![0, 1, 2, 3, 0, 1, 2, 3], 0));
    }

    /// Cores have loads 700, 200, 200 and 100, with a mean of 300. Bucket 0 fits nowhere; bucket 4
    /// goes to core 3, and no more moves help.
    #[test]
    fn the_heaviest_bucket_that_fits_goes_to_the_least_core() {
        let mut card = Card::new(4);
        card.interval(&[500, 100, 100, 50, 200, 100, 100, 50]);
        assert_eq!((card.owners(), card.policy.moved()), (vec![0, 1, 2, 3, 3, 1, 2, 3], 1));
        card.interval(&[500, 100, 100, 50, 200, 100, 100, 50]);
        assert_eq!(card.policy.moved(), 1, "an elephant is never split");
    }

    #[test]
    fn loads_are_halved_with_every_interval() {
        let mut card = Card::new(4);
        card.interval(&[800; 8]);
        card.interval(&[100; 8]);
        assert_eq!(card.policy.loads[ServiceId(0)], [250; 8], "(400 + 100) / 2");
        let end = card.policy.next_timeout().expect("packets came");
        card.policy.on_timeout(Time::from_ns(end.as_ns() - 1));
        assert_eq!(card.policy.loads[ServiceId(0)], [250; 8], "told too early");
        card.policy.on_timeout(end);
        assert_eq!((card.policy.loads[ServiceId(0)][0], card.policy.next_timeout()), (125, None), "nothing came");
    }

    #[test]
    fn no_core_takes_too_much_and_the_greatest_load_becomes_no_greater() {
        let mut random = Seed(2).stream("test");
        for _ in 0..500 {
            let mut card = Card::new(3);
            let lengths = [(); 8].map(|()| 1 + random.below(1000) as u32);
            let before = card.owners();
            let load = |owners: &[u16], core: u16| -> u64 {
                let own = owners.iter().zip(&lengths).filter(|&(&owner, _)| owner == core);
                own.map(|(_, &length)| u64::from(length)).sum()
            };
            card.interval(&lengths);
            let (after, total) = (card.owners(), lengths.iter().map(|&length| u64::from(length)).sum::<u64>());
            for (_, &to) in before.iter().zip(&after).filter(|(from, to)| from != to) {
                assert!(300 * load(&after, to) <= 105 * total, "core {to} took a bucket");
            }
            let spread = |owners: &[u16]| (0..3).map(|core| load(owners, core)).max();
            assert!(spread(&after) <= spread(&before));
        }
    }

    #[test]
    fn a_core_that_goes_loses_its_buckets_and_no_other_does() {
        let mut policy = RssPlusPlus::new(&RssPlusPlusParams::default(), &config(4, 1, &[])).unwrap();
        let cores = views(&[0; 4]);
        let mut targets = |eligible: &[CoreId]| -> Vec<CoreId> {
            let view = View { as_of: Time::ZERO, cores: &cores, eligible };
            let steered = |rss| policy.steer(Time::ZERO, &Packet { rss, ..Packet::default() }, &view);
            (0..128).map(steered).map(|target| target.core().expect("a core")).collect()
        };
        let all = targets(&cores_of([0, 1, 2, 3]));
        let left = targets(&cores_of([0, 1, 3]));
        assert!(all.iter().zip(&left).all(|(before, after)| (before != after) == (*before == CoreId(2))));
        assert_eq!(targets(&cores_of([0, 1, 2, 3])), all);
    }

    #[test]
    fn buckets_must_be_a_power_of_two() {
        let params = RssPlusPlusParams { buckets: 100, ..RssPlusPlusParams::default() };
        let error = RssPlusPlus::new(&params, &config(2, 1, &[])).unwrap_err();
        assert_eq!(error.to_string(), "rss++: `buckets` must be a power of two, not 100: try 128");
    }
}
