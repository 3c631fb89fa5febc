//! Successive halving: all candidates on a little of the input, the better half on twice as much, and so on; the last few on
//! all of it, under several seeds. On parts of the input those go on, too, who keep the goal but for what chance can do.

use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use super::figures::MeasuredFigures;
use super::goal::{Goal, Score};
use super::trials::{Part, Progress, Trial, Trials};
use crate::LabError;

/// So many candidates come to the end.
pub(super) const FINALISTS: usize = 6;
/// Under so many seeds; the worst of each figure counts, for nobody chooses how flows hash.
pub(super) const SEEDS: u64 = 3;
/// Simulations of the whole input that a search takes, unless told otherwise.
pub const BUDGET: u32 = 48;
/// Fewer packets say too little.
const LEAST_PACKETS: usize = 1000;

/// A round of the search.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Round {
    /// The part of the input that each candidate was tried on.
    pub part: f64,
    /// How many candidates there were.
    pub candidates: usize,
    /// The best of them, by name.
    pub best: String,
}

/// A candidate, and how good it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked<'a> {
    pub(super) policy: &'a PolicySpec,
    /// The worst of all seeds.
    pub(super) figures: MeasuredFigures,
    pub(super) score: Score,
}

/// What a search came to.
#[derive(Clone, Debug)]
pub(super) struct Found<'a> {
    pub(super) rounds: Vec<Round>,
    /// The finalists, the best first.
    pub(super) ranking: Vec<Ranked<'a>>,
}

/// The parts of the input on which the rounds are held, for so many candidates: as much as the budget allows, in simulations of
/// the whole input. Without one it is [`BUDGET`], or the least with which there is a search.
///
/// # Errors
/// A budget that is too small.
pub(super) fn plan(candidates: usize, packets: usize, budget: Option<u32>) -> Result<Vec<f64>, LabError> {
    let mut least = (f64::INFINITY, Vec::new());
    for halvings in 0..=candidates.max(1).ilog2() {
        let parts: Vec<f64> = (0..=halvings).rev().map(|round| 0.5f64.powi(round as i32)).collect();
        if halvings > 0 && packets as f64 * parts[0] < LEAST_PACKETS as f64 {
            break;
        }
        let mut alive = candidates;
        let mut cost = (FINALISTS.min(candidates) as u64 * (SEEDS - 1)) as f64;
        for part in &parts {
            cost += alive as f64 * part;
            alive = kept(alive);
        }
        if cost <= f64::from(budget.unwrap_or(BUDGET)) {
            return Ok(parts);
        }
        if cost < least.0 {
            least = (cost, parts);
        }
    }
    let Some(budget) = budget else { return Ok(least.1) };
    Err(LabError::option(format!(
        "--budget {budget} is too small for {candidates} candidates: give at least {}, or name fewer with --policy",
        least.0.ceil()
    )))
}

/// How many of so many candidates go on.
fn kept(alive: usize) -> usize {
    alive.div_ceil(2).max(FINALISTS).min(alive)
}

/// Searches among these candidates. The first stays to the end, whatever comes of it.
///
/// # Errors
/// A budget that is too small, what keeps a simulation from being run, and being interrupted.
pub(super) fn search<'a>(
    trials: &Trials<'_>,
    goal: &Goal,
    candidates: &'a [PolicySpec],
    budget: Option<u32>,
    progress: Progress<'_>,
) -> Result<Found<'a>, LabError> {
    let parts = plan(candidates.len(), trials.recorded.len(), budget)?;
    let mut alive: Vec<usize> = (0..candidates.len()).collect();
    let mut rounds = Vec::new();
    let mut whole = vec![None; candidates.len()];
    for (round, &part) in parts.iter().enumerate() {
        let what = format!("round {} of {}", round + 1, parts.len());
        let tried: Vec<Trial<'_>> =
            alive.iter().map(|&at| Trial::new(&candidates[at], Part::Sample(part), trials.config)).collect();
        let found = trials.run(&tried, &what, &mut *progress)?;
        let mut scored: Vec<(usize, Score)> = Vec::with_capacity(alive.len());
        for (&at, figures) in alive.iter().zip(&found) {
            scored.push((at, goal.score(figures)));
            whole[at] = Some(*figures);
        }
        // Of equals the earlier candidate is the simpler one.
        scored.sort_by(|(_, one), (_, other)| other.cmp(one));
        rounds.push(Round { part, candidates: alive.len(), best: candidates[scored[0].0].to_string() });
        let last = round + 1 == parts.len();
        let goes_on = if last { FINALISTS.min(alive.len()) } else { kept(alive.len()) };
        let mut going: Vec<usize> = scored.iter().map(|&(at, _)| at).take(goes_on).collect();
        going.push(0);
        if !last {
            // Whoever breaks a bound by chance alone on this part may be the best on all of it.
            let lenient = goal.lenient((trials.recorded.len() as f64 * part) as usize);
            let mut scored: Vec<(usize, Score)> =
                alive.iter().zip(&found).map(|(&at, figures)| (at, lenient.score(figures))).collect();
            scored.sort_by(|(_, one), (_, other)| other.cmp(one));
            going.extend(scored.iter().map(|&(at, _)| at).take(FINALISTS));
        }
        going.sort_unstable();
        going.dedup();
        alive = going;
    }
    let figures: Vec<MeasuredFigures> = alive.iter().filter_map(|&at| whole[at]).collect();
    let finalists: Vec<&PolicySpec> = alive.iter().map(|&at| &candidates[at]).collect();
    Ok(Found { rounds, ranking: rank(trials, goal, &finalists, &figures, progress)? })
}

/// Ranks candidates whose figures are known for the first seed, by the worst of all seeds; the best first.
///
/// # Errors
/// What keeps a simulation from being run, and being interrupted.
pub(super) fn rank<'a>(
    trials: &Trials<'_>,
    goal: &Goal,
    candidates: &[&'a PolicySpec],
    first: &[MeasuredFigures],
    progress: Progress<'_>,
) -> Result<Vec<Ranked<'a>>, LabError> {
    let seeded = candidates
        .iter()
        .flat_map(|policy| (1..SEEDS).map(|seed| Trial { seed, ..Trial::whole(policy, trials.config) }));
    let more = trials.run(&seeded.collect::<Vec<_>>(), "other seeds", progress)?;
    let of_each = more.chunks((SEEDS - 1) as usize);
    let mut ranking: Vec<Ranked<'a>> = candidates
        .iter()
        .zip(first)
        .zip(of_each)
        .map(|((policy, &first), others)| {
            let figures = others.iter().fold(first, |worst, &other| worst.worse(other));
            Ranked { policy, figures, score: goal.score(&figures) }
        })
        .collect();
    ranking.sort_by(|one, other| other.score.cmp(&one.score));
    Ok(ranking)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greater_budget_begins_with_more_of_the_input() {
        let begins = |budget| plan(80, 1_000_000, Some(budget)).expect("enough")[0];
        assert_eq!(begins(1000), 1.0);
        let parts: Vec<f64> = [1000, 90, 70, 50, 40].map(begins).into();
        assert!(parts.is_sorted_by(|one, other| one >= other) && parts[4] < 0.2, "{parts:?}");
        let rounds = plan(80, 1_000_000, Some(45)).expect("enough");
        assert_eq!(rounds.last(), Some(&1.0));
        assert!(rounds.windows(2).all(|pair| pair[1] == 2.0 * pair[0]));
    }

    #[test]
    fn too_small_a_budget_is_told() {
        let said = plan(80, 1_000_000, Some(10)).unwrap_err().to_string();
        let least = said.split("at least ").nth(1).and_then(|rest| rest.split(',').next()).expect("a number");
        assert!(plan(80, 1_000_000, Some(least.parse().expect("a number"))).is_ok(), "{said}");
        // Few packets cannot be divided further.
        assert_eq!(plan(80, 1_500, Some(1000)).expect("enough"), [1.0]);
        assert!(plan(80, 1_500, Some(50)).is_err());
        assert_eq!(plan(80, 1_500, None).expect("some"), [1.0]);
        assert_eq!(plan(1, 10, Some(3)).expect("enough"), [1.0]);
    }
}
