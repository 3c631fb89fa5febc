//! A record as the simulator sees it: packets in a table, a flow for each bucket, and where each went.

use core::fmt::{self, Debug};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::mix;
use humpyard_core::id::{CoreId, FlowId, Id, IdVec, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{BuildError, Policy, Steer, Target, View};
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_policies::own::OwnPolicy;
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::Receiver;
use humpyard_traffic::table::{PacketTable, TableBatch, TableFlows};

use super::diagnosis::RPS;
use crate::LabError;
use humpyard_traffic::steer_record::{SpreadPacket, SteerRecord, spread};

/// The name of what the interface does now, among policies.
pub(super) const NOW: &str = "now";
/// Most packets that are replayed: more of them make no figure better, and take longer.
const PACKETS_MAX: u64 = 2_000_000;

/// A record, ready to be replayed.
pub(super) struct Replay {
    pub(super) table: PacketTable,
    /// One packet stands for this many.
    pub(super) stands_for: u64,
    /// The policy of what there is.
    pub(super) now: PolicySpec,
    /// By bucket, the number of its flow: the simulator numbers flows as they come.
    pub(super) flows: HashMap<u32, u32>,
    /// Which processor the card interrupts for a packet.
    pub(super) receiver: Arc<dyn Receiver>,
}

/// Where buckets were, by the end of the sample and by the number of the flow in the replay.
#[derive(Debug)]
struct Homes {
    /// The ends of samples, ascending.
    ends: Vec<Time>,
    /// By sample and flow.
    homes: Vec<HashMap<u32, CoreId>>,
}

impl Replay {
    /// Spreads what came in each sample over its time, at random: what happened within a sample is not known.
    pub(super) fn of(record: &SteerRecord, seed: Seed) -> Result<Self, LabError> {
        let all: u64 = record.samples.iter().flat_map(|sample| &sample.buckets).map(|bucket| bucket.packets).sum();
        let stands_for = all.div_ceil(PACKETS_MAX).max(1);
        let mut random = seed.stream("steer/replay");
        let cores: HashMap<u32, u32> = record.processors().into_iter().zip(0..).collect();
        let (mut packets, mut begin) = (Vec::new(), 0);
        for sample in &record.samples {
            let when = (begin, sample.time_ns - begin);
            spread(&sample.buckets, when, stands_for, &mut random, &mut packets);
            begin = sample.time_ns;
        }
        let flows = flows(&packets);
        let homes = Arc::new(homes(record, &cores, &flows));
        let table = table(&packets)?;
        Ok(Self { table, stands_for, now: now(Arc::clone(&homes))?, flows, receiver: homes })
    }
}

impl Receiver for Homes {
    fn receiver(&self, packet: &Packet) -> CoreId {
        // Nothing came behind the last sample.
        let sample = self.ends.partition_point(|&end| end <= packet.arrival).min(self.ends.len() - 1);
        self.homes[sample].get(&packet.flow.0).copied().unwrap_or(CoreId(0))
    }
}

fn table(packets: &[SpreadPacket]) -> Result<PacketTable, LabError> {
    let times: Vec<u64> = packets.iter().map(|packet| packet.time_ns).collect();
    let flows: Vec<u64> = packets.iter().map(|packet| u64::from(packet.bucket)).collect();
    let lengths: Vec<u32> = packets.iter().map(|packet| packet.bytes).collect();
    let batch = TableBatch { times: Arc::new(times), flows: Arc::new(flows), lengths: Arc::new(lengths) };
    Ok(PacketTable::new(vec![batch], TableFlows::default())?)
}

fn flows(packets: &[SpreadPacket]) -> HashMap<u32, u32> {
    let mut flows: HashMap<u32, u32> = HashMap::new();
    for &SpreadPacket { bucket, .. } in packets {
        let next = flows.len() as u32;
        flows.entry(bucket).or_insert(next);
    }
    flows
}

/// Finds where each bucket went: to the processor that took most of it in the sample.
fn homes(record: &SteerRecord, cores: &HashMap<u32, u32>, flows: &HashMap<u32, u32>) -> Homes {
    let of_sample = |sample: &super::SteerSample| {
        let mut most: HashMap<u32, (u64, u32)> = HashMap::new();
        for found in &sample.buckets {
            let Some(&flow) = flows.get(&found.bucket) else { continue };
            let best = most.entry(flow).or_default();
            *best = (*best).max((found.packets, found.processor));
        }
        // A processor that has gone since had packets, too: they are the first core's here.
        let core = |processor| CoreId::from_index(cores.get(&processor).copied().unwrap_or(0) as usize);
        most.into_iter().map(|(flow, (_, processor))| (flow, core(processor))).collect()
    };
    let ends = record.samples.iter().map(|sample| Time::from_ns(sample.time_ns)).collect();
    Homes { ends, homes: record.samples.iter().map(of_sample).collect() }
}

/// Returns the policy that sends each bucket where it went.
fn now(homes: Arc<Homes>) -> Result<PolicySpec, LabError> {
    let made = OwnPolicy::steer(NOW, move |config| Now::new(config, &homes));
    made.map(PolicySpec::from).map_err(|error| LabError::option(error.to_string()))
}

/// Sends each packet where the interface sent it.
struct Now {
    homes: Arc<Homes>,
    sample: usize,
    /// Where each flow last was.
    last: IdVec<FlowId, CoreId>,
}

impl Now {
    fn new(config: &SchedulerConfig, homes: &Arc<Homes>) -> Result<Self, BuildError> {
        let last = IdVec::from_fn(config.flows, |_| CoreId::from_index(0));
        Ok(Self { homes: Arc::clone(homes), sample: 0, last })
    }
}

impl Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Now(sample {})", self.sample)
    }
}

impl Policy for Now {}

impl Steer for Now {
    fn steer(&mut self, now: Time, packet: &Packet, _: &View<'_>) -> Target {
        while self.sample + 1 < self.homes.ends.len() && now >= self.homes.ends[self.sample] {
            self.sample += 1;
        }
        if let Some(&home) = self.homes.homes[self.sample].get(&packet.flow.0) {
            self.last[packet.flow] = home;
        }
        Target::Core(self.last[packet.flow])
    }
}

/// Returns receive packet steering among all processors: the kernel hashes connections, and knows nothing of loads.
pub(super) fn rps(seed: Seed) -> Result<PolicySpec, LabError> {
    let made = OwnPolicy::steer(RPS, move |config| Ok(ByHash { cores: config.cores as u64, seed }));
    made.map(PolicySpec::from).map_err(|error| LabError::option(error.to_string()))
}

/// Sends each flow to the core of its hash.
#[derive(Debug)]
struct ByHash {
    cores: u64,
    seed: Seed,
}

impl Policy for ByHash {}

impl Steer for ByHash {
    fn steer(&mut self, _: Time, packet: &Packet, _: &View<'_>) -> Target {
        // As the kernel does it (`reciprocal_scale`): the upper half of the product.
        let hash = mix(packet.key ^ self.seed.0) >> 32;
        Target::Core(CoreId::from_index(((hash * self.cores) >> 32) as usize))
    }
}

/// Counts how often buckets go to another core than before: a handle and its copies count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves(Arc<Mutex<(u64, HashMap<u32, CoreId>)>>);

impl Moves {
    /// Returns how often.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Observer for Moves {
    fn on_arrival(&mut self, _: Time, _: &Packet, _: Arrival) {}

    fn on_dispatch(&mut self, _: Time, core: CoreId, dispatch: &Dispatch) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.1.insert(dispatch.packet.flow.0, core).is_some_and(|before| before != core) {
            counted.0 += 1;
        }
    }

    fn on_completion(&mut self, _: CoreId, _: Slot, _: &Completed, _: Time, _: Time) {}
    fn on_drop(&mut self, _: &Dropped) {}
    fn on_switch(&mut self, _: &Switch) {}
    fn on_switched(&mut self, _: Time, _: CoreId) {}
}
