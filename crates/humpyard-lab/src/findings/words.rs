//! How findings say figures and names.

use super::facts::{Facts, PolicyFacts, RunFacts};
use super::split::{Figure, Outcome, Split};
use crate::figures::percent;

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The names of policies.
pub(super) fn names(policies: &[&PolicyFacts]) -> String {
    list(&policies.iter().map(|policy| policy.name.clone()).collect::<Vec<_>>())
}

/// A part of the time, in whole percent.
pub(super) fn part(fraction: f64) -> String {
    format!("{:.0} %", 100.0 * fraction)
}

/// A policy's part of its packets: the median, or the most where most repetitions have none.
pub(super) fn fraction(policy: &PolicyFacts, of: impl Fn(&RunFacts) -> f64) -> String {
    let (median, most) = (policy.median(&of), policy.greatest(&of));
    if median == 0.0 && most > 0.0 { format!("up to {}", percent(most)) } else { percent(median) }
}

impl Facts {
    /// These policies as a subject: `the policies` if they are all and several.
    pub(super) fn who(&self, policies: &[&PolicyFacts]) -> String {
        if policies.len() > 1 && policies.len() == self.policies.len() {
            "the policies".to_owned()
        } else {
            names(policies)
        }
    }

    /// The policies, in the order of the comparison.
    pub(super) fn all(&self) -> Vec<&PolicyFacts> {
        self.policies.iter().collect()
    }

    /// A part of their packets that these policies come to, from the least to the most. Names stand behind figures that
    /// differ, with how sure that is, where these are all policies.
    pub(super) fn range(&self, policies: &[&PolicyFacts], figure: Figure) -> String {
        let of = |run: &RunFacts| figure.of(run);
        let mut ranked = policies.to_vec();
        ranked.sort_by(|a, b| a.median(of).total_cmp(&b.median(of)));
        let (Some(least), Some(most)) = (ranked.first(), ranked.last()) else { return String::new() };
        if most.median(of) == 0.0 {
            let most = ranked.iter().map(|policy| policy.greatest(of)).fold(0.0, f64::max);
            return if most > 0.0 { format!("up to {}", percent(most)) } else { "none".to_owned() };
        }
        let [low, high] = [least, most].map(|policy| percent(policy.median(of)));
        let named = format!("{low} ({}) to {high} ({})", least.name, most.name);
        let bare = if low == high { low.clone() } else { format!("{low} to {high}") };
        if ranked.len() < self.policies.len() {
            return bare;
        }
        match self.outcome(figure) {
            Outcome::Alike | Outcome::Unsettled => bare,
            Outcome::Split(_) => named,
        }
    }

    /// What goes behind a [`Facts::range`] and its noun: how sure the difference is; nothing where there is none.
    pub(super) fn range_caveat(&self, policies: &[&PolicyFacts], figure: Figure) -> String {
        if policies.len() < self.policies.len() {
            return String::new();
        }
        match self.outcome(figure) {
            Outcome::Alike => String::new(),
            Outcome::Unsettled => ", without a significant difference".to_owned(),
            Outcome::Split(Split { sure, .. }) => sure.caveat(),
        }
    }
}

/// Puts a space that does not break before this unit, wherever a number stands before it.
fn glue(text: &str, unit: &str) -> String {
    let mut words = text.split(' ').peekable();
    let mut glued = String::new();
    while let Some(word) = words.next() {
        glued.push_str(word);
        let number = word.ends_with(|c: char| c.is_ascii_digit());
        let Some(next) = words.peek() else { break };
        let next = next.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
        glued.push(if number && next == unit { '\u{a0}' } else { ' ' });
    }
    glued
}

const UNITS: [&str; 12] = ["%", "ns", "us", "ms", "s", "pps", "kpps", "Mpps", "b/s", "kb/s", "Mb/s", "Gb/s"];

/// The text with spaces that do not break before units: no line ends before one.
pub(crate) fn glued(text: &str) -> String {
    UNITS.iter().fold(text.to_owned(), |text, unit| glue(&text, unit))
}

/// The text with a capital at its start, unless a policy's name is there.
pub(super) fn sentence(text: &str) -> String {
    match text.strip_prefix("the ") {
        Some(rest) => format!("The {rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_lists() {
        let list = |names: &[&str]| list(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&[]), "none");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn no_line_ends_before_a_unit() {
        assert_eq!(glued("busy 95 % of 2.00 ms, 3 s."), "busy 95\u{a0}% of 2.00\u{a0}ms, 3\u{a0}s.");
    }
}
