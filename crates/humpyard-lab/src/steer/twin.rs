//! A policy that steers buckets of the kernel: it sees them through a small simulation that keeps pace with the
//! interface.
//!
//! The kernel decides for each packet by a table, in no time; a policy decides by what waits where. So each interval
//! what has come is played to the policy, on cores that take as long as the processors do, and the table becomes what
//! the policy did with the last packet of each bucket. The policy is the one of simulator and data plane, unchanged.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::LinearCost;
use humpyard_core::hash::mix;
use humpyard_core::id::{FlowId, Id, Slot};
use humpyard_core::mechanism::Arrival;
use humpyard_core::packet::Packet;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::{Time, WorkUnit};

use humpyard_policies::spec::{AnyScheduler, PolicySpec};

use crate::LabError;
use humpyard_traffic::steer_record::{BucketSample, SpreadPacket, spread};

/// Most packets that are played to the policy in an interval; one stands for several where more came.
const PACKETS_MAX: u64 = 20_000;
/// Packets that may wait for a core.
const WAITING: u32 = 1000;

/// The simulation that keeps pace.
pub(super) struct Twin {
    scheduler: AnyScheduler,
    cost_ns: u64,
    random: Random,
    /// By slot: how many packets of the kernel the one there stands for.
    stand_for: Vec<u64>,
    /// What each core serves: its slot, and how long it takes.
    serving: Vec<Option<(Slot, Time)>>,
    ends: BinaryHeap<Reverse<(Time, u16)>>,
    /// By bucket.
    table: Vec<u32>,
    seed: Seed,
    now: Time,
}

impl Twin {
    /// A simulation of this many cores, each of which takes `cost_ns` for a packet. Every bucket has its first core.
    ///
    /// # Errors
    /// A policy that cannot steer.
    pub(super) fn new(
        policy: &PolicySpec,
        cores: usize,
        buckets: usize,
        cost_ns: u64,
        seed: Seed,
    ) -> Result<Self, LabError> {
        let mut config = SchedulerConfig::new(cores).with_flows(buckets);
        config.packets = (2 * WAITING as usize * cores).max(buckets);
        config.limits.queue = WAITING;
        (config.unit, config.longest, config.seed) = (WorkUnit::Nanoseconds, cost_ns.max(1), seed);
        config.estimates = vec![LinearCost { fixed: cost_ns.max(1), ..LinearCost::default() }];
        let scheduler = policy.build(&config).map_err(|error| LabError::option(error.to_string()))?;
        let mut twin = Self {
            scheduler,
            cost_ns: cost_ns.max(1),
            random: seed.stream("steer/twin"),
            stand_for: vec![1; config.packets],
            serving: vec![None; cores],
            ends: BinaryHeap::new(),
            table: vec![0; buckets],
            seed,
            now: Time::ZERO,
        };
        // Far apart, for each to find all cores idle.
        for bucket in 0..buckets as u32 {
            twin.arrive(twin.now + Time::from_ns(2 * twin.cost_ns), bucket, 64, 1);
        }
        Ok(twin)
    }

    /// Returns the core of each bucket.
    pub(super) fn table(&self) -> &[u32] {
        &self.table
    }

    /// Plays what came in an interval of this length.
    pub(super) fn play(&mut self, interval_ns: u64, found: &[BucketSample]) {
        let all: u64 = found.iter().map(|bucket| bucket.packets).sum();
        let stands_for = all.div_ceil(PACKETS_MAX).max(1);
        let begin = self.now;
        let mut packets = Vec::with_capacity(PACKETS_MAX.min(all) as usize);
        spread(found, (begin.as_ns(), interval_ns), stands_for, &mut self.random, &mut packets);
        for SpreadPacket { time_ns, bucket, bytes } in packets {
            self.arrive(Time::from_ns(time_ns), bucket, bytes, stands_for);
        }
        self.advance(begin + Time::from_ns(interval_ns));
    }

    fn arrive(&mut self, time: Time, bucket: u32, bytes: u32, stands_for: u64) {
        self.advance(time);
        let packet = Packet {
            arrival: time,
            flow: FlowId(bucket),
            key: mix(u64::from(bucket) ^ self.seed.0),
            rss: bucket,
            length: u32::try_from(u64::from(bytes) * stands_for).unwrap_or(u32::MAX),
            ..Packet::default()
        };
        if let Arrival::Queued(slot) = self.scheduler.on_arrival(time, &packet) {
            self.stand_for[slot.index()] = stands_for;
        }
        self.settle();
    }

    /// Ends what ends until then, and hears what the policy does at its times.
    fn advance(&mut self, until: Time) {
        loop {
            let end = self.ends.peek().map(|Reverse((time, _))| *time);
            let timeout = self.scheduler.next_timeout();
            match (end, timeout) {
                (Some(time), _) if time <= until && timeout.is_none_or(|timeout| time <= timeout) => self.complete(),
                (_, Some(timeout)) if timeout <= until => {
                    self.now = self.now.max(timeout);
                    self.scheduler.on_timeout(self.now);
                    self.settle();
                }
                _ => break,
            }
        }
        self.now = self.now.max(until);
    }

    fn complete(&mut self) {
        let Some(Reverse((time, core))) = self.ends.pop() else { return };
        self.now = self.now.max(time);
        if let Some((slot, busy)) = self.serving[usize::from(core)].take() {
            self.scheduler.on_completion(self.now, slot, busy);
        }
        self.settle();
    }

    /// Gives idle cores what waits for them.
    fn settle(&mut self) {
        while self.scheduler.next_effect().is_some() {}
        while let Some(core) = self.scheduler.next_core(self.now) {
            let dispatch = self.scheduler.next(self.now, core);
            while self.scheduler.next_effect().is_some() {}
            let Some(dispatch) = dispatch else { continue };
            let busy = Time::from_ns(self.cost_ns * self.stand_for[dispatch.slot.index()]);
            self.table[dispatch.packet.flow.index()] = u32::from(core.0);
            self.serving[core.index()] = Some((dispatch.slot, busy));
            self.ends.push(Reverse((self.now + busy, core.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKETS: usize = 64;
    const INTERVAL_NS: u64 = 100_000_000;

    fn twin(policy: &str) -> Twin {
        Twin::new(&policy.parse().unwrap(), 4, BUCKETS, 10_000, Seed(1)).unwrap()
    }

    /// Sixteen buckets that are all of one core at home, with this many packets each.
    fn unlucky(twin: &Twin, packets: u64) -> Vec<BucketSample> {
        let at_first = (0..BUCKETS as u32).filter(|&bucket| twin.table[bucket as usize] == 0);
        at_first.map(|bucket| BucketSample { bucket, processor: 0, packets, bytes: 500 * packets }).collect()
    }

    /// How many of these buckets each core has.
    fn owned(twin: &Twin, found: &[BucketSample]) -> [usize; 4] {
        core::array::from_fn(|core| found.iter().filter(|one| twin.table()[one.bucket as usize] == core as u32).count())
    }

    #[test]
    fn a_policy_by_hash_keeps_its_table() {
        let mut twin = twin("hrw");
        let (before, found) = (twin.table().to_vec(), unlucky(&twin, 500));
        (0..10).for_each(|_| twin.play(INTERVAL_NS, &found));
        assert_eq!(twin.table(), before);
        assert!((0..4).all(|core| before.iter().filter(|&&home| home == core).count() > 4), "{before:?}");
    }

    #[test]
    fn a_policy_that_evens_loads_moves_buckets_of_the_busy_core() {
        let mut twin = twin("rss++");
        let found = unlucky(&twin, 500);
        assert_eq!(owned(&twin, &found), [found.len(), 0, 0, 0]);
        (0..10).for_each(|_| twin.play(INTERVAL_NS, &found));
        let owned = owned(&twin, &found);
        assert!(owned.iter().all(|&buckets| buckets.abs_diff(found.len() / 4) <= 1), "{owned:?}");
    }

    #[test]
    fn many_packets_are_played_by_few_and_decide_alike() {
        let mut twin = Twin::new(&"rss++".parse().unwrap(), 4, BUCKETS, 100, Seed(1)).unwrap();
        let found = unlucky(&twin, 100_000);
        (0..10).for_each(|_| twin.play(INTERVAL_NS, &found));
        let owned = owned(&twin, &found);
        assert!(owned.iter().all(|&buckets| buckets.abs_diff(found.len() / 4) <= 1), "{owned:?}");
    }

    #[test]
    fn the_same_is_decided_again() {
        let tables = |policy: &str| {
            let mut twin = twin(policy);
            let found = unlucky(&twin, 700);
            (0..5).for_each(|_| twin.play(INTERVAL_NS, &found));
            twin.table().to_vec()
        };
        for policy in super::super::STEER_POLICIES {
            assert_eq!(tables(policy), tables(policy), "{policy}");
        }
    }
}
