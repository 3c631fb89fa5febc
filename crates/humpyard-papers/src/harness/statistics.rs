//! Statistics of several numbers.

use core::fmt;

use humpyard_plot::statistics::Statistic;

/// The range of numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Range {
    /// The least number.
    pub(crate) least: f64,
    /// The greatest number.
    pub(crate) greatest: f64,
}

impl Range {
    /// Returns the range of these numbers. Without numbers, its ends are infinite, and the least exceeds the
    /// greatest.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        Self { least: f64::INFINITY, greatest: f64::NEG_INFINITY }.with(values)
    }

    /// Returns the range of these numbers and 0.
    pub(crate) fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        Self { least: 0.0, greatest: 0.0 }.with(values)
    }

    fn with(self, values: impl IntoIterator<Item = f64>) -> Self {
        let wider = |Self { least, greatest }: Self, value: f64| Self {
            least: least.min(value),
            greatest: greatest.max(value),
        };
        values.into_iter().fold(self, wider)
    }

    /// Returns whether a number lies in it.
    pub(crate) fn has(self, number: f64) -> bool {
        (self.least..=self.greatest).contains(&number)
    }

    /// Returns the length of the range.
    pub(crate) fn span(self) -> f64 {
        self.greatest - self.least
    }

    /// Returns the largest magnitude.
    pub(crate) fn magnitude(self) -> f64 {
        self.greatest.max(-self.least)
    }
}

impl From<&Statistic> for Range {
    fn from(statistic: &Statistic) -> Self {
        Self { least: statistic.min, greatest: statistic.max }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} to {}", short(self.least), short(self.greatest))
    }
}

/// Returns the mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Writes numbers, one after the other.
pub(crate) fn listed(values: impl IntoIterator<Item = f64>) -> String {
    values.into_iter().map(short).collect::<Vec<_>>().join(", ")
}

/// Returns Spearman's rank correlation; equal values share the mean of their ranks.
pub(crate) fn rank_correlation(points: &[(f64, f64)]) -> f64 {
    let ranks = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let rank = |value: f64| {
            let below = points.iter().filter(|point| of(point) < value).count();
            let equal = points.iter().filter(|point| of(point) == value).count();
            below as f64 + (equal as f64 - 1.0) / 2.0
        };
        points.iter().map(|point| rank(of(point))).collect()
    };
    let (x, y) = (ranks(|point| point.0), ranks(|point| point.1));
    let mean = (points.len() as f64 - 1.0) / 2.0;
    let sum = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    sum(&x, &y) / (sum(&x, &x) * sum(&y, &y)).sqrt()
}

/// Sorts numbers, each once.
pub(crate) fn ascending(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Formats a number with its significant digits.
pub fn short(number: f64) -> String {
    let digits = if number.abs() >= 100.0 { 1 } else { 3 };
    let text = format!("{number:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, -1.0, 819.15, 26_214.4, 0.12345, -2.5].map(short);
        assert_eq!(shown, ["0", "-1", "819.1", "26214.4", "0.123", "-2.5"]);
    }

    #[test]
    fn ranks_are_correlated() {
        assert!((rank_correlation(&[(1.0, 9.0), (2.0, 5.0), (7.0, 1.0)]) + 1.0).abs() < 1e-12);
        assert!((rank_correlation(&[(1.0, 1.0), (1.0, 1.0), (7.0, 2.0)]) - 1.0).abs() < 1e-12);
    }
}
