//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// A partial one's complement sum, for data in several pieces.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes` to the sum. Every piece but the last must have an even length.
    #[inline]
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        // Words of 32 bits have the same sum as words of 16 bits, because 2^16 is 1 in one's complement (RFC
        // 1071, section 2(B)). The sum has room for the carries of 2^32 such words.
        let words = bytes.chunks_exact(4);
        let mut tail = [0; 4];
        tail[..words.remainder().len()].copy_from_slice(words.remainder());
        let sum = words.map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))).sum::<u64>();
        Self(self.0 + sum + u64::from(u32::from_be_bytes(tail)))
    }

    /// Returns the sum in 16 bits: 0 only if all bytes are 0.
    #[inline]
    #[must_use]
    pub const fn fold(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// Returns the checksum: the complement of the sum.
    #[inline]
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }
}

/// Returns the checksum of `bytes`, whose checksum field must be zero.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().with(bytes).checksum()
}

/// Returns whether `bytes`, including their checksum, have a valid sum.
#[inline]
pub fn is_valid(bytes: &[u8]) -> bool {
    Sum::default().with(bytes).fold() == 0xffff
}

/// Returns the checksum after one 16-bit word of the data has changed from `old` to `new`.
///
/// Uses equation 3 of RFC 1624. The equation of RFC 1141 would return 0xffff (-0) where a new sum gives 0.
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_sums() {
        // The example of RFC 1071, section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().with(&bytes).fold(), 0xddf2);
        assert_eq!(checksum(&bytes), 0x220d);
        // An odd last byte counts as the high half of a word: 0x0001 + 0xf200 = 0xf201.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2]), 0x0dfe);
        // 0x4500 + 0x0073 + 0x4000 + 0x4011 + 0xc0a8 + 0x0001 + 0xc0a8 + 0x00c7 = 0x2479c, folded 0x479e.
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
            0x00, 0xc7,
        ];
        assert_eq!(checksum(&header), 0xb861);
        assert_eq!(checksum(&[]), 0xffff);
    }

    #[test]
    fn example_of_rfc_1624() {
        // Section 4: RFC 1141 gives 0xffff here.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    /// The reference: adds word by word, carry by carry.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
            if sum > 0xffff {
                sum -= 0xffff;
            }
        }
        !(sum as u16)
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_the_book(bytes in proptest::collection::vec(any::<u8>(), 0..2000), cut in 0usize..1000) {
            prop_assert_eq!(checksum(&bytes), naive(&bytes));
            let (front, back) = bytes.split_at((2 * cut).min(bytes.len() & !1));
            prop_assert_eq!(Sum::default().with(front).with(back).checksum(), naive(&bytes));
        }

        #[test]
        fn an_update_is_a_sum_anew(
            mut words in proptest::collection::vec(prop_oneof![any::<u16>(), Just(0), Just(0xffff)], 2..30),
            at in 0usize..30,
            new in prop_oneof![any::<u16>(), Just(0), Just(0xffff)],
        ) {
            let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
            words[0] |= 0x4000; // An IP header is never all zero.
            let at = 1 + at % (words.len() - 1);
            let before = checksum(&bytes(&words));
            let old = core::mem::replace(&mut words[at], new);
            prop_assert_eq!(update(before, old, new), checksum(&bytes(&words)));
        }

        /// A sender may write -0 for 0; the update of that is correct, too.
        #[test]
        fn an_update_of_minus_zero(ttl in 1u8.., protocol: u8) {
            let old = u16::from_be_bytes([ttl, protocol]);
            let new = u16::from_be_bytes([ttl - 1, protocol]);
            prop_assert_eq!(update(0xffff, old, new), update(0x0000, old, new));
        }
    }
}
