//! Whether the simulator is true: each policy runs live several times, and the simulator predicts
//! what these runs find.
//!
//! The simulator knows what `sim` knows: the traffic, the costs of services, and the host
//! ([`AssumedHost`]). Nothing of the live runs is in the prediction. Several live runs differ from
//! each other, too: where they differ by more than the aim, their difference is the bound, but at
//! most twice the aim.

mod against;
mod decisions;
mod page;
#[cfg(test)]
mod recorder;
#[cfg(test)]
mod replayed;

use core::time::Duration;

use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::processors;
use serde::Serialize;

pub use against::{Drift, SavedValidation};
use decisions::DecisionRecorder;
pub use decisions::{DecisionsCompared, FirstDifference};

use crate::LabError;
use crate::calibrate::distance::SteadyRuns;
use crate::calibrate::others::Others;
use crate::calibrate::{all_due, measure_on_traffic};
use crate::choice::assumed::{AssumedHost, IDEAL};
use crate::choice::host::Host;
use crate::choice::rate::Rate;
use crate::config::RunConfig;
use crate::control::Control;
use crate::costs::{ServiceCost, cost_key};
use crate::figures::{counted, percent};
use crate::parts::{setup, several};
use crate::result::{RunResult, is_one};
use crate::run::{run_live, simulate};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct ValidateOptions {
    /// The live run; its policy does not count. At a line rate half of what the first policy takes
    /// is offered.
    pub config: RunConfig,
    /// The policies.
    pub policies: Vec<PolicySpec>,
    /// Live runs of each policy, at least 2.
    pub runs: usize,
    /// Whether the costs of services, and the threads of this machine, are measured on the input first,
    /// under each policy.
    pub measures: bool,
    /// A saved validation, with whose live figures those of now are compared. `None`: with none.
    pub against: Option<SavedValidation>,
}

/// One figure, live and predicted. Differences of relative figures are fractions of the live value;
/// those of `loss` are differences of fractions.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// Name of the figure: `throughput`, `utilization`, `p50`, `p99` or `loss`.
    pub figure: &'static str,
    /// Median of the live runs, in packets per second, ns, or as a fraction.
    pub live: f64,
    /// Greatest difference between a live run and `live`, as a fraction of `live`; for `loss`, the
    /// difference itself.
    pub spread: f64,
    /// Median of the simulations, in the unit of `live`. There are as many as live runs, each with
    /// other interruptions.
    pub predicted: f64,
    /// `predicted` minus `live`, as a fraction of `live`; for `loss`, the difference itself.
    pub error: f64,
    /// The error that the simulator aims for at most.
    pub aim: f64,
    /// The error that is accepted at most: `aim` or, if greater, `spread`, up to twice `aim`.
    pub bound: f64,
    /// Whether `error` is within `bound`.
    pub holds: bool,
}

/// One policy, live and predicted.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyValidation {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// Number of packets of one run.
    pub packets: u64,
    /// One entry for each figure that is compared.
    pub figures: Vec<Compared>,
    /// Costs of each service by which the simulator predicts, and their source.
    pub costs: Vec<ServiceCost>,
    /// The host by which the simulator predicts. `None`: the ideal host.
    pub host: Option<AssumedHost>,
    /// Decisions of one more live run, compared with a simulation of the same packets. Left out: there are several
    /// dispatchers, of which each decides by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<DecisionsCompared>,
    /// Number of live runs that were made again, because the processors of this virtual machine were not as far apart
    /// as in the measurement.
    pub repeated: usize,
    /// Number of live runs that count although the processors had moved.
    pub moved: usize,
    /// Where and how the input is damaged; packets before the damage count. Left out: it is not damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// Predicted fraction of the time, from 0 to 1, during which the dispatcher works.
    pub dispatcher_utilization: f64,
}

/// The result of a validation.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Validation {
    /// Source of the packets: a file or a generator.
    pub input: String,
    /// Number of workers. 0: the dispatcher did the work of the services.
    pub workers: usize,
    /// Number of dispatchers. Left out: one.
    #[serde(skip_serializing_if = "is_one")]
    pub dispatchers: usize,
    /// Packets per second that were offered, if the validation chose the rate. `None`: the rate was
    /// given.
    pub offered_pps: Option<f64>,
    /// The rate that was given, as options: `load=0.8`. Left out: the validation chose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Number of live runs of each policy.
    pub runs: usize,
    /// Name of the host by which the simulator predicts.
    pub host: String,
    /// One entry for each policy.
    pub policies: Vec<PolicyValidation>,
    /// Whether the predictions hold, in a sentence.
    pub finding: String,
    /// Figures whose error is beyond its bound, one sentence each.
    pub shortfalls: Vec<String>,
    /// The live figures, compared with those of a saved validation. Left out: there is no saved
    /// validation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drifts: Vec<Drift>,
    /// Threads of several dispatchers that share processors, live figures that have drifted from the saved validation,
    /// and others that used the processors meanwhile, one sentence each. Left out: there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Offered fraction of the capacity, if no rate is given.
const OFFERED: f64 = 0.5;
/// Errors that are aimed for.
pub(crate) const AIM_RATE: f64 = 0.10;
pub(crate) const AIM_DELAY: f64 = 0.25;
const AIM_LOSS: f64 = 0.02;
/// Greatest bound, in aims.
const BOUND_MAX: f64 = 2.0;
/// Measurements with their live runs, at most, of processors that move for good meanwhile.
const ATTEMPTS: usize = 3;
/// Live runs, unless others are asked for.
pub const RUNS: usize = 3;

/// Runs each policy live, and compares it with what the simulator predicts.
///
/// # Errors
/// What keeps a run from starting, an ideal host, and being interrupted.
pub fn validate(
    options: &ValidateOptions,
    control: &mut Control<'_>,
    mut starting: impl FnMut(&str),
) -> Result<Validation, LabError> {
    check(options)?;
    let ValidateOptions { config, policies, runs, measures, against } = options;
    let host = config.assumed.as_ref().map_or(IDEAL, |host| &host.name).to_owned();
    let mut others = Others::begin();
    let mut config = RunConfig { host: Host::Live, ..config.clone() };
    let mut offered_pps = None;
    if let Some(saved) = against {
        offered_pps = saved.rate(config.rate)?;
        config.rate = offered_pps.map_or(config.rate, Rate::PacketsPerSecond);
    }
    if config.rate == Rate::Line {
        starting("capacity");
        let rate = (OFFERED * capacity(&config, &policies[0], control)?).max(1.0).round();
        config.rate = Rate::PacketsPerSecond(rate);
        offered_pps = Some(rate);
    }
    let mut validated = Vec::with_capacity(policies.len());
    others.look();
    for policy in policies {
        starting(&policy.to_string());
        let mut config = RunConfig { policy: policy.clone(), ..config.clone() };
        let runs = (*runs).max(2);
        validated.push(if *measures {
            while_steady(runs, || {
                measure_on_traffic(&mut config, control)?;
                validate_policy(&config, runs, control)
            })?
        } else {
            validate_policy(&config, runs, control)?
        });
        others.look();
    }
    let mut validation = Validation {
        input: config.input_name(),
        workers: config.cores,
        dispatchers: dispatchers(&config),
        offered_pps,
        rate: offered_pps.is_none().then(|| as_options(config.rate)),
        runs: (*runs).max(2),
        host,
        finding: finding(&validated),
        shortfalls: validated.iter().flat_map(shortfalls).collect(),
        policies: validated,
        drifts: Vec::new(),
        warnings: crowded(&config, processors().len()).into_iter().collect(),
    };
    if let Some(saved) = against {
        validation.drifts = saved.drifts(&validation);
        let drifted = warnings(saved, &validation);
        validation.warnings.extend(drifted);
    }
    validation.warnings.extend(others.warnings());
    Ok(validation)
}

/// A rate as the options that ask for it.
fn as_options(rate: Rate) -> String {
    rate.options().into_iter().map(|(option, value)| format!("{option}={value}")).collect::<Vec<_>>().join(",")
}

/// Measures the traffic and validates a policy by this number of live runs, as `attempt` does. If the processors have
/// moved for good meanwhile, does so again, three times at most.
///
/// # Errors
/// That of an attempt.
pub fn while_steady(
    runs: usize,
    mut attempt: impl FnMut() -> Result<PolicyValidation, LabError>,
) -> Result<PolicyValidation, LabError> {
    let mut repeated = 0;
    for _ in 1..ATTEMPTS {
        let validated = attempt()?;
        if validated.moved == 0 {
            return Ok(PolicyValidation { repeated: repeated + validated.repeated, ..validated });
        }
        repeated += validated.repeated + runs;
    }
    let validated = attempt()?;
    Ok(PolicyValidation { repeated: repeated + validated.repeated, ..validated })
}

/// Says what has drifted, and which of the host's times has changed with it.
fn warnings(saved: &SavedValidation, validation: &Validation) -> Vec<String> {
    let drifted = validation.drifts.iter().filter(|drift| drift.has_drifted);
    let with_cause = |drift: &Drift| {
        let policy = validation.policies.iter().find(|policy| policy.policy == drift.policy)?;
        Some(format!("{}; {}", drift.says(), saved.changed_time(policy)?))
    };
    drifted.map(|drift| with_cause(drift).unwrap_or_else(|| drift.says())).collect()
}

/// Rejects what cannot be validated, before anything is measured.
///
/// # Errors
/// An input that can be read once, an ideal host, more workers than processors, options that do not work with several
/// dispatchers, a service without costs, a policy whose live runs have no prediction, and another saved validation.
pub fn check(options: &ValidateOptions) -> Result<(), LabError> {
    let ValidateOptions { config, policies, against, .. } = options;
    check_run(config)?;
    policies.iter().try_for_each(|policy| check_policy(config, policy))?;
    let Some(saved) = against else { return Ok(()) };
    let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
    let services = config.services.iter().map(|choice| cost_key(&choice.work)).collect::<Result<Vec<_>, _>>()?;
    saved.check(&config.input_name(), (config.cores, dispatchers(config)), &services, &names)?;
    saved.rate(config.rate).map(|_| ())
}

/// Rejects runs that cannot be validated under any policy.
fn check_run(config: &RunConfig) -> Result<(), LabError> {
    if config.dispatchers == Some(0) {
        return Err(LabError::option(
            "@dispatchers 0 takes packets from interfaces alone, and validating reads the input several times: use \
             @dispatchers 1 or more",
        ));
    }
    if config.reads_once() {
        return Err(LabError::option(
            "validating reads the input several times, which pipes and interfaces do not allow: use a file",
        ));
    }
    let Some(host) = &config.assumed else {
        return Err(LabError::option(
            "an ideal host is no machine that could run it: use @host here, or a file of `humpyard calibrate @machine`",
        ));
    };
    // Before it is measured, the host is this machine.
    let processors = host.machine.host.as_ref().map_or_else(|| processors().len(), |host| host.processors);
    if config.cores > processors {
        let several = if dispatchers(config) > 1 { "; each of @dispatchers has a worker at least" } else { "" };
        return Err(LabError::option(format!(
            "@workers {}: the host `{host}` has {processors} processors, and more workers have no prediction{several}",
            config.cores
        )));
    }
    let simulated = RunConfig { host: Host::Sim, ..config.clone() };
    several::refuse(config)?;
    several::refuse(&simulated)?;
    setup::costs(&simulated).map(|_| ())
}

/// Returns the number of dispatchers of live runs of a file.
fn dispatchers(config: &RunConfig) -> usize {
    config.dispatchers.unwrap_or(1)
}

/// Says that several dispatchers, the reader and the workers are more than there are processors. The simulator does not
/// include how the kernel divides a processor among threads.
fn crowded(config: &RunConfig, processors: usize) -> Option<String> {
    let dispatchers = dispatchers(config);
    let threads = 1 + dispatchers + config.cores;
    let is_crowded = dispatchers > 1 && threads > processors;
    is_crowded.then(|| {
        format!(
            "a reader, {dispatchers} dispatchers and {} share {} here; the simulator does not include how the kernel \
             divides a processor among threads: for good predictions have at least {threads}",
            counted(config.cores as u64, "worker"),
            counted(processors as u64, "processor")
        )
    })
}

/// Rejects a policy whose live runs have no prediction.
fn check_policy(config: &RunConfig, policy: &PolicySpec) -> Result<(), LabError> {
    if several::has_quantum(&RunConfig { host: Host::Live, policy: policy.clone(), ..config.clone() })? {
        return Err(LabError::option(format!(
            "`{policy}` gives packets back after a quantum, and the simulator has that on an ideal host alone: nothing \
             predicts its live runs"
        )));
    }
    Ok(())
}

/// Packets per second that this machine takes of the input, under this policy, if all of them are due.
///
/// # Errors
/// As [`validate`].
pub fn capacity(config: &RunConfig, policy: &PolicySpec, control: &mut Control<'_>) -> Result<f64, LabError> {
    // A probe may be shorter than a warm-up, in which packets take longer.
    let warm_up = Duration::ZERO;
    let probe = RunConfig { policy: policy.clone(), warm_up, ..all_due(config) };
    let run = SteadyRuns::of(config).run(|| whole(run_live(&probe, control)?))?;
    Ok(run.summary.throughput_pps)
}

/// Runs the policy of this configuration live as often, and compares that with the prediction.
///
/// # Errors
/// As [`validate`].
pub fn validate_policy(
    config: &RunConfig,
    runs: usize,
    control: &mut Control<'_>,
) -> Result<PolicyValidation, LabError> {
    let mut steady = SteadyRuns::of(config);
    let mut run = || whole(run_live(config, control)?);
    let live = (0..runs).map(|_| steady.run(&mut run)).collect::<Result<Vec<RunResult>, LabError>>()?;
    let predicted = predict(config, runs, control)?;
    let first = &predicted[0];
    if first.packets.arrived == 0 {
        return Err(LabError::option(format!("there is no packet in `{}`", config.input_name())));
    }
    let damage = first.damage.as_ref().filter(|damage| damage.is_loss());
    Ok(PolicyValidation {
        policy: config.policy.to_string(),
        packets: first.packets.arrived,
        figures: FIGURES.iter().map(|figure| figure.compare(&live, &predicted)).collect(),
        costs: first.costs.clone(),
        host: config.assumed.clone(),
        decisions: (dispatchers(config) == 1).then(|| compare_decisions(config, control)).transpose()?,
        repeated: steady.repeated(),
        moved: steady.moved(),
        damage: damage.map(|damage| damage.message.clone()),
        dispatcher_utilization: first.assumed.as_ref().map_or(0.0, |assumed| assumed.dispatcher_utilization),
    })
}

/// Packets of which decisions are compared, at most.
const DECIDED: u64 = 200_000;

/// Compares the decisions of a live run and a simulation of the same packets.
fn compare_decisions(config: &RunConfig, control: &mut Control<'_>) -> Result<DecisionsCompared, LabError> {
    let packets = Some(config.packets.unwrap_or(DECIDED).min(DECIDED));
    let mut recorded = |host: Host, run: fn(&RunConfig, &mut Control<'_>) -> Result<RunResult, LabError>| {
        let recorder = DecisionRecorder::default();
        control.observer = Some(Box::new(recorder.clone()));
        let ran = run(&RunConfig { host, packets, ..config.clone() }, control);
        control.observer = None;
        whole(ran?).map(|_| recorder)
    };
    let (live, simulated) = (recorded(Host::Live, run_live)?, recorded(Host::Sim, simulate)?);
    Ok(live.compare(&simulated))
}

/// Simulates this many runs, each with interruptions of its own.
fn predict(config: &RunConfig, runs: usize, control: &mut Control<'_>) -> Result<Vec<RunResult>, LabError> {
    let mut config = RunConfig { host: Host::Sim, ..config.clone() };
    let run = |draw: u64| {
        if let Some(assumed) = &mut config.assumed {
            assumed.draw = draw;
        }
        whole(simulate(&config, control)?)
    };
    (0..runs as u64).map(run).collect()
}

/// A run that was not ended from outside.
fn whole(result: RunResult) -> Result<RunResult, LabError> {
    if result.interrupted {
        return Err(LabError::option("interrupted before there was anything to compare"));
    }
    Ok(result)
}

/// A figure that is compared.
struct ComparedFigure {
    name: &'static str,
    of: fn(&RunResult) -> f64,
    aim: f64,
    /// Whether errors are parts of the live figure; else they are differences.
    is_relative: bool,
}

const FIGURES: [ComparedFigure; 5] = [
    ComparedFigure { name: "throughput", of: |run| run.summary.throughput_pps, aim: AIM_RATE, is_relative: true },
    ComparedFigure { name: "utilization", of: utilization, aim: AIM_RATE, is_relative: true },
    ComparedFigure { name: "p50", of: |run| run.summary.delay_ns.p50 as f64, aim: AIM_DELAY, is_relative: true },
    ComparedFigure { name: "p99", of: |run| run.summary.delay_ns.p99 as f64, aim: AIM_DELAY, is_relative: true },
    ComparedFigure { name: "loss", of: loss, aim: AIM_LOSS, is_relative: false },
];

/// Mean utilization of the cores.
fn utilization(run: &RunResult) -> f64 {
    let cores = &run.summary.cores_detail;
    cores.iter().map(|core| core.utilization).sum::<f64>() / cores.len().max(1) as f64
}

/// Part of the packets that were dropped before their service.
fn loss(run: &RunResult) -> f64 {
    run.packets.dropped.values().sum::<u64>() as f64 / run.packets.arrived.max(1) as f64
}

impl ComparedFigure {
    fn compare(&self, live: &[RunResult], predicted: &[RunResult]) -> Compared {
        let sorted = |runs: &[RunResult]| {
            let mut values: Vec<f64> = runs.iter().map(self.of).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (values, predicted) = (sorted(live), sorted(predicted));
        let median = values[values.len() / 2];
        let differs = |value: f64| match (self.is_relative, median) {
            (false, _) => value - median,
            (true, 0.0) => value,
            (true, _) => value / median - 1.0,
        };
        let spread = values.iter().map(|&value| differs(value).abs()).fold(0.0, f64::max);
        let predicted = predicted[predicted.len() / 2];
        let (error, bound) = (differs(predicted), spread.clamp(self.aim, BOUND_MAX * self.aim));
        Compared {
            figure: self.name,
            live: median,
            spread,
            predicted,
            error,
            aim: self.aim,
            bound,
            holds: error.abs() <= bound,
        }
    }
}

/// Says whether the predictions hold, and which is farthest off.
fn finding(policies: &[PolicyValidation]) -> String {
    let figures: Vec<_> =
        policies.iter().flat_map(|policy| policy.figures.iter().map(move |figure| (policy, figure))).collect();
    let missed: Vec<_> = figures.iter().filter(|(_, figure)| !figure.holds).collect();
    let beyond = |(_, figure): &(_, &Compared)| figure.error.abs() / figure.bound;
    match missed.iter().max_by(|a, b| beyond(a).total_cmp(&beyond(b))) {
        None => format!("The simulator predicts the live runs: all {} figures are within their bounds.", figures.len()),
        Some((policy, figure)) => format!(
            "The simulator misses {} of {} figures. The farthest off is {} under {}: {}, where the bound is {}.",
            missed.len(),
            figures.len(),
            figure.figure,
            policy.policy,
            signed(figure.error),
            percent(figure.bound)
        ),
    }
}

fn shortfalls(policy: &PolicyValidation) -> Vec<String> {
    let missed = policy.figures.iter().filter(|figure| !figure.holds);
    let said = missed.map(|figure| {
        let (error, bound) = (signed(figure.error), percent(figure.bound));
        format!("{}: the prediction of {} is off by {error}, more than {bound}", policy.policy, figure.figure)
    });
    said.collect()
}

/// A part with its sign.
pub fn signed(part: f64) -> String {
    match percent(part.abs()) {
        text if part.abs() < LEAST_SHOWN => text,
        text if part < 0.0 => format!("-{text}"),
        text => format!("+{text}"),
    }
}

/// Less than this has no sign worth showing.
const LEAST_SHOWN: f64 = 1e-4;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn compared(figure: &'static str, error: f64, bound: f64) -> Compared {
        let holds = error.abs() <= bound;
        Compared { figure, live: 1.0, spread: 0.0, predicted: 1.0 + error, error, aim: bound, bound, holds }
    }

    pub(super) fn validated(errors: [f64; 2]) -> PolicyValidation {
        PolicyValidation {
            policy: "drr".to_owned(),
            packets: 1,
            figures: vec![compared("throughput", errors[0], 0.1), compared("p99", errors[1], 0.25)],
            costs: Vec::new(),
            host: None,
            decisions: None,
            repeated: 0,
            moved: 0,
            damage: None,
            dispatcher_utilization: 0.0,
        }
    }

    #[test]
    fn an_attempt_during_which_processors_moved_for_good_is_repeated() {
        let attempts = |moved: [usize; 3]| {
            let mut number = 0;
            let attempt = || {
                number += 1;
                Ok(PolicyValidation { moved: moved[number - 1], repeated: 1, ..validated([0.0, 0.0]) })
            };
            let found = while_steady(3, attempt).unwrap();
            (number, found.moved, found.repeated)
        };
        assert_eq!(attempts([0, 9, 9]), (1, 0, 1));
        assert_eq!(attempts([2, 0, 9]), (2, 0, 5));
        assert_eq!(attempts([2, 1, 3]), (3, 3, 9));
    }

    #[test]
    fn threads_that_share_processors_are_told() {
        let mut config = RunConfig::new(Host::Live, "gen:poisson", "hrw".parse().unwrap());
        config.cores = 4;
        assert_eq!(crowded(&config, 2), None, "the simulator has one dispatcher that shares processors");
        config.dispatchers = Some(2);
        assert_eq!(crowded(&config, 7), None);
        let says = crowded(&config, 6).unwrap();
        let expected = "a reader, 2 dispatchers and 4 workers share 6 processors here; ";
        assert!(says.starts_with(expected) && says.ends_with("have at least 7"), "{says}");
    }

    #[test]
    fn the_finding_names_what_is_farthest_from_its_bound() {
        let holds = "The simulator predicts the live runs: all 4 figures are within their bounds.";
        assert_eq!(finding(&[validated([0.05, 0.2]), validated([0.0, 0.0])]), holds);
        let misses = "The simulator misses 2 of 2 figures. The farthest off is throughput under drr: -40.0 %, where the bound is 10.0 %.";
        assert_eq!(finding(&[validated([-0.4, 0.3])]), misses);
        assert_eq!(
            shortfalls(&validated([0.0, -0.3])),
            ["drr: the prediction of p99 is off by -30.0 %, more than 25.0 %"]
        );
    }
}
