//! The paper, its machine, and how much is run.

use humpyard_core::random::Seed;

/// The paper.
pub(super) const PAPER: &str = "Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications.";

/// The machine, two sockets of two caches of two cores, by its name.
pub(super) const TOPOLOGY: &str = "e5355";
/// The costs of moving a connection on it, by the name of their table.
pub(super) const COSTS: &str = "ps-hrw";
/// Its cores.
pub(super) const CORES: usize = 8;
/// Packets on a core for which the dispatcher of a saturated machine waits.
pub(super) const FULL: u32 = 64;
/// Part of the time that cores would be busy if no connection ever moved.
pub(super) const LOAD: f64 = 0.8;
/// How often traffic is drawn.
pub(super) const DRAWS: (usize, usize) = (3, 10);
/// Packets of a quick run, and of one that says nothing of order.
pub(super) const QUICK_PACKETS: u64 = 100_000;
pub(super) const QUICK_SATURATED: u64 = 50_000;

/// Returns the seed of a draw, numbered from 1.
pub(super) fn drawn_seed(seed: Seed, draw: usize) -> Seed {
    Seed(seed.0.wrapping_add(draw as u64 - 1))
}
