//! The paper, and the sizes of runs.

use humpyard_core::random::Seed;

/// The paper.
pub(crate) const PAPER: &str = "Wolf, Pappu, Franklin. Predictive scheduling of network processors (EFQ and LAP).";

/// Draws of traffic (quick, full).
pub(crate) const DRAWS: (usize, usize) = (3, 10);

/// Returns the seed of a draw, numbered from 1, of a group of experiments.
pub(super) fn drawn_seed(seed: Seed, of: &str, draw: usize) -> Seed {
    Seed(seed.stream(&format!("predictive/{of}/{}", draw - 1)).bits())
}
