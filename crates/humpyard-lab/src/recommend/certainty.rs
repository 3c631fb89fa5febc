//! Whether a simulation can say if a goal holds live.

use super::figures::{Measure, MeasuredFigures};
use super::goal::{Bound, Goal};
use super::sizing;
use crate::choice::assumed::AssumedHost;
use crate::figures::percent;
use crate::statistics::Kind;
use crate::validate::{AIM_DELAY, AIM_RATE};

/// How many times a part may be smaller or larger than its bound, and be too near to it.
const TIMES: f64 = 2.0;

/// Returns why nobody can be sure beforehand that a live run keeps or breaks the goal as these figures of a
/// simulation do. `None`: the figures are far enough from every bound, or the host is the ideal one, which is no machine.
/// `here` is the number of this machine's processors.
pub(super) fn doubt(
    goal: &Goal,
    figures: &MeasuredFigures,
    host: Option<&AssumedHost>,
    here: usize,
    cores: usize,
) -> Option<String> {
    host?;
    if let Some(why) = sizing::doubt(host, here, cores) {
        return Some(why);
    }
    // A bound that is clearly broken decides, however near another is.
    let is_clear = |bound: &&Bound| near(bound, bound.figure.of(figures)).is_none();
    let is_broken = |bound: &Bound| bound.margin_of(figures) < 0.0;
    if goal.bounds.iter().filter(is_clear).any(is_broken) {
        return None;
    }
    goal.bounds.iter().find_map(|bound| near(bound, bound.figure.of(figures)))
}

/// Says that a simulated value is too near to its bound. `None`: it is not.
fn near(bound: &Bound, value: f64) -> Option<String> {
    let figure = &bound.figure;
    let said = |by: String| {
        Some(format!(
            "the simulated {figure}, {}, is within {by} of its bound, and predictions of live runs are no nearer than that",
            super::shown(figure.measure, value)
        ))
    };
    let within = |part: f64| (value / bound.value - 1.0).abs() <= part;
    match figure.kind() {
        _ if !value.is_finite() => None,
        Kind::Index => None,
        Kind::Fraction => (value >= bound.value / TIMES && value <= bound.value * TIMES)
            .then(|| said(format!("a factor of {TIMES}")))
            .flatten(),
        _ if figure.measure == Measure::Throughput => within(AIM_RATE).then(|| said(percent(AIM_RATE))).flatten(),
        _ => within(AIM_DELAY).then(|| said(percent(AIM_DELAY))).flatten(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(goal: &str, value: f64) -> Option<String> {
        let goal: Goal = goal.parse().unwrap();
        super::near(&goal.bounds[0], value)
    }

    #[test]
    fn a_figure_near_its_bound_is_not_sure() {
        assert_eq!(near("p99<100us", 70e3), None);
        assert_eq!(
            near("p99<100us", 80e3).unwrap(),
            "the simulated p99, 80.0 us, is within 25.0 % of its bound, and predictions of live runs are no nearer than that"
        );
        assert!(near("p99<100us", 120e3).is_some() && near("p99<100us", 130e3).is_none());
        assert!(near("throughput>1M", 1.05e6).is_some() && near("throughput>1M", 1.2e6).is_none());
        assert!(near("loss<1%", 0.0).is_none() && near("loss<1%", 0.015).is_some() && near("loss<1%", 0.03).is_none());
        assert!(near("p99<100us", f64::INFINITY).is_none() && near("fairness>0.9", 0.9).is_none());
    }
}
