//! Plain hashing, live at the traffic that is asked for, before the search.
//!
//! Threads and services were measured in other runs. At the traffic that is asked for they may take a few
//! percent more or less, and where packets come in bursts that decides how long queues get. So one factor
//! scales all times: with it a simulation of plain hashing delays packets as the live runs did. What
//! differs after that says how far the prediction of another policy may be off.

use core::slice;

use serde::Serialize;

use super::candidates::HASHING;
use super::figures::{Measure, MeasuredFigures};
use super::goal::{Bound, Goal};
use super::scope::Scopes;
use super::verify::{figures, live_packets, live_runs};
use super::{RecommendOptions, fixed};
use crate::LabError;
use crate::choice::host::Host;
use crate::config::RunConfig;
use crate::control::Control;
use crate::figures::percent;
use crate::run::simulate;
use crate::statistics::Kind;

/// The ratio between a factor and the next that is tried, and how many are tried on each side of 1.
const STEP: f64 = 1.07;
const STEPS: i32 = 8;
/// The same in the neighbourhood of the best of them.
const FINE: f64 = 1.015;
/// Parts of packets below this are as good as none.
const FEW: f64 = 1e-4;

/// Live runs of plain hashing on the requested traffic, compared with the simulator.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Baseline {
    /// The policy of these runs: plain hashing.
    pub policy: String,
    /// Number of packets of each run.
    pub packets: u64,
    /// Number of live runs.
    pub runs: usize,
    /// Factor by which the measured times of services and threads were multiplied. Above 1: they
    /// take longer than measured.
    pub factor: f64,
    /// Ratio of the machine's speeds in different live runs: the upper quartile of their factors
    /// divided by the lower. It is at least the ratio between their median and 1, the factor of the
    /// earlier measurement.
    pub drift: f64,
    /// Figures that the goal bounds, in its order.
    pub figures: Vec<BaselineFigure>,
}

/// A figure of plain hashing, live and simulated.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineFigure {
    /// Name of the figure, with the service or client in brackets.
    pub figure: String,
    /// Median of the live runs.
    pub live: f64,
    /// Value in each live run, in ascending order. Infinite (in JSON: null) if too many packets were
    /// lost.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Option<f64>>"))]
    pub runs: Vec<f64>,
    /// Ratio between the median of the live runs and the quartile that is farther from it, or its
    /// inverse, minus 1. 0: most runs are equal.
    pub spread: f64,
    /// Value in the simulation, with times multiplied by `factor`.
    pub simulated: f64,
    /// Ratio between `simulated` and `live`, or its inverse, minus 1. 0: they are equal.
    pub error: f64,
}

/// Runs plain hashing live on the traffic that is asked for, and scales the times of services and threads so that its
/// simulation delays packets alike.
///
/// # Errors
/// What keeps a run from starting, and being interrupted.
pub fn baseline(
    options: &mut RecommendOptions,
    control: &mut Control<'_>,
    mut starting: impl FnMut(&str),
) -> Result<Baseline, LabError> {
    let goal = &options.goal;
    let config = RunConfig { policy: HASHING.parse()?, ..fixed(&options.config, goal)? };
    let config = live_packets(config, options.packets, control)?;
    let scopes = Scopes::find(goal, &config, usize::MAX)?;
    starting("live hashing");
    let measured = live_runs(&config, &scopes, control)?;
    starting("hashing");
    let Fit { best: Scaled { factor, figures: simulated }, drift } = Fit::of(&config, &scopes, &measured, control)?;
    options.config.rate = config.rate;
    scale(&mut options.config, factor);
    Ok(Baseline {
        policy: config.policy.to_string(),
        packets: config.packets.unwrap_or_default(),
        runs: measured.len(),
        factor,
        drift,
        figures: goal.bounds.iter().map(|bound| BaselineFigure::of(bound, &measured, &simulated)).collect(),
    })
}

/// Multiplies all times of services and threads.
fn scale(config: &mut RunConfig, factor: f64) {
    for line in config.costs.lines.values_mut() {
        line.fixed_ns *= factor;
        line.per_byte_ns *= factor;
    }
    if let Some(host) = config.assumed.as_mut().and_then(|assumed| assumed.machine.host.as_mut()) {
        host.scale(factor);
    }
}

/// A simulation with all times multiplied.
struct Scaled {
    factor: f64,
    figures: MeasuredFigures,
}

/// What live runs say of the speed of the machine.
struct Fit {
    /// The simulation that is nearest to the median of the runs.
    best: Scaled,
    /// See [`Baseline::drift`].
    drift: f64,
}

impl Fit {
    fn of(
        config: &RunConfig,
        scopes: &Scopes,
        measured: &[MeasuredFigures],
        control: &mut Control<'_>,
    ) -> Result<Self, LabError> {
        let mut simulated = |factor: f64| {
            let mut config = RunConfig { host: Host::Sim, ..config.clone() };
            scale(&mut config, factor);
            let figures = figures(scopes, control, |control| simulate(&config, control))?;
            Ok::<_, LabError>(Scaled { factor, figures })
        };
        // Of equals the first is the nearest to 1.
        let coarse = [1.0].into_iter().chain((1..=STEPS).flat_map(|step| [STEP.powi(step), STEP.powi(-step)]));
        let mut tried = coarse.map(&mut simulated).collect::<Result<Vec<_>, LabError>>()?;
        let of_runs = sorted(measured.iter().map(|run| nearest(&tried, slice::from_ref(run)).factor));
        let drift = drift(&of_runs);
        let about = nearest(&tried, measured).factor;
        let fine = [-2, -1, 1, 2].map(|step| about * FINE.powi(step)).map(simulated);
        tried.extend(fine.into_iter().collect::<Result<Vec<_>, LabError>>()?);
        let Scaled { factor, figures } = nearest(&tried, measured);
        Ok(Self { best: Scaled { factor: *factor, figures: figures.clone() }, drift })
    }
}

/// Returns the drift of runs with these factors, in ascending order.
fn drift(factors: &[f64]) -> f64 {
    let (median, [lower, upper]) = (factors[factors.len() / 2], quartiles(factors));
    (upper / lower).max(median).max(1.0 / median)
}

/// Returns the lower and the upper quartile of values in ascending order. Of fewer than five, these are the least and
/// the greatest.
fn quartiles(values: &[f64]) -> [f64; 2] {
    let last = values.len() - 1;
    [values[last / 4], values[last - last / 4]]
}

/// Returns the simulation that is nearest to the median of live runs.
fn nearest<'a>(tried: &'a [Scaled], measured: &[MeasuredFigures]) -> &'a Scaled {
    let far = |one: &Scaled| distance(&one.figures, measured);
    tried.iter().min_by(|one, other| far(one).total_cmp(&far(other))).expect("something was tried")
}

/// Returns how far the mean delay and p99 of a simulation are from those of the live runs, as a sum of logarithms.
fn distance(simulated: &MeasuredFigures, measured: &[MeasuredFigures]) -> f64 {
    let far = |measure| {
        let of = |figures: &MeasuredFigures| figures.of_delivered(measure).max(1.0);
        (of(simulated) / median(measured.iter().map(of))).ln().abs()
    };
    far(Measure::Mean) + far(Measure::P99)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    values[values.len() / 2]
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

impl BaselineFigure {
    pub(super) fn of(bound: &Bound, measured: &[MeasuredFigures], simulated: &MeasuredFigures) -> Self {
        let figure = &bound.figure;
        let runs = sorted(measured.iter().map(|measured| figure.of(measured)));
        let live = runs[runs.len() / 2];
        let least = least(figure.kind());
        let times = |value: f64| match (value.max(least), live.max(least)) {
            (one, other) if one == other => 0.0,
            (one, other) => (one / other).max(other / one) - 1.0,
        };
        let simulated = figure.of(simulated);
        Self {
            figure: figure.to_string(),
            live,
            spread: quartiles(&runs).map(times).into_iter().fold(0.0, f64::max),
            simulated,
            error: times(simulated),
            runs,
        }
    }

    /// Returns the quartiles that live runs of a policy must be expected to have: those of plain hashing, as many
    /// times as large as the simulated value of the policy is compared with that of plain hashing. `None`: there is
    /// no such ratio, for plain hashing drops too many packets.
    pub(super) fn expected(&self, kind: Kind, policy: f64, hashing: f64) -> Option<[f64; 2]> {
        let least = least(kind);
        let (policy, hashing) = (policy.max(least), hashing.max(least));
        let ratio = if policy == hashing { 1.0 } else { policy / hashing };
        (ratio > 0.0 && !ratio.is_nan()).then(|| quartiles(&self.runs).map(|run| run.max(least) * ratio))
    }
}

/// Returns the least value of a figure that differs from none.
fn least(kind: Kind) -> f64 {
    if kind == Kind::Fraction { FEW } else { 0.0 }
}

impl Baseline {
    /// Says what was measured, and how near the simulation is to it.
    pub fn says(&self) -> String {
        let figure = |figure: &BaselineFigure| {
            format!("{} {} off, live runs {}", figure.figure, percent(figure.error), percent(figure.spread))
        };
        let figures: Vec<String> = self.figures.iter().map(figure).collect();
        format!(
            "`{}` ran live {} times before the search. The machine's speed differed by a factor of {:.3} \
             from run to run, and all times were multiplied by {:.3}; then: {}",
            self.policy,
            self.runs,
            self.drift,
            self.factor,
            figures.join("; ")
        )
    }

    /// Returns the figure that is bounded.
    pub(super) fn figure(&self, goal: &Goal, bound: &Bound) -> Option<&BaselineFigure> {
        let at = goal.bounds.iter().position(|one| one == bound)?;
        self.figures.get(at)
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::choice::assumed::AssumedHost;
    use crate::choice::rate::Rate;
    use crate::costs::{CostLine, DescribedHost, MachineCosts};

    fn p99(ns: f64) -> MeasuredFigures {
        MeasuredFigures { p99_ns: ns, ..MeasuredFigures::default() }
    }

    #[test]
    fn errors_are_times_in_both_directions() {
        let goal: Goal = "p99<1ms,loss<1%".parse().unwrap();
        let live = [p99(100.0), p99(125.0), p99(90.0)];
        let of = |simulated: f64| BaselineFigure::of(&goal.bounds[0], &live, &p99(simulated));
        let figure = of(50.0);
        assert_eq!((figure.live, figure.spread, figure.error), (100.0, 0.25, 1.0));
        assert_eq!(of(200.0).error, 1.0);
        let nine = [50.0, 80.0, 90.0, 95.0, 100.0, 101.0, 110.0, 150.0, f64::INFINITY].map(p99);
        let figure = BaselineFigure::of(&goal.bounds[0], &nine, &p99(100.0));
        assert_eq!(figure.live, 100.0);
        assert!((figure.spread - (1.0 / 0.9 - 1.0)).abs() < 1e-9, "two runs in nine say nothing: {figure:?}");
        let lost = |part| MeasuredFigures { loss: part, ..p99(100.0) };
        let loss = BaselineFigure::of(&goal.bounds[1], &[lost(0.0)], &lost(5e-5));
        assert_eq!((loss.spread, loss.error), (0.0, 0.0), "so few are as good as none");
        let nothing = BaselineFigure::of(&goal.bounds[0], &[p99(f64::INFINITY)], &p99(f64::INFINITY));
        assert_eq!(nothing.error, 0.0);
    }

    #[test]
    fn live_runs_of_hashing_are_scaled_to_another_policy() {
        let goal: Goal = "p99<1ms,loss<1%".parse().unwrap();
        let live = [p99(90.0), p99(100.0), p99(130.0)];
        let of_p99 = BaselineFigure::of(&goal.bounds[0], &live, &p99(50.0));
        let expected = |policy, hashing| of_p99.expected(Kind::Time, policy, hashing);
        assert_eq!(expected(70.0, 70.0), Some([90.0, 130.0]), "the policy is plain hashing");
        assert_eq!(expected(35.0, 70.0), Some([45.0, 65.0]));
        assert_eq!(expected(f64::INFINITY, 70.0), Some([f64::INFINITY; 2]));
        assert_eq!(expected(f64::INFINITY, f64::INFINITY), Some([90.0, 130.0]));
        assert_eq!(expected(35.0, f64::INFINITY), None);
        let none = MeasuredFigures::default();
        let of_loss = BaselineFigure::of(&goal.bounds[1], slice::from_ref(&none), &none);
        assert_eq!(of_loss.expected(Kind::Fraction, 0.05, 0.0), Some([0.05; 2]), "hashing loses nothing, and it does");
        assert_eq!(of_loss.expected(Kind::Fraction, 0.0, 0.0), Some([FEW; 2]));
    }

    #[test]
    fn the_drift_is_that_of_most_runs() {
        assert_eq!(drift(&[1.0, 1.0, 1.25, 1.25, 1.25]), 1.25);
        assert_eq!(drift(&[0.5, 1.0, 1.0, 1.0, 2.0]), 1.0, "one run in five says nothing");
        assert_eq!(drift(&[0.5, 0.5, 0.5]), 2.0, "all are faster than the measurement");
        assert_eq!(drift(&[2.0]), 2.0);
    }

    /// Returns a run of one core, on a host with a dispatcher.
    fn config(input: &str) -> RunConfig {
        let mut config = RunConfig::new(Host::Sim, input, HASHING.parse().unwrap());
        config.cores = 1;
        config.rate = Rate::Load { load: 0.7, of: Some(1) };
        let mut host = DescribedHost { processors: 2, ..DescribedHost::default() };
        (host.times.take_in, host.times.take_back) = (200.0, 100.0);
        let machine = MachineCosts { host: Some(host), ..MachineCosts::default() };
        config.assumed = Some(AssumedHost::measured(machine));
        let line = CostLine { fixed_ns: 1_000.0, ..CostLine::default() };
        config.costs.lines.values_mut().for_each(|known| *known = line.clone());
        config
    }

    /// Slower threads let queues grow, which the fit finds again.
    #[test]
    fn the_factor_is_found_again() {
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
        let mut control = Control::new(&stop, &mut progress);
        let config = live_packets(config("gen:mmpp:packets=20k"), 20_000, &mut control).unwrap();
        let scopes = Scopes::find(&"p99<1ms".parse().unwrap(), &config, usize::MAX).unwrap();
        let mut slower = config.clone();
        scale(&mut slower, 1.2);
        let measured = figures(&scopes, &mut control, |control| simulate(&slower, control)).unwrap();
        let Fit { best, drift } = Fit::of(&config, &scopes, slice::from_ref(&measured), &mut control).unwrap();
        assert!((best.factor / 1.2 - 1.0).abs() < 0.02, "{}", best.factor);
        assert!((best.figures.p99_ns / measured.p99_ns - 1.0).abs() < 0.1, "{:?}", best.figures);
        assert!((drift / 1.2 - 1.0).abs() < 0.05, "{drift}");
    }

    #[test]
    fn hashing_runs_live_and_the_times_are_scaled() {
        let mut options = RecommendOptions {
            config: config("gen:poisson:packets=3k"),
            goal: "p99<1s,loss<50%".parse().unwrap(),
            policies: Vec::new(),
            packets: 2_000,
            budget: None,
            threads: NonZeroUsize::MIN,
            size: false,
            baseline: None,
            elsewhere: None,
        };
        let before = options.config.costs.clone();
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
        let found = baseline(&mut options, &mut Control::new(&stop, &mut progress), |_| ()).unwrap();
        assert_eq!((found.policy.as_str(), found.packets), ("hrw", 2_000));
        assert!((3..=9).contains(&found.runs) && found.drift >= 1.0, "{found:?}");
        let names: Vec<&str> = found.figures.iter().map(|figure| figure.figure.as_str()).collect();
        assert_eq!(names, ["p99", "loss"]);
        assert!(found.figures[0].live > 0.0 && found.figures[0].simulated > 0.0, "{found:?}");
        for (line, was) in options.config.costs.lines.values().zip(before.lines.values()) {
            assert_eq!(line.fixed_ns, was.fixed_ns * found.factor);
        }
        let host = options.config.assumed.unwrap().machine.host.unwrap();
        assert_eq!(host.times.take_in, 200.0 * found.factor);
        assert!(matches!(options.config.rate, Rate::Multiplied(_)), "the load of other costs would be another");
    }
}
