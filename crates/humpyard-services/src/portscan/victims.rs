//! Counts the sources that begin to try unused addresses: a growing number shows a worm.

use humpyard_core::unit::Time;

use crate::memory::Memory;
use crate::packet_time::PacketTime;

/// Attempts that make a source a victim: a single one may be a mistake.
const ATTEMPTS: u8 = 2;

/// The limits on new victims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The time over which new victims are counted.
    pub(super) interval: Time,
    /// Standard deviations above the mean, in thousandths.
    pub(super) deviations_milli: u64,
    /// The greatest number that is never too many.
    pub(super) victims: u64,
    /// Intervals in a row with too many.
    pub(super) intervals: u64,
}

/// New victims in each of the last intervals.
#[derive(Debug)]
pub(super) struct Victims {
    limits: Limits,
    time: PacketTime,
    /// The end of the current interval.
    end: Time,
    /// New victims in the current interval.
    new: u64,
    /// Attempts of each source, up to [`ATTEMPTS`]; the least recently seen source is evicted.
    sources: Memory<u8>,
    /// New victims in the earlier intervals, as a ring; 0 for intervals before the start.
    history: Box<[u64]>,
    /// The ring's next place.
    next: usize,
    /// Number of earlier intervals, up to the length of the ring.
    known: usize,
    /// Intervals in a row with too many, and the victims in them.
    in_a_row: u64,
    victims_in_a_row: u64,
}

impl Victims {
    /// Returns a counter that remembers `sources` sources and `history` intervals.
    pub(super) fn new(limits: Limits, history: usize, sources: usize) -> Self {
        Self {
            limits,
            time: PacketTime::default(),
            end: limits.interval,
            new: 0,
            sources: Memory::new(sources),
            history: vec![0; history].into(),
            next: 0,
            known: 0,
            in_a_row: 0,
            victims_in_a_row: 0,
        }
    }

    /// Handles an attempt of a source, given by its hash. Returns the victims in the intervals that ended, if
    /// there were too many in enough intervals in a row.
    pub(super) fn attempt(&mut self, source: u64, time: Time) -> Option<u64> {
        let now = self.time.advance(time);
        let alarm = self.close_until(now);
        let attempts = self.sources.get(source).0;
        if *attempts < ATTEMPTS {
            *attempts += 1;
            self.new += u64::from(*attempts == ATTEMPTS);
        }
        alarm
    }

    /// Closes the intervals that are over. All but the first of them were empty.
    fn close_until(&mut self, now: Time) -> Option<u64> {
        if now < self.end {
            return None;
        }
        let alarm = self.close();
        let empty = now.since(self.end).as_ns() / self.limits.interval.as_ns();
        // After as many empty intervals as the ring holds, more change nothing.
        for _ in 0..empty.min(self.history.len() as u64) {
            self.close();
        }
        self.end += Time::from_ns((empty + 1).saturating_mul(self.limits.interval.as_ns()));
        alarm
    }

    /// Closes an interval, and compares it with those before.
    fn close(&mut self) -> Option<u64> {
        let new = core::mem::take(&mut self.new);
        if self.is_too_many(new) {
            self.in_a_row += 1;
            self.victims_in_a_row += new;
        } else {
            (self.in_a_row, self.victims_in_a_row) = (0, 0);
        }
        self.history[self.next] = new;
        self.next = (self.next + 1) % self.history.len();
        self.known = (self.known + 1).min(self.history.len());
        (self.in_a_row >= self.limits.intervals).then_some(self.victims_in_a_row)
    }

    /// Returns whether `new` exceeds the mean by the given number of standard deviations, in integers. With n
    /// intervals, sum s and sum of squares q, n times the mean is `s`, and n² times the variance is `n q - s²`.
    fn is_too_many(&self, new: u64) -> bool {
        if new <= self.limits.victims || self.known < self.history.len() {
            return false;
        }
        let n = self.history.len() as u128;
        let sum: u128 = self.history.iter().map(|&one| u128::from(one)).sum();
        let squares: u128 = self.history.iter().map(|&one| u128::from(one) * u128::from(one)).sum();
        let Some(above) = (n * u128::from(new)).checked_sub(sum).filter(|&above| above > 0) else { return false };
        let deviations = u128::from(self.limits.deviations_milli);
        above * above * 1_000_000 > deviations * deviations * (n * squares - sum * sum)
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::hash::mix;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Returns the alarms at the end of each second; in second i, `counts[i]` sources become victims.
    fn alarms(victims: &mut Victims, counts: &[u64]) -> Vec<(usize, u64)> {
        let mut alarms = Vec::new();
        let mut source = 0;
        for (second, &count) in counts.iter().enumerate() {
            let time = Time::from_ns(second as u64 * SECOND);
            // A source with one attempt is no victim, but advances the time.
            source += 1;
            alarms.extend(victims.attempt(mix(source), time).map(|victims| (second, victims)));
            for _ in 0..count {
                source += 1;
                for _ in 0..5 {
                    assert_eq!(victims.attempt(mix(source), time), None);
                }
            }
        }
        alarms
    }

    fn victims(deviations_milli: u64, intervals: u64) -> Victims {
        let limits = Limits { interval: Time::from_ns(SECOND), deviations_milli, victims: 0, intervals };
        Victims::new(limits, 4, 1024)
    }

    /// 1, 3, 1, 3 have mean 2 and standard deviation 1: 4 is at two deviations, and not above; 5 is above.
    #[test]
    fn the_threshold_is_mean_and_deviations() {
        assert_eq!(alarms(&mut victims(2000, 1), &[1, 3, 1, 3, 4, 0]), []);
        assert_eq!(alarms(&mut victims(2000, 1), &[1, 3, 1, 3, 5, 0]), [(5, 5)]);
        assert_eq!(alarms(&mut victims(2999, 1), &[1, 3, 1, 3, 5, 0]), [(5, 5)]);
        assert_eq!(alarms(&mut victims(3000, 1), &[1, 3, 1, 3, 5, 0]), []);
    }

    #[test]
    fn it_takes_several_intervals_in_a_row() {
        // After 5: 3, 1, 3, 5 have mean 3 and deviation sqrt 2, so 6 is above two deviations. After 6, 1, 3, 5,
        // 6 make 8 just too low.
        assert_eq!(alarms(&mut victims(2000, 2), &[1, 3, 1, 3, 5, 6, 0]), [(6, 11)]);
        assert_eq!(alarms(&mut victims(2000, 2), &[1, 3, 1, 3, 5, 1, 6, 0]), []);
        assert_eq!(alarms(&mut victims(2000, 2), &[1, 3, 5]), [], "too little is known");
    }

    #[test]
    fn long_silence_takes_no_time() {
        let mut victims = victims(2000, 1);
        assert_eq!(alarms(&mut victims, &[9, 9, 9, 9, 9]), []);
        assert_eq!(victims.attempt(1, Time::from_ns(u64::MAX / 2)), None);
        assert_eq!(victims.history[..], [0; 4]);
    }
}
