//! The hash by which a table finds its flows.
//!
//! Vector multiply-shift (M. Thorup, "High Speed Hashing for Integers and Strings", arXiv 1504.06804, section
//! 3.3): each 32-bit word of the key is multiplied by a random 64-bit number, and the upper half of the sum is
//! the result. It is strongly universal: two keys chosen without knowledge of the numbers collide with a
//! probability of at most 2^-32.
//!
//! The sums of consecutive words are evenly spaced, which can make long runs in a table with linear probing. So
//! a bijection scatters the sums.

use humpyard_core::random::Seed;

use super::Packed;
use crate::header::FlowKey;

/// Hashes keys for a table. For one seed, the hashes are the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct LookupHash {
    /// Two numbers for each word of the addresses.
    addresses: [[u64; 2]; 4],
    ports: u64,
    protocol: u64,
    addend: u64,
}

impl LookupHash {
    /// The multipliers of MurmurHash3's last step (A. Appleby, `fmix32`).
    const SCATTER: [u32; 2] = [0x85eb_ca6b, 0xc2b2_ae35];

    /// Returns the hash with numbers drawn from the seed.
    pub(crate) fn new(seed: Seed) -> Self {
        let mut random = seed.stream("traffic/flow-lookup");
        Self {
            addresses: core::array::from_fn(|_| [random.bits(), random.bits()]),
            ports: random.bits(),
            protocol: random.bits(),
            addend: random.bits(),
        }
    }

    /// Returns the hash of this key, which depends on the direction.
    #[inline]
    pub(crate) fn of_key(&self, key: &FlowKey) -> u32 {
        self.of(&Packed::of(key))
    }

    /// Like [`Self::of_key`], for a packed key.
    #[inline]
    pub(super) fn of(&self, key: &Packed) -> u32 {
        let times = |number: u64, word: u64| number.wrapping_mul(word & 0xffff_ffff);
        let [from, to] = key.ports.map(u64::from);
        let protocol = u64::from(key.network) << 8 | u64::from(key.protocol);
        let mut sum = self.addend;
        sum = sum.wrapping_add(times(self.ports, from | to << 16)).wrapping_add(times(self.protocol, protocol));
        let [source, _, destination, _] = self.addresses;
        sum = sum.wrapping_add(times(source[0], key.addresses[0]));
        sum = sum.wrapping_add(times(destination[0], key.addresses[2]));
        // All other words of an IPv4 address are 0, and add nothing.
        if key.network != Packed::IPV4 {
            for (numbers, word) in self.addresses.iter().zip(key.addresses) {
                sum = sum.wrapping_add(times(numbers[1], word >> 32));
            }
            sum = sum.wrapping_add(times(self.addresses[1][0], key.addresses[1]));
            sum = sum.wrapping_add(times(self.addresses[3][0], key.addresses[3]));
        }
        let hash = (sum >> 32) as u32;
        let [first, second] = Self::SCATTER;
        let hash = (hash ^ hash >> 16).wrapping_mul(first);
        let hash = (hash ^ hash >> 13).wrapping_mul(second);
        hash ^ hash >> 16
    }
}
