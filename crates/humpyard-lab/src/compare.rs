//! Several policies side by side on identical arrivals.

use humpyard_core::random::Seed;
use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use crate::LabError;
use crate::config::RunConfig;
use crate::control::Control;
use crate::result::RunResult;
use crate::run::run;
use crate::statistics::PolicyStatistics;

/// The runs of a comparison, and their statistics.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Comparison {
    /// One run for each policy, in the order of the policies. The next repetition follows, with the
    /// next seed.
    pub runs: Vec<RunResult>,
    /// Number of repetitions requested.
    pub repetitions: u32,
    /// Statistics of the headline figures over the repetitions, one entry for each policy, in their
    /// order.
    pub statistics: Vec<PolicyStatistics>,
}

impl Comparison {
    /// Compares these runs of this many policies, in the order in which they were made.
    fn of(runs: Vec<RunResult>, policies: usize, repetitions: u32) -> Self {
        let of = |policy: usize| PolicyStatistics::of(&runs.iter().skip(policy).step_by(policies).collect::<Vec<_>>());
        let statistics = (0..policies).filter_map(of).collect();
        Self { runs, repetitions, statistics }
    }

    /// Returns the comparison without runs that ended early, of this many policies.
    #[must_use]
    pub fn whole(mut self, policies: usize) -> Self {
        self.runs.retain(|run| !run.interrupted);
        Self::of(self.runs, policies, self.repetitions)
    }

    /// The runs of one policy, by its place in `statistics`.
    pub fn runs_of(&self, policy: usize) -> impl Iterator<Item = &RunResult> {
        // Where not every policy was run, none was run twice.
        self.runs.iter().skip(policy).step_by(self.statistics.len().max(1))
    }
}

/// Runs a configuration once under each policy, and repeats all of that, each time with the next seed. So a change of the machine
/// over time meets all policies alike, and within a repetition arrivals are identical. `starting` is called with each policy and
/// the number of the repetition, from 1.
///
/// # Errors
/// As [`run`]; every policy must fit the configuration.
pub fn compare(
    config: &RunConfig,
    policies: &[PolicySpec],
    repetitions: u32,
    control: &mut Control<'_>,
    mut starting: impl FnMut(&PolicySpec, u32),
) -> Result<Comparison, LabError> {
    let repetitions = repetitions.max(1);
    if config.reads_once() && (policies.len() > 1 || repetitions > 1) {
        return Err(LabError::option(
            "a comparison reads the input once per policy and repetition, which pipes and interfaces do not allow: use a file",
        ));
    }
    let mut runs = Vec::with_capacity(policies.len() * repetitions as usize);
    'all: for repetition in 0..repetitions {
        let seed = Seed(config.seed.0.wrapping_add(u64::from(repetition)));
        for policy in policies {
            starting(policy, repetition + 1);
            let result = run(&RunConfig { policy: policy.clone(), seed, ..config.clone() }, control)?;
            let over = result.interrupted;
            runs.push(result);
            if over {
                break 'all;
            }
        }
    }
    Ok(Comparison::of(runs, policies.len(), repetitions))
}
