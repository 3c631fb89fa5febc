//! The hash by which a table finds its flows.
//!
//! Vector multiply-shift (M. Thorup, "High Speed Hashing for Integers and Strings", arXiv 1504.06804, section 3.3): each word of
//! the key is multiplied by a random number of its own, and the upper half of the sum counts. It is strongly universal: who does
//! not know the numbers can choose no two keys that collide with a probability above 2^-64. Sums of consecutive
//! words are evenly spaced, which may crowd a table that probes linearly, so a bijection scatters them.

use humpyard_core::random::{Random, Seed};

use super::Packed;
use crate::header::FlowKey;

/// Hashes keys for a table: the same on every machine for a seed.
#[derive(Clone, Debug)]
pub(crate) struct LookupHash {
    addresses: [u128; 4],
    rest: u128,
    addend: u128,
}

impl LookupHash {
    /// An odd number without pattern: the golden ratio in 64 bits.
    const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Returns the hash whose numbers are drawn from the seed.
    pub(crate) fn new(seed: Seed) -> Self {
        let mut random = seed.stream("traffic/flow-lookup");
        let number = |random: &mut Random| u128::from(random.bits()) << 64 | u128::from(random.bits());
        Self {
            addresses: core::array::from_fn(|_| number(&mut random)),
            rest: number(&mut random),
            addend: number(&mut random),
        }
    }

    /// Returns the hash of exactly this key, its direction included.
    #[inline]
    pub(crate) fn of_key(&self, key: &FlowKey) -> u64 {
        self.of(&Packed::of(key))
    }

    /// As [`Self::of_key`], of a packed key.
    #[inline]
    pub(super) fn of(&self, key: &Packed) -> u64 {
        let times = |number: u128, word: u64| number.wrapping_mul(u128::from(word));
        let [low, high] = key.ports.map(u64::from);
        let rest = low | high << 16 | u64::from(key.network) << 32 | u64::from(key.protocol) << 40;
        let mut sum = self.addend.wrapping_add(times(self.rest, rest));
        for word in [0, 2] {
            sum = sum.wrapping_add(times(self.addresses[word], key.addresses[word]));
        }
        // Other words of short addresses are 0, and add nothing.
        if key.network == Packed::IPV6 {
            for word in [1, 3] {
                sum = sum.wrapping_add(times(self.addresses[word], key.addresses[word]));
            }
        }
        let hash = (sum >> 64) as u64;
        let hash = (hash ^ hash >> 32).wrapping_mul(Self::SCATTER);
        hash ^ hash >> 32
    }
}
