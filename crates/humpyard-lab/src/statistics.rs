//! Repetitions in numbers: the median, the range, and how far the median can be trusted.
//!
//! The confidence interval is that of the median by order statistics: of `n` independent repetitions the number that lie
//! below the true median is binomial, so the interval from the `k`-th smallest to the `k`-th greatest misses it with a
//! probability that is known exactly, whatever the distribution. Few repetitions cannot give 95 %: then the interval is
//! the range, and its level says what that is worth (75 % for three).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::result::RunResult;

/// The level that a confidence interval should have.
pub const CONFIDENCE: f64 = 0.95;

/// One figure over all repetitions.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Statistic {
    /// The median; of an even number of repetitions, the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The confidence interval of the median; none of a single repetition.
    pub confidence: Option<Interval>,
    /// The figure of each repetition, in their order.
    pub values: Vec<f64>,
}

/// A confidence interval of the median, by order statistics.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Interval {
    /// From here.
    pub low: f64,
    /// To here.
    pub high: f64,
    /// The probability that such an interval has the true median in it: at least [`CONFIDENCE`] from six repetitions on.
    pub level: f64,
}

impl Statistic {
    /// The statistic of these values; none of none.
    pub fn of(values: Vec<f64>) -> Option<Self> {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let n = sorted.len();
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let confidence = (n > 1).then(|| {
            let (rank, level) = rank(n);
            Interval { low: sorted[rank], high: sorted[n - 1 - rank], level }
        });
        Some(Self { median, min, max, confidence, values })
    }
}

/// The greatest rank, from 0, such that the interval from it to its mirror image still has the level, and the level of that
/// interval; rank 0 where none has.
fn rank(n: usize) -> (usize, f64) {
    // The probability of at most `rank` heads among so many coins; by logarithms, for that of none is soon too small.
    let mut logarithm = -(n as f64) * core::f64::consts::LN_2;
    let mut tail = logarithm.exp();
    let mut best = (0, 1.0 - 2.0 * tail);
    for rank in 1..n / 2 {
        logarithm += ((n - rank + 1) as f64 / rank as f64).ln();
        tail += logarithm.exp();
        if 1.0 - 2.0 * tail < CONFIDENCE {
            break;
        }
        best = (rank, 1.0 - 2.0 * tail);
    }
    best
}

/// A figure that comparisons are made by.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its key in documents, with its unit.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// What it is measured in.
    pub kind: Kind,
    /// Finds it in a result; not a number where the run does not tell.
    of: fn(&RunResult) -> f64,
}

/// What a figure is measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Packets per second.
    PacketRate,
    /// Nanoseconds.
    Time,
    /// A part of a whole, from 0 to 1.
    Fraction,
    /// An index from 0 to 1.
    Index,
    /// A whole number.
    Count,
}

/// The headline figures, in the order in which they are shown.
pub const FIGURES: [Figure; 16] = [
    Figure { key: "throughput_pps", name: "throughput", kind: Kind::PacketRate, of: |run| run.summary.throughput_pps },
    Figure { key: "delay_p50_ns", name: "delay p50", kind: Kind::Time, of: |run| run.summary.delay_ns.p50 as f64 },
    Figure { key: "delay_p99_ns", name: "delay p99", kind: Kind::Time, of: |run| run.summary.delay_ns.p99 as f64 },
    Figure { key: "delay_max_ns", name: "delay max", kind: Kind::Time, of: |run| run.summary.delay_ns.max as f64 },
    Figure { key: "late_fraction", name: "late", kind: Kind::Fraction, of: |run| run.summary.late.fraction },
    Figure {
        key: "out_of_order_fraction",
        name: "out of order",
        kind: Kind::Fraction,
        of: |run| run.summary.order.fraction,
    },
    Figure { key: "jitter_ns", name: "jitter", kind: Kind::Time, of: |run| run.summary.jitter_ns },
    Figure { key: "jain", name: "fairness (Jain)", kind: Kind::Index, of: |run| run.summary.fairness.jain },
    Figure { key: "utilization_min", name: "least busy core", kind: Kind::Fraction, of: |run| utilization(run).0 },
    Figure { key: "utilization_max", name: "most busy core", kind: Kind::Fraction, of: |run| utilization(run).1 },
    Figure { key: "dispatcher_busy", name: "busiest dispatcher", kind: Kind::Fraction, of: dispatcher_busy },
    Figure { key: "cold_fraction", name: "cold", kind: Kind::Fraction, of: |run| run.summary.cold_fraction },
    Figure { key: "switches", name: "switches", kind: Kind::Count, of: |run| run.summary.switches as f64 },
    Figure { key: "moves_per_packet", name: "moved", kind: Kind::Fraction, of: moves_per_packet },
    Figure { key: "bytes_away_fraction", name: "bytes away", kind: Kind::Fraction, of: bytes_away },
    Figure { key: "dropped_fraction", name: "dropped", kind: Kind::Fraction, of: dropped },
];

impl Figure {
    /// The figure with this key.
    ///
    /// # Panics
    /// If there is none.
    pub fn find(key: &str) -> &'static Self {
        FIGURES.iter().find(|figure| figure.key == key).expect("a key of FIGURES")
    }

    /// This figure of a result; not a number where the run does not tell: `moves_per_packet` without a topology.
    pub fn of(&self, run: &RunResult) -> f64 {
        (self.of)(run)
    }
}

/// Utilization of the least and of the most busy core.
fn utilization(run: &RunResult) -> (f64, f64) {
    let busy = run.summary.cores_detail.iter().map(|core| core.utilization);
    let (least, most) = busy.fold((f64::INFINITY, 0.0f64), |(least, most), busy| (least.min(busy), most.max(busy)));
    (least.min(most), most)
}

/// The part of the time that the busiest dispatcher was busy; not a number in virtual time.
fn dispatcher_busy(run: &RunResult) -> f64 {
    run.measured.dispatchers.iter().map(|load| load.busy_fraction).fold(f64::NAN, f64::max)
}

/// Packets served by another core than the one before of their flow, where the run has a topology.
fn moves_per_packet(run: &RunResult) -> f64 {
    run.summary.cache.map_or(f64::NAN, |cache| cache.moves_per_packet)
}

/// Bytes touched away from the last second cache of their flow, likewise.
fn bytes_away(run: &RunResult) -> f64 {
    run.summary.cache.map_or(f64::NAN, |cache| cache.bytes_away_fraction)
}

/// Packets dropped, before service and by it, of those that came in.
fn dropped(run: &RunResult) -> f64 {
    if run.packets.arrived == 0 { 0.0 } else { run.packets.dropped_total() as f64 / run.packets.arrived as f64 }
}

/// What the repetitions of one policy came to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PolicyStatistics {
    /// The policy.
    pub policy: String,
    /// Repetitions counted: all but one that was ended early, unless that is all there is.
    pub repetitions: u32,
    /// The headline figures by key: those of [`FIGURES`] of which the runs tell.
    pub figures: BTreeMap<&'static str, Statistic>,
}

impl PolicyStatistics {
    /// The statistics of these runs of one policy; none of none.
    pub(crate) fn of(runs: &[&RunResult]) -> Option<Self> {
        let whole: Vec<&RunResult> = runs.iter().copied().filter(|run| !run.interrupted).collect();
        let counted = if whole.is_empty() { runs } else { &whole };
        let figure = |figure: &Figure| {
            let values: Vec<f64> = counted.iter().map(|run| figure.of(run)).collect();
            Statistic::of(values)
                .filter(|statistic| !statistic.values.iter().any(|value| value.is_nan()))
                .map(|statistic| (figure.key, statistic))
        };
        Some(Self {
            policy: counted.first()?.policies_text(),
            repetitions: counted.len() as u32,
            figures: FIGURES.iter().filter_map(figure).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks from 1, and percent.
    fn ranks(n: usize) -> (usize, usize, f64) {
        let (rank, level) = rank(n);
        (rank + 1, n - rank, (level * 1000.0).round() / 10.0)
    }

    /// Le Boudec, Performance Evaluation of Computer and Communication Systems, appendix A, table of confidence intervals for
    /// the median at 95 %: none up to n = 5; then j, k and the true level.
    #[test]
    fn intervals_of_the_textbook() {
        assert_eq!(ranks(6), (1, 6, 96.9));
        assert_eq!(ranks(7), (1, 7, 98.4));
        assert_eq!(ranks(9), (2, 8, 96.1));
        assert_eq!(ranks(10), (2, 9, 97.9));
        assert_eq!(ranks(20), (6, 15, 95.9));
        assert_eq!(ranks(25), (8, 18, 95.7));
    }

    #[test]
    fn few_repetitions_give_the_range_and_say_what_it_is_worth() {
        for (n, level) in [(2, 50.0), (3, 75.0), (4, 87.5), (5, 93.8)] {
            assert_eq!(ranks(n), (1, n, level));
        }
        assert_eq!(Statistic::of(vec![7.0]).unwrap().confidence, None);
        assert_eq!(Statistic::of(vec![]), None);
        let three = Statistic::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((three.median, three.min, three.max), (2.0, 1.0, 3.0));
        assert_eq!(three.confidence, Some(Interval { low: 1.0, high: 3.0, level: 0.75 }));
        assert_eq!(three.values, [3.0, 1.0, 2.0]);
    }

    #[test]
    fn ten_values_have_the_second_and_the_ninth() {
        let ten = Statistic::of((1..=10).map(|value| f64::from(value * value)).collect()).unwrap();
        assert_eq!(ten.median, 30.5);
        let interval = ten.confidence.unwrap();
        assert_eq!((interval.low, interval.high), (4.0, 81.0));
    }

    #[test]
    fn many_repetitions_are_as_the_normal_distribution_says() {
        for n in [100, 1000, 100_000] {
            let (low, high, level) = ranks(n);
            let expected = (n as f64 - 1.96 * (n as f64).sqrt()) / 2.0;
            assert!((low as f64 - expected).abs() <= 1.0 && high == n + 1 - low, "{n}: {low} {high}");
            assert!((95.0..97.0).contains(&level), "{n}: {level}");
        }
    }
}
