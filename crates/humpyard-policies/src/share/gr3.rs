//! Group ratio round robin: clients of like weight take turns, and groups of them in the ratio of their weights.
//!
//! **Idea.** Clients of weights from 2^k to 2^(k+1) − 1 are the group of order k. Among groups, ordered by weight, the turn
//! goes to the next group as long as this one is ahead of it, counting one slot more for both, and back to the first
//! otherwise. Within a group clients are visited in a ring: their weights differ by less than a factor of two, so a visit is
//! one slot or two, and what is left over is kept. So neither many clients nor unequal weights make it costly or unfair.
//!
//! **Source.** Caprita, Chan, Nieh, Stein, Zheng. Group ratio round-robin: O(1) proportional share scheduling for uniprocessor
//! and multiprocessor systems. USENIX ATC 2005. PROPORTIONAL_SHARE section 3; packets of any length: section 3.5.
//!
//! **Promises.** Work conserving. With packets of one quantum, g groups and clients that stay, a client is less than
//! (g−1)(g−2)/2 + 4 behind its share of the service and less than g + 3 ahead of it.
//!
//! **Cost.** O(1), O(g) when a client comes or goes; there are at most 32 groups. A client that owes more than a visit gives
//! is visited in vain until it has paid. On several cores a pick may give slots to clients in service, and pass over some.
//!
//! **Invariants.** `list` holds the groups that have clients by weight, greatest first, equal ones by ascending order. A
//! group's weight is the sum of its clients'. Clients that are not idle are in their group's ring, idle ones may be. A
//! group's credit is at most one slot. `banked` holds the clients that have work in the bank and whose head may be served.
//!
//! **Departures.** Charged the estimate at dispatch and corrected at completion. Debts outlast idleness. When a client comes
//! or goes the turn of the first group begins anew, but that of another group stays where it is: newcomers could else keep
//! all groups but the first from theirs. On several cores a client that has packets waiting and may not be served, since one is in service, is given its slots all the same: they go
//! to its bank (the frontlog of the paper), and it is served from that first, whosever turn it is. A client holds at most
//! four slots a core there: one whose weight is more than a core can serve would else save for ever.

use alloc::boxed::Box;

use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Setup, Share};
use humpyard_core::storage::{IdCircles, IdRing};
use humpyard_core::unit::{Time, Weight, Work};

use super::slot::{BANK_SLOTS, quantum, signed};

params! {
    /// Parameters of group ratio round robin.
    pub struct Gr3Params {
        /// Work of one slot; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
    }
}

/// What is known of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// Credit left, times 2^order; negative is debt.
    balance: i64,
    /// Work it was given while in service: paid for by its group and itself.
    bank: i64,
    /// Estimated work of its head.
    head: i64,
    weight: u32,
    /// Its packets waiting.
    waiting: u32,
    /// Its group is that of this order.
    order: u8,
    /// Whether it is in its group's ring.
    member: bool,
    /// Whether it is in the ring and idle: it leaves when the ring comes to it.
    idle: bool,
    /// Whether its head may be served.
    offered: bool,
}

impl Client {
    /// Whether it may be given a slot: to be served, or for its bank of which this is the limit.
    fn is_able(&self, limit: i64) -> bool {
        self.member && !self.idle && (self.offered || self.waiting > 0 && self.bank < limit)
    }
}

/// Clients of weights from 2^order to 2^(order+1) − 1.
#[derive(Clone, Copy, Debug)]
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

/// As many as a weight has bits.
const ORDERS: usize = 32;

/// When the first group has used slots of 2^20 rounds, full rounds are subtracted.
const MANY_ROUNDS: u32 = 20;

/// Group ratio round robin.
#[derive(Debug)]
pub struct Gr3 {
    /// Work of one slot.
    quantum: i64,
    /// No work is added to a bank that holds this much.
    bank_limit: i64,
    /// Clients whose head may be served.
    offered: u32,
    /// Whose turn it is, as a place in `list`.
    turn: usize,
    /// Whether that group's slot has begun.
    in_slot: bool,
    /// Number of groups that have clients.
    listed: usize,
    /// Their orders.
    list: [u8; ORDERS],
    /// By order.
    groups: Box<[Group; ORDERS]>,
    /// The rings of the groups.
    rings: IdCircles<ClientId>,
    /// The clients that have work in the bank and whose head may be served.
    banked: IdRing<ClientId>,
    clients: IdVec<ClientId, Client>,
}

impl Build for Gr3 {
    type Params = Gr3Params;
    const INFO: Info = Info {
        name: "gr3",
        family: Family::Share,
        summary: "groups of like weights share in ratio, their clients take turns",
        source: "Caprita, Chan, Nieh, Stein, Zheng. Group ratio round-robin. USENIX ATC 2005",
        promises: &[
            Promise::WorkConserving,
            Promise::Fair("unit packets, g groups: -(g-1)(g-2)/2 - 4 < error < g + 3"),
        ],
        complexity: "O(1)",
    };

    fn new(params: &Gr3Params, setup: &Setup<'_>) -> Result<Self, BuildError> {
        let client = |id| {
            let weight = setup.weight(id).get();
            Client {
                balance: 0,
                bank: 0,
                head: 0,
                weight,
                waiting: 0,
                order: order(weight),
                member: false,
                idle: false,
                offered: false,
            }
        };
        let quantum = quantum(Self::INFO.name, params.quantum, setup)?;
        Ok(Self {
            quantum,
            bank_limit: BANK_SLOTS * setup.cores as i64 * quantum,
            offered: 0,
            turn: 0,
            in_slot: false,
            listed: 0,
            list: [0; ORDERS],
            groups: Box::new([NO_GROUP; ORDERS]),
            rings: IdCircles::new(setup.clients),
            banked: IdRing::new(setup.clients),
            clients: IdVec::from_fn(setup.clients, client),
        })
    }
}

impl Policy for Gr3 {
    fn check(&self) {
        let list = &self.list[..self.listed];
        let rank = |&order: &u8| (-self.groups[usize::from(order)].weight, order);
        assert!(list.is_sorted_by_key(rank), "groups by weight");
        assert!(self.turn == 0 || self.turn < self.listed, "a turn of no group");
        for (order, group) in (0..).zip(self.groups.iter()) {
            assert_eq!(list.contains(&order), group.weight > 0, "group {order} is listed");
            let mut sums = NO_GROUP;
            for id in self.rings.iter(group.cursor).filter(|_| group.weight > 0) {
                let client = &self.clients[id];
                assert!(client.member && client.order == order, "client {id} in the ring of group {order}");
                sums.weight += i64::from(client.weight);
                sums.busy += u32::from(!client.idle);
                sums.able += u32::from(client.is_able(self.bank_limit));
            }
            let found = (sums.weight, sums.busy, sums.able);
            assert_eq!(found, (group.weight, group.busy, group.able), "group {order}");
            assert!(group.credit <= self.quantum, "credit of group {order}");
        }
        for id in self.clients.ids() {
            let client = &self.clients[id];
            assert!(!client.offered || client.member && !client.idle && client.waiting > 0, "head of client {id}");
            assert_eq!(self.banked.contains(id), client.offered && client.bank > 0, "client {id} is banked");
            assert!(client.bank >= 0 && client.bank < self.bank_limit + self.quantum, "bank of client {id}");
        }
        let offered = self.clients.iter().filter(|client| client.offered).count();
        assert_eq!(offered, self.offered as usize, "heads on offer");
    }
}

impl Share for Gr3 {
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
        self.change(id, |client| client.waiting += 1);
    }

    fn on_wake(&mut self, _: Time, id: ClientId, head: &Packet) {
        if self.clients[id].member {
            self.groups[usize::from(self.clients[id].order)].busy += 1;
        } else {
            self.join(id);
        }
        self.offer(id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.offer(id, head);
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        if self.offered == 0 {
            return None;
        }
        if let Some(id) = self.banked.front() {
            return Some(id);
        }
        loop {
            let order = self.list[self.turn];
            let group = &mut self.groups[usize::from(order)];
            if group.able == 0 && group.busy > 0 {
                group.passed = true;
                self.pass();
            } else if group.credit > 0 {
                self.in_slot = true;
                if let Some(id) = self.pick_in(order) {
                    return Some(id);
                }
            } else if self.in_slot {
                self.advance();
            } else {
                group.credit += self.quantum;
                self.in_slot = true;
                group.slots += i64::from(group.credit <= 0);
            }
        }
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id];
        let mut work = signed(sent.estimate);
        if client.bank > 0 {
            let paid = client.bank.min(work);
            client.bank -= paid;
            work -= paid;
            self.banked.remove(id);
        }
        client.offered = false;
        client.waiting -= 1;
        self.offered -= 1;
        let is_able = client.is_able(self.bank_limit);
        self.groups[usize::from(client.order)].able -= u32::from(!is_able);
        self.charge(id, work);
    }

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        if used != sent.estimate {
            self.charge(id, signed(used).saturating_sub(signed(sent.estimate)));
        }
    }

    fn on_push_out(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
        self.change(id, |client| client.waiting -= 1);
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        let client = &mut self.clients[id];
        let group = &mut self.groups[usize::from(client.order)];
        client.idle = true;
        // What is left of its visit it keeps, up to one slot.
        client.balance = client.balance.min(self.quantum << client.order);
        group.visiting &= group.cursor != id;
        group.busy -= 1;
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        if self.clients[id].member {
            self.leave(id);
        }
        self.clients[id].balance = 0;
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let before = self.clients[id];
        let order = order(weight.get());
        if order == before.order {
            self.clients[id].weight = weight.get();
            if before.member {
                self.reweigh(order, i64::from(weight.get()) - i64::from(before.weight));
            }
            return;
        }
        if before.member {
            self.leave(id);
        }
        let client = &mut self.clients[id];
        client.weight = weight.get();
        client.order = order;
        client.balance = (client.balance >> before.order) << order;
        if before.member && !before.idle {
            self.join(id);
        }
    }
}

impl Gr3 {
    /// The client to serve in the slot of a group; none if instead the slot went to a bank, or a client left the group.
    ///
    /// Some client of the group is able, or all are idle.
    #[inline]
    fn pick_in(&mut self, order: u8) -> Option<ClientId> {
        let group = &mut self.groups[usize::from(order)];
        loop {
            let client = &mut self.clients[group.cursor];
            if group.visiting {
                if client.offered {
                    if client.balance >= client.head << order {
                        return Some(group.cursor);
                    }
                } else if client.balance >= self.quantum << order && client.is_able(self.bank_limit) {
                    let (id, work) = (group.cursor, group.credit);
                    self.change(id, |client| client.bank += work);
                    self.charge(id, work);
                    return None;
                }
                group.visiting = false;
            }
            if group.begun {
                group.cursor = self.rings.next(group.cursor);
            }
            group.begun = true;
            let client = &mut self.clients[group.cursor];
            if client.idle {
                let id = group.cursor;
                self.leave(id);
                return None;
            }
            if client.is_able(self.bank_limit) {
                group.visiting = true;
                client.balance = client.balance.saturating_add(self.quantum * i64::from(client.weight));
            }
        }
    }

    /// Ends the slot of the group whose turn it is, and gives the turn on.
    #[inline]
    fn advance(&mut self) {
        self.in_slot = false;
        let here = &self.groups[usize::from(self.list[self.turn])];
        let next = self.turn + 1;
        self.turn = 0;
        if next < self.listed {
            let there = &self.groups[usize::from(self.list[next])];
            let product = |slots: i64, weight: i64| i128::from(slots + 1) * i128::from(weight);
            if product(here.slots, there.weight) > product(there.slots, here.weight) {
                self.turn = next;
            }
        }
    }

    /// Gives the turn to the next group that has able clients, or idle ones alone; there is one.
    fn pass(&mut self) {
        self.in_slot = false;
        loop {
            self.turn = if self.turn + 1 < self.listed { self.turn + 1 } else { 0 };
            let group = &self.groups[usize::from(self.list[self.turn])];
            if group.able > 0 || group.busy == 0 {
                return;
            }
        }
    }

    /// Charges a client and its group so much work; less than 0 gives work back.
    #[inline]
    fn charge(&mut self, id: ClientId, work: i64) {
        let client = &mut self.clients[id];
        let group = &mut self.groups[usize::from(client.order)];
        client.balance = client.balance.saturating_sub(work.saturating_mul(1 << client.order));
        let was_in_slot = group.credit > 0;
        group.credit = group.credit.saturating_sub(work);
        group.slots += i64::from(was_in_slot) - i64::from(group.credit > 0);
        while group.credit > self.quantum {
            group.credit -= self.quantum;
            group.slots -= 1;
        }
    }

    /// Changes a client, and counts it among the able ones of its group if it is one then.
    fn change(&mut self, id: ClientId, change: impl FnOnce(&mut Client)) {
        let client = &mut self.clients[id];
        let before = client.is_able(self.bank_limit);
        change(client);
        let after = client.is_able(self.bank_limit);
        if before != after {
            let order = client.order;
            if after {
                self.add_able(order);
            } else {
                self.groups[usize::from(order)].able -= 1;
            }
        }
    }

    /// The client's head may be served.
    #[inline]
    fn offer(&mut self, id: ClientId, head: &Packet) {
        let client = &mut self.clients[id];
        let was_able = client.is_able(self.bank_limit);
        client.idle = false;
        client.offered = true;
        client.waiting = client.waiting.max(1);
        client.head = signed(head.estimate).min(self.quantum);
        self.offered += 1;
        if client.bank > 0 {
            self.banked.push_back(id);
        }
        if !was_able {
            let order = client.order;
            self.add_able(order);
        }
    }

    /// The group has one more able client.
    #[inline]
    fn add_able(&mut self, order: u8) {
        let group = &mut self.groups[usize::from(order)];
        group.able += 1;
        if group.passed {
            self.resume(order);
        }
    }

    /// A group that was passed over has an able client again: it is no further behind than one that comes.
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
        client.member = true;
        client.idle = false;
        let (order, weight) = (client.order, client.weight);
        let group = &mut self.groups[usize::from(order)];
        if group.weight == 0 {
            *group = Group { cursor: id, ..NO_GROUP };
        } else {
            self.rings.insert_before(group.cursor, id);
        }
        group.busy += 1;
        group.able += u32::from(client.is_able(self.bank_limit));
        self.reweigh(order, i64::from(weight));
    }

    /// Takes a client out of its group, which takes its bank away.
    fn leave(&mut self, id: ClientId) {
        self.banked.remove(id);
        let client = &mut self.clients[id];
        let (order, weight) = (client.order, client.weight);
        let group = &mut self.groups[usize::from(order)];
        group.able -= u32::from(client.is_able(self.bank_limit));
        group.busy -= u32::from(!client.idle);
        client.member = false;
        client.idle = false;
        client.bank = 0;
        client.balance = client.balance.min(0);
        if group.cursor == id {
            group.cursor = if group.begun { self.rings.previous(id) } else { self.rings.next(id) };
            group.visiting = false;
        }
        self.rings.remove(id);
        self.reweigh(order, -i64::from(weight));
    }

    /// Adds to the weight of a group: its place in the list and the slots it has used up follow.
    fn reweigh(&mut self, order: u8, change: i64) {
        if self.listed > 0 {
            let first = &self.groups[usize::from(self.list[0])];
            if first.slots >> MANY_ROUNDS >= first.weight {
                self.normalise();
            }
        }
        let turn = self.turn_beyond_first();
        let group = &mut self.groups[usize::from(order)];
        let before = group.weight;
        group.weight += change;
        let after = group.weight;
        if before > 0 {
            let place = self.place_of(order);
            self.list.copy_within(place + 1..self.listed, place);
            self.listed -= 1;
        }
        if after == 0 {
            self.give_turn(turn);
            return;
        }
        let rank = |&order: &u8| (-self.groups[usize::from(order)].weight, order);
        let place = self.list[..self.listed].partition_point(|other| rank(other) < rank(&order));
        self.list.copy_within(place..self.listed, place + 1);
        self.list[place] = order;
        self.listed += 1;
        let (slots, of) = if before > 0 {
            (self.groups[usize::from(order)].slots, before)
        } else if self.listed > 1 {
            let neighbour = &self.groups[usize::from(self.list[if place > 0 { place - 1 } else { 1 }])];
            (neighbour.slots, neighbour.weight)
        } else {
            (0, 1)
        };
        self.groups[usize::from(order)].slots = scale(slots, after, of);
        self.give_turn(turn);
    }

    /// The group whose turn it is, if that is not the first. The group of a slot that is over has had its turn.
    fn turn_beyond_first(&mut self) -> Option<u8> {
        if self.listed > 0 && self.in_slot && self.groups[usize::from(self.list[self.turn])].credit <= 0 {
            self.advance();
        }
        Some(self.list[self.turn]).filter(|_| self.turn > 0)
    }

    /// Gives the turn to this group, if it is listed, or else to the first.
    fn give_turn(&mut self, order: Option<u8>) {
        let place = self.list[..self.listed].iter().position(|&listed| Some(listed) == order);
        self.in_slot &= place.is_some();
        self.turn = place.unwrap_or(0);
    }

    /// Takes as many full rounds from the slots of every group as each has had: no decision depends on it.
    fn normalise(&mut self) {
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

/// The k with 2^k <= weight < 2^(k+1).
fn order(weight: u32) -> u8 {
    weight.ilog2() as u8
}

/// `slots * to / from`, rounded up.
fn scale(slots: i64, to: i64, from: i64) -> i64 {
    -(-i128::from(slots) * i128::from(to)).div_euclid(i128::from(from)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, Desk, V, random_weights, sequence, unit_sequence, v_work};
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;
    use humpyard_core::random::Seed;

    const GR3: Gr3Params = Gr3Params { quantum: Auto::Auto };

    /// Order, weight and slots used of each group, and the numbers of its clients from the cursor.
    type State = Vec<(u8, i64, i64, Vec<u32>)>;

    fn state(policy: &Gr3) -> State {
        let group = |&order: &u8| {
            let group = &policy.groups[usize::from(order)];
            let ring = policy.rings.iter(group.cursor).map(|id| id.0 + 1).collect();
            (order, group.weight, group.slots, ring)
        };
        policy.list[..policy.listed].iter().map(group).collect()
    }

    /// All clients of a set, awake.
    fn desk(weights: &[u32]) -> Desk<Gr3> {
        let mut desk = Desk::new(&GR3, weights);
        desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
        desk
    }

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Gr3>(&GR3, &A, 12), "121123121123");
        assert_eq!(unit_sequence::<Gr3>(&GR3, &B, 48), "213141516121213131415161".repeat(2));
        assert_eq!(sequence::<Gr3>(&GR3, &V, 14, 10, v_work), "22311211231121");
    }

    /// With costs unknown before service, all estimated as a quantum.
    #[test]
    fn variable_costs_unknown_before_service() {
        let work = |client, number| (10, u64::from(v_work(client, number)));
        let mut desk = Desk::<Gr3>::with_work(&GR3, &V, 10, work);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(14), "23112211311221");
    }

    /// Figure 3 of the paper; giving the turn on at equality too would yield 212131.
    #[test]
    fn the_turn_goes_on_only_where_the_ratio_is_exceeded() {
        let mut desk = Desk::<Gr3>::new(&GR3, &A);
        desk.wake(&[2, 1, 3]);
        assert_eq!(desk.serve(6), "212113");
    }

    /// PROPORTIONAL_SHARE section 1: the sequences of groups alone. A group of weight 12 made of five is the first of two.
    #[test]
    fn groups_of_the_specification() {
        let groups = |weights: &[u32], group_of: &[char], slots| -> String {
            let mut desk = desk(weights);
            (0..slots).map(|_| group_of[desk.step().0.index()]).collect()
        };
        assert_eq!(groups(&[4, 2, 1], &['1', '2', '3'], 7), "1121123");
        assert_eq!(groups(&[5, 3, 1, 1], &['1', '2', '3', '3'], 10), "1231121123");
        assert_eq!(groups(&[7, 1, 1, 1, 3], &['1', '2', '2', '2', '3'], 13), "1123112311123");
        assert_eq!(groups(&[5, 1], &['1', '2'], 6), "111112");
        assert_eq!(groups(&[12, 3, 3, 2, 2, 2], &['2', '1', '1', '1', '1', '1'], 4), "1212");
    }

    /// PROPORTIONAL_SHARE section 3.4, test D: clients come, go, and get another weight.
    #[test]
    fn events_of_the_specification() {
        let mut desk = Desk::<Gr3>::new(&GR3, &[3, 2, 1, 2, 6]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(4), "1211");
        desk.wake(&[4]);
        assert_eq!(state(desk.policy())[0], (1, 7, 6, vec![1, 2, 4]));
        assert_eq!(desk.serve(8), "23412411");
        desk.wake(&[5]);
        let groups = [(1, 7, 13, vec![1, 2, 4]), (2, 6, 12, vec![5]), (0, 1, 1, vec![3])];
        assert_eq!(state(desk.policy()), groups);
        assert_eq!(desk.serve(7), "2453152");
        assert_eq!(desk.serve(4), "5451");
        desk.block(1);
        assert_eq!(desk.policy().clients[ClientId(0)].balance, 2);
        assert_eq!(desk.serve(12), "524535255452");
        assert_eq!(state(desk.policy()), [(2, 6, 22, vec![5]), (1, 4, 15, vec![2, 4]), (0, 1, 3, vec![3])]);
        desk.wake(&[1]);
        assert_eq!(state(desk.policy()), [(1, 7, 27, vec![2, 4, 1]), (2, 6, 22, vec![5]), (0, 1, 3, vec![3])]);
        assert_eq!(desk.serve(8), "45153254");
        desk.set_weight(2, 5);
        assert_eq!(state(desk.policy()), [(2, 11, 46, vec![5, 2]), (1, 5, 23, vec![4, 1]), (0, 1, 4, vec![3])]);
        assert_eq!(desk.serve(8), "25525215");
    }

    /// Test E: who wakes before the ring comes to it has its place still, and one slot of what it had left.
    #[test]
    fn a_short_absence_goes_unnoticed() {
        let mut desk = desk(&[3, 2, 2]);
        assert_eq!(desk.serve(4), "1231");
        desk.block(1);
        assert_eq!(desk.policy().clients[ClientId(0)].balance, 2);
        assert_eq!(desk.serve(1), "2");
        desk.wake(&[1]);
        assert_eq!(desk.serve(8), "31123112");
    }

    /// The rule of PROPORTIONAL_SHARE section 3.2, slot by slot, for clients that stay.
    fn unit_mode(weights: &[u32], slots: usize) -> Vec<usize> {
        struct Group {
            order: u32,
            ring: Vec<usize>,
            weight: i64,
            used: i64,
            cursor: usize,
            rest: u64,
        }
        let mut groups: Vec<Group> = Vec::new();
        for order in 0..32 {
            let ring: Vec<usize> = (0..weights.len()).filter(|&client| weights[client].ilog2() == order).collect();
            let weight = ring.iter().map(|&client| i64::from(weights[client])).sum();
            let cursor = ring.len().wrapping_sub(1);
            groups.push(Group { order, ring, weight, used: 0, cursor, rest: 0 });
        }
        groups.retain(|group| group.weight > 0);
        groups.sort_by_key(|group| (-group.weight, group.order));
        let mut deficits = vec![0u64; weights.len()];
        let mut turn = 0;
        let mut served = Vec::new();
        for _ in 0..slots {
            let group = &mut groups[turn];
            if group.rest == 0 {
                group.cursor = (group.cursor + 1) % group.ring.len();
                let deficit = &mut deficits[group.ring[group.cursor]];
                *deficit += u64::from(weights[group.ring[group.cursor]]);
                group.rest = *deficit >> group.order;
                *deficit &= (1 << group.order) - 1;
                assert!((1..=2).contains(&group.rest), "a visit of one slot or two");
            }
            group.rest -= 1;
            served.push(group.ring[group.cursor]);
            group.used += 1;
            let next = turn + 1;
            let on = next < groups.len()
                && (groups[turn].used + 1) * groups[next].weight > (groups[next].used + 1) * groups[turn].weight;
            turn = if on { next } else { 0 };
        }
        served
    }

    #[test]
    fn packets_of_one_quantum_are_served_slot_by_slot() {
        for weights in random_weights("gr3/unit", 300, 20, 100) {
            let mut desk = Desk::<Gr3>::with_work(&GR3, &weights, 10, |_, _| (10, 10));
            desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
            let slots = 2 * weights.iter().sum::<u32>() as usize;
            let served: Vec<usize> = (0..slots).map(|_| desk.step().0.index()).collect();
            assert_eq!(served, unit_mode(&weights, slots), "{weights:?}");
        }
    }

    /// Least and greatest service errors, times the sum of the weights.
    struct Errors {
        /// By place in the list.
        groups: Vec<(i128, i128)>,
        clients: (i128, i128),
        /// Whether all clients were within −3 and 4 of their share of their group's service.
        within_groups: bool,
    }

    fn errors(weights: &[u32]) -> Errors {
        let mut desk = desk(weights);
        let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
        let list: Vec<(u8, i128)> = state(desk.policy()).iter().map(|group| (group.0, i128::from(group.1))).collect();
        let place = |client: usize| list.iter().position(|group| group.0 == order(weights[client])).unwrap();
        let mut errors = Errors { groups: vec![(0, 0); list.len()], clients: (0, 0), within_groups: true };
        let mut served = vec![0i128; weights.len()];
        let mut of_groups = vec![0i128; list.len()];
        for slot in 0..total {
            let client = desk.step().0.index();
            let (group, weight) = (place(client), i128::from(weights[client]));
            let group_weight = list[group].1;
            for after in [0, 1] {
                let of_client = served[client] * total - (slot + after) * weight;
                let of_group = of_groups[group] * total - (slot + after) * group_weight;
                let within = served[client] * group_weight - of_groups[group] * weight;
                errors.clients = (errors.clients.0.min(of_client), errors.clients.1.max(of_client));
                let extremes = &mut errors.groups[group];
                *extremes = (extremes.0.min(of_group), extremes.1.max(of_group));
                errors.within_groups &= -3 * group_weight < within && within < 4 * group_weight;
                served[client] += 1 - after;
                of_groups[group] += 1 - after;
            }
        }
        assert!(served.iter().zip(weights).all(|(&served, &weight)| served == i128::from(weight)), "exact at the end");
        errors
    }

    /// PROPORTIONAL_SHARE section 3.3: lemma 4 for groups, the bounds within groups, and what follows for clients.
    #[test]
    fn unit_errors_stay_within_the_bounds() {
        let mixes = random_weights("gr3/few", 300, 12, 3000).chain(random_weights("gr3/many", 100, 200, 60));
        for weights in mixes {
            let errors = errors(&weights);
            let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
            let mut group_weights = [0i128; 32];
            weights.iter().for_each(|&weight| group_weights[usize::from(order(weight))] += i128::from(weight));
            let mut group_weights: Vec<i128> = group_weights.into_iter().filter(|&weight| weight > 0).collect();
            group_weights.sort_unstable_by_key(|weight| -weight);
            let g = group_weights.len() as i128;
            for (k, (&weight, &(least, greatest))) in (1..).zip(group_weights.iter().zip(&errors.groups)) {
                assert!(2 * least >= -(g - k) * (g - k - 1) * weight - 2 * total, "group {k} behind: {weights:?}");
                assert!(greatest <= (g - 1) * total, "group {k} ahead: {weights:?}");
            }
            assert!(errors.within_groups, "{weights:?}");
            let (least, greatest) = errors.clients;
            assert!(2 * least > -((g - 1) * (g - 2) + 8) * total && greatest < (g + 3) * total, "{weights:?}");
        }
    }

    /// PROPORTIONAL_SHARE section 3.3, integer ratios.
    #[test]
    fn errors_of_groups_in_whole_ratios() {
        let errors = errors(&[4, 2, 1]);
        assert_eq!(errors.groups, [(0, 8), (-4, 2), (-6, 0)]);
    }

    /// A group far heavier than four like ones falls behind by more than the bound that was once claimed, −(g−1)²/8 − 1 = −3.
    #[test]
    fn a_heavy_group_falls_behind() {
        let mut weights = vec![3749, 49, 24, 24, 15, 15, 9, 8];
        weights.extend([7, 7, 7, 7, 7, 7, 4]);
        let errors = errors(&weights);
        assert_eq!(errors.groups.len(), 5);
        let millionths = errors.groups[0].0 * 1_000_000 / 3939;
        assert_eq!((millionths - 500) / 1000, -5291, "in thousandths");
    }

    /// Full rounds taken from all groups change no decision, whatever happens.
    #[test]
    fn normalising_changes_nothing() {
        for weights in random_weights("gr3/normalise", 200, 10, 200) {
            let mut random = Seed(weights[0].into()).stream("gr3/normalise");
            let [mut plain, mut normalised] = [desk(&weights), desk(&weights)];
            let mut busy = weights.len();
            let mut idle = Vec::new();
            for _ in 0..500 {
                normalised.policy().normalise();
                let (client, _) = plain.step();
                assert_eq!(normalised.step().0, client, "{weights:?}");
                let number = client.0 + 1;
                match random.below(8) {
                    0 if busy > 1 => {
                        [&mut plain, &mut normalised].into_iter().for_each(|desk| desk.block(number));
                        busy -= 1;
                        idle.push(number);
                    }
                    1 if !idle.is_empty() => {
                        let woken = idle.swap_remove(random.below(idle.len() as u64) as usize);
                        [&mut plain, &mut normalised].into_iter().for_each(|desk| desk.wake(&[woken]));
                        busy += 1;
                    }
                    2 => {
                        let weight = 1 + random.below(200) as u32;
                        [&mut plain, &mut normalised].into_iter().for_each(|desk| desk.set_weight(number, weight));
                    }
                    _ => {}
                }
            }
        }
    }

    /// PROPORTIONAL_SHARE section 3.5: errors in quanta, for packets of any cost up to one.
    #[test]
    fn packets_of_any_cost_keep_the_shares() {
        let work = |client: ClientId, number: u64| {
            let work = 1 + humpyard_core::hash::mix(u64::from(client.0) << 32 | number) % 1000;
            (work, work)
        };
        for weights in random_weights("gr3/packets", 100, 30, 300) {
            let mut desk = Desk::<Gr3>::with_work(&GR3, &weights, 1000, work);
            desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
            let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
            let mut served = vec![0i128; weights.len()];
            let mut all = 0;
            for _ in 0..3000 {
                let (client, work) = desk.step();
                served[client.index()] += i128::from(work);
                all += i128::from(work);
                for (&served, &weight) in served.iter().zip(&weights) {
                    let error = served * total - all * i128::from(weight);
                    assert!(error.abs() < 6000 * total, "{} quanta: {weights:?}", error / total / 1000);
                }
            }
        }
    }

    #[test]
    fn a_client_is_small() {
        let links = 2 * size_of::<(ClientId, ClientId, bool)>();
        assert!(size_of::<Client>() + links <= 64, "{} bytes", size_of::<Client>() + links);
    }

    /// 48 clients of weight 1 are busy, each for one packet; whenever one goes, another comes that is in no ring. A turn that
    /// began anew each time, as in PROPORTIONAL_SHARE section 3.4, would never reach the other group.
    #[test]
    fn newcomers_keep_no_group_from_its_turn() {
        let mut desk = Desk::<Gr3>::new(&GR3, &[vec![1; 200], vec![16]].concat());
        desk.wake(&(1..=48).chain([201]).collect::<Vec<_>>());
        let mut served = 0;
        for _ in 0..10_000 {
            let client = desk.step().0;
            if client == ClientId(200) {
                served += 1;
            } else {
                desk.block(client.0 + 1);
                let next = (0..200).find(|&next| !desk.policy().clients[ClientId(next)].member);
                desk.wake(&[next.expect("most are not in the ring") + 1]);
            }
        }
        assert!((2490..=2510).contains(&served), "{served} of 10000 slots, at weight 16 of 64");
    }
}
