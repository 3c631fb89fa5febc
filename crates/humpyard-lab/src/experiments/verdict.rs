//! What an experiment says of a claim.

use serde::{Deserialize, Serialize};

/// How a claim fares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
    /// It is shown, and nothing hangs on it: a time, which depends on the machine, or a figure of the paper that its text does
    /// not say enough of to be found again, or one that is known not to be found again here.
    Measured,
}

/// A claim, and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// What is claimed.
    pub claim: String,
    /// What was found.
    pub measured: String,
    /// What was to be found.
    pub expected: String,
    /// How it fares.
    pub outcome: Outcome,
    /// Whether it holds; none where nothing hangs on it.
    pub pass: Option<bool>,
}

impl Verdict {
    /// A claim that holds or does not.
    pub fn of(claim: impl Into<String>, expected: impl Into<String>, measured: impl Into<String>, holds: bool) -> Self {
        let outcome = if holds { Outcome::Pass } else { Outcome::Fail };
        Self { claim: claim.into(), measured: measured.into(), expected: expected.into(), outcome, pass: Some(holds) }
    }

    /// A figure that is shown beside what was said of it.
    pub fn measured(claim: impl Into<String>, said: impl Into<String>, measured: impl Into<String>) -> Self {
        Self {
            claim: claim.into(),
            measured: measured.into(),
            expected: said.into(),
            outcome: Outcome::Measured,
            pass: None,
        }
    }

    /// The same as a figure on which nothing hangs, for it depends on how much of its time the machine gives.
    pub fn on_this_machine(self) -> Self {
        let side = if self.pass == Some(true) { "inside" } else { "outside" };
        Self::measured(self.claim, self.expected, format!("{}: {side}", self.measured))
    }

    /// Whether it is a figure that was measured, and that says of itself that it lies outside of what was said of it, or does not
    /// hold.
    pub fn is_outside(&self) -> bool {
        let says_so = [": outside", "does not hold"].iter().any(|words| self.measured.contains(words));
        self.outcome == Outcome::Measured && says_so
    }

    /// A number that must lie from `low` to `high`.
    pub fn within(claim: impl Into<String>, (low, high): (f64, f64), measured: f64) -> Self {
        let holds = (low..=high).contains(&measured);
        Self::of(claim, format!("{} to {}", short(low), short(high)), short(measured), holds)
    }
}

/// A number with as many digits as say something.
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
    fn bounds_are_part_of_the_range() {
        for (measured, pass) in [(-3.0, true), (3.5, true), (3.6, false), (f64::NAN, false)] {
            assert_eq!(Verdict::within("e", (-3.0, 3.5), measured).pass, Some(pass), "{measured}");
        }
        assert_eq!(Verdict::measured("t", "8", "9").pass, None);
        assert!(Verdict::measured("t", "at most 8", "9: outside").is_outside());
        assert!(!Verdict::measured("t", "at most 8", "7: inside").is_outside());
        assert!(Verdict::within("t", (1.0, 2.0), 3.0).on_this_machine().is_outside());
        assert_eq!(Verdict::within("t", (1.0, 4.0), 3.0).on_this_machine().measured, "3: inside");
    }
}
