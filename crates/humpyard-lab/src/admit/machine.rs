//! What a machine adds to the work of packets.

use core::str::FromStr;
use core::time::Duration;

use serde::{Serialize, Serializer};

use crate::LabError;
use crate::config::parse_duration;
use crate::costs::MachineCosts;
use crate::figures::percent;

/// What a machine adds to the work of packets.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Machine {
    /// What handing a packet over takes its engine, beside the work.
    #[serde(rename = "hand_over_ns", serialize_with = "ns")]
    pub hand_over: Duration,
    /// Packets that an engine has at a time, from 1.
    pub in_flight: u32,
    /// What else runs on the engines.
    pub taken: Taken,
}

impl Machine {
    /// One that does nothing but the work.
    pub const IDEAL: Self = Self { hand_over: Duration::ZERO, in_flight: 1, taken: Taken::NOTHING };

    /// The one that was measured, one packet at a time, of which so much is kept free: what it takes at once beside the greatest part
    /// that is known and no more than that.
    pub fn measured(machine: &MachineCosts, margin: f64) -> Self {
        let within = machine.taken.iter().filter(|taken| taken.part <= margin);
        let taken = within.max_by(|one, other| one.part.total_cmp(&other.part));
        Self {
            hand_over: Duration::from_nanos(machine.hand_over_ns.ceil() as u64),
            in_flight: 1,
            taken: taken.copied().unwrap_or(Taken::NOTHING),
        }
    }
}

/// What a machine takes from an engine: in any time t, no more than a part of t and so much at once.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Taken {
    /// The part, from 0 to below 1.
    pub part: f64,
    /// So much at once.
    #[serde(rename = "at_once_ns", serialize_with = "ns")]
    pub at_once: Duration,
}

fn ns<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

impl Taken {
    /// Nothing.
    pub const NOTHING: Self = Self { part: 0.0, at_once: Duration::ZERO };

    /// Whether it takes nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::NOTHING
    }

    /// Refuses a machine that takes more than is kept free.
    pub(super) fn check(&self, margin: f64) -> Result<(), LabError> {
        if self.part <= margin {
            return Ok(());
        }
        Err(LabError::option(format!(
            "the machine takes {} of its engines, and the margin is {}: keep as much free (--margin), or have it take less",
            percent(self.part),
            percent(margin)
        )))
    }
}

impl FromStr for Taken {
    type Err = LabError;

    /// `0.02:500us`: a part, and so much at once.
    fn from_str(text: &str) -> Result<Self, LabError> {
        let said = || LabError::option(format!("takes PART:TIME, 0.02:500us for example, not `{text}`"));
        let (part, at_once) = text.split_once(':').ok_or_else(said)?;
        let part: f64 = part.parse().ok().filter(|part| (0.0..1.0).contains(part)).ok_or_else(said)?;
        Ok(Self { part, at_once: parse_duration(at_once).map_err(|_| said())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_counts_as_far_as_it_is_kept_free() {
        let taken = [(0.0, 900), (0.05, 500), (0.2, 100)];
        let taken = taken.map(|(part, us)| Taken { part, at_once: Duration::from_micros(us) });
        let measured = MachineCosts { hand_over_ns: 1500.2, taken: taken.to_vec(), ..MachineCosts::default() };
        let machine = Machine::measured(&measured, 0.1);
        assert_eq!(machine, Machine { hand_over: Duration::from_nanos(1501), in_flight: 1, taken: taken[1] });
        let unknown = Machine::measured(&MachineCosts::default(), 0.1);
        assert_eq!(unknown, Machine::IDEAL);
    }

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
