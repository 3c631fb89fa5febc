//! The measurements as figures, for results.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use super::{ElementsSummary, Histogram};
use crate::unit::Time;

/// All measurements of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Summary {
    /// From the first arrival to the last completion.
    pub duration_ns: u64,
    /// Bytes processed.
    pub bytes: u64,
    /// Packets processed per second.
    pub throughput_pps: f64,
    /// Bits processed per second.
    pub throughput_bps: f64,
    /// From arrival to completion.
    pub delay_ns: Delay,
    /// Percentiles of the delay over all packets offered: a lost packet counts as an infinite
    /// delay.
    pub delay_offered_ns: DelayOffered,
    /// Packets later than their service tolerates, or lost.
    pub late: Late,
    /// Packets of the warm-up, which count in totals but in no figure of delay, lateness, order or
    /// fairness.
    pub warm_up: WarmUp,
    /// Order within flows.
    pub order: OrderSummary,
    /// Mean over the flows of the standard deviation of the time between departures.
    pub jitter_ns: f64,
    /// Moves between caches. `None`: the run has no topology.
    pub cache: Option<CacheSummary>,
    /// Service against weight.
    pub fairness: FairnessSummary,
    /// By core.
    pub cores_detail: Vec<CoreSummary>,
    /// Present if elements have several contexts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<ElementsSummary>,
    /// By service.
    pub services: Vec<ServiceSummary>,
    /// Fraction of all packets that were served on a core whose previous packet had another
    /// service.
    pub cold_fraction: f64,
    /// Switches of cores from one service to another.
    pub switches: u64,
    /// The whole distribution of the delay, for plots: the greatest delay in each bucket in ns, and
    /// its number of packets ([`Histogram::counts`]). The result document leaves it out and has
    /// `delay_ns`.
    #[serde(skip)]
    pub delay_counts: Vec<(u64, u64)>,
}

/// A distribution of delays, in ns.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Delay {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The greatest.
    pub max: u64,
}

impl Delay {
    /// The distribution in a histogram of ns.
    pub fn of(histogram: &Histogram) -> Self {
        Self {
            mean: histogram.mean(),
            p50: histogram.quantile(0.5),
            p90: histogram.quantile(0.9),
            p99: histogram.quantile(0.99),
            p999: histogram.quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// Percentiles of a delay over all packets offered, including lost ones, in ns. `None`: too many
/// packets were lost for this percentile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DelayOffered {
    /// Median.
    pub p50: Option<u64>,
    /// 90 %.
    pub p90: Option<u64>,
    /// 99 %.
    pub p99: Option<u64>,
    /// 99.9 %.
    pub p999: Option<u64>,
}

impl DelayOffered {
    /// Computes the percentiles from the delays and the numbers of lost packets. `before` were lost
    /// without a delay, `behind` were lost after they had one. It is unknown which packets the
    /// latter were, so each figure is an upper bound.
    pub(super) fn of(delays: &Histogram, before: u64, behind: u64) -> Self {
        let quantile = |quantile| delays.quantile_of(quantile, delays.count() + before, behind);
        Self { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99), p999: quantile(0.999) }
    }
}

/// Measured packets that were lost outside the mechanism, in ports for example.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostOutside {
    /// Before they arrived.
    pub before: u64,
    /// After they had left.
    pub behind: u64,
}

/// The start of a run, which is not measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WarmUp {
    /// The length of the warm-up: packets that came in within this time after the first are not
    /// measured.
    pub time_ns: u64,
    /// Packets of the warm-up that were processed.
    pub packets: u64,
}

/// Late packets: later than tolerated, or lost. Packets that their service drops or consumes, as a
/// firewall does, are not lost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Late {
    /// Number of late packets.
    pub count: u64,
    /// Late packets that were lost.
    pub lost: u64,
    /// Packets that were measured: those done and those lost.
    pub packets: u64,
    /// `count` divided by `packets`.
    pub fraction: f64,
}

impl Late {
    /// Counts late packets, lost ones included, out of all packets.
    pub(super) fn of(count: u64, lost: u64, packets: u64) -> Self {
        // A packet that was late and then lost in a port counts twice, because a port does not tell
        // which packets it lost.
        let count = count.min(packets);
        Self { count, lost, packets, fraction: fraction(count, packets) }
    }
}

/// Order within flows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OrderSummary {
    /// The order that the run promises, which is `free` unless the host sets it. `exit`: flows are
    /// put back in order when packets leave. `hold`: a client has one packet in service at a time.
    /// `free`: no promise.
    pub promised: &'static str,
    /// Packets that left after a later packet of their flow.
    pub out_of_order: u64,
    /// Fraction of all packets processed.
    pub fraction: f64,
    /// Standard deviation of start rank minus arrival rank, over all packets.
    pub displacement_std: f64,
}

/// Packets that were served by another core than the previous packet of their flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoveSummary {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Moves between caches: packets served by another core than the previous packet of their flow, for
/// any service of the chain. The topology gives the distance of the two cores.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CacheSummary {
    /// Packets that moved.
    pub moves: u64,
    /// Moves per packet that went to a core; a packet goes once for each service of its chain.
    pub moves_per_packet: f64,
    /// Bytes of packets served outside the flow's last cache of the second level: those of
    /// `same_socket` and `other_socket`.
    pub bytes_away: u64,
    /// Fraction of the bytes of all these packets.
    pub bytes_away_fraction: f64,
    /// Moves to a core that shares the cache of the second level.
    pub shared_l2: MoveSummary,
    /// Moves to another cache of the second level within the socket.
    pub same_socket: MoveSummary,
    /// Moves to another socket.
    pub other_socket: MoveSummary,
}

/// Service against weight.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FairnessSummary {
    /// Jain's index of service over weight: 1 means equal; 1/n means that one client has all
    /// service.
    pub jain: f64,
    /// How far a client was behind its fluid share at most, in the unit of work.
    pub service_error_min: f64,
    /// How far a client was ahead of its fluid share at most.
    pub service_error_max: f64,
    /// Clients that were served.
    pub clients: u64,
}

/// One core.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CoreSummary {
    /// Time busy over the duration of the run.
    pub utilization: f64,
    /// Packets served.
    pub packets: u64,
    /// Times it went to another service.
    pub switches: u64,
    /// Packets whose predecessor had another service.
    pub cold: u64,
}

/// One service.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ServiceSummary {
    /// Its name.
    pub name: String,
    /// Packets processed.
    pub packets: u64,
    /// Bytes processed.
    pub bytes: u64,
    /// From arrival to completion.
    pub delay_ns: Delay,
    /// Percentiles of the delay over all packets that came for the service, including those dropped
    /// before it was done with them.
    pub delay_offered_ns: DelayOffered,
    /// The delay beyond which a packet is late.
    pub tolerance_ns: u64,
    /// Packets later than that, or dropped before the service was done with them.
    pub late: Late,
    /// Most packets waiting at once.
    pub queue_max: u32,
    /// The whole distribution of the delay, as in [`Summary::delay_counts`].
    #[serde(skip)]
    pub delay_counts: Vec<(u64, u64)>,
    /// The service's own counters, by name. A driver whose services do real work fills them in.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

/// Returns `part / whole`, or 0 if `whole` is 0.
pub(super) fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns `amount` per second, or 0 if `duration` is 0.
pub(super) fn per_second(amount: u64, duration: Time) -> f64 {
    if duration == Time::ZERO { 0.0 } else { amount as f64 * 1e9 / duration.as_ns() as f64 }
}
