//! When packets arrive.

use core::ops::RangeInclusive;
use core::str::FromStr;

use humpyard_text::quantity::parse_count;

use crate::LabError;

/// Loads that runs take: with less, a packet would have to wait for years.
pub(crate) const LOADS: RangeInclusive<f64> = 1e-6..=1000.0;
/// Multipliers that runs take.
pub(crate) const MULTIPLIERS: RangeInclusive<f64> = 1e-6..=1e9;

/// When packets arrive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rate {
    /// As fast as they are taken. Live only.
    Line,
    /// As captured.
    Trace,
    /// As captured, this many times faster: bursts stay as they are.
    Multiplied(f64),
    /// This many packets per second, evenly.
    PacketsPerSecond(f64),
    /// As captured, with all gaps stretched so that the offered work is a part of what cores can do.
    Load {
        /// That part: 1 is all that the cores can do.
        load: f64,
        /// This many cores. `None`: those of the run.
        of: Option<usize>,
    },
}

impl Rate {
    /// Returns the rate of the same traffic on other cores: a load stays that of the cores it was of.
    #[must_use]
    pub fn fixed(self, cores: usize) -> Self {
        match self {
            Self::Load { load, of } => Self::Load { load, of: Some(of.unwrap_or(cores.max(1))) },
            other => other,
        }
    }

    /// Returns the rate of this traffic that many times faster. A line rate has no faster one.
    #[must_use]
    pub fn times(self, times: f64) -> Self {
        match self {
            _ if times == 1.0 => self,
            Self::Line => Self::Line,
            Self::Trace => Self::Multiplied(times),
            Self::Multiplied(multiplier) => Self::Multiplied(typed(multiplier * times)),
            Self::PacketsPerSecond(rate) => Self::PacketsPerSecond(typed(rate * times)),
            Self::Load { load, of } => Self::Load { load: typed(load * times), of },
        }
    }

    /// Returns the options that ask for it, and their values.
    pub fn options(self) -> Vec<(&'static str, String)> {
        match self {
            Self::Line => vec![("rate", "line".to_owned())],
            Self::Trace => vec![("rate", "trace".to_owned())],
            Self::Multiplied(multiplier) => vec![("multiplier", multiplier.to_string())],
            Self::PacketsPerSecond(rate) => vec![("rate", rate.to_string())],
            Self::Load { load, of: None } => vec![("load", load.to_string())],
            Self::Load { load, of: Some(of) } => vec![("load", load.to_string()), ("of", of.to_string())],
        }
    }
}

/// Rounds to twelve digits, so that 0.8 times 1.5 is typed as 1.2.
fn typed(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}

impl FromStr for Rate {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        match text {
            "line" => Ok(Self::Line),
            "trace" => Ok(Self::Trace),
            _ => match parse_count(text) {
                Some(rate) if (1e-3..=1e12).contains(&rate) => Ok(Self::PacketsPerSecond(rate)),
                _ => Err(LabError::option(format!(
                    "a rate is `line`, `trace` or packets per second (0.001 to 1e12, for example 250000, 250k or 1.5M), not \
                     `{text}`"
                ))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_people_write_them() {
        assert_eq!("line".parse::<Rate>().unwrap(), Rate::Line);
        assert_eq!("1.5M".parse::<Rate>().unwrap(), Rate::PacketsPerSecond(1.5e6));
        assert_eq!("250k".parse::<Rate>().unwrap(), Rate::PacketsPerSecond(250e3));
        for bad in ["", "-1", "0", "1e-300", "1e13", "nan", "fast"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }
}
