//! The index of a flow table: where the flow of a hash is.
//!
//! Open addressing with linear probing, never more than half full. What follows a removed entry moves up, so there are no
//! marks of removed ones to clean up, and no operation takes longer because of what was done before.

/// A place of the index: 0 if it is empty, so that places never used take no memory. Else the upper half is the flow's hash, from
/// which its home follows, and the lower half the flow, plus one.
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

/// Finds flows by their hash.
#[derive(Clone, Debug)]
pub(super) struct Index {
    entries: Box<[Entry]>,
}

impl Index {
    /// Places per flow.
    const PLACES: usize = 2;
    /// Bytes per flow.
    pub(super) const BYTES: usize = Self::PLACES * size_of::<Entry>();

    /// An index for up to `capacity` flows.
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: vec![EMPTY; Self::PLACES * capacity].into_boxed_slice() }
    }

    /// The flow with this hash for which `is_it` holds.
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

    /// What is at the home of this hash: most likely its flow, if there is one.
    #[inline]
    pub(super) fn at_home(&self, hash: u32) -> Option<u32> {
        let entry = self.entries[self.home(hash)];
        (entry != EMPTY).then(|| flow(entry))
    }

    /// Enters a flow that is not there.
    pub(super) fn insert(&mut self, hash: u32, flow: u32) {
        let mut at = self.home(hash);
        while self.entries[at] != EMPTY {
            at = self.after(at);
        }
        self.entries[at] = entry(hash, flow);
    }

    /// Removes a flow that is there.
    pub(super) fn remove(&mut self, hash: u32, gone: u32) {
        let mut hole = self.home(hash);
        while self.entries[hole] != entry(hash, gone) {
            debug_assert!(self.entries[hole] != EMPTY, "flow {gone} is not in the index");
            hole = self.after(hole);
        }
        let mut at = self.after(hole);
        while self.entries[at] != EMPTY {
            // An entry may not move to a place before its home.
            if self.distance(self.home(hash_of(self.entries[at])), at) >= self.distance(hole, at) {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.entries[hole] = EMPTY;
    }

    /// Places looked at to find each flow that is there: the mean, and the most.
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

    /// Where an entry would be if nothing were in its way.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.entries.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.entries.len() { 0 } else { at + 1 }
    }

    /// Steps from one place to another, forwards.
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
        // Hashes that crowd in a few homes, at the end of the places too.
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
