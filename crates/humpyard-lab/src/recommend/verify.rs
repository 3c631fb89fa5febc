//! The winner and plain hashing, live beside what the simulator promises.

use core::time::Duration;

use humpyard_core::unit::Time;
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::processors;
use humpyard_traffic::pace::Pace;
use serde::Serialize;

use super::figures::MeasuredFigures;
use super::scope::Scopes;
use super::{Goal, Recommendation, fixed};
use crate::LabError;
use crate::calibrate::distance::SteadyRuns;
use crate::calibrate::others::Others;
use crate::choice::assumed::HERE;
use crate::choice::host::Host;
use crate::choice::rate::Rate;
use crate::config::RunConfig;
use crate::control::Control;
use crate::offered::Demand;
use crate::parts::demand::{pace_of, pacer};
use crate::parts::setup;
use crate::result::RunResult;
use crate::run::{run_live, simulate};

/// Longest time in which packets come in a live run.
const LONGEST: Time = Time::from_ns(10_000_000_000);
/// Live runs of each policy, at least and at most. The run with the median score counts.
const RUNS: (usize, usize) = (3, 9);
/// Runs of each policy go on until they took this time together. One stop of the machine is much of a short run, and
/// the speed of a virtual machine changes for seconds.
const TOGETHER: Duration = Duration::from_secs(6);
/// Threads, caches and memory are new to a run at its start. Packets of this time are not measured, but of a short run
/// only those of a tenth.
const WARM_UP: Duration = Duration::from_millis(50);

/// One policy, simulated and live.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verified {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// Figures of the simulation.
    pub promised: MeasuredFigures,
    /// Figures of the median live run, ranked by how well it meets the goal.
    pub measured: MeasuredFigures,
    /// Whether the simulated figures keep the goal.
    pub promised_holds: bool,
    /// Number of live runs that kept the goal.
    pub held: usize,
    /// Number of live runs.
    pub runs: usize,
}

impl Verified {
    /// Returns a row for what is promised and one for what was measured: name, whether the goal holds, figures.
    pub fn rows(&self) -> [(&'static str, String, &MeasuredFigures); 2] {
        let promised = if self.promised_holds { "kept" } else { "broken" };
        let measured = format!("kept in {} of {}", self.held, self.runs);
        [("promised", promised.to_owned(), &self.promised), ("live", measured, &self.measured)]
    }
}

/// Live runs that test a recommendation.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verification {
    /// Number of packets of each run.
    pub packets: u64,
    /// The recommended policy first, then plain hashing if that is another policy.
    pub policies: Vec<Verified>,
    /// Whether the recommended policy kept the goal in more than half of its live runs.
    pub holds: bool,
    /// The result, in a sentence.
    pub finding: String,
    /// What used the processors meanwhile, beside these runs, one sentence each. Left out: too
    /// little to matter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Returns why a recommendation for this configuration cannot be held against live runs here.
/// `None`: it can.
pub fn why_not_verified(config: &RunConfig) -> Option<String> {
    if let Some(name) = config.own_policies.iter().find_map(PolicySpec::simulated_only) {
        return Some(format!("`{name}` runs in virtual time alone, and not on real threads"));
    }
    let Some(host) = &config.assumed else {
        return Some("the simulator assumed an ideal host: use @host here".to_owned());
    };
    let processors = processors().len().max(1);
    if host.name != HERE {
        return Some(format!("the simulator assumed the host `{host}`, and not this machine"));
    }
    if config.dispatchers == Some(0) {
        return Some("workers without a dispatcher take packets from interfaces alone".to_owned());
    }
    // Live runs verify several dispatchers if each thread has a processor.
    let beside = config.dispatchers.filter(|&dispatchers| dispatchers > 1).map_or(0, |dispatchers| dispatchers + 1);
    (config.cores + beside > processors).then(|| {
        let threads = match beside {
            0 => format!("{} workers", config.cores),
            _ => format!("{} threads of workers, dispatchers and reader", config.cores + beside),
        };
        format!("{threads} are more than the {processors} processors of this machine, so this is by simulation alone")
    })
}

/// Runs the recommended policy and plain hashing live, beside what the simulator promises for the
/// same packets.
///
/// # Errors
/// What keeps a run from starting, and being interrupted.
pub fn verify(
    config: &RunConfig,
    said: &Recommendation,
    control: &mut Control<'_>,
    mut starting: impl FnMut(&str),
) -> Result<Verification, LabError> {
    let config = live_packets(fixed(config, &said.goal)?, said.packets, control)?;
    let scopes = Scopes::find(&said.goal, &config, usize::MAX)?;
    let mut names = vec![said.policy.as_str()];
    names.extend(said.hashing.as_ref().map(|hashing| hashing.policy.as_str()).filter(|&name| name != said.policy));
    let mut policies = Vec::with_capacity(names.len());
    let mut others = Others::begin();
    others.look();
    for name in names {
        starting(&format!("live {name}"));
        let config = RunConfig { policy: name.parse()?, ..config.clone() };
        policies.push(verify_policy(&config, &said.goal, &scopes, control)?);
        others.look();
    }
    let first = &policies[0];
    let holds = 2 * first.held > first.runs;
    let packets = config.packets.unwrap_or_default();
    let finding = finding(&said.goal, first, holds);
    Ok(Verification { packets, holds, finding, policies, warnings: others.warnings() })
}

/// Returns the configuration with the packets of a live run, at the times that they have among those that
/// were looked at.
pub(super) fn live_packets(
    config: RunConfig,
    looked_at: u64,
    control: &mut Control<'_>,
) -> Result<RunConfig, LabError> {
    let config = fixed_in_time(RunConfig { packets: Some(looked_at), ..config }, control)?;
    let (packets, lasts) = packets(&config, looked_at, control)?;
    let warm_up = if config.warm_up.is_zero() { WARM_UP.min(lasts / 10) } else { config.warm_up };
    Ok(RunConfig { packets: Some(packets), warm_up, ..config })
}

/// Returns the configuration with its load as a multiplier: the load of fewer packets would be another.
fn fixed_in_time(config: RunConfig, control: &mut Control<'_>) -> Result<RunConfig, LabError> {
    let demand = || Demand::read(&config, setup::source(&config)?.as_mut(), control);
    Ok(match (config.rate, pace_of(&config, config.cores, demand)?) {
        (Rate::Load { .. }, Some(Pace::Stretched(factor))) => {
            RunConfig { rate: Rate::Multiplied(1.0 / factor), ..config }
        }
        _ => config,
    })
}

/// Returns the number of packets of a live run, and for how long they come: of the packets that were looked at, those
/// that come within the longest time.
fn packets(config: &RunConfig, looked_at: u64, control: &mut Control<'_>) -> Result<(u64, Duration), LabError> {
    let mut pacer = pacer(config, config.cores, control)?.ok_or_else(setup::no_line_rate)?;
    let mut source = setup::source(&RunConfig { packets: Some(looked_at), ..config.clone() })?;
    let mut frame = humpyard_core::frame::Frame::default();
    let (mut packets, mut lasts) = (0, Time::ZERO);
    let mut first = None;
    while packets < looked_at && source.next(&mut frame)? {
        let arrival = pacer.arrival(frame.time);
        let since = arrival.since(*first.get_or_insert(arrival));
        if since > LONGEST {
            break;
        }
        (packets, lasts) = (packets + 1, since);
    }
    Ok((packets.max(1), Duration::from_nanos(lasts.as_ns())))
}

fn verify_policy(
    config: &RunConfig,
    goal: &Goal,
    scopes: &Scopes,
    control: &mut Control<'_>,
) -> Result<Verified, LabError> {
    let sim = RunConfig { host: Host::Sim, ..config.clone() };
    let promised = figures(scopes, control, |control| simulate(&sim, control))?;
    let mut runs = live_runs(config, scopes, control)?;
    runs.sort_by(|one, other| goal.score(other).cmp(&goal.score(one)));
    Ok(Verified {
        policy: config.policy.to_string(),
        promised_holds: goal.holds(&promised),
        held: runs.iter().filter(|figures| goal.holds(figures)).count(),
        runs: runs.len(),
        measured: runs.swap_remove(runs.len() / 2),
        promised,
    })
}

/// Runs a policy live, several times. Returns the figures of each run.
pub(super) fn live_runs(
    config: &RunConfig,
    scopes: &Scopes,
    control: &mut Control<'_>,
) -> Result<Vec<MeasuredFigures>, LabError> {
    let live = RunConfig { host: Host::Live, dispatchers: config.dispatchers.or(Some(1)), ..config.clone() };
    let (least, most) = RUNS;
    let mut steady = SteadyRuns::of(config);
    let (mut runs, mut took) = (Vec::new(), Duration::ZERO);
    while runs.len() < least || (runs.len() < most && took < TOGETHER) {
        let (figures, lasted) = steady.run(|| {
            let mut lasted = Duration::ZERO;
            let figures = figures(scopes, control, |control| {
                let run = run_live(&live, control)?;
                lasted = Duration::from_nanos(run.summary.duration_ns);
                Ok(run)
            })?;
            Ok((figures, lasted))
        })?;
        runs.push(figures);
        took += lasted;
    }
    Ok(runs)
}

/// Runs a policy once, and returns its figures.
pub(super) fn figures<'c>(
    scopes: &Scopes,
    control: &mut Control<'c>,
    run: impl FnOnce(&mut Control<'c>) -> Result<RunResult, LabError>,
) -> Result<MeasuredFigures, LabError> {
    let listener = scopes.listener_of_all();
    control.observer = listener.clone().map(|listener| Box::new(listener) as _);
    let result = run(control);
    control.observer = None;
    let result = result?;
    if result.interrupted {
        return Err(LabError::option(
            "interrupted before live runs had verified the recommendation: @no-verify leaves them out",
        ));
    }
    let counts = [scopes.counts(&result, listener.as_ref())];
    let parts = [(result, 1.0)];
    Ok(MeasuredFigures { scopes: scopes.figures(&parts, &counts), ..MeasuredFigures::of_parts(&parts) })
}

fn finding(goal: &Goal, first: &Verified, holds: bool) -> String {
    let Verified { policy, held, runs, promised_holds, .. } = first;
    match (promised_holds, holds) {
        (true, true) => format!("live, `{policy}` kept {goal} in {held} of {runs} runs, as promised"),
        (true, false) => format!(
            "live, `{policy}` broke {goal} in {} of {runs} runs, which the simulator did not promise: do not rely on it",
            runs - held
        ),
        (false, false) => {
            format!("live, `{policy}` broke {goal} in {} of {runs} runs, as the simulator says", runs - held)
        }
        (false, true) => {
            format!("live, `{policy}` kept {goal} in {held} of {runs} runs, though the simulator says otherwise")
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::choice::assumed::AssumedHost;
    use crate::costs::{DescribedHost, MachineCosts};

    fn config(workers: usize, host: &str) -> RunConfig {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson:packets=4k", "hrw".parse().unwrap());
        let machine = MachineCosts { host: Some(DescribedHost::default()), ..MachineCosts::default() };
        config.assumed = Some(AssumedHost { name: host.to_owned(), source: String::new(), draw: 0, machine });
        config.cores = workers;
        config
    }

    #[test]
    fn only_this_machine_and_its_processors_are_verified() {
        assert_eq!(why_not_verified(&config(1, HERE)), None);
        let ideal = RunConfig { assumed: None, ..config(1, HERE) };
        assert!(why_not_verified(&ideal).unwrap().contains("ideal host"));
        assert!(why_not_verified(&config(1, "server-16")).unwrap().contains("`server-16`"));
        assert!(why_not_verified(&config(10_000, HERE)).unwrap().contains("by simulation alone"));
    }

    /// Fewer packets of a capture may need more or less work each, so their load would be another.
    #[test]
    fn a_load_is_that_of_all_packets_that_were_looked_at() {
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
        let mut control = Control::new(&stop, &mut progress);
        let load = RunConfig { rate: Rate::Load { load: 0.5, of: Some(1) }, ..config(1, HERE) };
        let fixed = fixed_in_time(load.clone(), &mut control).unwrap();
        let Rate::Multiplied(multiplier) = fixed.rate else { panic!("{:?}", fixed.rate) };
        let demand = || Demand::read(&load, setup::source(&load)?.as_mut(), &mut control);
        assert_eq!(pace_of(&load, 1, demand).unwrap(), Some(Pace::Stretched(1.0 / multiplier)));
        let paced = RunConfig { rate: Rate::PacketsPerSecond(5e3), ..load };
        assert_eq!(fixed_in_time(paced.clone(), &mut control).unwrap().rate, paced.rate);
        // Ten seconds of 5,000 a second are more than there are; ten of 100 are fewer.
        assert_eq!(packets(&paced, 4_000, &mut control).unwrap().0, 4_000);
        let slow = RunConfig { rate: Rate::PacketsPerSecond(100.0), ..paced };
        assert_eq!(packets(&slow, 4_000, &mut control).unwrap(), (1_001, Duration::from_secs(10)));
    }

    #[test]
    fn what_holds_is_said_as_it_was_promised() {
        let goal: Goal = "p99<1ms".parse().unwrap();
        let one = |promised_holds, held| Verified {
            policy: "hrw".to_owned(),
            promised: MeasuredFigures::default(),
            measured: MeasuredFigures::default(),
            promised_holds,
            held,
            runs: 3,
        };
        let said = |promised_holds, held| finding(&goal, &one(promised_holds, held), 2 * held > 3);
        assert!(said(true, 3).ends_with("in 3 of 3 runs, as promised"));
        assert!(said(true, 1).ends_with("in 2 of 3 runs, which the simulator did not promise: do not rely on it"));
        assert!(said(false, 0).ends_with("in 3 of 3 runs, as the simulator says"));
        assert!(said(false, 2).ends_with("though the simulator says otherwise"));
    }
}
