//! Policies that take over on the way, as text.

use core::time::Duration;

use humpyard_policies::spec::PolicySpec;
use humpyard_text::quantity::parse_duration;

use crate::LabError;
use crate::config::RunConfig;

/// Reads `TIME=SPEC`.
pub(crate) fn parse_swap(config: &RunConfig, text: &str) -> Result<(Duration, PolicySpec), LabError> {
    let (at, policy) = text.split_once('=').ok_or_else(|| {
        LabError::of_option("swap", format!("takes a time and policies, 2s=drr for example; not `{text}`"))
    })?;
    Ok((parse_duration(at)?, config.named(policy)?))
}
