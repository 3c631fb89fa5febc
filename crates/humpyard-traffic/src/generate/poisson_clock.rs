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
    #[inline]
    pub(super) fn tick(&mut self, random: &mut Random) -> u64 {
        self.advance(self.gap_of(random.bits()))
    }

    /// The gap, in ns, that [`PoissonClock::tick`] makes of these random bits.
    #[inline]
    pub(super) fn gap_of(&self, bits: u64) -> f64 {
        Random::exponential_of(bits, self.mean_ns)
    }

    /// The next instant, after this gap.
    #[inline]
    pub(super) fn advance(&mut self, gap_ns: f64) -> u64 {
        let gap = gap_ns + self.fraction_ns;
        // A signed number converts in fewer instructions; a gap of 292 years is as good as a longer one.
        let whole = gap as i64;
        self.fraction_ns = gap - whole as f64;
        self.now_ns = self.now_ns.saturating_add(whole as u64);
        self.now_ns
    }
}
