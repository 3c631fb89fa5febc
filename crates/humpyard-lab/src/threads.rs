//! Threads that do the items of one list.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// Ends the list for all threads if its own panics: the number of the next item is beyond the last then.
#[derive(Debug)]
pub(crate) struct EndsAtPanic<'a> {
    pub(crate) next: &'a AtomicUsize,
    pub(crate) items: usize,
}

impl Drop for EndsAtPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.next.store(self.items, Ordering::Relaxed);
        }
    }
}

/// Waits for threads. The panic of one goes on here with what it carries, which the end of a scope would hide.
///
/// # Panics
/// As the first thread that panicked.
pub(crate) fn join(threads: Vec<ScopedJoinHandle<'_, ()>>) {
    let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    if let Some(payload) = ended.into_iter().find_map(Result::err) {
        resume_unwind(payload);
    }
}
