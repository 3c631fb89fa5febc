//! State shared by the threads of a run with several dispatchers.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use humpyard_core::unit::Time;

use crate::clock::Stopwatch;
use crate::load::SharedLoad;
use crate::wait::Doorbell;

/// State shared by the threads of a run.
pub(super) struct Common {
    pub(super) stopwatch: Stopwatch,
    /// Threads that are not ready yet.
    pub(super) missing: AtomicUsize,
    /// When all were: from then arrivals count.
    pub(super) begun: OnceLock<Time>,
    /// Set when nothing more is to be read.
    pub(super) over: AtomicBool,
    /// Threads that have not ended.
    pub(super) running: AtomicUsize,
    /// The doorbell that the calling thread sleeps on.
    pub(super) bell: Arc<Doorbell>,
    /// Frames read.
    pub(super) frames: AtomicU64,
    /// The part of the source that was read, in bits of a float; NaN if it is unknown.
    pub(super) progress: AtomicU64,
    /// The load of each dispatcher so far.
    pub(super) loads: Vec<SharedLoad>,
}

impl Common {
    /// Waits until all threads are ready, or the run is to end. Returns the time from which
    /// arrivals count.
    pub(super) fn begin(&self) -> Time {
        self.missing.fetch_sub(1, Ordering::AcqRel);
        while self.missing.load(Ordering::Acquire) > 0 && !self.is_over() {
            thread::yield_now();
        }
        *self.begun.get_or_init(|| self.stopwatch.read())
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends reading.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn progress(&self, frames: u64, read: Option<f64>) {
        self.frames.store(frames, Ordering::Relaxed);
        self.progress.store(read.unwrap_or(f64::NAN).to_bits(), Ordering::Relaxed);
    }
}
