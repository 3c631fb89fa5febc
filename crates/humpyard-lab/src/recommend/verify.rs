//! The winner and plain hashing, live beside what the simulator promises.

use humpyard_core::unit::Time;
use humpyard_runtime::processors;
use serde::Serialize;

use super::figures::MeasuredFigures;
use super::{Goal, Recommendation, fixed};
use crate::LabError;
use crate::choice::assumed::HERE;
use crate::choice::host::Host;
use crate::config::RunConfig;
use crate::control::Control;
use crate::parts::demand::pacer;
use crate::parts::setup;
use crate::result::RunResult;
use crate::run::{run_live, simulate};

/// The longest that packets come in a live run.
const LONGEST: Time = Time::from_ns(10_000_000_000);
/// Live runs of each policy, of which the median in the figure that decides counts.
const RUNS: usize = 3;

/// One policy, promised and measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verified {
    /// The policy.
    pub policy: String,
    /// The figures that the simulator promises.
    pub promised: MeasuredFigures,
    /// The figures of the live run in the middle.
    pub measured: MeasuredFigures,
    /// Whether the promised figures keep the goal.
    pub promised_holds: bool,
    /// Live runs that kept the goal.
    pub held: usize,
    /// Live runs.
    pub runs: usize,
}

/// What live runs say of a recommendation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verification {
    /// Packets of each run.
    pub packets: u64,
    /// The recommended policy first, then plain hashing if that is another.
    pub policies: Vec<Verified>,
    /// Whether the recommended policy kept the goal in most live runs.
    pub holds: bool,
    /// What came of it, in a sentence.
    pub finding: String,
}

/// Returns why a recommendation for this configuration cannot be held against live runs here.
/// `None`: it can.
pub fn why_not_verified(config: &RunConfig) -> Option<String> {
    let Some(host) = &config.assumed else {
        return Some("the simulator assumed an ideal host: have @host here".to_owned());
    };
    let processors = processors().len().max(1);
    if host.name != HERE {
        return Some(format!("the simulator assumed the host `{host}`, and not this machine"));
    }
    (config.cores > processors).then(|| {
        format!(
            "{} workers are more than the {processors} processors of this machine, so this is by simulation alone",
            config.cores
        )
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
    let config = fixed(config, &said.goal)?;
    let packets = packets(&config, said.packets, control)?;
    let config = RunConfig { packets: Some(packets), ..config };
    let mut names = vec![said.policy.as_str()];
    names.extend(said.hashing.as_ref().map(|hashing| hashing.policy.as_str()).filter(|&name| name != said.policy));
    let mut policies = Vec::with_capacity(names.len());
    for name in names {
        starting(&format!("live {name}"));
        policies.push(verify_policy(&RunConfig { policy: name.parse()?, ..config.clone() }, &said.goal, control)?);
    }
    let first = &policies[0];
    let holds = 2 * first.held > first.runs;
    Ok(Verification { packets, holds, finding: finding(&said.goal, first, holds), policies })
}

/// Returns the packets of a live run: those that were looked at, as far as they come within the
/// longest time.
fn packets(config: &RunConfig, looked_at: u64, control: &mut Control<'_>) -> Result<u64, LabError> {
    let mut pacer = pacer(config, config.cores, control)?.ok_or_else(setup::no_line_rate)?;
    let mut source = setup::source(&RunConfig { packets: Some(looked_at), ..config.clone() })?;
    let mut frame = humpyard_core::frame::Frame::default();
    let mut packets = 0;
    let mut first = None;
    while packets < looked_at && source.next(&mut frame)? {
        let arrival = pacer.arrival(frame.time);
        if arrival.since(*first.get_or_insert(arrival)) > LONGEST {
            break;
        }
        packets += 1;
    }
    Ok(packets.max(1))
}

fn verify_policy(config: &RunConfig, goal: &Goal, control: &mut Control<'_>) -> Result<Verified, LabError> {
    let promised = figures(simulate(&RunConfig { host: Host::Sim, ..config.clone() }, control)?)?;
    let live = RunConfig { host: Host::Live, dispatchers: Some(1), ..config.clone() };
    let mut runs = (0..RUNS).map(|_| figures(run_live(&live, control)?)).collect::<Result<Vec<_>, LabError>>()?;
    runs.sort_by(|one, other| goal.score(other).cmp(&goal.score(one)));
    Ok(Verified {
        policy: config.policy.to_string(),
        promised,
        measured: runs[RUNS / 2],
        promised_holds: goal.holds(&promised),
        held: runs.iter().filter(|figures| goal.holds(figures)).count(),
        runs: RUNS,
    })
}

fn figures(result: RunResult) -> Result<MeasuredFigures, LabError> {
    if result.interrupted {
        return Err(LabError::option(
            "interrupted before the recommendation was verified: @verify off leaves that out",
        ));
    }
    Ok(MeasuredFigures::of_parts(&[(result, 1.0)]))
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
