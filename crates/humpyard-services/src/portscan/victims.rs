//! How many sources begin to try addresses that nobody has: the sign of a worm.

use humpyard_core::unit::Time;

use crate::memory::Memory;
use crate::packet_time::PacketTime;

/// A source is a victim when it tries so many times: one may be a slip.
const ATTEMPTS: u8 = 2;

/// When victims are too many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The time in which new victims are counted together.
    pub(super) interval: Time,
    /// Standard deviations above the mean, in thousandths.
    pub(super) deviations_milli: u64,
    /// So many are never too many.
    pub(super) victims: u64,
    /// Intervals in a row with too many.
    pub(super) intervals: u64,
}

/// New victims in each of the last intervals.
#[derive(Debug)]
pub(super) struct Victims {
    limits: Limits,
    time: PacketTime,
    /// When the interval ends.
    end: Time,
    /// New victims in the interval.
    new: u64,
    /// Attempts of each source, up to [`ATTEMPTS`]; the least recently seen makes room.
    sources: Memory<u8>,
    /// New victims in the intervals before, in a ring; none where there was no interval yet.
    history: Box<[u64]>,
    /// Where the next one is to be.
    next: usize,
    /// Intervals there were, up to the length of the ring.
    known: usize,
    /// Intervals in a row with too many, and the victims in them.
    in_a_row: u64,
    victims_in_a_row: u64,
}

impl Victims {
    /// Remembers `sources` sources and `history` intervals.
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

    /// An attempt of a source, by its hash. If intervals that are over by now were too many in a row: the victims in them.
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

    /// Closes the intervals that are over, all but the first of which were empty.
    fn close_until(&mut self, now: Time) -> Option<u64> {
        if now < self.end {
            return None;
        }
        let alarm = self.close();
        let empty = now.since(self.end).as_ns() / self.limits.interval.as_ns();
        // After as many as the ring holds, more change nothing.
        for _ in 0..empty.min(self.history.len() as u64) {
            self.close();
        }
        self.end += Time::from_ns((empty + 1).saturating_mul(self.limits.interval.as_ns()));
        alarm
    }

    /// Ends an interval, and judges it by those before.
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

    /// Whether `new` is more than the mean and so many standard deviations, in integers: with n intervals, sum s and sum of squares
    /// q, n times as much as the mean is `s`, and n² times the variance `n q - s²`.
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

    /// What each second's last attempts lead to: in second i `counts[i]` sources are new victims.
    fn alarms(victims: &mut Victims, counts: &[u64]) -> Vec<(usize, u64)> {
        let mut alarms = Vec::new();
        let mut source = 0;
        for (second, &count) in counts.iter().enumerate() {
            let time = Time::from_ns(second as u64 * SECOND);
            // A source that tries once is no victim, but lets time pass.
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

    /// Of 1, 3, 1, 3 mean and standard deviation are 2 and 1: 4 is at two deviations, and not above; 5 is.
    #[test]
    fn the_threshold_is_mean_and_deviations() {
        assert_eq!(alarms(&mut victims(2000, 1), &[1, 3, 1, 3, 4, 0]), []);
        assert_eq!(alarms(&mut victims(2000, 1), &[1, 3, 1, 3, 5, 0]), [(5, 5)]);
        assert_eq!(alarms(&mut victims(2999, 1), &[1, 3, 1, 3, 5, 0]), [(5, 5)]);
        assert_eq!(alarms(&mut victims(3000, 1), &[1, 3, 1, 3, 5, 0]), []);
    }

    #[test]
    fn it_takes_several_intervals_in_a_row() {
        // After 5: 3, 1, 3, 5 have mean 3 and deviation sqrt 2, so 6 is beyond two; after it 1, 3, 5, 6 let 8 be just below.
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
