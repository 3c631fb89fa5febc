//! What the tests of all families share.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::unit::Weight;

/// A run of one service, measured in bytes, whose longest packet is 10.
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
