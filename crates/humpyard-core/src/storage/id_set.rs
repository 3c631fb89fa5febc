//! A set of ids with fast access to the lowest.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::id::Id;
use crate::steps;

/// A set of the ids below a limit: one bit each, and one for each word of bits, up to a single
/// word. Adding, removing and finding are O(log n) to the base 64: four words for a million ids.
/// The first 64 ids share one word that needs no indirection.
#[derive(Clone, Debug)]
pub struct IdSet<I> {
    /// The ids below 64.
    low: u64,
    /// Members from 64 on.
    high: usize,
    /// The ids from 64 on.
    words: Vec<u64>,
    /// The words of the level below that are not zero, level by level; below the first are `words`.
    above: Vec<Vec<u64>>,
    id: PhantomData<I>,
}

/// Ids of the first word.
const LOW: usize = 64;

impl<I: Id> IdSet<I> {
    /// An empty set for ids below `limit`.
    pub fn new(limit: usize) -> Self {
        let words = vec![0; limit.saturating_sub(LOW).div_ceil(64)];
        let mut above: Vec<Vec<u64>> = Vec::new();
        let mut below = words.len();
        while below > 1 {
            below = below.div_ceil(64);
            above.push(vec![0; below]);
        }
        Self { low: 0, high: 0, words, above, id: PhantomData }
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.low.count_ones() as usize + self.high
    }

    /// Whether there is no member.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.low | self.high as u64 == 0
    }

    /// Returns the only member, if there is exactly one: cheaper than counting.
    #[inline]
    pub fn only(&self) -> Option<I> {
        if self.low == 0 {
            return if self.high == 1 { self.lowest_high(0) } else { None };
        }
        let is_only = self.low & (self.low - 1) == 0 && self.high == 0;
        is_only.then(|| I::from_index(self.low.trailing_zeros() as usize))
    }

    /// Whether `id` is a member.
    #[inline]
    pub fn contains(&self, id: I) -> bool {
        let at = id.index();
        let word = if at < LOW { self.low } else { self.words[at / 64 - 1] };
        word >> (at % 64) & 1 == 1
    }

    /// Makes `id` a member.
    #[inline]
    pub fn insert(&mut self, id: I) {
        let at = id.index();
        if at >= LOW {
            return self.insert_high(at - LOW);
        }
        self.low |= 1 << at;
    }

    #[inline(never)]
    fn insert_high(&mut self, at: usize) {
        let word = &mut self.words[at / 64];
        let before = *word;
        // Most ids are members already. Then nothing is written, because the next read would have
        // to wait for the write.
        if before >> (at % 64) & 1 == 1 {
            return;
        }
        *word = before | 1 << (at % 64);
        self.high += 1;
        if before == 0 {
            let mut at = at / 64;
            for level in &mut self.above {
                level[at / 64] |= 1 << (at % 64);
                at /= 64;
            }
        }
    }

    /// Takes `id` out.
    #[inline]
    pub fn remove(&mut self, id: I) {
        let at = id.index();
        if at >= LOW {
            return self.remove_high(at - LOW);
        }
        self.low &= !(1 << at);
    }

    #[inline(never)]
    fn remove_high(&mut self, mut at: usize) {
        let word = &mut self.words[at / 64];
        let before = *word;
        if before >> (at % 64) & 1 == 0 {
            return;
        }
        *word = before & !(1 << (at % 64));
        self.high -= 1;
        let mut is_zero = *word == 0;
        for level in &mut self.above {
            if !is_zero {
                return;
            }
            at /= 64;
            level[at / 64] &= !(1 << (at % 64));
            is_zero = level[at / 64] == 0;
        }
    }

    /// Takes all ids out. O(members).
    #[inline]
    pub fn clear(&mut self) {
        self.low = 0;
        while let Some(id) = self.first() {
            self.remove(id);
        }
    }

    /// The lowest member.
    #[inline]
    pub fn first(&self) -> Option<I> {
        if self.low != 0 {
            return Some(I::from_index(self.low.trailing_zeros() as usize));
        }
        if self.high == 0 { None } else { self.lowest_high(0) }
    }

    /// The lowest member above `id`, which need not be one.
    pub fn after(&self, id: I) -> Option<I> {
        self.lowest_from(id.index() + 1)
    }

    /// Returns `id` if it is a member, else the lowest member above it. `id` need not be below the
    /// limit.
    #[inline]
    pub fn at_or_after(&self, id: I) -> Option<I> {
        self.lowest_from(id.index())
    }

    /// Returns the lowest member with this index or a higher one: climbs to the first level that
    /// has one, then descends.
    #[inline]
    fn lowest_from(&self, index: usize) -> Option<I> {
        if index >= LOW {
            return self.lowest_high(index - LOW);
        }
        steps::taken(1);
        let rest = self.low & (!0 << index);
        if rest != 0 { Some(I::from_index(rest.trailing_zeros() as usize)) } else { self.lowest_high(0) }
    }

    /// The lowest member from id `LOW + index` on.
    fn lowest_high(&self, index: usize) -> Option<I> {
        steps::taken(1);
        let rest = self.words.get(index / 64)? & (!0 << (index % 64));
        if rest != 0 {
            return Some(I::from_index(LOW + lowest(index / 64, rest)));
        }
        let mut at = index / 64 + 1;
        let mut levels = self.above.iter().enumerate();
        let word = loop {
            let (depth, level) = levels.next()?;
            steps::taken(1);
            let rest = level.get(at / 64)? & (!0 << (at % 64));
            if rest != 0 {
                let found = lowest(at / 64, rest);
                break self.above[..depth].iter().rev().fold(found, |word, level| lowest(word, level[word]));
            }
            at = at / 64 + 1;
        };
        Some(I::from_index(LOW + lowest(word, self.words[word])))
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = I> + '_ {
        core::iter::once(&self.low).chain(&self.words).enumerate().flat_map(|(at, &word)| {
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

/// The place of the lowest bit of the word at this place, which is not zero.
#[inline]
fn lowest(at: usize, word: u64) -> usize {
    at * 64 + word.trailing_zeros() as usize
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
        for limit in [3, 66, 200, 9000] {
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
            assert_eq!(set.is_empty(), model.is_empty());
            assert_eq!(set.only(), model.first().copied().filter(|_| model.len() == 1));
            assert_eq!(set.contains(id), model.contains(&id));
            assert_eq!(set.after(id), model.range(CoreId(id.0 + 1)..).next().copied());
            assert_eq!(set.at_or_after(id), model.range(id..).next().copied());
        }
        assert!(set.iter().eq(model.into_iter()));
    }
}
