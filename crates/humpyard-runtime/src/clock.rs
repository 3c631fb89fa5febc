//! The time of a live run: that of the machine, or one of its own.

use humpyard_core::cost::CostModel;
use humpyard_core::unit::Time;
use nix::time::{ClockId, clock_gettime};

/// Which time a run goes by.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// That of the machine. Work takes as long as it takes.
    #[default]
    Real,
    /// One of its own, which goes from one event to the next as in the simulator. Services do their work for real, on the
    /// calling thread alone, but a packet keeps its core busy for as long as this model says. The same input, paced, gives the same run.
    ///
    /// Where a core has one packet in flight at a time, the mechanism and its policies see exactly what the simulator lets
    /// them see: the same calls with the same times in the same order.
    Virtual(Box<CostModel>),
}

/// Real time since the start of the run, the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    /// What the machine's clock showed.
    start_ns: u64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { start_ns: monotonic_ns() }
    }

    #[inline]
    pub(crate) fn read(self) -> Time {
        Time::from_ns(monotonic_ns() - self.start_ns)
    }
}

/// Reads the clock behind [`std::time::Instant`], in ns. It is read at each packet, where the conversions of `Instant` and
/// `Duration` take twice as long as the clock.
#[inline]
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// The time as the dispatcher sees it.
#[derive(Debug)]
pub(crate) enum Now {
    Real(Stopwatch),
    Virtual(Time),
}

impl Now {
    #[inline]
    pub(crate) fn read(&self) -> Time {
        match self {
            Self::Real(stopwatch) => stopwatch.read(),
            Self::Virtual(now) => *now,
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }
}
