//! The demonstration: composed traffic, run live through a real service under several policies.

use core::time::Duration;

use humpyard_policies::spec::PolicySpec;

use crate::LabError;
use crate::compare::{Comparison, compare};
use crate::config::{Host, Rate, RunConfig};
use crate::run::Control;

/// What a demonstration does.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Packets of each run.
    pub packets: u64,
    /// Packets per second; none is as fast as they are taken.
    pub rate: Option<f64>,
    /// Worker threads.
    pub workers: usize,
    /// Where all randomness comes from.
    pub seed: u64,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self { packets: 400_000, rate: None, workers: 2, seed: 1 }
    }
}

/// The policies of the demonstration.
pub const DEMO_POLICIES: [&str; 4] = ["rr", "conn", "hrw", "drr"];

/// Composes the traffic and runs it live under each of [`DEMO_POLICIES`].
///
/// # Errors
/// As [`compare`].
pub fn demo(
    options: &DemoOptions,
    control: &mut Control<'_>,
    mut starting: impl FnMut(&str),
) -> Result<Comparison, LabError> {
    let policies = DEMO_POLICIES.iter().map(|name| name.parse()).collect::<Result<Vec<PolicySpec>, _>>()?;
    let input = format!("gen:messages:packets={}", options.packets);
    let mut config = RunConfig::new(Host::Live, &input, policies[0].clone());
    config.cores = options.workers;
    config.rate = options.rate.map_or(Rate::Line, Rate::PacketsPerSecond);
    config.longest = Some(Duration::from_secs(12));
    config.seed.0 = options.seed;
    compare(&config, &policies, control, |policy| starting(&policy.to_string()))
}
