//! Claims, judged by the data of an experiment.

use serde::{Deserialize, Serialize};

use super::claim::{Claim, claim, claims};
use super::expected::expected;
use super::experiment::{Experiment, Figure, Scale};
use super::outcome::Outcome;
use super::statistics::short;
use super::table::Table;
use humpyard_plot::statistics::Statistic;

/// A claim of a paper, and its outcome.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClaimVerdict {
    /// Its name in `claims.toml`.
    pub claim: String,
    /// The name of the paper's text.
    pub paper: String,
    /// The section of the paper.
    pub section: String,
    /// The figure or table; empty if it is in neither.
    pub figure: String,
    /// The paper's statement in our words.
    pub says: String,
    /// The kind of demand.
    pub kind: String,
    /// The paper's demand, as text.
    pub demanded: String,
    /// The unit of the figures.
    pub unit: String,
    /// The source of the paper's value, if its text lost it.
    #[serde(default)]
    pub value_source: Option<String>,
    /// The figures of each seed. `None`: infinite, or no number.
    pub found: Vec<Vec<Option<f64>>>,
    /// Number of seeds with which it holds.
    pub held: usize,
    /// Number of seeds.
    pub seeds: usize,
    /// The median over the seeds, figure by figure.
    pub median: Vec<Option<f64>>,
    /// The interval of the median by order statistics, figure by figure; empty with a single seed.
    pub interval: Vec<Option<(f64, f64)>>,
    /// Its outcome.
    pub outcome: Outcome,
    /// The expected outcome. `None`: there is no expectation.
    pub expected: Option<Outcome>,
    /// The reason why it does not hold, or cannot be tested.
    pub why: Option<String>,
    /// The command that shows the cause.
    pub run: Option<String>,
}

impl ClaimVerdict {
    /// Returns whether the outcome differs from the expected one.
    pub fn differs(&self) -> bool {
        self.expected.is_some_and(|expected| expected != self.outcome)
    }

    /// Returns the median, the interval, and the number of seeds with which it holds, as text.
    pub fn found_text(&self) -> String {
        let number = |number: Option<f64>| number.map_or_else(|| "no finite number".to_owned(), short);
        let one = |(at, &median): (usize, &Option<f64>)| match self.interval.get(at) {
            Some(Some((low, high))) if low < high => {
                format!("{} ({} to {})", number(median), short(*low), short(*high))
            }
            _ => number(median),
        };
        let text = self.median.iter().enumerate().map(one).collect::<Vec<_>>().join(", ");
        if self.seeds > 1 { format!("{text}; with {} of {} seeds", self.held, self.seeds) } else { text }
    }

    /// Returns the section and figure of the paper, as text.
    pub(crate) fn place(&self) -> String {
        let figure = if self.figure.is_empty() { String::new() } else { format!(", {}", self.figure) };
        format!("section {}{figure}", self.section)
    }

    /// Returns the paper's demand with the unit, as text.
    pub(crate) fn demanded_text(&self) -> String {
        format!("{} {}", self.demanded, self.unit).trim_end().to_owned()
    }

    /// Judges a claim by the figures of each seed.
    fn of(claim: &Claim, found: &[Vec<f64>], scale: Scale) -> Self {
        let held = found.iter().filter(|found| claim.holds(found)).count();
        let outcome = match claim.untestable {
            Some(_) => Outcome::NotTestable,
            None if claim.proven && held < found.len() => Outcome::Contradicted,
            None => Outcome::of(held, found.len()),
        };
        let expected = expected(&claim.id, scale).filter(|_| claim.untestable.is_none());
        let (median, interval) = statistics(found);
        Self {
            claim: claim.id.clone(),
            paper: claim.paper.clone(),
            section: claim.section.clone(),
            figure: claim.figure.clone(),
            says: claim.says.clone(),
            kind: claim.kind.clone(),
            demanded: claim.demand.text(),
            unit: claim.unit.clone(),
            value_source: claim.value_source.clone(),
            found: found.iter().map(|found| found.iter().map(|&number| finite(number)).collect()).collect(),
            held,
            seeds: found.len(),
            median,
            interval,
            outcome,
            expected: expected
                .as_ref()
                .map(|expected| expected.outcome)
                .or_else(|| claim.untestable.as_ref().map(|_| outcome)),
            why: expected.as_ref().and_then(|expected| expected.why.clone()).or_else(|| claim.untestable.clone()),
            run: expected.and_then(|expected| expected.run),
        }
    }
}

/// Returns a number if it is finite; documents have no others.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// Medians, figure by figure.
type Medians = Vec<Option<f64>>;
/// Intervals of medians, figure by figure.
type Intervals = Vec<Option<(f64, f64)>>;

/// Returns the median over the seeds, figure by figure, and its interval.
fn statistics(found: &[Vec<f64>]) -> (Medians, Intervals) {
    let figures = found.iter().map(Vec::len).max().unwrap_or(0);
    let of = |figure: usize| Statistic::of(found.iter().filter_map(|found| found.get(figure).copied()).collect());
    let statistics: Vec<Option<Statistic>> = (0..figures).map(of).collect();
    let median = statistics.iter().map(|statistic| statistic.as_ref().and_then(|found| finite(found.median)));
    let interval = statistics.iter().map(|statistic| {
        let interval = statistic.as_ref()?.confidence?;
        Some((finite(interval.low)?, finite(interval.high)?))
    });
    (median.collect(), if found.len() > 1 { interval.collect() } else { Vec::new() })
}

/// Judges the claims of an experiment by its data, a table for each seed.
pub(crate) fn judge(experiment: &dyn Experiment, by_seed: &[Table], scale: Scale) -> Vec<ClaimVerdict> {
    let figures = experiment.figures();
    let of_figure = |figure: &Figure| {
        let claim = claim(figure.claim);
        let found: Vec<Vec<f64>> = by_seed.iter().take(claim.seeds).map(figure.of).collect();
        ClaimVerdict::of(claim, &found, scale)
    };
    let id = experiment.about().id;
    let untestable = claims().iter().filter(|claim| claim.untestable.is_some() && claim.experiment == id);
    let untestable = untestable.filter(|_| !figures.is_empty()).map(|claim| ClaimVerdict::of(claim, &[], scale));
    figures.iter().map(of_figure).chain(untestable).collect()
}

/// Returns the number of seeds with which the harness runs an experiment: the most that a claim asks for,
/// unless its rows contain the seeds.
pub(super) fn seeds(experiment: &dyn Experiment, scale: Scale) -> usize {
    if scale == Scale::Quick || experiment.seed_column().is_some() {
        return 1;
    }
    experiment.figures().iter().map(|figure| claim(figure.claim).seeds).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_have_what_each_seed_gave() {
        let claim = claim("gr3-fig12-heap-8");
        let found: Vec<Vec<f64>> = [8.0, 7.5, 9.0, 8.5, 1.0, 8.1, 8.2, 8.3, f64::INFINITY, 8.4].map(|n| vec![n]).into();
        let verdict = ClaimVerdict::of(claim, &found, Scale::Quick);
        assert_eq!((verdict.held, verdict.seeds, verdict.outcome), (7, 10, Outcome::DependsOnSeed));
        assert_eq!(verdict.found[8], [None]);
        assert!((verdict.median[0].unwrap() - 8.25).abs() < 1e-9);
        assert_eq!(verdict.interval[0], Some((7.5, 9.0)));
        assert_eq!(verdict.found_text(), "8.25 (7.5 to 9); with 7 of 10 seeds");
        let text = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<ClaimVerdict>(&text).unwrap(), verdict);
    }

    #[test]
    fn claims_that_cannot_be_tested_have_no_figures() {
        let verdict = ClaimVerdict::of(claim("gr3-fig12-300ns"), &[], Scale::Full);
        assert_eq!((verdict.outcome, verdict.seeds, verdict.differs()), (Outcome::NotTestable, 0, false));
        assert!(verdict.why.is_some());
    }
}
