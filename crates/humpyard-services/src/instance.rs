//! Numbers of instances: the part of a service that a clone must not share.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// The number of an instance among the clones of one service. A clone gets the next number.
#[derive(Debug)]
pub(crate) struct Instance {
    number: u32,
    next: Arc<AtomicU32>,
}

impl Instance {
    /// Returns the first instance of a service: number 0.
    pub(crate) fn first() -> Self {
        Self { number: 0, next: Arc::new(AtomicU32::new(1)) }
    }

    /// Returns its number. `None`: the number is not below `limit`.
    pub(crate) fn number_below(&self, limit: u32) -> Option<u32> {
        (self.number < limit).then_some(self.number)
    }
}

impl Clone for Instance {
    fn clone(&self) -> Self {
        // Saturates at the last number, which must not be used, instead of wrapping to 0.
        let next = |number: u32| Some(number.saturating_add(1));
        let number = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(u32::MAX);
        Self { number, next: Arc::clone(&self.next) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_the_same_number() {
        let first = Instance::first();
        let second = first.clone();
        let numbers = [&first, &second, &second.clone(), &first.clone()].map(|instance| instance.number);
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(second.number_below(2), Some(1));
        assert_eq!(second.number_below(1), None);
    }
}
