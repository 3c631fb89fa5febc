//! Whether a simulation can say if a goal holds live.
//!
//! A promise that a goal is kept is right within the limit of predictions if the live figure is at most that far beyond
//! its bound; a promise that it is broken, if the live figure is at most that far within. The limit is the aim of a
//! prediction. Where live runs of plain hashing differ more from each other, that is the limit, but at most twice the
//! aim.
//!
//! A promise is about most live runs. Plain hashing ran live before the search, three to nine times, on the same
//! traffic. If these runs fare as promised but for a quarter of them, it is sure; another policy is compared with
//! plain hashing by simulation. If all parts of runs that fare so are equally likely beforehand, and runs are
//! independent, then most runs fare so with a probability of .89 to .98.

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
/// The limit of predictions, in aims, at most.
const LIMIT: f64 = 2.0;

/// How sure it is that a live run keeps or breaks the goal, as a simulation does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Certainty {
    /// Why nobody can be sure beforehand. `None`: it is sure.
    pub(super) not_sure: Option<String>,
    /// Which figure is so near to its bound that a live run may be on the other side, although predictions hold.
    pub(super) close: Option<String>,
}

/// Returns how sure it is that a live run keeps or breaks the goal as the simulations of this policy do. On the ideal
/// host, which is no machine, there is no doubt. Plain hashing is `None` if it was not among the candidates.
///
/// # Errors
/// What keeps a simulation from being run, and being interrupted.
pub(super) fn certainty(
    trials: &Trials<'_>,
    goal: &Goal,
    (policy, hashing): (&Ranked<'_>, Option<&Ranked<'_>>),
    baseline: Option<&Baseline>,
    progress: Progress<'_>,
) -> Result<Certainty, LabError> {
    let config = trials.config;
    if config.assumed.is_none() {
        return Ok(Certainty::default());
    }
    if let Some(why) = sizing::doubt(config, processors().len().max(1), config.cores) {
        return Ok(Certainty { not_sure: Some(why), close: None });
    }
    let is_hashing = hashing.is_some_and(|hashing| hashing.policy == policy.policy);
    let off_speed = if is_hashing && baseline.is_some() {
        None
    } else {
        Some(OffSpeed::simulated(trials, goal, policy, progress)?)
    };
    let judged = goal.bounds.iter().map(|bound| {
        let live = baseline.and_then(|baseline| baseline.figure(goal, bound));
        let of_hashing = hashing.map(|hashing| bound.figure.of(&hashing.figures));
        let live = live.map(|live| LiveRuns { live, of_hashing: of_hashing.unwrap_or(live.simulated) });
        (bound, judge(bound, bound.figure.of(&policy.figures), live, off_speed.as_ref()))
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

/// A policy on a machine that is slower or faster than assumed, as predictions of rates may be off.
struct OffSpeed {
    /// Everything takes this many times as long.
    factor: f64,
    /// Figures of simulations in which packets come `factor` times as fast instead.
    figures: MeasuredFigures,
}

impl OffSpeed {
    /// Simulates a slower machine if the goal is kept, and a faster one if it is broken.
    fn simulated(
        trials: &Trials<'_>,
        goal: &Goal,
        policy: &Ranked<'_>,
        progress: Progress<'_>,
    ) -> Result<Self, LabError> {
        let off = 1.0 + AIM_RATE;
        let factor = if goal.holds(&policy.figures) { off } else { 1.0 / off };
        let figures = worst(trials, policy.policy, (factor, trials.config.cores), "another speed", progress)?;
        Ok(Self { factor, figures })
    }

    /// Returns the value of a figure. Where everything takes `factor` times as long, all is as in the simulation, but
    /// as if time passed that much more slowly.
    fn value(&self, figure: &GoalFigure) -> f64 {
        let value = figure.of(&self.figures);
        match figure.kind() {
            Kind::Time => value * self.factor,
            Kind::PacketRate => value / self.factor,
            _ => value,
        }
    }
}

/// What live runs of plain hashing say of a bounded figure.
#[derive(Clone, Copy)]
struct LiveRuns<'a> {
    live: &'a BaselineFigure,
    /// The simulated value of plain hashing.
    of_hashing: f64,
}

/// How a promise fares with a live run that must be expected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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

/// Judges a simulated value of a bounded figure. Without live runs, no figure that must be expected may be on the other
/// side of the bound.
fn judge(bound: &Bound, value: f64, live: Option<LiveRuns<'_>>, off_speed: Option<&OffSpeed>) -> Certainty {
    let figure = &bound.figure;
    let aim = match figure.kind() {
        Kind::Index => return Certainty::default(),
        Kind::Fraction => TIMES - 1.0,
        _ if figure.measure == Measure::Throughput => AIM_RATE,
        _ => AIM_DELAY,
    };
    let limit = live.map_or(0.0, |of| of.live.spread.clamp(aim, LIMIT * aim));
    let expected = live.and_then(|of| of.live.expected(figure.kind(), value, of.of_hashing));
    let expected_of = expected.unwrap_or([value / (1.0 + aim), value * (1.0 + aim)]);
    let promised = uses(bound, value);
    let fares = |values: &[f64]| values.iter().map(|&value| Fares::of(promised, uses(bound, value), limit)).max();
    let shown = |value| super::shown(figure.measure, value);
    let said = match expected {
        None => {
            let within = if figure.kind() == Kind::Fraction { format!("a factor of {TIMES}") } else { percent(aim) };
            format!(
                "the simulated {figure}, {}, is within {within} of its bound, and predictions of live runs are no \
                 nearer than that",
                shown(value)
            )
        }
        Some([lower, upper]) => {
            let is_upper = (promised <= 1.0) == (figure.measure.better() == Better::Less);
            if is_upper && upper.is_infinite() {
                format!("in some live runs of plain hashing {figure} has no end, for packets were dropped")
            } else {
                let (quartile, than) = if is_upper { (upper, "more") } else { (lower, "less") };
                let quartile = shown(quartile);
                format!("by the live runs of plain hashing, {figure} is {quartile} or {than} in a quarter of the runs")
            }
        }
    };
    let mut reasons = vec![(fares(&expected_of), said)];
    if let Some(off_speed) = off_speed {
        let value = off_speed.value(figure);
        let (value_shown, factor) = (shown(value), off_speed.factor);
        let off = percent(AIM_RATE);
        reasons.push((
            fares(&[value]),
            format!(
                "the simulated {figure} is {value_shown} if everything takes {factor:.3} times as long, and \
                 predictions of rates are off by up to {off}"
            ),
        ));
    }
    let first = |which| reasons.iter().find(|(fares, _)| *fares == Some(which)).map(|(_, said)| said.clone());
    let not_sure = first(Fares::Wrong);
    let close = if not_sure.is_some() { None } else { first(Fares::WithinLimit) };
    Certainty { not_sure, close }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(text: &str) -> Goal {
        text.parse().unwrap()
    }

    /// Judges the first bound of a goal without live runs.
    fn simulated(text: &str, value: f64) -> Certainty {
        judge(&goal(text).bounds[0], value, None, None)
    }

    /// Judges a simulated p99 by live runs of plain hashing, whose simulated p99 this is.
    fn judged(text: &str, value: f64, runs: &[f64], of_hashing: f64) -> Certainty {
        let p99 = |&p99_ns: &f64| MeasuredFigures { p99_ns, ..MeasuredFigures::default() };
        let runs: Vec<MeasuredFigures> = runs.iter().map(p99).collect();
        let live = BaselineFigure::of(&goal(text).bounds[0], &runs, &p99(&of_hashing));
        judge(&goal(text).bounds[0], value, Some(LiveRuns { live: &live, of_hashing }), None)
    }

    const SURE: Certainty = Certainty { not_sure: None, close: None };

    #[test]
    fn without_live_runs_a_figure_near_its_bound_is_not_sure() {
        let near = |text, value| simulated(text, value).not_sure;
        assert_eq!(near("p99<100us", 70e3), None);
        assert_eq!(
            near("p99<100us", 81e3).unwrap(),
            "the simulated p99, 81.0 us, is within 25.0 % of its bound, and predictions of live runs are no nearer \
             than that"
        );
        assert!(near("p99<100us", 120e3).is_some() && near("p99<100us", 130e3).is_none());
        assert!(near("throughput>1M", 1.05e6).is_some() && near("throughput>1M", 1.2e6).is_none());
        assert!(near("loss<1%", 0.0).is_none() && near("loss<1%", 0.015).is_some() && near("loss<1%", 0.03).is_none());
        assert!(near("p99<100us", f64::INFINITY).is_none() && near("fairness>0.9", 0.9).is_none());
    }

    #[test]
    fn most_live_runs_decide() {
        let kept = |runs: &[f64]| judged("p99<100us", 80e3, runs, 80e3);
        assert_eq!(kept(&[80e3, 90e3, 99e3]), SURE);
        assert_eq!(
            kept(&[60e3, 80e3, 110e3]).close.unwrap(),
            "by the live runs of plain hashing, p99 is 110 us or more in a quarter of the runs"
        );
        assert!(kept(&[60e3, 80e3, 160e3]).not_sure.is_some(), "the limit is 50 %");
        let nine = [50e3, 60e3, 70e3, 80e3, 80e3, 81e3, 82e3, 300e3, f64::INFINITY];
        assert_eq!(kept(&nine), SURE, "two runs of nine say nothing");
        let said = "in some live runs of plain hashing p99 has no end, for packets were dropped";
        assert_eq!(kept(&[60e3, 80e3, f64::INFINITY]).not_sure.unwrap(), said);
        let broken = |runs: &[f64]| judged("p99<100us", 120e3, runs, 120e3);
        assert_eq!(broken(&[101e3, 120e3, f64::INFINITY]), SURE);
        assert!(broken(&[81e3, 120e3, 130e3]).close.is_some());
        assert_eq!(
            broken(&[60e3, 120e3, f64::INFINITY]).not_sure.unwrap(),
            "by the live runs of plain hashing, p99 is 60.0 us or less in a quarter of the runs"
        );
    }

    #[test]
    fn another_policy_is_judged_by_its_ratio_to_plain_hashing() {
        let runs = [150e3, 170e3, 190e3];
        assert_eq!(judged("p99<100us", 80e3, &runs, 160e3), SURE, "95 us at most");
        assert!(judged("p99<100us", 95e3, &runs, 160e3).close.is_some(), "113 us");
        assert!(judged("p99<100us", 99e3, &runs, 100e3).not_sure.is_some(), "188 us");
        let dropped = [f64::INFINITY; 3];
        assert_eq!(judged("p99<100us", 50e3, &dropped, f64::INFINITY), SURE, "plain hashing says nothing");
        assert!(judged("p99<100us", 90e3, &dropped, f64::INFINITY).close.is_some());
    }

    #[test]
    fn a_machine_of_another_speed_may_break_or_keep_the_goal() {
        let said = |text: &str, value, elsewhere| {
            let figures =
                MeasuredFigures { p99_ns: elsewhere, throughput_pps: elsewhere, ..MeasuredFigures::default() };
            let off_speed = OffSpeed { factor: 1.0, figures };
            let live = BaselineFigure {
                figure: String::new(),
                live: value,
                runs: vec![value; 3],
                spread: 0.0,
                simulated: value,
                error: 0.0,
            };
            judge(&goal(text).bounds[0], value, Some(LiveRuns { live: &live, of_hashing: value }), Some(&off_speed))
        };
        assert_eq!(said("p99<100us", 70e3, 90e3), SURE);
        assert_eq!(
            said("p99<100us", 70e3, 124e3).close.unwrap(),
            "the simulated p99 is 124 us if everything takes 1.000 times as long, and predictions of rates are off by \
             up to 10.0 %"
        );
        assert!(said("p99<100us", 70e3, 126e3).not_sure.is_some());
        assert!(said("p99<100us", 150e3, 90e3).close.is_some() && said("p99<100us", 150e3, 70e3).not_sure.is_some());
        assert!(said("throughput>1M", 1.2e6, 0.95e6).close.is_some());
        assert!(said("throughput>1M", 1.2e6, 0.9e6).not_sure.is_some());
    }

    #[test]
    fn where_everything_takes_longer_so_do_delays() {
        let figures = MeasuredFigures { p99_ns: 100.0, throughput_pps: 6e5, loss: 0.1, ..MeasuredFigures::default() };
        let slower = OffSpeed { factor: 1.5, figures };
        let value = |measure: Measure| slower.value(&measure.into());
        assert_eq!((value(Measure::P99), value(Measure::Throughput), value(Measure::Loss)), (150.0, 4e5, 0.1));
    }

    #[test]
    fn a_bound_that_is_clearly_broken_decides() {
        let goal = goal("p99<100us,loss<1%");
        let figures = MeasuredFigures { p99_ns: 99e3, loss: 0.5, ..MeasuredFigures::default() };
        let near = Certainty { not_sure: Some("near".to_owned()), close: None };
        let judged = [(&goal.bounds[0], near.clone()), (&goal.bounds[1], SURE)];
        assert_eq!(of_all(&judged, &figures), SURE);
        assert_eq!(of_all(&judged[..1], &figures), near);
    }
}
