//! The paper, its machine, and the sizes of runs.

use humpyard_core::random::Seed;

/// The paper.
pub(super) const PAPER: &str = "Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications.";

/// The name of the machine: two sockets of two caches of two cores.
pub(super) const TOPOLOGY: &str = "e5355";
/// The name of the table with its costs of moving a connection.
pub(super) const COSTS: &str = "ps-hrw";
/// Number of its cores.
pub(super) const CORES: usize = 8;
/// Number of packets on a core at which the dispatcher of a saturated machine waits.
pub(super) const FULL: u32 = 64;
/// The part of the time that cores would be busy if no connection ever moved.
pub(super) const LOAD: f64 = 0.8;
/// Draws of traffic (quick, full).
pub(super) const DRAWS: (usize, usize) = (3, 10);
/// Packets of a quick run, and of a run that does not measure order.
pub(super) const QUICK_PACKETS: u64 = 100_000;
pub(super) const QUICK_SATURATED: u64 = 50_000;

/// Returns the seed of a draw, numbered from 1.
pub(super) fn drawn_seed(seed: Seed, draw: usize) -> Seed {
    Seed(seed.0.wrapping_add(draw as u64 - 1))
}
