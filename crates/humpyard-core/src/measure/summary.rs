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
    /// Time from the first arrival to the last departure, in ns.
    pub duration_ns: u64,
    /// Bytes of the packets processed.
    pub bytes: u64,
    /// Packets processed per second of `duration_ns`.
    pub throughput_pps: f64,
    /// Bits processed per second of `duration_ns`.
    pub throughput_bps: f64,
    /// Delay of packets in ns, from arrival to departure, including the wait at the exit for
    /// earlier packets.
    pub delay_ns: Delay,
    /// Percentiles of the delay over all packets offered, in ns. A lost packet counts as an
    /// infinite delay.
    pub delay_offered_ns: DelayOffered,
    /// Packets that were lost or took longer than their services tolerate.
    pub late: Late,
    /// Packets of the warm-up. They count in totals, but in no figure of delay, lateness, order or
    /// fairness.
    pub warm_up: WarmUp,
    /// Order of packets: how many left out of order within their flow, and how far service changed
    /// the order of arrival.
    pub order: OrderSummary,
    /// Jitter: the standard deviation of the time between departures of a flow, in ns, averaged
    /// over the flows. Flows with fewer than four departures do not count.
    pub jitter_ns: f64,
    /// Moves of flows between cores, by the caches that the two cores share. `None`: the run has no
    /// topology.
    pub cache: Option<CacheSummary>,
    /// Service of the clients, compared with their weights.
    pub fairness: FairnessSummary,
    /// One entry for each core.
    pub cores_detail: Vec<CoreSummary>,
    /// Measurements of elements, which are groups of contexts. `None`: elements have one context
    /// each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<ElementsSummary>,
    /// One entry for each service.
    pub services: Vec<ServiceSummary>,
    /// Fraction, from 0 to 1, of the services of packets that began on a cold core: its previous
    /// packet had another service, or there was none.
    pub cold_fraction: f64,
    /// Number of times that an allocation gave a core to another service. 0 without an allocation
    /// that moves cores.
    pub switches: u64,
    /// Number of times that a core gave back a packet after a quantum, unfinished. `None`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptions: Option<u64>,
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
    /// Mean, in ns.
    pub mean: f64,
    /// Median, in ns.
    pub p50: u64,
    /// 90th percentile, in ns.
    pub p90: u64,
    /// 99th percentile, in ns.
    pub p99: u64,
    /// 99.9th percentile, in ns.
    pub p999: u64,
    /// Maximum, in ns.
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
    /// Median, in ns. `None`: too many packets were lost.
    pub p50: Option<u64>,
    /// 90th percentile, in ns. `None`: too many packets were lost.
    pub p90: Option<u64>,
    /// 99th percentile, in ns. `None`: too many packets were lost.
    pub p99: Option<u64>,
    /// 99.9th percentile, in ns. `None`: too many packets were lost.
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
    /// Length of the warm-up, in ns. Packets that came in within this time after the first are not
    /// measured.
    pub time_ns: u64,
    /// Packets of the warm-up that were processed.
    pub packets: u64,
}

/// Late packets: those that were lost, and those later than tolerated. Packets that their service
/// drops or consumes, as a firewall does, are not lost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Late {
    /// Number of late packets, including those lost.
    pub count: u64,
    /// Number of packets lost.
    pub lost: u64,
    /// Number of measured packets: those completed and those lost.
    pub packets: u64,
    /// `count` divided by `packets`, from 0 to 1.
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

/// Order of packets.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OrderSummary {
    /// The order that the run promises. `exit`: the exit puts the packets of each flow back in
    /// order. `hold`: a client has one packet in service at a time. `free`: none.
    pub promised: &'static str,
    /// Packets that left after a later packet of their flow.
    pub out_of_order: u64,
    /// `out_of_order` as a fraction of the measured packets that left, from 0 to 1.
    pub fraction: f64,
    /// Standard deviation of a packet's rank at the start of service minus its rank at arrival,
    /// over all measured packets.
    pub displacement_std: f64,
}

/// Packets that were served by another core than the previous packet of their flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoveSummary {
    /// Number of packets that moved this far.
    pub packets: u64,
    /// Bytes of the packets that moved this far.
    pub bytes: u64,
}

/// Moves between caches. A packet moves if another core served the previous packet of its flow. In
/// a chain, each service counts. The topology gives the distance between the two cores.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CacheSummary {
    /// Number of moves: packets served by another core than the previous packet of their flow.
    pub moves: u64,
    /// Moves divided by the packets given to cores, from 0 to 1. In a chain, a packet counts once
    /// for each service.
    pub moves_per_packet: f64,
    /// Bytes of the packets in `same_socket` and `other_socket`: they moved to a core with another
    /// L2 cache.
    pub bytes_away: u64,
    /// `bytes_away` as a fraction of the bytes of all packets given to cores, from 0 to 1.
    pub bytes_away_fraction: f64,
    /// Moves to a core that shares the L2 cache.
    pub shared_l2: MoveSummary,
    /// Moves to a core with another L2 cache in the same socket.
    pub same_socket: MoveSummary,
    /// Moves to a core in another socket.
    pub other_socket: MoveSummary,
}

/// Service of the clients, compared with their weights.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FairnessSummary {
    /// Jain's fairness index of service divided by weight, over the n clients served. 1: all are
    /// equal; 1/n: one client has all service.
    pub jain: f64,
    /// The furthest that a client fell behind its fluid share, in the unit of work: 0 or negative.
    pub service_error_min: f64,
    /// The furthest that a client got ahead of its fluid share, in the unit of work: 0 or positive.
    pub service_error_max: f64,
    /// Number of clients served.
    pub clients: u64,
}

/// One core.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CoreSummary {
    /// Time that the core was busy, as a fraction of `duration_ns`, from 0 to 1.
    pub utilization: f64,
    /// Packets that the core served.
    pub packets: u64,
    /// Number of times that an allocation gave the core to another service; see `cold` for packets.
    pub switches: u64,
    /// Packets that found the core cold: the core's first, and those after a packet of another
    /// service.
    pub cold: u64,
}

/// One service.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ServiceSummary {
    /// Name of the service.
    pub name: String,
    /// Packets that the service processed.
    pub packets: u64,
    /// Bytes that the service processed.
    pub bytes: u64,
    /// Delay of packets in ns, from their arrival at the service to their completion there.
    pub delay_ns: Delay,
    /// Percentiles of the delay in ns over all packets that came for the service. A packet dropped
    /// before its completion counts as an infinite delay.
    pub delay_offered_ns: DelayOffered,
    /// The delay in ns beyond which a packet is late.
    pub tolerance_ns: u64,
    /// Packets that took longer than `tolerance_ns`, or were dropped before their completion.
    pub late: Late,
    /// The most packets that waited for the service at once. With several dispatchers, the most at
    /// one of them.
    pub queue_max: u32,
    /// The whole distribution of the delay, as in [`Summary::delay_counts`].
    #[serde(skip)]
    pub delay_counts: Vec<(u64, u64)>,
    /// Counters of the service itself, by name. A driver whose services do real work fills them in.
    /// Left out: there are none.
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
