//! What breaks a goal first: more traffic, or fewer cores.

use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use super::evidence::is_possible;
use super::figures::MeasuredFigures;
use super::goal::Goal;
use super::search::SEEDS;
use super::sizing::fewest;
use super::trials::{Progress, Trial, Trials};
use crate::LabError;

/// Multiples of the traffic among which the limit is looked for.
const MORE: [f64; 3] = [1.5, 2.0, 3.0];
const LESS: [f64; 3] = [0.75, 0.5, 0.25];
/// Halvings of the interval between two of them.
const HALVINGS: usize = 4;
/// What the search is called while it goes on.
const WHAT: &str = "what breaks the goal";

/// The traffic and the cores with which a policy still keeps a goal, under all seeds.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// Greatest multiple of the traffic found to keep the goal. `None`: even a quarter of the
    /// traffic breaks it.
    pub kept_at: Option<f64>,
    /// Least multiple of the traffic found to break the goal. `None`: even three times the traffic
    /// keeps it.
    pub broken_at: Option<BrokenAt>,
    /// The fewest cores found to keep the goal, from 1 to those requested. `None`: those requested
    /// do not keep it.
    pub cores: Option<usize>,
    /// The bound that one core less breaks most, and the value of its figure, as text. `None`:
    /// there cannot be one core less, or `cores` is unknown.
    pub broken_with_fewer: Option<String>,
}

/// Traffic that breaks a goal.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BrokenAt {
    /// Multiple of the requested traffic. 2: the same packets at twice the rate.
    pub multiplier: f64,
    /// The bound that is broken most, and the value of its figure, as text: `p99 5.20 us`.
    pub by: String,
}

/// Returns the bound that is broken most, and the figure.
fn broken_by(goal: &Goal, figures: &MeasuredFigures) -> String {
    let figure = &goal.tightest(figures).figure;
    format!("{figure} {}", figure.shown(figures))
}

/// Simulates a policy with packets that come this many times as fast, on this many cores. Returns the worst of all
/// seeds.
///
/// # Errors
/// What keeps a simulation from being run, and being interrupted.
pub(super) fn worst(
    trials: &Trials<'_>,
    policy: &PolicySpec,
    (times, cores): (f64, usize),
    what: &str,
    progress: Progress<'_>,
) -> Result<MeasuredFigures, LabError> {
    let seeded: Vec<Trial<'_>> =
        (0..SEEDS).map(|seed| Trial { times, cores, seed, ..Trial::whole(policy, trials.config) }).collect();
    let found = trials.run(&seeded, what, progress)?;
    Ok(found.into_iter().reduce(MeasuredFigures::worse).unwrap_or_default())
}

/// Finds how far a policy keeps a goal. `holds` says whether it does as asked for.
///
/// # Errors
/// What keeps a simulation from being run, and being interrupted.
pub(super) fn limits(
    trials: &Trials<'_>,
    goal: &Goal,
    policy: &PolicySpec,
    holds: bool,
    progress: Progress<'_>,
) -> Result<Limits, LabError> {
    let mut worst = |times: f64, cores: usize| worst(trials, policy, (times, cores), WHAT, &mut *progress);
    let asked = trials.config.cores;
    let (kept_at, broken_at) = load_limit(holds, |times| {
        let figures = worst(times, asked)?;
        Ok((!goal.holds(&figures)).then(|| broken_by(goal, &figures)))
    })?;
    let cores = if holds {
        fewest(asked, asked, |cores| Ok(is_possible(trials, cores) && goal.holds(&worst(1.0, cores)?)))?
    } else {
        None
    };
    let fewer = cores.map(|cores| cores - 1).filter(|&fewer| fewer > 0 && is_possible(trials, fewer));
    let broken_with_fewer = fewer.map(|fewer| Ok::<_, LabError>(broken_by(goal, &worst(1.0, fewer)?))).transpose()?;
    Ok(Limits { policy: policy.to_string(), kept_at, broken_at, cores, broken_with_fewer })
}

/// Finds the last multiple of the traffic that keeps a goal, and the first that breaks it. `broken` says by what a
/// multiple breaks it; `holds`, whether the traffic as asked for keeps it.
fn load_limit(
    holds: bool,
    mut broken: impl FnMut(f64) -> Result<Option<String>, LabError>,
) -> Result<(Option<f64>, Option<BrokenAt>), LabError> {
    let mut kept_at = holds.then_some(1.0);
    let mut broken_at = if holds { None } else { broken(1.0)?.map(|by| BrokenAt { multiplier: 1.0, by }) };
    for multiplier in if holds { MORE } else { LESS } {
        match broken(multiplier)? {
            None => kept_at = Some(multiplier),
            Some(by) => broken_at = Some(BrokenAt { multiplier, by }),
        }
        if if holds { broken_at.is_some() } else { kept_at.is_some() } {
            break;
        }
    }
    let mut low = kept_at;
    let mut high = broken_at.as_ref().map(|at| at.multiplier);
    for _ in 0..HALVINGS {
        let (Some(least), Some(most)) = (low, high) else { break };
        let multiplier = f64::midpoint(least, most);
        match broken(multiplier)? {
            None => low = Some(multiplier),
            Some(by) => {
                high = Some(multiplier);
                broken_at = Some(BrokenAt { multiplier, by });
            }
        }
    }
    Ok((low, broken_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(holds: bool, at: f64) -> (Option<f64>, Option<f64>) {
        let broken = |times: f64| Ok((times >= at).then(|| "p99 1 us".to_owned()));
        let (kept_at, broken_at) = load_limit(holds, broken).expect("no failure");
        (kept_at, broken_at.map(|at| at.multiplier))
    }

    #[test]
    fn the_load_that_breaks_a_goal_is_found_between_two() {
        assert_eq!(limit(true, 1.2), (Some(1.1875), Some(1.21875)));
        assert_eq!(limit(true, 2.5), (Some(2.4375), Some(2.5)));
        assert_eq!(limit(true, 4.0), (Some(3.0), None));
        assert_eq!(limit(false, 0.6), (Some(0.59375), Some(0.609375)));
        let (kept, broken) = limit(false, 0.9);
        assert_eq!((kept, broken), (Some(0.890625), Some(0.90625)));
        assert_eq!(limit(false, 0.1), (None, Some(0.25)));
    }
}
