//! Several policies side by side on identical arrivals.

use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use crate::LabError;
use crate::config::RunConfig;
use crate::result::RunResult;
use crate::run::{Control, run};

/// The runs of a comparison, in the order of their policies.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// One run per policy.
    pub runs: Vec<RunResult>,
}

/// Runs a configuration once under each policy. `starting` is told of each.
///
/// # Errors
/// As [`run`]; every policy must fit the configuration.
pub fn compare(
    config: &RunConfig,
    policies: &[PolicySpec],
    control: &mut Control<'_>,
    mut starting: impl FnMut(&PolicySpec),
) -> Result<Comparison, LabError> {
    if config.reads_pipe() && policies.len() > 1 {
        return Err(LabError::option("a comparison reads the input once per policy, which a pipe does not allow"));
    }
    let mut runs = Vec::with_capacity(policies.len());
    for policy in policies {
        starting(policy);
        let result = run(&RunConfig { policy: policy.clone(), ..config.clone() }, control)?;
        let over = result.interrupted;
        runs.push(result);
        if over {
            break;
        }
    }
    Ok(Comparison { runs })
}
