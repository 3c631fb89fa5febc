//! A tournament: finds the client with the least tag.
//!
//! Leaves are in groups of eight. Over the groups is a tree of matches, each of which stores the
//! least tag of either side. A member that leaves makes a hole, and the next new member takes it:
//! together they cost one way up to the root. On that way, each level waits for only one comparison
//! of the level before. No branch depends on a tag, so none is mispredicted. This is several times
//! as fast as a heap, where every step waits for the one before. A new member without a hole goes
//! up only while it is the least, which is rarely far. A client takes 24 bytes, or up to 28 if the
//! limit is not a power of two.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use humpyard_core::id::{Id, IdVec};
use humpyard_core::policy::Ties;
use humpyard_core::steps;

use super::tag::Tag;

/// The bits of a key for the rank of its client; the others are the tag.
const RANK: u32 = 32;
/// The greatest tag; the upper 64 bits of those beyond are all ones.
const TAG_MAX: Tag = (Tag::MAX >> RANK) - (1 << RANK);

/// A tag above the rank of its client, so that equal tags compare by rank. A tag beyond the
/// greatest marks a vacant leaf, whose rank is the next vacant leaf.
type Key = u128;

/// The key of the last vacant leaf.
const NO_KEY: Key = Key::MAX;

/// The leaf of a client without a tag. It also stands for no leaf.
const ABSENT: u32 = u32::MAX;

/// The number of leaves per group.
const WIDTH: usize = 8;

/// Adjacent leaves, in two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Group([Key; WIDTH]);

impl Group {
    /// Sets one of the keys, and returns the least of all.
    #[inline]
    fn change(&mut self, own: usize, key: Key) -> Key {
        steps::taken(WIDTH);
        let rival = self.least_rival(own);
        self.0[own] = key;
        lesser(rival, key)
    }

    /// Returns the least key of all other leaves.
    #[inline]
    fn least_rival(&self, own: usize) -> Key {
        let key = |other: usize| self.0[(own ^ other) % WIDTH];
        let (low, high) = (lesser(key(2), key(3)), lesser(lesser(key(4), key(5)), lesser(key(6), key(7))));
        lesser(lesser(key(1), low), high)
    }
}

/// Ids below a limit, some of which have a tag.
///
/// A change is O(log n), where n is the most members at once so far. Replacing one member by
/// another is O(log n) too. Nothing allocates.
#[derive(Debug)]
pub struct Tournament<I> {
    groups: Vec<Group>,
    /// The least key below either side of each match. A place in the tree is that of a group or,
    /// from `places` on, of a match: the match of the places 2m and 2m + 1 is at `places` + m.
    matches: Vec<[Key; 2]>,
    /// A power of two, not below the number of groups.
    places: usize,
    /// The place above all leaves that were ever used.
    root: usize,
    /// The number of leaves below the root.
    width: usize,
    /// The least key, valid once there is no hole.
    least: Key,
    /// The number of ids that have a tag.
    members: usize,
    /// The number of leaves that were ever used.
    used: usize,
    /// The first vacant one of these leaves.
    vacant: u32,
    /// The leaf of the member that left last; the matches above do not reflect yet that it is vacant.
    hole: u32,
    /// The leaf of each id.
    leaf: IdVec<I, u32>,
    /// The mask that converts an id to its rank.
    flip: u32,
}

impl<I: Id> Tournament<I> {
    /// Creates a tournament for ids below `limit`, none of which has a tag.
    pub(super) fn new(limit: usize, ties: Ties) -> Self {
        let flip = match ties {
            Ties::Lowest => 0,
            Ties::Highest => u32::MAX,
        };
        let groups = limit.div_ceil(WIDTH);
        let places = groups.next_power_of_two();
        Self {
            groups: vec![Group([NO_KEY; WIDTH]); groups],
            matches: vec![[NO_KEY; 2]; places],
            places,
            root: 0,
            width: WIDTH,
            least: NO_KEY,
            members: 0,
            used: 0,
            vacant: ABSENT,
            hole: ABSENT,
            leaf: IdVec::from_fn(limit, |_| ABSENT),
            flip,
        }
    }

    /// Whether no id has a tag.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Returns the least tag, and the id that has it.
    #[inline]
    pub(super) fn first(&mut self) -> Option<(Tag, I)> {
        self.fill_hole();
        self.unpack(self.least)
    }

    /// Whether the id has a tag.
    #[inline]
    pub(super) fn contains(&self, id: I) -> bool {
        self.leaf[id] != ABSENT
    }

    /// Returns the tag of this id.
    pub(super) fn tag(&self, id: I) -> Option<Tag> {
        let leaf = self.leaf[id];
        if leaf == ABSENT { None } else { self.unpack(self.key(leaf)).map(|member| member.0) }
    }

    /// Sets the tag of the id. Tags above the greatest, nearly 2^96, count as equal.
    #[inline]
    pub(super) fn set(&mut self, id: I, tag: Tag) {
        let key = tag.min(TAG_MAX) << RANK | Key::from(id.index() as u32 ^ self.flip);
        match self.leaf[id] {
            ABSENT => self.join(id, key),
            leaf if key <= self.key(leaf) => self.enter(leaf, key),
            leaf => self.change(leaf, key),
        }
    }

    /// Removes the tag of the id, if it has one.
    #[inline]
    pub(super) fn remove(&mut self, id: I) {
        let leaf = core::mem::replace(&mut self.leaf[id], ABSENT);
        if leaf != ABSENT {
            self.members -= 1;
            self.fill_hole();
            self.hole = leaf;
        }
    }

    #[inline]
    fn join(&mut self, id: I, key: Key) {
        self.members += 1;
        if self.hole != ABSENT {
            let leaf = core::mem::replace(&mut self.hole, ABSENT);
            self.leaf[id] = leaf;
            self.carry_up(leaf, key);
        } else {
            let leaf = self.vacant_leaf();
            self.leaf[id] = leaf;
            self.enter(leaf, key);
        }
    }

    /// Makes the hole, if there is one, a vacant leaf, and updates the matches above.
    #[inline]
    fn fill_hole(&mut self) {
        if self.hole != ABSENT {
            let leaf = core::mem::replace(&mut self.hole, ABSENT);
            let next = core::mem::replace(&mut self.vacant, leaf);
            self.carry_up(leaf, NO_KEY << RANK | Key::from(next));
        }
    }

    /// Returns a vacant leaf.
    #[inline]
    fn vacant_leaf(&mut self) -> u32 {
        if self.vacant != ABSENT {
            let leaf = self.vacant;
            self.vacant = self.key(leaf) as u32;
            return leaf;
        }
        if self.used == self.width {
            self.matches[self.root / 2][0] = self.least;
            self.root = self.above(self.root);
            self.width *= 2;
        }
        self.used += 1;
        self.used as u32 - 1
    }

    /// Sets the key of a leaf that was vacant or had a greater key. Goes up only while the key is the least.
    #[inline]
    fn enter(&mut self, leaf: u32, key: Key) {
        self.groups[leaf as usize / WIDTH].0[leaf as usize % WIDTH] = key;
        let mut at = leaf as usize / WIDTH;
        while at != self.root {
            steps::taken(1);
            let known = &mut self.matches[at / 2][at % 2];
            if *known <= key {
                return;
            }
            *known = key;
            at = self.above(at);
        }
        self.least = self.least.min(key);
    }

    /// Sets the key of a leaf. Goes up only while that changes the least.
    fn change(&mut self, leaf: u32, key: Key) {
        let mut at = leaf as usize / WIDTH;
        let mut least = self.groups[at].change(leaf as usize % WIDTH, key);
        while at != self.root {
            steps::taken(1);
            let sides = &mut self.matches[at / 2];
            if sides[at % 2] == least {
                return;
            }
            sides[at % 2] = least;
            least = sides[0].min(sides[1]);
            at = self.above(at);
        }
        self.least = least;
    }

    /// Sets the key of a leaf whose key was the least of all; otherwise as [`Tournament::change`].
    #[inline(never)]
    fn carry_up(&mut self, leaf: u32, key: Key) {
        let mut at = leaf as usize / WIDTH;
        let mut least = self.groups[at].change(leaf as usize % WIDTH, key);
        while at != self.root {
            steps::taken(1);
            let sides = &mut self.matches[at / 2];
            let rival = sides[(at % 2) ^ 1];
            sides[at % 2] = least;
            least = lesser(rival, least);
            at = self.above(at);
        }
        self.least = least;
    }

    /// Returns the place of the match in which a place is a side.
    #[inline]
    fn above(&self, place: usize) -> usize {
        self.places | (place / 2)
    }

    #[inline]
    fn key(&self, leaf: u32) -> Key {
        self.groups[leaf as usize / WIDTH].0[leaf as usize % WIDTH]
    }

    #[inline]
    fn unpack(&self, key: Key) -> Option<(Tag, I)> {
        (!is_nobody(key)).then(|| (key >> RANK, I::from_index((key as u32 ^ self.flip) as usize)))
    }
}

/// Whether the key is that of a vacant leaf. It reads only one half: the halves are written
/// separately, and reading both at once would be delayed.
#[inline]
fn is_nobody(key: Key) -> bool {
    (key >> 64) as u64 == u64::MAX
}

/// Returns the lesser key without a branch, because the lesser one is not predictable.
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
