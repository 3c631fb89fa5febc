//! A bounded map by key, which evicts entries that were not touched for long.

/// Places for one key. If all are taken, the least recently touched entry is evicted.
const WAYS: usize = 4;
/// Sets per allocation.
const CHUNK_SETS: usize = 64;
/// Up to this many sets, all are allocated at the start.
const EAGER_SETS: usize = 1 << 14;

/// One place of a map.
#[derive(Clone, Copy, Debug, Default)]
struct Place<T> {
    key: u64,
    used: bool,
    value: T,
}

/// A bounded map from keys to values. An evicted key starts with a new value. Every operation is O(1). Up to
/// 65,536 keys, no operation allocates; in a larger map, a new key may allocate 256 places.
#[derive(Clone, Debug)]
pub(crate) struct Memory<T> {
    /// Chunks of sets of [`WAYS`] places, each set with the most recently touched place first. A chunk without
    /// places is not allocated yet.
    chunks: Box<[Box<[Place<T>]>]>,
    sets: usize,
}

impl<T: Copy + Default> Memory<T> {
    /// Returns a map for at least `entries` keys.
    pub(crate) fn new(entries: usize) -> Self {
        let sets = entries.div_ceil(WAYS).next_power_of_two();
        let mut memory = Self { chunks: vec![Box::default(); sets.div_ceil(CHUNK_SETS)].into(), sets };
        if sets <= EAGER_SETS {
            memory.chunks.fill(chunk());
        }
        memory
    }

    /// Returns the value of a key, new if the key is not in the map, and the value evicted for it, if any. The
    /// key must be a hash.
    #[inline]
    pub(crate) fn get(&mut self, key: u64) -> (&mut T, Option<T>) {
        let set = key as usize & (self.sets - 1);
        let places = &mut self.chunks[set / CHUNK_SETS];
        if places.is_empty() {
            *places = chunk();
        }
        let start = set % CHUNK_SETS * WAYS;
        let set = &mut places[start..start + WAYS];
        let found = set.iter().position(|place| place.used && place.key == key);
        let at = found.unwrap_or(WAYS - 1);
        set[..=at].rotate_right(1);
        let place = &mut set[0];
        let mut forgotten = None;
        if found.is_none() {
            forgotten = place.used.then_some(place.value);
            *place = Place { key, used: true, value: T::default() };
        }
        (&mut place.value, forgotten)
    }

    /// Returns the value of a key that is in the map, without touching it.
    pub(crate) fn peek(&self, key: u64) -> Option<&T> {
        let set = key as usize & (self.sets - 1);
        let start = set % CHUNK_SETS * WAYS;
        let places = self.chunks[set / CHUNK_SETS].get(start..start + WAYS)?;
        places.iter().find(|place| place.used && place.key == key).map(|place| &place.value)
    }

    /// Returns all values in the map.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().filter(|place| place.used).map(|place| &place.value)
    }
}

/// Returns a chunk of unused places.
fn chunk<T: Copy + Default>() -> Box<[Place<T>]> {
    vec![Place::default(); CHUNK_SETS * WAYS].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_many_is_allocated_as_keys_come() {
        let mut memory = Memory::<u32>::new(1 << 24);
        let allocated = |memory: &Memory<u32>| memory.chunks.iter().filter(|chunk| !chunk.is_empty()).count();
        assert_eq!(allocated(&memory), 0);
        for key in 0..100u64 {
            *memory.get(humpyard_core::hash::mix(key)).0 = key as u32;
        }
        assert!(allocated(&memory) <= 100);
        assert!((0..100).all(|key| *memory.get(humpyard_core::hash::mix(key)).0 == key as u32));
        assert_eq!(memory.values().count(), 100);
        let small = Memory::<u32>::new(1 << 16);
        assert_eq!(allocated(&small), small.chunks.len());
    }

    #[test]
    fn the_least_recently_touched_makes_room() {
        let mut memory = Memory::<u32>::new(4);
        for key in 1..=4 {
            *memory.get(key).0 = key as u32 * 10;
        }
        assert_eq!(*memory.get(1).0, 10);
        assert_eq!(memory.get(5), (&mut 0, Some(20)));
        assert_eq!(*memory.get(1).0, 10);
        assert_eq!(memory.get(2), (&mut 0, Some(30)));
        assert_eq!(memory.values().count(), 4);
    }
}
