//! A policy by sets of processors: all that receive packet steering (RPS) offers.
//!
//! The kernel divides the connections of a receive queue among the processors of a set, by a hash of its own. So a
//! bucket cannot be given to a core, but a queue can have the cores that the policy gives its buckets to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use humpyard_traffic::TrafficError;
use humpyard_traffic::steer_record::SteerSample;
use humpyard_wire::{BucketCounters, FlowCount, Hashing, ReceiveSteering, receive_masks};

use super::observe::{Look, index_of, interface_of};
use super::target::SteeringTable;
use crate::LabError;

/// A set is for this long at least: a change may put packets out of order.
const LASTS: Duration = Duration::from_secs(1);
/// What of a queue's load is remembered from a sample to the next.
const KEPT: f64 = 0.9;
/// A core belongs to the set of a queue that would have this part of an even share of its packets.
const PART: f64 = 0.25;

/// The sets of an interface.
pub(super) struct ReceiveTable {
    interface: String,
    /// By which the kernel knows it under every name.
    index: Option<u32>,
    counters: BucketCounters,
    steering: ReceiveSteering,
    /// As they were before.
    masks: Vec<String>,
    /// By queue.
    sets: Vec<Vec<u32>>,
    /// By queue and core: packets of late.
    loads: Vec<BTreeMap<u32, f64>>,
    since: Instant,
}

impl ReceiveTable {
    /// Begins with all cores of the table, for each queue.
    pub(super) fn begin(interface: &str, hashing: Hashing, cores: &[u32]) -> Result<Self, LabError> {
        let counters = BucketCounters::observe(interface, hashing)?;
        let steering = ReceiveSteering::open(interface)?;
        let masks = steering.masks()?;
        let mut all = cores.to_vec();
        all.sort_unstable();
        all.dedup();
        let (sets, loads) = (vec![all; masks.len()], vec![BTreeMap::new(); masks.len()]);
        let table = Self {
            interface: interface.to_owned(),
            index: index_of(interface),
            counters,
            steering,
            masks,
            sets,
            loads,
            since: Instant::now(),
        };
        table.write()?;
        Ok(table)
    }

    fn write(&self) -> Result<(), TrafficError> {
        (0..).zip(&self.sets).try_for_each(|(queue, set)| self.steering.set(queue, set))
    }
}

impl Drop for ReceiveTable {
    fn drop(&mut self) {
        // An interface that has gone has no masks to restore; one that was renamed has them under its new name.
        let name = interface_of(self.index);
        let _ = name.and_then(|name| ReceiveSteering::open(&name).ok()?.restore(&self.masks).ok());
    }
}

impl SteeringTable for ReceiveTable {
    fn look(&self) -> Result<Look, LabError> {
        Look::at(&self.counters)
    }

    fn set(&mut self, cores: &[u32], sample: &SteerSample) -> Result<u64, TrafficError> {
        self.loads.iter_mut().zip(loads(cores, sample, self.sets.len())).for_each(|(load, new)| add(load, &new));
        let wanted: Vec<Vec<u32>> = self.loads.iter().zip(&self.sets).map(|(load, now)| set_of(load, now)).collect();
        let changes = wanted.iter().zip(&self.sets).filter(|(wanted, now)| wanted != now).count();
        if changes == 0 || self.since.elapsed() < LASTS {
            return Ok(0);
        }
        (self.sets, self.since) = (wanted, Instant::now());
        self.write()?;
        Ok(changes as u64)
    }

    fn pending(&self, _: &[u32]) -> Result<u64, TrafficError> {
        Ok(0)
    }

    fn heavy_flows(&self, most: usize) -> Result<Vec<FlowCount>, TrafficError> {
        self.counters.heavy_flows(most)
    }

    fn is_native(&self) -> bool {
        self.counters.is_native()
    }

    fn is_by_bucket(&self) -> bool {
        false
    }

    fn changed(&self) -> Vec<String> {
        let line = |(queue, (before, now)): (usize, (&String, String))| {
            format!("{}: rps_cpus of receive queue {queue}: {before} -> {now}", self.interface)
        };
        let now = receive_masks(&self.interface);
        self.masks.iter().zip(now).enumerate().map(line).collect()
    }

    fn processors(&self) -> usize {
        self.counters.processors()
    }
}

/// Returns by queue the packets that each core would have of this sample: those of the buckets that came on the
/// processor of the queue.
fn loads(cores: &[u32], sample: &SteerSample, queues: usize) -> Vec<BTreeMap<u32, f64>> {
    let mut of_processor: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
    for found in &sample.buckets {
        let Some(&core) = cores.get(found.bucket as usize) else { continue };
        *of_processor.entry(found.processor).or_default().entry(core).or_default() += found.packets as f64;
    }
    let mut loads = vec![BTreeMap::new(); queues];
    for found in &sample.queues {
        let (Some(load), Some(there)) = (loads.get_mut(found.queue as usize), of_processor.get(&found.processor))
        else {
            continue;
        };
        add(load, there);
    }
    loads
}

fn add(load: &mut BTreeMap<u32, f64>, new: &BTreeMap<u32, f64>) {
    load.values_mut().for_each(|packets| *packets *= KEPT);
    new.iter().for_each(|(&core, packets)| *load.entry(core).or_default() += packets);
}

/// Returns the cores of a queue with this load; those that it has, where nothing came.
fn set_of(load: &BTreeMap<u32, f64>, now: &[u32]) -> Vec<u32> {
    let (sum, cores) = (load.values().sum::<f64>(), load.len() as f64);
    if sum < 1.0 {
        return now.to_vec();
    }
    load.iter().filter(|&(_, &packets)| packets >= PART * sum / cores).map(|(&core, _)| core).collect()
}

#[cfg(test)]
mod tests {
    use humpyard_traffic::steer_record::{BucketSample, QueueSample};

    use super::*;

    /// Two queues on two processors: the buckets of the first go to three cores, one of which has next to nothing, and
    /// those of the second to one.
    #[test]
    fn a_queue_has_the_cores_of_its_buckets() {
        let bucket = |bucket, processor, packets| BucketSample { bucket, processor, packets, bytes: 0 };
        let queue = |queue, processor, packets| QueueSample { queue, processor, packets, bytes: 0 };
        let sample = SteerSample {
            buckets: vec![bucket(0, 0, 500), bucket(1, 0, 400), bucket(2, 0, 3), bucket(3, 1, 7)],
            queues: vec![queue(0, 0, 903), queue(1, 1, 7)],
            ..SteerSample::default()
        };
        let sets: Vec<Vec<u32>> =
            loads(&[2, 3, 0, 1], &sample, 3).iter().map(|load| set_of(load, &[0, 1, 2, 3])).collect();
        assert_eq!(sets, [vec![2, 3], vec![1], vec![0, 1, 2, 3]], "a queue without packets keeps its set");
    }

    #[test]
    fn loads_of_late_count_most() {
        let mut load = BTreeMap::from([(0, 1000.0)]);
        (0..50).for_each(|_| add(&mut load, &BTreeMap::from([(1, 100.0)])));
        assert_eq!(set_of(&load, &[0]), [1]);
    }
}
