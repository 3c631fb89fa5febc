//! What the tests of all families share.

use humpyard_core::policy::{ServiceSetup, Setup, Ties};
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight, WorkUnit};

/// A run of one service, measured in bytes, whose longest packet is 10.
pub(crate) fn setup(cores: usize, clients: usize, weights: &[Weight]) -> Setup<'_> {
    Setup {
        cores,
        topology: None,
        flows: clients,
        clients,
        packets: 4 * clients.max(16),
        unit: WorkUnit::Bytes,
        longest: 10,
        weights,
        services: &[ServiceSetup {
            name: "test",
            packet_time: Time::ZERO,
            switch_cost: Time::ZERO,
            tolerance: Time::MAX,
            guarantee_millionths: 1_000_000,
        }],
        ties: Ties::Lowest,
        seed: Seed(1),
    }
}
