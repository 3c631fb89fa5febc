//! Virtual-time round robin: goes down a queue ordered by weight, and back to its head as soon as
//! the next client is not behind.
//!
//! **Idea.** Clients stand in a queue, the heaviest first. The turn goes down the queue while the next client
//! would otherwise be behind its share, and else back to the first. Each client has a counter of the slots that
//! it has left in the cycle. So a cycle gives every client exactly its weight.
//!
//! **Source.** Nieh, Vaill, Zhong. Virtual-time round-robin: an O(1) proportional share scheduler. USENIX 2001.
//! PROPORTIONAL_SHARE sections 2.9 and 0 (slots).
//!
//! **Promises.** Work conserving. With packets of one quantum and clients that stay, service is
//! exact at the end of every cycle. A cycle has as many slots as the sum of the weights. There is
//! no useful bound in between.
//!
//! **Cost.** `pick` O(1). O(n) when a client wakes or changes weight, unless it is the lightest of
//! its class; n counts the clients whose weights differ from its own by less than 1/32. A client
//! that owes more than a slot gives receives several in a row. On several cores a pick may give
//! slots to clients in service, and pass over some. 64 bytes per client.
//!
//! **Invariants.** `queue` holds exactly the clients that are not idle, by weight, greatest first. Each has 0
//! or more slots left in the cycle, and `left` is their sum. Virtual times are slots over a weight, compared by
//! products. So no slot needs a division, and nothing is rounded while clients stay.
//!
//! **Departures.** A client's start tag replaces its finish tag; it is earlier by 1 over its
//! weight. It is kept after a change of weight. Clients of equal weight stand in order of arrival,
//! or reversed if ties go to the higher. On several cores, a client may have waiting packets that
//! may not be served because one is in service. It still receives its slots, up to four per core,
//! and is served from them as soon as possible.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::by_weight::ByWeight;
use super::slot::{GivesSlots, Slots, quantum, slot_handlers};

params! {
    /// Parameters of virtual-time round robin.
    pub struct VtrrParams {
        /// Work of one slot; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
    }
}

/// One slot, in parts.
const SLOT: u128 = 1 << 32;

/// The state of one client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// Its start tag, the slots given to it over its weight: the whole part. The rest is in parts of slots.
    whole: u64,
    /// The rest in parts of slots, in total less than its weight.
    parts: u64,
    /// The cycle to which `left` belongs, from 1; 0 while it is idle. In a later cycle it has as
    /// many slots left as weight.
    cycle: u64,
    left: u32,
    weight: u32,
}

/// Slots given, over the sum of the weights.
#[derive(Clone, Copy, Debug)]
struct VirtualTime {
    whole: u64,
    /// The rest in parts of slots, in total less than `over`.
    parts: u128,
    /// The sum of the weights, or its last value that was not 0.
    over: u64,
}

impl VirtualTime {
    /// Returns the time one slot later.
    #[inline]
    fn next(self) -> Self {
        let parts = self.parts + SLOT;
        let round = u128::from(self.over) * SLOT;
        if parts < round {
            Self { parts, ..self }
        } else {
            Self { whole: self.whole + 1, parts: parts - round, ..self }
        }
    }

    /// Returns the time over the sum `over`; less than a part is lost.
    fn over(self, over: u64) -> Self {
        Self { parts: scale(self.parts, self.over, over).0, over, ..self }
    }
}

/// Converts parts over the weight `from` to parts over `to`. Returns their number, rounded down,
/// and whether it was rounded.
fn scale(parts: u128, from: u64, to: u64) -> (u128, bool) {
    let (from, to) = (u128::from(from), u128::from(to));
    // Whole slots and the rest are separate, so that products fit.
    let whole = (parts / SLOT) * to;
    let rest = (whole % from) * SLOT + (parts % SLOT) * to;
    ((whole / from) * SLOT + rest / from, !rest.is_multiple_of(from))
}

impl Client {
    /// Advances the tag by one slot.
    #[inline]
    fn advance(&mut self) {
        // Compares with a whole round less one slot, because the round itself may not fit.
        let last = u64::from(self.weight - 1) << 32;
        if self.parts < last {
            self.parts += 1 << 32;
        } else {
            self.whole += 1;
            self.parts -= last;
        }
    }

    /// Whether its start tag is less than this virtual time.
    #[inline]
    fn is_behind(&self, time: &VirtualTime) -> bool {
        if self.whole != time.whole {
            return self.whole < time.whole;
        }
        u128::from(self.parts) * u128::from(time.over) < time.parts * u128::from(self.weight)
    }

    /// Starts the client at this virtual time, so that it loses any lead. Rounds up, so that a tie stays a tie.
    fn start_at(&mut self, time: &VirtualTime) {
        let (parts, rounded) = scale(time.parts, time.over, self.weight.into());
        let parts = parts + u128::from(rounded);
        let round = u128::from(self.weight) * SLOT;
        let carry = parts == round;
        self.whole = time.whole + u64::from(carry);
        self.parts = if carry { 0 } else { parts as u64 };
    }
}

/// Virtual-time round robin.
#[derive(Debug)]
pub struct Vtrr {
    /// The clients that are not idle, by weight, greatest first.
    queue: ByWeight,
    /// The client that was given the last slot. `None`: it was the first of the queue and has gone.
    cursor: Option<ClientId>,
    virtual_time: VirtualTime,
    /// The sum of the weights in the queue.
    weight: u64,
    /// The number of the cycle.
    cycle: u64,
    /// The slots left in this cycle, of the whole queue.
    left: u64,
    slots: Slots<Client>,
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

    fn new(params: &VtrrParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = quantum(Self::INFO.name, params.quantum, config)?;
        let client = |id| Client { whole: 0, parts: 0, cycle: 0, left: 0, weight: config.weight(id).get() };
        Ok(Self {
            queue: ByWeight::new(config.clients, config.ties),
            cursor: None,
            virtual_time: VirtualTime { whole: 0, parts: 0, over: 1 },
            weight: 0,
            cycle: 1,
            left: 0,
            slots: Slots::new(quantum, config, client),
        })
    }
}

impl Policy for Vtrr {
    fn check(&self) {
        self.slots.check();
        let weight = |id: ClientId| self.slots[id].weight;
        let (mut count, mut weights, mut left) = (0, 0, 0);
        for id in self.queue.iter() {
            assert!(self.is_queued(id), "client {id} is in the queue");
            assert!(self.queue.next(id).is_none_or(|next| weight(next) <= weight(id)), "the queue goes by weight");
            assert!(u128::from(self.slots[id].parts) < u128::from(weight(id)) * SLOT, "parts of a round");
            count += 1;
            weights += u64::from(weight(id));
            left += u64::from(self.left(id));
        }
        assert_eq!((weights, left), (self.weight, self.left), "weights of the queue, and slots left");
        assert!(self.cursor.is_none_or(|cursor| self.is_queued(cursor)), "the cursor is in the queue");
        let idle = self.slots.ids().filter(|&id| !self.is_queued(id));
        assert_eq!(count + idle.inspect(|&id| self.slots.check_idle(id)).count(), self.slots.ids().count());
    }
}

impl Share for Vtrr {
    // Handlers for arrivals, dispatches, completions and push-outs; the client that holds a slot is served.
    slot_handlers!();

    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.join(id);
        self.slots.offer(id);
    }

    #[inline]
    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.slots.offer(id);
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.slots.block(id);
        self.leave(id);
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.slots.forgive(id);
        let client = &mut self.slots[id];
        (client.whole, client.parts) = (0, 0);
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let queued = self.is_queued(id);
        if queued {
            self.leave(id);
        }
        let client = &mut self.slots[id];
        client.parts = scale(client.parts.into(), client.weight.into(), weight.get().into()).0 as u64;
        client.weight = weight.get();
        if queued {
            self.join(id);
        }
    }
}

impl GivesSlots for Vtrr {
    type Client = Client;

    #[inline]
    fn slots(&mut self) -> &mut Slots<Client> {
        &mut self.slots
    }

    #[inline]
    fn give(&mut self) {
        let (mut id, mut left) = self.next_behind().unwrap_or_else(|| self.first());
        if left == 0 {
            self.cycle += 1;
            self.left = self.weight;
            (id, left) = self.first();
        }
        self.cursor = Some(id);
        let client = &mut self.slots[id];
        client.left = left - 1;
        client.cycle = self.cycle;
        client.advance();
        self.left -= 1;
        self.virtual_time = self.virtual_time.next();
        self.slots.grant(id, 1);
    }
}

impl Vtrr {
    /// Returns the client after the cursor with its remaining slots, if it is its turn. It must have slots
    /// left, and either more than the cursor's client or a tag that would otherwise fall behind.
    #[inline]
    fn next_behind(&self) -> Option<(ClientId, u32)> {
        let cursor = self.cursor?;
        let id = self.able_from(self.queue.next(cursor))?;
        let left = self.left(id);
        let is_behind = || self.slots[id].is_behind(&self.virtual_time.next());
        (left > 0 && (left > self.left(cursor) || is_behind())).then_some((id, left))
    }

    /// Returns the first client that may be given a slot, and its remaining slots.
    #[inline]
    fn first(&self) -> (ClientId, u32) {
        let first = self.able_from(self.queue.front());
        let id = first.expect("a client whose head may be served is in the queue");
        (id, self.left(id))
    }

    /// Returns the first client, from this one on, that may be given a slot.
    #[inline]
    fn able_from(&self, mut from: Option<ClientId>) -> Option<ClientId> {
        while let Some(id) = from.filter(|&id| !self.slots.is_able(id)) {
            from = self.queue.next(id);
        }
        from
    }

    /// Whether the client is not idle.
    fn is_queued(&self, id: ClientId) -> bool {
        self.slots[id].cycle > 0
    }

    /// Returns the slots that the client, which is not idle, has left in this cycle.
    #[inline]
    fn left(&self, id: ClientId) -> u32 {
        let client = &self.slots[id];
        if client.cycle == self.cycle { client.left } else { client.weight }
    }

    /// Adds a client to the queue, with its part of the rest of the cycle.
    fn join(&mut self, id: ClientId) {
        let slots = &self.slots;
        self.queue.insert(id, |id| slots[id].weight);
        let weight = self.slots[id].weight;
        let mut left = weight;
        if self.weight > 0 {
            left = (u128::from(weight) * u128::from(self.left)).div_ceil(u128::from(self.weight)) as u32;
        }
        left = self.queue.next(id).map_or(left, |next| left.max(self.left(next)));
        left = self.queue.previous(id).map_or(left, |previous| left.min(self.left(previous)));
        let client = &mut self.slots[id];
        client.left = left;
        client.cycle = self.cycle;
        if client.is_behind(&self.virtual_time) {
            client.start_at(&self.virtual_time);
        }
        self.left += u64::from(left);
        self.share_among(self.weight + u64::from(weight));
    }

    /// Removes a client from the queue.
    fn leave(&mut self, id: ClientId) {
        if self.cursor == Some(id) {
            self.cursor = self.queue.previous(id);
        }
        self.left -= u64::from(self.left(id));
        let client = &mut self.slots[id];
        client.cycle = 0;
        let weight = client.weight;
        self.queue.remove(id, weight);
        self.share_among(self.weight - u64::from(weight));
    }

    /// Sets the sum of the weights by which virtual time grows.
    fn share_among(&mut self, weight: u64) {
        self.weight = weight;
        if weight > 0 {
            self.virtual_time = self.virtual_time.over(weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, Desk, V, churn_errors, random_weights, sequence, unit_sequence, v_work};
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

    /// PROPORTIONAL_SHARE section 2.9, the insert example: a finish tag of 5/6 at weight 2 is a
    /// start tag of 1/3.
    #[test]
    fn a_newcomer_has_its_part_of_the_cycle() {
        let mut desk = Desk::<Vtrr>::new(&VTRR, &[3, 2, 1, 2]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(2), "12");
        desk.wake(&[4]);
        let policy = desk.policy();
        let queue: Vec<(u32, u32)> = policy.queue.iter().map(|id| (id.0 + 1, policy.left(id))).collect();
        assert_eq!(queue, [(1, 2), (2, 1), (4, 1), (3, 1)]);
        let newcomer = policy.slots[ClientId(3)];
        assert_eq!((newcomer.whole, newcomer.parts), (0, (2 * SLOT).div_ceil(3) as u64), "two thirds, over 2");
        assert_eq!(desk.serve(12), "431211243124");
    }

    /// The rule in integers, for clients that stay.
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

    /// PROPORTIONAL_SHARE section 5.5.
    #[test]
    fn errors_of_clients_that_come_and_go() {
        for seed in 1..=6 {
            let (behind, ahead) = churn_errors::<Vtrr>(&VTRR, seed, 20_000);
            assert!(behind > -18.2 && ahead < 24.6, "seed {seed}: {behind} to {ahead}");
        }
    }
}
