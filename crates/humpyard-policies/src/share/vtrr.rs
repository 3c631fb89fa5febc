//! Virtual-time round robin: through a queue ordered by weight, back to its head as soon as the next is not behind.
//!
//! **Idea.** Clients stand in a queue, the heaviest first. The turn goes down the queue while the next client would else be
//! behind its share, and back to the first otherwise. A counter for each says how many slots of the cycle it has left, so
//! that a cycle gives everybody exactly its weight.
//!
//! **Source.** Nieh, Vaill, Zhong. Virtual-time round-robin: an O(1) proportional share scheduler. USENIX 2001.
//! PROPORTIONAL_SHARE sections 2.9 and 0 (slots).
//!
//! **Promises.** Work conserving. With packets of one quantum and clients that stay, exact at the end of every cycle, that is
//! of as many slots as the weights add up to. There is no useful bound between.
//!
//! **Cost.** `pick` O(1), O(n) when a client wakes or gets another weight. A client that owes more than a slot gives is given
//! several in a row. On several cores a pick may give slots to clients in service, and pass over some.
//!
//! **Invariants.** `queue` holds exactly the clients that are not idle, by weight, greatest first. Each has from 0 slots left
//! of the cycle, and `left` is their sum. Tags keep their remainders: `start` < `soon` is exact while clients stay.
//!
//! **Departures.** Instead of a client's finish tag its start tag, earlier by 1 over its weight; after a change of weight it is
//! kept. Clients of equal weight stand as they came, or the other way round if ties go to the higher. On several cores a
//! client that has packets waiting and may not be served, since one is in service, is given its slots all the same, up to
//! four a core, and is served from them as soon as it may be.

use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Setup, Share, Ties};
use humpyard_core::storage::IdRing;
use humpyard_core::unit::{Time, Weight, Work};

use super::slot::{BANK_SLOTS, Slots, quantum};
use super::tag::{ExactTag, TotalTag};

params! {
    /// Parameters of virtual-time round robin.
    pub struct VtrrParams {
        /// Work of one slot; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
    }
}

/// What is known of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// Slots it was given, over its weight.
    start: ExactTag,
    /// The cycle in which `left` was counted: in any later one it has as many slots left as weight.
    cycle: u64,
    left: u64,
    weight: Weight,
    /// Its packets waiting.
    waiting: u32,
}

/// Virtual-time round robin.
#[derive(Debug)]
pub struct Vtrr {
    /// The clients that are not idle, by weight, greatest first.
    queue: IdRing<ClientId>,
    /// Who was given the last slot; none if that was the first of the queue and it has gone.
    cursor: Option<ClientId>,
    /// Slots given, over the sum of the weights.
    virtual_time: TotalTag,
    /// The same one slot later.
    soon: TotalTag,
    /// Sum of the weights of the queue.
    weight: u64,
    /// Which cycle this is.
    cycle: u64,
    /// Slots left of this cycle, of all the queue.
    left: u64,
    /// No slot is given in advance to a client that has this much work left.
    bank_limit: i64,
    slots: Slots,
    clients: IdVec<ClientId, Client>,
    ties: Ties,
}

impl Build for Vtrr {
    type Params = VtrrParams;
    const INFO: Info = Info {
        name: "vtrr",
        family: Family::Share,
        summary: "down a queue ordered by weight, back to its head as soon as the next is not behind",
        source: "Nieh, Vaill, Zhong. Virtual-time round-robin. USENIX 2001",
        promises: &[Promise::WorkConserving, Promise::Fair("unit packets: error = 0 at the end of every cycle")],
        complexity: "O(1), O(n) to wake",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000"];

    fn new(params: &VtrrParams, setup: &Setup<'_>) -> Result<Self, BuildError> {
        let quantum = quantum(Self::INFO.name, params.quantum, setup)?;
        let client =
            |id| Client { start: ExactTag::default(), cycle: 0, left: 0, weight: setup.weight(id), waiting: 0 };
        Ok(Self {
            queue: IdRing::new(setup.clients),
            cursor: None,
            virtual_time: TotalTag::default(),
            soon: TotalTag::default(),
            weight: 0,
            cycle: 0,
            left: 0,
            bank_limit: BANK_SLOTS * setup.cores as i64 * quantum,
            slots: Slots::new(quantum, setup.clients),
            clients: IdVec::from_fn(setup.clients, client),
            ties: setup.ties,
        })
    }
}

impl Policy for Vtrr {
    fn check(&self) {
        self.slots.check();
        let weight = |id: ClientId| self.clients[id].weight.get();
        let order: (u64, u64) = self.queue.iter().fold((0, 0), |(weights, left), id| {
            let next = self.queue.next(id);
            assert!(next.is_none_or(|next| weight(next) <= weight(id)), "the queue goes by weight");
            (weights + u64::from(weight(id)), left + self.left(id))
        });
        assert_eq!(order, (self.weight, self.left), "weights of the queue, and slots left");
        assert!(self.cursor.is_none_or(|cursor| self.queue.contains(cursor)), "the cursor is in the queue");
        for id in self.clients.ids().filter(|&id| !self.queue.contains(id)) {
            assert!(self.slots.balance(id) <= 0 && !self.slots.is_offered(id), "client {id} is idle");
        }
    }
}

impl Share for Vtrr {
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
        self.clients[id].waiting += 1;
    }

    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.join(id);
        self.offer(id);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.offer(id);
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        if self.slots.is_empty() {
            return None;
        }
        loop {
            if let Some(id) = self.slots.holder() {
                return Some(id);
            }
            self.give_slot();
        }
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        self.clients[id].waiting -= 1;
        self.slots.dispatch(id, sent.estimate);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.slots.settle(id, used, sent.estimate);
    }

    fn on_push_out(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
        self.clients[id].waiting -= 1;
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.slots.block(id);
        self.leave(id);
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.slots.forgive(id);
        self.clients[id].start = ExactTag::default();
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let queued = self.queue.contains(id);
        if queued {
            self.leave(id);
        }
        let client = &mut self.clients[id];
        client.start.rebase(client.weight, weight);
        client.weight = weight;
        if queued {
            self.join(id);
        }
    }
}

impl Vtrr {
    /// Gives the next slot. Some head may be served, and no client that may be served holds a slot.
    fn give_slot(&mut self) {
        let first = self.able_from(self.queue.front()).expect("a client whose head may be served is in the queue");
        let mut id = first;
        if let Some(cursor) = self.cursor
            && let Some(next) = self.able_from(self.queue.next(cursor))
        {
            let left = self.left(next);
            let is_behind = || self.clients[next].start.tag() < self.soon.tag;
            if left > 0 && (left > self.left(cursor) || is_behind()) {
                id = next;
            }
        }
        if self.left(id) == 0 {
            self.cycle += 1;
            self.left = self.weight;
            id = first;
        }
        self.cursor = Some(id);
        let left = self.left(id) - 1;
        let client = &mut self.clients[id];
        client.left = left;
        client.cycle = self.cycle;
        client.start.add(1, client.weight);
        self.left -= 1;
        self.virtual_time = self.soon;
        self.soon.shift(1, self.weight);
        self.slots.grant(id, 1);
    }

    /// The first client from this one on that may be given a slot: to be served, or in advance.
    fn able_from(&self, mut from: Option<ClientId>) -> Option<ClientId> {
        while let Some(id) = from {
            if self.slots.is_offered(id) || self.clients[id].waiting > 0 && self.slots.balance(id) < self.bank_limit {
                break;
            }
            from = self.queue.next(id);
        }
        from
    }

    /// How many slots the client has left of this cycle.
    fn left(&self, id: ClientId) -> u64 {
        let client = &self.clients[id];
        if client.cycle == self.cycle { client.left } else { client.weight.get().into() }
    }

    /// The client's head may be served.
    fn offer(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.waiting = client.waiting.max(1);
        self.slots.offer(id);
    }

    /// Takes a client into the queue, with its part of what is left of the cycle.
    fn join(&mut self, id: ClientId) {
        let weight = self.clients[id].weight;
        let goes_before = |&other: &ClientId| match self.ties {
            Ties::Lowest => self.clients[other].weight < weight,
            Ties::Highest => self.clients[other].weight <= weight,
        };
        let next = self.queue.iter().find(goes_before);
        match next {
            Some(next) => self.queue.insert_before(next, id),
            None => self.queue.push_back(id),
        }
        let mut left = u64::from(weight.get());
        if self.weight > 0 {
            left = (u128::from(left) * u128::from(self.left)).div_ceil(u128::from(self.weight)) as u64;
        }
        left = next.map_or(left, |next| left.max(self.left(next)));
        left = self.queue.previous(id).map_or(left, |previous| left.min(self.left(previous)));
        let client = &mut self.clients[id];
        client.left = left;
        client.cycle = self.cycle;
        if self.virtual_time.tag > client.start.tag() {
            client.start = ExactTag::at(self.virtual_time.tag);
        }
        self.left += left;
        self.share_among(self.weight + u64::from(weight.get()));
    }

    /// Takes a client out of the queue.
    fn leave(&mut self, id: ClientId) {
        if self.cursor == Some(id) {
            self.cursor = self.queue.previous(id);
        }
        self.left -= self.left(id);
        self.queue.remove(id);
        self.share_among(self.weight - u64::from(self.clients[id].weight.get()));
    }

    /// From now on virtual time grows by 1 over these weights.
    fn share_among(&mut self, weight: u64) {
        self.virtual_time.rebase(self.weight, weight);
        self.weight = weight;
        self.soon = self.virtual_time;
        if weight > 0 {
            self.soon.shift(1, weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, Desk, V, random_weights, sequence, unit_sequence, v_work};
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;

    const VTRR: VtrrParams = VtrrParams { quantum: Auto::Auto };

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Vtrr>(&VTRR, &A, 12), "123121123121");
        assert_eq!(unit_sequence::<Vtrr>(&VTRR, &B, 48), "123456112311111123456111".repeat(2));
        assert_eq!(sequence::<Vtrr>(&VTRR, &V, 14, 10, v_work), "11222311112231");
    }

    /// PROPORTIONAL_SHARE section 2.9, the insert example: a finish tag of 5/6 at weight 2 is a start tag of 1/3.
    #[test]
    fn a_newcomer_has_its_part_of_the_cycle() {
        let mut desk = Desk::<Vtrr>::new(&VTRR, &[3, 2, 1, 2]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(2), "12");
        desk.wake(&[4]);
        let policy = desk.policy();
        let queue: Vec<(u32, u64)> = policy.queue.iter().map(|id| (id.0 + 1, policy.left(id))).collect();
        assert_eq!(queue, [(1, 2), (2, 1), (4, 1), (3, 1)]);
        let mut third = TotalTag::default();
        third.shift(1, 3);
        assert_eq!(policy.clients[ClientId(3)].start.tag(), third.tag);
        assert_eq!(desk.serve(12), "431211243124");
    }

    /// The rule in whole numbers, for clients that stay.
    fn in_whole_numbers(weights: &[u32], slots: usize) -> Vec<usize> {
        let mut queue: Vec<usize> = (0..weights.len()).collect();
        queue.sort_by_key(|&client| -i64::from(weights[client]));
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut left: Vec<u32> = weights.to_vec();
        let mut served = vec![0u64; weights.len()];
        let mut cursor = None;
        (0..slots as u64)
            .map(|slot| {
                let mut place = 0;
                if let Some(cursor) = cursor.filter(|cursor| cursor + 1 < queue.len()) {
                    let (this, next): (usize, usize) = (queue[cursor], queue[cursor + 1]);
                    let behind = served[next] * total < (slot + 1) * u64::from(weights[next]);
                    if left[next] > 0 && (left[next] > left[this] || behind) {
                        place = cursor + 1;
                    }
                }
                if left[queue[place]] == 0 {
                    left.copy_from_slice(weights);
                    place = 0;
                }
                cursor = Some(place);
                left[queue[place]] -= 1;
                served[queue[place]] += 1;
                queue[place]
            })
            .collect()
    }

    #[test]
    fn tags_decide_as_whole_numbers_do_and_cycles_are_exact() {
        for weights in random_weights("vtrr", 300, 20, 300) {
            let mut desk = Desk::<Vtrr>::new(&VTRR, &weights);
            desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
            let cycle = weights.iter().sum::<u32>() as usize;
            let served: Vec<usize> = (0..3 * cycle).map(|_| desk.step().0.index()).collect();
            assert_eq!(served, in_whole_numbers(&weights, 3 * cycle), "{weights:?}");
            for slots in served.chunks(cycle) {
                let count = |client| slots.iter().filter(|&&served| served == client).count() as u32;
                assert!(weights.iter().enumerate().all(|(client, &weight)| count(client) == weight), "{weights:?}");
            }
        }
    }

    #[test]
    fn another_weight_is_another_place() {
        let mut desk = Desk::<Vtrr>::new(&VTRR, &A);
        desk.wake(&[1, 2, 3]);
        desk.set_weight(3, 4);
        let queue: Vec<u32> = desk.policy().queue.iter().map(|id| id.0 + 1).collect();
        assert_eq!(queue, [3, 1, 2]);
        let served = desk.serve(18);
        assert_eq!(['1', '2', '3'].map(|client| served.matches(client).count()), [6, 4, 8]);
    }
}
