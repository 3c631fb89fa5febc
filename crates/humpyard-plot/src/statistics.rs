//! Statistics of repetitions: the median, the range, and a confidence interval of the median.
//!
//! The confidence interval uses order statistics. Of `n` independent repetitions, the number below the true
//! median is binomial. So the interval from the `k`-th smallest to the `k`-th greatest misses the median with a
//! known probability, for any distribution. With too few repetitions for 95 %, the interval is the full range,
//! and its level is the confidence of that range (75 % for three).

use serde::Serialize;

/// The lowest level of a confidence interval, if there are enough repetitions.
pub const CONFIDENCE: f64 = 0.95;

/// Statistics of a figure over several values, such as those of all repetitions.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Statistic {
    /// Median of `values`; of an even number, the mean of the middle two.
    pub median: f64,
    /// Minimum of `values`.
    pub min: f64,
    /// Maximum of `values`.
    pub max: f64,
    /// Confidence interval of the median. `None`: there is a single value.
    pub confidence: Option<Interval>,
    /// The value of each repetition or block, in their order.
    pub values: Vec<f64>,
}

/// A confidence interval of the median, by order statistics.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Probability that the interval contains the true median, from 0 to 1. With six values or more
    /// it is at least 0.95.
    pub level: f64,
}

impl Statistic {
    /// Returns the statistic of these values. `None`: there are no values.
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

/// Returns the greatest rank, from 0, whose interval up to its mirror image still has the level, and the
/// interval's true level. Returns rank 0 if no rank has the level.
fn rank(n: usize) -> (usize, f64) {
    // The probability of at most `rank` heads among `n` coins. Logarithms, because the first term soon
    // underflows.
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

/// The unit of a figure.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns ranks from 1, and the level in percent.
    fn ranks(n: usize) -> (usize, usize, f64) {
        let (rank, level) = rank(n);
        (rank + 1, n - rank, (level * 1000.0).round() / 10.0)
    }

    /// Le Boudec, Performance Evaluation of Computer and Communication Systems, appendix A, table of confidence
    /// intervals for the median at 95 %: no interval up to n = 5; then j, k and the true level.
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
