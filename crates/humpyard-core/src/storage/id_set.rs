//! A set of ids of which the lowest is found at once.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::id::Id;

/// A set of the ids below a limit: one bit each. Adding and removing are O(1); the lowest is O(n / 64), a word at a time.
#[derive(Clone, Debug)]
pub struct IdSet<I> {
    words: Vec<u64>,
    len: usize,
    id: PhantomData<I>,
}

impl<I: Id> IdSet<I> {
    /// An empty set for ids below `limit`.
    pub fn new(limit: usize) -> Self {
        Self { words: vec![0; limit.div_ceil(64)], len: 0, id: PhantomData }
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
        let word = &mut self.words[id.index() / 64];
        let bit = 1 << (id.index() % 64);
        self.len += usize::from(*word & bit == 0);
        *word |= bit;
    }

    /// Takes `id` out.
    pub fn remove(&mut self, id: I) {
        let word = &mut self.words[id.index() / 64];
        let bit = 1 << (id.index() % 64);
        self.len -= usize::from(*word & bit != 0);
        *word &= !bit;
    }

    /// The lowest member.
    pub fn first(&self) -> Option<I> {
        if self.len == 0 {
            return None;
        }
        let at = self.words.iter().position(|&word| word != 0)?;
        Some(I::from_index(at * 64 + self.words[at].trailing_zeros() as usize))
    }

    /// The lowest member above `id`, which need not be one. O(n / 64).
    pub fn after(&self, id: I) -> Option<I> {
        let (first, bit) = (id.index() / 64, id.index() % 64);
        let rest = |at: usize| if at == first { self.words[at] & (!1 << bit) } else { self.words[at] };
        let at = (first..self.words.len()).find(|&at| rest(at) != 0)?;
        Some(I::from_index(at * 64 + rest(at).trailing_zeros() as usize))
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = I> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            core::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(I::from_index(at * 64 + bit))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CoreId;
    use crate::random::Seed;
    use alloc::collections::BTreeSet;

    #[test]
    fn behaves_like_a_sorted_set() {
        let mut set = IdSet::new(200);
        let mut model = BTreeSet::new();
        let mut random = Seed(7).stream("test");
        for _ in 0..20_000 {
            let id = CoreId(random.below(200) as u16);
            if random.below(2) == 0 {
                set.insert(id);
                model.insert(id);
            } else {
                set.remove(id);
                model.remove(&id);
            }
            assert_eq!((set.first(), set.len()), (model.first().copied(), model.len()));
            assert_eq!(set.contains(id), model.contains(&id));
            assert_eq!(set.after(id), model.range(CoreId(id.0 + 1)..).next().copied());
        }
        assert!(set.iter().eq(model.into_iter()));
    }
}
