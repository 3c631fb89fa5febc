//! The run queue of group ratio round robin, for `gr3` and `gr3mp`: which client is given the next
//! slot?
//!
//! **Algorithm.** Clients whose weights have the same highest bit form a group. Groups share slots
//! in the ratio of their weights. Within a group, clients are visited in a ring, for one slot or
//! two. The symbols are the paper's: φ is the weight of client C and D its deficit; Φ(i) is the
//! weight of group i and W(i) the slots that it has used; Q is the work of one slot. Groups are
//! numbered from the heaviest to the lightest, 1 to g. Group i has the turn.
//!
//! ```text
//! C has a packet again                              wake, join
//!     if C is still in the ring of its group j: it keeps its place; return
//!     insert C before the client under the cursor of group j;  Φ(j) += φ
//!     move group j in the list;  scale W(j) with Φ(j), rounded up          reweigh
//!         a new group: W(j) := W(h) Φ(j)/Φ(h); group h is before it, or else after it
//!     if group 1 had the turn, the new group 1 has it                      give_turn
//!
//! Which client next?                                draw
//!     if group i has awake clients, and none can use a slot: i := the next with one   pass
//!     while nothing is left of the slot of group i:
//!         if the slot has begun:                    advance
//!             if i < g and (W(i)+1)/(W(i+1)+1) > Φ(i)/Φ(i+1): i := i + 1   else i := 1
//!         else: the slot += Q;  if that only pays debt: W(i) += 1          begin_slot
//!     C := the client under the cursor of group i   draw_in
//!     while C's visit is over, or D < the work of C's head:
//!         C := the next client of the ring
//!         if C is idle: C leaves;  start again      drop_idle
//!         if C can use a slot: its visit begins;  D += Q φ/2^order         1 slot to below 2
//!     serve C;  but if its packets may not be served now, and D ≥ Q:
//!         C's bank += the rest of the slot;  charge C with it              bank_slot
//!
//! C is served                                       dispatch: x := estimate - what its bank pays
//! C's packet is done                                settle:   x := work used - estimate
//!     D -= x;  the slot of C's group j -= x         charge
//!     if that uses up the slot: W(j) += 1;  if it gives back a slot: W(j) -= 1
//!
//! C has no packet left                              block
//!     D := min(D, Q);  its visit is over;  C stays in the ring, idle, until the cursor comes to it
//!
//! C leaves the ring of group j                      leave
//!     D := min(D, 0);  Φ(j) -= φ;  list, W(j) and turn as for a client that comes
//! ```
//!
//! **State.** Clients 1 to 6 have weights 12, 3, 3, 2, 2, 2, and packets of Q, after eleven slots.
//! Client 1 is a group, and the others form another, both of Φ = 12; the lower order is first. The
//! slots went to 2 1 3 1 4 1 5 1 6 1 2. Client 2 kept 0.5 Q of its first visit. It has work left for
//! a second slot, at its group's next turn. First the turn goes on, as (6+1)/(5+1) > 12/12.
//!
//! ```text
//! list          group of order 1   Φ = 12   W = 6   slot used up          turn
//! (GroupList)       ring 2 → 3 → 4 → 5 → 6 → 2 ...
//!                        ▲ cursor: D = 0.5 Q + 1.5 Q - Q = Q
//!               group of order 3   Φ = 12   W = 5   slot used up
//!                   ring 1
//!                        ▲ cursor
//! ```
//!
//! With packets of any length, a slot is work and not a packet, so that a group pays for what it
//! uses. PROPORTIONAL_SHARE sections 3.2, 3.4 and 3.5.

use alloc::boxed::Box;

use humpyard_core::id::{ClientId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Work;

use super::group_balance::{minus, scaled};
use super::group_client::{ABLE, BANKED, Client, FRACTION, FULL, HELD, IDLE, MEMBER, OFFERED, link, ring, unlink};
use super::group_list::{Group, GroupList, NO_GROUP};
use super::slot::signed;

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
    groups: GroupList,
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
            groups: GroupList::new(),
            clients: IdVec::from_fn(clients, |id| Client::new(id, weight(id))),
            banks: IdVec::from_fn(clients, |_| 0),
        })
    }

    /// Wakes an idle client. Returns whether it was not in the queue.
    pub(super) fn wake(&mut self, id: ClientId) -> bool {
        let client = &mut self.clients[id];
        if client.is(MEMBER) {
            client.set(IDLE, false);
            self.groups[client.order].busy += 1;
            self.count(id);
            return false;
        }
        self.join(id);
        true
    }

    /// Adds a client to its group, at the end of the ring's round.
    fn join(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.set(MEMBER, true);
        client.set(IDLE, false);
        let able = client.is_able();
        client.set(ABLE, able);
        let (order, weight) = (client.order, client.weight());
        let group = &mut self.groups[order];
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
        self.groups.reweigh(order, weight);
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
            self.groups.add_able(order);
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

    /// Returns the result of the next turn. `is_free` tells whether a client whose head is on offer may be
    /// served. There must be such a client with an empty bank; otherwise the loop does not end.
    #[inline]
    pub(super) fn draw(&mut self, is_free: impl Fn(ClientId) -> bool) -> Draw {
        loop {
            let order = self.groups.here;
            let group = &mut self.groups[order];
            if group.able == 0 && group.busy > 0 {
                group.passed = true;
                self.groups.pass();
            } else if group.credit > 0 {
                self.groups.in_slot = true;
                return self.draw_in(order, &is_free);
            } else if self.groups.in_slot {
                self.groups.advance();
            } else {
                self.groups.begin_slot(self.quantum);
            }
        }
    }

    /// Runs the slot of a group. Returns the client to serve, or the client that was given the
    /// slot, or that has left the group.
    ///
    /// Some client of the group is able, or all are idle.
    #[inline]
    fn draw_in(&mut self, order: u8, is_free: impl Fn(ClientId) -> bool) -> Draw {
        let slot = self.quantum << FRACTION;
        let group = &mut self.groups[order];
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
        let group = &self.groups[order];
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
        let group = &mut self.groups[client.order];
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

    /// Charges work to a client and its group; negative work is given back.
    fn charge(&mut self, id: ClientId, work: i64) {
        let client = &mut self.clients[id];
        let group = &mut self.groups[client.order];
        charge(client, group, work, self.quantum);
    }

    /// Records that the client has no packet waiting or in service.
    pub(super) fn block(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.set(IDLE, true);
        // The client keeps the rest of its visit, up to one slot.
        client.balance = client.balance.min(self.quantum << FRACTION);
        let group = &mut self.groups[client.order];
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

    /// Removes a client from its group. Returns the work that was in its bank, which is cleared.
    fn leave(&mut self, id: ClientId) -> i64 {
        let client = &mut self.clients[id];
        let (order, weight, banked) = (client.order, client.weight(), client.is(BANKED));
        let group = &mut self.groups[order];
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
        self.groups.reweigh(order, -weight);
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
                self.groups.reweigh(before.order, after.weight() - before.weight());
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
            self.groups[self.clients[id].order].busy -= 1;
        }
        if bank > 0 {
            self.give(id, bank);
        }
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
            self.groups.add_able(order);
        } else {
            self.groups[order].able -= 1;
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

    /// Returns the work of one slot.
    pub(super) fn quantum(&self) -> i64 {
        self.quantum
    }

    /// Returns the weight of the client, and the weight of all clients in the queue.
    pub(super) fn weights(&self, id: ClientId) -> (i64, i64) {
        (self.clients[id].weight(), self.groups.weight())
    }

    /// Panics unless groups, rings and counts agree with the clients.
    pub(super) fn check(&self) {
        self.groups.check();
        for order in self.groups.orders() {
            let group = &self.groups[order];
            let mut sums = NO_GROUP;
            for id in ring(&self.clients, group.cursor) {
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
            let group = |order: u8| {
                let group = &self.groups[order];
                let ring = ring(&self.clients, group.cursor).map(|id| id.0 + 1).collect();
                (order, group.weight, group.slots, ring)
            };
            self.groups.orders().map(group).collect()
        }

        /// Subtracts full rounds from the slots of all groups.
        pub(in crate::share) fn normalise(&mut self) {
            self.groups.normalise();
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
