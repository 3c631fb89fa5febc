//! A journal in memory.

use alloc::sync::Arc;
use std::sync::Mutex;

use humpyard_core::mechanism::{Journal, Record};

/// A journal in memory; the test keeps a clone.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Vec<Record>>>);

impl Memory {
    /// Returns a journal with room for `records` records before it allocates.
    pub fn with_capacity(records: usize) -> Self {
        Self(Arc::new(Mutex::new(Vec::with_capacity(records))))
    }

    /// Returns the records since the last call.
    ///
    /// # Panics
    /// If another thread panicked while writing.
    pub fn take(&self) -> Vec<Record> {
        core::mem::take(&mut *self.0.lock().expect("nobody panicked"))
    }
}

impl Journal for Memory {
    fn record(&mut self, record: Record) {
        self.0.lock().expect("nobody panicked").push(record);
    }
}
