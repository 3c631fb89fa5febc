//! The demonstration: composed traffic, run live through a real service under several policies.

use serde::Serialize;

use crate::LabError;
use crate::choice::host::Host;
use crate::choice::rate::Rate;
use crate::compare::{Comparison, compare};
use crate::config::RunConfig;
use crate::control::Control;
use crate::run::run;
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::Overload;

/// What a demonstration does.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Packets of each run; none is as many as come in a second.
    pub packets: Option<u64>,
    /// How often each policy is run.
    pub repetitions: u32,
    /// Worker threads.
    pub workers: usize,
    /// Where all randomness comes from.
    pub seed: u64,
}

/// A demonstration: the same traffic under each of [`DEMO_POLICIES`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Demo {
    /// Packets per second that this machine took at full speed.
    pub capacity_pps: f64,
    /// Packets per second that were offered: [`OFFERED`] of the capacity.
    pub offered_pps: f64,
    /// The runs.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// The policies of the demonstration.
pub const DEMO_POLICIES: [&str; 4] = ["rr", "conn", "hrw", "drr"];
/// The part of the capacity that is offered: enough for queues, little enough to catch up when the machine was elsewhere.
pub const OFFERED: f64 = 0.4;
/// Packets by which the capacity is found.
const PROBE_PACKETS: u64 = 200_000;
/// Length of each run, unless its packets are given.
const RUN_SECONDS: f64 = 1.0;

/// Composes traffic, finds out how much of it this machine takes, and runs part of that live under each policy.
///
/// # Errors
/// As [`compare`].
pub fn demo(
    options: &DemoOptions,
    control: &mut Control<'_>,
    mut starting: impl FnMut(&str),
) -> Result<Demo, LabError> {
    let policies = DEMO_POLICIES.iter().map(|name| name.parse()).collect::<Result<Vec<PolicySpec>, _>>()?;
    let mut config = RunConfig::new(Host::Live, "", policies[0].clone());
    config.cores = options.workers;
    config.seed.0 = options.seed;
    starting("capacity");
    config.input = format!("gen:messages:packets={PROBE_PACKETS}");
    let probe = run(&config, control)?;
    if probe.interrupted {
        return Err(LabError::option("interrupted before the first policy was run: there is nothing to show"));
    }
    let offered_pps = (OFFERED * probe.summary.throughput_pps).max(1.0).round();
    let packets = options.packets.unwrap_or((offered_pps * RUN_SECONDS) as u64).max(1);
    config.input = format!("gen:messages:packets={packets},pps={offered_pps}");
    config.rate = Rate::Trace;
    config.overload = Some(Overload::Drop);
    let comparison = compare(&config, &policies, options.repetitions, control, |policy, repetition| {
        starting(&format!("{policy} ({repetition} of {})", options.repetitions));
    })?;
    Ok(Demo { capacity_pps: probe.summary.throughput_pps, offered_pps, comparison })
}
