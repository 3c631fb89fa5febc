//! The result document of a run: stable keys, units in names.

pub(crate) mod link;

use std::collections::BTreeMap;

use humpyard_core::measure::{Histogram, Summary};
use humpyard_core::mechanism::{Account, DropReason, ExitAccount, SplitAccount, TakenOver};
use humpyard_runtime::{HardwareCounts, Load, OutAccount, ThreadCounts};
use humpyard_traffic::TrafficError;
use humpyard_traffic::flow::Heaviest;
use humpyard_traffic::header::FlowKey;
use humpyard_traffic::pace::ClockJumps;
use humpyard_traffic::sink::Sent;
use humpyard_traffic::source::{QUEUE, Received};
use serde::Serialize;

use crate::choice::assumed::AssumedHost;
use crate::config::RunConfig;
use crate::costs::ServiceCost;
use crate::environment::Environment;
use crate::figures::{counted, time};
use crate::offered::Offered;
use link::LinkResult;

/// The result of a run. Everything except `measured` and `environment` is the same, byte for byte,
/// for a run in virtual time with the same input, options and seed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RunResult {
    /// Policies in force at the end of the run.
    pub policy: String,
    /// Policies in the order in which they came into force. Left out: the same ones were in force
    /// all the time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<InForce>,
    /// Source of the packets: a file, a generator or an interface.
    pub input: String,
    /// `sim`: a simulation; `live`: a live run.
    pub host: &'static str,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of simulated cores or worker threads. 0: the dispatcher did the work of the services.
    pub cores: usize,
    /// Number of dispatchers. 0: there was none, and each worker took its own packets. Left out:
    /// there was one.
    #[serde(skip_serializing_if = "is_one")]
    pub dispatchers: usize,
    /// All other options of the run, with their defaults, as on the command line.
    pub options: BTreeMap<&'static str, String>,
    /// Costs of each service, and their source.
    pub costs: Vec<ServiceCost>,
    /// Unit of work and of service errors: `ns`, `bytes` or `packets`.
    pub unit: &'static str,
    /// Rate at which packets arrived, and the load that they offered.
    pub offered: Offered,
    /// Fate of every packet.
    pub packets: PacketCounts,
    /// One entry for each dispatcher; without dispatchers, one for each worker or core. Left out: there was one
    /// dispatcher.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dispatchers_detail: Vec<DispatcherResult>,
    /// Counts of the interfaces. Empty: packets neither came from an interface nor went to one.
    pub ports: PortCounts,
    /// Number of flows seen.
    pub flows: u64,
    /// The flows with the most packets that left, in descending order, at most 16. Packets of the
    /// warm-up do not count.
    pub top_flows: Vec<TopFlow>,
    /// Everything measured on the packets.
    #[serde(flatten)]
    pub summary: Summary,
    /// Packets at the link behind the cores. `None`: there is no link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkResult>,
    /// Flows that were split over several cores. `None`: splitting is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitCounts>,
    /// Packets at the exit, which puts the packets of each flow back in order. `None`: packets
    /// leave as soon as they are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitCounts>,
    /// The host that the simulation assumed. `None`: the ideal host, or a live run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed: Option<AssumedResult>,
    /// Number of times that the run continued with another configuration.
    pub reloads: u64,
    /// Whether the run was stopped before the end of its input.
    pub interrupted: bool,
    /// The panic of a service, at the earliest packet that caused one. `None`: no service panicked.
    /// `packets.dropped_out` counts all such packets under `service_panicked`.
    pub panic: Option<Panic>,
    /// Damage of the input. `None`: the input is intact.
    pub damage: Option<Damage>,
    /// Whether the timeline ends before the run, at a limit.
    #[serde(skip)]
    pub timeline_cut: bool,
    /// What does not add up between the threads of several dispatchers; none if nothing is lost.
    #[serde(skip)]
    pub unaccounted: Option<String>,
    /// Real times, which differ in every run.
    pub measured: Measured,
    /// The machine, the version and the input of the run.
    pub environment: Environment,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes what it asks about by reference")]
pub(crate) const fn is_one(count: &usize) -> bool {
    *count == 1
}

/// Policies in force from some time on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InForce {
    /// Time at which the policies came into force, in ns since the start of the run.
    pub from_ns: u64,
    /// The policies in force from then on.
    pub policy: String,
}

impl InForce {
    /// All that were in force, in order, of a run that began with `first`; empty if these were in force all the time.
    pub(crate) fn list(first: &str, taken_over: &[TakenOver]) -> Vec<Self> {
        let mut list = vec![Self { from_ns: 0, policy: first.to_owned() }];
        for TakenOver { at, policy } in taken_over {
            // What goes on with other weights or workers has the same policies.
            if list.last().is_some_and(|last| last.policy != **policy) {
                list.push(Self { from_ns: at.as_ns(), policy: policy.as_ref().to_owned() });
            }
        }
        if list.len() > 1 { list } else { Vec::new() }
    }
}

impl RunResult {
    /// With the names of the heaviest flows.
    pub(crate) fn with_heaviest(mut self, heaviest: &Heaviest) -> Self {
        self.top_flows = TopFlow::list(heaviest.left(), heaviest.all().left);
        if let Some(split) = &mut self.split {
            split.flows = TopFlow::list(heaviest.split(), heaviest.all().split);
        }
        self
    }

    /// With the policies that took over.
    pub(crate) fn with_taken_over(mut self, taken_over: &[TakenOver]) -> Self {
        self.policies = InForce::list(&self.policy, taken_over);
        if let Some(last) = self.policies.last() {
            self.policy.clone_from(&last.policy);
        }
        self
    }

    /// The policies, and since when where others took over.
    pub fn in_force_text(&self) -> String {
        let from = |one: &InForce| format!("{} from {}", one.policy, time(one.from_ns as f64));
        match self.policies.as_slice() {
            [] => self.policy.clone(),
            several => several.iter().map(from).collect::<Vec<_>>().join(", "),
        }
    }

    /// All policies that were in force, in order.
    pub fn policies_text(&self) -> String {
        match self.policies.as_slice() {
            [] => self.policy.clone(),
            several => several.iter().map(|one| one.policy.as_str()).collect::<Vec<_>>().join(", then "),
        }
    }
}

/// The part of one dispatcher among several, or of one worker without a dispatcher.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DispatcherResult {
    /// Number of workers of the dispatcher. Their entries in `cores_detail` follow those of the
    /// dispatchers before.
    pub workers: usize,
    /// Fate of every packet of the dispatcher. Packets that an output interface refused count as
    /// forwarded here, because their dispatcher is unknown. Packets that an input interface dropped
    /// do not count here.
    pub packets: PacketCounts,
    /// Number of flows that the dispatcher saw.
    pub flows: u64,
    /// Fraction of the time, from 0 to 1, during which it worked, or the reader on its processor. Left out: in a live
    /// run, `measured.dispatchers` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
}

/// The fate of every packet. `in = processed + held + sum(dropped)`, and
/// `processed + generated = forwarded + consumed + held_out + sum(dropped_out)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketCounts {
    /// Packets that came in, including those that interfaces dropped.
    #[serde(rename = "in")]
    pub arrived: u64,
    /// Packets whose last service is complete.
    pub processed: u64,
    /// Packets that were sent out.
    pub forwarded: u64,
    /// Packets that were still waiting or in service at the end.
    pub held: u64,
    /// Packets that the scheduler or an interface dropped before their last service was complete,
    /// by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Of these, packets on which an earlier service of their chain had worked. Absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wasted: Option<u64>,
    /// Packets that services made, such as ICMP errors.
    pub generated: u64,
    /// Packets that ended at a service as intended, such as decoded parity.
    pub consumed: u64,
    /// Packets that were processed and still waited to go out at the end.
    pub held_out: u64,
    /// Packets that a service, the link or an output interface dropped, by reason.
    pub dropped_out: BTreeMap<&'static str, u64>,
}

/// The host that a simulation assumed.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssumedResult {
    /// Fraction of the time, from 0 to 1, during which the dispatcher worked; of several, the busiest one, with a
    /// reader on its processor. Without a dispatcher: the busiest core, with its services.
    pub dispatcher_utilization: f64,
    /// Fraction of the time, from 0 to 1, during which the reader read packets and dealt them out.
    /// Left out: only several dispatchers have a reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reader_utilization: Option<f64>,
    /// Number of processors in the simulation: those of the host or, if these are too few, one for each core, each
    /// dispatcher, and the reader of several dispatchers.
    pub processors: usize,
    /// Its times, with which the result can be reproduced.
    #[serde(flatten)]
    pub host: AssumedHost,
}

impl AssumedResult {
    /// The host of this configuration, whose busiest dispatcher worked this part of the time.
    pub(crate) fn of(config: &RunConfig, dispatcher_utilization: f64) -> Option<Self> {
        let host = config.assumed.clone()?;
        let processors = host.machine.host.as_ref()?.processors_for(config.cores, config.dispatchers.unwrap_or(1));
        Some(Self { dispatcher_utilization, reader_utilization: None, processors, host })
    }

    /// The core, of this many, whose processor the dispatcher uses, too: the last one, if there are as many processors.
    pub(crate) fn beside_dispatcher(&self, cores: usize) -> Option<usize> {
        (cores == self.processors).then(|| cores.checked_sub(1)).flatten()
    }
}

/// A flow, by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopFlow {
    /// Protocol, addresses and ports of the flow, as `trace info` shows them.
    pub flow: String,
    /// Packets of the flow that left; under `split`, those that were split.
    pub packets: u64,
    /// `packets` as a fraction of the same count over all flows, from 0 to 1.
    pub fraction: f64,
}

impl TopFlow {
    /// Returns these flows, of this many packets in all.
    pub(crate) fn list(flows: &[(FlowKey, u64)], all: u64) -> Vec<Self> {
        let of = |(key, packets): &(FlowKey, u64)| {
            let fraction = *packets as f64 / all.max(1) as f64;
            Self { flow: key.to_string(), packets: *packets, fraction }
        };
        flows.iter().map(of).collect()
    }
}

/// Counts of split flows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SplitCounts {
    /// Number of times that a flow became an elephant, which is a flow large enough to be split.
    pub elephants: u64,
    /// Packets that were split: each joined the shortest queue among the cores of its flow.
    pub packets: u64,
    /// The flows with most packets that were split, in descending order, at most 16.
    pub flows: Vec<TopFlow>,
}

/// Counts of the exit, which puts the packets of each flow back in order. `order` says in which
/// order packets left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitCounts {
    /// Packets that waited at the exit for earlier packets of their flow, and then left.
    pub waited: u64,
    /// Packets that left after later packets of their flow, because the exit had given them up.
    pub missed_turn: u64,
    /// Packets that the exit stopped waiting for, because of its timeout or for lack of places.
    /// Later they missed their turn, or were dropped or consumed.
    pub given_up: u64,
}

impl SplitCounts {
    pub(crate) fn of(split: SplitAccount) -> Self {
        Self { elephants: split.elephants, packets: split.packets, flows: Vec::new() }
    }
}

impl ExitCounts {
    pub(crate) fn of(exit: ExitAccount) -> Self {
        Self { waited: exit.reordered, missed_turn: exit.missed_turn, given_up: exit.given_up }
    }
}

/// Counts of the interfaces of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortCounts {
    /// One entry for each input interface. The sum of `frames` and of dropped frames is
    /// `packets.in`.
    pub received: Vec<Received>,
    /// One entry for each output interface. The sum of `frames` is `packets.forwarded`.
    pub sent: Vec<Sent>,
}

impl PortCounts {
    /// Whether the interfaces counted what the run did, and every packet of a queue got one verdict.
    pub fn agree(&self, packets: &PacketCounts) -> bool {
        let came = |port: &Received| port.frames + port.dropped().iter().map(|(_, count)| count).sum::<u64>();
        let received: u64 = self.received.iter().map(came).sum();
        let sent: u64 = self.sent.iter().map(|port| port.frames).sum();
        let have_verdicts = self.received.iter().filter(|port| port.port.starts_with(QUEUE)).all(|port| {
            let verdicts = |sent: &Sent| sent.frames + sent.too_long + sent.down + sent.discarded;
            self.sent.iter().find(|sent| sent.port == port.port).map(verdicts) == Some(port.frames)
        });
        (self.received.is_empty() || received == packets.arrived)
            && (self.sent.is_empty() || sent == packets.forwarded)
            && have_verdicts
    }
}

impl PacketCounts {
    /// The account of what came in; what went out is everything that was processed.
    pub(crate) fn of(account: &Account) -> Self {
        let dropped = DropReason::ALL.into_iter().map(|reason| (reason.name(), account.dropped(reason)));
        Self {
            arrived: account.arrived,
            processed: account.processed,
            forwarded: account.processed,
            held: account.held,
            dropped: dropped.filter(|&(_, count)| count > 0).collect(),
            wasted: Some(account.wasted).filter(|&wasted| wasted > 0),
            generated: 0,
            consumed: 0,
            held_out: 0,
            dropped_out: BTreeMap::new(),
        }
    }

    /// With the account of what went out.
    pub(crate) fn with_out(self, out: &OutAccount) -> Self {
        Self {
            processed: out.processed,
            forwarded: out.forwarded,
            generated: out.generated,
            consumed: out.consumed,
            held_out: out.held,
            dropped_out: out
                .dropped()
                .map(|(reason, count)| (reason.name(), count))
                .chain(out.dropped_at_link().map(|(reason, count)| (reason.name(), count)))
                .filter(|&(_, count)| count > 0)
                .collect(),
            ..self
        }
    }

    /// With the packets that interfaces dropped before they came in.
    pub(crate) fn with_ports(mut self, ports: &[Received]) -> Self {
        for (reason, count) in ports.iter().flat_map(Received::dropped).filter(|&(_, count)| count > 0) {
            self.arrived += count;
            *self.dropped.entry(reason).or_default() += count;
        }
        self
    }

    /// What was processed went through this link: not all of it went out.
    pub(crate) fn through(&mut self, link: &LinkResult) {
        self.forwarded = link.sent;
        self.held_out = link.held;
        self.dropped_out = link.dropped.clone();
    }

    /// Whether every packet is accounted for, coming in and going out.
    pub fn balance(&self) -> bool {
        let dropped: u64 = self.dropped.values().sum();
        let dropped_out: u64 = self.dropped_out.values().sum();
        self.arrived == self.processed + self.held + dropped
            && self.processed + self.generated == self.forwarded + self.consumed + self.held_out + dropped_out
    }

    /// Packets dropped, before service and by services.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().chain(self.dropped_out.values()).sum()
    }
}

/// A service panicked at a packet: a defect of the service. The packet was dropped and its worker went on.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Panic {
    /// Number of the packet in the input, from 1.
    pub packet: u64,
    /// Name of the service that panicked.
    pub service: String,
    /// The reason, and the place in the source code, in one line.
    pub message: String,
}

/// Where and how the input was damaged. Packets before the damage were processed; jumps of the
/// clock alone lose no packet.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Damage {
    /// Description of the damage, with file, record and byte offset.
    pub message: String,
    /// Number of good packets before the bad record. `None`: no record is bad; for example, only
    /// the clock jumps.
    pub packets_before: Option<u64>,
    /// Start of the bad record, in bytes of the uncompressed input. `None`: no record is bad; for
    /// example, only the clock jumps.
    pub offset: Option<u64>,
    /// Number of jumps of the input's clock back by more than 1 s. 0 if arrivals do not follow that
    /// clock.
    pub clock_jumps_back: u64,
    /// Number of jumps of the input's clock forward by more than 1 h. 0 if arrivals do not follow
    /// that clock.
    pub clock_jumps_forward: u64,
}

impl Damage {
    pub(crate) fn find(input: &str, error: Option<&TrafficError>, jumps: ClockJumps) -> Option<Self> {
        let message = match error {
            Some(error) => error.to_string(),
            None if jumps == ClockJumps::default() => return None,
            None => format!(
                "{input}: its clock jumps {} back by over 1 s and {} forward by over 1 h; a packet after a jump arrives with the \
                 packet before it",
                counted(jumps.backward, "time"),
                counted(jumps.forward, "time")
            ),
        };
        Some(Self {
            message,
            packets_before: error.and_then(TrafficError::packets_before),
            offset: error.and_then(TrafficError::offset),
            clock_jumps_back: jumps.backward,
            clock_jumps_forward: jumps.forward,
        })
    }

    /// Whether packets are missing: more than the clock is damaged.
    pub fn is_loss(&self) -> bool {
        self.packets_before.is_some() || self.clock_jumps_back + self.clock_jumps_forward == 0
    }
}

/// Hardware counters of the threads of a live run, outside of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hardware {
    /// The missing counters, and why they are missing. `None`: no counter is missing.
    pub missing: Option<String>,
    /// One entry for each thread, the dispatcher first.
    pub threads: Vec<HardwareThread>,
}

/// Hardware counters of one thread. `None`: the counter is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HardwareThread {
    /// Name of the thread.
    pub thread: String,
    /// Processor cycles of the thread, outside of the kernel. `None`: the counter is missing.
    pub cycles: Option<u64>,
    /// Instructions of the thread, outside of the kernel. `None`: the counter is missing.
    pub instructions: Option<u64>,
    /// Memory accesses of the thread that missed the last-level cache, outside of the kernel.
    /// `None`: the counter is missing.
    pub cache_misses: Option<u64>,
}

impl Hardware {
    pub(crate) fn of(counts: &HardwareCounts) -> Self {
        let thread = |counts: &ThreadCounts| HardwareThread {
            thread: counts.thread.to_string(),
            cycles: counts.cycles,
            instructions: counts.instructions,
            cache_misses: counts.cache_misses,
        };
        Self { missing: counts.missing.clone(), threads: counts.threads.iter().map(thread).collect() }
    }
}

/// Real times, which differ in every run.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Time from the start to the end of the run, in ns.
    pub wall_ns: u64,
    /// Packets that arrived per second of `wall_ns`.
    pub packets_per_second: f64,
    /// Time of one decision of the mechanism and its policies, in ns. A decision handles an
    /// arrival, or chooses the next packet for a core. It is from a sample: every 256th packet of a
    /// simulation, every 64th of a live run. 0: nothing was timed. Either the run had too few
    /// packets, or a simulation assumed a host, whose decisions take the times of `host`.
    pub decision_ns: DurationSummary,
    /// Longest time, in ns, from the due arrival of a packet until the dispatcher took it in. 0 in
    /// a simulation.
    pub overdue_max_ns: u64,
    /// Longest pause of the run while a policy took over, in ns. 0: no policy took over.
    pub swap_pause_max_ns: u64,
    /// Decision time as a fraction of decision and processing time, from 0 to 1. Each packet counts
    /// as two decisions of mean length. In a simulation the processing time is virtual.
    pub overhead_fraction: f64,
    /// One entry for each dispatcher. Empty in virtual time.
    pub dispatchers: Vec<DispatcherLoad>,
    /// Hardware counters of the threads. `None`: they were not requested.
    pub hardware: Option<Hardware>,
}

/// The load of a dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DispatcherLoad {
    /// Fraction of the time, from 0 to 1, during which the dispatcher worked rather than waited.
    /// Without workers, this includes the work of services.
    pub busy_fraction: f64,
    /// Mean fraction of the time, from 0 to 1, during which the workers were busy. Without workers:
    /// the fraction during which the dispatcher did their work.
    pub workers_utilization: f64,
}

impl DispatcherLoad {
    pub(crate) fn of(load: &Load) -> Self {
        Self { busy_fraction: load.busy_fraction(), workers_utilization: load.utilization() }
    }
}

/// A distribution of real times, in ns.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurationSummary {
    /// Mean, in ns.
    pub mean: f64,
    /// Median, in ns.
    pub p50: u64,
    /// 99th percentile, in ns.
    pub p99: u64,
}

impl Measured {
    /// Returns the times of a run of this many packets that kept cores busy for `busy_ns` in all.
    pub(crate) fn of(wall: core::time::Duration, decision: &Histogram, packets: u64, busy_ns: f64) -> Self {
        let decisions_ns = 2.0 * decision.mean() * packets as f64;
        let total = decisions_ns + busy_ns;
        Self {
            wall_ns: wall.as_nanos() as u64,
            packets_per_second: packets as f64 / wall.as_secs_f64().max(1e-9),
            decision_ns: DurationSummary {
                mean: decision.mean(),
                p50: decision.quantile(0.5),
                p99: decision.quantile(0.99),
            },
            overdue_max_ns: 0,
            swap_pause_max_ns: 0,
            dispatchers: Vec::new(),
            overhead_fraction: if total > 0.0 { decisions_ns / total } else { 0.0 },
            hardware: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::unit::Time;

    use super::*;

    fn dropped_by_ports() -> Vec<Received> {
        let port = Received { port: "iface:a".into(), frames: 90, missed: 5, malformed: 1, ..Received::default() };
        vec![port.clone(), Received { port: "iface:b".into(), frames: 10, left: 3, passed: 7, ..port }]
    }

    #[test]
    fn what_interfaces_drop_came_in_and_has_a_reason() {
        let mut account = PacketCounts { arrived: 100, processed: 98, ..PacketCounts::of(&Account::default()) };
        (account.forwarded, account.dropped) = (98, BTreeMap::from([("buffer_full", 2)]));
        let packets = account.clone().with_ports(&dropped_by_ports());
        assert_eq!(packets.arrived, 115);
        let dropped = [("buffer_full", 2), ("port_left", 3), ("port_malformed", 2), ("port_missed", 10)];
        assert_eq!(packets.dropped, BTreeMap::from(dropped));
        assert!(packets.balance());
        let ports = PortCounts { received: dropped_by_ports(), sent: Vec::new() };
        assert!(ports.agree(&packets) && !ports.agree(&account));
        assert_eq!(account.clone().with_ports(&[]), account);
    }

    #[test]
    fn policies_are_listed_where_others_took_over() {
        let taken_over = |all: &[(u64, &str)]| -> Vec<TakenOver> {
            all.iter().map(|&(at, policy)| TakenOver { at: Time::from_ns(at), policy: policy.into() }).collect()
        };
        let list = |all: &[(u64, &str)]| -> Vec<(u64, String)> {
            InForce::list("drr", &taken_over(all)).into_iter().map(|one| (one.from_ns, one.policy)).collect()
        };
        assert_eq!(list(&[]), []);
        assert_eq!(list(&[(7, "drr")]), [], "other weights alone");
        let expected = [(0, "drr"), (7, "sfq"), (9, "drr")].map(|(at, policy)| (at, policy.to_owned()));
        assert_eq!(list(&[(7, "sfq"), (8, "sfq"), (9, "drr")]), expected);
    }

    #[test]
    fn every_packet_of_a_queue_has_one_verdict() {
        let packets = PacketCounts {
            arrived: 10,
            forwarded: 6,
            processed: 8,
            dropped: BTreeMap::from([("buffer_full", 2)]),
            dropped_out: BTreeMap::from([("rule_denied", 1), ("output_down", 1)]),
            ..PacketCounts::of(&Account::default())
        };
        assert!(packets.balance());
        let ports = |discarded| PortCounts {
            received: vec![Received { port: "nfqueue:7".into(), frames: 10, ..Received::default() }],
            sent: vec![Sent { port: "nfqueue:7".into(), frames: 6, down: 1, discarded, ..Sent::default() }],
        };
        assert!(ports(3).agree(&packets) && !ports(3).agree(&packets.clone().with_ports(&dropped_by_ports())));
        assert!(!ports(2).agree(&packets) && !ports(4).agree(&packets));
    }
}
