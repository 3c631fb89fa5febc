//! The result document of a run: stable keys, units in names.

pub(crate) mod link;

use std::collections::BTreeMap;

use humpyard_core::measure::{Histogram, Summary};
use humpyard_core::mechanism::{Account, DropReason, ExitAccount, SplitAccount, TakenOver};
use humpyard_runtime::{HardwareCounts, Load, OutAccount, ThreadCounts};
use humpyard_sim::DispatcherTime;
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

/// What a run came to. All but `measured` and `environment` is the same, byte for byte, for a run in virtual time with the
/// same input, options and seed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RunResult {
    /// The policies in force at the end.
    pub policy: String,
    /// The policies in force, in order, where others took over; left out where the same were in force all the time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<InForce>,
    /// Where packets came from.
    pub input: String,
    /// `sim` or `live`.
    pub host: &'static str,
    /// Where all randomness came from.
    pub seed: u64,
    /// Simulated cores, or worker threads (0: the dispatcher did the work).
    pub cores: usize,
    /// Dispatchers; left out where there is one.
    #[serde(skip_serializing_if = "is_one")]
    pub dispatchers: usize,
    /// Everything else that was asked for, as on the command line.
    pub options: BTreeMap<&'static str, String>,
    /// What each service costs, and the source of that.
    pub costs: Vec<ServiceCost>,
    /// The unit of work, and so of the service errors.
    pub unit: &'static str,
    /// How fast packets arrived.
    pub offered: Offered,
    /// What became of every packet.
    pub packets: PacketCounts,
    /// By dispatcher, the account of its packets; left out if there is one dispatcher.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dispatchers_detail: Vec<DispatcherResult>,
    /// What the interfaces counted; empty where packets came from and went elsewhere.
    pub ports: PortCounts,
    /// Flows seen.
    pub flows: u64,
    /// The flows of which most packets left, most first; 16 at most.
    pub top_flows: Vec<TopFlow>,
    /// Everything measured on the packets.
    #[serde(flatten)]
    pub summary: Summary,
    /// What came of the link behind the cores; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkResult>,
    /// What was split; left out where no flow may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitCounts>,
    /// What waited to leave in order; left out where packets leave as they are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitCounts>,
    /// The host that the simulation assumed; left out where that is the ideal one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed: Option<AssumedResult>,
    /// How often the run went on with another configuration.
    pub reloads: u64,
    /// Whether the run was ended from outside before the input was.
    pub interrupted: bool,
    /// The panic of a service at the earliest packet, if a service panicked: how many packets, `dropped_out` tells under
    /// `service_panicked`. Nothing of a simulation, which does no service's work.
    pub panic: Option<Panic>,
    /// The damage at which the input ended, if it did not end well.
    pub damage: Option<Damage>,
    /// Whether the timeline ends before the run, at a limit.
    #[serde(skip)]
    pub timeline_cut: bool,
    /// What does not add up between the threads of several dispatchers; none if nothing is lost.
    #[serde(skip)]
    pub unaccounted: Option<String>,
    /// Real times: different in every run.
    pub measured: Measured,
    /// Where the run took place.
    pub environment: Environment,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes what it asks about by reference")]
const fn is_one(count: &usize) -> bool {
    *count == 1
}

/// Policies from some time on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InForce {
    /// When they came into force, in ns since the start of the run.
    pub from_ns: u64,
    /// The policies.
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

/// The part of one of several dispatchers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DispatcherResult {
    /// Its workers: as many of `cores_detail`, behind those of the dispatchers before.
    pub workers: usize,
    /// The account of its packets. Packets that an interface did not take count as forwarded here, because it is unknown whose they
    /// were. Packets that an interface dropped before they came in are in no dispatcher's account.
    pub packets: PacketCounts,
    /// Flows that it saw.
    pub flows: u64,
}

/// What became of every packet. `in = processed + held + sum(dropped)`, and
/// `processed + generated = forwarded + consumed + held_out + sum(dropped_out)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketCounts {
    /// Packets that came in, those that interfaces dropped among them.
    #[serde(rename = "in")]
    pub arrived: u64,
    /// Packets whose service is complete.
    pub processed: u64,
    /// Packets that went out.
    pub forwarded: u64,
    /// Packets that were still waiting or in service at the end.
    pub held: u64,
    /// Packets dropped before service, by the scheduler and by interfaces, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that services made themselves, ICMP errors for example.
    pub generated: u64,
    /// Packets that ended at a service as they should.
    pub consumed: u64,
    /// Packets that still waited to go out at the end.
    pub held_out: u64,
    /// Packets dropped by services, at the link and by interfaces, by reason.
    pub dropped_out: BTreeMap<&'static str, u64>,
}

/// The host that a simulation assumed.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssumedResult {
    /// Part of the time in which the dispatcher was at work.
    pub dispatcher_utilization: f64,
    /// Processors of the simulation; more than the host has where there are more cores.
    pub processors: usize,
    /// Its times, by which the result can be had again.
    #[serde(flatten)]
    pub host: AssumedHost,
}

impl AssumedResult {
    /// The host of this configuration, whose dispatcher had this time.
    pub(crate) fn of(config: &RunConfig, dispatcher: Option<DispatcherTime>) -> Option<Self> {
        let (host, time) = (config.assumed.clone()?, dispatcher?);
        let dispatcher_utilization = time.worked.as_ns() as f64 / time.lasted.as_ns().max(1) as f64;
        let processors = host.machine.host.as_ref()?.processors_for(config.cores);
        Some(Self { dispatcher_utilization, processors, host })
    }
}

/// A flow, by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopFlow {
    /// Protocol, addresses and ports, as `trace info` shows them.
    pub flow: String,
    /// Its packets.
    pub packets: u64,
    /// Their part of those of all flows.
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

/// What was split.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SplitCounts {
    /// How often a flow became an elephant.
    pub elephants: u64,
    /// Packets that went to the shortest queue of their flow's cores.
    pub packets: u64,
    /// The elephants with the most of these packets, most first; 16 at most.
    pub flows: Vec<TopFlow>,
}

/// How packets left where they are put back in order. The order in which they did is in `order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitCounts {
    /// Packets that waited at the exit for earlier ones.
    pub waited: u64,
    /// Packets that missed their turn there, beyond the bounds of the exit, and left after later ones.
    pub missed_turn: u64,
    /// Packets that were waited for no more, because of the timeout or for want of places: those that missed their turn, and
    /// those that were dropped or consumed afterwards.
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

/// What the interfaces of a run counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortCounts {
    /// By interface, what came in: `frames` of all of them, and what they dropped, are the packets that came in.
    pub received: Vec<Received>,
    /// By interface, what went out: `frames` of all of them are the packets that were forwarded.
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
    /// The packet's number in the input, from 1.
    pub packet: u64,
    /// Name of the service.
    pub service: String,
    /// Why, and where in the source code, in one line.
    pub message: String,
}

/// Where and how the input was damaged. What came before was processed; jumps of its clock alone keep no packet out.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Damage {
    /// In words, with file, record and byte offset.
    pub message: String,
    /// Good packets before it; none if only the clock jumps.
    pub packets_before: Option<u64>,
    /// Where the bad record starts, in bytes of the uncompressed input; none if only the clock jumps.
    pub offset: Option<u64>,
    /// How often the clock jumps by more than a second back, where arrivals follow it.
    pub clock_jumps_back: u64,
    /// How often the clock jumps by more than an hour forward, where arrivals follow it.
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

/// What hardware counted of the threads of a live run, outside of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hardware {
    /// The counters that are missing, and why. `None`: none is.
    pub missing: Option<String>,
    /// By thread.
    pub threads: Vec<HardwareThread>,
}

/// What the hardware counted of one thread. `None`: it did not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HardwareThread {
    /// The thread.
    pub thread: String,
    /// Cycles of its processor.
    pub cycles: Option<u64>,
    /// Instructions.
    pub instructions: Option<u64>,
    /// Accesses to memory that the last cache did not have.
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

/// Real times: different in every run.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// From the start to the end of the run.
    pub wall_ns: u64,
    /// Packets per second of real time.
    pub packets_per_second: f64,
    /// Time of one decision of the mechanism and its policies: an arrival, or the question of a core. A sample.
    pub decision_ns: DurationSummary,
    /// The longest that a packet was due before the dispatcher took it in; 0 in a simulation.
    pub overdue_max_ns: u64,
    /// The longest that everything stood still while a policy took over; 0 where none did.
    pub swap_pause_max_ns: u64,
    /// Decision time over decision and processing time, from the means: two decisions and one service per packet.
    pub overhead_fraction: f64,
    /// How busy each dispatcher was; empty where there is none, in virtual time.
    pub dispatchers: Vec<DispatcherLoad>,
    /// What the hardware counted of the threads. `None`: nobody asked for it.
    pub hardware: Option<Hardware>,
}

/// How busy a dispatcher was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DispatcherLoad {
    /// The part of the time in which it did something rather than wait. Without workers the work of services is in it.
    pub busy_fraction: f64,
    /// The part of the time in which its workers were busy, in the mean; without workers, that in which it did their work.
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
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99 %.
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
