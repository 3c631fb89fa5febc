//! How long packets are delayed at more and at less traffic, as figures and as a plot.

use humpyard_plot::{Axis, Line, LinePlot};
use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use super::Measure;
use super::evidence::Variation;
use super::goal::{Goal, GoalFigure};
use super::trials::{Progress, Trial, Trials};
use crate::LabError;
use crate::figures::{percent, time};
use crate::statistics::Kind;

/// Multiples of the traffic at which the delay is drawn.
const MULTIPLIERS: [f64; 8] = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0];

/// The delay of a few policies at multiples of the traffic.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadCurve {
    /// Name of the delay figure: the first that the goal bounds, or else p99.
    pub figure: String,
    /// Bound of the goal on that figure, in ns. `None`: the goal bounds no delay.
    pub bound_ns: Option<f64>,
    /// Points of the curve, by policy and then by multiple of the traffic, in ascending order.
    pub points: Vec<CurvePoint>,
}

/// The delay of a policy at a multiple of the traffic, under the first seed.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// Multiple of the requested traffic. 2: the same packets at twice the rate.
    pub multiplier: f64,
    /// Value of the figure, in ns. Infinite (in JSON: null) if too many packets were lost.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub delay_ns: f64,
    /// Whether the policy keeps all bounds of the goal.
    pub holds: bool,
}

/// Returns the figure of the goal's first bound on a delay, and the bound.
fn figure_of(goal: &Goal) -> (GoalFigure, Option<f64>) {
    let is_delay = |figure: &GoalFigure| figure.kind() == Kind::Time && figure.measure != Measure::Jitter;
    let bound = goal.bounds.iter().find(|bound| is_delay(&bound.figure));
    bound.map_or_else(|| (Measure::P99.into(), None), |bound| (bound.figure.clone(), Some(bound.value)))
}

/// Runs these policies at more and at less traffic. `known` has some of these runs already.
///
/// # Errors
/// What keeps a simulation from being run, and being interrupted.
pub(super) fn curve(
    trials: &Trials<'_>,
    goal: &Goal,
    policies: &[&PolicySpec],
    known: &[Variation],
    progress: Progress<'_>,
) -> Result<LoadCurve, LabError> {
    let (figure, bound_ns) = figure_of(goal);
    let is_known = |times: f64| known.iter().any(|one| one.multiplier == times);
    let runs: Vec<Trial<'_>> = policies
        .iter()
        .flat_map(|policy| {
            let missing = MULTIPLIERS.into_iter().filter(|&times| !is_known(times));
            missing.map(|times| Trial { times, ..Trial::whole(policy, trials.config) })
        })
        .collect();
    let figures = trials.run(&runs, "delay over load", progress)?;
    let run = runs.iter().zip(&figures).map(|(trial, figures)| CurvePoint {
        policy: trial.policy.to_string(),
        multiplier: trial.times,
        delay_ns: figure.of(figures),
        holds: goal.holds(figures),
    });
    let known = known.iter().map(|one| CurvePoint {
        policy: one.policy.clone(),
        multiplier: one.multiplier,
        delay_ns: figure.of(&one.figures),
        holds: one.holds,
    });
    let mut points: Vec<CurvePoint> = run.chain(known).collect();
    let place = |point: &CurvePoint| policies.iter().position(|policy| policy.to_string() == point.policy);
    points.sort_by(|one, other| place(one).cmp(&place(other)).then(one.multiplier.total_cmp(&other.multiplier)));
    Ok(LoadCurve { figure: figure.to_string(), bound_ns, points })
}

impl LoadCurve {
    /// Returns the policies, each once.
    fn policies(&self) -> Vec<&str> {
        let mut policies: Vec<&str> = self.points.iter().map(|point| point.policy.as_str()).collect();
        policies.dedup();
        policies
    }

    /// Draws it. `load` is the part of what the cores can do that the traffic asks for.
    pub fn plot(&self, load: Option<f64>) -> LinePlot {
        let line = |policy: &str| Line {
            name: policy.to_owned(),
            points: self
                .points
                .iter()
                .filter(|point| point.policy == policy && point.delay_ns.is_finite())
                .map(|point| (point.multiplier, point.delay_ns.max(1.0)).into())
                .collect(),
        };
        let mut lines: Vec<Line> = self.policies().into_iter().map(line).collect();
        lines.extend(self.bound_ns.map(|bound| Line {
            name: "goal".to_owned(),
            points: vec![(MULTIPLIERS[0], bound).into(), (MULTIPLIERS[MULTIPLIERS.len() - 1], bound).into()],
        }));
        let of = load.map_or_else(String::new, |load| format!("; 1 is {} of what the cores can do", percent(load)));
        LinePlot {
            title: format!("{} over load", self.figure),
            description: format!(
                "For each policy {} of the same packets, this many times faster, under the first seed. A line ends \
                 where packets are dropped. The table has the numbers.",
                self.figure
            ),
            x: Axis::linear(format!("times the traffic{of}"), |times| format!("{times:.1}")),
            y: Axis::logarithmic(format!("{} (logarithmic)", self.figure), time),
            lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goal_names_the_figure() {
        let figure = |goal: &str| {
            let (figure, bound) = figure_of(&goal.parse().expect("a goal"));
            (figure.to_string(), bound)
        };
        assert_eq!(figure("loss<1%,jitter<1us,p90[dpi]<2us,p99<1ms"), ("p90[dpi]".to_owned(), Some(2e3)));
        assert_eq!(figure("late<1%@2ms"), ("p99".to_owned(), None));
    }

    #[test]
    fn a_line_ends_where_packets_are_dropped() {
        let point = |policy: &str, multiplier, delay_ns| CurvePoint {
            policy: policy.to_owned(),
            multiplier,
            delay_ns,
            holds: true,
        };
        let points = vec![point("drr", 1.0, 10.0), point("drr", 2.0, f64::INFINITY), point("hrw", 1.0, 30.0)];
        let curve = LoadCurve { figure: "p99".to_owned(), bound_ns: Some(20.0), points };
        let plot = curve.plot(Some(0.8));
        let lines: Vec<(&str, usize)> = plot.lines.iter().map(|line| (line.name.as_str(), line.points.len())).collect();
        assert_eq!(lines, [("drr", 1), ("hrw", 1), ("goal", 2)]);
        let drawn = plot.svg().file();
        assert!(drawn.contains("80.0 % of what the cores can do") && drawn.contains("p99 over load"));
        assert!(serde_json::to_string(&curve).expect("JSON").contains("\"delay_ns\":null"));
    }
}
