//! Clients that are early, by when they are due, and clients that are due, by when they would be done: the choice of all
//! worst-case fair policies.
//!
//! Two tournaments over one row of leaves. Each client has its leaf for good, and with it what it is now: early, with the
//! start tag of its head, or due, with the finish tag, or neither. A node knows the least start tag of the early ones below
//! it, and the least finish tag of the due ones. Nodes have [`WIDTH`] children, which are side by side in memory and are
//! compared without a branch, as nobody can predict which tag is less; and on the way up nothing waits for the level below
//! but one comparison. A client that comes is compared once at each level, with what is there.
//!
//! The client that became due last stays outside the tree until another does. If it goes before, as a client does
//! that wakes alone, no node ever knows of it.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use core::marker::PhantomData;

use humpyard_core::id::Id;
use humpyard_core::policy::Ties;
use humpyard_core::steps;

use super::tag::Tag;

/// Siblings: a line of the cache.
const WIDTH: usize = 4;

/// Bits of a key below the tag: of a leaf, what is noted there; of a node, whose tag it is.
const LOW: u32 = 32;
/// Bit of a leaf whose client is early.
const EARLY: u128 = 1 << 127;
/// A leaf whose client is neither. It and those of the other kind, to whom the bit is wrong, are beyond all tags.
const ABSENT: u128 = u128::MAX;
/// Keys from here on are nobody's.
const NOBODY: u128 = (EARLY - 1) >> 64 << 64;
/// Tags from here on are all alike: half of all tags.
const TAG_MAX: Tag = (NOBODY >> LOW) - 1;

/// Siblings.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group([u128; WIDTH]);

/// What there are two of: the tournament of those that are early, and of those that are due.
#[derive(Debug)]
struct Nodes {
    /// The levels above the leaves, from below, without the root.
    groups: Vec<Group>,
    /// The root.
    least: u128,
}

/// Clients below a limit, some of which are early or due.
///
/// A change is O(log n) in the limit, and nothing allocates. Beside a tag a client has a number, for the user's own purposes.
#[derive(Debug)]
pub(super) struct Eligible<I> {
    leaves: Vec<Group>,
    /// Where each level of nodes begins, from below.
    levels: Vec<usize>,
    early: Nodes,
    due: Nodes,
    /// The key of the client that became due last, while no node knows of it, or [`ABSENT`].
    newcomer: u128,
    /// What turns an id into its rank.
    flip: u32,
    id: PhantomData<I>,
}

/// What a client is that has a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Not due before this start tag.
    Early(Tag),
    /// Due, with this finish tag.
    Due(Tag),
}

impl Group {
    /// One of the keys is this from now on; the least of all.
    ///
    /// Not inlined into loops, where the compiler makes branches of selections.
    #[inline(never)]
    fn change(&mut self, own: usize, key: u128) -> u128 {
        let rivals = least_rival(|other| self.0[(own ^ other) % WIDTH]);
        self.0[own % WIDTH] = key;
        lesser(rivals, key)
    }
}

/// The least key of the siblings of one, which are told by their places relative to it.
#[inline(always)]
fn least_rival(key: impl Fn(usize) -> u128) -> u128 {
    lesser(lesser(key(1), key(2)), key(3))
}

impl Nodes {
    fn new(groups: usize) -> Self {
        Self { groups: vec![Group([ABSENT; WIDTH]); groups], least: ABSENT }
    }

    /// Below a group of leaves there is this key from now on, too. Goes up no further than it is
    /// the least. The first node is changed without a branch: one key in four is the least there,
    /// which nobody can predict.
    #[inline]
    fn enter(&mut self, levels: &[usize], mut at: usize, key: u128) {
        for (height, level) in levels.iter().enumerate() {
            steps::taken(1);
            let node = &mut self.groups[level + at / WIDTH].0[at % WIDTH];
            if height > 0 && *node < key {
                return;
            }
            *node = lesser(*node, key);
            at /= WIDTH;
        }
        self.least = lesser(self.least, key);
    }

    /// The least key below a group of leaves is this from now on.
    #[inline]
    fn carry_up(&mut self, levels: &[usize], mut at: usize, mut least: u128) {
        for level in levels {
            steps::taken(1);
            least = self.groups[level + at / WIDTH].change(at % WIDTH, least);
            at /= WIDTH;
        }
        self.least = least;
    }
}

impl<I: Id> Eligible<I> {
    /// For ids below `limit`, none of which is early or due.
    pub(super) fn new(limit: usize, ties: Ties) -> Self {
        let mut nodes = limit.div_ceil(WIDTH);
        let leaves = vec![Group([ABSENT; WIDTH]); nodes];
        let (mut levels, mut groups) = (Vec::new(), 0);
        while nodes > 1 {
            levels.push(groups);
            nodes = nodes.div_ceil(WIDTH);
            groups += nodes;
        }
        let flip = match ties {
            Ties::Lowest => 0,
            Ties::Highest => u32::MAX,
        };
        let [early, due] = [groups; 2].map(Nodes::new);
        Self { leaves, levels, early, due, newcomer: ABSENT, flip, id: PhantomData }
    }

    /// The early one that is due first, and when.
    #[inline]
    pub(super) fn first_early(&self) -> Option<(Tag, I)> {
        self.unpack(self.early.least)
    }

    /// The due one that would be done first, and when.
    #[inline]
    pub(super) fn first_due(&self) -> Option<(Tag, I)> {
        self.unpack(lesser(self.due.least, self.newcomer))
    }

    /// Makes due all that are, by this virtual time; `finish` tells the finish tag of a client, from its number. Then the one
    /// that would be done first. O(log n) for each that becomes due.
    #[inline]
    pub(super) fn choose(&mut self, now: Tag, mut finish: impl FnMut(I, u32) -> Tag) -> Option<I> {
        while let Some((start, id)) = self.first_early()
            && start <= now
        {
            let number = self.number(id);
            self.leave_early(id);
            self.enter_due(id, finish(id, number), number);
        }
        self.first_due().map(|(_, id)| id)
    }

    /// Whether the client is early or due.
    #[inline]
    pub(super) fn contains(&self, id: I) -> bool {
        !is_absent(*self.leaf(id))
    }

    /// What the client is, if it is either.
    pub(super) fn standing(&self, id: I) -> Option<Standing> {
        let leaf = *self.leaf(id);
        let tag = (leaf & !EARLY) >> LOW;
        (!is_absent(leaf)).then_some(if leaf & EARLY == 0 { Standing::Due(tag) } else { Standing::Early(tag) })
    }

    /// The number of a client that is early or due.
    #[inline]
    pub(super) fn number(&self, id: I) -> u32 {
        *self.leaf(id) as u32
    }

    /// The client, which was neither, is early. Tags of 2^95 and more are all alike.
    #[inline]
    pub(super) fn enter_early(&mut self, id: I, start: Tag, number: u32) {
        let tag = start.min(TAG_MAX) << LOW;
        *self.leaf_mut(id) = EARLY | tag | u128::from(number);
        self.early.enter(&self.levels, id.index() / WIDTH, tag | u128::from(self.rank(id)));
    }

    /// The client, which was neither, is due. Tags of 2^95 and more are all alike.
    #[inline]
    pub(super) fn enter_due(&mut self, id: I, finish: Tag, number: u32) {
        let tag = finish.min(TAG_MAX) << LOW;
        *self.leaf_mut(id) = tag | u128::from(number);
        let key = tag | u128::from(self.rank(id));
        let before = core::mem::replace(&mut self.newcomer, key);
        if !is_absent(before) {
            self.file(before);
        }
    }

    /// Nodes know of a due client from now on.
    #[inline]
    fn file(&mut self, key: u128) {
        let leaf = (key as u32 ^ self.flip) as usize;
        self.due.enter(&self.levels, leaf / WIDTH, key);
    }

    /// The client is neither from now on; nothing happens if it was not.
    #[inline]
    pub(super) fn leave(&mut self, id: I) {
        let leaf = *self.leaf(id);
        if is_absent(leaf) {
            return;
        }
        if leaf & EARLY == 0 { self.leave_due(id) } else { self.leave_early(id) }
    }

    fn leave_early(&mut self, id: I) {
        let least = self.least_but(id, EARLY);
        self.early.carry_up(&self.levels, id.index() / WIDTH, least);
    }

    fn leave_due(&mut self, id: I) {
        // Its siblings are about to be compared, and nodes must not know of the newcomer by that.
        if (self.newcomer as u32 ^ self.rank(id)) < WIDTH as u32 && self.newcomer_leaves(id) {
            return;
        }
        let least = self.least_but(id, 0);
        self.due.carry_up(&self.levels, id.index() / WIDTH, least);
    }

    /// Files the newcomer, if there is one, unless it is the client that leaves; then it leaves. Returns whether
    /// it does.
    #[inline]
    fn newcomer_leaves(&mut self, id: I) -> bool {
        let newcomer = core::mem::replace(&mut self.newcomer, ABSENT);
        if is_absent(newcomer) {
            return false;
        }
        let leaves = newcomer as u32 == self.rank(id);
        if leaves {
            *self.leaf_mut(id) = ABSENT;
        } else {
            self.file(newcomer);
        }
        leaves
    }

    /// Empties a leaf, and gives the least key of a kind of its siblings.
    #[inline(never)]
    fn least_but(&mut self, id: I, kind: u128) -> u128 {
        let rank = self.rank(id);
        let (leaves, own) = (&mut self.leaves[id.index() / WIDTH].0, id.index() % WIDTH);
        leaves[own] = ABSENT;
        let key = |other: usize| {
            let leaf = leaves[own ^ other] ^ kind;
            leaf >> LOW << LOW | u128::from(rank ^ other as u32)
        };
        least_rival(key)
    }

    #[inline]
    fn leaf(&self, id: I) -> &u128 {
        steps::taken(1);
        &self.leaves[id.index() / WIDTH].0[id.index() % WIDTH]
    }

    #[inline]
    fn leaf_mut(&mut self, id: I) -> &mut u128 {
        steps::taken(1);
        &mut self.leaves[id.index() / WIDTH].0[id.index() % WIDTH]
    }

    #[inline]
    fn rank(&self, id: I) -> u32 {
        id.index() as u32 ^ self.flip
    }

    #[inline]
    fn unpack(&self, key: u128) -> Option<(Tag, I)> {
        (key < NOBODY).then(|| (key >> LOW, I::from_index((key as u32 ^ self.flip) as usize)))
    }
}

/// Whether the leaf's client is neither. Looks at one half: reading both at once waits for their
/// writes.
#[inline]
fn is_absent(leaf: u128) -> bool {
    (leaf >> 64) as u64 == u64::MAX
}

/// The lesser key, without a branch: which it is, nobody can predict.
#[inline]
fn lesser(a: u128, b: u128) -> u128 {
    select_unpredictable(a < b, a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::id::ClientId;
    use humpyard_core::random::Seed;

    fn behaves_like_a_scan(limit: usize, ties: Ties) {
        let mut eligible = Eligible::new(limit, ties);
        let mut model: Vec<Option<(Standing, u32)>> = vec![None; limit];
        let mut random = Seed(7).stream("test");
        let rank = |id: usize| if ties == Ties::Lowest { id } else { limit - id };
        for step in 0..20_000 {
            let at = random.below(limit as u64) as usize;
            let id = ClientId::from_index(at);
            eligible.leave(id);
            // Few members at first, many later; ties all the time.
            let (tag, number) = (Tag::from(random.below(20)) << 28, random.bits() as u32);
            model[at] = match random.below(3) {
                _ if random.below(20_000) > step => None,
                0 => Some((Standing::Early(tag), number)),
                _ => Some((Standing::Due(tag), number)),
            };
            match model[at] {
                None => {}
                Some((Standing::Early(start), number)) => eligible.enter_early(id, start, number),
                Some((Standing::Due(finish), number)) => eligible.enter_due(id, finish, number),
            }
            let least = |tag: fn(Standing) -> Option<Tag>| {
                let members = model.iter().enumerate().filter_map(|(id, member)| Some((tag((*member)?.0)?, id)));
                members.min_by_key(|&(tag, id)| (tag, rank(id))).map(|(tag, id)| (tag, ClientId::from_index(id)))
            };
            let early = |standing| if let Standing::Early(start) = standing { Some(start) } else { None };
            let due = |standing| if let Standing::Due(finish) = standing { Some(finish) } else { None };
            assert_eq!((eligible.first_early(), eligible.first_due()), (least(early), least(due)));
            assert_eq!(eligible.contains(id), model[at].is_some());
            assert_eq!(eligible.standing(id).map(|standing| (standing, eligible.number(id))), model[at]);
        }
    }

    #[test]
    fn of_any_size() {
        for limit in [1, 2, 7, 8, 9, 33, 100, 300] {
            behaves_like_a_scan(limit, Ties::Lowest);
            behaves_like_a_scan(limit, Ties::Highest);
        }
    }

    #[test]
    fn the_early_become_due() {
        let mut eligible = Eligible::new(4, Ties::Lowest);
        for (id, start) in [10, 30, 20, 40].into_iter().enumerate() {
            eligible.enter_early(ClientId::from_index(id), start, 100 - id as u32);
        }
        assert_eq!(eligible.choose(9, |_, _| unreachable!("nobody is due")), None);
        assert_eq!(eligible.choose(30, |_, number| number.into()), Some(ClientId(2)));
        assert_eq!(eligible.first_early(), Some((40, ClientId(3))));
        let due = [0, 1, 2].map(|id| eligible.standing(ClientId(id)));
        assert_eq!(due, [100, 99, 98].map(|finish| Some(Standing::Due(finish))));
    }

    #[test]
    fn tags_beyond_their_range_are_last() {
        let mut eligible = Eligible::new(2, Ties::Highest);
        eligible.enter_due(ClientId(0), Tag::MAX, 7);
        eligible.enter_due(ClientId(1), TAG_MAX - 1, 7);
        assert_eq!(eligible.first_due(), Some((TAG_MAX - 1, ClientId(1))));
        eligible.leave(ClientId(1));
        assert_eq!(eligible.first_due(), Some((TAG_MAX, ClientId(0))));
        eligible.enter_early(ClientId(1), Tag::MAX, 7);
        assert_eq!(eligible.first_early(), Some((TAG_MAX, ClientId(1))));
    }
}
