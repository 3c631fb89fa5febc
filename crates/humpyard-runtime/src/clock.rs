//! The clock of a live run.

use std::time::Instant;

use humpyard_core::unit::Time;

/// Time since the start of the run, the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(self) -> Time {
        Time::from_ns(self.start.elapsed().as_nanos() as u64)
    }
}
