//! Step counts: they show how the work of a decision grows, without a clock.
//!
//! A step is an access to an item of an [`IdVec`](crate::id::IdVec), to a word of a set, or to a
//! node of a heap: the parts of a policy's state. Iterating over an `IdVec` counts each item. Steps
//! are counted only with the feature `steps`, which is for tests; without it the counters compile
//! to nothing.

#[cfg(feature = "steps")]
extern crate std;

#[cfg(feature = "steps")]
std::thread_local! {
    static TAKEN: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Counts this many steps. A policy calls it for accesses to its own arrays, if their number may
/// grow.
#[inline]
pub fn taken(_steps: usize) {
    #[cfg(feature = "steps")]
    TAKEN.with(|taken| taken.set(taken.get() + _steps as u64));
}

/// The steps that `run` takes on this thread.
#[cfg(feature = "steps")]
pub fn count(run: impl FnOnce()) -> u64 {
    let before = TAKEN.with(core::cell::Cell::get);
    run();
    TAKEN.with(core::cell::Cell::get) - before
}
