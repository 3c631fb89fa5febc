//! The time of a live run: that of the machine, or one of its own.

use std::time::Instant;

use humpyard_core::cost::CostModel;
use humpyard_core::unit::Time;

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
    start: Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn read(self) -> Time {
        Time::from_ns(self.start.elapsed().as_nanos() as u64)
    }
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
