//! Buckets of start tags in groups, and four bitmaps that say which group is served next: the structure of QFQ.
//!
//! A member of weight w, whose packets cost at most L, is in the group of the slots of virtual time that are σ long, the least
//! power of two not below L/w. Its start tag, rounded down to a multiple of σ, says its bucket there. A group has the start S
//! of its first bucket and the finish F = S + 2σ. Eligible is a group that has begun, S ≤ V. To be served is, of the eligible
//! groups, the one of the least F, of several the lowest; in its first bucket whoever came first.
//!
//! To find it takes one instruction. A group is *blocked* while a higher one that is eligible and not blocked finishes before
//! it. So the eligible ones that are not blocked have F in ascending order, and the lowest is sought.
//!
//! That this holds rests on one condition: no bucket begins later than the end of the slot of its group in which V lies. A
//! member that has gone further ahead, by a packet longer than was said, is put into a higher group, where its tag meets the
//! condition. Who was left behind, in service while others went on, comes back with its old tag; groups that are blocked by it
//! then, and those that were blocked by a group that changes, are looked at one by one.
//!
//! Groups reckon in *ticks*, the slots of group 0, modulo 2^64: what is in buckets is never far from virtual time.

use alloc::boxed::Box;
use alloc::vec;

use humpyard_core::id::{Id, IdVec};
use humpyard_core::steps;
use humpyard_core::unit::Work;

use super::tag::{Divisor, ExactTag, Tag, TotalTag};

/// As many as let slots modulo [`BUCKETS`] go on where ticks begin anew, and differences of ticks keep their sign.
const GROUPS: usize = 58;
/// As many as a bitmap has bits, so that no access is out of bounds.
const GROUPS_STORED: usize = 64;
/// Buckets of a group, a power of two, as many as a bitmap has bits.
const BUCKETS: u32 = 64;
/// Buckets of all groups.
const BUCKETS_STORED: usize = GROUPS_STORED * BUCKETS as usize;
/// By so many slots of its group a member may be behind virtual time. What it is behind more is forgotten.
const BEHIND_MAX: u64 = 32;
/// Weights have so many bits: the group of a member of weight 1 is this one.
const WEIGHT_BITS: u32 = 32;

/// The bitmaps: is the group eligible, and is it blocked?
const ELIGIBLE: usize = 0;
const EARLY: usize = 1;
const BLOCKED_ELIGIBLE: usize = 2;
const BLOCKED_EARLY: usize = 3;

/// The place of a member that is in no bucket.
const NOWHERE: u16 = u16::MAX;
/// Stands for no group.
const NO_GROUP: u8 = u8::MAX;

/// What has a place in a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<I, T> {
    /// Start tag of its next packet: the finish tag of the one before, or virtual time when it woke.
    pub(super) start: ExactTag,
    /// Its weight.
    pub(super) weight: Divisor,
    /// Neighbours in its bucket.
    next: I,
    previous: I,
    /// The bucket that it is in, or [`NOWHERE`].
    place: u16,
    /// The group that it belongs to, by its weight.
    home: u8,
    /// What the policy knows of it.
    pub(super) own: T,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// The tick with which its first bucket began when the bitmaps were last brought up to date.
    start: u64,
    /// Bit n is set while a bucket has members whose slot is n modulo the number of buckets.
    occupied: u64,
}

/// The first and the last member of a bucket that is occupied.
#[derive(Clone, Copy, Debug)]
struct Bucket<I> {
    first: I,
    last: I,
}

/// Members in buckets, and virtual time. Every operation is O(1), none allocates.
#[derive(Debug)]
pub(super) struct BucketGroups<I, T> {
    members: IdVec<I, Member<I, T>>,
    /// Work so far over the weights of those that were awake.
    virtual_time: TotalTag,
    /// Work that virtual time does not count yet; below 0 it has counted more than there was.
    uncounted: i64,
    /// Sum of the weights of those that are awake.
    weight: u64,
    /// That sum when virtual time last grew.
    divisor: Divisor,
    bitmaps: [u64; 4],
    groups: Box<[Group; GROUPS_STORED]>,
    /// The bitmap that each group is in, if it is in one: reading all four at once waits for writes
    /// of one.
    listed: [u8; GROUPS_STORED],
    buckets: Box<[Bucket<I>; BUCKETS_STORED]>,
    /// The group of which the first bucket became empty since the bitmaps were brought up to date, or [`NO_GROUP`].
    changed: u8,
    /// A tick is two to the power of this.
    tick: u32,
    /// Virtual time in ticks, rounded down, modulo 2^64.
    now: u64,
    /// What packets cost at most.
    longest: Work,
}

impl<I: Id, T> BucketGroups<I, T> {
    /// Members of these weights, none in a bucket, whose packets cost at most `longest`.
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

    /// What is known of a member.
    #[inline]
    pub(super) fn get(&self, id: I) -> &Member<I, T> {
        &self.members[id]
    }

    /// What is known of a member, to change: of those in a bucket not the start.
    #[inline]
    pub(super) fn get_mut(&mut self, id: I) -> &mut Member<I, T> {
        &mut self.members[id]
    }

    /// All ids, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        self.members.ids()
    }

    /// Whether the member is in a bucket.
    #[inline]
    pub(super) fn contains(&self, id: I) -> bool {
        self.members[id].place != NOWHERE
    }

    /// Virtual time as it was last counted.
    #[inline]
    pub(super) fn virtual_time(&self) -> Tag {
        self.virtual_time.tag
    }

    /// So much work was taken on, or was less than was taken on.
    #[inline]
    pub(super) fn count(&mut self, more: Work, less: Work) {
        self.uncounted = self.uncounted.saturating_add_unsigned(more).saturating_sub_unsigned(less);
    }

    /// The weights of those that are awake have this sum from now on.
    #[inline]
    pub(super) fn share_among(&mut self, weight: u64) {
        self.advance();
        self.weight = weight;
        if weight == 0 {
            self.uncounted = 0;
        }
    }

    /// Sum of the weights of those that are awake.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// The member, which is in no bucket, has this weight from now on, and its last `work` counts at that weight too.
    pub(super) fn set_weight(&mut self, id: I, weight: u64, work: Work) {
        let home = self.home(weight);
        let member = &mut self.members[id];
        member.start.retreat(work, &member.weight);
        member.weight = Divisor::new(weight);
        // The remainder is over the weight before.
        member.start = ExactTag::at(member.start.tag());
        member.start.advance(work, &member.weight);
        member.home = home;
    }

    /// The group of members of this weight: slots hold L/w, rounded up to a power of two.
    fn home(&self, weight: u64) -> u8 {
        // σ = 2^(tick + group − 32) in units of work per weight, as fraction bits are 32.
        let fits = |group: u32| u128::from(self.longest) << (WEIGHT_BITS - group) <= u128::from(weight) << self.tick;
        (0..=WEIGHT_BITS).find(|&group| fits(group)).unwrap_or(WEIGHT_BITS) as u8
    }

    /// Who is served next. If nobody has begun yet, virtual time goes to where the first does.
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

    /// Virtual time counts the work so far, and groups become eligible by it.
    #[inline]
    pub(super) fn advance(&mut self) {
        if self.uncounted > 0 {
            self.count_up();
            self.promote();
        }
    }

    /// If nobody is eligible, virtual time goes to where the first begins; whether there is one.
    #[inline]
    pub(super) fn skip(&mut self) -> bool {
        self.settle();
        self.bitmaps[ELIGIBLE] != 0 || self.skip_ahead()
    }

    /// Virtual time goes to where the first group begins, as nobody is eligible; whether there is one.
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

    /// Virtual time grows by work over another sum of weights from now on, unless there are none.
    #[inline(never)]
    fn divide_anew(&mut self) -> bool {
        if self.weight > 0 {
            self.virtual_time.rebase(self.divisor.weight(), self.weight);
            self.divisor = Divisor::new(self.weight);
        }
        self.weight > 0
    }

    /// Groups that have begun become eligible. The lowest of those that have not begins first.
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

    /// Puts a member at the end of its bucket.
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

    /// As [`BucketGroups::insert`], where bitmaps may change or the member's own group has no bucket for it.
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

    /// Virtual time in ticks, rounded down.
    fn ticks(&self) -> Tag {
        self.virtual_time.tag >> self.tick
    }

    /// The group and the bucket of a member whose own group has no bucket for it: a higher one, if it is ahead.
    /// What it is ahead beyond the slots of the highest group is forgotten, as is what it is behind too much.
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

    /// Puts a member into the bucket of a group that begins with `key`; no other group has changed.
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

    /// Where the last bucket of a group begins.
    #[inline]
    fn last_bucket(&self, group: usize) -> u64 {
        self.groups[group].start.wrapping_add(u64::from(BUCKETS - 1) << group)
    }

    /// The bucket for a key beyond the last one, as far as was known.
    #[cold]
    fn nearest_bucket(&mut self, group: usize, key: u64) -> u64 {
        self.settle();
        // Buckets are enough unless the first has been waiting for very long: then the last takes all that are later.
        let last = self.last_bucket(group);
        if self.is_listed(group) && is_after(key, last) { last } else { key }
    }

    /// Whether the group is in a bitmap; no other has changed.
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

    /// Takes a member out of its bucket, and lets the caller change it.
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
                // Nobody needs it, but it fetches who is likely to be served next.
                self.members[next].previous = next;
            }
        } else if ends.last == id {
            ends.last = previous;
        } else {
            self.members[next].previous = previous;
            self.members[previous].next = next;
        }
    }

    /// A bucket has become empty.
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

    /// Brings the bitmaps up to date with the group whose first bucket became empty, if there is one.
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

    /// Takes a group out of the bitmaps.
    #[inline]
    fn withdraw(&mut self, group: usize) {
        self.bitmaps[usize::from(self.listed[group]) % 4] &= !(1 << group);
    }

    /// Puts a group that is in no bitmap into the one where it belongs.
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

    /// Where a group finishes.
    #[inline]
    fn finish(&self, group: usize) -> u64 {
        self.groups[group].start.wrapping_add(2 << group)
    }

    /// Whether a higher group that is eligible and not blocked finishes before this one: the lowest of them finishes first.
    #[inline]
    fn is_blocked(&self, group: usize) -> bool {
        let higher = self.bitmaps[ELIGIBLE] & above(group);
        higher != 0 && is_after(self.finish(group), self.finish(lowest(higher)))
    }

    /// A group begins earlier than it did, or is new: blocks the lower ones that finish after it.
    fn block_below(&mut self, group: usize) {
        if self.bitmaps[ELIGIBLE] >> group & 1 == 0 {
            return;
        }
        for (ready, blocked) in [(ELIGIBLE, BLOCKED_ELIGIBLE), (EARLY, BLOCKED_EARLY)] {
            // Those not blocked have ascending finishes, so the rest is right once one is.
            while let Some(lower) = highest(self.bitmaps[ready] & below(group)) {
                steps::taken(1);
                if !is_after(self.finish(lower), self.finish(group)) {
                    break;
                }
                self.move_group(lower, ready, blocked);
            }
        }
    }

    /// A group that finished at `before` finishes later, or is gone: lower ones that only it blocked are not blocked any more.
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

/// Whether one tick comes after another; both are near virtual time.
#[inline]
fn is_after(tick: u64, other: u64) -> bool {
    (tick.wrapping_sub(other) as i64) > 0
}

/// The beginning of the slot that a tick is in.
#[inline]
fn slot_of(tick: u64, group: usize) -> u64 {
    tick >> group << group
}

/// The place of the bucket that begins with this tick.
#[inline]
fn at(group: usize, tick: u64) -> usize {
    place_of(group, tick >> group)
}

/// The place of the bucket of a slot, by the number of the slot.
#[inline]
fn place_of(group: usize, slot: u64) -> usize {
    ((group * BUCKETS as usize) | (slot as usize % BUCKETS as usize)) % BUCKETS_STORED
}

/// The group of a bucket.
#[inline]
fn group_of(place: usize) -> usize {
    place / BUCKETS as usize % GROUPS_STORED
}

/// The bit of a bucket among those of its group.
#[inline]
fn bit_of(place: usize) -> u64 {
    1 << (place % BUCKETS as usize)
}

/// A tag in ticks, modulo 2^64.
#[inline]
fn ticks(tag: Tag, tick: u32) -> u64 {
    (tag >> (tick % u64::BITS)) as u64
}

/// Whether two tags differ by less than 2^64, so that the slots they are in compare as they do modulo 2^64. Slots
/// are at least two units long: weights are below 2^32.
#[inline]
fn is_near(tag: Tag, virtual_time: Tag) -> bool {
    (tag >> 64) as u64 == (virtual_time >> 64) as u64
}

/// The bits below this one.
#[inline]
fn below(bit: usize) -> u64 {
    (1 << bit) - 1
}

/// The bits above this one.
#[inline]
fn above(bit: usize) -> u64 {
    u64::MAX << 1 << bit
}

/// The lowest bit that is set, of several or one.
#[inline]
fn lowest(bits: u64) -> usize {
    bits.trailing_zeros() as usize % GROUPS_STORED
}

/// The highest bit that is set.
#[inline]
fn highest(bits: u64) -> Option<usize> {
    bits.checked_ilog2().map(|bit| bit as usize)
}

fn ceil_log2(number: u64) -> u32 {
    u64::BITS - (number - 1).leading_zeros()
}
