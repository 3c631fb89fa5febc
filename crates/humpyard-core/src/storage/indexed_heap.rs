//! A heap of ids by key, in which every id can be found, moved and removed.

use alloc::vec::Vec;

use crate::id::{Id, IdVec};

const ABSENT: u32 = u32::MAX;

/// A binary heap over the ids below a limit, smallest key first; equal keys by ascending id.
///
/// `peek` is O(1), `set` and `remove` are O(log n) in the members. None allocates.
#[derive(Clone, Debug)]
pub struct IndexedHeap<I, K> {
    entries: Vec<(K, I)>,
    position: IdVec<I, u32>,
}

impl<I: Id, K: Ord + Copy> IndexedHeap<I, K> {
    /// An empty heap for ids below `limit`.
    pub fn new(limit: usize) -> Self {
        Self { entries: Vec::with_capacity(limit), position: IdVec::from_fn(limit, |_| ABSENT) }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `id` is a member.
    pub fn contains(&self, id: I) -> bool {
        self.position[id] != ABSENT
    }

    /// The member with the smallest key.
    #[inline]
    pub fn peek(&self) -> Option<(K, I)> {
        self.entries.first().copied()
    }

    /// The key of a member.
    pub fn key(&self, id: I) -> Option<K> {
        self.entries.get(self.position[id] as usize).map(|entry| entry.0)
    }

    /// Adds `id` with this key, or changes the key of a member.
    pub fn set(&mut self, id: I, key: K) {
        let at = match self.position[id] {
            ABSENT => {
                self.entries.push((key, id));
                self.entries.len() - 1
            }
            at => {
                self.entries[at as usize].0 = key;
                at as usize
            }
        };
        let at = self.sift_up(at);
        self.sift_down(at);
    }

    /// Removes `id`; does nothing if it is not a member.
    pub fn remove(&mut self, id: I) {
        let at = self.position[id];
        if at == ABSENT {
            return;
        }
        let at = at as usize;
        self.position[id] = ABSENT;
        self.entries.swap_remove(at);
        if at < self.entries.len() {
            let at = self.sift_up(at);
            self.sift_down(at);
        }
    }

    fn sift_up(&mut self, mut at: usize) -> usize {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.entries[parent] <= entry {
                break;
            }
            self.place(at, self.entries[parent]);
            at = parent;
        }
        self.place(at, entry);
        at
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.entries[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.entries.len() {
                break;
            }
            if child + 1 < self.entries.len() && self.entries[child + 1] < self.entries[child] {
                child += 1;
            }
            if entry <= self.entries[child] {
                break;
            }
            self.place(at, self.entries[child]);
            at = child;
        }
        self.place(at, entry);
    }

    #[inline]
    fn place(&mut self, at: usize, entry: (K, I)) {
        self.entries[at] = entry;
        self.position[entry.1] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ClientId;
    use crate::random::Seed;
    use alloc::collections::BTreeMap;

    #[test]
    fn behaves_like_a_sorted_map() {
        let mut heap = IndexedHeap::new(16);
        let mut model: BTreeMap<ClientId, u64> = BTreeMap::new();
        let mut random = Seed(7).stream("test");
        for _ in 0..20_000 {
            let id = ClientId(random.below(16) as u32);
            if random.below(3) == 0 {
                heap.remove(id);
                model.remove(&id);
            } else {
                let key = random.below(20);
                heap.set(id, key);
                model.insert(id, key);
            }
            assert_eq!(heap.peek(), model.iter().map(|(&id, &key)| (key, id)).min());
            assert_eq!(heap.key(id), model.get(&id).copied());
            assert_eq!(heap.len(), model.len());
        }
    }
}
