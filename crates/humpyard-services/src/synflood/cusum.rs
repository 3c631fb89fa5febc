//! The cumulative sum of the excess of openings over closings, in integers.

/// One, in the fixed point of averages, sums and limits: millionths.
pub(super) const ONE: u64 = 1_000_000;

/// The parameters of the sum, in millionths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Subtracted from the sum in each period: the paper's a.
    pub(super) offset: u64,
    /// The sum above which there is an alarm: the paper's N.
    pub(super) threshold: u64,
    /// The weight of the old average when a period is added: the paper's alpha.
    pub(super) keep: u64,
    /// The lower limit of the average, in segments per period.
    pub(super) floor: u64,
}

/// The paper's y, after some periods.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cusum {
    limits: Limits,
    /// Exponential average of closing segments per period. `None`: no period has ended.
    average: Option<u64>,
    sum: u64,
}

/// The result of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Judgement {
    /// Whether the sum is above the threshold.
    pub(super) alarm: bool,
    /// Whether the period by itself indicates a flood: the sum rose.
    pub(super) rising: bool,
}

impl Cusum {
    pub(super) const fn new(limits: Limits) -> Self {
        Self { limits, average: None, sum: 0 }
    }

    /// Closes a period with these openings and closings.
    pub(super) fn close(&mut self, openings: u64, closings: u64) -> Judgement {
        let Limits { offset, threshold, keep, floor } = self.limits;
        let now = u128::from(closings) * u128::from(ONE);
        let average = self.average.map_or(now, |before| {
            (u128::from(before) * u128::from(keep) + now * u128::from(ONE - keep)) / u128::from(ONE)
        });
        let average = u64::try_from(average).unwrap_or(u64::MAX);
        self.average = Some(average);
        let excess = i128::from(openings) - i128::from(closings);
        let relative = excess * i128::from(ONE) * i128::from(ONE) / i128::from(average.max(floor).max(1));
        let step = relative - i128::from(offset);
        // At most twice the threshold, so that an alarm does not last much longer than the flood.
        let sum = (i128::from(self.sum) + step).clamp(0, 2 * i128::from(threshold));
        self.sum = sum as u64;
        Judgement { alarm: self.sum > threshold, rising: step > 0 }
    }

    /// Closes periods without a segment.
    pub(super) fn close_empty(&mut self, periods: u64) {
        // After this many empty periods, the average is practically 0.
        const EXACT_MAX: u64 = 1000;
        for _ in 0..periods.min(EXACT_MAX) {
            self.close(0, 0);
        }
        let rest = periods.saturating_sub(EXACT_MAX);
        self.sum = self.sum.saturating_sub(self.limits.offset.saturating_mul(rest));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The paper's constants, and a floor of 10 segments a period.
    const LIMITS: Limits = Limits { offset: 350_000, threshold: 1_050_000, keep: 900_000, floor: 10 * ONE };

    fn sums(cusum: &mut Cusum, periods: &[(u64, u64)]) -> Vec<u64> {
        let sum = |&(openings, closings)| {
            cusum.close(openings, closings);
            cusum.sum
        };
        periods.iter().map(sum).collect()
    }

    #[test]
    fn sums_worked_out_by_hand() {
        let mut cusum = Cusum::new(LIMITS);
        // The averages are 100, 100, 100, and the excesses .5, 1.05 and -1.
        assert_eq!(sums(&mut cusum, &[(150, 100), (205, 100), (0, 100)]), [150_000, 850_000, 0]);
        assert_eq!(cusum.average, Some(100 * ONE));
        // The averages are 90 and 81: 90/90 = 1, 162/81 = 2. At twice the threshold, the sum stays.
        assert_eq!(sums(&mut cusum, &[(90, 0), (162, 0), (1000, 0)]), [650_000, 2_100_000, 2_100_000]);
    }

    #[test]
    fn an_alarm_is_above_the_threshold_not_at_it() {
        let mut cusum = Cusum::new(LIMITS);
        // Below the floor: 7 of 10 is .7, so the sum rises by .35 per period, and reaches the threshold after
        // three.
        let alarms: Vec<bool> = (0..4).map(|_| cusum.close(7, 0).alarm).collect();
        assert_eq!(alarms, [false, false, false, true]);
        let mut cusum = Cusum::new(LIMITS);
        assert_eq!(cusum.close(14, 0), Judgement { alarm: false, rising: true });
        cusum = Cusum::new(LIMITS);
        assert_eq!(cusum.close(15, 0), Judgement { alarm: true, rising: true });
        // 1.15 + .3 - .35 = 1.1 is above the threshold; adding .2 - .35 goes below.
        assert_eq!(cusum.close(3, 0), Judgement { alarm: true, rising: false });
        assert_eq!(cusum.close(2, 0), Judgement { alarm: false, rising: false });
    }

    #[test]
    fn what_does_not_exceed_the_offset_is_never_an_alarm() {
        let mut cusum = Cusum::new(LIMITS);
        assert!((0..10_000).all(|_| !cusum.close(135, 100).alarm));
        let mut cusum = Cusum::new(LIMITS);
        let first = (1..).find(|_| cusum.close(136, 100).alarm);
        // The sum rises by .01 per period.
        assert_eq!(first, Some(106));
    }

    proptest! {
        /// With a constant excess of x averages, the alarm comes at the first period k with k (x - a) > N: the
        /// paper's bound.
        #[test]
        fn the_delay_is_the_papers(closings in 10u64..100_000, excess in 1u64..1_000_000) {
            let mut cusum = Cusum::new(LIMITS);
            let rise = (excess * ONE / closings).saturating_sub(LIMITS.offset);
            prop_assume!(rise > 0);
            let expected = LIMITS.threshold / rise + 1;
            prop_assume!(expected < 10_000);
            let first = (1..=expected + 1).find(|_| cusum.close(closings + excess, closings).alarm);
            // Fixed point rounds each period's excess down.
            prop_assert!(first.is_some_and(|first| first.abs_diff(expected) <= expected / 1000));
        }

        #[test]
        fn any_counts_can_be_taken_in(periods in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..40), empty: u64) {
            let mut cusum = Cusum::new(LIMITS);
            for (openings, closings) in periods {
                cusum.close(openings, closings);
                prop_assert!(cusum.sum <= 2 * LIMITS.threshold);
            }
            let mut one_by_one = cusum;
            let few = empty % 2000;
            cusum.close_empty(few);
            (0..few).for_each(|_| { one_by_one.close(0, 0); });
            prop_assert_eq!(cusum.sum, one_by_one.sum);
            cusum.close_empty(empty);
        }
    }
}
