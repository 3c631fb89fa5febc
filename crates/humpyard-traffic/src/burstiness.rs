//! Measures the burstiness of arrivals: the variation of the rate per millisecond, and the Hurst exponent by
//! the variance-time method.
//!
//! Arrivals are counted in bins of 1 ms, and in blocks of 2, 4, ... bins, in one pass and constant memory. If
//! the variance of a block's mean rate falls with the block length m as m^(2H-2), H is the Hurst exponent. It
//! is 0.5 for independent counts (Poisson), and near 1 for bursts at every length (Leland, Taqqu, Willinger,
//! Wilson. On the self-similar nature of Ethernet traffic. 1994).

use humpyard_core::unit::Time;
use serde::Serialize;

/// Length of a bin, in ns.
const BIN_NS: u64 = 1_000_000;
/// Block lengths of 1, 2, 4, ... bins: up to 256 ms.
const LEVELS: usize = 9;
/// Least number of blocks for a variance.
const BLOCKS_MIN: u64 = 16;
/// Least number of block lengths for an exponent.
const LEVELS_MIN: usize = 5;
/// Half of the width of a 95 % interval, in standard errors: Student's t by degrees of freedom, 3 to 7.
const STUDENT: [f64; 5] = [3.182, 2.776, 2.571, 2.447, 2.365];

/// The burstiness of arrivals.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Burstiness {
    /// Length of a bin, in ns.
    pub bin_ns: u64,
    /// Number of complete bins, from the first packet on.
    pub bins: u64,
    /// Mean number of packets in a bin.
    pub mean_packets: f64,
    /// Standard deviation of the number of packets in a bin, over its mean.
    pub relative_deviation: f64,
    /// Most packets in a bin.
    pub peak_packets: u64,
    /// The Hurst exponent. `None`: there are too few bins.
    pub hurst: Option<Hurst>,
}

/// An estimate of the Hurst exponent.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Hurst {
    /// The estimate: about 0.5 for independent counts, near 1 for bursts at every length.
    pub estimate: f64,
    /// Lower end of the 95 % interval of the regression line's slope. It reflects how well the line fits, not
    /// how long the traffic was.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// The shortest blocks, in ns.
    pub shortest_ns: u64,
    /// The longest blocks, in ns.
    pub longest_ns: u64,
}

/// Counts arrivals.
#[derive(Clone, Debug)]
pub(crate) struct VarianceTime {
    bin_ns: u64,
    start: Option<Time>,
    /// The current bin.
    bin: u64,
    count: u64,
    peak: u64,
    levels: [Level; LEVELS],
}

/// The blocks of one length.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    blocks: u64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
    /// The first of two blocks that form one of twice the length.
    half: Option<u64>,
}

impl VarianceTime {
    pub(crate) fn new() -> Self {
        Self::with_bins(BIN_NS)
    }

    /// Returns a counter with bins of this length.
    fn with_bins(bin_ns: u64) -> Self {
        Self { bin_ns, start: None, bin: 0, count: 0, peak: 0, levels: [Level::default(); LEVELS] }
    }

    /// Counts a packet. A packet from before the current bin counts in the current bin.
    pub(crate) fn add(&mut self, time: Time) {
        let start = *self.start.get_or_insert(time);
        let bin = time.since(start).as_ns() / self.bin_ns;
        if bin > self.bin {
            self.close(bin);
        }
        self.count += 1;
    }

    /// Closes the current bin, and the empty bins before `bin`.
    fn close(&mut self, bin: u64) {
        self.peak = self.peak.max(self.count);
        self.block(0, self.count);
        self.empty(0, bin - self.bin - 1);
        self.bin = bin;
        self.count = 0;
    }

    fn block(&mut self, level: usize, count: u64) {
        let Some(at) = self.levels.get_mut(level) else { return };
        at.add(1, count as f64);
        match at.half.take() {
            None => at.half = Some(count),
            Some(half) => self.block(level + 1, half + count),
        }
    }

    /// Adds empty blocks, in time that does not depend on their number.
    fn empty(&mut self, level: usize, mut blocks: u64) {
        if level == LEVELS || blocks == 0 {
            return;
        }
        let at = &mut self.levels[level];
        at.add(blocks, 0.0);
        if let Some(half) = at.half.take() {
            blocks -= 1;
            self.block(level + 1, half);
        }
        if blocks % 2 == 1 {
            self.levels[level].half = Some(0);
        }
        self.empty(level + 1, blocks / 2);
    }

    /// Returns the burstiness of the complete bins. `None`: there are fewer than two, or no packet in any.
    pub(crate) fn burstiness(&self) -> Option<Burstiness> {
        let bins = &self.levels[0];
        if bins.blocks < 2 || bins.mean == 0.0 {
            return None;
        }
        Some(Burstiness {
            bin_ns: self.bin_ns,
            bins: bins.blocks,
            mean_packets: bins.mean,
            relative_deviation: bins.variance().sqrt() / bins.mean,
            peak_packets: self.peak,
            hurst: self.hurst(),
        })
    }

    /// Fits a straight line through the logarithms of block length and variance, by least squares.
    fn hurst(&self) -> Option<Hurst> {
        let points: Vec<(f64, f64)> = (0..LEVELS)
            .map(|level| (level, &self.levels[level]))
            .take_while(|(_, at)| at.blocks >= BLOCKS_MIN && at.variance() > 0.0)
            .map(|(level, at)| (level as f64, at.variance().log2() - 2.0 * level as f64))
            .collect();
        if points.len() < LEVELS_MIN {
            return None;
        }
        let n = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
        let xx: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
        let xy: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
        let slope = xy / xx;
        let rest: f64 = points.iter().map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2)).sum();
        let error = (rest / (n - 2.0) / xx).sqrt() * STUDENT[points.len() - LEVELS_MIN] / 2.0;
        let estimate = 1.0 + slope / 2.0;
        Some(Hurst {
            estimate,
            low: estimate - error,
            high: estimate + error,
            shortest_ns: self.bin_ns,
            longest_ns: self.bin_ns << (points.len() - 1),
        })
    }
}

impl Level {
    /// Adds blocks with equal counts (Chan's rule for the union of two samples).
    fn add(&mut self, blocks: u64, count: f64) {
        let (had, new) = (self.blocks as f64, blocks as f64);
        let distance = count - self.mean;
        self.blocks += blocks;
        let all = self.blocks as f64;
        self.mean += distance * new / all;
        self.squares += distance * distance * had * new / all;
    }

    fn variance(&self) -> f64 {
        self.squares / (self.blocks.max(2) - 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> VarianceTime {
        let mut counted = VarianceTime::new();
        times.into_iter().for_each(|time| counted.add(Time::from_ns(time)));
        counted
    }

    #[test]
    fn counts_and_deviation_are_those_of_the_bins() {
        // Bins of 3, 0, 0, 1, 2 packets; the last bin is incomplete.
        let counted = of([5, 6, 7, 3_000_006, 4_000_005, 4_500_000, 5_000_005]);
        let found = counted.burstiness().unwrap();
        assert_eq!((found.bins, found.peak_packets, found.hurst), (5, 3, None));
        assert!((found.mean_packets - 1.2).abs() < 1e-12);
        let variance: f64 = [3.0f64, 0.0, 0.0, 1.0, 2.0].iter().map(|n| (n - 1.2).powi(2)).sum::<f64>() / 4.0;
        assert!((found.relative_deviation - variance.sqrt() / 1.2).abs() < 1e-12);
    }

    #[test]
    fn gaps_are_skipped_as_if_they_were_walked() {
        let mut random = Seed(5).stream("test");
        let (mut jumping, mut walking) = (VarianceTime::new(), VarianceTime::new());
        let mut bin = 0;
        for _ in 0..2_000 {
            let count = 1 + random.below(5);
            let next = bin + 1 + random.below(9) * random.below(40);
            for _ in 0..count {
                jumping.add(Time::from_ns(bin * BIN_NS));
            }
            walking.block(0, count);
            (bin + 1..next).for_each(|_| walking.block(0, 0));
            bin = next;
        }
        jumping.add(Time::from_ns(bin * BIN_NS));
        for (a, b) in jumping.levels.iter().zip(&walking.levels) {
            assert_eq!((a.blocks, a.half), (b.blocks, b.half));
            assert!((a.mean - b.mean).abs() < 1e-6 * b.mean, "{a:?} {b:?}");
            assert!((a.squares / b.squares - 1.0).abs() < 1e-6, "{a:?} {b:?}");
        }
    }

    #[test]
    fn absurd_times_are_counted_at_once() {
        let counted = of([0, u64::MAX / 2, 7, u64::MAX]);
        assert_eq!(counted.burstiness().unwrap().bins, u64::MAX / BIN_NS);
    }

    #[test]
    fn independent_counts_have_one_half() {
        let mut random = Seed(6).stream("test");
        let mut now = 0.0;
        let times = (0..2_000_000).map(|_| {
            now += random.exponential(10_000.0);
            now as u64
        });
        let hurst = of(times).burstiness().unwrap().hurst.unwrap();
        assert!((hurst.estimate - 0.5).abs() < 0.05, "{hurst:?}");
        assert!(hurst.low < hurst.estimate && hurst.estimate < hurst.high);
        assert_eq!((hurst.shortest_ns, hurst.longest_ns), (1_000_000, 256_000_000));
    }

    #[test]
    fn a_rate_that_hardly_changes_in_a_block_has_one() {
        // Waves of 8 s: within all blocks they look like a slope.
        let times = (0..40_000u64).flat_map(|bin| {
            let wave = (bin as f64 / 8_000.0 * core::f64::consts::TAU).sin();
            (0..(20.0 + 15.0 * wave) as u64).map(move |packet| bin * BIN_NS + packet)
        });
        let hurst = of(times).burstiness().unwrap().hurst.unwrap();
        assert!(hurst.estimate > 0.98 && hurst.estimate < 1.01, "{hurst:?}");
    }

    /// The connections of `flow` send windows. One millisecond sees a whole window, and the next one sees
    /// nothing of it. Self-similarity shows only beyond a round trip.
    #[test]
    fn connections_are_self_similar_beyond_a_round_trip() {
        let (mut sum, seeds) = (0.0, 1..=3);
        for seed in seeds.clone() {
            let mut source = crate::open("gen:flow:pps=20k,packets=1200k", Seed(seed)).unwrap();
            let mut frame = humpyard_core::frame::Frame::default();
            let mut counted = VarianceTime::with_bins(128_000_000);
            while source.next(&mut frame).unwrap() {
                counted.add(frame.time);
            }
            sum += counted.hurst().unwrap().estimate;
        }
        let mean = sum / seeds.count() as f64;
        assert!((0.65..=0.95).contains(&mean), "{mean}");
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(of([]).burstiness(), None);
        assert_eq!(of([1, 2, 3]).burstiness(), None);
        assert_eq!(of([1, 3_000_000]).burstiness().unwrap().hurst, None);
    }
}
