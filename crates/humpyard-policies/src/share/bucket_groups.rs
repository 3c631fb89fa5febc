//! Buckets of start tags in groups, with four bitmaps that show which group is served next: the
//! structure of QFQ.
//!
//! A member has weight w, and its packets cost at most L. The slots of its group are σ long in virtual time,
//! where σ is the least power of two not below L/w. Its start tag, rounded down to a multiple of σ, selects its
//! bucket in the group. A group has the start S of its first bucket and the finish F = S + 2σ. A group is
//! eligible if it has begun: S ≤ V. The eligible group with the least F is served, the lowest one in a tie. In
//! its first bucket, the member that came first is served.
//!
//! One instruction finds this group. A group is *blocked* while a higher group that is eligible and
//! not blocked finishes before it. So the groups that are eligible and not blocked have F in
//! ascending order, and the lowest of them is next.
//!
//! This order relies on one condition: no bucket begins after the end of the slot of its group that
//! contains V. A member may be further ahead if its packet was longer than `longest`. It then joins
//! a higher group, where its tag meets the condition. A member that was in service while others
//! went on comes back with its old tag. The groups that it then blocks are checked one by one, and
//! so are the groups that a changed group blocked.
//!
//! Groups count in *ticks*, the slots of group 0, modulo 2^64: tags in buckets are never far from virtual time.

use alloc::boxed::Box;
use alloc::vec;

use humpyard_core::id::{Id, IdVec};
use humpyard_core::steps;
use humpyard_core::unit::Work;

use super::tag::{Divisor, ExactTag, Tag, TotalTag};

/// The number of groups. It is small enough that slots modulo [`BUCKETS`] continue when ticks wrap
/// and that differences of ticks keep their sign.
const GROUPS: usize = 58;
/// The number of bits of a bitmap, so that no access is out of bounds.
const GROUPS_STORED: usize = 64;
/// Buckets per group: a power of two, the number of bits of a bitmap.
const BUCKETS: u32 = 64;
/// The number of buckets of all groups.
const BUCKETS_STORED: usize = GROUPS_STORED * BUCKETS as usize;
/// The most slots of its group by which a member may be behind virtual time. Any larger lag is forgotten.
const BEHIND_MAX: u64 = 32;
/// The number of bits of a weight. It is also the group of a member of weight 1.
const WEIGHT_BITS: u32 = 32;

/// The bitmaps: one for each combination of eligible or early, and ready or blocked.
const ELIGIBLE: usize = 0;
const EARLY: usize = 1;
const BLOCKED_ELIGIBLE: usize = 2;
const BLOCKED_EARLY: usize = 3;

/// The place of a member that is in no bucket.
const NOWHERE: u16 = u16::MAX;
/// Stands for no group.
const NO_GROUP: u8 = u8::MAX;

/// A member of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<I, T> {
    /// Start tag of its next packet: the finish tag of the one before, or virtual time when it woke.
    pub(super) start: ExactTag,
    /// Its weight.
    pub(super) weight: Divisor,
    /// Neighbours in its bucket.
    next: I,
    previous: I,
    /// The bucket that contains it, or [`NOWHERE`].
    place: u16,
    /// The group of its weight.
    home: u8,
    /// The policy's state of the member.
    pub(super) own: T,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// The tick at which its first bucket began when the bitmaps were last updated.
    start: u64,
    /// Bit n is set while a bucket has members whose slot is n modulo the number of buckets.
    occupied: u64,
}

/// The first and the last member of an occupied bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket<I> {
    first: I,
    last: I,
}

/// Members in buckets, and virtual time. Every operation is O(1) and does not allocate.
#[derive(Debug)]
pub(super) struct BucketGroups<I, T> {
    members: IdVec<I, Member<I, T>>,
    /// The work so far, divided by the weights of the members that were awake.
    virtual_time: TotalTag,
    /// The work that virtual time does not count yet. If negative, virtual time has counted more
    /// than there was.
    uncounted: i64,
    /// The sum of the weights of the members that are awake.
    weight: u64,
    /// The sum of the weights when virtual time last grew.
    divisor: Divisor,
    bitmaps: [u64; 4],
    groups: Box<[Group; GROUPS_STORED]>,
    /// The bitmap that contains each group, if any. Reading all four bitmaps at once would wait for
    /// a preceding write to one of them.
    listed: [u8; GROUPS_STORED],
    buckets: Box<[Bucket<I>; BUCKETS_STORED]>,
    /// The group whose first bucket has become empty since the bitmaps were updated, or [`NO_GROUP`].
    changed: u8,
    /// The base-2 logarithm of a tick.
    tick: u32,
    /// Virtual time in ticks, rounded down, modulo 2^64.
    now: u64,
    /// The most work of a packet.
    longest: Work,
}

impl<I: Id, T> BucketGroups<I, T> {
    /// Creates members of these weights, none in a bucket, whose packets cost at most `longest`.
    pub(super) fn new(longest: Work, members: usize, mut member: impl FnMut(I) -> (u64, T)) -> Self {
        let none = I::from_index(0);
        let longest = longest.clamp(1, 1 << 62);
        let buckets = vec![Bucket { first: none, last: none }; BUCKETS_STORED].into_boxed_slice();
        let mut groups = Self {
            members: IdVec::new(),
            virtual_time: TotalTag::default(),
            uncounted: 0,
            weight: 0,
            divisor: Divisor::new(1),
            bitmaps: [0; 4],
            groups: Box::new([Group::default(); GROUPS_STORED]),
            listed: [0; GROUPS_STORED],
            buckets: buckets.try_into().unwrap_or_else(|_| unreachable!("as many as it was made with")),
            changed: NO_GROUP,
            tick: ceil_log2(longest),
            now: 0,
            longest,
        };
        groups.members = IdVec::from_fn(members, |id| {
            let (weight, own) = member(id);
            Member {
                start: ExactTag::default(),
                weight: Divisor::new(weight),
                next: id,
                previous: id,
                place: NOWHERE,
                home: groups.home(weight),
                own,
            }
        });
        groups
    }

    /// Returns a member.
    #[inline]
    pub(super) fn get(&self, id: I) -> &Member<I, T> {
        &self.members[id]
    }

    /// Returns a member for changes. The start of a member in a bucket must not change.
    #[inline]
    pub(super) fn get_mut(&mut self, id: I) -> &mut Member<I, T> {
        &mut self.members[id]
    }

    /// Returns all ids, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        self.members.ids()
    }

    /// Returns the members, in the order of their ids.
    pub(super) fn members(&self) -> &[Member<I, T>] {
        self.members.as_slice()
    }

    /// Whether the member is in a bucket.
    #[inline]
    pub(super) fn contains(&self, id: I) -> bool {
        self.members[id].place != NOWHERE
    }

    /// Returns virtual time as of the last update.
    #[inline]
    pub(super) fn virtual_time(&self) -> Tag {
        self.virtual_time.tag
    }

    /// Adds the work `more` and removes the work `less`.
    #[inline]
    pub(super) fn count(&mut self, more: Work, less: Work) {
        self.uncounted = self.uncounted.saturating_add_unsigned(more).saturating_sub_unsigned(less);
    }

    /// Sets the sum of the weights of the members that are awake.
    #[inline]
    pub(super) fn share_among(&mut self, weight: u64) {
        self.advance();
        self.weight = weight;
        if weight == 0 {
            self.uncounted = 0;
        }
    }

    /// Returns the sum of the weights of the members that are awake.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Sets the weight of a member that is in no bucket. Its last `work` counts at the new weight too.
    pub(super) fn set_weight(&mut self, id: I, weight: u64, work: Work) {
        let home = self.home(weight);
        let member = &mut self.members[id];
        member.start.retreat(work, &member.weight);
        member.weight = Divisor::new(weight);
        // The remainder is relative to the old weight.
        member.start = ExactTag::at(member.start.tag());
        member.start.advance(work, &member.weight);
        member.home = home;
    }

    /// Returns the group of members of this weight: its slots hold L/w, rounded up to a power of two.
    fn home(&self, weight: u64) -> u8 {
        // σ = 2^(tick + group − 32) in units of work per weight, because there are 32 fraction bits.
        let fits = |group: u32| u128::from(self.longest) << (WEIGHT_BITS - group) <= u128::from(weight) << self.tick;
        (0..=WEIGHT_BITS).find(|&group| fits(group)).unwrap_or(WEIGHT_BITS) as u8
    }

    /// Returns the member that is served next. If no group has begun yet, virtual time advances to
    /// the first start.
    #[inline]
    pub(super) fn first(&mut self) -> Option<I> {
        if self.uncounted > 0 {
            self.count_up();
            self.settle();
            self.promote();
        } else {
            self.settle();
        }
        if self.bitmaps[ELIGIBLE] == 0 && !self.skip() {
            return None;
        }
        let group = lowest(self.bitmaps[ELIGIBLE]);
        Some(self.buckets[at(group, self.groups[group].start)].first)
    }

    /// Updates virtual time with the work so far, and makes groups eligible that have begun.
    #[inline]
    pub(super) fn advance(&mut self) {
        if self.uncounted > 0 {
            self.count_up();
            self.promote();
        }
    }

    /// If no group is eligible, advances virtual time to the first start. Returns whether there is
    /// an eligible group.
    #[inline]
    pub(super) fn skip(&mut self) -> bool {
        self.settle();
        self.bitmaps[ELIGIBLE] != 0 || self.skip_ahead()
    }

    /// Advances virtual time to the start of the first group if none is eligible. Returns whether there is one.
    #[inline(never)]
    fn skip_ahead(&mut self) -> bool {
        let early = self.bitmaps[EARLY] | self.bitmaps[BLOCKED_EARLY];
        if early == 0 {
            return false;
        }
        let ahead = self.groups[lowest(early)].start.wrapping_sub(self.now);
        self.virtual_time = TotalTag::at((self.ticks() + Tag::from(ahead)) << self.tick);
        self.now = self.now.wrapping_add(ahead);
        self.promote();
        self.bitmaps[ELIGIBLE] != 0
    }

    #[inline]
    fn count_up(&mut self) {
        if self.divisor.weight() != self.weight && !self.divide_anew() {
            return;
        }
        self.virtual_time.advance(self.uncounted as u64, &self.divisor);
        self.now = ticks(self.virtual_time.tag, self.tick);
        self.uncounted = 0;
    }

    /// Sets the sum of weights by which virtual time grows from now on, unless the sum is 0.
    #[inline(never)]
    fn divide_anew(&mut self) -> bool {
        if self.weight > 0 {
            self.virtual_time.rebase(self.divisor.weight(), self.weight);
            self.divisor = Divisor::new(self.weight);
        }
        self.weight > 0
    }

    /// Makes groups eligible that have begun. The lowest early group begins first.
    #[inline]
    fn promote(&mut self) {
        loop {
            let early = self.bitmaps[EARLY] | self.bitmaps[BLOCKED_EARLY];
            if early == 0 || self.is_early(lowest(early)) {
                return;
            }
            let group = lowest(early);
            steps::taken(1);
            let blocked = usize::from(self.bitmaps[BLOCKED_EARLY] >> group & 1 != 0);
            self.move_group(group, EARLY + 2 * blocked, ELIGIBLE + 2 * blocked);
        }
    }

    /// Adds a member at the end of its bucket.
    #[inline]
    pub(super) fn insert(&mut self, id: I) {
        let member = &mut self.members[id];
        debug_assert!(member.place == NOWHERE, "{id:?} is in a bucket already");
        let (at, tag) = (usize::from(member.home) % GROUPS_STORED, member.start.tag());
        let start = ticks(tag, self.tick) >> at;
        let ahead = start.wrapping_sub(self.now >> at).wrapping_add(BEHIND_MAX);
        let group = &mut self.groups[at];
        let slots = (start << at).wrapping_sub(group.start) >> at;
        let changed = usize::from(self.changed);
        let is_listed = changed == at || self.changed == NO_GROUP && group.occupied != 0;
        if ahead > BEHIND_MAX + 1 || slots >= BUCKETS.into() || !is_listed || !is_near(tag, self.virtual_time.tag) {
            return self.insert_rarely(id);
        }
        let place = place_of(at, start);
        let is_first = group.occupied & bit_of(place) == 0;
        group.occupied |= bit_of(place);
        let ends = &mut self.buckets[place];
        let last = core::mem::replace(&mut ends.last, id);
        (member.place, member.previous) = (place as u16, last);
        if is_first {
            ends.first = id;
        } else {
            self.members[last].next = id;
        }
        if slots == 0 {
            self.changed = NO_GROUP;
        }
    }

    /// As [`BucketGroups::insert`], for the rare cases: bitmaps may change, or the member's own
    /// group has no bucket for it.
    #[inline(never)]
    fn insert_rarely(&mut self, id: I) {
        let member = &self.members[id];
        let (mut group, tag) = (usize::from(member.home), member.start.tag());
        let mut key = slot_of(ticks(tag, self.tick), group);
        let ahead = (key >> group).wrapping_sub(self.now >> group).wrapping_add(BEHIND_MAX);
        if ahead > BEHIND_MAX + 1 || !is_near(tag, self.virtual_time.tag) {
            (group, key) = self.find_group(id);
        }
        if self.changed != NO_GROUP && usize::from(self.changed) != group {
            self.settle();
        }
        self.enter(id, group % GROUPS_STORED, key);
    }

    /// Returns virtual time in ticks, rounded down.
    fn ticks(&self) -> Tag {
        self.virtual_time.tag >> self.tick
    }

    /// Returns the group and the bucket of a member for which its own group has no bucket: a higher
    /// group, if the member is ahead. A lead beyond the slots of the highest group is forgotten,
    /// and so is too large a lag.
    fn find_group(&mut self, id: I) -> (usize, u64) {
        let home = usize::from(self.members[id].home);
        let (start, now) = (self.members[id].start.tag() >> self.tick, self.ticks());
        let least = (now >> home << home).saturating_sub(Tag::from(BEHIND_MAX) << home);
        let most = now + (1 << (GROUPS - 1));
        if start < least || start > most {
            let start = start.clamp(least, most);
            self.members[id].start = ExactTag::at(start << self.tick);
        }
        let start = start.clamp(least, most) as u64;
        let fits = |&group: &usize| !is_after(slot_of(start, group), slot_of(self.now, group).wrapping_add(1 << group));
        let group = (home..GROUPS).inspect(|_| steps::taken(1)).find(fits).unwrap_or(GROUPS - 1);
        (group, slot_of(start, group))
    }

    /// Adds a member to the bucket of a group that begins with `key`. No other group has changed.
    fn enter(&mut self, id: I, group: usize, mut key: u64) {
        if self.is_listed(group) && is_after(key, self.last_bucket(group)) {
            key = self.nearest_bucket(group, key);
        }
        let is_new = !self.is_listed(group);
        let start = self.groups[group].start;
        self.link(id, at(group, key));
        if is_new || is_after(start, key) {
            self.groups[group].start = key;
            self.changed = NO_GROUP;
            self.withdraw(group);
            self.place(group);
            self.block_below(group);
        } else if key == start {
            self.changed = NO_GROUP;
        }
    }

    /// Returns the start of the last bucket of a group.
    #[inline]
    fn last_bucket(&self, group: usize) -> u64 {
        self.groups[group].start.wrapping_add(u64::from(BUCKETS - 1) << group)
    }

    /// Returns the bucket for a key beyond the last bucket, as of the last update.
    #[cold]
    fn nearest_bucket(&mut self, group: usize, key: u64) -> u64 {
        self.settle();
        // There are enough buckets unless the first has waited for very long. In that case, the
        // last bucket takes all later keys.
        let last = self.last_bucket(group);
        if self.is_listed(group) && is_after(key, last) { last } else { key }
    }

    /// Whether the group is in a bitmap. No other group has changed.
    #[inline]
    fn is_listed(&self, group: usize) -> bool {
        self.groups[group].occupied != 0 || self.changed != NO_GROUP
    }

    fn link(&mut self, id: I, place: usize) {
        let (occupied, bit) = (&mut self.groups[group_of(place)].occupied, bit_of(place));
        let is_first = *occupied & bit == 0;
        *occupied |= bit;
        let ends = &mut self.buckets[place];
        let last = core::mem::replace(&mut ends.last, id);
        if is_first {
            ends.first = id;
        } else {
            self.members[last].next = id;
        }
        let member = &mut self.members[id];
        (member.place, member.previous) = (place as u16, last);
    }

    /// Removes a member from its bucket, and lets the caller change it.
    #[inline]
    pub(super) fn remove(&mut self, id: I, change: impl FnOnce(&mut Member<I, T>)) {
        let member = &mut self.members[id];
        debug_assert!(member.place != NOWHERE, "{id:?} is in no bucket");
        let place = usize::from(core::mem::replace(&mut member.place, NOWHERE)) % BUCKETS_STORED;
        let (next, previous) = (member.next, member.previous);
        change(member);
        let ends = &mut self.buckets[place];
        if ends.first == id {
            if ends.last == id {
                self.vacate(place);
            } else {
                ends.first = next;
                // This write is not necessary, but it prefetches the member that is likely to be served next.
                self.members[next].previous = next;
            }
        } else if ends.last == id {
            ends.last = previous;
        } else {
            self.members[next].previous = previous;
            self.members[previous].next = next;
        }
    }

    /// Records that a bucket has become empty.
    #[inline]
    fn vacate(&mut self, place: usize) {
        let group = group_of(place);
        self.groups[group].occupied &= !bit_of(place);
        if place == at(group, self.groups[group].start) {
            self.note_change(group);
        }
    }

    #[inline]
    fn note_change(&mut self, group: usize) {
        if self.changed != NO_GROUP && usize::from(self.changed) != group {
            self.settle();
        }
        self.changed = group as u8;
    }

    /// Updates the bitmaps for the group whose first bucket became empty, if any.
    #[inline]
    fn settle(&mut self) {
        if self.changed != NO_GROUP {
            self.settle_group();
        }
    }

    #[inline(never)]
    fn settle_group(&mut self) {
        let group = usize::from(core::mem::replace(&mut self.changed, NO_GROUP)) % GROUPS_STORED;
        let Group { start, occupied } = self.groups[group];
        let before = self.finish(group);
        self.withdraw(group);
        if occupied != 0 {
            let slots = u64::from(occupied.rotate_right((start >> group) as u32).trailing_zeros());
            self.groups[group].start = start.wrapping_add(slots << group);
            self.place(group);
        }
        self.unblock_below(group, before);
    }

    /// Removes a group from the bitmaps.
    #[inline]
    fn withdraw(&mut self, group: usize) {
        self.bitmaps[usize::from(self.listed[group]) % 4] &= !(1 << group);
    }

    /// Adds a group that is in no bitmap to the bitmap for its state.
    #[inline]
    fn place(&mut self, group: usize) {
        let (early, blocked) = (self.is_early(group), self.is_blocked(group));
        let to = usize::from(early) + 2 * usize::from(blocked);
        self.bitmaps[to] |= 1 << group;
        self.listed[group] = to as u8;
    }

    /// Whether a group has not begun.
    #[inline]
    fn is_early(&self, group: usize) -> bool {
        is_after(self.groups[group].start, self.now)
    }

    /// Returns the finish of a group.
    #[inline]
    fn finish(&self, group: usize) -> u64 {
        self.groups[group].start.wrapping_add(2 << group)
    }

    /// Whether a higher group that is eligible and not blocked finishes before this one. The lowest
    /// of these groups finishes first.
    #[inline]
    fn is_blocked(&self, group: usize) -> bool {
        let higher = self.bitmaps[ELIGIBLE] & above(group);
        higher != 0 && is_after(self.finish(group), self.finish(lowest(higher)))
    }

    /// Blocks the lower groups that finish after this group, which is new or begins earlier than before.
    fn block_below(&mut self, group: usize) {
        if self.bitmaps[ELIGIBLE] >> group & 1 == 0 {
            return;
        }
        for (ready, blocked) in [(ELIGIBLE, BLOCKED_ELIGIBLE), (EARLY, BLOCKED_EARLY)] {
            // The groups that are not blocked have ascending finishes, so once one is right, all
            // lower ones are.
            while let Some(lower) = highest(self.bitmaps[ready] & below(group)) {
                steps::taken(1);
                if !is_after(self.finish(lower), self.finish(group)) {
                    break;
                }
                self.move_group(lower, ready, blocked);
            }
        }
    }

    /// Unblocks the lower groups that only this group blocked. It finished at `before` and now
    /// finishes later, or is gone.
    #[inline]
    fn unblock_below(&mut self, group: usize, before: u64) {
        let mut blocked = (self.bitmaps[BLOCKED_ELIGIBLE] | self.bitmaps[BLOCKED_EARLY]) & below(group);
        let higher = self.bitmaps[ELIGIBLE] & above(group);
        if blocked == 0 || higher != 0 && !is_after(self.finish(lowest(higher)), before) {
            return;
        }
        while let Some(lower) = highest(blocked) {
            steps::taken(1);
            blocked &= !(1 << lower);
            if !self.is_blocked(lower) {
                let early = usize::from(self.bitmaps[BLOCKED_EARLY] >> lower & 1 != 0);
                self.move_group(lower, BLOCKED_ELIGIBLE + early, ELIGIBLE + early);
            }
        }
    }

    #[inline]
    fn move_group(&mut self, group: usize, from: usize, to: usize) {
        self.bitmaps[from] &= !(1 << group);
        self.bitmaps[to] |= 1 << group;
        self.listed[group] = to as u8;
    }

    /// Panics unless buckets, groups and bitmaps agree with the tags. O(members): for tests.
    pub(super) fn check(&self) {
        let mut seen = 0;
        for group in 0..GROUPS {
            let occupied = self.groups[group].occupied;
            for bucket in (0..BUCKETS).filter(|bucket| occupied >> bucket & 1 != 0) {
                let place = group * BUCKETS as usize + bucket as usize;
                let Bucket { first, last } = self.buckets[place];
                let mut id = first;
                loop {
                    let member = &self.members[id];
                    assert_eq!(usize::from(member.place), place, "the bucket of {id:?}");
                    seen += 1;
                    if id == last {
                        break;
                    }
                    assert_eq!(self.members[member.next].previous, id, "neighbours");
                    id = member.next;
                }
            }
            self.check_group(group);
        }
        assert_eq!(self.members.iter().filter(|member| member.place != NOWHERE).count(), seen, "members in buckets");
    }

    fn check_group(&self, group: usize) {
        let bitmap = (0..4).filter(|&bitmap| self.bitmaps[bitmap] >> group & 1 != 0);
        let recorded = self.groups[group].occupied != 0 || usize::from(self.changed) == group;
        assert_eq!(bitmap.clone().count(), usize::from(recorded), "bitmaps of group {group}");
        for bitmap in bitmap {
            assert_eq!(self.is_early(group), bitmap % 2 != 0, "whether group {group} is early");
            let mut higher = (group + 1..GROUPS).filter(|&higher| self.bitmaps[ELIGIBLE] >> higher & 1 != 0);
            let blocked = higher.any(|higher| is_after(self.finish(group), self.finish(higher)));
            assert_eq!(blocked, bitmap >= 2, "whether group {group} is blocked");
        }
    }
}

/// Whether a tick is after another; both are near virtual time.
#[inline]
fn is_after(tick: u64, other: u64) -> bool {
    (tick.wrapping_sub(other) as i64) > 0
}

/// Returns the start of the slot that contains a tick.
#[inline]
fn slot_of(tick: u64, group: usize) -> u64 {
    tick >> group << group
}

/// Returns the index of the bucket that begins with this tick.
#[inline]
fn at(group: usize, tick: u64) -> usize {
    place_of(group, tick >> group)
}

/// Returns the index of the bucket of a slot.
#[inline]
fn place_of(group: usize, slot: u64) -> usize {
    ((group * BUCKETS as usize) | (slot as usize % BUCKETS as usize)) % BUCKETS_STORED
}

/// Returns the group of a bucket.
#[inline]
fn group_of(place: usize) -> usize {
    place / BUCKETS as usize % GROUPS_STORED
}

/// Returns the bit of a bucket within its group.
#[inline]
fn bit_of(place: usize) -> u64 {
    1 << (place % BUCKETS as usize)
}

/// Returns a tag in ticks, modulo 2^64.
#[inline]
fn ticks(tag: Tag, tick: u32) -> u64 {
    (tag >> (tick % u64::BITS)) as u64
}

/// Whether two tags have the same upper bits, so that their slots compare as they do modulo 2^64.
/// Slots are at least two units long, because weights are below 2^32.
#[inline]
fn is_near(tag: Tag, virtual_time: Tag) -> bool {
    (tag >> 64) as u64 == (virtual_time >> 64) as u64
}

/// Returns the bits below this one.
#[inline]
fn below(bit: usize) -> u64 {
    (1 << bit) - 1
}

/// Returns the bits above this one.
#[inline]
fn above(bit: usize) -> u64 {
    u64::MAX << 1 << bit
}

/// Returns the lowest bit that is set; at least one is.
#[inline]
fn lowest(bits: u64) -> usize {
    bits.trailing_zeros() as usize % GROUPS_STORED
}

/// Returns the highest bit that is set.
#[inline]
fn highest(bits: u64) -> Option<usize> {
    bits.checked_ilog2().map(|bit| bit as usize)
}

fn ceil_log2(number: u64) -> u32 {
    u64::BITS - (number - 1).leading_zeros()
}
