//! A tournament: which of many clients has the least tag.
//!
//! A tree over the clients that have a tag, in which each node knows the least tag below it. A change is carried from its leaf
//! to the root, at each step against seven rivals whose place is known beforehand: no branch depends on a tag, so nothing is
//! predicted wrongly, rivals of all steps are compared at once, and the memory is fetched ahead. That is several times as
//! fast as a heap, whose every step waits for the one before it. And who comes takes the leaf of who goes, so that both
//! cost one change. A client takes 22.3 bytes.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use humpyard_core::id::{Id, IdVec};
use humpyard_core::policy::Ties;
use humpyard_core::steps;

use super::tag::Tag;

/// Bits of a key that say whose it is; the others are the tag.
const RANK: u32 = 32;
/// The greatest tag; the upper 64 bits of those beyond are all ones.
const TAG_MAX: Tag = (Tag::MAX >> RANK) - (1 << RANK);

/// A tag above the rank of its client, so that equal tags go by rank. With a tag beyond the greatest it is of a leaf that nobody
/// has, and its rank is the next such leaf.
type Key = u128;

/// The key of a leaf that nobody has, and after which there is no other such leaf.
const NO_KEY: Key = Key::MAX;

/// The leaf of a client without a tag. Also: no leaf.
const ABSENT: u32 = u32::MAX;
/// The leaf of the newcomer.
const WAITING: u32 = u32::MAX - 1;

/// Children of a node.
const WIDTH: usize = 8;

/// The most levels: more than ids have bits.
const LEVELS: usize = 11;

/// The children of one node, in two lines of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Children([Key; WIDTH]);

impl Children {
    /// The least of them.
    #[inline]
    fn least(&self) -> Key {
        let [a, b, c, d, e, f, g, h] = self.0;
        lesser(lesser(lesser(a, b), lesser(c, d)), lesser(lesser(e, f), lesser(g, h)))
    }
}

/// Ids below a limit, some of which have a tag.
///
/// A change is O(log n) at the next question, where n is the most members at once so far; so is one member's coming and
/// another's going. Nothing allocates.
#[derive(Debug)]
pub struct Tournament<I> {
    /// By level, those of the leaves first. In a level, those of eight consecutive nodes are below one of the next level.
    nodes: Vec<Children>,
    /// Where each level begins.
    begin: [usize; LEVELS],
    /// The level below the root.
    top: usize,
    /// The least of all that were carried up.
    least: Key,
    /// Ids that have a tag.
    members: usize,
    /// Number of leaves that anybody ever had.
    used: usize,
    /// The first of them that nobody has.
    vacant: u32,
    /// The leaf of each id.
    leaf: IdVec<I, u32>,
    /// The leaf whose change is not carried up yet.
    changed: u32,
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
        let mut begin = [0; LEVELS];
        let (mut nodes, mut width) = (0, limit);
        for level in &mut begin {
            *level = nodes;
            width = width.div_ceil(WIDTH);
            nodes += width;
            if width <= 1 {
                break;
            }
        }
        Self {
            nodes: vec![Children([NO_KEY; WIDTH]); nodes],
            begin,
            top: 0,
            least: NO_KEY,
            members: 0,
            used: 0,
            vacant: ABSENT,
            leaf: IdVec::from_fn(limit, |_| ABSENT),
            changed: ABSENT,
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
        self.unpack(if self.newcomer < self.least { self.newcomer } else { self.least })
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
            leaf => self.key(leaf),
        };
        self.unpack(key).map(|member| member.0)
    }

    /// The id has this tag from now on. Tags of 96 bits, and those nearly as great, are all alike.
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
        if self.changed != ABSENT && is_nobody(self.key(self.changed)) {
            *self.key_mut(self.changed) = key;
            self.leaf[id] = self.changed;
            return;
        }
        if !is_nobody(self.newcomer) {
            self.settle();
            let leaf = self.vacant_leaf();
            self.seat_newcomer(leaf);
            self.changed = leaf;
        }
        self.newcomer = key;
        self.leaf[id] = WAITING;
    }

    /// A leaf that nobody has.
    fn vacant_leaf(&mut self) -> u32 {
        if self.vacant != ABSENT {
            let leaf = self.vacant;
            self.vacant = self.key(leaf) as u32;
            return leaf;
        }
        if self.used == WIDTH << (3 * self.top) {
            self.top += 1;
            self.nodes[self.begin[self.top]].0[0] = self.least;
        }
        self.used += 1;
        self.used as u32 - 1
    }

    /// The newcomer has this leaf, whose change is to be carried up.
    fn seat_newcomer(&mut self, leaf: u32) {
        let key = core::mem::replace(&mut self.newcomer, NO_KEY);
        *self.key_mut(leaf) = key;
        let (_, id) = self.unpack(key).expect("there is one");
        self.leaf[id] = leaf;
    }

    #[inline]
    fn change(&mut self, leaf: u32, key: Key) {
        if leaf != self.changed {
            self.settle();
        }
        *self.key_mut(leaf) = key;
        self.changed = leaf;
    }

    /// Makes the nodes above the leaf that was changed last agree with it. If nobody has it, the newcomer takes it.
    #[inline]
    fn settle(&mut self) {
        if self.changed != ABSENT {
            self.carry_up();
        }
    }

    fn carry_up(&mut self) {
        let leaf = core::mem::replace(&mut self.changed, ABSENT);
        if is_nobody(self.key(leaf)) {
            if is_nobody(self.newcomer) { self.vacate(leaf) } else { self.seat_newcomer(leaf) }
        }
        let (mut at, mut least) = (leaf as usize, self.key(leaf));
        for level in 0..=self.top {
            steps::taken(WIDTH);
            let children = &mut self.nodes[self.begin[level] + at / WIDTH];
            // The rivals do not wait for what is carried.
            children.0[at % WIDTH] = NO_KEY;
            let rival = children.least();
            children.0[at % WIDTH] = least;
            least = lesser(rival, least);
            at /= WIDTH;
        }
        self.least = least;
    }

    /// Nobody has this leaf.
    fn vacate(&mut self, leaf: u32) {
        let next = core::mem::replace(&mut self.vacant, leaf);
        *self.key_mut(leaf) = NO_KEY << RANK | Key::from(next);
    }

    #[inline]
    fn key(&self, leaf: u32) -> Key {
        self.nodes[leaf as usize / WIDTH].0[leaf as usize % WIDTH]
    }

    #[inline]
    fn key_mut(&mut self, leaf: u32) -> &mut Key {
        &mut self.nodes[leaf as usize / WIDTH].0[leaf as usize % WIDTH]
    }

    #[inline]
    fn unpack(&self, key: Key) -> Option<(Tag, I)> {
        (!is_nobody(key)).then(|| (key >> RANK, I::from_index((key as u32 ^ self.flip) as usize)))
    }
}

/// Whether the key is of a leaf that nobody has. Looks at one half: both, written apart, could not be read at once without delay.
#[inline]
fn is_nobody(key: Key) -> bool {
    (key >> 64) as u64 == u64::MAX
}

/// The lesser key, without a branch: which it is, nobody can predict.
#[inline]
fn lesser(a: Key, b: Key) -> Key {
    let half = |half: u32| select_unpredictable(a < b, (a >> half) as u64, (b >> half) as u64);
    Key::from(half(64)) << 64 | Key::from(half(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::id::ClientId;

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
