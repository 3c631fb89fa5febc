//! What the search saves, and what it loses by that: held against every candidate run on all of the input under every seed.

use core::sync::atomic::AtomicBool;

use humpyard_policies::spec::PolicySpec;

use super::candidates::{HASHING, fitting, tried};
use super::goal::Goal;
use super::prior;
use super::search::{self, Ranked};
use super::trials::Trials;
use super::{Finalist, RecommendOptions, finalist, fixed};
use crate::LabError;

/// What the search picked, beside the best there is.
#[derive(Clone, PartialEq, Debug)]
pub struct Held {
    /// Candidates.
    pub candidates: usize,
    /// The winner of the search.
    pub pick: Finalist,
    /// The best of all candidates.
    pub best: Finalist,
    /// Plain hashing.
    pub hashing: Option<Finalist>,
    /// By what part the pick is worse than the best.
    pub regret: f64,
    /// What the search took, in inputs.
    pub searched: f64,
    /// What trying everything took.
    pub exhausted: f64,
}

/// Searches, and then tries everything.
///
/// # Errors
/// As [`recommend`](super::recommend).
pub fn hold(options: &RecommendOptions) -> Result<Held, LabError> {
    let RecommendOptions { config, goal, packets, budget, threads, .. } = options;
    let config = &fixed(config, goal)?;
    let (stop, mut progress) = (AtomicBool::new(false), |_: usize, _: usize, _: &str| {});
    let (candidates, _) = fitting(config, &tried(config, &[]))?;
    let mut trials = Trials::read(config, goal, *packets, *threads, &stop)?;
    let likely = prior::likely(config, &trials.recorded, &trials.offered()?.0, &candidates)?;
    let found = search::search(&mut trials, goal, (&candidates, &likely), *budget, &mut progress)?;
    let searched = trials.inputs();
    let everything: Vec<&PolicySpec> = candidates.iter().collect();
    let ranking = search::rank_whole(&trials, goal, &everything, &mut progress)?;
    let hashing = ranking.iter().find(|ranked| ranked.policy.to_string() == HASHING);
    let (pick, best) = (&found.ranking[0], &ranking[0]);
    Ok(Held {
        candidates: candidates.len(),
        pick: finalist(goal, pick),
        best: finalist(goal, best),
        hashing: hashing.map(|hashing| finalist(goal, hashing)),
        regret: regret(goal, pick, best),
        searched,
        exhausted: trials.inputs() - searched,
    })
}

/// By what part the pick is worse than the best: in the objective if both keep all bounds, else in the bound that is broken most,
/// or in what is left of it; 1 where the pick alone breaks one.
fn regret(goal: &Goal, pick: &Ranked<'_>, best: &Ranked<'_>) -> f64 {
    if pick.score == best.score {
        return 0.0;
    }
    let (picked, there) = (goal.margin(&pick.figures), goal.margin(&best.figures));
    match (picked >= 0.0, there >= 0.0, &goal.objective) {
        (false, true, _) => 1.0,
        (true, true, Some(figure)) => {
            let (one, other) = (figure.of(&pick.figures), figure.of(&best.figures));
            if one == other { 0.0 } else { (one - other).abs() / other.abs() }
        }
        (true, ..) => there - picked,
        // Both are beyond the bound; they are compared by how many times.
        _ => (1.0 - picked) / (1.0 - there) - 1.0,
    }
}
