//! The groups of group ratio round robin: whose turn is it?
//!
//! Groups are listed by weight, heaviest first. The turn starts at the first group. It goes one
//! group down the list while the group at hand is ahead of the next, and else back to the first. A
//! group that comes, goes or changes its weight moves in the list, and receives the slots that are
//! due to its new weight. PROPORTIONAL_SHARE sections 3.2 and 3.4; the algorithm is in
//! `group_ratio.rs`.

use core::ops::{Index, IndexMut};

use humpyard_core::id::ClientId;

use super::group_balance::scale;

/// The number of orders: a power of two, at least the bits of a weight, 32 of a whole weight and 16
/// of a fraction.
const ORDERS: usize = 64;

/// When the first group has used the slots of 2^20 rounds, full rounds are subtracted.
const MANY_ROUNDS: u32 = 20;

/// Clients of weights from 2^order to 2^(order+1) − 1.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Group {
    /// The sum of its clients' weights; 0 while it has no clients.
    pub(super) weight: i64,
    /// The slots that it has used.
    pub(super) slots: i64,
    /// The work left in its slot; 0 or less between slots.
    pub(super) credit: i64,
    /// The client visited last; before the first visit, the client to be visited first.
    pub(super) cursor: ClientId,
    /// Whether a client was visited.
    pub(super) begun: bool,
    /// Whether that visit continues.
    pub(super) visiting: bool,
    /// Whether it was passed over because none of its clients was able.
    pub(super) passed: bool,
    /// The number of its clients that are not idle.
    pub(super) busy: u32,
    /// The number of its clients that may be given a slot.
    pub(super) able: u32,
}

pub(super) const NO_GROUP: Group = Group {
    weight: 0,
    slots: 0,
    credit: 0,
    cursor: ClientId(0),
    begun: false,
    visiting: false,
    passed: false,
    busy: 0,
    able: 0,
};

/// The groups, and the list of those that have clients.
#[derive(Debug)]
pub(super) struct GroupList {
    /// The index in `list` of the group whose turn it is.
    turn: usize,
    /// The order of that group.
    pub(super) here: u8,
    /// Whether that group's slot has begun.
    pub(super) in_slot: bool,
    /// The number of groups that have clients.
    listed: usize,
    /// The orders of these groups, by weight of the group, greatest first; equal ones by ascending order.
    list: [u8; ORDERS],
    /// The groups, by order.
    groups: [Group; ORDERS],
}

impl Index<u8> for GroupList {
    type Output = Group;

    #[inline]
    fn index(&self, order: u8) -> &Group {
        &self.groups[usize::from(order) % ORDERS]
    }
}

impl IndexMut<u8> for GroupList {
    #[inline]
    fn index_mut(&mut self, order: u8) -> &mut Group {
        &mut self.groups[usize::from(order) % ORDERS]
    }
}

impl GroupList {
    /// Returns a list without groups.
    pub(super) fn new() -> Self {
        Self { turn: 0, here: 0, in_slot: false, listed: 0, list: [0; ORDERS], groups: [NO_GROUP; ORDERS] }
    }

    /// Begins a slot of the group whose turn it is.
    #[inline]
    pub(super) fn begin_slot(&mut self, quantum: i64) {
        self.in_slot = true;
        let order = self.here;
        let group = &mut self[order];
        group.credit += quantum;
        group.slots += i64::from(group.credit <= 0);
    }

    /// Ends the slot of the current group, and passes the turn on.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.in_slot = false;
        let Group { slots, weight, .. } = self[self.here];
        let next = self.turn + 1;
        self.turn = 0;
        self.here = self.list[0];
        if next < self.listed {
            let order = self.list[next % ORDERS];
            let there = &self[order];
            let product = |slots: i64, weight: i64| i128::from(slots + 1) * i128::from(weight);
            if product(slots, there.weight) > product(there.slots, weight) {
                self.turn = next;
                self.here = order;
            }
        }
    }

    /// Gives the turn to the next group that has able clients, or only idle ones; there is one.
    pub(super) fn pass(&mut self) {
        self.in_slot = false;
        loop {
            self.turn = if self.turn + 1 < self.listed { self.turn + 1 } else { 0 };
            self.here = self.list[self.turn % ORDERS];
            let group = &self[self.here];
            if group.able > 0 || group.busy == 0 {
                return;
            }
        }
    }

    /// Counts one more able client of the group.
    #[inline]
    pub(super) fn add_able(&mut self, order: u8) {
        let group = &mut self[order];
        group.able += 1;
        if group.passed {
            self.resume(order);
        }
    }

    /// Resumes a group that was passed over and has an able client again. It is no further behind
    /// than a new group.
    #[cold]
    fn resume(&mut self, order: u8) {
        let other = self.orders().filter(|&other| other != order).find(|&other| self[other].able > 0);
        let weight = self[order].weight;
        let due = other.map(|other| scale(self[other].slots, weight, self[other].weight));
        let group = &mut self[order];
        group.passed = false;
        group.slots = group.slots.max(due.unwrap_or(i64::MIN));
    }

    /// Adds to the weight of a group, and adapts its place in the list and its used slots.
    pub(super) fn reweigh(&mut self, order: u8, change: i64) {
        if self.listed > 0 {
            let first = &self[self.list[0]];
            if first.slots >> MANY_ROUNDS >= first.weight {
                self.normalise();
            }
        }
        let before = self[order].weight;
        let after = before + change;
        if self.listed == 1 && before > 0 && after > 0 {
            // The only group keeps its place and the turn, and uses what is left of its slot.
            let group = &mut self[order];
            (group.weight, group.slots) = (after, scale(group.slots, after, before));
            (self.turn, self.here, self.in_slot) = (0, order, false);
            return;
        }
        let turn = self.turn_beyond_first();
        self[order].weight = after;
        let place = if before > 0 { self.place_of(order) } else { self.append(order) };
        if after == 0 {
            self.take_out(place);
        } else {
            let place = self.settle_place(place);
            let (slots, of) = if before > 0 {
                (self[order].slots, before)
            } else if self.listed > 1 {
                let neighbour = &self[self.list[if place > 0 { place - 1 } else { 1 }]];
                (neighbour.slots, neighbour.weight)
            } else {
                (0, 1)
            };
            self[order].slots = scale(slots, after, of);
        }
        self.give_turn(turn);
    }

    /// Appends a group to the list, and returns its index.
    fn append(&mut self, order: u8) -> usize {
        self.list[self.listed % ORDERS] = order;
        self.listed += 1;
        self.listed - 1
    }

    /// Removes the group at this index from the list.
    fn take_out(&mut self, place: usize) {
        self.list.copy_within(place + 1..self.listed, place);
        self.listed -= 1;
    }

    /// Moves the group at this index, whose weight has changed, to its right place. Returns the new index.
    #[inline]
    fn settle_place(&mut self, mut place: usize) -> usize {
        while place > 0 && self.is_before(place, place - 1) {
            self.list.swap(place % ORDERS, (place - 1) % ORDERS);
            place -= 1;
        }
        while place + 1 < self.listed && self.is_before(place + 1, place) {
            self.list.swap(place % ORDERS, (place + 1) % ORDERS);
            place += 1;
        }
        place
    }

    /// Whether the group at one index belongs before another: it is heavier, or equally heavy with
    /// the lower order.
    #[inline]
    fn is_before(&self, place: usize, other: usize) -> bool {
        let rank = |place: usize| {
            let order = self.list[place % ORDERS];
            (-self[order].weight, order)
        };
        rank(place) < rank(other)
    }

    /// Returns the group whose turn it is. `None`: it is the first. The group of a finished slot
    /// has had its turn.
    fn turn_beyond_first(&mut self) -> Option<u8> {
        if self.listed > 0 && self.in_slot && self[self.here].credit <= 0 {
            self.advance();
        }
        Some(self.here).filter(|_| self.turn > 0)
    }

    /// Gives the turn to this group if it is listed, or else to the first.
    fn give_turn(&mut self, order: Option<u8>) {
        let place = order.and_then(|order| self.list[..self.listed].iter().position(|&listed| listed == order));
        self.in_slot &= place.is_some();
        self.turn = place.unwrap_or(0);
        self.here = self.list[self.turn];
    }

    /// Subtracts full rounds from the slots of every group, as many as each has had. No decision
    /// depends on them.
    pub(super) fn normalise(&mut self) {
        let rounds = self.orders().map(|order| self[order].slots.div_euclid(self[order].weight)).min();
        for place in 0..self.listed {
            let order = self.list[place];
            let group = &mut self[order];
            group.slots -= rounds.unwrap_or(0) * group.weight;
        }
    }

    /// Returns the index of a listed group.
    fn place_of(&self, order: u8) -> usize {
        let place = self.list[..self.listed].iter().position(|&listed| listed == order);
        place.expect("a group that has clients is listed")
    }

    /// Returns the orders of the groups that have clients, heaviest first.
    pub(super) fn orders(&self) -> impl Iterator<Item = u8> + '_ {
        self.list[..self.listed].iter().copied()
    }

    /// Returns the weight of all groups.
    pub(super) fn weight(&self) -> i64 {
        self.orders().map(|order| self[order].weight).sum()
    }

    /// Panics unless the groups that have clients are listed by weight, and the turn is one of theirs.
    pub(super) fn check(&self) {
        let rank = |order: &u8| (-self[*order].weight, *order);
        assert!(self.list[..self.listed].is_sorted_by_key(rank), "groups by weight");
        assert!(self.turn == 0 || self.turn < self.listed, "a turn of no group");
        assert_eq!(self.here, self.list[self.turn], "whose turn it is");
        for order in 0..ORDERS as u8 {
            let listed = self.orders().any(|listed| listed == order);
            assert_eq!(listed, self[order].weight > 0, "group {order} is listed");
        }
    }
}
