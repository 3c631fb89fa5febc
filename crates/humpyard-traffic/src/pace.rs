//! When frames arrive: as captured, faster or slower, or at a rate of one's own.

use humpyard_core::unit::Time;

/// How arrival times are made.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Pace {
    /// As captured, from the first frame on.
    #[default]
    Trace,
    /// As captured, with every gap multiplied by this.
    Stretched(f64),
    /// So many frames per second, evenly.
    PacketsPerSecond(f64),
}

/// Gives each frame of a source its arrival time: never before that of the frame before it.
#[derive(Clone, Debug)]
pub struct Pacer {
    pace: Pace,
    first: Option<Time>,
    frames: u64,
    latest: Time,
}

impl Pacer {
    /// A pacer whose first frame arrives at 0.
    pub const fn new(pace: Pace) -> Self {
        Self { pace, first: None, frames: 0, latest: Time::ZERO }
    }

    /// The arrival of the next frame, which was captured at this time.
    ///
    /// A capture whose clock goes back makes frames arrive together, not in the past.
    pub fn arrival(&mut self, captured: Time) -> Time {
        let first = *self.first.get_or_insert(captured);
        let elapsed = captured.since(first).as_ns();
        let arrival = match self.pace {
            Pace::Trace => elapsed,
            Pace::Stretched(factor) => (elapsed as f64 * factor) as u64,
            Pace::PacketsPerSecond(rate) => (self.frames as f64 * 1e9 / rate) as u64,
        };
        self.frames += 1;
        self.latest = self.latest.max(Time::from_ns(arrival));
        self.latest
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

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        assert_eq!(arrivals(Pace::Trace, [1000, 1010, 900, 1005]), [0, 10, 10, 10]);
    }
}
