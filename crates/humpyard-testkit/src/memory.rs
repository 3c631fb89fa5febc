//! A journal in memory.

use alloc::sync::Arc;
use std::sync::Mutex;

use humpyard_core::mechanism::{Journal, Record};

/// A journal of which the test keeps a clone.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Vec<Record>>>);

impl Memory {
    /// With room for so many records, before it allocates.
    pub fn with_capacity(records: usize) -> Self {
        Self(Arc::new(Mutex::new(Vec::with_capacity(records))))
    }

    /// What was written since it was last asked.
    ///
    /// # Panics
    /// If somebody panicked while writing.
    pub fn take(&self) -> Vec<Record> {
        core::mem::take(&mut *self.0.lock().expect("nobody panicked"))
    }
}

impl Journal for Memory {
    fn record(&mut self, record: Record) {
        self.0.lock().expect("nobody panicked").push(record);
    }
}
