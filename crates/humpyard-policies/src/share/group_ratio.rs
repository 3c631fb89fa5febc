//! The run queue of group ratio round robin, on one core or several: which client is given the next slot?
//!
//! Clients whose weights have the same highest bit form a group. Groups share slots in the ratio of their
//! weights. Within a group, clients are visited in a ring, for one slot or two. A slot given to a client that
//! cannot be served goes to its bank. PROPORTIONAL_SHARE sections 3.2, 3.4 and 3.5.

use alloc::boxed::Box;

use humpyard_core::id::{ClientId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Work;

use super::group_balance::{minus, scale, scaled};
use super::group_client::{ABLE, BANKED, Client, FRACTION, FULL, HELD, IDLE, MEMBER, OFFERED, link, ring, unlink};
use super::slot::signed;

/// The number of orders: a power of two, at least the bits of a weight, 32 of a whole weight and 16
/// of a fraction.
const ORDERS: usize = 64;

/// When the first group has used the slots of 2^20 rounds, full rounds are subtracted.
const MANY_ROUNDS: u32 = 20;

/// Clients of weights from 2^order to 2^(order+1) − 1.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group {
    /// The sum of its clients' weights; 0 while it has no clients.
    weight: i64,
    /// The slots that it has used.
    slots: i64,
    /// The work left in its slot; 0 or less between slots.
    credit: i64,
    /// The client visited last; before the first visit, the client to be visited first.
    cursor: ClientId,
    /// Whether a client was visited.
    begun: bool,
    /// Whether that visit continues.
    visiting: bool,
    /// Whether it was passed over because none of its clients was able.
    passed: bool,
    /// The number of its clients that are not idle.
    busy: u32,
    /// The number of its clients that may be given a slot.
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

/// The result of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Draw {
    /// The head of this client is to be served. The answer stays the same until the head is dispatched.
    Served(ClientId),
    /// This work went to the bank of the client, which may not be served now.
    Banked(ClientId, i64),
    /// This client was idle and has left the queue, with this work in its bank.
    Left(ClientId, i64),
}

/// The groups, their rings, and the clients of one queue.
#[derive(Debug)]
pub(super) struct RunQueue {
    /// Work of one slot.
    quantum: i64,
    /// The limit of a bank: no work is added to a bank that holds this much.
    bank_limit: i64,
    /// The number of clients whose head may be served.
    offered: u32,
    /// The index in `list` of the group whose turn it is.
    turn: usize,
    /// The order of that group.
    here: u8,
    /// Whether that group's slot has begun.
    in_slot: bool,
    /// The number of groups that have clients.
    listed: usize,
    /// The orders of these groups, by weight of the group, greatest first; equal ones by ascending order.
    list: [u8; ORDERS],
    /// The groups, by order.
    groups: [Group; ORDERS],
    clients: IdVec<ClientId, Client>,
    /// The work that clients were given and could not use: their groups and they themselves have paid for it.
    banks: IdVec<ClientId, i64>,
}

impl RunQueue {
    /// Creates a queue with clients of these weights, all idle, in a box because the queue is
    /// large. A weight is below 2^48 and has at most 32 significant bits.
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

    /// Returns all clients, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = ClientId> + use<> {
        self.clients.ids()
    }

    /// Returns the number of clients whose head may be served.
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

    /// Returns the work in the bank of this client.
    #[inline]
    pub(super) fn bank(&self, id: ClientId) -> i64 {
        self.banks[id]
    }

    /// Whether the bank of this client holds work.
    #[inline]
    pub(super) fn is_banked(&self, id: ClientId) -> bool {
        self.clients[id].is(BANKED)
    }

    /// Returns the limit of a bank: only a gift is added to a bank that holds this much.
    pub(super) fn bank_limit(&self) -> i64 {
        self.bank_limit
    }

    /// Returns the weight of the client, and the weight of all clients in the queue.
    pub(super) fn weights(&self, id: ClientId) -> (i64, i64) {
        let groups = self.list[..self.listed].iter().map(|&order| self.groups[usize::from(order)].weight);
        (self.clients[id].weight(), groups.sum())
    }

    /// Returns the work of one slot.
    pub(super) fn quantum(&self) -> i64 {
        self.quantum
    }

    /// Adds a waiting packet to the client.
    #[inline]
    pub(super) fn add_waiting(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.waiting += 1;
        // A client that is able remains able.
        if client.flags & (MEMBER | IDLE | ABLE) == MEMBER {
            self.count(id);
        }
    }

    /// Sets the number of the client's waiting packets.
    pub(super) fn set_waiting(&mut self, id: ClientId, waiting: u32) {
        self.clients[id].waiting = waiting;
        self.count(id);
    }

    /// Wakes an idle client. Returns whether it was not in the queue.
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

    /// Records that the client's head may be served.
    #[inline]
    pub(super) fn offer(&mut self, id: ClientId, head: &Packet) {
        let client = &mut self.clients[id];
        client.set(OFFERED, true);
        client.waiting = client.waiting.max(1);
        client.head = head.estimate.min(self.quantum as u64) as u32;
        self.offered += 1;
        // The client is awake, and was not held while its head was not on offer.
        if !client.is(ABLE) {
            client.set(ABLE, true);
            let order = client.order;
            self.add_able(order);
        }
    }

    /// Sets whether only one core may serve the client's head, which is on offer.
    #[inline]
    pub(super) fn hold(&mut self, id: ClientId, held: bool) {
        let client = &mut self.clients[id];
        client.set(HELD, held);
        // A client with room in its bank is able in any case.
        if client.is(FULL) {
            self.count(id);
        }
    }

    /// Returns the result of the next turn. `is_free` tells whether a client whose head is on offer may be
    /// served. There must be such a client with an empty bank; otherwise the loop does not end.
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

    /// Dispatches the client's head. Returns the part of the estimate that its bank paid.
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
        // The client was awake with an empty bank, so it was able. It stays able as long as packets wait.
        let group = &mut self.groups[usize::from(client.order) % ORDERS];
        if client.waiting == 0 {
            client.set(ABLE, false);
            group.able -= 1;
        }
        charge(client, group, work, self.quantum);
        0
    }

    /// Lets the bank of a client pay as much of the work as it can, and the client the rest.
    /// Returns the part that the bank paid.
    #[cold]
    fn pay(&mut self, id: ClientId, work: i64) -> i64 {
        let paid = work.min(self.banks[id]);
        self.set_bank(id, self.banks[id] - paid);
        self.count(id);
        self.charge(id, work - paid);
        paid
    }

    /// Corrects the charge of a packet by the difference between its actual work and its estimate.
    #[inline]
    pub(super) fn settle(&mut self, id: ClientId, used: Work, estimate: Work) {
        if used != estimate {
            self.charge(id, signed(used).saturating_sub(signed(estimate)));
        }
    }

    /// Records that the client has no packet waiting or in service.
    pub(super) fn block(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.set(IDLE, true);
        // The client keeps the rest of its visit, up to one slot.
        client.balance = client.balance.min(self.quantum << FRACTION);
        let group = &mut self.groups[usize::from(client.order) % ORDERS];
        if client.is(ABLE) {
            client.set(ABLE, false);
            group.able -= 1;
        }
        group.visiting &= group.cursor != id;
        group.busy -= 1;
    }

    /// Removes an idle client that is gone, and clears its debts. Returns the work that was in its bank.
    pub(super) fn end(&mut self, id: ClientId) -> i64 {
        let bank = if self.is_member(id) { self.leave(id) } else { 0 };
        self.clients[id].balance = 0;
        bank
    }

    /// Sets the weight of the client. If its group changes, it loses the work in its bank. Returns that work.
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
        // Rounds down to whole units of work.
        client.balance = (client.balance >> FRACTION) << FRACTION;
        if before.is(MEMBER) && !before.is(IDLE) {
            self.join(id);
        }
        bank
    }

    /// Sets the weight of the client, which keeps all its state. Only a change of group ends the
    /// rest of its visit.
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

    /// Adds work to the bank of a client without charging anyone.
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

    /// Runs the slot of a group. Returns the client to serve, or the client that was given the
    /// slot, or that has left the group.
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

    /// Moves the rest of a group's slot to the bank of the client at its cursor.
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

    /// Ends the slot of the current group, and passes the turn on.
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

    /// Gives the turn to the next group that has able clients, or only idle ones; there is one.
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

    /// Charges work to a client and its group; negative work is given back.
    fn charge(&mut self, id: ClientId, work: i64) {
        let client = &mut self.clients[id];
        let group = &mut self.groups[usize::from(client.order) % ORDERS];
        charge(client, group, work, self.quantum);
    }

    /// Updates whether the client counts as able in its group.
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

    /// Counts one more able client of the group.
    #[inline]
    fn add_able(&mut self, order: u8) {
        let group = &mut self.groups[usize::from(order) % ORDERS];
        group.able += 1;
        if group.passed {
            self.resume(order);
        }
    }

    /// Resumes a group that was passed over and has an able client again. It is no further behind
    /// than a new group.
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

    /// Adds a client to its group, at the end of the ring's round.
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

    /// Removes a client from its group. Returns the work that was in its bank, which is cleared.
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

    /// Adds to the weight of a group, and adapts its place in the list and its used slots.
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
            // The only group keeps its place, and its slot ends.
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
            (-self.groups[usize::from(order) % ORDERS].weight, order)
        };
        rank(place) < rank(other)
    }

    /// Returns the group whose turn it is. `None`: it is the first. The group of a finished slot
    /// has had its turn.
    fn turn_beyond_first(&mut self) -> Option<u8> {
        if self.listed > 0 && self.in_slot && self.groups[usize::from(self.here)].credit <= 0 {
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
        let list = || self.list[..self.listed].iter().map(|&order| usize::from(order));
        let rounds = list().map(|order| self.groups[order].slots.div_euclid(self.groups[order].weight)).min();
        for order in list() {
            self.groups[order].slots -= rounds.unwrap_or(0) * self.groups[order].weight;
        }
    }

    /// Returns the index of a listed group.
    fn place_of(&self, order: u8) -> usize {
        let place = self.list[..self.listed].iter().position(|&listed| listed == order);
        place.expect("a group that has clients is listed")
    }
}

/// Charges work to a client and its group; negative work is given back.
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
        /// Returns the order, weight and used slots of each group, and the numbers of its clients
        /// from the cursor.
        pub(in crate::share) fn state(&self) -> Vec<(u8, i64, i64, Vec<u32>)> {
            let group = |&order: &u8| {
                let group = &self.groups[usize::from(order)];
                let ring = ring(&self.clients, group.cursor).map(|id| id.0 + 1).collect();
                (order, group.weight, group.slots, ring)
            };
            self.list[..self.listed].iter().map(group).collect()
        }

        /// Returns the rest of a client's visits, in slots.
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
