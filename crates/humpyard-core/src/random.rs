//! Seeded random streams: the same numbers on every machine, in every version.
//!
//! The generator is xoshiro256++ (Blackman, Vigna. Scrambled linear pseudorandom number generators.
//! 2021), seeded by SplitMix64. Each component draws from its own stream, found by name, so a new
//! component shifts no other stream.

use serde::{Deserialize, Serialize};

use crate::hash::mix;

/// The seed of a run; every stream derives from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream of the component `name`, for example `"traffic/poisson"`.
    pub fn stream(self, name: &str) -> Random {
        let named = name.bytes().fold(mix(self.0), |state, byte| mix(state ^ u64::from(byte)));
        let mut state = [0; 4];
        let mut counter = named;
        for word in &mut state {
            *word = mix(counter);
            counter = counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        }
        Random { state }
    }
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A whole number below `bound`, each equally likely (multiply and shift, with rejection).
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            let low = product as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// A real number in (0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit_of(self.bits())
    }

    /// An exponentially distributed number with this mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        Self::exponential_of(self.bits(), mean)
    }

    /// Returns the number that [`Random::exponential`] makes of these bits. It has no branches: a
    /// loop over bits drawn before can be vectorised.
    #[inline]
    pub fn exponential_of(bits: u64, mean: f64) -> f64 {
        -log_of_unit(unit_of(bits)) * mean
    }

    /// A Pareto distributed number, at least `minimum` and at most `maximum`, with tail exponent `shape`.
    pub fn bounded_pareto(&mut self, shape: f64, minimum: f64, maximum: f64) -> f64 {
        let ratio = libm::pow(minimum / maximum, shape);
        minimum / libm::pow(1.0 - self.unit() * (1.0 - ratio), 1.0 / shape)
    }
}

/// Converts bits to a number in (0, 1).
#[inline]
const fn unit_of(bits: u64) -> f64 {
    ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// The natural logarithm of a normal number up to 1: `libm::log` without its branches for other
/// numbers. Each operation is that of libm (FreeBSD's `e_log.c`), in the same order, so the result
/// is the same to the last bit.
#[inline]
fn log_of_unit(x: f64) -> f64 {
    const LN2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    const LG1: f64 = 6.666_666_666_666_735e-1;
    const LG2: f64 = 3.999_999_999_940_942e-1;
    const LG3: f64 = 2.857_142_874_366_239e-1;
    const LG4: f64 = 2.222_219_843_214_978_4e-1;
    const LG5: f64 = 1.818_357_216_161_805e-1;
    const LG6: f64 = 1.531_383_769_920_937_3e-1;
    const LG7: f64 = 1.479_819_860_511_658_6e-1;
    /// The bits of sqrt(2)/2 that libm compares.
    const HALF_ROOT: u64 = 0x3FE6_A09E << 32;
    /// The bits of 1.
    const ONE: u64 = 0x3FF0_0000 << 32;
    const FRACTION: u64 = (1 << 52) - 1;
    /// A number whose last bits are a whole number below 2^52.
    const WHOLE: f64 = (1u64 << 52) as f64;

    // x is 2^k (1 + f), with 1 + f from sqrt(2)/2 to sqrt(2).
    let shifted = x.to_bits() + (ONE - HALF_ROOT);
    let dk = f64::from_bits(shifted >> 52 | WHOLE.to_bits()) - (WHOLE + 1023.0);
    let f = f64::from_bits((shifted & FRACTION) + HALF_ROOT) - 1.0;
    let hfsq = 0.5 * f * f;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let t1 = w * (LG2 + w * (LG4 + w * LG6));
    let t2 = z * (LG1 + w * (LG3 + w * (LG5 + w * LG7)));
    let r = t2 + t1;
    s * (hfsq + r) + dk * LN2_LO - hfsq + f + dk * LN2_HI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_libm_to_the_last_bit() {
        let agrees = |bits: u64| {
            let unit = unit_of(bits);
            assert_eq!(log_of_unit(unit).to_bits(), libm::log(unit).to_bits(), "of {unit:e}");
        };
        let mut random = Seed(5).stream("test");
        for step in 0..2_000_000 {
            agrees(random.bits());
            // Small numbers, and numbers around powers of two and around sqrt(1/2).
            let power = 1u64.rotate_right(step % 64);
            agrees(power.wrapping_add(random.below(1 << 20)).wrapping_sub(1 << 19));
            agrees(random.bits() >> (step % 64));
            agrees(0xB504_F333_F9DE_6484_u64.wrapping_add(random.below(1 << 40)) >> (step % 8));
        }
        [0, 1, 1 << 11, u64::MAX, u64::MAX - (1 << 11), 1 << 63].into_iter().for_each(agrees);
        let again = random.clone().bits();
        assert_eq!(random.exponential(3.0).to_bits(), Random::exponential_of(again, 3.0).to_bits());
    }

    #[test]
    fn xoshiro_follows_its_recurrence() {
        let mut random = Random { state: [1, 2, 3, 4] };
        // Published first outputs for the state 1, 2, 3, 4.
        assert_eq!(random.bits(), 41_943_041);
        assert_eq!(random.bits(), 58_720_359);
        assert_eq!(random.bits(), 3_588_806_011_781_223);
    }

    #[test]
    fn streams_are_pinned_and_distinct() {
        assert_eq!(Seed(1).stream("a").bits(), Seed(1).stream("a").bits());
        assert_ne!(Seed(1).stream("a").bits(), Seed(1).stream("b").bits());
        assert_ne!(Seed(1).stream("a").bits(), Seed(2).stream("a").bits());
    }

    #[test]
    fn below_is_uniform() {
        let mut random = Seed(3).stream("test");
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6) as usize] += 1;
        }
        let chi2: f64 = counts.iter().map(|&n| (f64::from(n) - 1e4) * (f64::from(n) - 1e4) / 1e4).sum();
        assert!(chi2 < 20.5, "chi-squared {chi2} at 5 degrees of freedom");
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Seed(4).stream("test");
        let n = 200_000;
        let exponential = (0..n).map(|_| random.exponential(5.0)).sum::<f64>() / f64::from(n);
        assert!((exponential - 5.0).abs() < 0.05, "{exponential}");
        let pareto: f64 = (0..n).map(|_| random.bounded_pareto(1.3, 1.0, 5000.0)).sum::<f64>() / f64::from(n);
        // Mean of the bounded Pareto law in closed form.
        let (a, l, h) = (1.3_f64, 1.0_f64, 5000.0_f64);
        let mean = l.powf(a) / (1.0 - (l / h).powf(a)) * a / (a - 1.0) * (l.powf(1.0 - a) - h.powf(1.0 - a));
        assert!((pareto / mean - 1.0).abs() < 0.05, "{pareto} {mean}");
    }
}
