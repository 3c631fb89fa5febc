//! The flow table: a bounded number of flows, each with a dense id. The id is reused after the flow has ended.
//!
//! All memory is allocated when the table is created: [`FlowTable::STATE_BYTES`] per flow. A flow ends when it
//! has had no packets in flight for the timeout, if there is one. If the table is full and a new flow needs a
//! place, the flow that has had no packets in flight for the longest time ends. Every operation is O(1); there
//! is no periodic cleanup.

mod heaviest;
mod index;
mod known;
mod lookup_hash;

pub use heaviest::Heaviest;

use core::fmt::Debug;
use core::hint::black_box;

use humpyard_core::id::{FlowId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use self::index::Index;
use self::known::KnownFlows;
pub(crate) use self::lookup_hash::LookupHash;
use crate::error::TrafficError;
use crate::hash_fields::HashFields;
use crate::header::{FlowKey, KeyHasher, Network, SteeringHashes};
use crate::source::Numbered;

/// The end of a list.
const NONE: u32 = u32::MAX;
/// In the field of a neighbour: the flow is in no list, because it is held.
const HELD: u32 = u32::MAX - 1;

/// The result of a lookup in a flow table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Lookup {
    /// The id of the flow.
    pub flow: FlowId,
    /// Whether the flow is new.
    pub new: bool,
    /// A flow that ended to make room. The new flow now has its id.
    pub ended: Option<FlowId>,
}

/// A listener to new flows: it gets the id of every flow before any other use of the id.
pub trait FlowNames: Debug + Send + Sync {
    /// Reports that this id now names this flow. The flow that had the id before has ended, and has no packet
    /// in flight.
    fn on_flow(&self, flow: FlowId, key: &FlowKey);
}

/// A bounded table of flows.
#[derive(Clone, Debug)]
pub struct FlowTable {
    hasher: KeyHasher,
    lookup: LookupHash,
    index: Index,
    known: KnownFlows,
    flows: Vec<Flow>,
    capacity: usize,
    /// Flows without holds: `oldest` was used least recently, `newest` most recently.
    oldest: u32,
    newest: u32,
    /// Free ids, as a list: each has the next one in its field `newer`.
    free: u32,
    timeout: Option<Time>,
    /// The latest time reported.
    now: Time,
    clock: Stamp,
    live: usize,
    seen: u64,
    evicted: u64,
    expired: u64,
    /// The flow that ended last.
    ended: FlowKey,
    what: &'static str,
}

/// A flow: one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Flow {
    /// The key, as [`Packed`] but without padding.
    addresses: [u64; 4],
    ports: [u16; 2],
    network: u8,
    protocol: u8,
    /// Neighbours in the list of flows without holds. For a held flow, `newer` is `HELD` and `older` the number
    /// of holds.
    older: u32,
    newer: u32,
    rss: u32,
    steering_key: u64,
    /// The time since which it has had no holds.
    idle_since: Stamp,
}

impl Flow {
    #[inline]
    fn key(&self) -> Packed {
        Packed { addresses: self.addresses, ports: self.ports, network: self.network, protocol: self.protocol }
    }
}

/// A flow key, packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Packed {
    addresses: [u64; 4],
    /// The ports; for packets that are not IP, the link type and the Ethernet type.
    ports: [u16; 2],
    network: u8,
    protocol: u8,
}

impl Packed {
    /// The network of an id that names no flow.
    const FREE: u8 = 0;
    const IPV4: u8 = 4;
    const IPV6: u8 = 6;
    const OTHER: u8 = 1;

    #[inline]
    fn of(key: &FlowKey) -> Self {
        let word = |bytes: &[u8; 16], at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let (network, ports) = match key.network {
            Network::Ipv4 => (Self::IPV4, [key.source_port, key.destination_port]),
            Network::Ipv6 => (Self::IPV6, [key.source_port, key.destination_port]),
            Network::Other { link, ether_type } => (Self::OTHER, [link, ether_type]),
        };
        let (source, destination) = (&key.source, &key.destination);
        let addresses = [word(source, 0), word(source, 8), word(destination, 0), word(destination, 8)];
        Self { addresses, ports, network, protocol: key.protocol }
    }

    fn unpack(&self) -> FlowKey {
        let address = |high: u64, low: u64| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&high.to_le_bytes());
            bytes[8..].copy_from_slice(&low.to_le_bytes());
            bytes
        };
        let [a, b, c, d] = self.addresses;
        let [first, second] = self.ports;
        let (network, source_port, destination_port) = match self.network {
            Self::IPV4 => (Network::Ipv4, first, second),
            Self::IPV6 => (Network::Ipv6, first, second),
            _ => (Network::Other { link: first, ether_type: second }, 0, 0),
        };
        let (source, destination) = (address(a, b), address(c, d));
        FlowKey { network, protocol: self.protocol, source, destination, source_port, destination_port }
    }
}

/// A time in ns modulo 2^48. That suffices, because flows older than the timeout end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stamp([u16; 3]);

impl Stamp {
    /// The modulus.
    const ROUND: u64 = 1 << 48;

    const fn of(ns: u64) -> Self {
        Self([ns as u16, (ns >> 16) as u16, (ns >> 32) as u16])
    }

    const fn ns(self) -> u64 {
        let [low, middle, high] = self.0;
        low as u64 | (middle as u64) << 16 | (high as u64) << 32
    }

    /// Returns the time from an earlier stamp to this one.
    const fn since(self, earlier: Self) -> u64 {
        self.ns().wrapping_sub(earlier.ns()) % Self::ROUND
    }
}

impl FlowTable {
    /// Most flows of a table.
    pub const CAPACITY_MAX: usize = 1 << 28;
    /// Memory per possible flow, in bytes: its state, and its part of the index.
    pub const STATE_BYTES: usize = size_of::<Flow>() + Index::BYTES;
    /// Most keys of one prefetch.
    pub(crate) const LOOK_AHEAD: usize = 32;
    /// The longest timeout: a day.
    pub const TIMEOUT_MAX: Time = Time::from_ns(86_400 * 1_000_000_000);

    /// Returns a table for up to `capacity` flows, whose hashes have a key from the seed.
    ///
    /// # Errors
    /// If the capacity is 0 or above [`Self::CAPACITY_MAX`].
    pub fn new(capacity: usize, seed: Seed) -> Result<Self, TrafficError> {
        Self::of("flows", capacity, seed)
    }

    /// Returns a table of `what`, for messages.
    pub(crate) fn of(what: &'static str, capacity: usize, seed: Seed) -> Result<Self, TrafficError> {
        if !(1..=Self::CAPACITY_MAX).contains(&capacity) {
            let most = Self::CAPACITY_MAX;
            return Err(TrafficError::usage(format!(
                "a table for {capacity} {what} cannot be made: the limit of {what} is a number from 1 to {most}"
            )));
        }
        Ok(Self {
            hasher: KeyHasher::new(seed),
            lookup: LookupHash::new(seed),
            index: Index::new(capacity),
            known: KnownFlows::default(),
            flows: Vec::with_capacity(capacity),
            capacity,
            oldest: NONE,
            newest: NONE,
            free: NONE,
            timeout: None,
            now: Time::ZERO,
            clock: Stamp::default(),
            live: 0,
            seen: 0,
            evicted: 0,
            expired: 0,
            ended: FlowKey::default(),
            what,
        })
    }

    /// Sets an idle timeout for flows without packets in flight: see [`Self::next_expired`].
    ///
    /// # Errors
    /// If it is 0 or above [`Self::TIMEOUT_MAX`].
    pub fn with_timeout(mut self, timeout: Option<Time>) -> Result<Self, TrafficError> {
        if timeout.is_some_and(|timeout| timeout == Time::ZERO || timeout > Self::TIMEOUT_MAX) {
            return Err(TrafficError::usage("the timeout of flows is a time above 0, of a day at most"));
        }
        self.timeout = timeout;
        Ok(self)
    }

    /// Sets what the hashes for steering are computed from: see [`Self::steering`].
    #[must_use]
    pub fn with_hash_fields(mut self, fields: HashFields) -> Self {
        self.hasher = self.hasher.with_fields(fields);
        self
    }

    /// Returns whether flows have an idle timeout.
    #[inline]
    pub(crate) fn has_timeout(&self) -> bool {
        self.timeout.is_some()
    }

    /// Finds or creates the flow of a key, and takes one hold on it.
    ///
    /// A held flow does not end; release each hold with [`Self::release`].
    ///
    /// # Errors
    /// If the flow is new, the table is full, and every flow in it is held.
    #[inline]
    pub fn classify(&mut self, key: &FlowKey) -> Result<Lookup, TrafficError> {
        self.classify_noting(key, |_, _| ())
    }

    /// Finds the flow of a key with this hash by [`Self::lookup_hash`], and takes one hold on it. `None`: it is
    /// not known.
    #[inline(always)]
    pub(crate) fn find_hashed(&mut self, key: &FlowKey, hash: u32) -> Option<FlowId> {
        let packed = Packed::of(key);
        let at = self.index.find(hash, |at| self.flows[at as usize].key() == packed)?;
        self.hold(at);
        Some(FlowId(at))
    }

    /// Creates the flow of a key with this hash, which must not be known, and takes one hold on it.
    ///
    /// # Errors
    /// Those of [`Self::classify`].
    pub(crate) fn insert_hashed(&mut self, key: &FlowKey, hash: u32) -> Result<Lookup, TrafficError> {
        self.insert(key, hash, |_, _| ())
    }

    /// Finds the live flow with this number of the source, and takes one hold on it. Returns the common fields
    /// of its packets.
    #[inline(always)]
    pub(crate) fn find_numbered(&mut self, number: u64) -> Option<Packet> {
        let packet = self.known.find(number)?;
        self.hold(packet.flow.0);
        Some(packet)
    }

    /// Gives the live flow of this packet this number of the source, while it lives. Its packets must equal
    /// this one, except for their lengths and whether they change the connection.
    pub(crate) fn set_number(&mut self, number: u64, packet: &Packet) {
        self.known.add(number, packet, self.capacity);
    }

    /// Returns the hash by which keys are found.
    pub(crate) const fn lookup_hash(&self) -> &LookupHash {
        &self.lookup
    }

    /// Like [`Self::classify`]; calls `note` for a flow that ends, with its key.
    #[inline]
    pub(crate) fn classify_noting(
        &mut self,
        key: &FlowKey,
        note: impl FnOnce(FlowId, &FlowKey),
    ) -> Result<Lookup, TrafficError> {
        let hash = self.lookup.of_key(key);
        match self.find_hashed(key, hash) {
            Some(flow) => Ok(Lookup { flow, new: false, ended: None }),
            None => self.insert(key, hash, note),
        }
    }

    /// Prefetches the flows of these keys, all at once, which takes hardly longer than for one. In a table
    /// larger than the processor's caches, most of a lookup's time is spent waiting for memory. Changes
    /// nothing.
    pub fn look_ahead(&self, keys: &[FlowKey]) {
        for keys in keys.chunks(Self::LOOK_AHEAD) {
            let mut hashes = [0; Self::LOOK_AHEAD];
            hashes.iter_mut().zip(keys).for_each(|(hash, key)| *hash = self.lookup.of_key(key));
            self.look_ahead_hashed(&hashes[..keys.len()]);
        }
    }

    /// Like [`Self::look_ahead`], for at most [`Self::LOOK_AHEAD`] keys with these hashes.
    pub(crate) fn look_ahead_hashed(&self, hashes: &[u32]) {
        let mut flows = [NONE; Self::LOOK_AHEAD];
        for (flow, &hash) in flows.iter_mut().zip(hashes) {
            *flow = self.index.at_home(hash).unwrap_or(NONE);
        }
        self.bring_near(&flows);
    }

    /// Like [`Self::look_ahead`], for flows with these numbers of the source.
    pub(crate) fn look_ahead_numbered(&self, packets: &[Numbered]) {
        for packets in packets.chunks(Self::LOOK_AHEAD) {
            let mut flows = [NONE; Self::LOOK_AHEAD];
            for (flow, packet) in flows.iter_mut().zip(packets) {
                *flow = self.known.find_flow(packet.flow).unwrap_or(NONE);
            }
            self.bring_near(&flows);
        }
    }

    /// Prefetches these flows, and their neighbours in the list, which change with them.
    fn bring_near(&self, flows: &[u32; Self::LOOK_AHEAD]) {
        let mut neighbours = [(NONE, NONE); Self::LOOK_AHEAD];
        for (pair, &at) in neighbours.iter_mut().zip(flows) {
            *pair = self.flows.get(at as usize).map_or((NONE, NONE), |flow| (flow.older, flow.newer));
        }
        for (older, newer) in neighbours {
            black_box(self.flows.get(older as usize).map(|flow| flow.network));
            black_box(self.flows.get(newer as usize).map(|flow| flow.network));
        }
    }

    /// Takes one more hold on a known flow. Its packet must have been classified, and no other classified since
    /// its release.
    #[inline]
    pub(crate) fn hold_again(&mut self, flow: FlowId) {
        self.hold(flow.0);
    }

    /// Releases one hold on a flow.
    ///
    /// # Panics
    /// If the flow is not held.
    #[inline]
    pub fn release(&mut self, flow: FlowId) {
        let held = &mut self.flows[flow.index()];
        assert!(held.newer == HELD, "flow {flow} is released more often than it was classified");
        held.older -= 1;
        if held.older == 0 {
            self.append(flow.0);
        }
    }

    /// Ends a flow that has had no holds for the timeout at this time, and returns its id and its key. `None`:
    /// there is no such flow. The flow idle for the longest time ends first. Call it before every packet, until
    /// it returns `None`. O(1) for each flow that ends.
    ///
    /// The times must never go back; only this function uses them.
    #[inline]
    pub fn next_expired(&mut self, now: Time) -> Option<(FlowId, FlowKey)> {
        let timeout = self.timeout?;
        if now > self.now {
            // A longer step has the same effect: no idle flow survives it.
            let step = now.since(self.now).as_ns().min(Stamp::ROUND / 2);
            self.clock = Stamp::of(self.clock.ns().wrapping_add(step));
            self.now = now;
        }
        let oldest = self.oldest;
        if oldest == NONE || self.clock.since(self.flows[oldest as usize].idle_since) < timeout.as_ns() {
            return None;
        }
        self.expired += 1;
        let flow = FlowId(oldest);
        let key = self.key(flow);
        self.ended = key;
        self.end(flow);
        Some((flow, key))
    }

    /// Ends a flow without holds, and frees its id.
    pub(crate) fn end(&mut self, flow: FlowId) {
        self.remove(flow.0);
        self.live -= 1;
        let ended = &mut self.flows[flow.index()];
        ended.network = Packed::FREE;
        ended.newer = core::mem::replace(&mut self.free, flow.0);
    }

    /// Returns whether the flow has no packet in flight.
    pub(crate) fn is_idle(&self, flow: FlowId) -> bool {
        self.flows[flow.index()].newer != HELD
    }

    /// Returns the key of a flow.
    ///
    /// # Panics
    /// If the id was never used.
    pub fn key(&self, flow: FlowId) -> FlowKey {
        self.flows[flow.index()].key().unpack()
    }

    /// Returns the key of the flow that ended last, by its timeout or by eviction.
    pub fn last_ended(&self) -> &FlowKey {
        &self.ended
    }

    /// Returns the hashes for steering the packets of a flow, computed when the flow was created.
    ///
    /// # Panics
    /// If the id was never used.
    #[inline]
    pub fn steering(&self, flow: FlowId) -> SteeringHashes {
        let flow = &self.flows[flow.index()];
        SteeringHashes { key: flow.steering_key, rss: flow.rss }
    }

    /// Returns the live flows.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, FlowKey)> {
        let live = self.flows.iter().enumerate().filter(|(_, flow)| flow.network != Packed::FREE);
        live.map(|(index, flow)| (FlowId::from_index(index), flow.key().unpack()))
    }

    /// Returns the most flows of the table; ids are below this.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of live flows.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Returns whether there is no live flow.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns the number of flows up to now; a flow that comes back after its end counts again.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the number of flows that ended to make room.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the number of flows that ended by the timeout.
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Returns the places of the index read to find a flow: the mean over live flows, and the most.
    /// O(capacity).
    pub fn probes(&self) -> (f64, usize) {
        self.index.probes()
    }

    #[cold]
    fn insert(
        &mut self,
        key: &FlowKey,
        hash: u32,
        note: impl FnOnce(FlowId, &FlowKey),
    ) -> Result<Lookup, TrafficError> {
        let SteeringHashes { key: steering_key, rss } = self.hasher.steering(key);
        let Packed { addresses, ports, network, protocol } = Packed::of(key);
        let idle_since = self.clock;
        let flow = Flow { addresses, ports, network, protocol, older: 1, newer: HELD, rss, steering_key, idle_since };
        let (at, ended) = if self.free != NONE {
            let at = self.free;
            self.free = self.flows[at as usize].newer;
            self.flows[at as usize] = flow;
            (at, None)
        } else if self.flows.len() < self.capacity {
            self.flows.push(flow);
            ((self.flows.len() - 1) as u32, None)
        } else {
            let at = self.oldest;
            if at == NONE {
                return Err(TrafficError::full(self.what, self.capacity));
            }
            self.ended = self.key(FlowId(at));
            note(FlowId(at), &self.ended);
            self.remove(at);
            self.live -= 1;
            self.evicted += 1;
            self.flows[at as usize] = flow;
            (at, Some(FlowId(at)))
        };
        self.index.insert(hash, at);
        self.live += 1;
        self.seen += 1;
        Ok(Lookup { flow: FlowId(at), new: true, ended })
    }

    /// Removes a flow without holds from list and index.
    fn remove(&mut self, at: u32) {
        self.known.remove(FlowId(at));
        self.unlink(at);
        let hash = self.lookup.of(&self.flows[at as usize].key());
        self.index.remove(hash, at);
    }

    /// Takes one more hold on the flow at this place.
    #[inline]
    fn hold(&mut self, at: u32) {
        let flow = &mut self.flows[at as usize];
        let (older, newer) = (flow.older, flow.newer);
        if newer == HELD {
            flow.older = older + 1;
            return;
        }
        (flow.older, flow.newer) = (1, HELD);
        self.join(older, newer);
    }

    /// Appends a flow without holds to the list, as the most recently used.
    #[inline]
    fn append(&mut self, at: u32) {
        let newest = core::mem::replace(&mut self.newest, at);
        let flow = &mut self.flows[at as usize];
        flow.older = newest;
        flow.newer = NONE;
        flow.idle_since = self.clock;
        match newest {
            NONE => self.oldest = at,
            newest => self.flows[newest as usize].newer = at,
        }
    }

    /// Removes a flow from the list.
    fn unlink(&mut self, at: u32) {
        let Flow { older, newer, .. } = self.flows[at as usize];
        self.join(older, newer);
    }

    /// Links two flows of the list after the one between them was removed.
    #[inline]
    fn join(&mut self, older: u32, newer: u32) {
        match older {
            NONE => self.oldest = newer,
            older => self.flows[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.flows[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::error::ErrorKind;
    use crate::header::Network;

    fn key(n: u64) -> FlowKey {
        let mut source = [0; 16];
        source[..4].copy_from_slice(&(n as u32).to_be_bytes());
        FlowKey {
            network: Network::Ipv4,
            protocol: 17,
            source,
            destination: [0; 16],
            source_port: 1,
            destination_port: 2,
        }
    }

    #[test]
    fn ids_are_dense_and_stable() {
        let mut table = FlowTable::new(4, Seed(1)).unwrap();
        for round in 0..3 {
            for n in 0..4 {
                let found = table.classify(&key(n)).unwrap();
                assert_eq!(found, Lookup { flow: FlowId(n as u32), new: round == 0, ended: None });
                table.release(found.flow);
            }
        }
        assert_eq!((table.len(), table.seen(), table.evicted()), (4, 4, 0));
    }

    #[test]
    fn the_least_recently_used_flow_without_holds_ends() {
        let mut table = FlowTable::new(3, Seed(1)).unwrap();
        for n in 0..3 {
            table.classify(&key(n)).unwrap();
        }
        assert_eq!(table.classify(&key(9)).unwrap_err().kind(), ErrorKind::Full);
        table.release(FlowId(2));
        table.release(FlowId(1));
        let found = table.classify(&key(9)).unwrap();
        assert_eq!(found, Lookup { flow: FlowId(2), new: true, ended: Some(FlowId(2)) });
        assert_eq!((table.key(FlowId(2)), *table.last_ended()), (key(9), key(2)));
        let back = table.classify(&key(2)).unwrap();
        assert_eq!(back, Lookup { flow: FlowId(1), new: true, ended: Some(FlowId(1)) });
        assert_eq!((table.seen(), table.evicted()), (5, 2));
    }

    #[test]
    fn looking_ahead_changes_nothing() {
        let mut table = FlowTable::new(200, Seed(1)).unwrap();
        for round in 0..3 {
            let keys: Vec<FlowKey> = (0..50).map(|n| key(n + 30 * round)).collect();
            let before = format!("{table:?}");
            table.look_ahead(&keys);
            assert_eq!(format!("{table:?}"), before);
            keys.iter().for_each(|key| {
                table.classify(key).unwrap();
            });
        }
    }

    #[test]
    fn a_limit_of_none_is_refused() {
        assert_eq!(FlowTable::new(0, Seed(1)).err().unwrap().kind(), ErrorKind::Usage);
    }

    #[test]
    #[should_panic(expected = "more often")]
    fn a_hold_is_given_back_once() {
        let mut table = FlowTable::new(1, Seed(1)).unwrap();
        let flow = table.classify(&key(1)).unwrap().flow;
        table.release(flow);
        table.release(flow);
    }

    #[test]
    fn it_agrees_with_a_naive_table_and_never_grows() {
        const CAPACITY: usize = 50;
        let mut table = FlowTable::new(CAPACITY, Seed(1)).unwrap();
        // The front was used least recently. Each entry has its key, its id and its holds.
        let mut naive: VecDeque<(u64, FlowId, u32)> = VecDeque::new();
        let mut random = Seed(7).stream("test");
        for _ in 0..200_000 {
            if random.below(2) == 0 {
                let n = random.below(120);
                let known = naive.iter().position(|flow| flow.0 == n);
                let victim = naive.iter().position(|flow| flow.2 == 0);
                let full = naive.len() == CAPACITY;
                match (known, table.classify(&key(n))) {
                    (Some(at), Ok(found)) => {
                        assert_eq!(found, Lookup { flow: naive[at].1, new: false, ended: None });
                        naive[at].2 += 1;
                    }
                    (None, Ok(found)) => {
                        assert!(found.new);
                        let ended = victim.filter(|_| full).and_then(|at| naive.remove(at));
                        assert_eq!(found.ended, ended.map(|flow| flow.1));
                        assert_eq!(found.ended.is_some(), full);
                        naive.push_back((n, found.flow, 1));
                    }
                    (None, Err(_)) => assert!(full && victim.is_none()),
                    (Some(_), Err(error)) => panic!("{error}"),
                }
            } else if let Some(at) = (!naive.is_empty()).then(|| random.below(naive.len() as u64) as usize)
                && naive[at].2 > 0
            {
                table.release(naive[at].1);
                naive[at].2 -= 1;
                if naive[at].2 == 0 {
                    let flow = naive.remove(at).unwrap();
                    naive.push_back(flow);
                }
            }
        }
        assert!(table.evicted() > 1_000, "{}", table.evicted());
        assert_eq!(table.flows.capacity(), CAPACITY);
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a figure that people ask for")]
    fn ten_million_flows_take_eighty_bytes_each() {
        assert_eq!(FlowTable::STATE_BYTES, 80);
        let mut table = FlowTable::new(1_000, Seed(1)).unwrap();
        for n in 0..5_000 {
            let flow = table.classify(&key(n)).unwrap().flow;
            table.release(flow);
        }
        let bytes = table.flows.capacity() * size_of::<Flow>() + size_of_val(&table.index) + 1_000 * Index::BYTES;
        assert!(bytes <= 1_000 * FlowTable::STATE_BYTES + 100, "{bytes}");
        println!("{} bytes for each flow, 10 million in {} MB", FlowTable::STATE_BYTES, 10 * FlowTable::STATE_BYTES);
    }

    #[test]
    fn keys_are_unpacked_as_they_were_packed() {
        let other = Network::Other { link: 300, ether_type: 0x0806 };
        for network in [Network::Ipv4, Network::Ipv6, other] {
            let ports = if network == other { (0, 0) } else { (5_000, 53) };
            let mut key = FlowKey { network, source_port: ports.0, destination_port: ports.1, ..key(77) };
            key.destination = core::array::from_fn(|i| i as u8);
            assert_eq!(Packed::of(&key).unpack(), key);
            assert_ne!(Packed::of(&key), Packed::of(&FlowKey { protocol: 6, ..key }));
        }
    }

    #[test]
    fn flows_end_when_they_are_idle_for_the_timeout() {
        let at = Time::from_ns;
        let mut table = FlowTable::new(8, Seed(1)).unwrap().with_timeout(Some(at(100))).unwrap();
        let packet = |table: &mut FlowTable, now: u64, n: u64| {
            let mut ended = Vec::new();
            while let Some((flow, key)) = table.next_expired(at(now)) {
                assert_eq!((table.steering(flow), *table.last_ended()), (table.hasher.steering(&key), key));
                ended.push(flow.0);
            }
            (ended, table.classify(&key(n)).unwrap().flow)
        };
        for (now, n) in [(0, 0), (10, 1), (20, 2)] {
            let (ended, flow) = packet(&mut table, now, n);
            assert_eq!((ended, flow), (vec![], FlowId(n as u32)));
            if n != 1 {
                table.release(flow);
            }
        }
        // 0 has been idle for the timeout; 1 is held.
        assert_eq!(packet(&mut table, 100, 3), (vec![0], FlowId(0)));
        assert_eq!(table.flows().map(|(flow, found)| (flow.0, found)).collect::<Vec<_>>()[0], (0, key(3)));
        table.release(FlowId(1));
        table.release(FlowId(0));
        assert_eq!(packet(&mut table, 199, 4), (vec![2], FlowId(2)), "a time that comes late counts late");
        assert_eq!(table.len(), 3);
        // A clock that goes back stands still; a jump forward ends all flows without holds.
        assert_eq!(packet(&mut table, 50, 4), (vec![], FlowId(2)));
        assert_eq!(packet(&mut table, u64::MAX, 5), (vec![1, 0], FlowId(0)));
        assert_eq!((table.len(), table.seen(), table.evicted(), table.expired()), (2, 6, 0, 4));
    }

    #[test]
    fn timeouts_agree_with_a_naive_table() {
        let at = Time::from_ns;
        let mut random = Seed(11).stream("test");
        let timeout = FlowTable::TIMEOUT_MAX.as_ns();
        let mut table = FlowTable::new(200, Seed(1)).unwrap().with_timeout(Some(at(timeout))).unwrap();
        let mut naive: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        let (mut now, mut expired) = (0, 0);
        for _ in 0..50_000 {
            // Steps from 0 to several times the range of a stamp.
            now += random.bits() >> (16 + random.below(40));
            let before = naive.len();
            naive.retain(|_, idle_since| now - *idle_since < timeout);
            expired += before - naive.len();
            while table.next_expired(at(now)).is_some() {}
            assert_eq!((table.len(), table.expired()), (naive.len(), expired as u64));
            let n = random.below(150);
            let found = table.classify(&key(n)).unwrap();
            assert_eq!(found.new, naive.insert(n, now).is_none());
            table.release(found.flow);
            if now > 1 << 62 {
                break;
            }
        }
        assert!(expired > 1_000, "{expired}");
    }

    #[test]
    fn a_timeout_is_above_zero_and_at_most_a_day() {
        for timeout in [0, FlowTable::TIMEOUT_MAX.as_ns() + 1] {
            let table = FlowTable::new(1, Seed(1)).unwrap().with_timeout(Some(Time::from_ns(timeout)));
            assert_eq!(table.err().unwrap().kind(), ErrorKind::Usage);
        }
    }

    /// Keys with consecutive words, like addresses and ports of scans, cluster no more than random ones. In a
    /// table with linear probing that is half full, a successful lookup reads 1.5 places on average (Knuth,
    /// volume 3, section 6.4).
    #[test]
    fn consecutive_keys_do_not_crowd() {
        const FLOWS: u64 = 20_000;
        let by_port = |n: u64| FlowKey { source_port: n as u16, ..key(n >> 16) };
        let by_high_bytes = |n: u64| key((n as u32).swap_bytes().into());
        let by_ipv6_interface = |n: u64| {
            let mut source = [0; 16];
            source[8..].copy_from_slice(&n.to_be_bytes());
            FlowKey { network: Network::Ipv6, source, ..key(0) }
        };
        let kinds: [&dyn Fn(u64) -> FlowKey; 4] = [&key, &by_port, &by_high_bytes, &by_ipv6_interface];
        for seed in 0..10 {
            for of in kinds {
                let mut table = FlowTable::new(FLOWS as usize, Seed(seed)).unwrap();
                (0..FLOWS).for_each(|n| assert!(table.classify(&of(n)).unwrap().new));
                let (mean, most) = table.probes();
                assert!(mean < 1.55 && most < 100, "{mean} {most}");
            }
        }
    }

    /// An attacker who knows the code but not the key can make flows collide in every unkeyed hash, but not
    /// here.
    #[test]
    fn hostile_keys_do_not_crowd() {
        const FLOWS: usize = 50_000;
        let capacity = 2 * FLOWS;
        let toeplitz = KeyHasher::new(Seed(0));
        let attack_key = |bits: u64| {
            let (source_port, destination_port) = ((bits >> 32) as u16, (bits >> 48) as u16);
            // The lower endpoint is the source.
            let destination = core::array::from_fn(|i| if i < 4 { 0xff } else { 0 });
            FlowKey { destination, source_port, destination_port, ..key(bits) }
        };
        let zero = toeplitz.steering(&attack_key(0)).rss;
        // The Toeplitz hash of network cards is linear: elimination finds values that can be added without
        // changing the hash.
        let mut basis: Vec<(u32, u64)> = Vec::new();
        let mut kernel: Vec<u64> = Vec::new();
        for bit in 0..64 {
            let (mut value, mut bits) = (toeplitz.steering(&attack_key(1 << bit)).rss ^ zero, 1u64 << bit);
            for &(known, of) in &basis {
                if value ^ known < value {
                    value ^= known;
                    bits ^= of;
                }
            }
            if value == 0 {
                kernel.push(bits);
            } else {
                basis.push((value, bits));
                basis.sort_unstable_by(|a, b| b.cmp(a));
            }
        }
        assert!(kernel.len() >= 17, "{}", kernel.len());
        let hostile = |n: usize| {
            let mix = kernel.iter().enumerate().filter(|(i, _)| n >> i & 1 == 1).fold(0, |sum, (_, bits)| sum ^ bits);
            attack_key(mix)
        };
        let mut table = FlowTable::new(capacity, Seed(9)).unwrap();
        for n in 0..FLOWS {
            let key = hostile(n);
            assert_eq!(toeplitz.steering(&key).rss, zero, "the attack works on a hash without a key");
            assert!(table.classify(&key).unwrap().new, "all are different");
        }
        let (mean, most) = table.probes();
        assert!(mean < 1.5 && most < 40, "{mean} {most}");
        // An attacker who knows the key can make flows collide: these have one home.
        let mut crowded = Index::new(1_000);
        (0..500).for_each(|flow| crowded.insert(7, flow));
        assert_eq!(crowded.probes().1, 500);
    }
}
