//! The two hashes that steer packets: rendezvous scores and Toeplitz.

use alloc::boxed::Box;

/// Scrambles 64 bits: the finaliser of SplitMix64, applied to `z` plus the golden ratio.
#[inline]
pub const fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns the salt of candidate `k` in rendezvous hashing; compute it once per candidate.
#[inline]
pub const fn salt(k: u64) -> u64 {
    mix(k.wrapping_mul(0xA24B_AED4_963E_E407))
}

/// Returns the rendezvous score of a connection `key` for the candidate with this salt: 53 random
/// bits.
///
/// Scores are ordered like the real numbers of [`unit_score`], without their rounding.
#[inline]
pub const fn score(key: u64, salt: u64) -> u64 {
    mix(key ^ salt) >> 11
}

/// A [`score`] as a real number in (0, 1).
#[inline]
pub fn unit_score(score: u64) -> f64 {
    (score as f64 + 0.5) / (1u64 << 53) as f64
}

/// The key with which Microsoft's verification suite of receive-side scaling checks a Toeplitz
/// hash.
pub const TOEPLITZ_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// The Toeplitz hash of receive-side scaling, as network cards compute it.
///
/// For every set bit i of the input, from the most significant, the 32 key bits that start at bit i are added modulo 2.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    /// The contribution of each value of each input byte.
    contribution: Box<[[u32; 256]]>,
}

impl Toeplitz {
    /// The longest input in bytes: two IPv6 addresses and two ports.
    pub const INPUT_MAX: usize = 36;

    /// A hash under this key.
    pub fn new(key: &[u8; 40]) -> Self {
        let window = |bit: usize| {
            (0..32).fold(0u32, |word, i| {
                let at = bit + i;
                (word << 1) | u32::from(key[at / 8] >> (7 - at % 8) & 1)
            })
        };
        let table = |byte: usize| {
            let windows: [u32; 8] = core::array::from_fn(|bit| window(8 * byte + 7 - bit));
            let mut table = [0; 256];
            for value in 1..table.len() {
                // Combines the contribution of the value without its lowest bit with that of the
                // lowest bit.
                table[value] = table[value & (value - 1)] ^ windows[value.trailing_zeros() as usize];
            }
            table
        };
        let contribution = (0..Self::INPUT_MAX).map(table).collect();
        Self { contribution }
    }

    /// The hash of source address, destination address, source port and destination port, in network byte order.
    ///
    /// # Panics
    /// If the input is longer than [`Self::INPUT_MAX`].
    pub fn hash(&self, input: &[u8]) -> u32 {
        assert!(input.len() <= Self::INPUT_MAX, "Toeplitz input of {} bytes", input.len());
        input.iter().zip(&self.contribution).fold(0, |hash, (&byte, table)| hash ^ table[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_scores(key: u64, expected: &[f64]) {
        for (k, &g) in expected.iter().enumerate() {
            let found = unit_score(score(key, salt(k as u64)));
            assert!((found - g).abs() < 5e-7, "g({key},{k}) = {found}, not {g}");
        }
    }

    #[test]
    fn rendezvous_scores_match_the_specification() {
        assert_scores(12345, &[0.477819, 0.525463, 0.588691, 0.955614, 0.652159, 0.569420, 0.270625, 0.229820]);
        assert_scores(1, &[0.034012, 0.441487, 0.587939, 0.192399, 0.354834, 0.068148, 0.995361, 0.394148]);
        assert_scores(2, &[0.842966, 0.752741, 0.463581, 0.791953]);
    }

    #[test]
    fn toeplitz_matches_microsofts_vectors() {
        let toeplitz = Toeplitz::new(&TOEPLITZ_KEY);
        let mut input = [66, 9, 149, 187, 161, 142, 100, 80, 0, 0, 0, 0];
        input[8..10].copy_from_slice(&2794u16.to_be_bytes());
        input[10..12].copy_from_slice(&1766u16.to_be_bytes());
        assert_eq!(toeplitz.hash(&input[..8]), 0x323e_8fc2);
        assert_eq!(toeplitz.hash(&input), 0x51cc_c178);
    }
}
