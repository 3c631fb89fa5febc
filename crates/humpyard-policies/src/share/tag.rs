//! Virtual time: how far a client, or the system, has been served, in work per weight.

use humpyard_core::unit::{Weight, Work};

/// Fraction bits of a tag. With 96 bits in all, 2^64 units of work per weight fit: no run is that long.
pub(crate) const FRACTION: u32 = 32;

/// The greatest tag that a client can have. A tag that would be greater stays there.
pub(crate) const TAG_MAX: Tag = (1 << 96) - 1;

/// Work below this leaves room for the fraction, and for a remainder, in 64 bits.
const SHORT: Work = 1 << (63 - FRACTION);

/// A virtual time, in work per weight, with 32 fraction bits.
///
/// In this form to reckon with; clients keep [`ExactTag`] and [`PackedTag`], for there are many of them.
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
    pub(crate) fn divide(&self, number: u64) -> (u64, u64) {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = number - quotient * self.weight;
        // Where the estimate is exact, the difference wraps round and is greater than the remainder.
        let rest = remainder.wrapping_sub(self.weight).min(remainder);
        (quotient + u64::from(remainder >= self.weight), rest)
    }
}

/// The weight of a client, with its reciprocal, in 12 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientDivisor {
    weight: Weight,
    /// That of its divisor, the lower half first.
    reciprocal: [u32; 2],
}

impl ClientDivisor {
    /// To divide by this weight.
    pub(crate) fn new(weight: Weight) -> Self {
        let reciprocal = Divisor::new(weight.get().into()).reciprocal;
        Self { weight, reciprocal: [reciprocal as u32, (reciprocal >> 32) as u32] }
    }

    /// The weight.
    #[inline]
    pub(crate) fn weight(self) -> Weight {
        self.weight
    }

    /// To divide with.
    #[inline]
    pub(crate) fn divisor(self) -> Divisor {
        let [low, high] = self.reciprocal.map(u64::from);
        Divisor { weight: self.weight.get().into(), reciprocal: high << 32 | low }
    }
}

/// A tag as a client keeps it, in 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PackedTag([u32; 3]);

impl PackedTag {
    /// This tag, or the greatest there is.
    #[inline]
    pub(crate) fn new(tag: Tag) -> Self {
        let tag = tag.min(TAG_MAX);
        Self([tag as u32, (tag >> 32) as u32, (tag >> 64) as u32])
    }

    /// The tag.
    #[inline]
    pub(crate) fn tag(self) -> Tag {
        let [low, middle, high] = self.0.map(Tag::from);
        high << 64 | middle << 32 | low
    }
}

/// The tag of a client: grows by work over its weight with nothing lost to rounding, for the remainder is carried. 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ExactTag {
    /// The lower bits of the tag, which is rounded down.
    low: u64,
    /// Its upper bits.
    high: u32,
    /// What was rounded off, in units of the last place over the weight.
    remainder: u32,
}

impl ExactTag {
    /// Exactly this tag, or the greatest there is.
    #[inline]
    pub(crate) fn at(tag: Tag) -> Self {
        TotalTag::at(tag).packed()
    }

    /// The tag, rounded down.
    #[inline]
    pub(crate) fn tag(self) -> Tag {
        Tag::from(self.high) << 64 | Tag::from(self.low)
    }

    /// This tag, or the greatest there is, and this much more, in units of the last place over the weight.
    #[inline]
    pub(crate) fn with_remainder(tag: Tag, remainder: u32) -> Self {
        TotalTag::with_remainder(tag, remainder.into()).packed()
    }

    /// What was rounded off, in units of the last place over the weight.
    #[inline]
    pub(crate) fn remainder(self) -> u32 {
        self.remainder
    }

    /// Later by `work` at `weight`.
    #[inline]
    pub(crate) fn add(&mut self, work: Work, weight: Weight) {
        self.add_divided(work, weight.get().into(), |number, weight| (number / weight, number % weight));
    }

    /// The work that makes it `later` at `weight`: what was given to [`ExactTag::add`], if that was this tag.
    pub(crate) fn work_until(self, later: Tag, weight: Weight) -> Work {
        // Up to a remainder, which is less than a unit of work.
        let last_places = later.saturating_sub(self.tag()) * Tag::from(weight.get());
        last_places.saturating_sub(self.remainder.into()).div_ceil(1 << FRACTION) as Work
    }

    /// Later by `used - estimate` at `weight`, or earlier if that is negative, but no earlier than 0.
    pub(crate) fn settle(&mut self, used: Work, estimate: Work, weight: Weight) {
        if used != estimate {
            self.change(|tag| tag.shift_down_to_0(i128::from(used) - i128::from(estimate), weight.get().into()));
        }
    }

    /// As far from `to` as it was from `from`, but no earlier than 0.
    pub(crate) fn carry(&mut self, from: Tag, to: Tag) {
        self.change(|tag| match (tag.tag + to).checked_sub(from) {
            Some(later) => tag.tag = later,
            None => *tag = TotalTag::default(),
        });
    }

    /// As much work from `origin` at weight `to` as it was at weight `from`, but no earlier than 0.
    pub(crate) fn rescale(&mut self, origin: Tag, from: Weight, to: Weight) {
        let [from, to] = [from, to].map(|weight| i128::from(weight.get()));
        let distance = self.tag() as i128 - origin as i128;
        let work = distance.saturating_mul(from).saturating_add(self.remainder.into());
        let tag = (origin as i128).saturating_add(work.div_euclid(to));
        *self = match Tag::try_from(tag) {
            Ok(tag) => TotalTag { tag, remainder: work.rem_euclid(to) as u64 }.packed(),
            Err(_) => Self::default(),
        };
    }

    /// From now on grows at weight `to`, and the last `work` that it grew by counts at that weight too.
    ///
    /// The remainder is over the weight `from`: what is left of it is dropped, less than one unit of the last place.
    pub(crate) fn reweigh(&mut self, work: Work, from: Weight, to: Weight) {
        self.change(|tag| {
            tag.shift(-i128::from(work), from.get().into());
            tag.remainder = 0;
            tag.shift(i128::from(work), to.get().into());
        });
    }

    /// Later by `work` at the weight of `by`: as [`ExactTag::add`], faster.
    #[inline]
    pub(crate) fn advance(&mut self, work: Work, by: &Divisor) {
        self.add_divided(work, by.weight, |number, _| by.divide(number));
    }

    /// Later by `work` at `weight`; `divide` gives the quotient and the remainder of a number and the weight.
    #[inline]
    fn add_divided(&mut self, work: Work, weight: u64, divide: impl Fn(u64, u64) -> (u64, u64)) {
        if work < SHORT {
            let (quotient, remainder) = divide((work << FRACTION) + u64::from(self.remainder), weight);
            let (low, carry) = self.low.overflowing_add(quotient);
            if let Some(high) = self.high.checked_add(carry.into()) {
                *self = Self { low, high, remainder: remainder as u32 };
                return;
            }
        }
        self.change(|tag| tag.shift(work.into(), weight));
    }

    /// Earlier by `work` at the weight of `by`, but no earlier than 0.
    #[inline]
    pub(crate) fn retreat(&mut self, work: Work, by: &Divisor) {
        if work >= SHORT {
            return self.change(|tag| tag.retreat(work, by));
        }
        let (quotient, taken) = by.divide(work << FRACTION);
        let remainder = u64::from(self.remainder);
        let borrowed = remainder < taken;
        let (quotient, remainder) =
            (quotient + u64::from(borrowed), remainder + if borrowed { by.weight } else { 0 } - taken);
        let (low, borrowed) = self.low.overflowing_sub(quotient);
        *self = match self.high.checked_sub(borrowed.into()) {
            Some(high) => Self { low, high, remainder: remainder as u32 },
            None => Self::default(),
        };
    }

    /// Later by `used - estimate` at the weight of `by`, or earlier if that is negative, but no earlier than 0.
    #[inline]
    pub(crate) fn correct(&mut self, used: Work, estimate: Work, by: &Divisor) {
        self.change(|tag| tag.correct(used, estimate, by));
    }

    #[inline]
    fn change(&mut self, change: impl FnOnce(&mut TotalTag)) {
        let mut tag = TotalTag { tag: self.tag(), remainder: self.remainder.into() };
        change(&mut tag);
        *self = tag.packed();
    }
}

/// The tag of the system: as [`ExactTag`], but grows by work over a sum of weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TotalTag {
    /// Rounded down.
    pub(crate) tag: Tag,
    /// What was rounded off, in units of the last place over the sum of weights.
    remainder: u64,
}

impl TotalTag {
    /// Exactly this tag.
    #[inline]
    pub(crate) fn at(tag: Tag) -> Self {
        Self { tag, remainder: 0 }
    }

    /// This tag, and this much more, in units of the last place over the sum of weights.
    #[inline]
    pub(crate) fn with_remainder(tag: Tag, remainder: u64) -> Self {
        Self { tag, remainder }
    }

    /// What was rounded off, in units of the last place over the sum of weights.
    #[inline]
    pub(crate) fn remainder(self) -> u64 {
        self.remainder
    }

    /// As the tag of a client, if the remainder is over a client's weight.
    #[inline]
    fn packed(self) -> ExactTag {
        debug_assert!(self.remainder <= u32::MAX.into(), "a remainder is below the weight");
        let (low, high) = match u32::try_from((self.tag >> 64) as u64) {
            Ok(high) => (self.tag as u64, high),
            Err(_) => (u64::MAX, u32::MAX),
        };
        ExactTag { low, high, remainder: self.remainder as u32 }
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

    /// Later by `work` at the weight of `by`: as [`TotalTag::shift`], faster.
    #[inline]
    pub(crate) fn advance(&mut self, work: Work, by: &Divisor) {
        if work >= SHORT {
            return self.shift(work.into(), by.weight);
        }
        let (quotient, remainder) = by.divide((work << FRACTION) + self.remainder);
        *self = Self { tag: self.tag + Tag::from(quotient), remainder };
    }

    /// Earlier by `work` at the weight of `by`, but no earlier than 0: as [`TotalTag::shift_down_to_0`], faster.
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
    fn a_distance_is_carried_and_rescaled_exactly() {
        let mut tag = ExactTag::at(10 << FRACTION);
        tag.add(2, weight(3));
        tag.carry(10 << FRACTION, 70 << FRACTION);
        tag.rescale(70 << FRACTION, weight(3), weight(5));
        let mut expected = ExactTag::at(70 << FRACTION);
        expected.add(2, weight(5));
        assert_eq!(tag, expected);
        tag.rescale(71 << FRACTION, weight(5), weight(3));
        tag.add(3, weight(3));
        assert_eq!(tag, ExactTag::at(71 << FRACTION), "3/5 behind, which is 3 of work");
        tag.rescale(80 << FRACTION, weight(9), weight(1));
        assert_eq!(tag, ExactTag::at(0));
        tag.carry(1, 0);
        assert_eq!(tag, ExactTag::at(0));
    }

    #[test]
    fn work_is_found_from_two_tags() {
        let mut random = Seed(7).stream("test");
        for _ in 0..10_000 {
            let [weight, before] = [0; 2].map(|_| weight(1 + (random.bits() >> (32 + random.below(32))) as u32 / 2));
            let mut tag = ExactTag::at(Tag::from(random.bits()));
            tag.add(random.below(1000), before);
            tag.reweigh(0, before, weight);
            for work in [0, 1, random.bits() >> (1 + random.below(63))] {
                let mut later = tag;
                later.add(work, weight);
                assert_eq!(tag.work_until(later.tag(), weight), work, "{tag:?} at {weight:?}");
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
        let mut tag = TotalTag::at(0);
        tag.shift(1, 3);
        tag.rebase(3, 6);
        tag.shift(4, 6);
        assert_eq!(tag, TotalTag::at(1 << FRACTION));
        tag.shift_down_to_0(-7, 6);
        assert_eq!(tag, TotalTag::at(0));
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

    /// A client's tag does as the system's does, in half the room.
    #[test]
    fn a_clients_tag_is_exact() {
        let mut random = Seed(7).stream("test");
        for _ in 0..1000 {
            let weight = weight(1 + (random.bits() >> (32 + random.below(32))) as u32 / 2);
            let by = Divisor::new(weight.get().into());
            let (mut small, mut large) = (ExactTag::at(1 << 80), TotalTag::at(1 << 80));
            for _ in 0..20 {
                let [used, estimate] = [0; 2].map(|_| random.bits() >> (24 + random.below(40)));
                match random.below(3) {
                    0 => small.settle(used, estimate, weight),
                    1 => small.correct(used, estimate, &by),
                    _ => {
                        small.add(used, weight);
                        small.retreat(estimate, &by);
                    }
                }
                large.shift(i128::from(used) - i128::from(estimate), weight.get().into());
                assert_eq!(small, large.packed(), "{used} - {estimate} at {weight:?}");
                assert_eq!(small.tag(), large.tag);
            }
        }
    }

    #[test]
    fn tags_of_clients_are_small_and_stop_at_the_greatest() {
        assert_eq!((size_of::<ExactTag>(), size_of::<PackedTag>()), (16, 12));
        for tag in [0, 1, 1 << 32, 1 << 64, (1 << 64) - 1, TAG_MAX, TAG_MAX + 1, Tag::MAX] {
            let kept = tag.min(TAG_MAX);
            assert_eq!((ExactTag::at(tag).tag(), PackedTag::new(tag).tag()), (kept, kept));
        }
        let mut tag = ExactTag::at(TAG_MAX - 1);
        tag.add(1, weight(1));
        assert_eq!(tag, ExactTag::at(TAG_MAX));
    }

    #[test]
    fn fast_and_slow_shifts_agree() {
        let mut random = Seed(7).stream("test");
        for _ in 0..1000 {
            let weight = 1 + (random.bits() >> (12 + random.below(52)));
            let by = Divisor::new(weight);
            let (mut fast, mut slow) = (TotalTag::at(1 << 70), TotalTag::at(1 << 70));
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
