//! Stratified round robin: clients of similar weight form a class, which has its turns at regular intervals.
//!
//! **Idea.** A client with a part of the capacity from 2^-k to 2^-(k-1) is of class k. Time is divided into
//! slots. Every 2^k slots an interval of class k begins, in which each of its clients is visited once. Of the
//! classes with visits left, the one with the shortest interval goes first. A visit is one quantum or two, so
//! that in the long run the quanta are proportional to the weight.
//!
//! **Source.** Ramabhadran, Pasquale. Stratified round robin: a low complexity packet scheduler
//! with bandwidth fairness and bounded delay. SIGCOMM 2003. PROPORTIONAL_SHARE sections 2.11 and 0
//! (slots).
//!
//! **Promises.** Work conserving. Consider packets of one quantum and clients that stay. At the end of an
//! interval of its class, a client has received its part of the slots so far, rounded down to quanta. If
//! weights are very unequal and slots stay free, quanta come in long runs: there is no useful bound.
//!
//! **Cost.** O(1): classes are found in a bitmap, and a class counts its clients only when its
//! interval begins. A client that owes more than a visit gives is visited without service until it
//! has paid. On several cores a pick may give slots to clients in service, and pass over some. 48
//! bytes per client.
//!
//! **Invariants.** Clients that are not idle are in the ring of their class. A client that was due
//! a visit and could not take it is in no ring until its next head is offered. A class has no more
//! visits left than clients. The capacity is at least the sum of the weights of the clients that
//! are not idle, and less than twice that. Credit is less than a quantum.
//!
//! **Departures.** The capacity is the given one times a power of two. So clients that come, go or
//! change weight leave all others in their classes: intervals change their length, and so does the
//! time in slots. If no capacity is given, it is the sum of the weights of all clients. It is set
//! when the first client wakes, and again after all have been idle. When a client goes, its class
//! keeps no more visits than clients. Both quanta of a visit are given at once. On several cores, a
//! client may have waiting packets that may not be served because one is in service. It still
//! receives its slots, up to four per core.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::steps;
use humpyard_core::storage::IdRings;
use humpyard_core::unit::{Time, Weight, Work};

use super::slot::{GivesSlots, Slots, quantum, slot_handlers};

params! {
    /// Parameters of stratified round robin.
    pub struct StrrParams {
        /// Work of one slot; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
        /// The sum of which weights are parts; it is rounded to a power of two. `auto` is the sum
        /// of the weights of all clients.
        capacity: Auto = Auto::Auto;
    }
}

/// The greatest capacity.
const CAPACITY_MAX: u64 = 1 << 61;

/// The id of a class of clients: the number of doublings from their weights to the base capacity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct ClassId(u8);

impl ClassId {
    /// The number of classes: from the most halvings that a weight may need to the most doublings.
    const COUNT: usize = 96;

    fn of(doublings: i32) -> Self {
        Self::from_index((doublings + 32) as usize)
    }

    fn doublings(self) -> i32 {
        i32::from(self.0) - 32
    }
}

impl Id for ClassId {
    fn from_index(index: usize) -> Self {
        Self(index as u8)
    }
    fn index(self) -> usize {
        self.0.into()
    }
}

/// Returns the least number of doublings that make `from` at least `to`; negative if it may be halved.
fn doublings(from: u64, to: u64) -> i32 {
    let mantissa = |number: u64| number << number.leading_zeros();
    to.ilog2() as i32 - from.ilog2() as i32 + i32::from(mantissa(from) < mantissa(to))
}

/// The state of a class.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// The number of its clients in the ring.
    clients: u32,
    /// The number of visits left in this interval.
    visits: u32,
}

/// The state of one client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// The fraction of a quantum that its visits have left, over the denominator of
    /// [`Strr::visit_worth`].
    credit: u64,
    weight: u32,
    class: ClassId,
    /// Whether it is not idle.
    awake: bool,
    /// Whether it is in the ring of its class.
    in_ring: bool,
}

/// Stratified round robin.
#[derive(Debug)]
pub struct Strr {
    /// The clients of each class, the next to be visited first.
    rings: IdRings<ClassId, ClientId>,
    classes: Box<[Class]>,
    /// The classes with clients, one bit each.
    filled: u128,
    /// The classes with visits left.
    pending: u128,
    /// The next slot. Only its lower bits count: it may wrap.
    slot: u64,
    /// Whether the intervals that begin with this slot have begun.
    entered: bool,
    /// The capacity before doublings.
    base: u64,
    /// The base for the next start from idle, if it is not given: the sum of the weights of all clients.
    reserved: Option<u64>,
    /// The number of doublings from the base to the capacity.
    doublings: i32,
    /// The sum of the weights of all clients that are not idle.
    weight: u64,
    slots: Slots<Client>,
}

impl Build for Strr {
    type Params = StrrParams;
    const INFO: Info = Info {
        name: "strr",
        family: Family::Share,
        summary: "classes of like weights at regular intervals, their clients take turns",
        source: "Ramabhadran, Pasquale. Stratified round robin. SIGCOMM 2003",
        promises: &[
            Promise::WorkConserving,
            Promise::Fair(
                "unit packets: a client's quanta after an interval of its class are its part of the slots, rounded down",
            ),
        ],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000", "capacity=1000"];

    fn new(params: &StrrParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = quantum(Self::INFO.name, params.quantum, config)?;
        let weights = || (0..config.clients).map(|id| u64::from(config.weight(ClientId::from_index(id)).get()));
        let (base, reserved) = match params.capacity {
            Auto::Auto => (1, Some(weights().sum())),
            Auto::Given(capacity) if capacity > CAPACITY_MAX => {
                return Err(BuildError::bad_value(format!("strr: `capacity` must be at most 2^61, not {capacity}")));
            }
            Auto::Given(capacity) => (capacity, None),
        };
        let client = |id| {
            let (weight, class) = (config.weight(id).get(), ClassId::of(0));
            Client { credit: 0, weight, class, awake: false, in_ring: false }
        };
        Ok(Self {
            rings: IdRings::new(ClassId::COUNT, config.clients),
            classes: vec![Class { clients: 0, visits: 0 }; ClassId::COUNT].into(),
            filled: 0,
            pending: 0,
            slot: 0,
            entered: false,
            base,
            reserved,
            doublings: 0,
            weight: 0,
            slots: Slots::new(quantum, config, client),
        })
    }
}

impl Policy for Strr {
    fn check(&self) {
        self.slots.check();
        for (index, class) in self.classes.iter().enumerate() {
            let id = ClassId::from_index(index);
            let clients = self.rings.iter(id).inspect(|&client| {
                assert!(self.slots[client].in_ring && self.slots[client].class == id, "client {client} of {id:?}");
            });
            assert_eq!(clients.count(), class.clients as usize, "clients of {id:?}");
            assert!(class.visits <= class.clients, "visits of {id:?}");
            let bits = (self.filled >> index & 1 == 1, self.pending >> index & 1 == 1);
            assert_eq!(bits, (class.clients > 0, class.visits > 0), "bits of {id:?}");
        }
        let mut weight = 0;
        for id in self.slots.ids() {
            let client = self.slots[id];
            if client.awake {
                weight += u64::from(client.weight);
            } else {
                self.slots.check_idle(id);
            }
            assert!(client.in_ring || !self.slots.is_offered(id), "client {id} is in its ring");
            assert!(!client.awake || client.credit < self.visit_worth(id).1, "credit of client {id}");
            assert!(!client.awake || client.class == self.class_of(client.weight), "class of client {id}");
        }
        assert_eq!(weight, self.weight, "weights");
    }
}

impl Share for Strr {
    // Handlers for arrivals, dispatches, completions and push-outs; the client that holds a slot is served.
    slot_handlers!();

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        if self.weight == 0 {
            self.begin();
        }
        let weight = self.slots[id].weight;
        let class = self.class_of(weight);
        self.slots[id] = Client { credit: 0, weight, class, awake: true, in_ring: false };
        self.share_among(self.weight + u64::from(weight));
        self.on_head(now, id, head);
    }

    #[inline]
    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        if !self.slots[id].in_ring {
            self.join(id);
        }
        self.slots.offer(id);
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.slots.block(id);
        self.leave(id);
        let client = &mut self.slots[id];
        client.awake = false;
        let weight = client.weight;
        self.share_among(self.weight - u64::from(weight));
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.slots.forgive(id);
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let Client { weight: old, class, awake, in_ring, .. } = self.slots[id];
        let (from, to) = (u64::from(old), u64::from(weight.get()));
        self.reserved = self.reserved.map(|reserved| reserved - from + to);
        let new = self.class_of(weight.get());
        if awake && new != class {
            self.leave(id);
            self.slots[id].class = new;
            self.slots[id].credit = 0;
        }
        self.slots[id].weight = weight.get();
        if awake {
            self.share_among(self.weight - from + to);
        }
        if in_ring && new != class {
            self.join(id);
        }
    }
}

impl GivesSlots for Strr {
    type Client = Client;

    #[inline]
    fn slots(&mut self) -> &mut Slots<Client> {
        &mut self.slots
    }

    fn give(&mut self) {
        loop {
            let class = self.next_class();
            let id = self.rings.front(class).expect("a class with visits left has clients");
            if self.slots.is_able(id) {
                return self.visit(class, id);
            }
            self.leave(id);
        }
    }
}

impl Strr {
    /// Returns the class with the shortest interval that has visits left: in this slot, or else
    /// when the next interval begins.
    #[inline]
    fn next_class(&mut self) -> ClassId {
        if !self.entered {
            self.enter();
        }
        while self.pending == 0 {
            let interval = self.interval(ClassId::from_index(self.filled.trailing_zeros() as usize));
            self.slot = ((self.slot >> interval) + 1) << interval;
            self.enter();
        }
        ClassId::from_index(self.pending.trailing_zeros() as usize)
    }

    /// Begins the intervals that begin with this slot.
    #[inline]
    fn enter(&mut self) {
        self.entered = true;
        let last = (self.slot.trailing_zeros() as i32 - self.doublings + 32).clamp(-1, 127);
        // All classes whose intervals are no longer than that.
        let mut beginning = if last < 0 { 0 } else { self.filled & (u128::MAX >> (127 - last)) };
        self.pending |= beginning;
        while beginning != 0 {
            steps::taken(1);
            let class = &mut self.classes[beginning.trailing_zeros() as usize];
            class.visits = class.clients;
            beginning &= beginning - 1;
        }
    }

    /// Returns the base-2 logarithm of the number of slots in an interval of this class.
    #[inline]
    fn interval(&self, class: ClassId) -> u32 {
        (class.doublings() + self.doublings) as u32
    }

    /// Visits the first client of the ring of this class, and moves on to the next slot.
    #[inline]
    fn visit(&mut self, class: ClassId, id: ClientId) {
        self.rings.rotate(class);
        let state = &mut self.classes[class.index()];
        state.visits -= 1;
        if state.visits == 0 {
            self.pending &= !(1 << class.index());
        }
        self.slot = self.slot.wrapping_add(1);
        self.entered = false;
        let (worth, whole) = self.visit_worth(id);
        let credit = self.slots[id].credit + worth;
        let quanta = if credit >= 2 * whole { 2 } else { 1 };
        self.slots[id].credit = credit - quanta * whole;
        self.slots.grant(id, quanta as u32);
    }

    /// Returns the worth of a visit to this client, from one quantum to less than two, as a
    /// numerator and a denominator in quanta.
    #[inline]
    fn visit_worth(&self, id: ClientId) -> (u64, u64) {
        let client = &self.slots[id];
        let (weight, doublings) = (u64::from(client.weight), client.class.doublings());
        if doublings >= 0 { (weight << doublings, self.base) } else { (weight, self.base << -doublings) }
    }

    /// Returns the class of this weight.
    fn class_of(&self, weight: u32) -> ClassId {
        ClassId::of(doublings(weight.into(), self.base))
    }

    /// Starts again with the first slot, while all clients are idle.
    fn begin(&mut self) {
        if let Some(reserved) = self.reserved {
            self.base = reserved.min(CAPACITY_MAX);
        }
        (self.slot, self.entered, self.doublings) = (0, false, 0);
    }

    /// Adds a client to the ring of its class; it counts from the next interval on.
    fn join(&mut self, id: ClientId) {
        self.slots[id].in_ring = true;
        let class = self.slots[id].class;
        self.rings.push_back(class, id);
        self.classes[class.index()].clients += 1;
        self.filled |= 1 << class.index();
    }

    /// Removes a client from the ring of its class, if it is there.
    fn leave(&mut self, id: ClientId) {
        let client = &mut self.slots[id];
        if !client.in_ring {
            return;
        }
        client.in_ring = false;
        let index = client.class.index();
        self.rings.remove(client.class, id);
        let class = &mut self.classes[index];
        class.clients -= 1;
        class.visits = class.visits.min(class.clients);
        let bit = 1 << index;
        if class.clients == 0 {
            self.filled &= !bit;
        }
        if class.visits == 0 {
            self.pending &= !bit;
        }
    }

    /// Adapts the capacity to the sum of the weights: at least this sum, and less than twice that.
    fn share_among(&mut self, weight: u64) {
        self.weight = weight;
        if weight == 0 {
            return;
        }
        let doublings = doublings(self.base, weight);
        let more = doublings - self.doublings;
        // The same part of every interval is over.
        self.slot = if more >= 0 {
            self.slot.checked_shl(more as u32).unwrap_or(0)
        } else {
            self.slot.checked_shr(more.unsigned_abs()).unwrap_or(0)
        };
        self.doublings = doublings;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, Desk, V, random_weights, sequence, unit_errors, unit_sequence, v_work};
    use crate::testing::config;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    const STRR: StrrParams = StrrParams { quantum: Auto::Auto, capacity: Auto::Auto };

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Strr>(&STRR, &A, 24), "121312112213121121331221");
        let b = "121314151213161121314151213161121314415512131661";
        assert_eq!(unit_sequence::<Strr>(&STRR, &B, 48), b);
        assert_eq!(sequence::<Strr>(&STRR, &V, 14, 10, v_work), "11222113112211");
    }

    /// PROPORTIONAL_SHARE section 1, multiplied by the sum of the weights.
    #[test]
    fn errors_of_the_specification() {
        assert_eq!(unit_errors::<Strr>(&STRR, &B, 24), (-26, 24));
        assert_eq!(unit_errors::<Strr>(&STRR, &B, 48), (-42, 36));
    }

    /// PROPORTIONAL_SHARE section 2.11: one client with half the capacity, and many tiny ones,
    /// which leave slots free.
    #[test]
    fn a_heavy_client_among_tiny_ones() {
        for (clients, slots, error, run) in [(8, 14, -6.274, 122), (10, 18, -8.689, 504)] {
            let capacity = 1u32 << clients;
            let weights: Vec<u32> = (0..clients).map(|client| if client == 0 { capacity / 2 } else { 1 }).collect();
            let params = StrrParams { capacity: Auto::Given(capacity.into()), ..STRR };
            let served = unit_sequence::<Strr>(&params, &weights, slots + run + 1);
            let heavy = served[..slots].matches('1').count() as f64;
            let total: u32 = weights.iter().sum();
            let share = slots as f64 * f64::from(weights[0]) / f64::from(total);
            assert!((heavy - share - error).abs() < 5e-4, "{} at {slots}", heavy - share);
            assert_eq!(served[slots..].trim_start_matches('1').len(), 1, "{served}");
        }
    }

    #[test]
    fn doublings_are_the_least() {
        for (from, to, expected) in
            [(1, 1, 0), (1, 2, 1), (3, 4, 1), (3, 6, 1), (3, 7, 2), (4, 3, 0), (4, 2, -1), (5, 2, -1)]
        {
            assert_eq!(doublings(from, to), expected, "{from} to {to}");
        }
    }

    #[test]
    fn quanta_are_the_part_of_the_slots_rounded_down() {
        for weights in random_weights("strr", 200, 12, 60) {
            let mut desk = Desk::<Strr>::new(&STRR, &weights);
            desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
            let mut given = alloc::vec![0; weights.len()];
            let mut checked = 0;
            for _ in 0..4000 {
                given[desk.step().0.index()] += 1;
                let policy = desk.policy();
                let served = (0..weights.len()).all(|id| !policy.slots.is_holder(ClientId::from_index(id)));
                for (at, &given) in given.iter().enumerate() {
                    let id = ClientId::from_index(at);
                    let class = policy.slots[id].class;
                    let interval = policy.interval(class);
                    // Only the next pick passes over slots that are free at the end of an interval.
                    let is_over = policy.classes[class.index()].visits == 0;
                    if served && is_over && !policy.entered {
                        let (worth, whole) = policy.visit_worth(id);
                        let intervals = ((policy.slot - 1) >> interval) + 1;
                        assert_eq!(given, intervals * worth / whole, "{weights:?}");
                        checked += 1;
                    }
                }
            }
            assert!(checked > 0, "{weights:?}");
        }
    }

    /// The weights rise from half the capacity to all of it and beyond: the other clients stay in
    /// their classes.
    #[test]
    fn the_capacity_follows_the_weights() {
        let mut desk = Desk::<Strr>::new(&STRR, &[4, 2, 1, 1]);
        desk.wake(&[2, 3, 4]);
        assert_eq!(desk.policy().doublings, -1);
        assert_eq!(desk.serve(8), "23242324");
        desk.wake(&[1]);
        assert_eq!(desk.policy().doublings, 0);
        let served = desk.serve(16);
        assert_eq!(['1', '2', '3', '4'].map(|client| served.matches(client).count()), [8, 4, 2, 2]);
        desk.set_weight(1, 12);
        assert_eq!(desk.policy().doublings, 1);
        let served = desk.serve(64);
        assert_eq!(['1', '2', '3', '4'].map(|client| served.matches(client).count()), [48, 8, 4, 4]);
    }

    #[test]
    fn a_capacity_without_measure_is_refused() {
        let params = StrrParams { capacity: Auto::Given(u64::MAX), ..STRR };
        let error = Strr::new(&params, &config(1, 1, &[])).unwrap_err().to_string();
        assert_eq!(error, "strr: `capacity` must be at most 2^61, not 18446744073709551615");
    }
}
