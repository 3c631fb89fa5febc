//! The index of a flow table, from hash to flow.
//!
//! Open addressing with linear probing, never more than half full. After a removal, the following entries move
//! up. So there are no tombstones to clean up, and the cost of an operation does not depend on earlier ones.

/// A place of the index. 0: it is empty, so that unused places take no memory. Otherwise the upper half is the
/// flow's hash, which determines its home, and the lower half is the flow plus one.
type Entry = u64;

const EMPTY: Entry = 0;

#[inline]
const fn entry(hash: u32, flow: u32) -> Entry {
    (hash as u64) << 32 | (flow as u64 + 1)
}

#[inline]
const fn hash_of(entry: Entry) -> u32 {
    (entry >> 32) as u32
}

#[inline]
const fn flow(entry: Entry) -> u32 {
    (entry as u32).wrapping_sub(1)
}

/// Finds flows by their hashes.
#[derive(Clone, Debug)]
pub(super) struct Index {
    entries: Box<[Entry]>,
}

impl Index {
    /// Places per flow.
    const PLACES: usize = 2;
    /// Bytes per flow.
    pub(super) const BYTES: usize = Self::PLACES * size_of::<Entry>();

    /// Returns an index for up to `capacity` flows.
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: vec![EMPTY; Self::PLACES * capacity].into_boxed_slice() }
    }

    /// Returns the flow with this hash for which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let entry = self.entries[at];
            if entry == EMPTY {
                return None;
            }
            if hash_of(entry) == hash && is_it(flow(entry)) {
                return Some(flow(entry));
            }
            at = self.after(at);
        }
    }

    /// Returns the flow at the home of this hash: most likely the flow with this hash, if there is one.
    #[inline]
    pub(super) fn at_home(&self, hash: u32) -> Option<u32> {
        let entry = self.entries[self.home(hash)];
        (entry != EMPTY).then(|| flow(entry))
    }

    /// Inserts a flow that is not in the index.
    pub(super) fn insert(&mut self, hash: u32, flow: u32) {
        let mut at = self.home(hash);
        while self.entries[at] != EMPTY {
            at = self.after(at);
        }
        self.entries[at] = entry(hash, flow);
    }

    /// Removes a flow that is in the index.
    pub(super) fn remove(&mut self, hash: u32, gone: u32) {
        let mut hole = self.home(hash);
        while self.entries[hole] != entry(hash, gone) {
            debug_assert!(self.entries[hole] != EMPTY, "flow {gone} is not in the index");
            hole = self.after(hole);
        }
        let mut at = self.after(hole);
        while self.entries[at] != EMPTY {
            // An entry must not move to a place before its home.
            if self.distance(self.home(hash_of(self.entries[at])), at) >= self.distance(hole, at) {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.entries[hole] = EMPTY;
    }

    /// Returns the mean and the greatest number of places read to find a flow.
    pub(super) fn probes(&self) -> (f64, usize) {
        let (mut flows, mut sum, mut most) = (0u64, 0u64, 0);
        for (at, &entry) in self.entries.iter().enumerate().filter(|&(_, &entry)| entry != EMPTY) {
            let probes = 1 + self.distance(self.home(hash_of(entry)), at);
            flows += 1;
            sum += probes as u64;
            most = most.max(probes);
        }
        (sum as f64 / flows.max(1) as f64, most)
    }

    /// Returns the home of a hash: the first place for its entry.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.entries.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.entries.len() { 0 } else { at + 1 }
    }

    /// Returns the forward distance from one place to another.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.entries.len() - from }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use humpyard_core::random::Seed;

    use super::*;

    #[test]
    fn it_agrees_with_a_map_however_crowded() {
        // Hashes with few different homes, some at the end of the places.
        for homes in [1, 3, 40] {
            let mut index = Index::new(40);
            let mut known: BTreeMap<u32, u32> = BTreeMap::new();
            let mut random = Seed(homes).stream("test");
            for _ in 0..20_000 {
                let flow = random.below(40) as u32;
                match known.remove(&flow) {
                    Some(hash) => index.remove(hash, flow),
                    None => {
                        let hash = ((u64::MAX / homes.max(2) * (1 + random.below(homes))) >> 32) as u32;
                        index.insert(hash, flow);
                        known.insert(flow, hash);
                    }
                }
                for (&flow, &hash) in &known {
                    assert_eq!(index.find(hash, |found| found == flow), Some(flow));
                }
                assert_eq!(index.find(random.bits() as u32, |_| false), None);
                assert_eq!(index.entries.iter().filter(|&&entry| entry != EMPTY).count(), known.len());
            }
        }
    }
}
