//! What the tests of all families share.

use humpyard_core::policy::Setup;
use humpyard_core::unit::Weight;

/// A run of one service, measured in bytes, whose longest packet is 10.
pub(crate) fn setup(cores: usize, clients: usize, weights: &[Weight]) -> Setup<'_> {
    Setup { cores, flows: clients, clients, packets: 4 * clients.max(16), longest: 10, weights, ..Setup::default() }
}
