//! The straight line through measured times, by Theil and Sen: the median of the slopes of all pairs of points, which outliers
//! do not move until they are more than a quarter of the points.

use serde::Serialize;

/// A straight line, neither part of which is negative, with confidence intervals of 95 %.
///
/// That of the slope is from the order statistics of the slopes of all pairs (Sen, 1968); that of the fixed part is what the
/// ends of that make of the fixed part. Where the fixed part would be below 0 the line goes through zero.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LineFit {
    /// Time of a packet without length, in ns.
    pub fixed_ns: f64,
    /// Lower end of its interval.
    pub fixed_low_ns: f64,
    /// Upper end of its interval.
    pub fixed_high_ns: f64,
    /// Time of each byte, in ns.
    pub per_byte_ns: f64,
    /// Lower end of its interval.
    pub per_byte_low_ns: f64,
    /// Upper end of its interval.
    pub per_byte_high_ns: f64,
    /// What part of the variance of the points the line explains: 1 is all, about 0 is none, as where the length does not matter;
    /// below 0 is worse than their mean.
    pub r_squared: f64,
}

/// How far from the mean a normal variable stays in 95 % of all cases, in standard deviations.
const SPREAD: f64 = 1.96;

impl LineFit {
    /// The line through points of lengths (bytes) and times (ns). Of no point it is zero; of one length the median.
    pub fn of(points: &[(f64, f64)]) -> Self {
        let slopes = slopes(points);
        let (low, slope, high) = match slopes.len() {
            0 => (0.0, 0.0, 0.0),
            pairs => {
                let (below, above) = ranks(points.len(), pairs);
                (slopes[below].max(0.0), median(&slopes).max(0.0), slopes[above].max(0.0))
            }
        };
        let mut fit = Self {
            fixed_ns: fixed_part(points, slope),
            fixed_low_ns: fixed_part(points, high).max(0.0),
            fixed_high_ns: fixed_part(points, low).max(0.0),
            per_byte_ns: slope,
            per_byte_low_ns: low,
            per_byte_high_ns: high,
            r_squared: 0.0,
        };
        if fit.fixed_ns < 0.0 {
            fit = fit.through_zero(points);
        }
        fit.r_squared = fit.explained(points);
        fit
    }

    /// The time of a packet of this length.
    pub fn at(&self, length: f64) -> f64 {
        self.fixed_ns + self.per_byte_ns * length
    }

    /// The line without a fixed part: the median of the times of a byte, with the interval of that by order statistics.
    fn through_zero(self, points: &[(f64, f64)]) -> Self {
        let ratios = sorted(points.iter().filter(|point| point.0 > 0.0).map(|&(x, y)| y / x));
        let count = ratios.len() as f64;
        let outer = ((count - SPREAD * count.sqrt()) / 2.0).floor().max(1.0) as usize - 1;
        let end = |at: usize| ratios.get(at).copied().unwrap_or(0.0);
        Self {
            fixed_ns: 0.0,
            fixed_low_ns: 0.0,
            per_byte_ns: median(&ratios),
            per_byte_low_ns: end(outer),
            per_byte_high_ns: end(ratios.len().saturating_sub(outer + 1)),
            ..self
        }
    }

    fn explained(&self, points: &[(f64, f64)]) -> f64 {
        let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len().max(1) as f64;
        let squares = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(|point| of(point).powi(2)).sum::<f64>();
        let (all, left) = (squares(&|point| point.1 - mean), squares(&|point| point.1 - self.at(point.0)));
        if all > 0.0 {
            1.0 - left / all
        } else if left == 0.0 {
            1.0
        } else {
            0.0
        }
    }
}

/// The fixed part of the line with this slope.
fn fixed_part(points: &[(f64, f64)], slope: f64) -> f64 {
    median(&sorted(points.iter().map(|&(x, y)| y - slope * x)))
}

/// Slopes of all pairs of different lengths, in order.
fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let pairs =
        points.iter().enumerate().flat_map(|(at, &one)| points[at + 1..].iter().map(move |&other| (one, other)));
    sorted(pairs.filter(|(one, other)| one.0 != other.0).map(|(one, other)| (other.1 - one.1) / (other.0 - one.0)))
}

/// Where among the slopes in order the interval of their median ends: by the variance of Kendall's statistic.
fn ranks(points: usize, slopes: usize) -> (usize, usize) {
    let n = points as f64;
    let width = SPREAD * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let low = ((slopes as f64 - width) / 2.0).floor() - 1.0;
    let high = ((slopes as f64 + width) / 2.0).ceil();
    (low.max(0.0) as usize, (high as usize).min(slopes - 1))
}

/// Values in order.
pub(super) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The median of values in order; of none it is 0.
pub(super) fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The value below which this part of the values in order is; of none it is 0.
pub(super) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (part * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;

    const LENGTHS: [f64; 8] = [64.0, 128.0, 256.0, 512.0, 768.0, 1024.0, 1280.0, 1500.0];

    fn line(fixed: f64, per_byte: f64) -> Vec<(f64, f64)> {
        LENGTHS.map(|length| (length, fixed + per_byte * length)).to_vec()
    }

    fn near(found: f64, expected: f64, by: f64) -> bool {
        (found - expected).abs() <= by
    }

    #[test]
    fn an_exact_line_is_found() {
        let fit = LineFit::of(&line(151.0, 0.09));
        assert!(near(fit.fixed_ns, 151.0, 1e-9) && near(fit.per_byte_ns, 0.09, 1e-12), "{fit:?}");
        assert!(near(fit.fixed_low_ns, fit.fixed_high_ns, 1e-9) && near(fit.r_squared, 1.0, 1e-12), "{fit:?}");
        assert!(near(fit.at(1000.0), 241.0, 1e-9));
    }

    #[test]
    fn noise_stays_within_the_interval_about_as_often_as_said() {
        let mut random = Seed(7).stream("noise");
        let mut held = 0;
        for _ in 0..400 {
            let mut points = line(200.0, 0.5);
            for point in &mut points {
                // The sum of twelve uniform numbers is about normal.
                let noise: f64 = (0..12).map(|_| random.below(1000) as f64 / 1000.0).sum::<f64>() - 6.0;
                point.1 += 10.0 * noise;
            }
            let fit = LineFit::of(&points);
            assert!(fit.per_byte_low_ns <= fit.per_byte_ns && fit.per_byte_ns <= fit.per_byte_high_ns);
            assert!(fit.fixed_low_ns <= fit.fixed_ns && fit.fixed_ns <= fit.fixed_high_ns);
            assert!(fit.r_squared > 0.9, "{fit:?}");
            held += u32::from((fit.per_byte_low_ns..=fit.per_byte_high_ns).contains(&0.5));
        }
        assert!((360..=400).contains(&held), "{held} of 400");
    }

    #[test]
    fn outliers_do_not_move_it() {
        let mut points = line(100.0, 1.0);
        points[3].1 += 50_000.0;
        points[6].1 += 9_000.0;
        let fit = LineFit::of(&points);
        assert!(near(fit.per_byte_ns, 1.0, 0.01) && near(fit.fixed_ns, 100.0, 10.0), "{fit:?}");
        assert!(fit.r_squared < 0.5, "{fit:?}");
    }

    #[test]
    fn neither_part_is_negative() {
        let falls = LineFit::of(&line(100.0, -0.01));
        assert!(falls.per_byte_ns == 0.0 && near(falls.fixed_ns, 92.0, 5.0), "{falls:?}");
        let through_zero = LineFit::of(&line(-20.0, 1.0));
        assert!(through_zero.fixed_ns == 0.0 && near(through_zero.per_byte_ns, 0.97, 0.03), "{through_zero:?}");
        let (low, high) = (through_zero.per_byte_low_ns, through_zero.per_byte_high_ns);
        assert!(near(low, 1.0 - 20.0 / 64.0, 1e-9) && near(high, 1.0 - 20.0 / 1500.0, 1e-9), "{through_zero:?}");
    }

    #[test]
    fn few_points_make_a_line_too() {
        let zero = LineFit::of(&[]);
        assert_eq!((zero.fixed_ns, zero.per_byte_ns), (0.0, 0.0));
        let one = LineFit::of(&[(64.0, 5.0), (64.0, 7.0)]);
        assert_eq!((one.fixed_ns, one.per_byte_ns), (6.0, 0.0));
        let two = LineFit::of(&[(0.0, 5.0), (10.0, 25.0)]);
        assert_eq!((two.fixed_ns, two.per_byte_ns, two.r_squared), (5.0, 2.0, 1.0));
    }

    #[test]
    fn quantiles_are_of_the_values() {
        let values = sorted([3.0, 1.0, 2.0].into_iter());
        assert_eq!((median(&values), quantile(&values, 0.0), quantile(&values, 1.0)), (2.0, 1.0, 3.0));
        assert_eq!((median(&[]), quantile(&[], 0.5)), (0.0, 0.0));
    }
}
