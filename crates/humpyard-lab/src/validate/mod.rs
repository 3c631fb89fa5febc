//! Whether the simulator is true: a policy runs live, what was measured of it is given to the simulator, and the two are compared.
//!
//! The simulator hears of two things alone: when each packet reached the scheduler, and what it took. Once as it was measured, packet
//! by packet, so that every difference is the model's; once by a straight line for each service, as `sim` has it, with interruptions drawn
//! from those that were measured, so that what is different then is theirs.

mod fit;
mod page;
mod recorder;

use core::time::Duration;

use humpyard_core::unit::Time;
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::{Disturbance, Interrupted, Work};
use humpyard_traffic::pace::{Pace, Pacer};
use serde::Serialize;

use crate::LabError;
use crate::choice::host::Host;
use crate::choice::rate::Rate;
use crate::config::RunConfig;
use crate::control::Control;
use crate::costs::ServiceCost;
use crate::figures::{counted, percent, time};
use crate::parts::setup;
use crate::recorded::Recorded;
use crate::result::RunResult;
use crate::run::{Feed, run_live, simulated};
use recorder::{Record, Recorder};

pub use recorder::Observed;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct ValidateOptions {
    /// The live run; its policy does not count. At a line rate half of what the first policy takes is offered.
    pub config: RunConfig,
    /// The policies.
    pub policies: Vec<PolicySpec>,
    /// Whether the line is that of the configuration's costs; else the one through what the live run took.
    pub by_costs: bool,
}

/// How far a figure of the simulator is from the live one.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Compared {
    /// The figure.
    pub figure: &'static str,
    /// Live.
    pub live: f64,
    /// In the simulator, each packet as it was measured.
    pub replayed: f64,
    /// By what part that differs; of the order by how much.
    pub replayed_error: f64,
    /// In the simulator, each packet by the line of its service.
    pub by_line: f64,
    /// By what part that differs.
    pub by_line_error: f64,
    /// The error that is aimed for. `None`: no error is.
    pub aim: Option<f64>,
    /// Whether the replayed figure keeps it.
    pub holds: bool,
}

/// One policy, live and simulated.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PolicyValidation {
    /// The policy.
    pub policy: String,
    /// Packets that were served live.
    pub packets: u64,
    /// The figures.
    pub figures: Vec<Compared>,
    /// The line of each service.
    pub line: Vec<ServiceCost>,
    /// From when a packet came to an idle core until that began, live: median, in ns.
    pub hand_over_ns: u64,
    /// The part of the time of cores at work that interruptions take by line.
    pub taken_part: f64,
    /// What the model does not have, with what was measured of it.
    pub lacking: Vec<String>,
}

/// What came of a validation.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Validation {
    /// The input.
    pub input: String,
    /// Workers; 0: the dispatcher did the work.
    pub workers: usize,
    /// Packets per second that were offered, where the rate was found.
    pub offered_pps: Option<f64>,
    /// By policy.
    pub policies: Vec<PolicyValidation>,
    /// Whether the simulator agrees with the live runs, in a sentence.
    pub finding: String,
    /// Figures outside their aims, a sentence each.
    pub shortfalls: Vec<String>,
}

/// So much of what the machine takes at most is offered, where no rate is given.
const OFFERED: f64 = 0.5;
/// More packets than this are not kept in memory.
const PACKETS_MAX: u64 = 4_000_000;
/// Errors that are aimed for.
const AIM_RATE: f64 = 0.10;
const AIM_DELAY: f64 = 0.25;

/// Runs each policy live and in the simulator.
///
/// # Errors
/// What keeps a run from starting, an input that is too long to be kept, and being interrupted.
pub fn validate(
    options: &ValidateOptions,
    control: &mut Control<'_>,
    mut starting: impl FnMut(&str),
) -> Result<Validation, LabError> {
    let ValidateOptions { config, policies, by_costs } = options;
    if config.reads_once() {
        return Err(LabError::option(
            "validating reads the input several times, which pipes and interfaces do not allow: use a file",
        ));
    }
    if *by_costs {
        // Reports what the simulator will miss before anything runs.
        setup::costs(&RunConfig { host: Host::Sim, ..config.clone() })?;
    }
    let recorded = Recorded::read(config, PACKETS_MAX, control)?;
    if !recorded.is_whole {
        return Err(LabError::option(format!(
            "the input has more than {PACKETS_MAX} packets, which are kept in memory: `humpyard trace cut` makes a shorter one"
        )));
    }
    let mut config = RunConfig { host: Host::Live, ..config.clone() };
    if !by_costs && !matches!(config.rate, Rate::Load { .. }) {
        // Estimates, by which policies go.
        config.costs = config.costs.with_estimates(config.services.iter().map(|choice| &choice.work))?;
    }
    let mut offered_pps = None;
    if config.rate == Rate::Line {
        starting("capacity");
        let probe = RunConfig { policy: policies[0].clone(), ..config.clone() };
        let rate = (OFFERED * whole(run_live(&probe, control)?)?.summary.throughput_pps).max(1.0).round();
        config.rate = Rate::PacketsPerSecond(rate);
        offered_pps = Some(rate);
    }
    let mut validated = Vec::with_capacity(policies.len());
    for policy in policies {
        starting(&policy.to_string());
        let config = RunConfig { policy: policy.clone(), ..config.clone() };
        validated.push(validate_policy(&config, &recorded, *by_costs, control)?);
    }
    Ok(Validation {
        input: config.input_name(),
        workers: config.cores,
        offered_pps,
        finding: finding(&validated),
        shortfalls: validated.iter().flat_map(shortfalls).collect(),
        policies: validated,
    })
}

fn validate_policy(
    config: &RunConfig,
    recorded: &Recorded,
    by_costs: bool,
    control: &mut Control<'_>,
) -> Result<PolicyValidation, LabError> {
    let recorder = Recorder::new(config.cores, recorded.len());
    control.observer = Some(Box::new(recorder.clone()));
    let ran = run_live(config, control);
    control.observer = None;
    let result = whole(ran?)?;
    let record = recorder.record();
    let live = record.observed(result.summary.order.fraction);
    let reached: Vec<Time> = record.reached.iter().flatten().copied().collect();
    let accepted = recorded.arriving(&record.reached);
    let hand_over = fit::hand_over(&record);
    let sim = RunConfig {
        host: Host::Sim,
        cores: config.cores.max(1),
        rate: Rate::Trace,
        // So that packets are handed ahead as live.
        hand_over: Some(Duration::ZERO),
        // Packets that were dropped are not played; the others have room.
        buffer: config.buffer.max(reached.len()).min(config.flows - 1),
        ..config.clone()
    };
    let replayed = simulate(&sim, &accepted, Work::default().with_measured(Some(record.work.clone())), control)?;
    let costs = if by_costs { config.costs.clone() } else { fit::costs(config, &record)? };
    let lined = RunConfig { costs, ..sim.clone() };
    let disturbance = match &config.costs.machine {
        _ if !by_costs => fit::disturbance(&record, &fit::lines(&lined)?, hand_over, sim.cores),
        Some(machine) => machine.disturbance().unwrap_or_default(),
        None => Disturbance::default(),
    };
    let interrupted = Some(Interrupted::new(sim.cores, &disturbance, sim.seed));
    let by_line =
        simulate(&lined, &accepted, Work::default().with_hand_over(hand_over).with_interrupted(interrupted), control)?;
    Ok(PolicyValidation {
        policy: config.policy.to_string(),
        packets: result.packets.processed,
        figures: compared(&live, &replayed, &by_line),
        line: setup::service_costs(&lined)?,
        hand_over_ns: hand_over.as_ns(),
        taken_part: disturbance.at_work.part(),
        lacking: lacking(&result, &record, &live),
    })
}

/// Simulates what arrived; the figures, measured as live.
fn simulate(
    config: &RunConfig,
    accepted: &Recorded,
    work: Work,
    control: &mut Control<'_>,
) -> Result<Observed, LabError> {
    let recorder = Recorder::new(config.cores, accepted.len());
    control.observer = Some(Box::new(recorder.clone()));
    let ran = simulated(config, control, |_| {
        let pacer = Pacer::new(Pace::Trace).with_long_gaps();
        Ok(Feed { pacer, source: Box::new(accepted.whole()), work })
    });
    control.observer = None;
    let result = whole(ran?)?;
    let observed = recorder.record().observed(result.summary.order.fraction);
    Ok(observed)
}

/// A run that was not ended from outside.
fn whole(result: RunResult) -> Result<RunResult, LabError> {
    if result.interrupted {
        return Err(LabError::option("interrupted before there was anything to compare"));
    }
    Ok(result)
}

fn compared(live: &Observed, replayed: &Observed, by_line: &Observed) -> Vec<Compared> {
    type Of = fn(&Observed) -> f64;
    let figures: [(&'static str, Of, Option<f64>); 6] = [
        ("throughput", |one| one.throughput_pps, Some(AIM_RATE)),
        ("utilization", |one| one.utilization, Some(AIM_RATE)),
        ("p50", |one| one.delay_p50_ns, None),
        ("p90", |one| one.delay_p90_ns, None),
        ("p99", |one| one.delay_p99_ns, Some(AIM_DELAY)),
        ("ooo", |one| one.out_of_order_fraction, None),
    ];
    let compare = |(figure, of, aim): (&'static str, Of, Option<f64>)| {
        let error = |simulated: f64| match of(live) {
            live if figure == "ooo" => simulated - live,
            0.0 => simulated,
            live => simulated / live - 1.0,
        };
        let (replayed, by_line) = (of(replayed), of(by_line));
        Compared {
            figure,
            live: of(live),
            replayed,
            replayed_error: error(replayed),
            by_line,
            by_line_error: error(by_line),
            aim,
            holds: aim.is_none_or(|aim| error(replayed).abs() <= aim),
        }
    };
    figures.into_iter().map(compare).collect()
}

/// What the model does not have, with what was measured of it.
fn lacking(result: &RunResult, record: &Record, live: &Observed) -> Vec<String> {
    let mut lacking = Vec::new();
    let shared = result.environment.threads.iter().filter(|thread| thread.shared).count();
    if shared > 0 {
        lacking.push(format!("{} share processors, and wait for each other", counted(shared as u64, "thread")));
    }
    let overdue = result.measured.overdue_max_ns;
    if overdue > 0 {
        lacking.push(format!(
            "the dispatcher's own time: a decision takes {}, and packets were due for up to {} before they reached the scheduler",
            time(result.measured.decision_ns.mean),
            time(overdue as f64)
        ));
    }
    let waits = fit::sorted(record.served.iter().filter(|served| served.was_idle).map(|served| served.wait.as_ns()));
    if let Some(&last) = waits.last() {
        lacking.push(format!(
            "decisions and handing over by rings: an idle core begins after {} in the median, {} in 99 of 100 cases, {} at most",
            time(fit::quantile(&waits, 0.5) as f64),
            time(fit::quantile(&waits, 0.99) as f64),
            time(last as f64)
        ));
    }
    let busy = fit::sorted(record.served.iter().map(|served| served.busy.as_ns()));
    let median = fit::quantile(&busy, 0.5);
    let long = busy.iter().filter(|&&busy| busy > LONG * median.max(1)).map(|&busy| u128::from(busy)).sum::<u128>();
    let all: u128 = busy.iter().map(|&busy| u128::from(busy)).sum();
    if long > 0 {
        lacking.push(format!(
            "interrupts and other programs: packets that took over {LONG} times the median have {} of all work, at {} utilization",
            percent(long as f64 / all as f64),
            percent(live.utilization)
        ));
    }
    lacking
}

/// A packet that takes so many times the median was not alone on its processor.
const LONG: u64 = 20;

/// Says whether the simulator agrees with the live runs, and where it is farthest from them.
fn finding(policies: &[PolicyValidation]) -> String {
    let figures = policies.iter().flat_map(|policy| policy.figures.iter().map(move |figure| (policy, figure)));
    let aimed: Vec<_> = figures.filter_map(|(policy, figure)| Some((policy, figure, figure.aim?))).collect();
    let missed: Vec<_> = aimed.iter().filter(|(_, figure, _)| !figure.holds).collect();
    let beyond = |(_, figure, aim): &(_, &Compared, f64)| figure.replayed_error.abs() / aim;
    let replayed = match missed.iter().max_by(|a, b| beyond(a).total_cmp(&beyond(b))) {
        None => {
            let count = aimed.len();
            format!(
                "Given the time of each packet, the simulator agrees with the live runs: it keeps all {count} aims."
            )
        }
        Some((policy, figure, aim)) => format!(
            "Given the time of each packet, the simulator misses {} of {} aims. The farthest off is {} under {}: {}, where the aim is {}.",
            missed.len(),
            aimed.len(),
            figure.figure,
            policy.policy,
            signed(figure.replayed_error),
            percent(*aim)
        ),
    };
    let by_line = |(_, figure, aim): &(_, &Compared, f64)| figure.by_line_error.abs() / aim;
    let farthest = aimed.iter().max_by(|a, b| by_line(a).total_cmp(&by_line(b))).filter(|one| by_line(one) > 1.0);
    let said = farthest.map(|(policy, figure, _)| {
        let error = signed(figure.by_line_error);
        format!(" By line, as `sim` predicts, {} under {} is off by {error}.", figure.figure, policy.policy)
    });
    replayed + &said.unwrap_or_default()
}

fn shortfalls(policy: &PolicyValidation) -> Vec<String> {
    let short = policy.figures.iter().filter(|figure| !figure.holds);
    let said = short.map(|figure| {
        let aim = figure.aim.unwrap_or_default();
        format!(
            "{}: {} is off by {}, more than {}",
            policy.policy,
            figure.figure,
            signed(figure.replayed_error),
            percent(aim)
        )
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
mod tests {
    use super::*;

    fn validated(errors: [f64; 2]) -> PolicyValidation {
        let figure = |(figure, replayed_error, aim): (&'static str, f64, Option<f64>)| Compared {
            figure,
            live: 1.0,
            replayed: 1.0,
            replayed_error,
            by_line: 1.0,
            by_line_error: 0.0,
            aim,
            holds: aim.is_none_or(|aim| replayed_error.abs() <= aim),
        };
        let [rate, p99] = errors;
        let figures =
            [("throughput", rate, Some(0.1)), ("p50", 9.0, None), ("p99", p99, Some(0.25))].map(figure).into();
        PolicyValidation {
            policy: "drr".to_owned(),
            packets: 1,
            figures,
            line: Vec::new(),
            hand_over_ns: 0,
            taken_part: 0.0,
            lacking: Vec::new(),
        }
    }

    #[test]
    fn the_finding_names_what_is_farthest_from_its_aim() {
        let agrees = "Given the time of each packet, the simulator agrees with the live runs: it keeps all 4 aims.";
        assert_eq!(finding(&[validated([0.05, 0.2]), validated([0.0, 0.0])]), agrees);
        let misses = "Given the time of each packet, the simulator misses 2 of 2 aims. The farthest off is throughput under drr: -40.0 %, where the aim is 10.0 %.";
        assert_eq!(finding(&[validated([-0.4, 0.3])]), misses);
        let mut far = validated([0.0, 0.0]);
        far.figures[2].by_line_error = -1.0;
        let said = finding(&[far]);
        assert!(said.ends_with("By line, as `sim` predicts, p99 under drr is off by -100.0 %."), "{said}");
    }
}
