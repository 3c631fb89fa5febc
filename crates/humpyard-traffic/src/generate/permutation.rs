//! Random permutations without tables.

use humpyard_core::hash::mix;
use humpyard_core::random::Random;

/// Rounds after which a Feistel network of random functions is a strong pseudorandom permutation (Luby, Rackoff. 1988).
const ROUNDS: usize = 4;

/// A random bijection of the numbers below a bound.
///
/// It is a Feistel network over the next even number of bits. A number that lands at or beyond the bound goes
/// through it again until it is below (cycle walking: Black, Rogaway. Ciphers with arbitrary finite domains.
/// 2002). The mean is at most four passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permutation {
    size: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Returns a permutation of the numbers below `size`, which must be from 1 to 2^62.
    pub(super) fn new(size: u64, random: &mut Random) -> Self {
        let bits = u64::BITS - size.saturating_sub(1).leading_zeros();
        Self { size, half_bits: bits.div_ceil(2).max(1), keys: core::array::from_fn(|_| random.bits()) }
    }

    /// Returns the image of a number below the size.
    #[inline]
    pub(super) fn of(&self, number: u64) -> u64 {
        debug_assert!(number < self.size, "{number} is not below {}", self.size);
        let mut image = self.pass(number);
        while image >= self.size {
            image = self.pass(image);
        }
        image
    }

    #[inline]
    fn pass(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ mix(key ^ right) & mask);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_is_the_image_of_one(size in 1u64..3_000, seed: u64) {
            let permutation = Permutation::new(size, &mut Seed(seed).stream("test"));
            let mut seen = vec![false; size as usize];
            for number in 0..size {
                prop_assert!(!core::mem::replace(&mut seen[permutation.of(number) as usize], true));
            }
        }

        #[test]
        fn large_domains_have_no_two_numbers_with_one_image(
            size in 1u64 << 20..1 << 62,
            seed: u64,
            numbers in prop::collection::btree_set(0u64..1 << 20, 2..200),
        ) {
            let permutation = Permutation::new(size, &mut Seed(seed).stream("test"));
            let images: std::collections::BTreeSet<u64> = numbers.iter().map(|&number| permutation.of(number)).collect();
            prop_assert_eq!(images.len(), numbers.len());
            prop_assert!(images.iter().all(|&image| image < size));
        }
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let permutation = Permutation::new(1 << 24, &mut Seed(1).stream("test"));
        // Every bit of the image differs for half of the neighbours: 5 standard deviations of 4,096 throws are
        // 160.
        for bit in 0..24 {
            let flips = (0..4_096u64)
                .filter(|&number| (permutation.of(2 * number) ^ permutation.of(2 * number + 1)) >> bit & 1 == 1)
                .count();
            assert!(flips.abs_diff(2_048) < 160, "bit {bit}: {flips}");
        }
    }
}
