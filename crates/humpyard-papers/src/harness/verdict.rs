//! What an experiment says of a claim.

use serde::{Deserialize, Serialize};

use super::statistics::{Range, short};
use super::table::TableRow;
use humpyard_plot::statistics::Statistic;

/// How a claim fares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
    /// It is shown, and nothing hangs on it: a time, which depends on the machine, or a figure of the paper that its
    /// text does not say enough of to be found again, or one that is known not to be found again here.
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
    pub outcome: Mark,
    /// Whether it holds; none where nothing hangs on it.
    pub pass: Option<bool>,
}

impl Verdict {
    /// A claim that holds or does not.
    pub fn of(claim: impl Into<String>, expected: impl Into<String>, measured: impl Into<String>, holds: bool) -> Self {
        let outcome = if holds { Mark::Pass } else { Mark::Fail };
        Self { claim: claim.into(), measured: measured.into(), expected: expected.into(), outcome, pass: Some(holds) }
    }

    /// A figure that is shown beside what was said of it.
    pub fn measured(claim: impl Into<String>, said: impl Into<String>, measured: impl Into<String>) -> Self {
        Self {
            claim: claim.into(),
            measured: measured.into(),
            expected: said.into(),
            outcome: Mark::Measured,
            pass: None,
        }
    }

    /// The same as a figure on which nothing hangs, for it depends on how much of its time the machine gives.
    pub fn on_this_machine(self) -> Self {
        let side = if self.pass == Some(true) { "inside" } else { "outside" };
        Self::measured(self.claim, self.expected, format!("{}: {side}", self.measured))
    }

    /// Whether it is a figure that was measured, and that says of itself that it lies outside of what was said of it,
    /// or does not hold.
    pub fn is_outside(&self) -> bool {
        let says_so = [": outside", "does not hold"].iter().any(|words| self.measured.contains(words));
        self.outcome == Mark::Measured && says_so
    }

    /// A number that must lie from `low` to `high`.
    pub fn within(claim: impl Into<String>, (low, high): (f64, f64), measured: f64) -> Self {
        Self::bounded(claim, Bound::Within(low, high), measured)
    }

    /// Judges by a bound what was found.
    pub(crate) fn bounded(claim: impl Into<String>, bound: Bound, found: impl Judged) -> Self {
        Self::of(claim, bound.text(), found.text(), found.keeps_to(bound))
    }

    /// Judges something that must be so in all these rows; `all` says of how many, `broken` where it is not. `None`:
    /// there are no rows.
    pub(crate) fn everywhere<'a>(
        (claim, expected): (&str, &str),
        rows: impl Iterator<Item = TableRow<'a>> + Clone,
        holds: impl Fn(&TableRow<'a>) -> bool,
        all: impl FnOnce(usize) -> String,
        broken: impl FnOnce(TableRow<'a>) -> String,
    ) -> Option<Self> {
        let count = rows.clone().count();
        let found = rows.clone().find(|row| !holds(row));
        let is_so = found.is_none();
        (count > 0).then(|| Self::of(claim, expected, found.map_or_else(|| all(count), broken), is_so))
    }
}

/// A bound of a claim.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Bound {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
    /// More.
    MoreThan(f64),
    /// Less.
    LessThan(f64),
    /// From the first to the second.
    Within(f64, f64),
}

impl Bound {
    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {}", short(bound)),
            Self::AtMost(bound) => format!("at most {}", short(bound)),
            Self::MoreThan(bound) => format!("more than {}", short(bound)),
            Self::LessThan(bound) => format!("less than {}", short(bound)),
            Self::Within(low, high) => format!("{} to {}", short(low), short(high)),
        }
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
            Self::MoreThan(bound) => value > bound,
            Self::LessThan(bound) => value < bound,
            Self::Within(low, high) => (low..=high).contains(&value),
        }
    }
}

/// What was found, of which a bound may be claimed.
pub(crate) trait Judged {
    /// Writes it.
    fn text(&self) -> String;

    /// Returns whether it keeps to a bound.
    fn keeps_to(&self, bound: Bound) -> bool;
}

/// A number.
impl Judged for f64 {
    fn text(&self) -> String {
        short(*self)
    }

    fn keeps_to(&self, bound: Bound) -> bool {
        bound.holds(*self)
    }
}

/// All numbers of a range.
impl Judged for Range {
    fn text(&self) -> String {
        self.to_string()
    }

    fn keeps_to(&self, bound: Bound) -> bool {
        bound.holds(self.least) && bound.holds(self.greatest)
    }
}

/// The median, which is written with the range.
impl Judged for &Statistic {
    fn text(&self) -> String {
        let median = short(self.median);
        if self.min == self.max { median } else { format!("{median} ({})", Range::from(*self)) }
    }

    fn keeps_to(&self, bound: Bound) -> bool {
        bound.holds(self.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn ranges_keep_to_a_bound_at_both_ends_and_statistics_by_their_median() {
        let range = Range { least: -1.0, greatest: 2.0 };
        let of = |bound| Verdict::bounded("c", bound, range).pass == Some(true);
        assert!(of(Bound::Within(-1.0, 2.0)) && of(Bound::AtMost(2.0)) && of(Bound::AtLeast(-1.0)));
        assert!(!of(Bound::Within(-0.5, 2.0)) && !of(Bound::LessThan(2.0)) && !of(Bound::MoreThan(-1.0)));
        let statistic = Statistic::of(vec![1.0, 5.0, 2.0]).unwrap();
        let verdict = Verdict::bounded("c", Bound::AtMost(2.0), &statistic);
        assert_eq!((verdict.expected.as_str(), verdict.measured.as_str()), ("at most 2", "2 (1 to 5)"));
        assert_eq!(verdict.pass, Some(true));
    }
}
