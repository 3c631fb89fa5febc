//! The run queue of group ratio round robin, on one core or several: who is given the next slot?
//!
//! Clients whose weights have the same highest bit are a group; the groups share slots in the ratio of their weights, and
//! within a group clients are visited in a ring, for one slot or two. A slot given to a client that cannot be served goes to
//! its bank. PROPORTIONAL_SHARE sections 3.2, 3.4 and 3.5.

use alloc::boxed::Box;

use humpyard_core::id::{ClientId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Work;

use super::group_balance::{minus, scale, scaled};
use super::group_client::{ABLE, BANKED, Client, FRACTION, FULL, HELD, IDLE, MEMBER, OFFERED, link, ring, unlink};
use super::slot::signed;

/// No fewer than a weight has bits, 32 of a whole weight and 16 of a fraction; a power of two.
const ORDERS: usize = 64;

/// When the first group has used slots of 2^20 rounds, full rounds are subtracted.
const MANY_ROUNDS: u32 = 20;

/// Clients of weights from 2^order to 2^(order+1) − 1.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group {
    /// Sum of its clients' weights; 0 while it has none.
    weight: i64,
    /// Slots used up.
    slots: i64,
    /// Work left of its slot; 0 or less between slots.
    credit: i64,
    /// The client visited last; before the first visit, the client to be visited first.
    cursor: ClientId,
    /// Whether a client was visited.
    begun: bool,
    /// Whether that visit goes on.
    visiting: bool,
    /// Whether it was passed over, since none of its clients was able.
    passed: bool,
    /// Clients that are not idle.
    busy: u32,
    /// Clients that may be given a slot.
    able: u32,
}

const NO_GROUP: Group = Group {
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

/// What became of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Draw {
    /// The head of this client is to be served: the same answer until it is dispatched.
    Served(ClientId),
    /// So much work went to the bank of this client, which may not be served now.
    Banked(ClientId, i64),
    /// This client was idle and has left the queue, with so much in its bank.
    Left(ClientId, i64),
}

/// The groups, their rings, and the clients of one queue.
#[derive(Debug)]
pub(super) struct RunQueue {
    /// Work of one slot.
    quantum: i64,
    /// No work is added to a bank that holds this much.
    bank_limit: i64,
    /// Clients whose head may be served.
    offered: u32,
    /// Whose turn it is, as a place in `list`.
    turn: usize,
    /// The order of that group.
    here: u8,
    /// Whether that group's slot has begun.
    in_slot: bool,
    /// Number of groups that have clients.
    listed: usize,
    /// Their orders, by weight of the group, greatest first, equal ones by ascending order.
    list: [u8; ORDERS],
    /// By order.
    groups: [Group; ORDERS],
    clients: IdVec<ClientId, Client>,
    /// Work that clients were given and could not use: paid for by their groups and themselves.
    banks: IdVec<ClientId, i64>,
}

impl RunQueue {
    /// Clients of these weights, all of them idle, in a box: with its groups the queue is large. A weight is below 2^48 and has at most 32 significant bits.
    pub(super) fn new(quantum: i64, bank_limit: i64, clients: usize, weight: impl Fn(ClientId) -> u64) -> Box<Self> {
        Box::new(Self {
            quantum,
            bank_limit,
            offered: 0,
            turn: 0,
            here: 0,
            in_slot: false,
            listed: 0,
            list: [0; ORDERS],
            groups: [NO_GROUP; ORDERS],
            clients: IdVec::from_fn(clients, |id| Client::new(id, weight(id))),
            banks: IdVec::from_fn(clients, |_| 0),
        })
    }

    /// Panics unless groups, rings and counts agree with the clients.
    pub(super) fn check(&self) {
        let list = &self.list[..self.listed];
        let rank = |&order: &u8| (-self.groups[usize::from(order)].weight, order);
        assert!(list.is_sorted_by_key(rank), "groups by weight");
        assert!(self.turn == 0 || self.turn < self.listed, "a turn of no group");
        assert_eq!(self.here, self.list[self.turn], "whose turn it is");
        for (order, group) in (0..).zip(self.groups.iter()) {
            assert_eq!(list.contains(&order), group.weight > 0, "group {order} is listed");
            let mut sums = NO_GROUP;
            for id in ring(&self.clients, group.cursor).filter(|_| group.weight > 0) {
                let client = &self.clients[id];
                assert!(client.is(MEMBER) && client.order == order, "client {id} in the ring of group {order}");
                sums.weight += client.weight();
                sums.busy += u32::from(!client.is(IDLE));
                sums.able += u32::from(client.is(ABLE));
            }
            let found = (sums.weight, sums.busy, sums.able);
            assert_eq!(found, (group.weight, group.busy, group.able), "group {order}");
            assert!(group.credit <= self.quantum, "credit of group {order}");
        }
        for id in self.clients.ids() {
            let client = &self.clients[id];
            let awake = client.is(MEMBER) && !client.is(IDLE);
            assert!(!client.is(OFFERED) || awake && client.waiting > 0, "head of client {id}");
            assert_eq!(client.is(ABLE), client.is_able(), "client {id} is able");
            let bank = self.banks[id];
            assert!(bank >= 0 && bank < self.bank_limit + self.quantum, "bank of client {id}");
            assert_eq!(
                (client.is(BANKED), client.is(FULL)),
                (bank > 0, bank >= self.bank_limit),
                "bank of client {id}"
            );
        }
        let offered = self.clients.iter().filter(|client| client.is(OFFERED)).count();
        assert_eq!(offered, self.offered as usize, "heads on offer");
    }

    /// All clients, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = ClientId> + use<> {
        self.clients.ids()
    }

    /// Clients whose head may be served.
    #[inline]
    pub(super) fn offered(&self) -> u32 {
        self.offered
    }

    /// Whether the head of this client may be served.
    #[inline]
    pub(super) fn is_offered(&self, id: ClientId) -> bool {
        self.clients[id].is(OFFERED)
    }

    /// Whether the client is in the queue, awake or not.
    #[inline]
    pub(super) fn is_member(&self, id: ClientId) -> bool {
        self.clients[id].is(MEMBER)
    }

    /// Work in the bank of this client.
    #[inline]
    pub(super) fn bank(&self, id: ClientId) -> i64 {
        self.banks[id]
    }

    /// Whether there is work in the bank of this client.
    #[inline]
    pub(super) fn is_banked(&self, id: ClientId) -> bool {
        self.clients[id].is(BANKED)
    }

    /// No work is added to a bank that holds this much, but as a gift.
    pub(super) fn bank_limit(&self) -> i64 {
        self.bank_limit
    }

    /// The weight of the client, and of all clients in the queue.
    pub(super) fn weights(&self, id: ClientId) -> (i64, i64) {
        let groups = self.list[..self.listed].iter().map(|&order| self.groups[usize::from(order)].weight);
        (self.clients[id].weight(), groups.sum())
    }

    /// Work of one slot.
    pub(super) fn quantum(&self) -> i64 {
        self.quantum
    }

    /// The client has one more packet waiting.
    #[inline]
    pub(super) fn add_waiting(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.waiting += 1;
        // Who is able remains so.
        if client.flags & (MEMBER | IDLE | ABLE) == MEMBER {
            self.count(id);
        }
    }

    /// The client has so many packets waiting.
    pub(super) fn set_waiting(&mut self, id: ClientId, waiting: u32) {
        self.clients[id].waiting = waiting;
        self.count(id);
    }

    /// The client is not idle any more. Whether it was not in the queue.
    pub(super) fn wake(&mut self, id: ClientId) -> bool {
        let client = &mut self.clients[id];
        if client.is(MEMBER) {
            client.set(IDLE, false);
            self.groups[usize::from(client.order) % ORDERS].busy += 1;
            self.count(id);
            return false;
        }
        self.join(id);
        true
    }

    /// The client's head may be served.
    #[inline]
    pub(super) fn offer(&mut self, id: ClientId, head: &Packet) {
        let client = &mut self.clients[id];
        client.set(OFFERED, true);
        client.waiting = client.waiting.max(1);
        client.head = head.estimate.min(self.quantum as u64) as u32;
        self.offered += 1;
        // It is awake, and was not held while its head was not on offer.
        if !client.is(ABLE) {
            client.set(ABLE, true);
            let order = client.order;
            self.add_able(order);
        }
    }

    /// Whether only one core may serve the head of the client, which is on offer.
    #[inline]
    pub(super) fn hold(&mut self, id: ClientId, held: bool) {
        let client = &mut self.clients[id];
        client.set(HELD, held);
        // With room in its bank it is able all the same.
        if client.is(FULL) {
            self.count(id);
        }
    }

    /// What becomes of the next turn. `is_free` says whether a client whose head is on offer may be served; there is one, whose
    /// bank is empty, or else there is no end.
    #[inline]
    pub(super) fn draw(&mut self, is_free: impl Fn(ClientId) -> bool) -> Draw {
        loop {
            let order = self.here;
            let group = &mut self.groups[usize::from(order) % ORDERS];
            if group.able == 0 && group.busy > 0 {
                group.passed = true;
                self.pass();
            } else if group.credit > 0 {
                self.in_slot = true;
                return self.draw_in(order, &is_free);
            } else if self.in_slot {
                self.advance();
            } else {
                self.in_slot = true;
                group.credit += self.quantum;
                group.slots += i64::from(group.credit <= 0);
            }
        }
    }

    /// The client's head goes to a core. The work that its bank paid of the estimate.
    #[inline]
    pub(super) fn dispatch(&mut self, id: ClientId, estimate: Work) -> i64 {
        let work = signed(estimate);
        let client = &mut self.clients[id];
        client.set(OFFERED, false);
        client.waiting -= 1;
        self.offered -= 1;
        if client.is(BANKED) {
            return self.pay(id, work);
        }
        // Awake and its bank empty, it was able, and is as long as packets wait.
        let group = &mut self.groups[usize::from(client.order) % ORDERS];
        if client.waiting == 0 {
            client.set(ABLE, false);
            group.able -= 1;
        }
        charge(client, group, work, self.quantum);
        0
    }

    /// The bank of a client pays what it can of so much work, and the client the rest. What the bank paid.
    #[cold]
    fn pay(&mut self, id: ClientId, work: i64) -> i64 {
        let paid = work.min(self.banks[id]);
        self.set_bank(id, self.banks[id] - paid);
        self.count(id);
        self.charge(id, work - paid);
        paid
    }

    /// A packet cost this instead of its estimate.
    #[inline]
    pub(super) fn settle(&mut self, id: ClientId, used: Work, estimate: Work) {
        if used != estimate {
            self.charge(id, signed(used).saturating_sub(signed(estimate)));
        }
    }

    /// The client has nothing waiting and nothing in service.
    pub(super) fn block(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.set(IDLE, true);
        // What is left of its visit it keeps, up to one slot.
        client.balance = client.balance.min(self.quantum << FRACTION);
        let group = &mut self.groups[usize::from(client.order) % ORDERS];
        if client.is(ABLE) {
            client.set(ABLE, false);
            group.able -= 1;
        }
        group.visiting &= group.cursor != id;
        group.busy -= 1;
    }

    /// The client, idle, is gone and owes nothing any more. What was in its bank.
    pub(super) fn end(&mut self, id: ClientId) -> i64 {
        let bank = if self.is_member(id) { self.leave(id) } else { 0 };
        self.clients[id].balance = 0;
        bank
    }

    /// Gives the client another weight. What was in its bank, which it has lost if it is in another group now.
    pub(super) fn set_weight(&mut self, id: ClientId, weight: u64) -> i64 {
        let before = self.clients[id];
        let mut after = before;
        after.set_weight(weight);
        let mut bank = 0;
        if after.order == before.order {
            self.clients[id].set_weight(weight);
            if before.is(MEMBER) {
                self.reweigh(before.order, after.weight() - before.weight());
            }
            return bank;
        }
        if before.is(MEMBER) {
            bank = self.leave(id);
        }
        let client = &mut self.clients[id];
        client.set_weight(weight);
        // Whole units of work.
        client.balance = (client.balance >> FRACTION) << FRACTION;
        if before.is(MEMBER) && !before.is(IDLE) {
            self.join(id);
        }
        bank
    }

    /// Gives the client another weight; all else it keeps but, in another group, what is left of its visit.
    pub(super) fn readjust(&mut self, id: ClientId, weight: u64) {
        let before = self.clients[id];
        let bank = self.set_weight(id, weight);
        if before.is(MEMBER) && before.is(IDLE) && !self.is_member(id) {
            self.join(id);
            self.clients[id].set(IDLE, true);
            self.count(id);
            self.groups[usize::from(self.clients[id].order) % ORDERS].busy -= 1;
        }
        if bank > 0 {
            self.give(id, bank);
        }
    }

    /// Adds so much work to the bank of a client, at nobody's expense.
    pub(super) fn give(&mut self, id: ClientId, work: i64) {
        self.set_bank(id, self.banks[id] + work);
        self.count(id);
    }

    fn set_bank(&mut self, id: ClientId, work: i64) {
        let client = &mut self.clients[id];
        self.banks[id] = work;
        client.set(BANKED, work > 0);
        client.set(FULL, work >= self.bank_limit);
    }

    /// The slot of a group: the client to serve, or who was given the slot, or left the group instead.
    ///
    /// Some client of the group is able, or all are idle.
    #[inline]
    fn draw_in(&mut self, order: u8, is_free: impl Fn(ClientId) -> bool) -> Draw {
        let slot = self.quantum << FRACTION;
        let group = &mut self.groups[usize::from(order) % ORDERS];
        loop {
            let id = group.cursor;
            if group.visiting {
                let client = &self.clients[id];
                if client.is(OFFERED) && is_free(id) {
                    if client.balance >= i64::from(client.head) << FRACTION {
                        return Draw::Served(id);
                    }
                } else if client.is(ABLE) && client.balance >= slot {
                    return self.bank_slot(order);
                }
                group.visiting = false;
            }
            let id = if group.begun { self.clients[id].next } else { id };
            group.cursor = id;
            group.begun = true;
            let client = &mut self.clients[id];
            if client.is(ABLE) {
                group.visiting = true;
                client.balance = client.balance.saturating_add(self.quantum * i64::from(client.quota));
            } else if client.is(IDLE) {
                return self.drop_idle(id);
            }
        }
    }

    /// Gives what is left of the slot of a group to the bank of the client that it is at.
    #[cold]
    fn bank_slot(&mut self, order: u8) -> Draw {
        let group = &self.groups[usize::from(order) % ORDERS];
        let (id, work) = (group.cursor, group.credit);
        self.give(id, work);
        self.charge(id, work);
        Draw::Banked(id, work)
    }

    #[cold]
    fn drop_idle(&mut self, id: ClientId) -> Draw {
        let bank = self.leave(id);
        Draw::Left(id, bank)
    }

    /// Ends the slot of the group whose turn it is, and gives the turn on.
    #[inline]
    fn advance(&mut self) {
        self.in_slot = false;
        let here = &self.groups[usize::from(self.here) % ORDERS];
        let next = self.turn + 1;
        self.turn = 0;
        self.here = self.list[0];
        if next < self.listed {
            let order = self.list[next % ORDERS];
            let there = &self.groups[usize::from(order) % ORDERS];
            let product = |slots: i64, weight: i64| i128::from(slots + 1) * i128::from(weight);
            if product(here.slots, there.weight) > product(there.slots, here.weight) {
                self.turn = next;
                self.here = order;
            }
        }
    }

    /// Gives the turn to the next group that has able clients, or idle ones alone; there is one.
    fn pass(&mut self) {
        self.in_slot = false;
        loop {
            self.turn = if self.turn + 1 < self.listed { self.turn + 1 } else { 0 };
            self.here = self.list[self.turn % ORDERS];
            let group = &self.groups[usize::from(self.here) % ORDERS];
            if group.able > 0 || group.busy == 0 {
                return;
            }
        }
    }

    /// Charges a client and its group so much work; less than 0 gives work back.
    fn charge(&mut self, id: ClientId, work: i64) {
        let client = &mut self.clients[id];
        let group = &mut self.groups[usize::from(client.order) % ORDERS];
        charge(client, group, work, self.quantum);
    }

    /// Counts the client among the able ones of its group if it is one.
    fn count(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        let able = client.is_able();
        if able == client.is(ABLE) {
            return;
        }
        client.set(ABLE, able);
        let order = client.order;
        if able {
            self.add_able(order);
        } else {
            self.groups[usize::from(order) % ORDERS].able -= 1;
        }
    }

    /// The group has one more able client.
    #[inline]
    fn add_able(&mut self, order: u8) {
        let group = &mut self.groups[usize::from(order) % ORDERS];
        group.able += 1;
        if group.passed {
            self.resume(order);
        }
    }

    /// A group that was passed over has an able client again: it is no further behind than one that comes.
    #[cold]
    fn resume(&mut self, order: u8) {
        let list = self.list[..self.listed].iter().map(|&other| usize::from(other));
        let other = list.filter(|&other| other != usize::from(order)).find(|&other| self.groups[other].able > 0);
        let weight = self.groups[usize::from(order)].weight;
        let due = other.map(|other| scale(self.groups[other].slots, weight, self.groups[other].weight));
        let group = &mut self.groups[usize::from(order)];
        group.passed = false;
        group.slots = group.slots.max(due.unwrap_or(i64::MIN));
    }

    /// Takes a client into its group, at the end of the ring's round.
    fn join(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.set(MEMBER, true);
        client.set(IDLE, false);
        let able = client.is_able();
        client.set(ABLE, able);
        let (order, weight) = (client.order, client.weight());
        let group = &mut self.groups[usize::from(order) % ORDERS];
        let next = group.cursor;
        if group.weight == 0 {
            *group = Group { cursor: id, ..NO_GROUP };
            group.busy = 1;
            group.able = u32::from(able);
        } else {
            group.busy += 1;
            group.able += u32::from(able);
            link(&mut self.clients, id, next);
        }
        self.reweigh(order, weight);
    }

    /// Takes a client out of its group. What was in its bank, which is taken away.
    fn leave(&mut self, id: ClientId) -> i64 {
        let client = &mut self.clients[id];
        let (order, weight, banked) = (client.order, client.weight(), client.is(BANKED));
        let group = &mut self.groups[usize::from(order) % ORDERS];
        group.able -= u32::from(client.is(ABLE));
        group.busy -= u32::from(!client.is(IDLE));
        client.set(MEMBER | IDLE | ABLE, false);
        client.balance = client.balance.min(0);
        if group.cursor == id {
            group.cursor = if group.begun { client.previous } else { client.next };
            group.visiting = false;
        }
        unlink(&mut self.clients, id);
        let bank = if banked { self.banks[id] } else { 0 };
        if banked {
            self.set_bank(id, 0);
        }
        self.reweigh(order, -weight);
        bank
    }

    /// Adds to the weight of a group: its place in the list and the slots it has used up follow.
    fn reweigh(&mut self, order: u8, change: i64) {
        if self.listed > 0 {
            let first = &self.groups[usize::from(self.list[0])];
            if first.slots >> MANY_ROUNDS >= first.weight {
                self.normalise();
            }
        }
        let group = &mut self.groups[usize::from(order) % ORDERS];
        let (before, after) = (group.weight, group.weight + change);
        if self.listed == 1 && before > 0 && after > 0 {
            // The only group keeps its place, and its slot is over.
            (group.weight, group.slots) = (after, scale(group.slots, after, before));
            (self.turn, self.here, self.in_slot) = (0, order, false);
            return;
        }
        let turn = self.turn_beyond_first();
        self.groups[usize::from(order) % ORDERS].weight = after;
        let place = if before > 0 { self.place_of(order) } else { self.append(order) };
        if after == 0 {
            self.take_out(place);
        } else {
            let place = self.settle_place(place);
            let (slots, of) = if before > 0 {
                (self.groups[usize::from(order) % ORDERS].slots, before)
            } else if self.listed > 1 {
                let neighbour = &self.groups[usize::from(self.list[if place > 0 { place - 1 } else { 1 }]) % ORDERS];
                (neighbour.slots, neighbour.weight)
            } else {
                (0, 1)
            };
            self.groups[usize::from(order) % ORDERS].slots = scale(slots, after, of);
        }
        self.give_turn(turn);
    }

    /// Puts a group at the end of the list, and returns its place there.
    fn append(&mut self, order: u8) -> usize {
        self.list[self.listed % ORDERS] = order;
        self.listed += 1;
        self.listed - 1
    }

    /// Takes the group at this place out of the list.
    fn take_out(&mut self, place: usize) {
        self.list.copy_within(place + 1..self.listed, place);
        self.listed -= 1;
    }

    /// Moves the group at this place, whose weight has changed, to where it belongs, and returns its place there.
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

    /// Whether the group at one place belongs before that at another: it weighs more, or as much and has the lower order.
    #[inline]
    fn is_before(&self, place: usize, other: usize) -> bool {
        let rank = |place: usize| {
            let order = self.list[place % ORDERS];
            (-self.groups[usize::from(order) % ORDERS].weight, order)
        };
        rank(place) < rank(other)
    }

    /// The group whose turn it is, if that is not the first. The group of a slot that is over has had its turn.
    fn turn_beyond_first(&mut self) -> Option<u8> {
        if self.listed > 0 && self.in_slot && self.groups[usize::from(self.here)].credit <= 0 {
            self.advance();
        }
        Some(self.here).filter(|_| self.turn > 0)
    }

    /// Gives the turn to this group, if it is listed, or else to the first.
    fn give_turn(&mut self, order: Option<u8>) {
        let place = order.and_then(|order| self.list[..self.listed].iter().position(|&listed| listed == order));
        self.in_slot &= place.is_some();
        self.turn = place.unwrap_or(0);
        self.here = self.list[self.turn];
    }

    /// Takes as many full rounds from the slots of every group as each has had: no decision depends on it.
    pub(super) fn normalise(&mut self) {
        let list = || self.list[..self.listed].iter().map(|&order| usize::from(order));
        let rounds = list().map(|order| self.groups[order].slots.div_euclid(self.groups[order].weight)).min();
        for order in list() {
            self.groups[order].slots -= rounds.unwrap_or(0) * self.groups[order].weight;
        }
    }

    /// The place of a listed group in the list.
    fn place_of(&self, order: u8) -> usize {
        let place = self.list[..self.listed].iter().position(|&listed| listed == order);
        place.expect("a group that has clients is listed")
    }
}

/// Charges a client and its group so much work; less than 0 gives work back.
#[inline]
fn charge(client: &mut Client, group: &mut Group, work: i64, quantum: i64) {
    client.balance = minus(client.balance, scaled(work));
    let was_in_slot = group.credit > 0;
    group.credit = minus(group.credit, work);
    group.slots += i64::from(was_in_slot) - i64::from(group.credit > 0);
    while group.credit > quantum {
        group.credit -= quantum;
        group.slots -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    impl RunQueue {
        /// Order, weight and slots used of each group, and the numbers of its clients from the cursor.
        pub(in crate::share) fn state(&self) -> Vec<(u8, i64, i64, Vec<u32>)> {
            let group = |&order: &u8| {
                let group = &self.groups[usize::from(order)];
                let ring = ring(&self.clients, group.cursor).map(|id| id.0 + 1).collect();
                (order, group.weight, group.slots, ring)
            };
            self.list[..self.listed].iter().map(group).collect()
        }

        /// What is left of a client's visits, in slots.
        pub(in crate::share) fn slots_left(&self, id: ClientId) -> f64 {
            self.clients[id].balance as f64 / (self.quantum << FRACTION) as f64
        }
    }

    #[test]
    fn weights_of_32_bits_are_exact() {
        for weight in [1, 2, 3, 0xffff_ffff, 0xffff_ffff << 16, 0x8000_0001 << 3] {
            let queue = RunQueue::new(1, 1, 1, |_| weight);
            assert_eq!(queue.clients[ClientId(0)].weight(), weight as i64);
        }
    }
}
