//! Early clients by start tag, and due clients by finish tag: the choice of all worst-case fair policies.
//!
//! The structure has two tournaments over one row of leaves. Each client has a fixed leaf with its state:
//! early, with the start tag of its head, or due, with the finish tag, or neither. A node stores the least
//! start tag of the early clients below it, and the least finish tag of the due clients. A node has [`WIDTH`]
//! children. They are adjacent in memory and compared without a branch, because the lesser tag is not
//! predictable. On the way up, each level waits for only one comparison of the level below. A new client is
//! compared once at each level with the present minimum.
//!
//! The client that became due last stays outside the tree until another client becomes due. If it
//! leaves before that, as a client does that wakes alone, no node needs an update.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use core::marker::PhantomData;

use humpyard_core::id::Id;
use humpyard_core::policy::Ties;
use humpyard_core::steps;

use super::tag::Tag;

/// Siblings per node: a cache line.
const WIDTH: usize = 4;

/// The bits of a key below the tag. In a leaf they hold the client's number, in a node the rank of
/// the tag's client.
const LOW: u32 = 32;
/// The bit of a leaf whose client is early.
const EARLY: u128 = 1 << 127;
/// A leaf whose client is neither early nor due. Compared under the wrong kind, this key and those
/// of the other kind are beyond all tags.
const ABSENT: u128 = u128::MAX;
/// Keys from here on belong to no client.
const NOBODY: u128 = (EARLY - 1) >> 64 << 64;
/// The greatest tag; all greater tags count as this one. It is half of the tag range.
const TAG_MAX: Tag = (NOBODY >> LOW) - 1;

/// A group of siblings.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group([u128; WIDTH]);

/// The nodes of one of the two tournaments, of early or of due clients.
#[derive(Debug)]
struct Nodes {
    /// The levels above the leaves, from the lowest, without the root.
    groups: Vec<Group>,
    /// The root.
    least: u128,
}

/// Clients below a limit; some are early or due.
///
/// A change is O(log n) in the limit and does not allocate. A client also has a number besides its
/// tag, for the user's own purposes.
#[derive(Debug)]
pub(super) struct Eligible<I> {
    leaves: Vec<Group>,
    /// The start of each level of nodes, from the lowest.
    levels: Vec<usize>,
    early: Nodes,
    due: Nodes,
    /// The key of the client that became due last, while no node contains it, or [`ABSENT`].
    newcomer: u128,
    /// The mask that converts an id to its rank.
    flip: u32,
    id: PhantomData<I>,
}

/// The state of a client that has a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Early: not due before this start tag.
    Early(Tag),
    /// Due, with this finish tag.
    Due(Tag),
}

impl Group {
    /// Sets one of the keys, and returns the least of all.
    ///
    /// Not inlined into loops, where the compiler would replace selections by branches.
    #[inline(never)]
    fn change(&mut self, own: usize, key: u128) -> u128 {
        let rivals = least_rival(|other| self.0[(own ^ other) % WIDTH]);
        self.0[own % WIDTH] = key;
        lesser(rivals, key)
    }
}

/// Returns the least key of the three siblings of a node; `key` takes their places relative to it.
#[inline(always)]
fn least_rival(key: impl Fn(usize) -> u128) -> u128 {
    lesser(lesser(key(1), key(2)), key(3))
}

impl Nodes {
    fn new(groups: usize) -> Self {
        Self { groups: vec![Group([ABSENT; WIDTH]); groups], least: ABSENT }
    }

    /// Records a new key below a group of leaves. Goes up only while the key is the least. The first node is
    /// changed without a branch: one key in four is the least there, which is not predictable.
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

    /// Records the new least key below a group of leaves.
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
    /// Creates the structure for ids below `limit`, all neither early nor due.
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

    /// Returns the early client with the least start tag.
    #[inline]
    pub(super) fn first_early(&self) -> Option<(Tag, I)> {
        self.unpack(self.early.least)
    }

    /// Returns the due client with the least finish tag.
    #[inline]
    pub(super) fn first_due(&self) -> Option<(Tag, I)> {
        self.unpack(lesser(self.due.least, self.newcomer))
    }

    /// Makes due all early clients whose start tag is at most `now`; `finish` returns the finish
    /// tag of a client, given its number. Returns the due client with the least finish tag. O(log
    /// n) for each client that becomes due.
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

    /// Returns the state of the client. `None`: it is neither early nor due.
    pub(super) fn standing(&self, id: I) -> Option<Standing> {
        let leaf = *self.leaf(id);
        let tag = (leaf & !EARLY) >> LOW;
        (!is_absent(leaf)).then_some(if leaf & EARLY == 0 { Standing::Due(tag) } else { Standing::Early(tag) })
    }

    /// Returns the number of a client that is early or due.
    #[inline]
    pub(super) fn number(&self, id: I) -> u32 {
        *self.leaf(id) as u32
    }

    /// Makes early a client that was neither. Tags of 2^95 or more count as equal.
    #[inline]
    pub(super) fn enter_early(&mut self, id: I, start: Tag, number: u32) {
        let tag = start.min(TAG_MAX) << LOW;
        *self.leaf_mut(id) = EARLY | tag | u128::from(number);
        self.early.enter(&self.levels, id.index() / WIDTH, tag | u128::from(self.rank(id)));
    }

    /// Makes due a client that was neither. Tags of 2^95 or more count as equal.
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

    /// Records a due client in the nodes.
    #[inline]
    fn file(&mut self, key: u128) {
        let leaf = (key as u32 ^ self.flip) as usize;
        self.due.enter(&self.levels, leaf / WIDTH, key);
    }

    /// Makes the client neither early nor due. Does nothing if it is neither.
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
        // The siblings are about to be compared, which must not bring the newcomer into the nodes.
        if (self.newcomer as u32 ^ self.rank(id)) < WIDTH as u32 && self.newcomer_leaves(id) {
            return;
        }
        let least = self.least_but(id, 0);
        self.due.carry_up(&self.levels, id.index() / WIDTH, least);
    }

    /// Files the newcomer, if there is one. If it is the client that leaves, it leaves instead.
    /// Returns whether it leaves.
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

    /// Empties a leaf, and returns the least key of a kind among its siblings.
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

/// Whether the leaf's client is neither early nor due. Reads only one half: reading both at once
/// would wait for their writes.
#[inline]
fn is_absent(leaf: u128) -> bool {
    (leaf >> 64) as u64 == u64::MAX
}

/// Returns the lesser key without a branch, because the lesser one is not predictable.
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
            // Few members at first, many later, with frequent ties.
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
