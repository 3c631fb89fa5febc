//! A pool of sets of cores in memory that is allocated once.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use humpyard_core::id::{CoreId, Id};

/// The most words of all sets together: 16 MiB.
const WORDS_MAX: usize = 1 << 21;

/// The id of a set in the pool: its index, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SetId(NonZeroU32);

/// A pool of sets of cores; a set has one bit for each core.
#[derive(Debug)]
pub(super) struct CoreSets {
    /// Words per set.
    words: usize,
    /// The sets, one after the other; unused sets are empty.
    bits: Vec<u64>,
    /// The unused sets; the last is taken first.
    free: Vec<SetId>,
}

impl CoreSets {
    /// Allocates `sets` sets of `cores` cores, or as many as the memory limit allows, and at least one.
    pub(super) fn new(cores: usize, sets: usize) -> Self {
        let words = cores.div_ceil(64);
        let sets = sets.min(WORDS_MAX / words).max(1);
        Self {
            words,
            bits: vec![0; sets * words],
            free: (1..=sets as u32).rev().filter_map(NonZeroU32::new).map(SetId).collect(),
        }
    }

    /// Takes an empty set. `None`: all sets are in use.
    pub(super) fn take(&mut self) -> Option<SetId> {
        self.free.pop()
    }

    /// Empties a set and gives it back.
    pub(super) fn free(&mut self, set: SetId) {
        let start = self.start(set);
        self.bits[start..start + self.words].fill(0);
        self.free.push(set);
    }

    /// Returns the number of sets in use.
    pub(super) fn used(&self) -> usize {
        self.bits.len() / self.words - self.free.len()
    }

    /// Returns the index of the first word of a set.
    #[inline]
    fn start(&self, set: SetId) -> usize {
        (set.0.get() as usize - 1) * self.words
    }

    /// Adds a core to a set.
    pub(super) fn insert(&mut self, set: SetId, core: CoreId) {
        let start = self.start(set);
        self.bits[start + core.index() / 64] |= 1 << (core.index() % 64);
    }

    /// Whether a core is in a set.
    pub(super) fn contains(&self, set: SetId, core: CoreId) -> bool {
        self.bits[self.start(set) + core.index() / 64] >> (core.index() % 64) & 1 == 1
    }

    /// Returns the cores of a set, ascending.
    #[inline]
    pub(super) fn iter(&self, set: SetId) -> Cores<'_> {
        let start = self.start(set);
        let (&first, later) = self.bits[start..start + self.words].split_first().expect("a set has a word");
        Cores { left: first, first: 0, later }
    }
}

/// The cores of a set, ascending.
#[derive(Clone, Debug)]
pub(super) struct Cores<'a> {
    /// The remaining cores of the current word.
    left: u64,
    /// The core of that word's first bit.
    first: usize,
    /// The words after it.
    later: &'a [u64],
}

impl Iterator for Cores<'_> {
    type Item = CoreId;

    #[inline]
    fn next(&mut self) -> Option<CoreId> {
        while self.left == 0 {
            let (&word, later) = self.later.split_first()?;
            (self.left, self.first, self.later) = (word, self.first + 64, later);
        }
        let core = self.first + self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(CoreId::from_index(core))
    }

    /// Works word by word, so that within a word it examines only the bits.
    #[inline]
    fn fold<B, F: FnMut(B, CoreId) -> B>(self, init: B, mut fold: F) -> B {
        let mut all = init;
        let mut first = self.first;
        for mut left in core::iter::once(self.left).chain(self.later.iter().copied()) {
            while left != 0 {
                all = fold(all, CoreId::from_index(first + left.trailing_zeros() as usize));
                left &= left - 1;
            }
            first += 64;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::cores_of;

    #[test]
    fn a_set_holds_its_cores_ascending() {
        let mut sets = CoreSets::new(200, 3);
        let (a, b) = (sets.take().unwrap(), sets.take().unwrap());
        for core in cores_of([199, 0, 63, 64, 128]) {
            sets.insert(a, core);
        }
        assert_eq!(sets.iter(a).collect::<Vec<_>>(), cores_of([0, 63, 64, 128, 199]));
        assert!(sets.contains(a, CoreId(63)) && !sets.contains(a, CoreId(62)));
        assert_eq!(sets.iter(b).count(), 0);
        sets.free(a);
        assert_eq!((sets.used(), sets.take()), (1, Some(a)));
        assert_eq!(sets.iter(a).count(), 0);
    }

    #[test]
    fn the_pool_has_an_end() {
        let mut sets = CoreSets::new(8, 2);
        let [first, second, third] = [sets.take(), sets.take(), sets.take()];
        assert!(first.is_some() && second.is_some() && first != second && third.is_none());
        assert_eq!(CoreSets::new(1024, 65_536).free.len(), 65_536);
        assert_eq!(CoreSets::new(65_535, 65_536).free.len(), 2048);
    }
}
