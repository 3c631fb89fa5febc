//! Arrival times of frames: as captured, faster or slower, or at a fixed rate.

use humpyard_core::unit::Time;

/// The rule for arrival times.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Pace {
    /// As captured, from the first frame on.
    #[default]
    Trace,
    /// As captured, with every gap multiplied by this factor.
    Stretched(f64),
    /// Evenly spaced, at this rate in frames/s.
    PacketsPerSecond(f64),
}

/// A greater step back is a jump of the clock; a smaller one is a packet captured late.
const JUMP_BACK: Time = Time::from_ns(1_000_000_000);
/// A greater step forward is a jump of the clock, not a gap between packets.
const JUMP_FORWARD: Time = Time::from_ns(3_600 * 1_000_000_000);

/// Counts of a capture's clock jumps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockJumps {
    /// Jumps back by more than a second.
    pub backward: u64,
    /// Jumps forward by more than an hour.
    pub forward: u64,
}

/// The elapsed time in a capture, whose own clock may jump. It never goes back.
///
/// After a step back of at most a second, a packet arrives with the previous one, and time stands still until
/// the clock has caught up. A greater step back is a jump: the packet arrives with the previous one, and time
/// continues from there.
#[derive(Clone, Debug, Default)]
pub struct CaptureClock {
    /// The capture's clock at the time `elapsed`. `None`: no packet was seen.
    reference: Option<Time>,
    elapsed: Time,
    jumps: ClockJumps,
}

impl CaptureClock {
    /// Returns the time from the first packet to a packet with this time. If `skip` is set, a jump forward
    /// takes no time.
    #[inline(always)]
    pub fn elapsed(&mut self, captured: Time, skip: bool) -> Time {
        let reference = *self.reference.get_or_insert(captured);
        if captured >= reference {
            let mut step = captured.since(reference);
            if skip && step > JUMP_FORWARD {
                self.jumps.forward += 1;
                step = Time::ZERO;
            }
            self.elapsed = Time::from_ns(self.elapsed.as_ns().saturating_add(step.as_ns()));
            self.reference = Some(captured);
        } else if reference.since(captured) > JUMP_BACK {
            self.jumps.backward += 1;
            self.reference = Some(captured);
        }
        self.elapsed
    }
}

/// Gives each frame of a source its arrival time: never before that of the previous frame.
///
/// With arrivals as captured, jumps of the capture's clock (more than a second back, more than an hour forward)
/// take no time, and are counted.
#[derive(Clone, Debug)]
pub struct Pacer {
    pace: Pace,
    clock: CaptureClock,
    skip: bool,
    frames: u64,
    latest: Time,
}

impl Pacer {
    /// Returns a pacer whose first frame arrives at 0.
    pub fn new(pace: Pace) -> Self {
        Self { pace, clock: CaptureClock::default(), skip: true, frames: 0, latest: Time::ZERO }
    }

    /// Keeps long gaps: for a source with a reliable clock, such as a generator.
    #[must_use]
    pub fn with_long_gaps(mut self) -> Self {
        self.skip = false;
        self
    }

    /// Returns the arrival time of the next frame, which was captured at this time.
    #[inline]
    pub fn arrival(&mut self, captured: Time) -> Time {
        let arrival = match self.pace {
            Pace::Trace => self.clock.elapsed(captured, self.skip).as_ns(),
            Pace::Stretched(factor) => (self.clock.elapsed(captured, self.skip).as_ns() as f64 * factor) as u64,
            Pace::PacketsPerSecond(rate) => (self.frames as f64 * 1e9 / rate) as u64,
        };
        self.frames += 1;
        self.latest = self.latest.max(Time::from_ns(arrival));
        self.latest
    }

    /// Adds the arrival times of the next frames, which were captured at these times.
    ///
    /// Never inlined: within a large caller, the loop would keep its state in memory and need 8 more
    /// instructions per frame.
    #[inline(never)]
    pub fn add_arrivals(&mut self, captured: impl IntoIterator<Item = Time>, arrivals: &mut Vec<Time>) {
        let captured = captured.into_iter();
        match self.pace {
            // Elapsed time never goes back, so each arrival is the latest.
            Pace::Trace => {
                // A copy stays in registers.
                let (mut clock, skip) = (self.clock.clone(), self.skip);
                arrivals.extend(captured.map(|time| clock.elapsed(time, skip)));
                self.clock = clock;
            }
            _ => arrivals.extend(captured.map(|time| self.arrival(time))),
        }
    }

    /// Returns the jumps of the capture's clock up to now; 0 if arrivals do not follow that clock.
    pub fn jumps(&self) -> ClockJumps {
        self.clock.jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(pace: Pace, captured: [u64; 4]) -> [u64; 4] {
        let mut pacer = Pacer::new(pace);
        captured.map(|time| pacer.arrival(Time::from_ns(time)).as_ns())
    }

    #[test]
    fn paces() {
        assert_eq!(arrivals(Pace::Trace, [1000, 1010, 1030, 1030]), [0, 10, 30, 30]);
        assert_eq!(arrivals(Pace::Stretched(0.5), [1000, 1010, 1030, 1030]), [0, 5, 15, 15]);
        assert_eq!(arrivals(Pace::PacketsPerSecond(1e8), [1000, 1010, 1030, 1030]), [0, 10, 20, 30]);
    }

    /// For any clock of the capture.
    #[test]
    fn many_frames_are_paced_as_one_by_one() {
        for pace in [Pace::Trace, Pace::Stretched(0.3), Pace::PacketsPerSecond(1e6)] {
            for skip in [true, false] {
                let mut random = humpyard_core::random::Seed(1).stream("test");
                let mut one_by_one = Pacer { skip, ..Pacer::new(pace) };
                let mut many = one_by_one.clone();
                for _ in 0..100 {
                    let time = |_| Time::from_ns(random.bits() >> random.below(64));
                    let captured: Vec<Time> = (0..20).map(time).collect();
                    let expected: Vec<Time> = captured.iter().map(|&time| one_by_one.arrival(time)).collect();
                    let mut arrivals = Vec::new();
                    many.add_arrivals(captured, &mut arrivals);
                    assert_eq!((arrivals, many.jumps()), (expected, one_by_one.jumps()));
                }
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        assert_eq!(arrivals(Pace::Trace, [1000, 1010, 900, 1005]), [0, 10, 10, 10]);
    }

    #[test]
    fn jumps_take_no_time_and_are_counted() {
        const SECOND: u64 = 1_000_000_000;
        let start = 1_000 * SECOND;
        let mut pacer = Pacer::new(Pace::Trace);
        let mut arrivals = |captured: &[u64]| -> Vec<u64> {
            captured.iter().map(|&time| pacer.arrival(Time::from_ns(time)).as_ns()).collect()
        };
        // A step back of a second is a late packet; a greater one is a jump, after which time continues.
        assert_eq!(arrivals(&[start, start + 5, start + 5 - SECOND, start + 7]), [0, 5, 5, 7]);
        assert_eq!(arrivals(&[start + 6 - SECOND, start + 9 - SECOND, start + 30 - SECOND]), [7, 10, 31]);
        // An hour is a gap; more is a jump. A single wild time is two jumps, and all later times are right.
        let later = start + 30 - SECOND + 3_600 * SECOND;
        let hour = 31 + 3_600 * SECOND;
        assert_eq!(arrivals(&[later, u64::MAX, later + 1, later + 5]), [hour, hour, hour, hour + 4]);
        assert_eq!(pacer.jumps(), ClockJumps { backward: 2, forward: 1 });
        let mut patient = Pacer::new(Pace::Trace).with_long_gaps();
        assert_eq!([5, u64::MAX].map(|time| patient.arrival(Time::from_ns(time)).as_ns()), [0, u64::MAX - 5]);
        assert_eq!(patient.jumps(), ClockJumps::default());
        let mut even = Pacer::new(Pace::PacketsPerSecond(1.0));
        assert_eq!([7, u64::MAX, 0].map(|time| even.arrival(Time::from_ns(time)).as_ns()), [0, SECOND, 2 * SECOND]);
        assert_eq!(even.jumps(), ClockJumps::default());
    }
}
