//! A histogram of whole numbers with a relative error below 1 %, whatever their size.
//!
//! Values below 128 have a bucket each; above, every power of two is divided into 128 buckets.
//! (HdrHistogram does the same and is well maintained, but needs `std`.)

use alloc::vec;
use alloc::vec::Vec;

const BITS: u32 = 7;
const PER_OCTAVE: usize = 1 << BITS;
const BUCKETS: usize = (64 - BITS as usize + 1) * PER_OCTAVE;

/// How often values of each size occurred.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, sum: 0, max: 0 }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of `other`.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all values, exactly.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Returns the greatest value, exactly; 0 if the histogram is empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean, exact except for the last rounding; 0 if the histogram is empty.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns a value that at least `quantile` (0 to 1) of all values do not exceed, less than 1 %
    /// above the least such value.
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.at_rank(rank(quantile, self.count).min(self.count)).unwrap_or(self.max)
    }

    /// As [`Self::quantile`], over `all` values, of which this histogram counts a part. The
    /// uncounted values are taken as greater than every counted one; so are `lost` of the counted
    /// ones. `None`: the quantile lies among the greater or lost values.
    pub fn quantile_of(&self, quantile: f64, all: u64, lost: u64) -> Option<u64> {
        if all == 0 { Some(0) } else { self.at_rank(rank(quantile, all) + lost) }
    }

    /// Returns the value with this rank, from 1. `None`: there are fewer values.
    fn at_rank(&self, rank: u64) -> Option<u64> {
        let mut seen = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(highest(index).min(self.max));
            }
        }
        None
    }

    /// Returns the counts by size: the greatest value in each used bucket, ascending, with the
    /// bucket's count. Histograms are added by these counts, and the distribution is drawn from
    /// them.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let used = self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0);
        used.map(|(bucket, &count)| (highest(bucket).min(self.max), count)).collect()
    }

    /// As [`Self::counts`], but with the greatest value that each bucket can hold. The count for a
    /// value never falls, so two readings of a histogram in use can be subtracted.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let used = self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0);
        used.map(|(bucket, &count)| (highest(bucket), count)).collect()
    }
}

/// Returns the rank, from 1, of a part of this many values.
fn rank(quantile: f64, all: u64) -> u64 {
    (libm::ceil(quantile * all as f64) as u64).max(1)
}

#[inline]
fn bucket(value: u64) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    octave as usize * PER_OCTAVE + (value >> octave) as usize
}

/// The highest value of a bucket.
fn highest(bucket: usize) -> u64 {
    if bucket < 2 * PER_OCTAVE {
        return bucket as u64;
    }
    let octave = bucket / PER_OCTAVE - 1;
    let lowest = (bucket - octave * PER_OCTAVE) as u64;
    (lowest << octave) + ((1 << octave) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;
    use alloc::vec::Vec;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for shift in 0..64 {
            for offset in [0, 1] {
                let value = (1u64 << shift) + offset;
                let found = highest(bucket(value));
                assert!(found >= value && (found - value) as f64 <= value as f64 / 100.0, "{value} {found}");
                assert!(bucket(value) == 0 || highest(bucket(value) - 1) < value, "{value}");
            }
        }
        assert!(bucket(u64::MAX) < BUCKETS);
        assert_eq!(highest(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut random = Seed(5).stream("test");
        let mut values: Vec<u64> = (0..50_000).map(|_| random.exponential(1e6) as u64).collect();
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        values.sort_unstable();
        for quantile in [0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[(quantile * 50_000.0) as usize - 1];
            let found = histogram.quantile(quantile);
            assert!(found >= exact && found as f64 <= exact as f64 * 1.01, "{quantile}: {found} for {exact}");
        }
        assert_eq!(histogram.max(), values[49_999]);
        assert_eq!(histogram.mean(), values.iter().sum::<u64>() as f64 / 50_000.0);
    }

    #[test]
    fn what_is_lost_exceeds_every_value() {
        let mut histogram = Histogram::new();
        (1..=60).for_each(|value| histogram.record(value));
        let of = |quantile, lost| histogram.quantile_of(quantile, 100, lost);
        assert_eq!((of(0.5, 0), of(0.6, 0), of(0.61, 0)), (Some(50), Some(60), None));
        // Ten of the sixty are lost. In the worst case, fifty in a hundred are at or below the
        // greatest of the others.
        assert_eq!((of(0.4, 10), of(0.5, 10), of(0.51, 10)), (Some(50), Some(60), None));
        let all: Vec<_> = [0.5, 0.9, 0.99].map(|quantile| histogram.quantile_of(quantile, 60, 0)).into();
        assert_eq!(all, [0.5, 0.9, 0.99].map(|quantile| Some(histogram.quantile(quantile))));
        assert_eq!(Histogram::new().quantile_of(0.5, 0, 0), Some(0));
        assert_eq!(Histogram::new().quantile_of(0.5, 7, 0), None);
    }

    #[test]
    fn counts_are_the_whole_histogram() {
        let mut histogram = Histogram::new();
        [3, 3, 1000, 1001, 90_000].into_iter().for_each(|value| histogram.record(value));
        assert_eq!(histogram.counts(), [(3, 2), (1003, 2), (90_000, 1)]);
        assert_eq!(Histogram::new().counts(), []);
    }

    #[test]
    fn empty_is_all_zero() {
        let histogram = Histogram::new();
        assert_eq!((histogram.count(), histogram.max(), histogram.quantile(0.99)), (0, 0, 0));
        assert_eq!(histogram.mean(), 0.0);
    }

    #[test]
    fn buckets_keep_their_names_when_a_greater_value_comes() {
        let mut histogram = Histogram::new();
        histogram.record(1_000_000);
        let before = histogram.buckets();
        assert_eq!((before.len(), before[0].1), (1, 1));
        assert!(before[0].0 >= 1_000_000 && before[0].0 < 1_010_000, "{before:?}");
        histogram.record(9);
        histogram.record(1_000_001);
        assert_eq!(histogram.buckets(), [(9, 1), (before[0].0, 2)]);
        assert_eq!(histogram.sum(), 2_000_010);
    }
}
