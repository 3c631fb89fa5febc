//! Counted steps: how the work of a decision grows, without a clock.
//!
//! A step is an access to an item of an [`IdVec`](crate::id::IdVec) (a walk along one counts each item), to a word of a set,
//! or to a node of a heap: what the state of policies is made of. Steps are counted with the feature `steps` alone, which is
//! for tests; without it nothing of this is left.

#[cfg(feature = "steps")]
extern crate std;

#[cfg(feature = "steps")]
std::thread_local! {
    static TAKEN: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// So many steps are taken. A policy says so of those accesses to arrays of its own whose number may grow.
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
