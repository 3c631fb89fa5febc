//! The figures that findings are made of.

use std::collections::BTreeMap;

use crate::statistics::Statistic;

/// From this load on cores are overloaded: a load of 1, as measured, may be a little more.
pub(super) const OVERLOAD: f64 = 1.01;
/// A smaller part of the packets is not worth the first sentence.
pub(super) const FEW: f64 = 1e-4;
/// A run shorter than this many tolerances cannot show the effect of a tolerance.
pub(super) const LENGTHS: u64 = 10;
/// Packets that a 99th percentile needs: ten are beyond it.
const PACKETS: u64 = 1000;

/// What the rules know of a comparison. A single run is a comparison of one policy.
#[derive(Clone, Debug, Default)]
#[cfg_attr(test, derive(serde::Deserialize), serde(default))]
pub(super) struct Facts {
    /// Whether the runs went by the machine's clock.
    pub(super) real_time: bool,
    /// Whether a simulation assumed a host, which has a dispatcher.
    pub(super) on_assumed_host: bool,
    /// The core whose processor the dispatcher of a simulation uses, too. `None`: it has one of its own.
    pub(super) beside_dispatcher: Option<usize>,
    /// Cores, or worker threads.
    pub(super) cores: usize,
    /// Packets that came in, in the first run.
    pub(super) packets: u64,
    /// Flows of the first run.
    pub(super) flows: u64,
    /// Clients that were served.
    pub(super) clients: u64,
    /// Services that had packets.
    pub(super) services: Vec<String>,
    /// Offered work over what the cores can do. `None`: nobody knows.
    pub(super) load: Option<f64>,
    /// Whether packets came as fast as they were taken.
    pub(super) line_rate: bool,
    /// Repetitions that were planned.
    pub(super) repetitions: u32,
    /// Packets that the buffer holds.
    pub(super) buffer: u64,
    /// Packets that a client may have waiting. `None`: no limit.
    pub(super) client_limit: Option<u64>,
    /// Packets that a queue may hold. `None`: no limit.
    pub(super) queue_limit: Option<u64>,
    /// The order that was promised: `exit`, `hold` or `free`.
    pub(super) promised: String,
    /// The least tolerance of a service that had packets.
    pub(super) tolerance_ns: u64,
    /// Time that a core needs to change to another service.
    pub(super) switch_cost_ns: u64,
    /// Speeds of the cores, by core. Empty: all have the same.
    pub(super) speeds: Vec<f64>,
    /// Whether a signal ended the comparison.
    pub(super) interrupted: bool,
    /// Whether packets come by an interface, which has no end.
    pub(super) endless: bool,
    /// Where the input is damaged, if packets are missing.
    pub(super) damage: Option<String>,
    /// What is wrong with the clock of the input.
    pub(super) clock_jumps: Option<String>,
    /// A policy under which packets are unaccounted for.
    pub(super) unaccounted: Option<String>,
    /// A panic of a service.
    pub(super) panic: Option<PanicFacts>,
    /// Whether threads shared a processor.
    pub(super) shared: bool,
    /// The policies, in the order of the comparison.
    pub(super) policies: Vec<PolicyFacts>,
}

/// A panic of a service.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub(super) struct PanicFacts {
    /// The policy of the run.
    pub(super) policy: String,
    /// The service.
    pub(super) service: String,
    /// Packets that were dropped.
    pub(super) packets: u64,
}

/// The runs of one policy.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub(super) struct PolicyFacts {
    /// The policy.
    pub(super) name: String,
    /// Its runs, in the order of the repetitions.
    pub(super) runs: Vec<RunFacts>,
}

/// One run.
#[derive(Clone, Debug, Default)]
#[cfg_attr(test, derive(serde::Deserialize), serde(default))]
pub(super) struct RunFacts {
    /// Packets that came in.
    pub(super) packets: u64,
    /// Packets of the warm-up, which are not measured.
    pub(super) warm_up: u64,
    /// Packets lost, by the place where they were.
    pub(super) lost: BTreeMap<Place, u64>,
    /// Packets that services dropped, as their rules say.
    pub(super) rejected: u64,
    /// The most frequent reason for that, and its packets. `None`: services dropped none.
    pub(super) verdict: Option<(String, u64)>,
    /// Packets whose service is complete.
    pub(super) processed: u64,
    /// Packets that went out.
    pub(super) forwarded: u64,
    /// Late packets, of all.
    pub(super) late: f64,
    /// Delay of half of the packets served, in ns.
    pub(super) p50: f64,
    /// Delay of 99 of 100 packets served, in ns.
    pub(super) p99: f64,
    /// The greatest delay, in ns.
    pub(super) max: f64,
    /// Packets that left after later ones of their flow, of all.
    pub(super) out_of_order: f64,
    /// Packets processed per second.
    pub(super) pps: f64,
    /// Fairness between clients, 1 if all had the same.
    pub(super) jain: f64,
    /// Part of the time that each core was busy.
    pub(super) busy: Vec<f64>,
    /// The flow with the most packets that left. `None`: nobody knows, or no packet left.
    pub(super) heaviest: Option<HeaviestFlow>,
    /// Part of the time that each dispatcher was busy. Empty: there is none, on the ideal host.
    pub(super) dispatchers: Vec<f64>,
    /// Part of the time that the reader of several simulated dispatchers was busy. `None`: there is none.
    #[cfg_attr(test, serde(default))]
    pub(super) reader: Option<f64>,
    /// Whether a dispatcher is the bottleneck, by [`crate::bottleneck`].
    pub(super) is_dispatcher_full: bool,
    /// The longest that a packet was due before a dispatcher took it in.
    pub(super) overdue_ns: u64,
    /// Length of the run.
    pub(super) duration_ns: u64,
    /// Most packets of a service that waited at once.
    pub(super) queue_max: u64,
    /// How often cores changed to another service.
    pub(super) switches: u64,
    /// The link behind the cores.
    pub(super) link: Option<LinkFacts>,
}

/// The flow with the most packets.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub(super) struct HeaviestFlow {
    /// Its 5-tuple.
    pub(super) flow: String,
    /// Its part of the packets that left.
    pub(super) fraction: f64,
}

/// The link behind the cores.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub(super) struct LinkFacts {
    /// Bits per second.
    pub(super) bps: f64,
    /// Part of it that was used.
    pub(super) used: f64,
}

/// Where packets are lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(test, derive(serde::Deserialize), serde(rename_all = "snake_case"))]
pub(super) enum Place {
    /// The port by which they came.
    Input,
    /// The buffer of all packets.
    Buffer,
    /// A client with as many packets waiting as it may have.
    Client,
    /// A queue with as many packets as it may hold.
    Queue,
    /// The link behind the cores.
    Link,
    /// The port by which they were to leave.
    Output,
}

impl Facts {
    /// Returns the packets that the shortest run measured, where they are too few for a 99th
    /// percentile. `None`: they are enough, or the input is empty.
    pub(super) fn too_few_packets(&self) -> Option<u64> {
        let runs = self.policies.iter().flat_map(|policy| &policy.runs);
        let measured = runs.map(|run| run.packets.saturating_sub(run.warm_up)).min().unwrap_or(0);
        (self.packets > 0 && measured < PACKETS).then_some(measured)
    }
}

impl RunFacts {
    /// Packets lost, of all that came in.
    pub(super) fn lost(&self) -> f64 {
        let lost: u64 = self.lost.values().sum();
        if self.packets == 0 { 0.0 } else { lost as f64 / self.packets as f64 }
    }

    /// Part of the time that the cores were busy, on average.
    pub(super) fn busy_mean(&self) -> f64 {
        self.busy.iter().sum::<f64>() / self.busy.len().max(1) as f64
    }

    /// Part of the time that the cores took to change to other services, on average, when each change takes this many ns.
    pub(super) fn switching(&self, cost_ns: u64) -> f64 {
        let all = self.duration_ns as f64 * self.busy.len().max(1) as f64;
        if all > 0.0 { self.switches as f64 * cost_ns as f64 / all } else { 0.0 }
    }
}

impl PolicyFacts {
    /// Whether hardly a packet was lost in any run.
    pub(super) fn is_lossless(&self) -> bool {
        self.greatest(RunFacts::lost) < FEW
    }

    /// A figure of each run.
    pub(super) fn values(&self, of: impl Fn(&RunFacts) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }

    /// The median of a figure over the runs; 0 without a run.
    pub(super) fn median(&self, of: impl Fn(&RunFacts) -> f64) -> f64 {
        Statistic::of(self.values(of)).map_or(0.0, |statistic| statistic.median)
    }

    /// The greatest of a figure over the runs; 0 without a run.
    pub(super) fn greatest(&self, of: impl Fn(&RunFacts) -> f64) -> f64 {
        self.runs.iter().map(of).fold(0.0, f64::max)
    }

    /// How busy the cores were, from the busiest: the median over the runs of the busiest, of the second, and so on.
    pub(super) fn busy_by_rank(&self) -> Vec<f64> {
        let cores = self.runs.iter().map(|run| run.busy.len()).max().unwrap_or(0);
        (0..cores).map(|rank| self.median(|run| ranked(&run.busy).get(rank).copied().unwrap_or(0.0))).collect()
    }

    /// Packets lost at a place in all runs, of all packets lost.
    pub(super) fn lost_at(&self, places: &[Place]) -> f64 {
        let of = |run: &RunFacts, place: &Place| run.lost.get(place).copied().unwrap_or(0);
        let there: u64 = self.runs.iter().flat_map(|run| places.iter().map(move |place| of(run, place))).sum();
        let all: u64 = self.runs.iter().flat_map(|run| run.lost.values()).sum();
        if all == 0 { 0.0 } else { there as f64 / all as f64 }
    }
}

/// The values from the greatest.
pub(super) fn ranked(values: &[f64]) -> Vec<f64> {
    let mut ranked = values.to_vec();
    ranked.sort_by(|a, b| b.total_cmp(a));
    ranked
}
