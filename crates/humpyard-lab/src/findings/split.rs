//! Which policies differ, and how sure that is.
//!
//! Policies meet identical arrivals in each repetition. So a repetition is a pair, and the number of repetitions in which
//! one policy is ahead of another is binomial if they do not differ: the sign test. A page tests [`TESTED`] figures at
//! most, each at a part of the level, so that the level holds for the page: of a hundred pages that compare a policy with
//! its like, [`CONFIDENCE`] have no winner.

use super::facts::{Facts, PolicyFacts, RunFacts};
use crate::statistics::CONFIDENCE;

/// From this ratio on two values are called different.
pub(super) const DIFFERENT: f64 = 1.05;
/// Figures of a page in which policies may be called different with confidence.
const TESTED: usize = 3;

/// A figure in which policies may differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Figure {
    /// Packets lost, of all.
    Lost,
    /// Late packets, of all.
    Late,
    /// Packets that left after later ones of their flow, of all.
    OutOfOrder,
    /// Delay of 99 of 100 packets.
    Delay,
    /// Packets processed per second.
    Throughput,
    /// Jain's index over the clients.
    Fairness,
}

/// The figures, the most important first.
const FIGURES: [Figure; 6] =
    [Figure::Lost, Figure::Late, Figure::OutOfOrder, Figure::Delay, Figure::Throughput, Figure::Fairness];

impl Figure {
    /// This figure of a run.
    pub(super) fn of(self, run: &RunFacts) -> f64 {
        match self {
            Self::Lost => run.lost(),
            Self::Late => run.late,
            Self::OutOfOrder => run.out_of_order,
            Self::Delay => run.p99,
            Self::Throughput => run.pps,
            Self::Fairness => run.jain,
        }
    }

    /// This figure of a run, such that less is better.
    fn cost(self, run: &RunFacts) -> f64 {
        match self {
            Self::Throughput | Self::Fairness => -self.of(run),
            _ => self.of(run),
        }
    }
}

/// How sure a difference is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sure {
    /// As sure as [`CONFIDENCE`] says.
    Confident,
    /// There is one run of each, or all repetitions are alike.
    OneRun,
    /// Seen in this many of all repetitions: too few to be sure.
    TooFew(usize, usize),
    /// Seen in this many of all repetitions; this figure is not tested.
    Untested(usize, usize),
    /// Seen on threads that lacked a processor, which makes nobody the better one.
    Starved,
}

impl Sure {
    /// The words that go behind the difference.
    pub(super) fn caveat(self) -> String {
        match self {
            Self::Confident => format!(" ({:.0} % confidence)", 100.0 * CONFIDENCE),
            Self::OneRun => " in this one run".to_owned(),
            Self::TooFew(seen, of) => format!(" in {seen} of {of} repetitions, too few to tell"),
            Self::Untested(seen, of) => format!(" in {seen} of {of} repetitions, not tested"),
            Self::Starved => ", though threads lacked a processor".to_owned(),
        }
    }
}

/// Policies in two groups, of which the first is ahead of the second.
#[derive(Clone, Debug)]
pub(super) struct Split<'a> {
    /// The better ones, from the best.
    pub(super) ahead: Vec<&'a PolicyFacts>,
    /// The others, from the best.
    pub(super) behind: Vec<&'a PolicyFacts>,
    /// How sure that is.
    pub(super) sure: Sure,
}

/// What policies come to in a figure.
#[derive(Clone, Debug)]
pub(super) enum Outcome<'a> {
    /// Their medians differ by less than [`DIFFERENT`] says, or there is one policy.
    Alike,
    /// They differ, but not so that one could be named.
    Unsettled,
    /// Some are ahead of the others.
    Split(Split<'a>),
}

impl Facts {
    /// What the policies come to in this figure.
    pub(super) fn outcome(&self, figure: Figure) -> Outcome<'_> {
        let mut policies: Vec<&PolicyFacts> = self.policies.iter().collect();
        let cost = |policy: &PolicyFacts| policy.median(|run| figure.cost(run));
        policies.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let (Some(first), Some(last)) = (policies.first(), policies.last()) else { return Outcome::Alike };
        if !differ(cost(first), cost(last)) {
            return Outcome::Alike;
        }
        let gaps = (1..policies.len()).filter(|&at| differ(cost(policies[at - 1]), cost(policies[at])));
        let splits = gaps.filter_map(|at| {
            let (ahead, behind) = policies.split_at(at);
            let sure = self.sure(figure, ahead, behind);
            let named = match sure {
                Sure::Confident | Sure::OneRun => true,
                Sure::Starved => false,
                Sure::TooFew(seen, of) | Sure::Untested(seen, of) => seen == of,
            };
            named.then(|| Split { ahead: ahead.to_vec(), behind: behind.to_vec(), sure })
        });
        splits.into_iter().next().map_or(Outcome::Unsettled, Outcome::Split)
    }

    /// How sure it is that all policies of one group are ahead of all of the other.
    pub(super) fn sure(&self, figure: Figure, ahead: &[&PolicyFacts], behind: &[&PolicyFacts]) -> Sure {
        if figure != Figure::OutOfOrder && self.is_starved() {
            return Sure::Starved;
        }
        self.sure_of(|run| figure.cost(run), self.is_tested(figure), ahead, behind)
    }

    /// As [`Facts::sure`], of any figure of which less is better.
    pub(super) fn sure_of(
        &self,
        cost: impl Fn(&RunFacts) -> f64,
        is_tested: bool,
        ahead: &[&PolicyFacts],
        behind: &[&PolicyFacts],
    ) -> Sure {
        let repetitions = self.whole_repetitions();
        if repetitions < 2 || self.repeats_itself() {
            return Sure::OneRun;
        }
        let cost = |policy: &&PolicyFacts, at: usize| cost(&policy.runs[at]);
        let gap = |at: usize| {
            let worst = ahead.iter().map(|policy| cost(policy, at)).fold(f64::NEG_INFINITY, f64::max);
            let best = behind.iter().map(|policy| cost(policy, at)).fold(f64::INFINITY, f64::min);
            best - worst
        };
        let gaps: Vec<f64> = (0..repetitions).map(gap).collect();
        let wins = gaps.iter().filter(|gap| **gap > 0.0).count();
        let losses = gaps.iter().filter(|gap| **gap < 0.0).count();
        if chance(wins, wins + losses) > (1.0 - CONFIDENCE) / TESTED as f64 {
            Sure::TooFew(wins, repetitions)
        } else if is_tested {
            Sure::Confident
        } else {
            Sure::Untested(wins, repetitions)
        }
    }

    /// Repetitions in which every policy was run.
    pub(super) fn whole_repetitions(&self) -> usize {
        self.policies.iter().map(|policy| policy.runs.len()).min().unwrap_or(0)
    }

    /// Whether all repetitions came to the same: then they are one.
    pub(super) fn repeats_itself(&self) -> bool {
        let same = |policy: &PolicyFacts| {
            FIGURES.iter().all(|figure| policy.values(|run| figure.of(run)).windows(2).all(|two| two[0] == two[1]))
        };
        self.policies.iter().all(same)
    }

    /// Whether policies may be called different in this figure with confidence: it is one of the first that vary. Which do
    /// does not depend on whose they are, so the choice favours nobody.
    fn is_tested(&self, figure: Figure) -> bool {
        let varies = |figure: &&Figure| {
            let values = || self.policies.iter().flat_map(|policy| policy.values(|run| figure.of(run)));
            differ(values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
        };
        FIGURES.iter().filter(varies).take(TESTED).any(|tested| *tested == figure)
    }
}

/// Whether two values of one sign differ so that it matters.
fn differ(a: f64, b: f64) -> bool {
    let (less, more) = (a.abs().min(b.abs()), a.abs().max(b.abs()));
    more > DIFFERENT * less
}

/// The probability that one of two that do not differ is ahead so often, of so many: the sign test with two sides.
fn chance(wins: usize, of: usize) -> f64 {
    // Terms of the binomial distribution from `of` downwards, each by the one before.
    let mut term = 0.5f64.powi(of as i32);
    let mut tail = term;
    for lost in 1..=of.saturating_sub(wins) {
        term *= (of + 1 - lost) as f64 / lost as f64;
        tail += term;
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_test_is_that_of_the_tables() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-4;
        assert!(near(chance(7, 7), 0.0156) && near(chance(6, 6), 0.0313) && near(chance(9, 10), 0.0215));
        assert!(near(chance(4, 7), 1.0) && near(chance(10, 11), 0.0117) && near(chance(0, 0), 1.0));
    }

    fn facts(delays: &[(&str, &[f64])]) -> Facts {
        let run = |&p99: &f64| RunFacts { packets: 1000, p99, ..RunFacts::default() };
        let policy = |(name, values): &(&str, &[f64])| PolicyFacts {
            name: (*name).to_owned(),
            runs: values.iter().map(run).collect(),
        };
        Facts { policies: delays.iter().map(policy).collect(), ..Facts::default() }
    }

    fn said(delays: &[(&str, &[f64])]) -> String {
        match facts(delays).outcome(Figure::Delay) {
            Outcome::Alike => "alike".to_owned(),
            Outcome::Unsettled => "unsettled".to_owned(),
            Outcome::Split(split) => {
                let names = |group: &[&PolicyFacts]| {
                    group.iter().map(|policy| policy.name.clone()).collect::<Vec<_>>().join("+")
                };
                format!("{}<{}{}", names(&split.ahead), names(&split.behind), split.sure.caveat())
            }
        }
    }

    #[test]
    fn a_winner_needs_seven_wins_of_seven() {
        let (low, high) = ([10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0], [20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0]);
        assert_eq!(said(&[("b", &high), ("a", &low)]), "a<b (95 % confidence)");
        assert_eq!(said(&[("b", &high[..6]), ("a", &low[..6])]), "a<b in 6 of 6 repetitions, too few to tell");
        assert_eq!(said(&[("b", &high[..1]), ("a", &low[..1])]), "a<b in this one run");
        let mut mixed = high;
        mixed[0] = 5.0;
        assert_eq!(said(&[("b", &mixed), ("a", &low)]), "unsettled");
        assert_eq!(said(&[("b", &low), ("a", &low)]), "alike");
    }

    #[test]
    fn repetitions_that_are_alike_are_one() {
        assert_eq!(said(&[("a", &[10.0; 7]), ("b", &[20.0; 7])]), "a<b in this one run");
    }

    #[test]
    fn policies_as_good_as_the_best_are_ahead_with_it() {
        let scaled = |by: f64| [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0].map(|value| by * value);
        let said = said(&[("c", &scaled(2.0)), ("a", &scaled(1.0)), ("b", &scaled(1.03))]);
        assert_eq!(said, "a+b<c (95 % confidence)");
    }
}
