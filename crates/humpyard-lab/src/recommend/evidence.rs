//! What speaks for a choice: how sure it is, and what becomes of it with another load or other cores.

use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use super::figures::{Measure, MeasuredFigures};
use super::goal::Goal;
use super::search::Ranked;
use super::trials::{Part, Progress, Trial, Trials};
use crate::LabError;
use crate::statistics::Statistic;

/// The input is cut into so many blocks, each of which is run by itself and with a seed of its own.
const BLOCKS: usize = 8;
/// A block of fewer packets says too little.
const BLOCK_PACKETS: usize = 250;

/// Parts of the load that was asked for.
const LOADS: [f64; 5] = [0.8, 0.9, 1.1, 1.25, 1.5];
/// Cores beyond those that were asked for are looked for up to so many times as many.
const TIMES_CORES: usize = 8;
/// Most cores of a simulation.
const CORES_MAX: usize = 16_384;

/// How sure it is that one policy is better than another: both had the same blocks of the input, each with its own seed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Confidence {
    /// The figure by which they are told apart.
    pub figure: &'static str,
    /// Blocks.
    pub blocks: usize,
    /// Blocks in which the winner kept all bounds.
    pub winner_holds: usize,
    /// Blocks in which the runner-up did.
    pub runner_up_holds: usize,
    /// By how much the runner-up's figure is worse than the winner's: of each block, their median, and its interval.
    pub difference: Statistic,
    /// Whether the interval lies on one side: the winner's.
    pub is_clear: bool,
}

/// What becomes of a policy under another load, or with other cores.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Variation {
    /// The policy.
    pub policy: String,
    /// The load, as a part of that which was asked for.
    pub load: f64,
    /// Cores.
    pub cores: usize,
    /// Whether all bounds hold.
    pub holds: bool,
    /// The least margin of the bounds.
    pub margin: f64,
    /// The figures, under the first seed.
    pub figures: MeasuredFigures,
}

/// So many cores would do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CoresNeeded {
    /// The least number that was found.
    pub cores: usize,
    /// With this policy.
    pub policy: String,
}

/// The figure by which the winner and another are told apart: the objective, the bound that decides, or else p99.
pub(super) fn decisive(goal: &Goal, winner: &MeasuredFigures, other: &MeasuredFigures) -> Measure {
    let differs = |measure: &Measure| winner.of_measure(*measure) != other.of_measure(*measure);
    let bound = goal.tightest(other).measure;
    let objective = goal.objective.filter(|_| goal.holds(other));
    objective.filter(differs).or(Some(bound).filter(differs)).unwrap_or(Measure::P99)
}

/// Runs both on the blocks of the input; none where it is too short for that.
pub(super) fn confidence(
    trials: &Trials<'_>,
    goal: &Goal,
    winner: &Ranked<'_>,
    other: &Ranked<'_>,
    progress: Progress<'_>,
) -> Result<Option<Confidence>, LabError> {
    let blocks = BLOCKS.min(trials.recorded.len() / BLOCK_PACKETS);
    if blocks < 2 {
        return Ok(None);
    }
    let of = |policy| {
        (0..blocks).map(move |block| Trial {
            seed: block as u64,
            ..Trial::new(policy, Part::Block(block, blocks), trials.config)
        })
    };
    let both: Vec<Trial<'_>> = of(winner.policy).chain(of(other.policy)).collect();
    let figures = trials.run(&both, "blocks", progress)?;
    let (winners, others) = figures.split_at(blocks);
    let measure = decisive(goal, &winner.figures, &other.figures);
    let worse = |(one, other): (&MeasuredFigures, &MeasuredFigures)| {
        let difference = measure.better().sign() * (one.of_measure(measure) - other.of_measure(measure));
        // Not a number where both are infinite; and no zero with a sign.
        if difference.is_nan() { 0.0 } else { difference + 0.0 }
    };
    let Some(difference) = Statistic::of(winners.iter().zip(others).map(worse).collect()) else { return Ok(None) };
    let holds = |figures: &[MeasuredFigures]| figures.iter().filter(|figures| goal.holds(figures)).count();
    Ok(Some(Confidence {
        figure: measure.name(),
        blocks,
        winner_holds: holds(winners),
        runner_up_holds: holds(others),
        is_clear: difference.confidence.is_some_and(|interval| interval.low > 0.0),
        difference,
    }))
}

/// Runs these policies under other loads and with other cores; the loads first, and all policies for each.
pub(super) fn sensitivity(
    trials: &Trials<'_>,
    goal: &Goal,
    policies: &[&PolicySpec],
    progress: Progress<'_>,
) -> Result<(Vec<Variation>, Vec<Variation>), LabError> {
    let asked = trials.config.cores;
    let places = LOADS.map(|load| (load, asked)).into_iter();
    let places = places.chain(other_cores(trials, asked).into_iter().map(|cores| (1.0, cores)));
    let varied: Vec<Trial<'_>> = places
        .flat_map(|(load, cores)| {
            policies.iter().map(move |policy| Trial { load, cores, ..Trial::whole(policy, trials.config) })
        })
        .collect();
    let figures = trials.run(&varied, "other loads and cores", progress)?;
    let mut variations: Vec<Variation> = varied
        .iter()
        .zip(figures)
        .map(|(trial, figures)| Variation {
            policy: trial.policy.to_string(),
            load: trial.load,
            cores: trial.cores,
            holds: goal.holds(&figures),
            margin: goal.margin(&figures),
            figures,
        })
        .collect();
    let cores = variations.split_off(LOADS.len() * policies.len());
    Ok((variations, cores))
}

/// A few numbers of cores around this one that the configuration allows.
fn other_cores(trials: &Trials<'_>, asked: usize) -> Vec<usize> {
    let step = asked.div_ceil(8);
    let around = [asked.saturating_sub(2 * step), asked.saturating_sub(step), asked + step, asked + 2 * step];
    around.into_iter().filter(|&cores| cores > 0 && is_possible(trials, cores)).collect()
}

/// Whether the configuration goes with so many cores: a topology, or the speeds of cores, may not.
fn is_possible(trials: &Trials<'_>, cores: usize) -> bool {
    crate::parts::with_setup(trials.config, cores, 1, |_, _| Ok(())).is_ok()
}

/// The least number of cores, from 1 on or from those that are asked for, with which one of these policies keeps all bounds;
/// none up to eight times as many as are asked for. `holds` says whether those that are asked for will do.
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
        let found = trials.run(&tried, "how many cores would do", &mut *progress)?;
        let scored = policies.iter().zip(&found).filter(|(_, figures)| goal.holds(figures));
        let best = scored.max_by(|(_, one), (_, other)| goal.score(one).cmp(&goal.score(other)));
        Ok(best.map(|(policy, _)| CoresNeeded { cores, policy: policy.to_string() }))
    };
    let (mut without, mut enough) = if holds {
        (0, CoresNeeded { cores: asked, policy: policies[0].to_string() })
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
