//! The connections that rules have allowed. All instances share them, so that a reply may come to any worker.

use core::sync::atomic::{AtomicU64, Ordering};

/// Places for one connection.
const WAYS: usize = 8;

/// A bounded, lock-free set of connections. An entry is one word: the hash of the connection; 0 is no entry. If
/// all places of a connection are taken, its hash selects one to evict, and the evicted connection must be
/// allowed again.
#[derive(Debug)]
pub(super) struct Connections {
    places: Box<[AtomicU64]>,
}

impl Connections {
    /// Returns a set with places for at least `entries` connections.
    pub(super) fn new(entries: usize) -> Self {
        let places = entries.next_power_of_two().max(WAYS);
        Self { places: (0..places).map(|_| AtomicU64::new(0)).collect() }
    }

    fn places(&self, key: u64) -> &[AtomicU64] {
        let start = key as usize & (self.places.len() - 1) & !(WAYS - 1);
        &self.places[start..start + WAYS]
    }

    /// Returns whether the set contains this connection.
    #[inline]
    pub(super) fn contains(&self, connection: u64) -> bool {
        let key = connection.max(1);
        // Relaxed: an entry guards no other memory.
        self.places(key).iter().any(|place| place.load(Ordering::Relaxed) == key)
    }

    /// Adds a connection. If two are added at the same time, both may be missing afterwards, but the set never
    /// contains a connection that was not added.
    #[inline]
    pub(super) fn insert(&self, connection: u64) {
        let key = connection.max(1);
        if self.contains(key) {
            return;
        }
        let places = self.places(key);
        let free =
            places.iter().find(|place| place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed).is_ok());
        if free.is_none() {
            places[(key >> 61) as usize].store(key, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::hash::mix;

    use super::*;

    #[test]
    fn what_was_added_is_in_it_and_nothing_else() {
        let connections = Connections::new(1024);
        (0..200).for_each(|i| connections.insert(mix(i)));
        assert!((0..200).all(|i| connections.contains(mix(i))));
        assert!((200..10_000).all(|i| !connections.contains(mix(i))));
        // Far more than the set has room for; the last one is in it.
        for i in 0..10_000 {
            connections.insert(mix(i));
            assert!(connections.contains(mix(i)));
        }
        assert!((10_000..20_000).all(|i| !connections.contains(mix(i))));
    }
}
