//! A bounded memory by key, in which what was not touched for long makes room.

/// Entries that one key may be among: of those the one makes room that was touched least recently.
const WAYS: usize = 4;

/// One place of a memory.
#[derive(Clone, Copy, Debug, Default)]
struct Place<T> {
    key: u64,
    used: bool,
    value: T,
}

/// Values by key, at most so many; a key that was made room of begins anew. Every operation is O(1); none allocates.
#[derive(Clone, Debug)]
pub(crate) struct Memory<T> {
    /// In sets of [`WAYS`], each in the order in which its places were touched, the latest first.
    places: Box<[Place<T>]>,
    sets: usize,
}

impl<T: Copy + Default> Memory<T> {
    /// A memory for at least `entries` keys.
    pub(crate) fn new(entries: usize) -> Self {
        let sets = entries.div_ceil(WAYS).next_power_of_two();
        Self { places: vec![Place::default(); sets * WAYS].into(), sets }
    }

    /// The value of a key, new if it is not known; and the value that made room for it, if one did. The key must be a hash.
    #[inline]
    pub(crate) fn get(&mut self, key: u64) -> (&mut T, Option<T>) {
        let start = (key as usize & (self.sets - 1)) * WAYS;
        let set = &mut self.places[start..start + WAYS];
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

    /// All values there are.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter(|place| place.used).map(|place| &place.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
