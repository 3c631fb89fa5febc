//! Whether a simulation can say if a goal holds live.

use super::baseline::Baseline;
use super::figures::{Measure, MeasuredFigures};
use super::goal::{Bound, Goal};
use super::limits::Limits;
use super::sizing;
use crate::choice::assumed::AssumedHost;
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

/// Returns how sure it is that a live run keeps or breaks the goal as these figures of a simulation do. On the ideal
/// host, which is no machine, there is no doubt. `here` is the number of this machine's processors.
pub(super) fn certainty(
    goal: &Goal,
    (figures, limits): (&MeasuredFigures, &Limits),
    host: Option<&AssumedHost>,
    baseline: Option<&Baseline>,
    here: usize,
    cores: usize,
) -> Certainty {
    if host.is_none() {
        return Certainty::default();
    }
    if let Some(why) = sizing::doubt(host, here, cores) {
        return Certainty { not_sure: Some(why), close: None };
    }
    if let Some(why) = slower(goal.holds(figures), limits, baseline) {
        return Certainty { not_sure: Some(why), close: None };
    }
    let judged = goal.bounds.iter().map(|bound| {
        let known = baseline.map(|baseline| baseline.uncertainty(goal, bound));
        (bound, judge(bound, bound.figure.of(figures), known))
    });
    let judged: Vec<(&Bound, Certainty)> = judged.collect();
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

/// Says that a machine that is a little slower breaks the goal, or that one that is a little faster keeps it. To
/// packets a slower machine is more traffic. `None`: neither.
fn slower(holds: bool, limits: &Limits, baseline: Option<&Baseline>) -> Option<String> {
    let drift = baseline.map_or(1.0, |baseline| baseline.drift).max(1.0 + AIM_RATE);
    let (multiplier, becomes) = match (holds, limits.kept_at, &limits.broken_at) {
        (true, _, Some(broken)) if broken.multiplier <= drift => (broken.multiplier, "broken"),
        (false, Some(kept), _) if kept * drift >= 1.0 => (kept, "kept"),
        _ => return None,
    };
    let why = match baseline {
        Some(baseline) if baseline.drift >= drift => {
            format!("the speed of this machine differed by a factor of {drift:.3} from run to run")
        }
        _ => format!("predictions of rates are off by up to {}", percent(AIM_RATE)),
    };
    Some(format!("the goal is {becomes} at {multiplier:.3} times this traffic, and {why}"))
}

/// Judges a simulated value of a bounded figure. `known` is how far predictions of this figure are off, on this
/// traffic; `None`: nothing was run live.
fn judge(bound: &Bound, value: f64, known: Option<f64>) -> Certainty {
    let figure = &bound.figure;
    let aim = match figure.kind() {
        Kind::Index => return Certainty::default(),
        Kind::Fraction => TIMES - 1.0,
        _ if figure.measure == Measure::Throughput => AIM_RATE,
        _ => AIM_DELAY,
    };
    let off = known.unwrap_or(0.0).max(aim);
    let is_near = value.is_finite() && value * (1.0 + off) >= bound.value && value <= bound.value * (1.0 + off);
    if !is_near {
        return Certainty::default();
    }
    let within = if figure.kind() == Kind::Fraction { format!("a factor of {:.3}", 1.0 + off) } else { percent(off) };
    let said =
        format!("the simulated {figure}, {}, is within {within} of its bound", super::shown(figure.measure, value));
    match known {
        None => Certainty {
            not_sure: Some(format!("{said}, and predictions of live runs are no nearer than that")),
            close: None,
        },
        Some(f64::INFINITY) => Certainty {
            not_sure: Some(format!("in some live runs of plain hashing {figure} has no end, for packets were dropped")),
            close: None,
        },
        Some(known) if known > RELIED_ON * aim => Certainty {
            not_sure: Some(format!(
                "{said}, and so far off are live runs of plain hashing, from each other or from the simulation"
            )),
            close: None,
        },
        Some(_) => Certainty { not_sure: None, close: Some(said) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::BrokenAt;
    use super::*;

    fn judged(goal: &str, value: f64, known: Option<f64>) -> (Option<String>, Option<String>) {
        let goal: Goal = goal.parse().unwrap();
        let Certainty { not_sure, close } = judge(&goal.bounds[0], value, known);
        (not_sure, close)
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

    #[test]
    fn a_machine_that_is_no_faster_tomorrow_may_break_the_goal() {
        let limits = |kept_at, broken_at: Option<f64>| Limits {
            policy: String::new(),
            kept_at,
            broken_at: broken_at.map(|multiplier| BrokenAt { multiplier, by: String::new() }),
            cores: None,
            broken_with_fewer: None,
        };
        let drifting =
            Baseline { policy: String::new(), packets: 0, runs: 3, factor: 1.0, drift: 1.3, figures: Vec::new() };
        let said = "the goal is broken at 1.200 times this traffic, and the speed of this machine differed \
                    by a factor of 1.300 from run to run";
        assert_eq!(slower(true, &limits(Some(1.1), Some(1.2)), Some(&drifting)).unwrap(), said);
        assert_eq!(slower(true, &limits(Some(1.3), Some(1.4)), Some(&drifting)), None);
        assert_eq!(slower(true, &limits(Some(1.1), Some(1.2)), None), None);
        assert_eq!(slower(true, &limits(Some(3.0), None), Some(&drifting)), None);
        let said = "the goal is kept at 0.950 times this traffic, and predictions of rates are off by up to 10.0 %";
        assert_eq!(slower(false, &limits(Some(0.95), Some(1.0)), None).unwrap(), said);
        assert_eq!(slower(false, &limits(Some(0.7), Some(0.75)), Some(&drifting)), None);
        assert_eq!(slower(false, &limits(None, Some(0.25)), Some(&drifting)), None);
    }

    #[test]
    fn live_runs_say_how_far_predictions_hold() {
        let said = (None, Some("the simulated p99, 90.0 us, is within 25.0 % of its bound".to_owned()));
        assert_eq!(judged("p99<100us", 90e3, Some(0.1)), said, "they hold, and the bound is near");
        assert_eq!(judged("p99<100us", 70e3, Some(0.1)), (None, None), "they hold, and the bound is far");
        let (not_sure, close) = judged("p99<100us", 60e3, Some(0.8));
        assert!(not_sure.unwrap().contains("within 80.0 % of its bound, and so far off are live runs"));
        assert_eq!(close, None);
        assert_eq!(judged("p99<100us", 50e3, Some(0.8)), (None, None), "the bound is farther");
        let said = "in some live runs of plain hashing p99 has no end, for packets were dropped";
        assert_eq!(judged("p99<100us", 1e3, Some(f64::INFINITY)).0.unwrap(), said);
    }
}
