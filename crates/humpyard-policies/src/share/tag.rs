//! Virtual time: the service that a client, or the system, has received, in work per weight.

use humpyard_core::unit::{Weight, Work};

/// The number of fraction bits of a tag. With 96 bits in all, 2^64 units of work per weight fit: no
/// run is that long.
pub(crate) const FRACTION: u32 = 32;

/// The greatest tag of a client; tags saturate there.
pub(crate) const TAG_MAX: Tag = (1 << 96) - 1;

/// Work below this leaves room in 64 bits for the fraction and for a remainder.
const SHORT: Work = 1 << (63 - FRACTION);

/// A virtual time, in work per weight, with 32 fraction bits.
///
/// This form is for arithmetic. Clients store [`ExactTag`] and [`PackedTag`], which are smaller.
pub(crate) type Tag = u128;

/// A weight as a divisor, with its reciprocal: a division takes a multiplication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    weight: u64,
    /// 2^64 over the weight, or less by at most 1.
    reciprocal: u64,
}

impl Divisor {
    /// Creates a divisor of this weight, from 1 to 2^62.
    pub(crate) fn new(weight: u64) -> Self {
        Self { weight, reciprocal: u64::MAX / weight }
    }

    /// Returns the weight.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns the quotient and the remainder. The estimated quotient is low by less than `number`
    /// / 2^64 and its rounding: by at most 1.
    #[inline]
    pub(crate) fn divide(&self, number: u64) -> (u64, u64) {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = number - quotient * self.weight;
        // If the estimate is exact, the difference wraps and is greater than the remainder.
        let rest = remainder.wrapping_sub(self.weight).min(remainder);
        (quotient + u64::from(remainder >= self.weight), rest)
    }
}

/// The weight of a client with its reciprocal, in 12 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientDivisor {
    weight: Weight,
    /// The reciprocal of its divisor, the lower half first.
    reciprocal: [u32; 2],
}

impl ClientDivisor {
    /// Creates a divisor of this weight.
    pub(crate) fn new(weight: Weight) -> Self {
        let reciprocal = Divisor::new(weight.get().into()).reciprocal;
        Self { weight, reciprocal: [reciprocal as u32, (reciprocal >> 32) as u32] }
    }

    /// Returns the weight.
    #[inline]
    pub(crate) fn weight(self) -> Weight {
        self.weight
    }

    /// Returns the divisor.
    #[inline]
    pub(crate) fn divisor(self) -> Divisor {
        let [low, high] = self.reciprocal.map(u64::from);
        Divisor { weight: self.weight.get().into(), reciprocal: high << 32 | low }
    }
}

/// A tag as a client stores it, in 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PackedTag([u32; 3]);

impl PackedTag {
    /// Packs this tag, or the greatest one.
    #[inline]
    pub(crate) fn new(tag: Tag) -> Self {
        let tag = tag.min(TAG_MAX);
        Self([tag as u32, (tag >> 32) as u32, (tag >> 64) as u32])
    }

    /// Returns the tag.
    #[inline]
    pub(crate) fn tag(self) -> Tag {
        let [low, middle, high] = self.0.map(Tag::from);
        high << 64 | middle << 32 | low
    }
}

/// The tag of a client. It grows by work over its weight without rounding loss, because it carries
/// the remainder. 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ExactTag {
    /// The lower bits of the tag, which is rounded down.
    low: u64,
    /// Its upper bits.
    high: u32,
    /// The part that was rounded off, in units of the last place over the weight.
    remainder: u32,
}

impl ExactTag {
    /// Returns exactly this tag, or the greatest one.
    #[inline]
    pub(crate) fn at(tag: Tag) -> Self {
        TotalTag::at(tag).packed()
    }

    /// Returns the tag, rounded down.
    #[inline]
    pub(crate) fn tag(self) -> Tag {
        Tag::from(self.high) << 64 | Tag::from(self.low)
    }

    /// Returns this tag, or the greatest one, plus a remainder in units of the last place over the weight.
    #[inline]
    pub(crate) fn with_remainder(tag: Tag, remainder: u32) -> Self {
        TotalTag::with_remainder(tag, remainder.into()).packed()
    }

    /// Returns the part that was rounded off, in units of the last place over the weight.
    #[inline]
    pub(crate) fn remainder(self) -> u32 {
        self.remainder
    }

    /// Moves the tag later by `work` at `weight`.
    #[inline]
    pub(crate) fn add(&mut self, work: Work, weight: Weight) {
        self.add_divided(work, weight.get().into(), |number, weight| (number / weight, number % weight));
    }

    /// Returns the work that moves this tag to `later` at `weight`: the argument of
    /// [`ExactTag::add`], if that was called on this tag.
    pub(crate) fn work_until(self, later: Tag, weight: Weight) -> Work {
        // The result is exact up to a remainder below one unit of work.
        let last_places = later.saturating_sub(self.tag()) * Tag::from(weight.get());
        last_places.saturating_sub(self.remainder.into()).div_ceil(1 << FRACTION) as Work
    }

    /// Moves the tag by `used - estimate` at `weight`; earlier if that is negative, but not below 0.
    pub(crate) fn settle(&mut self, used: Work, estimate: Work, weight: Weight) {
        if used != estimate {
            self.change(|tag| tag.shift_down_to_0(i128::from(used) - i128::from(estimate), weight.get().into()));
        }
    }

    /// Moves the tag so that its distance from `to` is its former distance from `from`, but not below 0.
    pub(crate) fn carry(&mut self, from: Tag, to: Tag) {
        self.change(|tag| match (tag.tag + to).checked_sub(from) {
            Some(later) => tag.tag = later,
            None => *tag = TotalTag::default(),
        });
    }

    /// Scales the distance from `origin` so that it is the same work at weight `to` as before at
    /// weight `from`. The tag does not fall below 0.
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

    /// Changes the weight to `to`; the last `work` of growth counts at that weight too.
    ///
    /// The remainder is relative to the weight `from`: its rest is dropped, less than one unit of
    /// the last place.
    pub(crate) fn reweigh(&mut self, work: Work, from: Weight, to: Weight) {
        self.change(|tag| {
            tag.shift(-i128::from(work), from.get().into());
            tag.remainder = 0;
            tag.shift(i128::from(work), to.get().into());
        });
    }

    /// As [`ExactTag::add`] at the weight of `by`, but faster.
    #[inline]
    pub(crate) fn advance(&mut self, work: Work, by: &Divisor) {
        self.add_divided(work, by.weight, |number, _| by.divide(number));
    }

    /// Moves the tag later by `work` at `weight`; `divide` returns the quotient and the remainder
    /// of a number and the weight.
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

    /// Moves the tag earlier by `work` at the weight of `by`, but not below 0.
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

    /// Moves the tag by `used - estimate` at the weight of `by`; earlier if that is negative, but not below 0.
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

/// The tag of the system: as [`ExactTag`], but it grows by work over a sum of weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TotalTag {
    /// The tag, rounded down.
    pub(crate) tag: Tag,
    /// The part that was rounded off, in units of the last place over the sum of weights.
    remainder: u64,
}

impl TotalTag {
    /// Returns exactly this tag.
    #[inline]
    pub(crate) fn at(tag: Tag) -> Self {
        Self { tag, remainder: 0 }
    }

    /// Returns this tag plus a remainder, in units of the last place over the sum of weights.
    #[inline]
    pub(crate) fn with_remainder(tag: Tag, remainder: u64) -> Self {
        Self { tag, remainder }
    }

    /// Returns the part that was rounded off, in units of the last place over the sum of weights.
    #[inline]
    pub(crate) fn remainder(self) -> u64 {
        self.remainder
    }

    /// Converts to the tag of a client; the remainder must be relative to a client's weight.
    #[inline]
    fn packed(self) -> ExactTag {
        debug_assert!(self.remainder <= u32::MAX.into(), "a remainder is below the weight");
        let (low, high) = match u32::try_from((self.tag >> 64) as u64) {
            Ok(high) => (self.tag as u64, high),
            Err(_) => (u64::MAX, u32::MAX),
        };
        ExactTag { low, high, remainder: self.remainder as u32 }
    }

    /// Changes the weight by which it grows from `from` to `to`.
    pub(crate) fn rebase(&mut self, from: u64, to: u64) {
        if self.remainder > 0 {
            self.remainder = match self.remainder.checked_mul(to) {
                Some(product) => product / from,
                None => (u128::from(self.remainder) * u128::from(to) / u128::from(from)) as u64,
            };
        }
    }

    /// As [`TotalTag::shift`] by `work` at the weight of `by`, but faster.
    #[inline]
    pub(crate) fn advance(&mut self, work: Work, by: &Divisor) {
        if work >= SHORT {
            return self.shift(work.into(), by.weight);
        }
        let (quotient, remainder) = by.divide((work << FRACTION) + self.remainder);
        *self = Self { tag: self.tag + Tag::from(quotient), remainder };
    }

    /// As [`TotalTag::shift_down_to_0`] by minus `work` at the weight of `by`, but faster.
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

    /// Moves the tag by `used - estimate` at the weight of `by`; earlier if that is negative, but not below 0.
    #[inline]
    pub(crate) fn correct(&mut self, used: Work, estimate: Work, by: &Divisor) {
        if used >= estimate {
            self.advance(used - estimate, by);
        } else {
            self.retreat(estimate - used, by);
        }
    }

    /// Moves the tag by `work` at `weight`; earlier if that is negative, but not below 0.
    pub(crate) fn shift_down_to_0(&mut self, work: i128, weight: u64) {
        *self = self.shifted(work, weight).unwrap_or_default();
    }

    /// Moves the tag by `work` at `weight`; earlier if that is negative.
    pub(crate) fn shift(&mut self, work: i128, weight: u64) {
        *self = self.shifted(work, weight).expect("a tag never leaves its range");
    }

    fn shifted(self, work: i128, weight: u64) -> Option<Self> {
        // The quotient almost always fits 64 bits, where division is several times faster.
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

    /// A client's tag behaves as the system's, in half the memory.
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
