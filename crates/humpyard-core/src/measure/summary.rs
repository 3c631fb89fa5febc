//! The measurements in numbers, as results give them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use super::{ElementsSummary, Histogram};
use crate::unit::Time;

/// All measurements of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
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
    /// The percentiles of that over all packets offered: one that was lost has no delay, however long.
    pub delay_offered_ns: DelayOffered,
    /// Packets later than their service tolerates, or lost.
    pub late: Late,
    /// What is in no figure of delay, lateness, order and fairness, though it is in all counts.
    pub warm_up: WarmUp,
    /// Order within flows.
    pub order: OrderSummary,
    /// Mean over the flows of the standard deviation of the time between departures.
    pub jitter_ns: f64,
    /// What moved between caches; none where the run has no topology.
    pub cache: Option<CacheSummary>,
    /// Service against weight.
    pub fairness: FairnessSummary,
    /// By core.
    pub cores_detail: Vec<CoreSummary>,
    /// Where elements have several contexts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<ElementsSummary>,
    /// By service.
    pub services: Vec<ServiceSummary>,
    /// Packets served on a core whose previous packet had another service, over all.
    pub cold_fraction: f64,
    /// Cores that went from one service to another.
    pub switches: u64,
    /// The whole distribution of the delay, to be drawn: greatest delay of a bucket in ns, and packets in it
    /// ([`Histogram::counts`]). Not in the document, which has `delay_ns`.
    #[serde(skip)]
    pub delay_counts: Vec<(u64, u64)>,
}

/// A distribution of delays, in ns.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Delay {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// Of ten packets, nine had at most this.
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

/// Percentiles of a delay over all packets offered, those that were lost among them, in ns. `None`: so many packets were lost that no
/// delay has that part of them below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct DelayOffered {
    /// Median.
    pub p50: Option<u64>,
    /// Of ten packets, nine had at most this.
    pub p90: Option<u64>,
    /// 99 %.
    pub p99: Option<u64>,
    /// 99.9 %.
    pub p999: Option<u64>,
}

impl DelayOffered {
    /// Of packets with these delays and so many that were lost: `before` they had one, and `behind`, after they had one. Which of
    /// the packets those were is not known, so each figure is an upper bound.
    pub(super) fn of(delays: &Histogram, before: u64, behind: u64) -> Self {
        let quantile = |quantile| delays.quantile_of(quantile, delays.count() + before, behind);
        Self { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99), p999: quantile(0.999) }
    }
}

/// Packets that were lost outside of the mechanism, in ports for example, of those that are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostOutside {
    /// Before they arrived.
    pub before: u64,
    /// After they had left.
    pub behind: u64,
}

/// The beginning of a run, that is not measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct WarmUp {
    /// Packets that came in within so long after the first are not measured.
    pub time_ns: u64,
    /// How many of these were processed.
    pub packets: u64,
}

/// Late packets: later than tolerated, or lost. Packets that their service drops or consumes, as a firewall does, are not lost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Late {
    /// How many.
    pub count: u64,
    /// Of these, packets that were lost.
    pub lost: u64,
    /// Packets that were measured: those done and those lost.
    pub packets: u64,
    /// `count` of `packets`.
    pub fraction: f64,
}

impl Late {
    /// Counts late packets, lost ones included, out of all packets.
    pub(super) fn of(count: u64, lost: u64, packets: u64) -> Self {
        // A packet that was late and then lost in a port counts twice, for no port tells which it lost.
        let count = count.min(packets);
        Self { count, lost, packets, fraction: fraction(count, packets) }
    }
}

/// Order within flows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct OrderSummary {
    /// What the run promises: `exit` (flows are put back in order when packets leave), `hold` (a client has one packet in service at a
    /// time) or `free` (nothing), which it is unless the host says otherwise.
    pub promised: &'static str,
    /// Packets that left after a later packet of their flow.
    pub out_of_order: u64,
    /// Of all packets processed.
    pub fraction: f64,
    /// Standard deviation of start rank minus arrival rank, over all packets.
    pub displacement_std: f64,
}

/// Packets that were served by another core than the packet of their flow before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MoveSummary {
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What moved between caches: packets served by another core than the one before of their flow, whichever service of their
/// chain that was. A topology says how far apart the two are.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct CacheSummary {
    /// Packets that moved.
    pub moves: u64,
    /// Of all packets that went to a core; a packet goes once for each service of its chain.
    pub moves_per_packet: f64,
    /// Bytes that were touched away from the last cache of the second level of their flow: those of `same_socket` and
    /// `other_socket`.
    pub bytes_away: u64,
    /// Of the bytes of all these packets.
    pub bytes_away_fraction: f64,
    /// Moves to a core that shares the cache of the second level.
    pub shared_l2: MoveSummary,
    /// Moves beyond, within the socket.
    pub same_socket: MoveSummary,
    /// Moves to another socket.
    pub other_socket: MoveSummary,
}

/// Service against weight.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct FairnessSummary {
    /// Jain's index of service over weight: 1 is equal, 1/n is one client has all.
    pub jain: f64,
    /// The furthest a client was behind its fluid share, in the unit of work.
    pub service_error_min: f64,
    /// The furthest a client was ahead of it.
    pub service_error_max: f64,
    /// Clients that were served.
    pub clients: u64,
}

/// One core.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
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
    /// The percentiles of that over all packets that came for it, those dropped before it was done with them among them.
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
    /// What the service counted itself, by name. For a driver to fill in whose services do their work.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

/// `part / whole`, 0 of nothing.
pub(super) fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// `amount` per second, 0 in no time.
pub(super) fn per_second(amount: u64, duration: Time) -> f64 {
    if duration == Time::ZERO { 0.0 } else { amount as f64 * 1e9 / duration.as_ns() as f64 }
}
