//! A tournament: which of many clients has the least tag.
//!
//! A binary tree over the clients that have a tag, in which each node knows the least tag below it. A change is carried from
//! its leaf to the root, at each step against one rival whose place is known beforehand: no branch depends on a tag, so
//! nothing is predicted wrongly, and the memory is fetched ahead. That is several times as fast as a heap, whose every step
//! waits for the one before it. And who comes takes the leaf of who goes, so that both cost one change.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use humpyard_core::id::{Id, IdVec};
use humpyard_core::policy::Ties;
use humpyard_core::steps;

use super::tag::Tag;

/// Bits of a key that say whose it is; the others are the tag.
const RANK: u32 = 32;
const TAG_MAX: Tag = (Tag::MAX >> RANK) - 1;

/// A tag above the rank of its client, so that equal tags go by rank.
type Key = u128;

/// The key of a leaf that nobody has.
const NO_KEY: Key = Key::MAX;

/// The leaf of a client without a tag.
const ABSENT: u32 = u32::MAX;
/// The leaf of the newcomer.
const WAITING: u32 = u32::MAX - 1;

/// Ids below a limit, some of which have a tag.
///
/// A change is O(log n) at the next question, where n is the most members at once so far; so is one member's coming and
/// another's going. Nothing allocates.
#[derive(Debug)]
pub(super) struct Tournament<I> {
    /// The root is 1, the children of n are 2n and 2n + 1, and the leaves begin at `leaves`.
    nodes: Vec<Key>,
    /// Ids that have a tag.
    members: usize,
    /// Number of leaves, a power of two.
    leaves: usize,
    /// Number of leaves that anybody ever had.
    used: usize,
    /// Those of them that nobody has.
    vacant: Vec<u32>,
    /// The leaf of each id.
    leaf: IdVec<I, u32>,
    /// The node of the leaf whose change is not carried up yet; 0 is none.
    changed: usize,
    /// A member that waits for a leaf.
    newcomer: Key,
    /// What turns an id into its rank.
    flip: u32,
}

impl<I: Id> Tournament<I> {
    /// For ids below `limit`, none of which has a tag.
    pub(super) fn new(limit: usize, ties: Ties) -> Self {
        let flip = match ties {
            Ties::Lowest => 0,
            Ties::Highest => u32::MAX,
        };
        Self {
            nodes: vec![NO_KEY; 2 * limit.next_power_of_two()],
            members: 0,
            leaves: 1,
            used: 0,
            vacant: Vec::with_capacity(limit),
            leaf: IdVec::from_fn(limit, |_| ABSENT),
            changed: 0,
            newcomer: NO_KEY,
            flip,
        }
    }

    /// Whether no id has a tag.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// The least tag, and the id that has it.
    #[inline]
    pub(super) fn first(&mut self) -> Option<(Tag, I)> {
        self.settle();
        // The newcomer is rarely the least, so this is predicted well.
        let least = self.nodes[1];
        self.unpack(if self.newcomer < least { self.newcomer } else { least })
    }

    /// Whether the id has a tag.
    #[inline]
    pub(super) fn contains(&self, id: I) -> bool {
        self.leaf[id] != ABSENT
    }

    /// The tag of this id.
    pub(super) fn tag(&self, id: I) -> Option<Tag> {
        let key = match self.leaf[id] {
            ABSENT => NO_KEY,
            WAITING => self.newcomer,
            leaf => self.nodes[self.leaves + leaf as usize],
        };
        self.unpack(key).map(|member| member.0)
    }

    /// The id has this tag from now on. Tags of 96 bits and more are all alike.
    #[inline]
    pub(super) fn set(&mut self, id: I, tag: Tag) {
        let key = tag.min(TAG_MAX) << RANK | u128::from(id.index() as u32 ^ self.flip);
        match self.leaf[id] {
            ABSENT => self.join(id, key),
            WAITING => self.newcomer = key,
            leaf => self.change(leaf, key),
        }
    }

    /// The id has no tag from now on; nothing happens if it has none.
    #[inline]
    pub(super) fn remove(&mut self, id: I) {
        let leaf = core::mem::replace(&mut self.leaf[id], ABSENT);
        self.members -= usize::from(leaf != ABSENT);
        match leaf {
            ABSENT => {}
            WAITING => self.newcomer = NO_KEY,
            leaf => self.change(leaf, NO_KEY),
        }
    }

    fn join(&mut self, id: I, key: Key) {
        self.members += 1;
        if self.changed != 0 && self.nodes[self.changed] == NO_KEY {
            self.nodes[self.changed] = key;
            self.leaf[id] = (self.changed - self.leaves) as u32;
            return;
        }
        if self.newcomer != NO_KEY {
            self.settle();
            let leaf = self.vacant.pop().unwrap_or_else(|| self.unused());
            self.seat_newcomer(leaf);
            self.changed = self.leaves + leaf as usize;
        }
        self.newcomer = key;
        self.leaf[id] = WAITING;
    }

    /// A leaf that nobody had yet.
    fn unused(&mut self) -> u32 {
        if self.used == self.leaves {
            self.nodes.copy_within(self.leaves..2 * self.leaves, 2 * self.leaves);
            self.leaves *= 2;
            steps::taken(self.leaves);
            for at in (1..self.leaves).rev() {
                self.nodes[at] = lesser(self.nodes[2 * at], self.nodes[2 * at + 1]);
            }
        }
        self.used += 1;
        self.used as u32 - 1
    }

    /// The newcomer has this leaf, whose change is to be carried up.
    fn seat_newcomer(&mut self, leaf: u32) {
        let key = core::mem::replace(&mut self.newcomer, NO_KEY);
        self.nodes[self.leaves + leaf as usize] = key;
        let (_, id) = self.unpack(key).expect("there is one");
        self.leaf[id] = leaf;
    }

    #[inline]
    fn change(&mut self, leaf: u32, key: Key) {
        let leaf = self.leaves + leaf as usize;
        if leaf != self.changed {
            self.settle();
        }
        self.nodes[leaf] = key;
        self.changed = leaf;
    }

    /// Makes the nodes above the leaf that was changed last agree with it. If nobody has it, the newcomer takes it.
    #[inline]
    fn settle(&mut self) {
        if self.changed != 0 {
            self.carry_up();
        }
    }

    fn carry_up(&mut self) {
        let mut at = core::mem::take(&mut self.changed);
        if self.nodes[at] == NO_KEY {
            let leaf = (at - self.leaves) as u32;
            if self.newcomer == NO_KEY { self.vacant.push(leaf) } else { self.seat_newcomer(leaf) }
        }
        let mut least = self.nodes[at];
        while at > 1 {
            steps::taken(1);
            least = lesser(least, self.nodes[at ^ 1]);
            at /= 2;
            self.nodes[at] = least;
        }
    }

    #[inline]
    fn unpack(&self, key: Key) -> Option<(Tag, I)> {
        (key != NO_KEY).then(|| (key >> RANK, I::from_index((key as u32 ^ self.flip) as usize)))
    }
}

/// The lesser key, without a branch: which it is, nobody can predict.
#[inline]
fn lesser(a: Key, b: Key) -> Key {
    let [a, b] = [a, b].map(|key| [(key >> 64) as u64, key as u64]);
    let less = (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] < b[1]));
    let half = |half: usize| Key::from(select_unpredictable(less, a[half], b[half]));
    half(0) << 64 | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::id::ClientId;
    use humpyard_core::random::Seed;

    fn behaves_like_a_scan(limit: usize, ties: Ties) {
        let mut tournament = Tournament::new(limit, ties);
        let mut model: Vec<Option<Tag>> = vec![None; limit];
        let mut random = Seed(7).stream("test");
        for step in 0..20_000 {
            let at = random.below(limit as u64) as usize;
            let id = ClientId::from_index(at);
            // Few members at first, many later.
            model[at] = (random.below(20_000) < step).then(|| Tag::from(random.below(20)));
            match model[at] {
                Some(tag) => tournament.set(id, tag),
                None => tournament.remove(id),
            }
            assert_eq!((tournament.tag(id), tournament.contains(id)), (model[at], model[at].is_some()));
            if random.below(3) == 0 {
                let members = model.iter().enumerate().filter_map(|(id, tag)| Some(((*tag)?, id)));
                let rank = |id: usize| if ties == Ties::Lowest { id } else { limit - id };
                let least = members.min_by_key(|&(tag, id)| (tag, rank(id)));
                assert_eq!(tournament.first(), least.map(|(tag, id)| (tag, ClientId::from_index(id))));
                assert_eq!(tournament.is_empty(), least.is_none());
            }
        }
    }

    #[test]
    fn of_any_size() {
        for limit in [1, 2, 3, 5, 8, 13, 100] {
            behaves_like_a_scan(limit, Ties::Lowest);
            behaves_like_a_scan(limit, Ties::Highest);
        }
    }

    #[test]
    fn tags_beyond_their_range_are_last() {
        let mut tournament = Tournament::new(2, Ties::Highest);
        tournament.set(ClientId(0), Tag::MAX);
        tournament.set(ClientId(1), TAG_MAX - 1);
        assert_eq!(tournament.first(), Some((TAG_MAX - 1, ClientId(1))));
        tournament.remove(ClientId(1));
        assert_eq!(tournament.first(), Some((TAG_MAX, ClientId(0))));
    }
}
