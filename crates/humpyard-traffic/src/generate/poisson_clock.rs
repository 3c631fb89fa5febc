//! The clock of a Poisson process.

use humpyard_core::random::Random;

/// Arrival instants: exponential gaps, rounded down to whole ns without losing the fractions.
pub(super) struct PoissonClock {
    now_ns: u64,
    fraction_ns: f64,
    mean_ns: f64,
}

impl PoissonClock {
    pub(super) fn new(mean_ns: f64) -> Self {
        Self { now_ns: 0, fraction_ns: 0.0, mean_ns }
    }

    /// The next instant.
    pub(super) fn tick(&mut self, random: &mut Random) -> u64 {
        let gap = random.exponential(self.mean_ns) + self.fraction_ns;
        let whole = gap as u64;
        self.fraction_ns = gap - whole as f64;
        self.now_ns = self.now_ns.saturating_add(whole);
        self.now_ns
    }
}
