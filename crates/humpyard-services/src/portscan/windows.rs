//! The targets that sources tried within a window: a bounded table of small sets.

use humpyard_core::unit::Time;

/// Places for one key. If all are taken, the least recently touched one is evicted.
const WAYS: usize = 4;

/// The state of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    key: u64,
    used: bool,
    /// The start of its window: an attempt.
    begun: Time,
    /// The time of its last attempt.
    touched: Time,
    /// Different targets in its window.
    targets: usize,
    /// Attempts in its window.
    attempts: u64,
    /// The number of the alarm about it, if one was raised.
    alarm: Option<usize>,
}

/// The different targets of each key in its window, up to the threshold. Every operation is O(threshold); none
/// allocates.
///
/// The window of a key begins with an attempt and ends after a fixed time; the next attempt begins another. A
/// key with an alarm keeps it until it has had no attempt for that time.
#[derive(Debug)]
pub(super) struct Windows {
    /// Places, in sets of [`WAYS`].
    places: Box<[Place]>,
    /// The targets of each place, `threshold` per place.
    targets: Box<[u32]>,
    threshold: usize,
    window: Time,
}

/// The result of an attempt.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// Fewer targets than the threshold.
    Few,
    /// The threshold is reached after this many attempts. The caller must raise an alarm, and store its number
    /// here.
    Reached { attempts: u64, alarm: &'a mut Option<usize> },
    /// This alarm was raised before.
    Known(usize),
}

impl Windows {
    /// Returns a table for at least `entries` keys.
    pub(super) fn new(entries: usize, threshold: usize, window: Time) -> Self {
        let places = entries.div_ceil(WAYS).next_power_of_two() * WAYS;
        let targets = vec![0; places * threshold].into();
        Self { places: vec![Place::default(); places].into(), targets, threshold, window }
    }

    /// Handles an attempt of a key, which must be a hash, at a target.
    pub(super) fn attempt(&mut self, key: u64, target: u32, now: Time) -> Step<'_> {
        let at = self.place(key);
        let place = &mut self.places[at];
        let since = if place.alarm.is_some() { place.touched } else { place.begun };
        if !place.used || place.key != key || now.since(since) >= self.window {
            *place = Place { key, used: true, begun: now, ..Place::default() };
        }
        place.touched = now;
        place.attempts += 1;
        if let Some(alarm) = place.alarm {
            return Step::Known(alarm);
        }
        let targets = &mut self.targets[at * self.threshold..][..self.threshold];
        if !targets[..place.targets].contains(&target) {
            targets[place.targets] = target;
            place.targets += 1;
        }
        if place.targets < self.threshold {
            return Step::Few;
        }
        Step::Reached { attempts: place.attempts, alarm: &mut place.alarm }
    }

    /// Returns the place of a key, or the place to evict for it.
    fn place(&self, key: u64) -> usize {
        let sets = self.places.len() / WAYS;
        let start = (key as usize & (sets - 1)) * WAYS;
        let set = &self.places[start..start + WAYS];
        let known = set.iter().position(|place| place.used && place.key == key);
        let oldest = || (0..WAYS).min_by_key(|&way| (set[way].used, set[way].touched)).unwrap_or(0);
        start + known.unwrap_or_else(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the attempts before the alarm if an attempt raises one; its number is 7.
    fn reaches(windows: &mut Windows, key: u64, target: u32, now: u64) -> Option<u64> {
        match windows.attempt(key, target, Time::from_ns(now)) {
            Step::Reached { attempts, alarm } => {
                *alarm = Some(7);
                Some(attempts)
            }
            Step::Few => None,
            Step::Known(alarm) => {
                assert_eq!(alarm, 7);
                None
            }
        }
    }

    #[test]
    fn different_targets_within_the_window_count() {
        let mut windows = Windows::new(4, 3, Time::from_ns(10));
        let steps = [(1, 0, None), (2, 1, None), (2, 8, None), (3, 9, Some(4)), (4, 18, None)];
        for (target, now, expected) in steps {
            assert_eq!(reaches(&mut windows, 9, target, now), expected, "target {target} at {now}");
        }
        // After a window without attempts, the key starts again, and needs as many targets.
        for (target, now, expected) in [(1, 28, None), (2, 29, None), (3, 37, Some(3))] {
            assert_eq!(reaches(&mut windows, 9, target, now), expected, "target {target} at {now}");
        }
        // The third attempt comes after the end of the window.
        for (target, now) in [(1, 100), (2, 101), (3, 110), (4, 111)] {
            assert_eq!(reaches(&mut windows, 8, target, now), None, "target {target} at {now}");
        }
        assert_eq!(reaches(&mut windows, 8, 5, 119), Some(3));
    }

    #[test]
    fn the_least_recently_touched_makes_room() {
        let mut windows = Windows::new(4, 2, Time::from_ns(1000));
        for key in 1..=4 {
            assert_eq!(reaches(&mut windows, key, 1, key), None);
        }
        assert_eq!(reaches(&mut windows, 1, 1, 5), None);
        // Key 5 evicts key 2, which starts again.
        assert_eq!(reaches(&mut windows, 5, 1, 6), None);
        assert_eq!(reaches(&mut windows, 1, 2, 7), Some(3));
        assert_eq!(reaches(&mut windows, 2, 2, 8), None);
        assert_eq!(windows.places.len(), 4);
    }
}
