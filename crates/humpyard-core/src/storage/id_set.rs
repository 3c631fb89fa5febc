//! A set of ids of which the lowest is found at once.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::id::Id;
use crate::steps;

/// A set of the ids below a limit: one bit each, and one for each word of them. Adding and removing are O(1); the lowest is
/// O(n / 4096), a word at a time.
#[derive(Clone, Debug)]
pub struct IdSet<I> {
    words: Vec<u64>,
    /// The words that are not zero.
    filled: Vec<u64>,
    len: usize,
    id: PhantomData<I>,
}

impl<I: Id> IdSet<I> {
    /// An empty set for ids below `limit`.
    pub fn new(limit: usize) -> Self {
        let words = limit.div_ceil(64);
        Self { words: vec![0; words], filled: vec![0; words.div_ceil(64)], len: 0, id: PhantomData }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `id` is a member.
    pub fn contains(&self, id: I) -> bool {
        self.words[id.index() / 64] >> (id.index() % 64) & 1 == 1
    }

    /// Makes `id` a member.
    pub fn insert(&mut self, id: I) {
        let at = id.index() / 64;
        let word = &mut self.words[at];
        let bit = 1 << (id.index() % 64);
        self.len += usize::from(*word & bit == 0);
        *word |= bit;
        self.filled[at / 64] |= 1 << (at % 64);
    }

    /// Takes `id` out.
    pub fn remove(&mut self, id: I) {
        let at = id.index() / 64;
        let word = &mut self.words[at];
        let bit = 1 << (id.index() % 64);
        self.len -= usize::from(*word & bit != 0);
        *word &= !bit;
        if *word == 0 {
            self.filled[at / 64] &= !(1 << (at % 64));
        }
    }

    /// The lowest member.
    pub fn first(&self) -> Option<I> {
        if self.len == 0 {
            return None;
        }
        self.lowest_from(0)
    }

    /// The lowest member above `id`, which need not be one. O(n / 4096).
    pub fn after(&self, id: I) -> Option<I> {
        let (at, bit) = (id.index() / 64, id.index() % 64);
        let rest = self.words[at] & (!1 << bit);
        if rest != 0 { Some(member(at, rest)) } else { self.lowest_from(at + 1) }
    }

    /// The lowest member of this word or a later one.
    fn lowest_from(&self, word: usize) -> Option<I> {
        let first = word / 64;
        let rest = |at: usize| if at == first { self.filled[at] & (!0 << (word % 64)) } else { self.filled[at] };
        let at = (first..self.filled.len()).find(|&at| rest(at) != 0)?;
        steps::taken(at - first);
        let at = at * 64 + rest(at).trailing_zeros() as usize;
        Some(member(at, self.words[at]))
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = I> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            steps::taken(1);
            let mut left = word;
            core::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(I::from_index(at * 64 + bit))
            })
        })
    }
}

/// The lowest member of a word with these bits, which are not all zero.
#[inline]
fn member<I: Id>(at: usize, bits: u64) -> I {
    I::from_index(at * 64 + bits.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CoreId;
    use crate::random::Seed;
    use alloc::collections::BTreeSet;

    #[test]
    fn behaves_like_a_sorted_set() {
        // Past one word of filled words.
        for limit in [200, 9000] {
            behaves(limit);
        }
    }

    fn behaves(limit: u16) {
        let mut set = IdSet::new(usize::from(limit));
        let mut model = BTreeSet::new();
        let mut random = Seed(7).stream("test");
        for _ in 0..20_000 {
            let id = CoreId(random.below(u64::from(limit)) as u16);
            if random.below(2) == 0 {
                set.insert(id);
                model.insert(id);
            } else {
                set.remove(id);
                model.remove(&id);
            }
            if random.below(3) == 0 && limit > 200 {
                // Few members, so that most words are empty.
                for id in model.iter().copied().take(model.len().saturating_sub(20)).collect::<Vec<_>>() {
                    set.remove(id);
                    model.remove(&id);
                }
            }
            assert_eq!((set.first(), set.len()), (model.first().copied(), model.len()));
            assert_eq!(set.contains(id), model.contains(&id));
            assert_eq!(set.after(id), model.range(CoreId(id.0 + 1)..).next().copied());
        }
        assert!(set.iter().eq(model.into_iter()));
    }
}
