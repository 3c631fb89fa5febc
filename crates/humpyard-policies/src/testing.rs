//! Helpers shared by the tests of all families.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::unit::Weight;

/// Returns the configuration of a run with one service, measured in bytes, whose longest packet has 10 bytes.
pub(crate) fn config(cores: usize, clients: usize, weights: &[Weight]) -> SchedulerConfig {
    SchedulerConfig {
        cores,
        flows: clients,
        clients,
        packets: 4 * clients.max(16),
        longest: 10,
        weights: weights.to_vec(),
        ..SchedulerConfig::default()
    }
}
