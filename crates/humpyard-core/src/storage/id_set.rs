//! A set of ids of which the lowest is found at once.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::id::Id;
use crate::steps;

/// A set of the ids below a limit: one bit each, and one for each word of bits, up to a single word. Adding, removing and
/// finding are O(log n) to the base 64: four words for a million ids.
#[derive(Clone, Debug)]
pub struct IdSet<I> {
    words: Vec<u64>,
    /// The words of the level below that are not zero, level by level; below the first are `words`.
    above: Vec<Vec<u64>>,
    len: usize,
    id: PhantomData<I>,
}

impl<I: Id> IdSet<I> {
    /// An empty set for ids below `limit`.
    pub fn new(limit: usize) -> Self {
        let words = vec![0; limit.div_ceil(64)];
        let mut above: Vec<Vec<u64>> = Vec::new();
        let mut below = words.len();
        while below > 1 {
            below = below.div_ceil(64);
            above.push(vec![0; below]);
        }
        Self { words, above, len: 0, id: PhantomData }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no member.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `id` is a member.
    pub fn contains(&self, id: I) -> bool {
        self.words[id.index() / 64] >> (id.index() % 64) & 1 == 1
    }

    /// Makes `id` a member.
    #[inline]
    pub fn insert(&mut self, id: I) {
        let at = id.index();
        let word = &mut self.words[at / 64];
        let before = *word;
        // What is there already is most often asked for: nothing is written then, for which the next to ask would wait.
        if before >> (at % 64) & 1 == 1 {
            return;
        }
        *word = before | 1 << (at % 64);
        self.len += 1;
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
        let mut at = id.index();
        let word = &mut self.words[at / 64];
        let before = *word;
        if before >> (at % 64) & 1 == 0 {
            return;
        }
        *word = before & !(1 << (at % 64));
        self.len -= 1;
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

    /// The lowest member.
    #[inline]
    pub fn first(&self) -> Option<I> {
        match self.words.first() {
            Some(&word) if word != 0 => Some(I::from_index(lowest(0, word))),
            _ if self.len == 0 => None,
            _ => self.lowest_from(64),
        }
    }

    /// The lowest member above `id`, which need not be one.
    pub fn after(&self, id: I) -> Option<I> {
        self.lowest_from(id.index() + 1)
    }

    /// `id` if it is a member, else the lowest above it; it need not be below the limit.
    #[inline]
    pub fn at_or_after(&self, id: I) -> Option<I> {
        self.lowest_from(id.index())
    }

    /// The lowest member of this index or a higher one: up to the first level that knows of one, and down again.
    #[inline]
    fn lowest_from(&self, index: usize) -> Option<I> {
        steps::taken(1);
        let rest = self.words.get(index / 64)? & (!0 << (index % 64));
        if rest != 0 {
            return Some(I::from_index(lowest(index / 64, rest)));
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
        Some(I::from_index(lowest(word, self.words[word])))
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
            assert_eq!(set.at_or_after(id), model.range(id..).next().copied());
        }
        assert!(set.iter().eq(model.into_iter()));
    }
}
