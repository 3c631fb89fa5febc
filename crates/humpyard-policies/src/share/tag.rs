//! Virtual time: how far a client, or the system, has been served, in work per weight.

use humpyard_core::unit::{Weight, Work};

/// Fraction bits of a tag. With 128 bits in all, 2^96 units of work per weight fit: no run is that long.
const FRACTION: u32 = 32;

/// Work below this leaves room for the fraction, and for a remainder, in 64 bits.
const SHORT: Work = 1 << (63 - FRACTION);

/// A virtual time, in work per weight, with 32 fraction bits.
pub(crate) type Tag = u128;

/// A weight to divide by, with its reciprocal: a division takes a multiplication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    weight: u64,
    /// 2^64 over the weight, or less by at most 1.
    reciprocal: u64,
}

impl Divisor {
    /// To divide by this weight, from 1 to 2^62.
    pub(crate) fn new(weight: u64) -> Self {
        Self { weight, reciprocal: u64::MAX / weight }
    }

    /// The weight.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Quotient and remainder. The estimate of the quotient is short by less than `number` / 2^64 and its rounding: by 1.
    #[inline]
    fn divide(&self, number: u64) -> (u64, u64) {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = number - quotient * self.weight;
        let short = remainder >= self.weight;
        (quotient + u64::from(short), if short { remainder - self.weight } else { remainder })
    }
}

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
            self.remainder = match self.remainder.checked_mul(to) {
                Some(product) => product / from,
                None => (u128::from(self.remainder) * u128::from(to) / u128::from(from)) as u64,
            };
        }
    }

    /// Later by `work` at the weight of `by`: as [`ExactTag::shift`], faster.
    #[inline]
    pub(crate) fn advance(&mut self, work: Work, by: &Divisor) {
        if work >= SHORT {
            return self.shift(work.into(), by.weight);
        }
        let (quotient, remainder) = by.divide((work << FRACTION) + self.remainder);
        *self = Self { tag: self.tag + Tag::from(quotient), remainder };
    }

    /// Earlier by `work` at the weight of `by`, but no earlier than 0: as [`ExactTag::shift_down_to_0`], faster.
    #[inline]
    pub(crate) fn retreat(&mut self, work: Work, by: &Divisor) {
        if work >= SHORT {
            return self.shift_down_to_0(-i128::from(work), by.weight);
        }
        let (quotient, taken) = by.divide(work << FRACTION);
        let borrowed = self.remainder < taken;
        let quotient = Tag::from(quotient) + Tag::from(borrowed);
        let remainder = self.remainder + if borrowed { by.weight } else { 0 } - taken;
        *self = self.tag.checked_sub(quotient).map_or_else(Self::default, |tag| Self { tag, remainder });
    }

    /// Later by `used - estimate` at the weight of `by`, or earlier if that is negative, but no earlier than 0.
    #[inline]
    pub(crate) fn correct(&mut self, used: Work, estimate: Work, by: &Divisor) {
        if used >= estimate {
            self.advance(used - estimate, by);
        } else {
            self.retreat(estimate - used, by);
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
    use humpyard_core::random::Seed;

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
    fn a_reciprocal_divides_exactly() {
        let mut random = Seed(7).stream("test");
        for _ in 0..100_000 {
            let (number, weight) = (random.bits() >> random.below(64), 1 + (random.bits() >> (2 + random.below(62))));
            assert_eq!(Divisor::new(weight).divide(number), (number / weight, number % weight), "{number} / {weight}");
        }
        assert_eq!(Divisor::new(1).divide(u64::MAX), (u64::MAX, 0));
    }

    #[test]
    fn fast_and_slow_shifts_agree() {
        let mut random = Seed(7).stream("test");
        for _ in 0..1000 {
            let weight = 1 + (random.bits() >> (12 + random.below(52)));
            let by = Divisor::new(weight);
            let (mut fast, mut slow) = (ExactTag::at(1 << 70), ExactTag::at(1 << 70));
            for _ in 0..20 {
                let [used, estimate] = [0; 2].map(|_| random.bits() >> (24 + random.below(40)));
                fast.correct(used, estimate, &by);
                slow.shift_down_to_0(i128::from(used) - i128::from(estimate), weight);
                assert_eq!(fast, slow, "{used} - {estimate} at {weight}");
            }
        }
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
