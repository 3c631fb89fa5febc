//! Whether a simulation can say if a goal holds live.
//!
//! A promise that a goal is kept is right within the limit of predictions if the live figure is at most that far beyond
//! its bound; a promise that it is broken, if the live figure is at most that far within. The limit is the aim of a
//! prediction. Where live runs of plain hashing differ more from each other, that is the limit, but at most twice the
//! aim. It is sure beforehand if no live figure that must be expected is beyond the limit.

use humpyard_runtime::processors;

use super::baseline::{Baseline, BaselineFigure};
use super::figures::{Better, Measure, MeasuredFigures};
use super::goal::{Bound, Goal, GoalFigure};
use super::limits::worst;
use super::search::Ranked;
use super::sizing;
use super::trials::{Progress, Trials};
use crate::LabError;
use crate::figures::percent;
use crate::statistics::Kind;
use crate::validate::{AIM_DELAY, AIM_RATE};

/// How many times a part may be smaller or larger than its bound, and be too near to it.
const TIMES: f64 = 2.0;
/// How far predictions may be off, in aims, if they are to be relied on.
const RELIED_ON: f64 = 2.0;

/// How sure it is that a live run keeps or breaks the goal, as a simulation does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Certainty {
    /// Why nobody can be sure beforehand. `None`: it is sure.
    pub(super) not_sure: Option<String>,
    /// Which figure is so near to its bound that a live run may be on the other side, although predictions hold.
    pub(super) close: Option<String>,
}

/// Returns how sure it is that a live run keeps or breaks the goal as the simulations of this policy do. On the ideal
/// host, which is no machine, there is no doubt.
///
/// # Errors
/// What keeps a simulation from being run, and being interrupted.
pub(super) fn certainty(
    trials: &Trials<'_>,
    goal: &Goal,
    policy: &Ranked<'_>,
    baseline: Option<&Baseline>,
    progress: Progress<'_>,
) -> Result<Certainty, LabError> {
    let config = trials.config;
    if config.assumed.is_none() {
        return Ok(Certainty::default());
    }
    if let Some(why) = sizing::doubt(config.assumed.as_ref(), processors().len().max(1), config.cores) {
        return Ok(Certainty { not_sure: Some(why), close: None });
    }
    let drifted = Drifted::simulated(trials, goal, policy, baseline, progress)?;
    let judged = goal.bounds.iter().map(|bound| {
        let known = baseline.and_then(|baseline| baseline.figure(goal, bound));
        (bound, judge(bound, bound.figure.of(&policy.figures), known, &drifted))
    });
    Ok(of_all(&judged.collect::<Vec<_>>(), &policy.figures))
}

/// Returns the certainty of a goal with these bounds.
fn of_all(judged: &[(&Bound, Certainty)], figures: &MeasuredFigures) -> Certainty {
    // A bound that is clearly broken decides, however near another is.
    let is_broken =
        |(bound, judged): &(&Bound, Certainty)| *judged == Certainty::default() && bound.margin_of(figures) < 0.0;
    if judged.iter().any(is_broken) {
        return Certainty::default();
    }
    let first = |of: fn(&Certainty) -> &Option<String>| judged.iter().find_map(|(_, one)| of(one).clone());
    let not_sure = first(|one| &one.not_sure);
    let close = if not_sure.is_some() { None } else { first(|one| &one.close) };
    Certainty { not_sure, close }
}

/// A policy on a machine that is as slow as this one may become, or as fast.
struct Drifted {
    /// Everything takes this many times as long.
    factor: f64,
    /// Why that must be expected.
    why: String,
    /// Figures of simulations in which packets come `factor` times as fast instead.
    figures: MeasuredFigures,
}

impl Drifted {
    /// Simulates a slower machine if the goal is kept, and a faster one if it is broken.
    fn simulated(
        trials: &Trials<'_>,
        goal: &Goal,
        policy: &Ranked<'_>,
        baseline: Option<&Baseline>,
        progress: Progress<'_>,
    ) -> Result<Self, LabError> {
        let off = 1.0 + AIM_RATE;
        let (drift, why) = match baseline {
            Some(Baseline { drift, .. }) if *drift > off => {
                (*drift, format!("the speed of this machine differed by a factor of {drift:.3} from run to run"))
            }
            _ => (off, format!("predictions of rates are off by up to {}", percent(AIM_RATE))),
        };
        let factor = if goal.holds(&policy.figures) { drift } else { 1.0 / drift };
        let figures = worst(trials, policy.policy, (factor, trials.config.cores), "another speed", progress)?;
        Ok(Self { factor, why, figures })
    }

    /// Returns the value of a figure. Where everything takes `factor` times as long, all is as in the simulation, but as
    /// if time passed that much more slowly.
    fn value(&self, figure: &GoalFigure) -> f64 {
        let value = figure.of(&self.figures);
        match figure.kind() {
            Kind::Time => value * self.factor,
            Kind::PacketRate => value / self.factor,
            _ => value,
        }
    }
}

/// How a promise fares with a live run that must be expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fares {
    /// The live run is on the promised side of the bound.
    AsPromised,
    /// It is on the other side, within the limit.
    WithinLimit,
    /// It is farther on the other side.
    Wrong,
}

impl Fares {
    /// Compares uses of a bound: above 1 a figure breaks it.
    fn of(promised: f64, live: f64, limit: f64) -> Self {
        let (is_kept, farther) = (promised <= 1.0, 1.0 + limit);
        if is_kept == (live <= 1.0) {
            Self::AsPromised
        } else if if is_kept { live > farther } else { live * farther < 1.0 } {
            Self::Wrong
        } else {
            Self::WithinLimit
        }
    }
}

/// Returns how many times a value uses what its bound allows.
fn uses(bound: &Bound, value: f64) -> f64 {
    match bound.figure.measure.better() {
        Better::Less => value / bound.value,
        Better::More => bound.value / value,
    }
}

/// Judges a simulated value of a bounded figure. `known` has live runs of it; `None`: nothing was run live, and no live
/// run may be on the other side of the bound.
fn judge(bound: &Bound, value: f64, known: Option<&BaselineFigure>, drifted: &Drifted) -> Certainty {
    let figure = &bound.figure;
    let aim = match figure.kind() {
        Kind::Index => return Certainty::default(),
        Kind::Fraction => TIMES - 1.0,
        _ if figure.measure == Measure::Throughput => AIM_RATE,
        _ => AIM_DELAY,
    };
    let off = known.map_or(aim, |known| known.error.max(known.spread).max(aim));
    let limit = known.map_or(0.0, |known| known.spread.clamp(aim, RELIED_ON * aim));
    let promised = uses(bound, value);
    let farthest = if promised <= 1.0 { promised * (1.0 + off) } else { promised / (1.0 + off) };
    let within = if figure.kind() == Kind::Fraction { format!("a factor of {:.3}", 1.0 + off) } else { percent(off) };
    let shown = |value| super::shown(figure.measure, value);
    let near = format!("the simulated {figure}, {}, is within {within} of its bound", shown(value));
    let elsewhere = drifted.value(figure);
    let slower = format!(
        "the simulated {figure} is {} if everything takes {:.3} times as long",
        shown(elsewhere),
        drifted.factor
    );
    let not_sure = |why: String| Certainty { not_sure: Some(why), close: None };
    let close = |which: String| Certainty { not_sure: None, close: Some(which) };
    match (Fares::of(promised, farthest, limit), Fares::of(promised, uses(bound, elsewhere), limit)) {
        (Fares::Wrong, _) if off.is_infinite() => {
            not_sure(format!("in some live runs of plain hashing {figure} has no end, for packets were dropped"))
        }
        (Fares::Wrong, _) => not_sure(match known {
            None => format!("{near}, and predictions of live runs are no nearer than that"),
            Some(_) => {
                format!("{near}, and so far off are live runs of plain hashing, from each other or from the simulation")
            }
        }),
        (_, Fares::Wrong) => not_sure(format!("{slower}, and {}", drifted.why)),
        (Fares::WithinLimit, _) => close(near),
        (_, Fares::WithinLimit) => close(slower),
        (Fares::AsPromised, Fares::AsPromised) => Certainty::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges the first bound of a goal on a machine that changes nothing but the figure, to this value.
    /// `spread` is that of live runs.
    fn judged_with(goal: &str, value: f64, spread: Option<f64>, drifted: f64) -> (Option<String>, Option<String>) {
        let goal: Goal = goal.parse().unwrap();
        let figures = MeasuredFigures {
            p99_ns: drifted,
            loss: drifted,
            throughput_pps: drifted,
            fairness: drifted,
            ..MeasuredFigures::default()
        };
        let drifted = Drifted { factor: 1.0, why: "it may".to_owned(), figures };
        let known = spread.map(|spread| BaselineFigure { spread, ..predicted() });
        let Certainty { not_sure, close } = judge(&goal.bounds[0], value, known.as_ref(), &drifted);
        (not_sure, close)
    }

    fn judged(goal: &str, value: f64, spread: Option<f64>) -> (Option<String>, Option<String>) {
        judged_with(goal, value, spread, value)
    }

    fn predicted() -> BaselineFigure {
        BaselineFigure { figure: "p99".to_owned(), live: 1.0, spread: 0.0, simulated: 1.0, error: 0.0 }
    }

    #[test]
    fn without_live_runs_a_figure_near_its_bound_is_not_sure() {
        let near = |goal, value| judged(goal, value, None).0;
        assert_eq!(near("p99<100us", 70e3), None);
        assert_eq!(
            near("p99<100us", 81e3).unwrap(),
            "the simulated p99, 81.0 us, is within 25.0 % of its bound, and predictions of live runs are no nearer than that"
        );
        assert!(near("p99<100us", 120e3).is_some() && near("p99<100us", 130e3).is_none());
        assert!(near("throughput>1M", 1.05e6).is_some() && near("throughput>1M", 1.2e6).is_none());
        assert!(near("loss<1%", 0.0).is_none() && near("loss<1%", 0.015).is_some() && near("loss<1%", 0.03).is_none());
        assert!(near("p99<100us", f64::INFINITY).is_none() && near("fairness>0.9", 0.9).is_none());
    }

    /// Within the limit of predictions, 25 to 50 %, a promise is right.
    #[test]
    fn a_machine_of_another_speed_may_break_or_keep_the_goal() {
        let said = |value, drifted| judged_with("p99<100us", value, Some(0.3), drifted);
        assert_eq!(said(70e3, 90e3), (None, None));
        let close = "the simulated p99 is 129 us if everything takes 1.000 times as long".to_owned();
        assert_eq!(said(70e3, 129e3), (None, Some(close)));
        let (not_sure, close) = said(70e3, 140e3);
        assert_eq!(close, None);
        assert_eq!(
            not_sure.unwrap(),
            "the simulated p99 is 140 us if everything takes 1.000 times as long, and it may"
        );
        assert!(said(150e3, 80e3).1.is_some() && said(150e3, 70e3).0.is_some());
        assert!(judged_with("p99<100us", 70e3, None, 101e3).0.is_some(), "nothing ran live");
        assert!(judged_with("throughput>1M", 1.2e6, Some(0.0), 0.95e6).1.is_some());
        assert!(judged_with("throughput>1M", 1.2e6, Some(0.0), 0.9e6).0.is_some());
    }

    #[test]
    fn where_everything_takes_longer_so_do_delays() {
        let figures = MeasuredFigures { p99_ns: 100.0, throughput_pps: 6e5, loss: 0.1, ..MeasuredFigures::default() };
        let slower = Drifted { factor: 1.5, why: String::new(), figures };
        let value = |measure: Measure| slower.value(&measure.into());
        assert_eq!((value(Measure::P99), value(Measure::Throughput), value(Measure::Loss)), (150.0, 4e5, 0.1));
    }

    #[test]
    fn live_runs_say_how_far_predictions_hold() {
        let said = (None, Some("the simulated p99, 90.0 us, is within 25.0 % of its bound".to_owned()));
        assert_eq!(judged("p99<100us", 90e3, Some(0.1)), said, "they hold, and the bound is near");
        assert_eq!(judged("p99<100us", 70e3, Some(0.1)), (None, None), "they hold, and the bound is far");
        let (not_sure, close) = judged("p99<100us", 90e3, Some(0.8));
        assert!(not_sure.unwrap().contains("within 80.0 % of its bound, and so far off are live runs"));
        assert_eq!(close, None);
        assert!(judged("p99<100us", 60e3, Some(0.8)).1.is_some(), "at most 8 % beyond, and the limit is 50 %");
        assert!(judged("p99<100us", 160e3, Some(0.8)).1.is_some(), "at most 11 % within");
        assert!(judged("p99<100us", 110e3, Some(0.8)).0.is_some(), "up to 39 % within");
        assert_eq!(judged("p99<100us", 50e3, Some(0.8)), (None, None), "the bound is farther");
        let said = "in some live runs of plain hashing p99 has no end, for packets were dropped";
        assert_eq!(judged("p99<100us", 1e3, Some(f64::INFINITY)).0.unwrap(), said);
    }

    /// Live runs that differ widen the limit; predictions that are off do not.
    #[test]
    fn a_wrong_prediction_is_no_excuse() {
        let goal: Goal = "p99<100us".parse().unwrap();
        let known = BaselineFigure { error: 0.4, ..predicted() };
        let drifted = Drifted { factor: 1.0, why: String::new(), figures: MeasuredFigures::default() };
        let judged = |value| judge(&goal.bounds[0], value, Some(&known), &drifted);
        assert!(judged(85e3).close.is_some(), "at most 19 % beyond");
        assert!(judged(95e3).not_sure.unwrap().contains("within 40.0 % of its bound"), "up to 33 % beyond");
    }

    #[test]
    fn a_bound_that_is_clearly_broken_decides() {
        let goal: Goal = "p99<100us,loss<1%".parse().unwrap();
        let figures = MeasuredFigures { p99_ns: 99e3, loss: 0.5, ..MeasuredFigures::default() };
        let near = Certainty { not_sure: Some("near".to_owned()), close: None };
        let judged = [(&goal.bounds[0], near.clone()), (&goal.bounds[1], Certainty::default())];
        assert_eq!(of_all(&judged, &figures), Certainty::default());
        assert_eq!(of_all(&judged[..1], &figures), near);
    }
}
