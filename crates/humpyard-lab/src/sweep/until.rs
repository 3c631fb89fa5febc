//! How often cells are repeated.

use humpyard_core::name::unknown;
use humpyard_plot::statistics::{CONFIDENCE, Statistic};

use serde::{Serialize, Serializer};

use crate::LabError;
use crate::statistics::{FIGURES, Figure};

/// How often a cell is simulated, each time with the next seed.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Repeat {
    /// This many times.
    Times(u32),
    /// Until a figure is known well enough.
    Until(Until),
}

/// A figure that is to be known well: its confidence interval is to lie within a part of the median.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Until {
    /// The figure.
    #[serde(serialize_with = "key")]
    pub(super) figure: &'static Figure,
    /// The part of the median, on both sides.
    pub(super) within: f64,
    /// Repetitions at least; fewer than six give no interval of 95 %.
    pub(super) least: u32,
    /// Repetitions at most.
    pub(super) most: u32,
}

fn key<S: Serializer>(figure: &&'static Figure, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(figure.key)
}

impl Repeat {
    /// Returns the repetitions that every cell has.
    pub(super) const fn least(self) -> u32 {
        match self {
            Self::Times(times) => times,
            Self::Until(until) => until.least,
        }
    }
}

impl Until {
    /// Repetitions at least and at most, unless the plan says others.
    pub(super) const LEAST: u32 = 6;
    pub(super) const MOST: u32 = 100;

    /// Reads `FIGURE within PART%`.
    ///
    /// # Errors
    /// Other words, an unknown figure, and a part that is not above 0.
    pub(super) fn parse(text: &str) -> Result<Self, LabError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [name, "within", part] = words.as_slice() else {
            return Err(LabError::option(format!("until reads `FIGURE within PART%`, `p99 within 2%`, not `{text}`")));
        };
        let percent = part.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        let Some(percent) = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0) else {
            return Err(LabError::option(format!(
                "until: `{part}` is no part above 0 and up to 100 %: 2% for example"
            )));
        };
        Ok(Self { figure: figure(name)?, within: percent / 100.0, least: Self::LEAST, most: Self::MOST })
    }

    /// Returns whether these repetitions tell the figure well enough. A figure that a run does not tell never is.
    pub(super) fn is_met(&self, values: &[f64]) -> bool {
        let Some(Statistic { median, confidence: Some(interval), .. }) = Statistic::of(values.to_vec()) else {
            return false;
        };
        let further = (interval.high - median).max(median - interval.low);
        interval.level >= CONFIDENCE && further <= self.within * median.abs()
    }
}

/// Short names of figures, with their keys.
const SHORT: [(&str, &str); 3] = [("p50", "delay_p50_ns"), ("p99", "delay_p99_ns"), ("throughput", "throughput_pps")];

/// Finds a figure by its key, or by the short name of a quantile of the delay.
///
/// # Errors
/// If there is none.
pub(super) fn figure(name: &str) -> Result<&'static Figure, LabError> {
    let key = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, key)| key);
    let found = FIGURES.iter().find(|figure| figure.key == key);
    let names = || SHORT.iter().map(|(short, _)| *short).chain(FIGURES.iter().map(|figure| figure.key));
    found.ok_or_else(|| LabError::option(unknown("figure", name, names())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_known_when_its_interval_is_narrow() {
        let until = Until::parse("p99 within 10%").unwrap();
        assert_eq!((until.figure.key, until.within, until.least, until.most), ("delay_p99_ns", 0.1, 6, 100));
        assert!(until.is_met(&[100.0, 95.0, 105.0, 109.0, 91.0, 100.0]));
        assert!(!until.is_met(&[100.0, 95.0, 105.0, 120.0, 91.0, 100.0]));
        assert!(!until.is_met(&[100.0; 5]), "five give no interval of 95 %");
        assert!(until.is_met(&[0.0; 6]) && !until.is_met(&[f64::NAN; 6]));
    }

    #[test]
    fn slips_are_named() {
        for (text, said) in [
            ("p99 2%", "until reads `FIGURE within PART%`"),
            ("p98 within 2%", "no figure `p98`; did you mean `p99`? There are: p50, p99, throughput, throughput_pps, "),
            ("p99 within 0%", "until: `0%` is no part above 0 and up to 100 %"),
            ("p99 within 2", "until: `2` is no part above 0 and up to 100 %"),
        ] {
            let error = Until::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
