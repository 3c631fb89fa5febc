//! The clock of a live run: the machine's, or a virtual one.

use humpyard_core::cost::CostModel;
use humpyard_core::unit::Time;
use nix::time::{ClockId, clock_gettime};

/// The clock of a run.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock. Work takes its real time.
    #[default]
    Real,
    /// A virtual clock, which goes from one event to the next as in the simulator. Services do
    /// their work for real, on the calling thread alone. But a packet keeps its core busy for as
    /// long as this model says. The same paced input gives the same run.
    ///
    /// If a core has one packet in flight at a time, the mechanism and its policies get the same
    /// calls as in the simulator: with the same times, in the same order.
    Virtual(Box<CostModel>),
}

/// Real time since the start of the run, the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    /// The reading of the machine's clock at the start.
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

/// Reads the clock behind [`std::time::Instant`], in ns. Called for each packet: the conversions of
/// `Instant` and `Duration` would take twice as long as the clock.
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
