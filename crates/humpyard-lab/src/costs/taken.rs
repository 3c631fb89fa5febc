//! What a machine takes from its cores, beside the work of packets.

use core::str::FromStr;
use core::time::Duration;

use humpyard_text::quantity::parse_duration;
use serde::{Serialize, Serializer};

use crate::LabError;
use crate::figures::percent;

/// A bound on the time that a machine takes from an engine: in any time t, a part of t and an
/// amount at once.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Taken {
    /// Fraction of any time that is taken, from 0 to below 1.
    pub part: f64,
    /// Time taken at once, beyond that fraction, in ns.
    #[serde(rename = "at_once_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub at_once: Duration,
}

impl Taken {
    /// Nothing.
    pub const NOTHING: Self = Self { part: 0.0, at_once: Duration::ZERO };

    /// Whether it takes nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::NOTHING
    }

    /// Refuses a machine that takes more than is kept free.
    pub(crate) fn check(&self, margin: f64) -> Result<(), LabError> {
        if self.part <= margin {
            return Ok(());
        }
        Err(LabError::option(format!(
            "the machine takes {} of its engines, and the margin is {}: keep as much free (@margin), or have it take less",
            percent(self.part),
            percent(margin)
        )))
    }
}

impl FromStr for Taken {
    type Err = LabError;

    /// Reads `0.02:500us`: a part, and the time taken at once.
    fn from_str(text: &str) -> Result<Self, LabError> {
        let said = || LabError::option(format!("takes PART:TIME, 0.02:500us for example, not `{text}`"));
        let (part, at_once) = text.split_once(':').ok_or_else(said)?;
        let part: f64 = part.parse().ok().filter(|part| (0.0..1.0).contains(part)).ok_or_else(said)?;
        Ok(Self { part, at_once: parse_duration(at_once).map_err(|_| said())? })
    }
}

/// Writes a time as whole nanoseconds.
pub(crate) fn ns<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_reads_as_it_is_written() {
        let taken = Taken { part: 0.02, at_once: Duration::from_micros(500) };
        assert_eq!("0.02:500us".parse::<Taken>().unwrap(), taken);
        for slip in ["0.02", "1:5us", "-0.1:5us", "0.1:5", "x:5us", ""] {
            let said = slip.parse::<Taken>().unwrap_err().to_string();
            assert!(said.contains("takes PART:TIME, 0.02:500us for example"), "{slip}: {said}");
        }
        assert!(taken.check(0.02).is_ok());
        let said = taken.check(0.01).unwrap_err().to_string();
        assert!(said.starts_with("the machine takes 2.00 % of its engines, and the margin is 1.00 %"), "{said}");
    }
}
