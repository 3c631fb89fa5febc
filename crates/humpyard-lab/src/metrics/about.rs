//! What is known of a run before it starts.

use crate::config::RunConfig;

/// What is known of a run beforehand.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The policies it begins with.
    pub policy: String,
    /// Where packets come from.
    pub input: String,
    /// Where they go.
    pub output: String,
}

impl About {
    /// What this configuration says.
    pub fn of(config: &RunConfig) -> Self {
        Self { policy: config.policy.to_string(), input: config.input_name(), output: config.output_name() }
    }
}
