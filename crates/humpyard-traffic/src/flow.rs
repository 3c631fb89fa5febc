//! The flow table: a bounded number of flows, each with a dense id that is reused when the flow has ended.
//!
//! All memory is taken when the table is made. A flow ends when the table is full and a new one needs its place: the flow
//! goes that has been without packets under way for the longest time. Every operation is O(1).

use hashbrown::HashTable;
use humpyard_core::id::{FlowId, Id};
use humpyard_core::random::Seed;

use crate::error::TrafficError;
use crate::header::{FlowKey, KeyHasher, SteeringHashes};

/// No flow, in a list.
const NONE: u32 = u32::MAX;

/// What a flow table answers to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup {
    /// The id of the flow.
    pub flow: FlowId,
    /// Whether the flow is new.
    pub new: bool,
    /// A flow that ended to make room: it had this id, which now names the new one.
    pub ended: Option<FlowId>,
}

/// A bounded table of flows.
#[derive(Clone, Debug)]
pub struct FlowTable {
    hasher: KeyHasher,
    /// Indices of `flows`, found by the hash of their key.
    index: HashTable<u32>,
    flows: Vec<Flow>,
    capacity: usize,
    /// Flows without holds: `oldest` was used least recently, `newest` most recently.
    oldest: u32,
    newest: u32,
    seen: u64,
    evicted: u64,
    what: &'static str,
}

#[derive(Clone, Debug)]
struct Flow {
    hash: u64,
    steering: SteeringHashes,
    holds: u32,
    /// Neighbours in the list of flows without holds.
    older: u32,
    newer: u32,
    key: FlowKey,
}

impl FlowTable {
    /// The most flows a table can be made for.
    pub const CAPACITY_MAX: usize = 1 << 28;

    /// A table for up to `capacity` flows; their hashes are keyed by the seed.
    ///
    /// # Errors
    /// If the capacity is 0 or beyond [`Self::CAPACITY_MAX`].
    pub fn new(capacity: usize, seed: Seed) -> Result<Self, TrafficError> {
        Self::of("flows", capacity, seed)
    }

    /// A table of `what`, for messages.
    pub(crate) fn of(what: &'static str, capacity: usize, seed: Seed) -> Result<Self, TrafficError> {
        if !(1..=Self::CAPACITY_MAX).contains(&capacity) {
            let most = Self::CAPACITY_MAX;
            return Err(TrafficError::usage(format!(
                "a table for {capacity} {what} cannot be made: the limit of {what} is a number from 1 to {most}"
            )));
        }
        Ok(Self {
            hasher: KeyHasher::new(seed),
            // Twice what is needed: at half load the table cleans up after removals in place and never grows.
            index: HashTable::with_capacity(2 * capacity),
            flows: Vec::with_capacity(capacity),
            capacity,
            oldest: NONE,
            newest: NONE,
            seen: 0,
            evicted: 0,
            what,
        })
    }

    /// Finds the flow of a key, or makes it, and takes one hold on it.
    ///
    /// A flow with holds stays; give each back with [`Self::release`].
    ///
    /// # Errors
    /// If the flow is new, the table is full, and every flow in it is held.
    #[inline]
    pub fn classify(&mut self, key: &FlowKey) -> Result<Lookup, TrafficError> {
        self.classify_noting(key, |_, _| ())
    }

    /// As [`Self::classify`]; `note` hears of a flow that ends while its key is still known.
    #[inline]
    pub(crate) fn classify_noting(
        &mut self,
        key: &FlowKey,
        note: impl FnOnce(FlowId, &FlowKey),
    ) -> Result<Lookup, TrafficError> {
        let hash = self.hasher.flow(key);
        if let Some(&at) = self.index.find(hash, |&at| self.flows[at as usize].key == *key) {
            self.hold(at);
            return Ok(Lookup { flow: FlowId(at), new: false, ended: None });
        }
        self.insert(key, hash, note)
    }

    /// Gives back one hold on a flow.
    ///
    /// # Panics
    /// If the flow is not held.
    #[inline]
    pub fn release(&mut self, flow: FlowId) {
        let held = &mut self.flows[flow.index()];
        assert!(held.holds > 0, "flow {flow} is released more often than it was classified");
        held.holds -= 1;
        if held.holds == 0 {
            self.append(flow.0);
        }
    }

    /// The key of a flow.
    ///
    /// # Panics
    /// If the id was never given.
    pub fn key(&self, flow: FlowId) -> &FlowKey {
        &self.flows[flow.index()].key
    }

    /// The hashes by which the packets of a flow are steered, computed when the flow was made.
    ///
    /// # Panics
    /// If the id was never given.
    #[inline]
    pub fn steering(&self, flow: FlowId) -> SteeringHashes {
        self.flows[flow.index()].steering
    }

    /// The flows there are now.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, &FlowKey)> {
        self.flows.iter().enumerate().map(|(index, flow)| (FlowId::from_index(index), &flow.key))
    }

    /// How many flows there can be; ids are below this.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many flows there are now.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether no flow has been seen yet.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// How many flows there have been, counting one that came back after its end anew.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// How many flows were ended to make room.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    #[cold]
    fn insert(
        &mut self,
        key: &FlowKey,
        hash: u64,
        note: impl FnOnce(FlowId, &FlowKey),
    ) -> Result<Lookup, TrafficError> {
        let steering = self.hasher.steering(key);
        let flow = Flow { hash, steering, holds: 1, older: NONE, newer: NONE, key: *key };
        let (at, ended) = if self.flows.len() < self.capacity {
            self.flows.push(flow);
            ((self.flows.len() - 1) as u32, None)
        } else {
            let at = self.evict()?;
            note(FlowId(at), &self.flows[at as usize].key);
            self.flows[at as usize] = flow;
            (at, Some(FlowId(at)))
        };
        let flows = &self.flows;
        self.index.insert_unique(hash, at, |&at| flows[at as usize].hash);
        self.seen += 1;
        Ok(Lookup { flow: FlowId(at), new: true, ended })
    }

    /// Ends the flow that was used least recently, and answers its place.
    fn evict(&mut self) -> Result<u32, TrafficError> {
        let at = self.oldest;
        if at == NONE {
            return Err(TrafficError::full(self.what, self.capacity));
        }
        self.unlink(at);
        let hash = self.flows[at as usize].hash;
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == at) {
            entry.remove();
        }
        self.evicted += 1;
        Ok(at)
    }

    #[inline]
    fn hold(&mut self, at: u32) {
        if self.flows[at as usize].holds == 0 {
            self.unlink(at);
        }
        self.flows[at as usize].holds += 1;
    }

    /// Appends a flow without holds to the list, as the one used most recently.
    #[inline]
    fn append(&mut self, at: u32) {
        let newest = core::mem::replace(&mut self.newest, at);
        let flow = &mut self.flows[at as usize];
        flow.older = newest;
        flow.newer = NONE;
        match newest {
            NONE => self.oldest = at,
            newest => self.flows[newest as usize].newer = at,
        }
    }

    /// Takes a flow out of the list.
    #[inline]
    fn unlink(&mut self, at: u32) {
        let Flow { older, newer, .. } = self.flows[at as usize];
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
        assert_eq!(*table.key(FlowId(2)), key(9));
        let back = table.classify(&key(2)).unwrap();
        assert_eq!(back, Lookup { flow: FlowId(1), new: true, ended: Some(FlowId(1)) });
        assert_eq!((table.seen(), table.evicted()), (5, 2));
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
        let buckets = table.index.num_buckets();
        // Front: used least recently. Each has its key, its id and its holds.
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
        assert_eq!(table.index.num_buckets(), buckets);
        assert_eq!(table.flows.capacity(), CAPACITY);
    }
}
