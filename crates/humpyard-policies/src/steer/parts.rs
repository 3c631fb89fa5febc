//! The part of all cores that a connection should have, and the test whether it has changed.

/// One, in the fixed point of weights and of [`Beta`].
pub(super) const ONE: u64 = 1 << 32;

/// The tolerated relative change of a connection before its set or place is rebuilt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beta {
    /// The tolerated change in 1/2^32; the greatest value tolerates any change.
    tolerated: u64,
}

impl Beta {
    /// Returns a tolerance. A `beta` of 10^10 or more is the greatest: nothing is ever rebuilt.
    pub(super) fn new(beta: f64) -> Self {
        Self { tolerated: (beta * ONE as f64) as u64 }
    }

    /// Whether the change from `was` to `is` is more than is tolerated.
    #[inline]
    pub(super) fn is_exceeded(self, was: u64, is: u64) -> bool {
        self.tolerated != u64::MAX && u128::from(is.abs_diff(was)) << 32 > u128::from(self.tolerated) * u128::from(was)
    }
}

/// g: the number of cores that a connection should have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// min(⌊g⌋, N).
    pub(super) whole: usize,
    /// g - ⌊g⌋ in 1/2^32; 0 if less than 10^-9, or if all cores are whole.
    pub(super) rest: u32,
}

impl Part {
    /// Returns g = N φ/Φ, for φ and Φ below 2^104.
    pub(super) fn of(held: u128, total: u128, cores: usize) -> Self {
        // For greater values, the last digits are below the precision of the rest.
        let beyond = (u128::BITS - total.leading_zeros()).saturating_sub(94);
        let (scaled, total) = ((held * cores as u128) >> beyond, (total >> beyond).max(1));
        let (whole, rest) = (scaled / total, scaled % total);
        if whole >= cores as u128 {
            return Self { whole: cores, rest: 0 };
        }
        let rest = if rest * 1_000_000_000 > total { ((rest << 32) / total) as u32 } else { 0 };
        Self { whole: whole as usize, rest }
    }

    /// Whether the part needs more than one core.
    pub(super) fn is_several(self) -> bool {
        self.whole + usize::from(self.rest > 0) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_specification() {
        let part = |held| Part::of(held, 10_000, 8);
        let near = |rest: f64| (rest * ONE as f64) as u32;
        assert_eq!(part(6000), Part { whole: 4, rest: near(0.8) });
        assert_eq!(part(3000), Part { whole: 2, rest: near(0.4) });
        assert_eq!(part(1000), Part { whole: 0, rest: near(0.8) });
        assert_eq!(part(10_000), Part { whole: 8, rest: 0 });
        assert_eq!(part(5000), Part { whole: 4, rest: 0 });
        assert_eq!(Part::of(7, 5, 3), Part { whole: 3, rest: 0 }, "held by way of another service");
        assert_eq!(Part::of(0, 0, 3), Part { whole: 0, rest: 0 });
        assert_eq!(Part::of(1 + 500_000_000, 1_000_000_000, 2).rest, 8, "2 in 10^9 count");
        assert_eq!(Part::of(1 + 1_000_000_000, 2_000_000_000, 2).rest, 0, "10^-9 do not");
        assert_eq!(Part::of(u128::from(u64::MAX), u128::from(u64::MAX), 65_535).whole, 65_535);
    }

    #[test]
    fn great_numbers_make_the_same_parts() {
        for shift in [0, 60, 80, 90] {
            let found = Part::of(6000 << shift, 10_000 << shift, 8);
            assert_eq!((found.whole, found.rest / 8), (4, (0.8 * ONE as f64) as u32 / 8), "times 2^{shift}");
        }
    }

    #[test]
    fn a_change_counts_from_beta_on() {
        let half = Beta::new(0.5);
        assert!(!half.is_exceeded(1000, 1500) && half.is_exceeded(1000, 1501) && half.is_exceeded(1000, 499));
        assert!(half.is_exceeded(0, 1) && !half.is_exceeded(0, 0));
        assert!(Beta::new(0.0).is_exceeded(1000, 1001));
        for beta in [1e10, f64::INFINITY] {
            assert!(!Beta::new(beta).is_exceeded(0, u64::MAX));
        }
    }
}
