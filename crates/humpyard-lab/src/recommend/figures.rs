//! The figures of a run that a goal can be about.

use std::collections::BTreeMap;

use serde::Serialize;

use super::scope::ScopeFigures;
use crate::bottleneck::FULL;
use crate::result::RunResult;
use crate::statistics::Kind;

/// A figure that a goal can be about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Packets that were late or dropped, of all that came in.
    Late,
    /// Mean delay.
    Mean,
    /// A delay that half of the packets keep.
    P50,
    /// One that 9 in 10 keep.
    P90,
    /// One that 99 in 100 keep.
    P99,
    /// One that 999 in 1000 keep.
    P999,
    /// The longest delay.
    Max,
    /// Mean over the flows of the standard deviation of the time between departures, as `sim` has it.
    Jitter,
    /// Packets that left after a later one of their flow, of all that left.
    OutOfOrder,
    /// Packets dropped, of all that came in.
    Loss,
    /// Jain's index over the clients' service by weight.
    Fairness,
    /// Packets per second.
    Throughput,
}

/// On which side a figure is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Better {
    Less,
    More,
}

impl Better {
    /// 1 or −1, such that more of the product is better.
    pub(super) const fn sign(self) -> f64 {
        match self {
            Self::Less => -1.0,
            Self::More => 1.0,
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Less => "small",
            Self::More => "great",
        }
    }
}

impl Measure {
    /// All of them.
    pub(super) const ALL: [Self; 12] = [
        Self::Late,
        Self::Mean,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::P999,
        Self::Max,
        Self::Jitter,
        Self::OutOfOrder,
        Self::Loss,
        Self::Fairness,
        Self::Throughput,
    ];

    /// Its name in goals.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::Max => "max",
            Self::Jitter => "jitter",
            Self::OutOfOrder => "ooo",
            Self::Loss => "loss",
            Self::Fairness => "fairness",
            Self::Throughput => "throughput",
        }
    }

    /// What it is measured in.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Late | Self::OutOfOrder | Self::Loss => Kind::Fraction,
            Self::Mean | Self::P50 | Self::P90 | Self::P99 | Self::P999 | Self::Max | Self::Jitter => Kind::Time,
            Self::Fairness => Kind::Index,
            Self::Throughput => Kind::PacketRate,
        }
    }

    pub(super) const fn better(self) -> Better {
        match self {
            Self::Fairness | Self::Throughput => Better::More,
            _ => Better::Less,
        }
    }

    /// What its bound can be, in words.
    pub(super) const fn accepts(self) -> &'static str {
        match self.kind() {
            Kind::Fraction => "a part above 0 and below 100 %, 0.1% or 0.001 for example",
            Kind::Time => "a time above 0, 500us for example",
            Kind::Index => "a number above 0 and below 1, 0.95 for example",
            Kind::PacketRate | Kind::Count => "packets per second, 250k or 1.5M for example",
        }
    }
}

/// The figures of a run. The percentiles are over all packets offered: a lost packet counts as an
/// infinite delay.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredFigures {
    /// Packets that were late or lost, as a fraction of all packets measured, from 0 to 1.
    #[serde(rename = "late_fraction")]
    pub late: f64,
    /// Mean delay of the packets processed, in ns.
    #[serde(rename = "delay_mean_ns")]
    pub mean_ns: f64,
    /// Median delay over all packets offered, in ns. Infinite (in JSON: null) if too many packets
    /// were lost.
    #[serde(rename = "delay_p50_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p50_ns: f64,
    /// 90th percentile of the delay over all packets offered, in ns. Infinite (in JSON: null) if
    /// too many packets were lost.
    #[serde(rename = "delay_p90_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p90_ns: f64,
    /// 99th percentile of the delay over all packets offered, in ns. Infinite (in JSON: null) if
    /// too many packets were lost.
    #[serde(rename = "delay_p99_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p99_ns: f64,
    /// 99.9th percentile of the delay over all packets offered, in ns. Infinite (in JSON: null) if
    /// too many packets were lost.
    #[serde(rename = "delay_p999_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p999_ns: f64,
    /// Longest delay, in ns. Infinite (in JSON: null) if packets were lost.
    #[serde(rename = "delay_max_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub max_ns: f64,
    /// Jitter: the standard deviation of the time between departures of a flow, in ns, averaged
    /// over the flows.
    pub jitter_ns: f64,
    /// Packets that left after a later packet of their flow, as a fraction of the packets that
    /// left, from 0 to 1.
    #[serde(rename = "out_of_order_fraction")]
    pub out_of_order: f64,
    /// Packets dropped before their last service was complete, as a fraction of the packets that
    /// came in, from 0 to 1.
    #[serde(rename = "dropped_fraction")]
    pub loss: f64,
    /// Jain's fairness index of service divided by weight over the clients, from 0 to 1. 1: all are
    /// equal.
    #[serde(rename = "jain")]
    pub fairness: f64,
    /// Packets processed per second.
    pub throughput_pps: f64,
    /// Figures of the services and clients that the goal names, in its order. Left out: it names
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<ScopeFigures>,
    /// The same delays without the packets that were dropped.
    #[serde(skip)]
    pub(super) delivered: Delivered,
    /// Fraction of the time during which the dispatcher of the assumed host worked; of several, the busiest of them and of
    /// their reader. 0: there is no dispatcher.
    #[serde(skip)]
    pub(super) dispatcher: f64,
}

/// Delays of the packets that were processed. Those that were dropped do not count.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Delivered {
    /// Packets processed too late, of all that came in.
    pub(super) late: f64,
    /// Half of the packets had at most this delay.
    pub(super) p50_ns: f64,
    /// 9 in 10.
    pub(super) p90_ns: f64,
    /// 99 in 100.
    pub(super) p99_ns: f64,
    /// 999 in 1000.
    pub(super) p999_ns: f64,
    /// The longest.
    pub(super) max_ns: f64,
}

impl Delivered {
    /// Returns one of the figures that differ without dropped packets. `None`: that one does not.
    pub(super) fn of_measure(&self, measure: Measure) -> Option<f64> {
        Some(match measure {
            Measure::Late => self.late,
            Measure::P50 => self.p50_ns,
            Measure::P90 => self.p90_ns,
            Measure::P99 => self.p99_ns,
            Measure::P999 => self.p999_ns,
            Measure::Max => self.max_ns,
            _ => return None,
        })
    }

    /// The delays of a run.
    fn of(run: &RunResult) -> Self {
        let delay = &run.summary.delay_ns;
        Self {
            late: late_delivered(run) / run.summary.late.packets.max(1) as f64,
            p50_ns: delay.p50 as f64,
            p90_ns: delay.p90 as f64,
            p99_ns: delay.p99 as f64,
            p999_ns: delay.p999 as f64,
            max_ns: delay.max as f64,
        }
    }

    /// Returns the worse of each figure.
    pub(super) fn worse(self, other: Self) -> Self {
        Self {
            late: self.late.max(other.late),
            p50_ns: self.p50_ns.max(other.p50_ns),
            p90_ns: self.p90_ns.max(other.p90_ns),
            p99_ns: self.p99_ns.max(other.p99_ns),
            p999_ns: self.p999_ns.max(other.p999_ns),
            max_ns: self.max_ns.max(other.max_ns),
        }
    }
}

/// Packets that were processed too late.
fn late_delivered(run: &RunResult) -> f64 {
    let late = &run.summary.late;
    late.count.saturating_sub(late.lost) as f64
}

impl MeasuredFigures {
    /// The figures of a run.
    pub(crate) fn of(run: &RunResult) -> Self {
        let summary = &run.summary;
        let lost: u64 = run.packets.dropped.values().sum();
        let (delay, offered) = (&summary.delay_ns, &summary.delay_offered_ns);
        let known = |ns: Option<u64>| ns.map_or(f64::INFINITY, |ns| ns as f64);
        Self {
            late: summary.late.fraction,
            mean_ns: delay.mean,
            p50_ns: known(offered.p50),
            p90_ns: known(offered.p90),
            p99_ns: known(offered.p99),
            p999_ns: known(offered.p999),
            max_ns: if summary.late.lost == 0 { delay.max as f64 } else { f64::INFINITY },
            jitter_ns: summary.jitter_ns,
            out_of_order: summary.order.fraction,
            loss: lost as f64 / run.packets.arrived.max(1) as f64,
            fairness: summary.fairness.jain,
            throughput_pps: summary.throughput_pps,
            scopes: Vec::new(),
            delivered: Delivered::of(run),
            dispatcher: dispatcher(run),
        }
    }

    /// The figures of a run of which these were parts, each of which stands for this many times as many packets. Where one part is
    /// all there is, they are its own.
    pub(super) fn of_parts(parts: &[(RunResult, f64)]) -> Self {
        if let [(run, _)] = parts {
            return Self::of(run);
        }
        let figures: Vec<(Self, &RunResult, f64)> =
            parts.iter().map(|(run, weight)| (Self::of(run), run, *weight)).collect();
        let sum = |of: &dyn Fn(&Self, &RunResult) -> f64| {
            figures.iter().map(|(figures, run, weight)| weight * of(figures, run)).sum::<f64>()
        };
        let arrived = sum(&|_, run| run.packets.arrived as f64).max(1.0);
        let all_served = sum(&|_, run| served(run)).max(1.0);
        let lost = sum(&|figures, run| figures.loss * run.packets.arrived as f64);
        let late_of = |run: &RunResult| run.summary.late.packets as f64;
        let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
        for (_, run, weight) in &figures {
            for &(delay, count) in &run.summary.delay_counts {
                *counts.entry(delay).or_default() += weight * count as f64;
            }
        }
        let longest = figures.iter().map(|(figures, ..)| figures.max_ns).fold(0.0, f64::max);
        let longest_delivered = figures.iter().map(|(figures, ..)| figures.delivered.max_ns).fold(0.0, f64::max);
        let delivered = |quantile| weighted_quantile(&counts, all_served, quantile).min(longest_delivered);
        let all_late = sum(&|_, run| late_of(run)).max(1.0);
        let quantile = |quantile| {
            weighted_quantile(&counts, all_served + sum(&|_, run| run.summary.late.lost as f64), quantile).min(longest)
        };
        Self {
            late: sum(&|figures, run| figures.late * late_of(run)) / all_late,
            mean_ns: sum(&|figures, run| figures.mean_ns * served(run)) / all_served,
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: longest,
            jitter_ns: sum(&|figures, run| figures.jitter_ns * served(run)) / all_served,
            out_of_order: sum(&|figures, run| figures.out_of_order * served(run)) / all_served,
            loss: lost / arrived,
            fairness: sum(&|figures, run| figures.fairness * run.packets.arrived as f64) / arrived,
            throughput_pps: all_served * 1e9 / sum(&|_, run| run.summary.duration_ns as f64).max(1.0),
            scopes: Vec::new(),
            delivered: Delivered {
                late: sum(&|_, run| late_delivered(run)) / all_late,
                p50_ns: delivered(0.5),
                p90_ns: delivered(0.9),
                p99_ns: delivered(0.99),
                p999_ns: delivered(0.999),
                max_ns: longest_delivered,
            },
            dispatcher: figures.iter().map(|(figures, ..)| figures.dispatcher).fold(0.0, f64::max),
        }
    }

    /// One of them.
    pub fn of_measure(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Late => self.late,
            Measure::Mean => self.mean_ns,
            Measure::P50 => self.p50_ns,
            Measure::P90 => self.p90_ns,
            Measure::P99 => self.p99_ns,
            Measure::P999 => self.p999_ns,
            Measure::Max => self.max_ns,
            Measure::Jitter => self.jitter_ns,
            Measure::OutOfOrder => self.out_of_order,
            Measure::Loss => self.loss,
            Measure::Fairness => self.fairness,
            Measure::Throughput => self.throughput_pps,
        }
    }

    /// Returns the fraction of the time during which the dispatcher worked, if it had no time left. `None`: it had.
    pub(super) fn full_dispatcher(&self) -> Option<f64> {
        Some(self.dispatcher).filter(|&busy| busy > FULL)
    }

    /// Returns one of them, of the packets that were processed alone.
    pub(super) fn of_delivered(&self, measure: Measure) -> f64 {
        self.delivered.of_measure(measure).unwrap_or_else(|| self.of_measure(measure))
    }

    /// Returns the figures of the service or the client that a goal names so.
    pub(super) fn scope(&self, name: &str) -> Option<&ScopeFigures> {
        self.scopes.iter().find(|scope| scope.scope == name)
    }

    /// The worse of each figure.
    #[must_use]
    pub(super) fn worse(self, other: Self) -> Self {
        Self {
            late: self.late.max(other.late),
            mean_ns: self.mean_ns.max(other.mean_ns),
            p50_ns: self.p50_ns.max(other.p50_ns),
            p90_ns: self.p90_ns.max(other.p90_ns),
            p99_ns: self.p99_ns.max(other.p99_ns),
            p999_ns: self.p999_ns.max(other.p999_ns),
            max_ns: self.max_ns.max(other.max_ns),
            jitter_ns: self.jitter_ns.max(other.jitter_ns),
            out_of_order: self.out_of_order.max(other.out_of_order),
            loss: self.loss.max(other.loss),
            fairness: self.fairness.min(other.fairness),
            throughput_pps: self.throughput_pps.min(other.throughput_pps),
            scopes: self.scopes.into_iter().zip(other.scopes).map(|(one, other)| one.worse(other)).collect(),
            delivered: self.delivered.worse(other.delivered),
            dispatcher: self.dispatcher.max(other.dispatcher),
        }
    }
}

/// Returns the part of the time during which the busiest dispatcher or the reader worked. 0: there is no dispatcher.
fn dispatcher(run: &RunResult) -> f64 {
    let assumed = run.assumed.as_ref().filter(|_| run.dispatchers > 0);
    assumed.map_or(0.0, |assumed| assumed.dispatcher_utilization.max(assumed.reader_utilization.unwrap_or(0.0)))
}

/// Packets whose delay is known.
fn served(run: &RunResult) -> f64 {
    run.summary.delay_counts.iter().map(|&(_, count)| count).sum::<u64>() as f64
}

/// The least delay that this part of all keeps, of packets that stand for others; infinite where it is beyond those that are counted.
pub(super) fn weighted_quantile(counts: &BTreeMap<u64, f64>, all: f64, quantile: f64) -> f64 {
    // Sums of weights are not exact.
    let rank = quantile * all * (1.0 - 1e-9);
    let mut below = 0.0;
    let found = counts.iter().find(|(_, count)| {
        below += **count;
        below >= rank
    });
    found.map_or(f64::INFINITY, |(&delay, _)| delay as f64)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::choice::host::Host;
    use crate::config::RunConfig;
    use crate::control::Control;

    /// One core gets more than it can do: a packet that is lost is late once, and delayed for ever.
    #[test]
    fn what_is_dropped_is_delayed_for_ever() {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson:packets=5000,pps=200M", "hrw".parse().unwrap());
        (config.cores, config.buffer) = (1, 64);
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
        let run = crate::run(&config, &mut Control::new(&stop, &mut progress)).unwrap();
        let (figures, lost) = (MeasuredFigures::of(&run), run.packets.dropped.values().sum::<u64>());
        assert!((0.3..1.0).contains(&figures.loss), "{figures:?}");
        assert_eq!((run.summary.late.lost, run.summary.late.packets), (lost, 5000));
        assert_eq!(figures.late, run.summary.late.count as f64 / 5000.0);
        assert_eq!((figures.p90_ns, figures.max_ns), (f64::INFINITY, f64::INFINITY));
        assert!(run.summary.delay_ns.p90 < 1_000_000_000, "{:?}", run.summary.delay_ns);
        let delivered = [Measure::P90, Measure::Max].map(|measure| figures.of_delivered(measure));
        assert_eq!(delivered, [run.summary.delay_ns.p90 as f64, run.summary.delay_ns.max as f64]);
        assert_eq!(figures.of_delivered(Measure::Late), (run.summary.late.count - lost) as f64 / 5000.0);
    }

    #[test]
    fn packets_that_stand_for_others_count_so_often() {
        let counts = BTreeMap::from([(10, 90.0), (20, 8.0), (30, 2.0)]);
        assert_eq!(
            [0.5, 0.9, 0.91, 0.98, 0.99].map(|part| weighted_quantile(&counts, 100.0, part)),
            [10.0, 10.0, 20.0, 20.0, 30.0]
        );
        assert_eq!(weighted_quantile(&counts, 110.0, 0.99), f64::INFINITY, "packets were dropped");
    }

    #[test]
    fn the_worse_is_the_worse_of_each() {
        let one = MeasuredFigures { late: 0.1, fairness: 0.9, ..MeasuredFigures::default() };
        let delivered = Delivered { late: 0.1, p99_ns: 7.0, ..Delivered::default() };
        let other = MeasuredFigures {
            late: 0.2,
            fairness: 1.0,
            p99_ns: f64::INFINITY,
            delivered,
            ..MeasuredFigures::default()
        };
        let worse = one.clone().worse(other.clone());
        assert_eq!((worse.late, worse.fairness), (0.2, 0.9));
        assert_eq!((worse.p99_ns, worse.of_delivered(Measure::P99)), (f64::INFINITY, 7.0));
        assert_eq!(worse, other.worse(one));
        assert!(serde_json::to_string(&worse).unwrap().contains("\"delay_p99_ns\":null"));
    }
}
