//! What speaks for a choice: how sure it is, and whether it holds with more traffic or other cores.

use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use super::figures::{Measure, MeasuredFigures};
use super::goal::{Goal, GoalFigure};
use super::search::{Found, Ranked, SEEDS};
use super::trials::{Part, Progress, Trial, Trials};
use crate::config::RunConfig;
use crate::parts::several;
use crate::statistics::Statistic;
use crate::{LabError, parts};

/// Times faster than the traffic that was asked for.
const FASTER: [f64; 3] = [1.5, 2.0, 3.0];
/// More cores than were asked for are tried, up to this many times as many.
pub(super) const TIMES_CORES: usize = 8;
/// Most cores of a simulation.
pub(super) const CORES_MAX: usize = 16_384;
/// What the search for enough cores is called while it goes on.
const WHAT: &str = "how many cores would do";

/// Confidence that one policy is better than another. Both ran on the same blocks of the input,
/// which had no part in choosing them, each block with its own seed.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Confidence {
    /// Name of the policy that was best in the search, with its parameters.
    pub policy: String,
    /// Name of the next best policy in the search, with other figures if there is one.
    pub other: String,
    /// Whether `policy` is also the best on the whole input.
    pub is_winner: bool,
    /// Name of the figure by which the two policies are compared.
    pub figure: String,
    /// Number of blocks, which are parts of the input that the search did not use.
    pub blocks: usize,
    /// Number of packets in all blocks.
    pub packets: usize,
    /// Number of blocks in which `policy` kept all bounds of the goal.
    pub policy_holds: usize,
    /// Number of blocks in which `other` kept all bounds of the goal.
    pub other_holds: usize,
    /// By how much the figure of `other` is worse than that of `policy`, over the blocks. Negative:
    /// it is better.
    pub difference: Statistic,
    /// Whether `policy` is the winner, and the confidence interval of `difference` is above 0.
    pub is_clear: bool,
}

/// The figures of a policy with more traffic, or with other cores.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Variation {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// Multiple of the requested traffic. 2: the same packets at twice the rate.
    pub multiplier: f64,
    /// Number of cores.
    pub cores: usize,
    /// Whether the policy keeps all bounds of the goal.
    pub holds: bool,
    /// The least margin of all bounds, as in `finalists`. Negative: a bound is broken.
    pub margin: f64,
    /// Figures of the policy under the first seed.
    pub figures: MeasuredFigures,
    /// Command that simulates these figures. `None`: the policy or the input cannot be given on the
    /// command line, or a larger host was simulated, as in `sizing`.
    pub command: Option<String>,
}

/// A number of cores that is enough for the same traffic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoresNeeded {
    /// The fewest cores found to keep the goal under every seed.
    pub cores: usize,
    /// The policy that keeps the goal with these cores.
    pub policy: String,
    /// Command that simulates these cores under the first seed. `None`: the policy or the input
    /// cannot be given on the command line, or a larger host was simulated, as in `sizing`.
    pub command: Option<String>,
}

/// The figure that tells the winner from another: the objective, the bound that decides, or else p99.
pub(super) fn decisive(goal: &Goal, winner: &MeasuredFigures, other: &MeasuredFigures) -> GoalFigure {
    let differs = |figure: &&GoalFigure| figure.of(winner) != figure.of(other);
    let bound = &goal.tightest(other).figure;
    let objective = goal.objective.as_ref().filter(|_| goal.holds(other));
    let found = objective.filter(differs).or(Some(bound).filter(differs));
    found.cloned().unwrap_or_else(|| Measure::P99.into())
}

/// Runs the best on what was searched, and the next that differs, on the blocks that are held out. `None`: there are no such blocks, or
/// there is no other policy.
pub(super) fn confidence<'a>(
    trials: &Trials<'_>,
    goal: &Goal,
    found: &Found<'a>,
    progress: Progress<'_>,
) -> Result<Option<Confidence>, LabError> {
    let blocks = trials.division.held_out();
    let (policy, Some(other)) = (&found.searched[0], super::runner_up(&found.searched)) else { return Ok(None) };
    let on_blocks = |ranked: &Ranked<'a>| {
        let policy = ranked.policy;
        (0..blocks.len())
            .map(move |block| Trial { seed: block as u64, ..Trial::new(policy, Part::HeldOut(block), trials.config) })
    };
    let both: Vec<Trial<'_>> = on_blocks(policy).chain(on_blocks(other)).collect();
    let figures = trials.run(&both, "blocks held out", progress)?;
    let (ones, others) = figures.split_at(blocks.len());
    let figure = decisive(goal, &policy.figures, &other.figures);
    let worse = |(one, other): (&MeasuredFigures, &MeasuredFigures)| {
        let difference = figure.measure.better().sign() * (figure.of(one) - figure.of(other));
        // Not a number where both are infinite; and no zero with a sign.
        if difference.is_nan() { 0.0 } else { difference + 0.0 }
    };
    let Some(difference) = Statistic::of(ones.iter().zip(others).map(worse).collect()) else { return Ok(None) };
    let holds = |figures: &[MeasuredFigures]| figures.iter().filter(|figures| goal.holds(figures)).count();
    let is_winner = policy.policy == found.ranking[0].policy;
    Ok(Some(Confidence {
        policy: policy.policy.to_string(),
        other: other.policy.to_string(),
        is_winner,
        figure: figure.to_string(),
        blocks: blocks.len(),
        packets: blocks.iter().map(ExactSizeIterator::len).sum(),
        policy_holds: holds(ones),
        other_holds: holds(others),
        is_clear: is_winner && difference.confidence.is_some_and(|interval| interval.low > 0.0),
        difference,
    }))
}

/// Runs these policies with more traffic and with other cores; the traffic first, and all policies for each.
pub(super) fn sensitivity(
    trials: &Trials<'_>,
    goal: &Goal,
    policies: &[&PolicySpec],
    progress: Progress<'_>,
) -> Result<(Vec<Variation>, Vec<Variation>), LabError> {
    let asked = trials.config.cores;
    let places = FASTER.map(|times| (times, asked)).into_iter();
    let places = places.chain(other_cores(trials, asked).into_iter().map(|cores| (1.0, cores)));
    let varied: Vec<Trial<'_>> = places
        .flat_map(|(times, cores)| {
            policies.iter().map(move |policy| Trial { times, cores, ..Trial::whole(policy, trials.config) })
        })
        .collect();
    let figures = trials.run(&varied, "more traffic, other cores", progress)?;
    let mut variations: Vec<Variation> = varied
        .iter()
        .zip(figures)
        .map(|(trial, figures)| Variation {
            policy: trial.policy.to_string(),
            multiplier: trial.times,
            cores: trial.cores,
            holds: goal.holds(&figures),
            margin: goal.margin(&figures),
            figures,
            command: None,
        })
        .collect();
    let cores = variations.split_off(FASTER.len() * policies.len());
    Ok((variations, cores))
}

/// A few numbers of cores around this one that the configuration allows.
fn other_cores(trials: &Trials<'_>, asked: usize) -> Vec<usize> {
    let step = asked.div_ceil(8);
    let around = [asked.saturating_sub(2 * step), asked.saturating_sub(step), asked + step, asked + 2 * step];
    around.into_iter().filter(|&cores| cores > 0 && is_possible(trials, cores)).collect()
}

/// Whether the configuration goes with this many cores: a topology, the speeds of cores, or dispatchers may not.
pub(super) fn is_possible(trials: &Trials<'_>, cores: usize) -> bool {
    let with = RunConfig { cores, ..trials.config.clone() };
    several::refuse(&with).is_ok() && parts::scheduler_config(&with, cores, 1).is_ok()
}

/// The least number of cores, from 1 on or from those that are asked for, with which one of these policies keeps all bounds under all
/// seeds, of the same traffic; none up to eight times as many as are asked for. `holds` says whether those that are asked for will do.
pub(super) fn cores_needed(
    trials: &Trials<'_>,
    goal: &Goal,
    policies: &[&PolicySpec],
    holds: bool,
    progress: Progress<'_>,
) -> Result<Option<CoresNeeded>, LabError> {
    let asked = trials.config.cores;
    let mut with = |cores: usize| -> Result<Option<CoresNeeded>, LabError> {
        if !is_possible(trials, cores) {
            return Ok(None);
        }
        let tried: Vec<Trial<'_>> =
            policies.iter().map(|policy| Trial { cores, ..Trial::whole(policy, trials.config) }).collect();
        let found = trials.run(&tried, WHAT, &mut *progress)?;
        let mut holding: Vec<(Trial<'_>, MeasuredFigures)> =
            tried.into_iter().zip(found).filter(|(_, figures)| goal.holds(figures)).collect();
        holding.sort_by(|(_, one), (_, other)| goal.score(other).cmp(&goal.score(one)));
        for (trial, _) in holding {
            let seeded: Vec<Trial<'_>> = (1..SEEDS).map(|seed| Trial { seed, ..trial }).collect();
            if trials.run(&seeded, WHAT, &mut *progress)?.iter().all(|figures| goal.holds(figures)) {
                return Ok(Some(CoresNeeded { cores, policy: trial.policy.to_string(), command: None }));
            }
        }
        Ok(None)
    };
    let (mut without, mut enough) = if holds {
        (0, CoresNeeded { cores: asked, policy: policies[0].to_string(), command: None })
    } else {
        let most = (asked * TIMES_CORES).min(CORES_MAX);
        let (mut without, mut cores) = (asked, asked);
        loop {
            if cores >= most {
                return Ok(None);
            }
            cores = (cores * 2).min(most);
            match with(cores)? {
                Some(enough) => break (without, enough),
                None => without = cores,
            }
        }
    };
    while enough.cores - without > 1 {
        let middle = without + (enough.cores - without) / 2;
        match with(middle)? {
            Some(fewer) => enough = fewer,
            None => without = middle,
        }
    }
    Ok(Some(enough))
}
