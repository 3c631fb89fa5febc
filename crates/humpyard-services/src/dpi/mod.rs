//! Deep packet inspection: finds the protocol of a connection from the payloads of its first packets.
//!
//! # Work
//! The first packets of a connection that have a payload, up to `packets`, are matched against the table of
//! signatures; of each, the first `bytes` bytes. The result is remembered, and counted once per connection.
//! Later packets are not inspected. Connections of protocols in `deny` are dropped from then on.
//!
//! All signatures form one deterministic automaton, anchored at the first byte. It reads each byte at most
//! once, and stops as soon as no signature can match any more. It takes 6 MB, shared by all instances, and
//! packets touch little of it.
//!
//! There is a yield point after each [`PIECE_BYTES`] of a payload.
//!
//! # Source
//! We wrote the signatures ourselves, from the standards that `signatures.rs` names.
//!
//! # Several workers
//! An instance remembers the connections that it sees. If a policy spreads a connection over workers, each
//! instance decides by its own packets, and each counts the connection. Steer by connection (`hrw`, `conn`)
//! instead.
//!
//! # Departures
//! * Packets are matched one by one: neither fragments nor segments are reassembled.
//! * Protocols inside others are not found: a web page over TLS is `tls`. Neither are protocols inside tunnels.

mod signatures;

use core::fmt;
use std::sync::{Arc, LazyLock};

use humpyard_core::frame::Frame;
use humpyard_core::name::unknown;
use humpyard_core::params;
use humpyard_core::policy::ParameterValue;
use regex_automata::dfa::dense;
use regex_automata::dfa::{Automaton, StartKind};
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, Input, MatchKind, PatternSet};

use self::signatures::{SIGNATURES, Signature, Transport};
use crate::ip::{IpPacket, is_complete, protocol};
use crate::memory::Memory;
use crate::segment::cut_packets;
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};
use crate::turn::Turn;

params! {
    /// Parameters of deep packet inspection.
    pub struct DpiParams {
        /// How many packets of a connection are looked into, of those that carry something.
        packets: u64 = 8, in 1..=255;
        /// How many bytes of each are looked at.
        bytes: u64 = 512, in 1..=65_535, unit "bytes";
        /// Connections remembered; of four by chance the one makes room that was seen least recently.
        connections: u64 = 65_536, in 4..=16_777_216, cost "always";
        /// Protocols whose connections are dropped.
        deny: Protocols = Protocols(String::new());
    }
}

/// A packet can be given back after each piece of its payload of this many bytes, which takes about a microsecond.
pub const PIECE_BYTES: usize = 256;

/// Names of protocols, as given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct Protocols(pub String);

/// Accepts every text; the service reports a wrong name more precisely.
impl ParameterValue for Protocols {
    const ACCEPTS: &'static str = "names of protocols, separated by `;`, or nothing";

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.into()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// Read-only data that all instances share.
struct Table {
    /// The protocols, in the order of their first signatures.
    protocols: Vec<&'static str>,
    /// The protocol of each signature.
    protocol_of: Vec<u8>,
    /// Whether each protocol is dropped.
    denied: Vec<bool>,
}

impl Table {
    fn new(deny: &Protocols) -> Result<Self, ServiceError> {
        let mut protocols: Vec<&'static str> = Vec::new();
        let protocol_of = SIGNATURES.iter().map(|signature| {
            let known = protocols.iter().position(|&name| name == signature.protocol);
            known.unwrap_or_else(|| {
                protocols.push(signature.protocol);
                protocols.len() - 1
            }) as u8
        });
        let protocol_of = protocol_of.collect();
        let mut denied = vec![false; protocols.len()];
        for name in deny.0.split(';').map(str::trim).filter(|name| !name.is_empty()) {
            let found = protocols.iter().position(|known| *known == name);
            let why = || format!("dpi: `deny`: {}", unknown("protocol", name, protocols.iter().copied()));
            denied[found.ok_or_else(|| ServiceError::new(why()))?] = true;
        }
        Ok(Self { protocols, protocol_of, denied })
    }
}

/// Returns the automaton of all signatures, built once per program. A match has the number of its signature.
#[inline]
fn automaton() -> &'static dense::DFA<Vec<u32>> {
    static AUTOMATON: LazyLock<dense::DFA<Vec<u32>>> = LazyLock::new(build_automaton);
    &AUTOMATON
}

fn build_automaton() -> dense::DFA<Vec<u32>> {
    let patterns: Vec<&str> = SIGNATURES.iter().map(|signature| signature.pattern).collect();
    let config = dense::Config::new().start_kind(StartKind::Anchored).match_kind(MatchKind::All);
    let bytes = syntax::Config::new().unicode(false).utf8(false).dot_matches_new_line(true);
    let mut builder = dense::Builder::new();
    builder.configure(config).syntax(bytes);
    let automaton = builder.thompson(regex_automata::nfa::thompson::Config::new().utf8(false)).build_many(&patterns);
    automaton.expect("the signatures are fixed, and a test builds them")
}

/// The state of a connection.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    state: State,
    /// Packets inspected.
    examined: u8,
    /// A signature that has matched, but not often enough, and the number of its matches.
    candidate: u8,
    matched: u8,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum State {
    /// Not seen before.
    #[default]
    New,
    /// More packets have to be inspected.
    Open,
    /// The protocol was found.
    Found(u8),
    /// No inspected packet matched.
    Unknown,
}

/// Deep packet inspection; see the [module](self).
pub struct Dpi {
    table: Arc<Table>,
    packets: u8,
    bytes: usize,
    connections: usize,
    memory: Memory<Known>,
    /// The signatures that match the current packet.
    matching: PatternSet,
    /// Connections by protocol.
    found: Vec<u64>,
    counts: Counts,
}

/// Counters other than those of protocols.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    connections: u64,
    unknown: u64,
    /// Connections evicted before their inspection was complete.
    forgotten: u64,
    examined_packets: u64,
    examined_bytes: u64,
    /// Packets to inspect whose payload was cut off by the capture.
    cut_packets: u64,
}

impl fmt::Debug for Dpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dpi").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Clone for Dpi {
    /// Returns a new instance with the same parameters.
    fn clone(&self) -> Self {
        // The first instance builds the automaton: a simulation makes none, and no packet must wait for it.
        automaton();
        Self::with(Arc::clone(&self.table), self.packets, self.bytes, self.connections)
    }
}

impl Build for Dpi {
    type Params = DpiParams;

    const INFO: Info = Info {
        name: "dpi",
        summary: "deep packet inspection: the protocol of each connection, by signatures over its first packets",
        source: "signatures of our own from the standards of some 40 protocols; RFC 9112, RFC 8446, RFC 9000 and others",
    };

    fn new(params: &DpiParams) -> Result<Self, ServiceError> {
        let table = Arc::new(Table::new(&params.deny)?);
        Ok(Self::with(table, params.packets as u8, params.bytes as usize, params.connections as usize))
    }

    fn follows_connections(&self) -> bool {
        true
    }
}

impl Dpi {
    fn with(table: Arc<Table>, packets: u8, bytes: usize, connections: usize) -> Self {
        Self {
            packets,
            bytes,
            connections,
            memory: Memory::new(connections),
            matching: PatternSet::new(SIGNATURES.len()),
            found: vec![0; table.protocols.len()],
            counts: Counts::default(),
            table,
        }
    }

    /// Inspects a packet. `find` returns the signature that its payload matches.
    fn inspect(
        &mut self,
        frame: &Frame,
        connection: u64,
        find: impl FnOnce(&mut PatternSet, &[u8], &Segment<'_>) -> Option<usize>,
    ) -> Result<(), DropReason> {
        let cut = u64::from(!is_complete(frame));
        let Some(segment) = Segment::of(frame) else {
            self.counts.cut_packets += cut;
            return Ok(());
        };
        let (known, forgotten) = self.memory.get(connection);
        self.counts.forgotten += u64::from(forgotten.is_some_and(|known| known.state == State::Open));
        if known.state == State::New {
            known.state = State::Open;
            self.counts.connections += 1;
        }
        if known.state == State::Open {
            self.counts.cut_packets += cut;
        }
        if known.state == State::Open && !segment.payload.is_empty() {
            let payload = &segment.payload[..segment.payload.len().min(self.bytes)];
            self.counts.examined_packets += 1;
            self.counts.examined_bytes += payload.len() as u64;
            let signature = find(&mut self.matching, payload, &segment);
            match known.learn(signature, &segment, self.packets) {
                Some(Outcome::Found(signature)) => {
                    let protocol = self.table.protocol_of[signature];
                    known.state = State::Found(protocol);
                    self.found[usize::from(protocol)] += 1;
                }
                Some(Outcome::Unknown) => {
                    known.state = State::Unknown;
                    self.counts.unknown += 1;
                }
                None => {}
            }
        }
        match known.state {
            State::Found(protocol) if self.table.denied[usize::from(protocol)] => Err(DropReason::ProtocolDenied),
            _ => Ok(()),
        }
    }

    /// Whether packets of this connection are still inspected.
    fn is_open(&self, connection: u64) -> bool {
        let known = self.memory.peek(connection).map(|known| known.state);
        matches!(known.unwrap_or_default(), State::New | State::Open)
    }
}

/// A payload that is being searched, in turns.
struct Search {
    state: StateID,
    /// Bytes read.
    read: usize,
    matching: PatternSet,
}

impl Search {
    fn new(automaton: &dense::DFA<Vec<u32>>) -> Self {
        let start = automaton.start_state(&start::Config::new().anchored(Anchored::Yes));
        let state = start.expect("it was built for anchored searches");
        Self { state, read: 0, matching: PatternSet::new(SIGNATURES.len()) }
    }

    /// Reads the next piece of a payload. Returns whether the search is over.
    fn go_on(&mut self, automaton: &dense::DFA<Vec<u32>>, payload: &[u8]) -> bool {
        let end = payload.len().min(self.read + PIECE_BYTES);
        for &byte in &payload[self.read..end] {
            self.state = automaton.next_state(self.state, byte);
            self.note(automaton);
            if automaton.is_dead_state(self.state) {
                return true;
            }
        }
        self.read = end;
        if end == payload.len() {
            self.state = automaton.next_eoi_state(self.state);
            self.note(automaton);
        }
        end == payload.len()
    }

    /// Adds the signatures that match by now.
    fn note(&mut self, automaton: &dense::DFA<Vec<u32>>) {
        if automaton.is_match_state(self.state) {
            for at in 0..automaton.match_len(self.state) {
                self.matching.insert(automaton.match_pattern(self.state, at));
            }
        }
    }
}

/// The payload of TCP or UDP in one packet.
struct Segment<'a> {
    transport: Transport,
    ports: (u16, u16),
    payload: &'a [u8],
}

impl<'a> Segment<'a> {
    #[inline]
    fn of(frame: &'a Frame) -> Option<Self> {
        let upper = IpPacket::find(frame).ok()?.upper(frame)?;
        let transport = match upper.protocol {
            protocol::TCP => Transport::Tcp,
            protocol::UDP => Transport::Udp,
            _ => return None,
        };
        Some(Self { transport, ports: upper.ports(frame)?, payload: upper.payload(frame) })
    }

    fn is_at(&self, signature: &Signature) -> bool {
        signature.ports.contains(&self.ports.0) || signature.ports.contains(&self.ports.1)
    }
}

/// Returns the first signature that matches a packet at its ports.
#[inline]
fn find(matching: &mut PatternSet, payload: &[u8], segment: &Segment<'_>) -> Option<usize> {
    matching.clear();
    let input = Input::new(payload).anchored(Anchored::Yes);
    // It cannot fail: no byte makes this automaton quit, and it was built for anchored searches.
    automaton().try_which_overlapping_matches(&input, matching).ok()?;
    first_at(matching, segment)
}

/// Returns the first of the matching signatures that counts at a packet's ports.
#[inline]
fn first_at(matching: &PatternSet, segment: &Segment<'_>) -> Option<usize> {
    let may = |&number: &usize| {
        let signature = &SIGNATURES[number];
        signature.transport == segment.transport && (signature.elsewhere > 0 || segment.is_at(signature))
    };
    matching.iter().map(|pattern| pattern.as_usize()).find(may)
}

/// The final result for a connection.
enum Outcome {
    /// It has the protocol of this signature.
    Found(usize),
    /// Enough packets were inspected, without a match.
    Unknown,
}

impl Known {
    /// Adds the result of one packet.
    #[inline]
    fn learn(&mut self, signature: Option<usize>, segment: &Segment<'_>, packets: u8) -> Option<Outcome> {
        self.examined += 1;
        if let Some(number) = signature {
            if self.matched == 0 || usize::from(self.candidate) != number {
                (self.candidate, self.matched) = (number as u8, 0);
            }
            self.matched += 1;
            let signature = &SIGNATURES[number];
            if self.matched >= signature.elsewhere && signature.elsewhere > 0 || segment.is_at(signature) {
                return Some(Outcome::Found(number));
            }
        } else {
            self.matched = 0;
        }
        (self.examined >= packets).then_some(Outcome::Unknown)
    }
}

impl Service for Dpi {
    fn process(&mut self, frame: &mut Frame, context: &Context, _: &mut Generated) -> Verdict {
        self.inspect(frame, context.connection, find).map_or_else(Verdict::Drop, |()| Verdict::Forward)
    }

    fn process_turn(
        &mut self,
        frame: &mut Frame,
        context: &Context,
        generated: &mut Generated,
        turn: &mut Turn<'_>,
    ) -> Option<Verdict> {
        let begun = turn.resume::<Search>();
        let Some(segment) = Segment::of(frame) else { return Some(self.process(frame, context, generated)) };
        let payload = &segment.payload[..segment.payload.len().min(self.bytes)];
        if begun.is_none() && (payload.len() <= PIECE_BYTES || !self.is_open(context.connection)) {
            return Some(self.process(frame, context, generated));
        }
        let automaton = automaton();
        let mut search = begun.unwrap_or_else(|| Box::new(Search::new(automaton)));
        while !search.go_on(automaton, payload) {
            if turn.is_over() {
                turn.keep(search);
                return None;
            }
        }
        let inspected = self.inspect(frame, context.connection, |_, _, segment| first_at(&search.matching, segment));
        Some(inspected.map_or_else(Verdict::Drop, |()| Verdict::Forward))
    }

    fn counters(&self) -> Vec<Counter> {
        let Counts { connections, unknown, forgotten, examined_packets, examined_bytes, .. } = self.counts;
        let open = self.memory.values().filter(|known| known.state == State::Open).count() as u64;
        let mut counters = vec![
            Counter::new("connections", connections),
            Counter::new("unknown", unknown),
            Counter::new("undecided", open + forgotten),
            Counter::new("examined_packets", examined_packets),
            Counter::new("examined_bytes", examined_bytes),
        ];
        counters.extend(cut_packets(self.counts.cut_packets));
        let found = self.table.protocols.iter().zip(&self.found).filter(|&(_, &count)| count > 0);
        counters
            .extend(found.map(|(name, &count)| Counter::new(format!("protocol_{}", name.replace('-', "_")), count)));
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for signature in SIGNATURES {
            let Signature { protocol, ports, elsewhere, source, .. } = signature;
            assert!(
                !source.is_empty() && protocol.bytes().all(|b| b.is_ascii_lowercase() || b"-0123456789".contains(&b))
            );
            assert!(*elsewhere > 0 || !ports.is_empty(), "{protocol}: can never match");
        }
        let table = Table::new(&Protocols(String::new())).unwrap();
        assert!(table.protocols.len() >= 20, "{:?}", table.protocols);
        assert!(automaton().memory_usage() < 8 << 20, "{} bytes", automaton().memory_usage());
        // No pattern matches an empty payload.
        let mut matching = PatternSet::new(SIGNATURES.len());
        automaton().try_which_overlapping_matches(&Input::new(b"").anchored(Anchored::Yes), &mut matching).unwrap();
        assert!(matching.is_empty());
    }
}
