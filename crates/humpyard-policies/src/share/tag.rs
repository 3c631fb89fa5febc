//! Virtual time: how far a client, or the system, has been served, in work per weight.

use humpyard_core::unit::{Weight, Work};

/// Fraction bits of a tag. With 128 bits in all, 2^96 units of work per weight fit: no run is that long.
const FRACTION: u32 = 32;

/// A virtual time, in work per weight, with 32 fraction bits.
pub(crate) type Tag = u128;

/// A tag that grows by work over weight with nothing lost to rounding: the remainder is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ExactTag {
    /// Rounded down.
    pub(crate) tag: Tag,
    /// What was rounded off, in units of the last place over the weight.
    remainder: u64,
}

impl ExactTag {
    /// Exactly this tag.
    pub(crate) fn at(tag: Tag) -> Self {
        Self { tag, remainder: 0 }
    }

    /// Later by `work` at `weight`.
    pub(crate) fn add(&mut self, work: Work, weight: Weight) {
        self.shift(i128::from(work), weight.get().into());
    }

    /// Later by `used - estimate` at `weight`, or earlier if that is negative.
    pub(crate) fn settle(&mut self, used: Work, estimate: Work, weight: Weight) {
        if used != estimate {
            self.shift(i128::from(used) - i128::from(estimate), weight.get().into());
        }
    }

    /// From now on grows at weight `to`, and the last `work` that it grew by counts at that weight too.
    ///
    /// The remainder is over the weight `from`: what is left of it is dropped, less than one unit of the last place.
    pub(crate) fn reweigh(&mut self, work: Work, from: Weight, to: Weight) {
        self.shift(-i128::from(work), from.get().into());
        self.remainder = 0;
        self.shift(i128::from(work), to.get().into());
    }

    /// From now on grows at weight `to`, instead of `from`.
    pub(crate) fn rebase(&mut self, from: u64, to: u64) {
        if self.remainder > 0 {
            self.remainder = (u128::from(self.remainder) * u128::from(to) / u128::from(from)) as u64;
        }
    }

    /// Later by `work`, or earlier if that is negative, but no earlier than 0.
    pub(crate) fn shift_down_to_0(&mut self, work: i128, weight: u64) {
        *self = self.shifted(work, weight).unwrap_or_default();
    }

    /// Later by `work`, or earlier if that is negative.
    pub(crate) fn shift(&mut self, work: i128, weight: u64) {
        *self = self.shifted(work, weight).expect("a tag never leaves its range");
    }

    fn shifted(self, work: i128, weight: u64) -> Option<Self> {
        // Almost always the quotient fits 64 bits, where division is several times faster.
        let small = i64::try_from(work).ok().filter(|work| work.unsigned_abs() < 1 << (62 - FRACTION));
        let (quotient, remainder) = if let (Some(work), true) = (small, weight < 1 << 62) {
            let (total, weight) = ((work << FRACTION) + self.remainder as i64, weight as i64);
            (i128::from(total.div_euclid(weight)), total.rem_euclid(weight) as u64)
        } else {
            let (total, weight) = ((work << FRACTION) + i128::from(self.remainder), i128::from(weight));
            (total.div_euclid(weight), total.rem_euclid(weight) as u64)
        };
        Some(Self { tag: self.tag.checked_add_signed(quotient)?, remainder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(value: u32) -> Weight {
        Weight::new(value).expect("positive")
    }

    #[test]
    fn thirds_add_up() {
        let mut tag = ExactTag::at(0);
        for _ in 0..3 {
            tag.add(1, weight(3));
        }
        assert_eq!(tag, ExactTag::at(1 << FRACTION));
    }

    #[test]
    fn what_is_added_can_be_taken_back() {
        for work in [1, 7, 1500, u64::from(u32::MAX), u64::MAX / 2] {
            for divisor in [1, 3, 1_000_003, u32::MAX] {
                let mut tag = ExactTag::at(5);
                tag.add(work, weight(divisor));
                tag.settle(0, work, weight(divisor));
                assert_eq!(tag, ExactTag::at(5), "{work} / {divisor}");
            }
        }
    }

    #[test]
    fn another_weight_holds_for_work_not_yet_settled() {
        let mut tag = ExactTag::at(5);
        tag.add(1000, weight(1000));
        tag.reweigh(1000, weight(1000), weight(3));
        tag.settle(1, 1000, weight(3));
        let mut expected = ExactTag::at(5);
        expected.add(1, weight(3));
        assert_eq!(tag, expected);
    }

    #[test]
    fn a_remainder_moves_to_another_weight() {
        let mut tag = ExactTag::at(0);
        tag.shift(1, 3);
        tag.rebase(3, 6);
        tag.shift(4, 6);
        assert_eq!(tag, ExactTag::at(1 << FRACTION));
        tag.shift_down_to_0(-7, 6);
        assert_eq!(tag, ExactTag::at(0));
    }

    #[test]
    fn both_divisions_agree() {
        let mut in_parts = ExactTag::at(0);
        let mut at_once = ExactTag::at(0);
        for _ in 0..1 << 12 {
            in_parts.add(1 << 20, weight(7));
        }
        at_once.add(1 << 32, weight(7));
        assert_eq!(in_parts, at_once);
    }
}
