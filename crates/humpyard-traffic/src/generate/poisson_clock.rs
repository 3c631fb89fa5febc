//! The clock of a Poisson process.

use humpyard_core::random::Random;

/// Arrival times: exponential gaps, rounded down to whole ns, with the fractions carried over.
pub(super) struct PoissonClock {
    now_ns: u64,
    fraction_ns: f64,
    mean_ns: f64,
}

impl PoissonClock {
    pub(super) fn new(mean_ns: f64) -> Self {
        Self { now_ns: 0, fraction_ns: 0.0, mean_ns }
    }

    /// Returns the next time.
    #[inline]
    pub(super) fn tick(&mut self, random: &mut Random) -> u64 {
        self.advance(self.gap_of(random.bits()))
    }

    /// Returns the gap, in ns, that [`PoissonClock::tick`] computes from these random bits.
    #[inline]
    pub(super) fn gap_of(&self, bits: u64) -> f64 {
        Random::exponential_of(bits, self.mean_ns)
    }

    /// Returns the next time, after this gap.
    #[inline]
    pub(super) fn advance(&mut self, gap_ns: f64) -> u64 {
        let gap = gap_ns + self.fraction_ns;
        // A signed number converts in fewer instructions; gaps are cut to 292 years.
        let whole = gap as i64;
        self.fraction_ns = gap - whole as f64;
        self.now_ns = self.now_ns.saturating_add(whole as u64);
        self.now_ns
    }
}
