//! Successive halving: all candidates on a little of what is searched, the better half on twice as much, and so on; the last few on
//! all of it, under several seeds. Every sample has the peaks of the input, and those go on, too, who keep the goal but for what
//! chance can do, and those with the shortest tails of delay. What is held out of the search has no part in that.

use core::cmp::Ordering;

use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use super::candidates::simplicity;
use super::figures::{Measure, MeasuredFigures};
use super::goal::{Goal, Score};
use super::trials::{Part, Progress, Trial, Trials};
use crate::LabError;

/// The number of candidates that come to the end.
pub(super) const FINALISTS: usize = 6;
/// This many candidates with the shortest tails of delay come to the end with them.
const STEADY: usize = 2;
/// Candidates that a finalist stands for, as the plan has it: they run under all seeds, too.
const ALIKE: usize = 2;
/// Seeds under which each finalist runs. The worst of each figure counts, because nobody chooses how flows hash.
pub(super) const SEEDS: u64 = 3;
/// Simulations of the whole input that a search takes, unless told otherwise.
pub const BUDGET: u32 = 84;
/// Fewer packets say too little.
const LEAST_PACKETS: usize = 1000;
/// Packets for which all candidates are tried on all that is searched, for that takes a second or two.
const ALL_PACKETS: usize = 1_000_000;
/// Candidates whose delays say where the peaks are: plain hashing, which has one where a flow has, and one queue for all, which has one
/// where all flows together do.
const PILOTS: usize = 2;

/// A round of the search.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Round {
    /// Fraction of the packets searched on which each candidate was tried, from 0 to 1. Packets
    /// held out are not searched.
    pub part: f64,
    /// Number of candidates in the round.
    pub candidates: usize,
    /// The best candidate of the round.
    pub best: String,
}

/// A candidate, and how good it is.
#[derive(Clone, Debug)]
pub(super) struct Ranked<'a> {
    pub(super) policy: &'a PolicySpec,
    /// The candidates that decide alike, the simplest first.
    pub(super) same: Vec<&'a PolicySpec>,
    /// The worst of all seeds.
    pub(super) figures: MeasuredFigures,
    pub(super) score: Score,
}

impl<'a> Ranked<'a> {
    /// Ranks a candidate by its figures under each seed. `None`: there are none.
    fn of(goal: &Goal, policy: &'a PolicySpec, figures: Vec<MeasuredFigures>) -> Option<Self> {
        let figures = figures.into_iter().reduce(MeasuredFigures::worse)?;
        let score = goal.score(&figures);
        Some(Self { policy, same: Vec::new(), figures, score })
    }
}

/// What a search came to.
#[derive(Clone, Debug)]
pub(super) struct Found<'a> {
    pub(super) rounds: Vec<Round>,
    /// The finalists by what was searched alone, the best first.
    pub(super) searched: Vec<Ranked<'a>>,
    /// The finalists by all of the input, the best first.
    pub(super) ranking: Vec<Ranked<'a>>,
    /// The worst of each figure, of all candidates.
    pub(super) worst: MeasuredFigures,
}

/// What is searched.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Searched {
    /// Candidates.
    pub(super) candidates: usize,
    /// Packets.
    pub(super) packets: usize,
    /// The part of the input that they are.
    pub(super) part: f64,
}

impl Searched {
    /// What finding peaks takes, and running the finalists under all seeds, in simulations of the whole input.
    fn beside(&self, halvings: u32) -> f64 {
        let finalists = (FINALISTS + STEADY).min(self.candidates) as f64;
        // With each finalist another one that decides alike.
        let seeded = (ALIKE * (FINALISTS + STEADY)).min(self.candidates) as f64;
        let pilots = if halvings > 0 { PILOTS.min(self.candidates) as f64 } else { 0.0 };
        let again = if self.part < 1.0 { SEEDS as f64 } else { 0.0 };
        self.part * (pilots + seeded * (SEEDS - 1) as f64) + finalists * again
    }
}

/// Returns the parts of what is searched on which the rounds are held: as much as the budget allows, in simulations of the whole
/// input. Without one it is [`BUDGET`], or the least with which there is a search; and all of it where that is little.
///
/// # Errors
/// A budget that is too small.
pub(super) fn plan(searched: Searched, budget: Option<u32>) -> Result<Vec<f64>, LabError> {
    let Searched { candidates, packets, part } = searched;
    if budget.is_none() && candidates * packets <= ALL_PACKETS {
        return Ok(vec![1.0]);
    }
    let mut least = (f64::INFINITY, Vec::new());
    for halvings in 0..=candidates.max(1).ilog2() {
        let parts: Vec<f64> = (0..=halvings).rev().map(|round| 0.5f64.powi(round as i32)).collect();
        if halvings > 0 && packets as f64 * parts[0] < LEAST_PACKETS as f64 {
            break;
        }
        let mut alive = candidates;
        let mut cost = searched.beside(halvings);
        for of_round in &parts {
            cost += alive as f64 * of_round * part;
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
        "@budget {budget} is too small for {candidates} candidates: give at least {}, or name fewer with @candidate",
        least.0.ceil()
    )))
}

/// Returns how many of these candidates go on.
fn kept(alive: usize) -> usize {
    alive.div_ceil(2).max(FINALISTS).min(alive)
}

/// Searches among these candidates. The first and the likely ones, given by number, go through all rounds, whatever
/// their results.
///
/// # Errors
/// A budget that is too small, what keeps a simulation from being run, and being interrupted.
pub(super) fn search<'a>(
    trials: &mut Trials<'_>,
    goal: &Goal,
    (candidates, likely): (&'a [PolicySpec], &[usize]),
    budget: Option<u32>,
    progress: Progress<'_>,
) -> Result<Found<'a>, LabError> {
    let packets = trials.division.searched();
    let part = packets as f64 / trials.recorded.len() as f64;
    let parts = plan(Searched { candidates: candidates.len(), packets, part }, budget)?;
    if parts.len() > 1 {
        trials.find_peaks(&candidates[..PILOTS.min(candidates.len())])?;
    }
    let trials: &Trials<'_> = trials;
    let Halved { rounds, last, worst } = halve(trials, goal, (candidates, likely), &parts, &mut *progress)?;
    let searched = finalists(trials, goal, candidates, last, &mut *progress)?;
    let ranking = if trials.division.held_out().is_empty() {
        searched.clone()
    } else {
        let finalists: Vec<&PolicySpec> = searched.iter().map(|ranked| ranked.policy).collect();
        let whole = rank_whole(trials, goal, &finalists, progress)?;
        let same = |ranked: Ranked<'a>| {
            let found = searched.iter().find(|other| other.policy == ranked.policy);
            Ranked { same: found.map_or_else(Vec::new, |found| found.same.clone()), ..ranked }
        };
        whole.into_iter().map(same).collect()
    };
    let worst = ranking.iter().map(|ranked| ranked.figures.clone()).chain(worst).reduce(MeasuredFigures::worse);
    Ok(Found { rounds, searched, ranking, worst: worst.unwrap_or_default() })
}

/// What halving came to.
struct Halved {
    rounds: Vec<Round>,
    /// The candidates of the last round, by number, with their figures on all that is searched.
    last: Vec<(usize, MeasuredFigures)>,
    /// The worst of each figure, of all candidates. `None`: there was no round.
    worst: Option<MeasuredFigures>,
}

/// Tries all candidates on the first part, the better half on the next, and so on.
fn halve(
    trials: &Trials<'_>,
    goal: &Goal,
    (candidates, likely): (&[PolicySpec], &[usize]),
    parts: &[f64],
    progress: Progress<'_>,
) -> Result<Halved, LabError> {
    let mut halved = Halved { rounds: Vec::new(), last: Vec::new(), worst: None };
    let mut alive: Vec<usize> = (0..candidates.len()).collect();
    for (round, &part) in parts.iter().enumerate() {
        let what = format!("round {} of {}", round + 1, parts.len());
        let tried: Vec<Trial<'_>> =
            alive.iter().map(|&at| Trial::new(&candidates[at], Part::Searched(part), trials.config)).collect();
        let found = trials.run(&tried, &what, &mut *progress)?;
        halved.worst = found.iter().cloned().chain(halved.worst.take()).reduce(MeasuredFigures::worse);
        let scored = by_score(goal, &alive, &found);
        halved.rounds.push(Round { part, candidates: alive.len(), best: candidates[scored[0]].to_string() });
        let packets = (trials.division.searched() as f64 * part) as usize;
        let mut going = going_on(goal, &alive, &found, &scored, packets);
        going.extend(likely);
        going.sort_unstable();
        going.dedup();
        halved.last = alive.into_iter().zip(found).collect();
        alive = going;
    }
    Ok(halved)
}

/// Returns those of a round on this many packets that go on to the next, by number; some more than once.
fn going_on(goal: &Goal, alive: &[usize], found: &[MeasuredFigures], scored: &[usize], packets: usize) -> Vec<usize> {
    let mut going: Vec<usize> = scored.iter().copied().take(kept(alive.len())).collect();
    going.push(0);
    // A bound that nobody breaks here may be broken on more of the input, by those first who come nearest to it.
    going.extend(steadiest(alive, found).take(FINALISTS));
    // A candidate that breaks a bound by chance alone on this part may be the best on all of it.
    going.extend(by_score(&goal.lenient(packets), alive, found).into_iter().take(FINALISTS));
    going
}

/// Returns candidates by score, the best first; of equals the earlier, which is the simpler one.
fn by_score(goal: &Goal, alive: &[usize], found: &[MeasuredFigures]) -> Vec<usize> {
    let mut scored: Vec<(usize, Score)> =
        alive.iter().zip(found).map(|(&at, figures)| (at, goal.score(figures))).collect();
    scored.sort_by(|(_, one), (_, other)| other.cmp(one));
    scored.into_iter().map(|(at, _)| at).collect()
}

/// Chooses the finalists among those of the last round, and ranks them by the worst of all seeds on all that is searched. Candidates
/// that have the same figures under every seed decide alike: they are one finalist, the simplest of them.
fn finalists<'a>(
    trials: &Trials<'_>,
    goal: &Goal,
    candidates: &'a [PolicySpec],
    last: Vec<(usize, MeasuredFigures)>,
    progress: Progress<'_>,
) -> Result<Vec<Ranked<'a>>, LabError> {
    let alike = classes(last.into_iter().map(|(at, figures)| (at, vec![figures])), |at| simplicity(&candidates[at]));
    let going = chosen(goal, alike);
    let members: Vec<(usize, MeasuredFigures)> = going
        .into_iter()
        .flat_map(|class| class.members.into_iter().map(move |at| (at, class.figures[0].clone())))
        .collect();
    let (numbers, first): (Vec<usize>, Vec<MeasuredFigures>) = members.into_iter().unzip();
    let policies: Vec<&PolicySpec> = numbers.iter().map(|&at| &candidates[at]).collect();
    let seeds = all_seeds(trials, &policies, (Part::Searched(1.0), first), progress)?;
    let alike = classes(numbers.into_iter().zip(seeds), |at| simplicity(&candidates[at]));
    let ranked = |class: Class| {
        let Class { members, figures } = class;
        let same = members[1..].iter().map(|&at| &candidates[at]).collect();
        Some(Ranked { same, ..Ranked::of(goal, &candidates[members[0]], figures)? })
    };
    let mut ranking: Vec<Ranked<'a>> = chosen(goal, alike).into_iter().filter_map(ranked).collect();
    ranking.sort_by(|one, other| other.score.cmp(&one.score));
    Ok(ranking)
}

/// Candidates with the same figures.
#[derive(Clone, PartialEq, Debug)]
struct Class {
    /// By number, the simplest first.
    members: Vec<usize>,
    /// Their figures, by seed.
    figures: Vec<MeasuredFigures>,
}

impl Class {
    /// Returns the worst of all seeds.
    fn worst(&self) -> MeasuredFigures {
        self.figures.iter().cloned().reduce(MeasuredFigures::worse).unwrap_or_default()
    }
}

/// Puts candidates with the same figures together, the simplest of each first, in the order of these.
fn classes<K: Ord>(
    found: impl Iterator<Item = (usize, Vec<MeasuredFigures>)>,
    simplicity: impl Fn(usize) -> K,
) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for (at, figures) in found {
        match classes.iter_mut().find(|class| class.figures == figures) {
            Some(class) => class.members.push(at),
            None => classes.push(Class { members: vec![at], figures }),
        }
    }
    for class in &mut classes {
        class.members.sort_by_key(|&at| (simplicity(at), at));
    }
    classes.sort_by_key(|class| class.members[0]);
    classes
}

/// Returns the classes that come to the end: the best, that of the first candidate, and those with the shortest tails.
fn chosen(goal: &Goal, classes: Vec<Class>) -> Vec<Class> {
    let worst: Vec<MeasuredFigures> = classes.iter().map(Class::worst).collect();
    let all: Vec<usize> = (0..classes.len()).collect();
    let mut chosen: Vec<usize> = by_score(goal, &all, &worst).into_iter().take(FINALISTS).collect();
    chosen.extend(classes.iter().position(|class| class.members.contains(&0)));
    chosen.extend(steadiest(&all, &worst).take(STEADY));
    let kept = classes.into_iter().enumerate().filter(|(at, _)| chosen.contains(at));
    kept.map(|(_, class)| class).collect()
}

/// Returns candidates by the tails of their delays, the shortest first; of equals the earlier.
fn steadiest<'a>(alive: &'a [usize], found: &[MeasuredFigures]) -> impl Iterator<Item = usize> + use<'a> {
    let tail = |figures: &MeasuredFigures| {
        [Measure::Loss, Measure::P999, Measure::Max, Measure::Mean].map(|measure| figures.of_measure(measure))
    };
    let mut order: Vec<(usize, [f64; 4])> = alive.iter().copied().zip(found.iter().map(tail)).collect();
    order.sort_by(|(_, one), (_, other)| {
        let pairs = one.iter().zip(other).map(|(one, other)| one.total_cmp(other));
        pairs.fold(Ordering::Equal, Ordering::then)
    });
    order.into_iter().map(|(at, _)| at)
}

/// Ranks candidates on all of the input by the worst of all seeds; the best first.
///
/// # Errors
/// What keeps a simulation from being run, and being interrupted.
pub(super) fn rank_whole<'a>(
    trials: &Trials<'_>,
    goal: &Goal,
    candidates: &[&'a PolicySpec],
    progress: Progress<'_>,
) -> Result<Vec<Ranked<'a>>, LabError> {
    let whole: Vec<Trial<'_>> = candidates.iter().map(|policy| Trial::whole(policy, trials.config)).collect();
    let first = trials.run(&whole, "all of the input", &mut *progress)?;
    let seeds = all_seeds(trials, candidates, (Part::Whole, first), progress)?;
    let ranked = candidates.iter().zip(seeds).filter_map(|(policy, figures)| Ranked::of(goal, policy, figures));
    let mut ranking: Vec<Ranked<'a>> = ranked.collect();
    ranking.sort_by(|one, other| other.score.cmp(&one.score));
    Ok(ranking)
}

/// Runs candidates under the other seeds on a part of the input on which their figures under the first seed are known, and returns the
/// figures of each by seed.
fn all_seeds(
    trials: &Trials<'_>,
    candidates: &[&PolicySpec],
    (part, first): (Part, Vec<MeasuredFigures>),
    progress: Progress<'_>,
) -> Result<Vec<Vec<MeasuredFigures>>, LabError> {
    let seeded = candidates
        .iter()
        .flat_map(|policy| (1..SEEDS).map(move |seed| Trial { seed, ..Trial::new(policy, part, trials.config) }));
    let more = trials.run(&seeded.collect::<Vec<_>>(), "other seeds", progress)?;
    let of_each = more.chunks((SEEDS - 1) as usize);
    Ok(first.into_iter().zip(of_each).map(|(first, others)| [&[first], others].concat()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_with_the_same_figures_are_one_finalist() {
        let figures = |p99_ns| MeasuredFigures { p99_ns, ..MeasuredFigures::default() };
        let found = [(4, 7.0, 7.0), (1, 7.0, 7.0), (0, 9.0, 9.0), (2, 7.0, 8.0), (3, 9.0, 9.0)];
        let found = found.map(|(at, one, other)| (at, vec![figures(one), figures(other)]));
        let members = |classes: &[Class]| classes.iter().map(|class| class.members.clone()).collect::<Vec<_>>();
        let all = classes(found.into_iter(), |at| if at == 3 { 0 } else { 1 });
        assert_eq!(members(&all), [vec![1, 4], vec![2], vec![3, 0]]);
        let goal: Goal = "p99<1ms".parse().expect("a goal");
        assert_eq!(members(&chosen(&goal, all.clone())), members(&all));
        let many = (0..20).map(|at| (at, vec![figures(100.0 - at as f64)]));
        let kept = chosen(&goal, classes(many, |_| ()));
        let expected = [0, 1, 14, 15, 16, 17, 18, 19];
        assert_eq!(members(&kept).concat(), expected, "the best, the first, and those with the shortest tails");
    }

    #[test]
    fn the_steadiest_have_the_shortest_tails() {
        let figures = |loss, p999_ns, max_ns| MeasuredFigures { loss, p999_ns, max_ns, ..MeasuredFigures::default() };
        let found = [figures(0.0, 5.0, 9.0), figures(0.1, 1.0, 1.0), figures(0.0, 5.0, 8.0), figures(0.0, 5.0, 9.0)];
        assert_eq!(steadiest(&[4, 6, 7, 8], &found).collect::<Vec<_>>(), [7, 4, 8, 6]);
    }

    fn planned(candidates: usize, packets: usize, budget: Option<u32>) -> Result<Vec<f64>, LabError> {
        plan(Searched { candidates, packets, part: 0.75 }, budget)
    }

    #[test]
    fn a_greater_budget_begins_with_more_of_the_input() {
        let begins = |budget| planned(80, 1_000_000, Some(budget)).expect("enough")[0];
        assert_eq!(begins(1000), 1.0);
        let parts: Vec<f64> = [1000, 92, 82, 72, 67].map(begins).into();
        assert!(parts.is_sorted_by(|one, other| one >= other) && parts[4] < 0.3, "{parts:?}");
        let rounds = planned(80, 1_000_000, Some(72)).expect("enough");
        assert_eq!(rounds.last(), Some(&1.0));
        assert!(rounds.windows(2).all(|pair| pair[1] == 2.0 * pair[0]));
    }

    #[test]
    fn too_small_a_budget_is_told() {
        let said = planned(80, 1_000_000, Some(10)).unwrap_err().to_string();
        let least = said.split("at least ").nth(1).and_then(|rest| rest.split(',').next()).expect("a number");
        assert!(planned(80, 1_000_000, Some(least.parse().expect("a number"))).is_ok(), "{said}");
        // Few packets cannot be divided further.
        assert_eq!(planned(80, 1_500, Some(1000)).expect("enough"), [1.0]);
        assert!(planned(80, 1_500, Some(60)).is_err());
        assert_eq!(planned(1, 10, Some(25)).expect("enough"), [1.0]);
    }

    #[test]
    fn a_short_input_is_searched_whole() {
        assert_eq!(planned(80, ALL_PACKETS / 80, None).expect("some"), [1.0]);
        assert!(planned(80, ALL_PACKETS / 80 + 1, None).expect("some").len() > 1);
        assert!(planned(80, 12_000, Some(82)).expect("enough").len() > 1, "who gives a budget is obeyed");
    }
}
