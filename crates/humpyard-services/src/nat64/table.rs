//! The bindings and sessions of stateful translation (RFC 6146, section 3): a bounded table, whose parts have a
//! lock each.
//!
//! A binding joins the address and port of an IPv6 host to the address and port that represent it, for all its
//! peers. A session is a binding and a peer. It ends after its timeout without a packet; a binding ends with
//! its last session. Four bits of the port select a binding's part. They are the same on both sides, so one
//! part handles all packets of a binding, in both directions.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use humpyard_core::hash::mix;
use humpyard_core::unit::Time;

use super::kinds::{Kind, Protocol};
use super::tcp::{Segment, State};
use crate::service::DropReason;

/// Parts of the table: a power of two.
const PARTS: usize = 16;
/// The distance of ports of one part that are both even or both odd.
const STRIDE: usize = 2 * PARTS;
/// No slot.
const NONE: u32 = u32::MAX;

/// The IPv6 address and port of a host.
pub(super) type Inside = (Ipv6Addr, u16);
/// An address and port in IPv4.
pub(super) type Outside = (Ipv4Addr, u16);

/// Timeouts, by [`Kind`].
pub(super) type Lifetimes = [Time; Kind::COUNT];

/// The table's result for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found<T> {
    /// The new address and port.
    pub(super) place: T,
    /// Whether the packet created a binding.
    pub(super) new_binding: bool,
    /// Whether the packet created a session.
    pub(super) new_session: bool,
}

/// The constant parameters of a table.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// The addresses that represent hosts, in order.
    pub(super) pool: Box<[Ipv4Addr]>,
    /// The usable ports of these addresses.
    pub(super) ports: RangeInclusive<u16>,
    pub(super) lifetimes: Lifetimes,
    /// Whether only peers that the host has sent to may answer.
    pub(super) by_address: bool,
}

/// The table of bindings and sessions.
#[derive(Debug)]
pub(super) struct Table {
    rules: Rules,
    parts: [Mutex<Part>; PARTS],
}

impl Table {
    /// Returns a table for this many sessions, and as many bindings.
    pub(super) fn new(rules: Rules, sessions: usize) -> Self {
        let key = RandomState::new().build_hasher().finish();
        let entries = sessions.div_ceil(PARTS);
        Self { rules, parts: std::array::from_fn(|_| Mutex::new(Part::new(entries, key))) }
    }

    /// Returns whether an address represents hosts.
    #[inline]
    pub(super) fn has(&self, address: Ipv4Addr) -> bool {
        self.rules.pool.binary_search(&address).is_ok()
    }

    /// Locks the part of a port of either side. No code panics under the lock, and after a panic the part would
    /// still be consistent.
    #[inline]
    fn part(&self, port: u16) -> MutexGuard<'_, Part> {
        self.parts[usize::from(port >> 1) % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a packet from an IPv6 host. Returns the address and port that represent its source.
    pub(super) fn outbound(
        &self,
        now: Time,
        protocol: Protocol,
        inside: Inside,
        remote: Outside,
        segment: Segment,
    ) -> Result<Found<Outside>, DropReason> {
        let mut part = self.part(inside.1);
        part.expire(now, &self.rules.lifetimes);
        let known = part.by_inside(protocol, inside);
        if let Some(binding) = known
            && let Some(session) = part.session(binding, remote)
        {
            part.touch(session, true, segment);
            return Ok(part.found(binding, false, false));
        }
        let Some(state) = State::first(protocol, true, segment) else {
            // RFC 6146, section 3.5.2.2: a packet that does not open a connection may use a binding, but
            // creates none.
            return known.map(|binding| part.found(binding, false, false)).ok_or(DropReason::StartMissing);
        };
        if part.is_full() {
            return Err(DropReason::TableFull);
        }
        let binding = match known {
            Some(binding) => binding,
            None => part.bind(protocol, inside, &self.rules).ok_or(DropReason::PoolExhausted)?,
        };
        part.open(binding, remote, state);
        Ok(part.found(binding, known.is_none(), true))
    }

    /// Handles a packet to an address that represents an IPv6 host. Returns the host's address and port.
    pub(super) fn inbound(
        &self,
        now: Time,
        protocol: Protocol,
        outside: Outside,
        remote: Outside,
        segment: Segment,
    ) -> Result<Found<Inside>, DropReason> {
        let mut part = self.part(outside.1);
        part.expire(now, &self.rules.lifetimes);
        let binding = part.by_outside(protocol, outside).ok_or(DropReason::NoBinding)?;
        let place = part.bindings[binding].inside;
        if let Some(session) = part.session(binding, remote) {
            part.touch(session, false, segment);
            return Ok(Found { place, new_binding: false, new_session: false });
        }
        if self.rules.by_address && !part.knows(binding, remote.0) {
            return Err(DropReason::SenderUnknown);
        }
        let state = State::first(protocol, false, segment);
        if let Some(state) = state {
            if part.is_full() {
                return Err(DropReason::TableFull);
            }
            part.open(binding, remote, state);
        }
        Ok(Found { place, new_binding: false, new_session: state.is_some() })
    }

    /// Returns the address and port that represent a host in a session, without touching the session.
    pub(super) fn standing_for(
        &self,
        now: Time,
        protocol: Protocol,
        inside: Inside,
        remote: Outside,
    ) -> Option<Outside> {
        let mut part = self.part(inside.1);
        part.expire(now, &self.rules.lifetimes);
        let binding = part.by_inside(protocol, inside)?;
        part.session(binding, remote)?;
        Some(part.bindings[binding].outside)
    }

    /// Returns the host that an address and port represent in a session, without touching the session.
    pub(super) fn behind(&self, now: Time, protocol: Protocol, outside: Outside, remote: Outside) -> Option<Inside> {
        let mut part = self.part(outside.1);
        part.expire(now, &self.rules.lifetimes);
        let binding = part.by_outside(protocol, outside)?;
        part.session(binding, remote)?;
        Some(part.bindings[binding].inside)
    }
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    protocol: Protocol,
    inside: Inside,
    outside: Outside,
    /// The number of its sessions.
    sessions: u32,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    binding: usize,
    remote: Outside,
    state: State,
    /// The time of its last packet that restarted the timeout.
    touched: Time,
}

/// A part of the table. Slots have numbers from 0. All operations are O(1), except [`Part::expire`] and
/// [`Part::bind`]. The cost of `expire` counts toward the packets that created the sessions.
#[derive(Debug)]
struct Part {
    bindings: Box<[Binding]>,
    sessions: Box<[Session]>,
    free_bindings: Vec<u32>,
    free_sessions: Vec<u32>,
    inside: Chains,
    outside: Chains,
    /// Sessions, by binding and address of the peer.
    peers: Chains,
    waiting: Waiting,
    /// The latest time: the clocks of workers may differ a little.
    now: Time,
    /// The key of the hash, so that an attacker cannot choose the chains of entries.
    key: u64,
}

impl Part {
    fn new(entries: usize, key: u64) -> Self {
        let binding = Binding {
            protocol: Protocol::Tcp,
            inside: (Ipv6Addr::UNSPECIFIED, 0),
            outside: (Ipv4Addr::UNSPECIFIED, 0),
            sessions: 0,
        };
        let session =
            Session { binding: 0, remote: (Ipv4Addr::UNSPECIFIED, 0), state: State::Udp, touched: Time::ZERO };
        let free: Vec<u32> = (0..entries as u32).rev().collect();
        Self {
            bindings: vec![binding; entries].into(),
            sessions: vec![session; entries].into(),
            free_bindings: free.clone(),
            free_sessions: free,
            inside: Chains::new(entries),
            outside: Chains::new(entries),
            peers: Chains::new(entries),
            waiting: Waiting::new(entries),
            now: Time::ZERO,
            key,
        }
    }

    fn hash(&self, words: [u64; 3]) -> u64 {
        words.iter().fold(self.key, |hash, &word| mix(hash ^ word))
    }

    fn hash_inside(&self, protocol: Protocol, (address, port): Inside) -> u64 {
        let bits = address.to_bits();
        self.hash([(bits >> 64) as u64, bits as u64, u64::from(port) << 2 | protocol as u64])
    }

    fn hash_outside(&self, protocol: Protocol, (address, port): Outside) -> u64 {
        self.hash([0, u64::from(address.to_bits()), u64::from(port) << 2 | protocol as u64])
    }

    fn hash_peer(&self, binding: usize, address: Ipv4Addr) -> u64 {
        self.hash([1, u64::from(address.to_bits()), binding as u64])
    }

    fn by_inside(&self, protocol: Protocol, inside: Inside) -> Option<usize> {
        let is_it = |slot: usize| self.bindings[slot].inside == inside && self.bindings[slot].protocol == protocol;
        self.inside.find(self.hash_inside(protocol, inside), is_it)
    }

    fn by_outside(&self, protocol: Protocol, outside: Outside) -> Option<usize> {
        let is_it = |slot: usize| self.bindings[slot].outside == outside && self.bindings[slot].protocol == protocol;
        self.outside.find(self.hash_outside(protocol, outside), is_it)
    }

    fn session(&self, binding: usize, remote: Outside) -> Option<usize> {
        let is_it = |slot: usize| self.sessions[slot].binding == binding && self.sessions[slot].remote == remote;
        self.peers.find(self.hash_peer(binding, remote.0), is_it)
    }

    /// Returns whether there is a session with this address and any port.
    fn knows(&self, binding: usize, address: Ipv4Addr) -> bool {
        let is_it = |slot: usize| self.sessions[slot].binding == binding && self.sessions[slot].remote.0 == address;
        self.peers.find(self.hash_peer(binding, address), is_it).is_some()
    }

    const fn is_full(&self) -> bool {
        self.free_sessions.is_empty()
    }

    const fn found(&self, binding: usize, new_binding: bool, new_session: bool) -> Found<Outside> {
        Found { place: self.bindings[binding].outside, new_binding, new_session }
    }

    /// Creates a binding. All ports of a host get the same address while it has free ports (RFC 6146, section
    /// 3.5.1.1). The host's own port is used if it is free, else one on the same side of 1024, and even or odd
    /// as it is.
    fn bind(&mut self, protocol: Protocol, inside: Inside, rules: &Rules) -> Option<usize> {
        let outside = self.free_place(protocol, inside, rules)?;
        let slot = self.free_bindings.pop()?;
        let binding = slot as usize;
        self.bindings[binding] = Binding { protocol, inside, outside, sessions: 0 };
        self.inside.insert(self.hash_inside(protocol, inside), slot);
        self.outside.insert(self.hash_outside(protocol, outside), slot);
        Some(binding)
    }

    fn free_place(&self, protocol: Protocol, (address, port): Inside, rules: &Rules) -> Option<Outside> {
        let bits = address.to_bits();
        let home = mix(bits as u64 ^ mix((bits >> 64) as u64)) as usize;
        let count = rules.pool.len();
        let addresses = (0..count).map(|i| rules.pool[(home + i) % count]);
        let mut places = addresses.flat_map(|address| candidates(port, &rules.ports).map(move |port| (address, port)));
        places.find(|&place| self.by_outside(protocol, place).is_none())
    }

    /// Creates a session. There must be room.
    fn open(&mut self, binding: usize, remote: Outside, state: State) {
        let Some(slot) = self.free_sessions.pop() else { return };
        let session = slot as usize;
        self.sessions[session] = Session { binding, remote, state, touched: self.now };
        self.bindings[binding].sessions += 1;
        self.peers.insert(self.hash_peer(binding, remote.0), slot);
        self.waiting.push(state.kind(), slot);
    }

    /// Handles a packet of a session: updates its state, and restarts its timeout.
    fn touch(&mut self, slot: usize, from_v6: bool, segment: Segment) {
        let session = &mut self.sessions[slot];
        let before = session.state;
        let (state, renewed) = before.after(from_v6, segment);
        session.state = state;
        if renewed {
            session.touched = self.now;
            self.waiting.remove(before.kind(), slot as u32);
            self.waiting.push(state.kind(), slot as u32);
        }
    }

    /// Ends the sessions whose timeouts are over.
    fn expire(&mut self, now: Time, lifetimes: &Lifetimes) {
        self.now = self.now.max(now);
        for kind in [Kind::Udp, Kind::Icmp, Kind::TcpOpen, Kind::TcpTransitory] {
            while let Some(slot) = self.waiting.first(kind)
                && self.now.since(self.sessions[slot].touched) >= lifetimes[kind as usize]
            {
                self.close(kind, slot);
            }
        }
    }

    fn close(&mut self, kind: Kind, slot: usize) {
        let Session { binding, remote, .. } = self.sessions[slot];
        self.waiting.remove(kind, slot as u32);
        self.peers.remove(self.hash_peer(binding, remote.0), slot as u32);
        self.free_sessions.push(slot as u32);
        self.bindings[binding].sessions -= 1;
        let Binding { protocol, inside, outside, sessions } = self.bindings[binding];
        if sessions == 0 {
            self.inside.remove(self.hash_inside(protocol, inside), binding as u32);
            self.outside.remove(self.hash_outside(protocol, outside), binding as u32);
            self.free_bindings.push(binding as u32);
        }
    }
}

/// Returns the ports that may represent this port, the best first: those in its part, even or odd as it is.
fn candidates(port: u16, allowed: &RangeInclusive<u16>) -> impl Iterator<Item = u16> {
    const WELL_KNOWN_END: u16 = 1024;
    let is_well_known = port < WELL_KNOWN_END;
    let allowed = allowed.clone();
    let count = (1 << 16) / STRIDE;
    let all = move |side: bool| {
        let allowed = allowed.clone();
        let each = (0..count).map(move |i| port.wrapping_add((i * STRIDE) as u16));
        each.filter(move |port| (*port < WELL_KNOWN_END) == side && allowed.contains(port))
    };
    all(is_well_known).chain(all(!is_well_known))
}

/// A hash table of slots with chaining; it has as many chains as slots, so that chains are short.
#[derive(Debug)]
struct Chains {
    /// The first slot of each chain.
    heads: Box<[u32]>,
    /// The next slot in the chain of each slot.
    next: Box<[u32]>,
}

impl Chains {
    fn new(slots: usize) -> Self {
        Self { heads: vec![NONE; slots.next_power_of_two()].into(), next: vec![NONE; slots].into() }
    }

    const fn chain(&self, hash: u64) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    /// Returns the slot with this hash for which `is_it` holds.
    fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let mut slot = self.heads[self.chain(hash)];
        while slot != NONE {
            if is_it(slot as usize) {
                return Some(slot as usize);
            }
            slot = self.next[slot as usize];
        }
        None
    }

    fn insert(&mut self, hash: u64, slot: u32) {
        let chain = self.chain(hash);
        self.next[slot as usize] = self.heads[chain];
        self.heads[chain] = slot;
    }

    fn remove(&mut self, hash: u64, slot: u32) {
        let chain = self.chain(hash);
        let after = self.next[slot as usize];
        if self.heads[chain] == slot {
            self.heads[chain] = after;
            return;
        }
        let mut at = self.heads[chain];
        while at != NONE {
            let next = self.next[at as usize];
            if next == slot {
                self.next[at as usize] = after;
                return;
            }
            at = next;
        }
    }
}

/// A queue of slots for each [`Kind`]; a slot is in one queue.
#[derive(Debug)]
struct Waiting {
    /// The previous and the next slot in the queue of each slot.
    links: Box<[[u32; 2]]>,
    /// The first and the last slot of each queue.
    ends: [[u32; 2]; Kind::COUNT],
}

impl Waiting {
    fn new(slots: usize) -> Self {
        Self { links: vec![[NONE; 2]; slots].into(), ends: [[NONE; 2]; Kind::COUNT] }
    }

    fn first(&self, kind: Kind) -> Option<usize> {
        let first = self.ends[kind as usize][0];
        (first != NONE).then_some(first as usize)
    }

    fn push(&mut self, kind: Kind, slot: u32) {
        let [first, last] = &mut self.ends[kind as usize];
        let before = core::mem::replace(last, slot);
        self.links[slot as usize] = [before, NONE];
        match before {
            NONE => *first = slot,
            before => self.links[before as usize][1] = slot,
        }
    }

    fn remove(&mut self, kind: Kind, slot: u32) {
        let [before, after] = self.links[slot as usize];
        let [first, last] = &mut self.ends[kind as usize];
        match before {
            NONE => *first = after,
            before => self.links[before as usize][1] = after,
        }
        match after {
            NONE => *last = before,
            after => self.links[after as usize][0] = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn rules(pool: &[Ipv4Addr], ports: RangeInclusive<u16>) -> Rules {
        let lifetimes = [300, 60, 7440, 240].map(|s| Time::from_ns(s * 1_000_000_000));
        Rules { pool: pool.into(), ports, lifetimes, by_address: false }
    }

    const POOL: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 65), Ipv4Addr::new(192, 0, 2, 66)];
    const PEER: Outside = (Ipv4Addr::new(198, 51, 100, 7), 53);

    fn host(number: u16, port: u16) -> Inside {
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number), port)
    }

    fn seconds(s: u64) -> Time {
        Time::from_ns(s * 1_000_000_000)
    }

    #[test]
    fn ports_are_kept_where_they_are_free_and_their_kind_where_not() {
        let table = Table::new(rules(&POOL[..1], 1..=65_535), 4096);
        let bound = |number, port| {
            table.outbound(Time::ZERO, Protocol::Udp, host(number, port), PEER, Segment::NONE).unwrap().place.1
        };
        assert_eq!((bound(1, 5000), bound(2, 5000), bound(3, 5000)), (5000, 5032, 5064));
        assert_eq!((bound(1, 53), bound(2, 53), bound(1, 65_535), bound(2, 65_535)), (53, 85, 65_535, 1055));
        assert_eq!(bound(1, 5000), 5000, "whomever it speaks to");
    }

    #[test]
    fn a_pool_that_is_used_up() {
        let table = Table::new(rules(&POOL, 100..=131), 4096);
        let bound = |number| table.outbound(Time::ZERO, Protocol::Udp, host(number, 100), PEER, Segment::NONE);
        let places: Vec<Outside> = (1..=2).map(|number| bound(number).unwrap().place).collect();
        assert!(places[0] != places[1] && places.iter().all(|place| place.1 == 100));
        assert_eq!(bound(3), Err(DropReason::PoolExhausted));
    }

    #[test]
    fn sessions_end_and_bindings_with_them() {
        let table = Table::new(rules(&POOL, 1..=65_535), 16);
        let send = |now, number| table.outbound(seconds(now), Protocol::Udp, host(number, 4000), PEER, Segment::NONE);
        let place = send(0, 1).unwrap().place;
        // This part has room for one session.
        assert_eq!(send(299, 2), Err(DropReason::TableFull));
        assert!(table.inbound(seconds(299), Protocol::Udp, place, PEER, Segment::NONE).is_ok());
        assert_eq!(send(598, 2), Err(DropReason::TableFull));
        assert_eq!(table.behind(seconds(598), Protocol::Udp, place, PEER), Some(host(1, 4000)));
        assert_eq!(table.behind(seconds(599), Protocol::Udp, place, PEER), None);
        assert_eq!(table.inbound(seconds(599), Protocol::Udp, place, PEER, Segment::NONE), Err(DropReason::NoBinding));
        assert!(send(599, 2).unwrap().new_binding);
    }

    #[test]
    fn who_may_answer() {
        let other_port = (PEER.0, 54);
        let stranger = (Ipv4Addr::new(198, 51, 100, 8), 53);
        for by_address in [false, true] {
            let table = Table::new(Rules { by_address, ..rules(&POOL, 1..=65_535) }, 256);
            let place = table.outbound(Time::ZERO, Protocol::Udp, host(1, 4000), PEER, Segment::NONE).unwrap().place;
            let answer = |remote| table.inbound(Time::ZERO, Protocol::Udp, place, remote, Segment::NONE).err();
            assert_eq!((answer(PEER), answer(other_port)), (None, None));
            assert_eq!(answer(stranger), by_address.then_some(DropReason::SenderUnknown));
            // Another protocol has its own ports.
            let tcp = table.inbound(Time::ZERO, Protocol::Tcp, place, PEER, Segment::SYN);
            assert_eq!(tcp, Err(DropReason::NoBinding));
        }
    }

    proptest! {
        /// Compares with a list of all packets sent. A binding lasts as long as any of its sessions, is the
        /// same for all peers, and shares its address and port with no other binding.
        #[test]
        fn the_table_is_that_of_the_book(
            steps in proptest::collection::vec((0u64..100, 1u16..6, 0u16..70, 0u8..4, any::<bool>()), 1..300),
        ) {
            let table = Table::new(rules(&POOL, 1..=65_535), 16 * 64);
            let (mut now, mut book) = (0, BTreeMap::<Inside, (Outside, BTreeMap<Outside, u64>)>::new());
            for (passed, number, port, peer, out) in steps {
                now += passed;
                for (_, sessions) in book.values_mut() {
                    sessions.retain(|_, &mut touched| now - touched < 300);
                }
                book.retain(|_, (_, sessions)| !sessions.is_empty());
                let (inside, peer) = (host(number, port), (Ipv4Addr::new(198, 51, 100, peer), 9));
                let known = book.get(&inside).map(|entry| entry.0);
                let place = if out {
                    let found = table.outbound(seconds(now), Protocol::Udp, inside, peer, Segment::NONE).unwrap();
                    prop_assert_eq!(found.new_binding, known.is_none());
                    prop_assert_eq!(known.unwrap_or(found.place), found.place);
                    prop_assert!(book.iter().all(|(other, entry)| *other == inside || entry.0 != found.place));
                    found.place
                } else {
                    let Some(place) = known else { continue };
                    let found = table.inbound(seconds(now), Protocol::Udp, place, peer, Segment::NONE).unwrap();
                    prop_assert_eq!(found.place, inside);
                    place
                };
                book.entry(inside).or_insert_with(|| (place, BTreeMap::new())).1.insert(peer, now);
            }
        }
    }
}
