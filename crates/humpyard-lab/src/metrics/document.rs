//! The document of a run as it stands: `/snapshot.json`.

use std::collections::{BTreeMap, HashMap};

use humpyard_core::measure::{CoreTally, DelayTally, ServiceTally};
use humpyard_core::mechanism;
use humpyard_core::unit::Time;
use humpyard_runtime::{FlowCounts, Load};
use humpyard_services as services;
use humpyard_traffic::header::FlowKey;
use humpyard_traffic::sink::Sent;
use humpyard_traffic::source::Received;
use serde::{Deserialize, Serialize};

use super::about::About;

/// The current state of a live run: counts since its start, which never fall, and present values.
/// Keys are those of the result document if it has the same value.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// Version of humpyard.
    pub version: String,
    /// Number of the process (PID).
    pub process: u32,
    /// Policies in force now.
    pub policy: String,
    /// Source of the packets: a file, a generator or an interface.
    pub input: String,
    /// Destination of the packets.
    pub output: String,
    /// Time since the start of the run, in ns, by the clock of the run.
    pub elapsed_ns: u64,
    /// Fate of every packet so far.
    pub packets: Packets,
    /// Bytes of the packets processed.
    pub bytes: u64,
    /// Delay of packets from arrival to departure.
    pub delay: Delays,
    /// Packets that were lost or took longer than their services tolerate.
    pub late: u64,
    /// Packets lost before they left. They are not in `delay`.
    #[serde(default)]
    pub lost: u64,
    /// Packets that left after a later packet of their flow.
    pub out_of_order: u64,
    /// One entry for each dispatcher. Empty in virtual time.
    #[serde(default)]
    pub dispatchers: Vec<Dispatcher>,
    /// One entry for each core.
    pub cores: Vec<Core>,
    /// One entry for each service.
    pub services: Vec<Service>,
    /// Numbers of flows.
    pub flows: Flows,
    /// The flows with the most of the latest sampled packets, in descending order, at most 20.
    pub top_flows: Vec<TopFlow>,
    /// Number of sampled packets from which `top_flows` is found.
    pub flows_sampled: usize,
    /// Counts of the interfaces.
    pub ports: Ports,
    /// Time of decisions of the mechanism and its policies, from a sample.
    pub decision: Delays,
    /// Longest time, in ns, from the due arrival of a packet until the dispatcher took it in.
    pub overdue_max_ns: u64,
    /// Number of times that a policy took over.
    pub swaps: u64,
    /// Longest pause of the run while a policy took over, in ns. 0: no policy took over.
    pub swap_pause_max_ns: u64,
    /// Moves of a bucket of connections to another processor, queue or socket. `None`: the kernel's
    /// packets are not steered.
    #[serde(default)]
    pub bucket_moves: Option<u64>,
    /// Measurements of the kernel's packets, which are watched or steered. `None`: the packets are
    /// those of a run of humpyard.
    #[serde(default)]
    pub kernel: Option<KernelFigures>,
}

/// Measurements of the kernel's packets: those that come in, those that the kernel drops, packets
/// and busy time of each core, and the heaviest flows. All other values of a [`Snapshot`] are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelFigures {
    /// The processor or socket for which a packet counts in `cores`. `receiving_processor`: the one
    /// that took it from the interface. `steered_processor`, `socket`: the one to which the table
    /// assigns its bucket.
    pub packets_by: PacketsBy,
    /// Whether `out_of_order` counts packets that came after a later packet of their bucket.
    pub order: bool,
}

/// The processor or socket for which a packet counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PacketsBy {
    /// The processor that took it from the interface.
    ReceivingProcessor,
    /// The processor to which the table assigns its bucket.
    SteeredProcessor,
    /// The socket to which the table assigns its bucket. Busy time is not measured.
    Socket,
}

/// The fate of every packet so far. `in = processed + held + sum(dropped)`, and
/// `processed + generated = forwarded + consumed + held_out + sum(dropped_out)`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Packets {
    /// Packets that came in, including those that interfaces dropped.
    #[serde(rename = "in")]
    pub arrived: u64,
    /// Packets whose last service is complete.
    pub processed: u64,
    /// Packets that are waiting or in service now.
    pub held: u64,
    /// Packets that the scheduler or an interface dropped before their last service was complete,
    /// by reason. Reasons without packets are listed too.
    pub dropped: BTreeMap<String, u64>,
    /// Packets that were sent out.
    pub forwarded: u64,
    /// Packets that services made, such as ICMP errors.
    pub generated: u64,
    /// Packets that ended at a service as intended, such as decoded parity.
    pub consumed: u64,
    /// Packets that were processed and now wait to go out.
    pub held_out: u64,
    /// Packets that a service, the link or an output interface dropped, by reason. Reasons without
    /// packets are listed too.
    pub dropped_out: BTreeMap<String, u64>,
}

/// A distribution of times so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Delays {
    /// Sum of all times, in ns.
    pub sum_ns: u64,
    /// Histogram, as pairs: the greatest time of a bucket in ns, ascending, and the number of times
    /// in it. Buckets are less than 1 % wide.
    pub counts: Vec<(u64, u64)>,
}

impl Delays {
    fn of(tally: DelayTally) -> Self {
        Self { sum_ns: u64::try_from(tally.sum).unwrap_or(u64::MAX), counts: tally.buckets }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&(_, count)| count).sum()
    }

    /// What has come since an earlier snapshot of the same run.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before: HashMap<u64, u64> = earlier.counts.iter().copied().collect();
        let counts = self.counts.iter().map(|&(bound, count)| {
            let before = before.get(&bound).copied().unwrap_or(0);
            (bound, count.saturating_sub(before))
        });
        let counts = counts.filter(|&(_, count)| count > 0).collect();
        Self { sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns), counts }
    }

    /// A time in ns that at least `quantile` (0 to 1) of all do not exceed. `None`: nothing was measured.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let rank = (quantile * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.counts.iter().find_map(|&(bound, count)| {
            seen += count;
            (seen >= rank).then_some(bound)
        })
    }

    /// The mean in ns. `None`: nothing was measured.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / count as f64)
    }
}

/// One dispatcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dispatcher {
    /// Time since the start of the run, in ns.
    pub elapsed_ns: u64,
    /// Time since the start during which the dispatcher worked rather than waited, in ns.
    pub busy_ns: u64,
    /// Time during which the workers were busy, in ns, as a sum over all workers of the dispatcher.
    pub workers_busy_ns: u64,
    /// Number of workers of the dispatcher. 0: it does the work of the services itself.
    pub workers: usize,
}

impl Dispatcher {
    fn of(load: &Load) -> Self {
        let &Load { elapsed, busy, cores_busy, cores } = load;
        Self { elapsed_ns: elapsed.as_ns(), busy_ns: busy.as_ns(), workers_busy_ns: cores_busy.as_ns(), workers: cores }
    }

    /// As the run tells it.
    pub fn load(&self) -> Load {
        let &Self { elapsed_ns, busy_ns, workers_busy_ns, workers } = self;
        let [elapsed, busy, cores_busy] = [elapsed_ns, busy_ns, workers_busy_ns].map(Time::from_ns);
        Load { elapsed, busy, cores_busy, cores: workers }
    }
}

/// One core.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Core {
    /// Time that the core was busy with packets that are completed, in ns. With `kernel`: its time
    /// in interrupts and in the kernel.
    pub busy_ns: u64,
    /// Packets that the core served.
    pub packets: u64,
    /// Number of times that the core switched to another service.
    pub switches: u64,
    /// Packets that found the core cold: the core's first, and those after a packet of another
    /// service.
    pub cold: u64,
    /// Packets that the core has been given and that are not completed.
    pub in_flight: u32,
    /// Packets that wait in the queue of the core. `None`: cores do not have queues of their own.
    pub queue: Option<u32>,
}

impl Core {
    fn of(tally: &CoreTally, in_flight: u32, queue: Option<u32>) -> Self {
        let &CoreTally { busy, packets, switches, cold } = tally;
        Self { busy_ns: busy.as_ns(), packets, switches, cold, in_flight, queue }
    }
}

/// One service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Service {
    /// Name of the service.
    pub name: String,
    /// Packets that the service processed.
    pub packets: u64,
    /// Bytes that the service processed.
    pub bytes: u64,
    /// Delay of packets from their arrival at the service to their completion there.
    pub delay: Delays,
    /// The delay in ns beyond which a packet is late.
    pub tolerance_ns: u64,
    /// Packets that took longer than `tolerance_ns`, or were dropped before their completion.
    pub late: u64,
    /// Packets dropped before their completion at the service. They are not in `delay`.
    #[serde(default)]
    pub lost: u64,
    /// Packets that wait for the service.
    pub queue: u32,
}

impl Service {
    fn of(tally: ServiceTally) -> Self {
        let ServiceTally { name, packets, bytes, delay, tolerance, late, lost, waiting } = tally;
        let delay = Delays::of(delay);
        Self { name, packets, bytes, delay, tolerance_ns: tolerance.as_ns(), late, lost, queue: waiting }
    }
}

/// Numbers of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flows {
    /// Flows known now.
    pub known: u64,
    /// Flows seen so far.
    pub seen: u64,
    /// Flows that ended because another flow needed their place.
    pub evicted: u64,
    /// Flows that ended because they were idle for too long.
    pub expired: u64,
}

/// A flow with many of the latest sampled packets.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopFlow {
    /// Protocol, addresses and ports of the flow, as `trace info` shows them.
    pub flow: String,
    /// Fraction of the sampled packets that belong to the flow, from 0 to 1.
    pub fraction: f64,
}

/// Counts of the interfaces.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ports {
    /// One entry for each input interface.
    pub received: Vec<Received>,
    /// One entry for each output interface.
    pub sent: Vec<Sent>,
}

/// The most flows that a document has.
const TOP_FLOWS: usize = 20;

impl Snapshot {
    /// A snapshot of a run of which this is known.
    pub(super) fn of(about: &About, snapshot: humpyard_runtime::Snapshot) -> Self {
        let FlowCounts { known, seen, evicted, expired } = snapshot.flows;
        let queues = snapshot.in_flight.iter().zip(&snapshot.waiting);
        let cores = snapshot.tally.cores.iter().zip(queues);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            policy: snapshot.policy.as_deref().unwrap_or(&about.policy).to_owned(),
            input: about.input.clone(),
            output: about.output.clone(),
            elapsed_ns: snapshot.elapsed.as_ns(),
            packets: packets(&snapshot),
            bytes: snapshot.tally.bytes,
            late: snapshot.tally.late + snapshot.lost.before + snapshot.lost.behind,
            lost: snapshot.tally.lost + snapshot.lost.before,
            out_of_order: snapshot.tally.out_of_order,
            dispatchers: snapshot.loads.iter().map(Dispatcher::of).collect(),
            cores: cores.map(|(core, (&in_flight, &queue))| Core::of(core, in_flight, queue)).collect(),
            delay: Delays::of(snapshot.tally.delay),
            services: snapshot.tally.services.into_iter().map(Service::of).collect(),
            flows: Flows { known, seen, evicted, expired },
            top_flows: top_flows(&snapshot.sampled),
            flows_sampled: snapshot.sampled.len(),
            ports: Ports { received: snapshot.received, sent: snapshot.sent },
            decision: Delays::of(snapshot.decision),
            overdue_max_ns: snapshot.overdue_max.as_ns(),
            swaps: snapshot.swaps,
            swap_pause_max_ns: u64::try_from(snapshot.swap_pause_max.as_nanos()).unwrap_or(u64::MAX),
            bucket_moves: None,
            kernel: None,
        }
    }
}

fn packets(snapshot: &humpyard_runtime::Snapshot) -> Packets {
    let (account, out) = (&snapshot.account, &snapshot.out);
    let before = mechanism::DropReason::ALL.into_iter().map(|reason| (reason.name(), account.dropped(reason)));
    // Packets in the ring have yet to come in.
    let by_ports = Received { left: 0, ..sum(&snapshot.received) }.dropped();
    // A count that is not there yet cannot be seen to rise.
    let mut dropped_out: BTreeMap<String, u64> =
        services::DropReason::ALL.iter().map(|reason| (reason.name().to_owned(), 0)).collect();
    dropped_out.extend(out.dropped().map(|(reason, count)| (reason.name().to_owned(), count)));
    dropped_out.extend(out.dropped_at_link().map(|(reason, count)| (reason.name().to_owned(), count)));
    Packets {
        arrived: account.arrived + by_ports.iter().map(|(_, count)| count).sum::<u64>(),
        processed: account.processed,
        held: account.held,
        dropped: before.chain(by_ports).map(|(reason, count)| (reason.to_owned(), count)).collect(),
        forwarded: out.forwarded,
        generated: out.generated,
        consumed: out.consumed,
        held_out: out.held,
        dropped_out,
    }
}

/// Packets that all interfaces have lost on the way in.
fn sum(received: &[Received]) -> Received {
    received.iter().fold(Received::default(), |sum, port| Received {
        missed: sum.missed + port.missed,
        malformed: sum.malformed + port.malformed,
        ..sum
    })
}

/// The flows of most samples; of equals the lower key.
fn top_flows(sampled: &[FlowKey]) -> Vec<TopFlow> {
    let mut counts: BTreeMap<&FlowKey, usize> = BTreeMap::new();
    sampled.iter().for_each(|key| *counts.entry(key).or_default() += 1);
    let mut flows: Vec<(&FlowKey, usize)> = counts.into_iter().collect();
    flows.sort_by_key(|&(_, count)| core::cmp::Reverse(count));
    flows.truncate(TOP_FLOWS);
    let of = |(key, count): (&FlowKey, usize)| TopFlow {
        flow: key.to_string(),
        fraction: count as f64 / sampled.len() as f64,
    };
    flows.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_since_has_quantiles_of_its_own() {
        let earlier = Delays { sum_ns: 100, counts: vec![(10, 10)] };
        let later = Delays { sum_ns: 10_000, counts: vec![(10, 10), (100, 98), (1000, 2)] };
        let since = later.since(&earlier);
        assert_eq!(since.counts, [(100, 98), (1000, 2)]);
        assert_eq!(
            (since.quantile(0.5), since.quantile(0.98), since.quantile(0.99)),
            (Some(100), Some(100), Some(1000))
        );
        assert_eq!((since.count(), since.mean()), (100, Some(99.0)));
        assert_eq!((later.since(&later).quantile(0.5), later.since(&later).mean()), (None, None));
    }

    #[test]
    fn what_interfaces_drop_came_in_and_is_late() {
        let port = Received { frames: 10, missed: 3, malformed: 1, left: 9, ..Received::default() };
        let mut snapshot = humpyard_runtime::Snapshot::default();
        snapshot.received = vec![port.clone(), port];
        (snapshot.account.arrived, snapshot.account.processed) = (20, 20);
        (snapshot.lost.before, snapshot.lost.behind, snapshot.tally.late, snapshot.tally.lost) = (8, 2, 5, 1);
        let snapshot = Snapshot::of(&About::default(), snapshot);
        let packets = &snapshot.packets;
        assert_eq!((packets.arrived, packets.dropped["port_missed"], packets.dropped["port_malformed"]), (28, 6, 2));
        assert_eq!(packets.arrived, packets.processed + packets.held + packets.dropped.values().sum::<u64>());
        assert_eq!((snapshot.late, snapshot.lost), (15, 9));
    }

    #[test]
    fn the_policy_is_the_last_that_took_over() {
        let about = About { policy: "drr".into(), ..About::default() };
        let of = |policy: Option<&str>| {
            let mut snapshot = humpyard_runtime::Snapshot::default();
            snapshot.policy = policy.map(Into::into);
            Snapshot::of(&about, snapshot).policy
        };
        assert_eq!([None, Some("sfq")].map(of), ["drr", "sfq"]);
    }

    #[test]
    fn top_flows_are_those_of_most_samples() {
        let key = |port| FlowKey { source_port: port, ..FlowKey::default() };
        let sampled = [key(3), key(1), key(2), key(2)];
        let top = top_flows(&sampled);
        assert_eq!(top.iter().map(|flow| flow.fraction).collect::<Vec<_>>(), [0.5, 0.25, 0.25]);
        assert_eq!((&top[0].flow, &top[1].flow), (&key(2).to_string(), &key(1).to_string()));
        assert_eq!(top_flows(&(0..99).map(key).collect::<Vec<_>>()).len(), TOP_FLOWS);
        assert!(top_flows(&[]).is_empty());
    }
}
