//! What the threads of a run with several dispatchers share.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use humpyard_core::unit::Time;

use crate::clock::Stopwatch;
use crate::load::SharedLoad;
use crate::wait::Doorbell;

/// What the threads of a run share.
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
    /// What the calling thread sleeps on.
    pub(super) bell: Arc<Doorbell>,
    /// Frames read.
    pub(super) frames: AtomicU64,
    /// How much of the source was read, in bits of a float; NaN where that is not known.
    pub(super) progress: AtomicU64,
    /// How busy each dispatcher has been so far.
    pub(super) loads: Vec<SharedLoad>,
}

impl Common {
    /// The calling thread is ready: returns when all are, or the run is to end, with the time since which arrivals
    /// count.
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

    /// Nothing more is to be read.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn progress(&self, frames: u64, read: Option<f64>) {
        self.frames.store(frames, Ordering::Relaxed);
        self.progress.store(read.unwrap_or(f64::NAN).to_bits(), Ordering::Relaxed);
    }
}
