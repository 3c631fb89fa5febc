//! L7-filter: the protocol of each connection by what it carries, as a mark on the packets that follow.
//!
//! # Work
//! The first packets of a connection that carry something, up to `packets` of them, are its connection buffer: what TCP carries is
//! put in the order of its sequence numbers, side by side, and held against the table of signatures from its first byte on; a
//! datagram is held against it by itself. Until a signature matches the verdict is "no match yet", then it is the protocol,
//! and after `packets` packets it is "no match". The verdict is the connection's: the packets that follow are not looked into.
//! What the verdict is to do is said for each protocol: `drop` drops the packet that brought it and those that follow; `weight`
//! and `service` mark the flows of the connection, so that the driver gives their client that weight, and their later packets
//! to that service; `fwmark` marks this packet and those that follow for other programs of the machine ([`Mark`](crate::Mark)).
//!
//! A segment is read twice: as what its stream goes on with, and as if a stream began with it. The second finds what is spoken
//! in connections whose beginning was not seen.
//!
//! # Source
//! The L7-filter of the PS-HRW paper (section V.A): connection buffers of up to eight packets, the table in which they are put together,
//! and marks. The signatures are of our own writing, from the documents that `signatures.txt` names: a protocol, its patterns,
//! and bytes that they must and must not match.
//!
//! # Several workers
//! All instances share what is known of connections: the packets of one connection may be with several workers at once, and
//! the first verdict holds. Where their order differs from run to run, so may the packet that brings the verdict, and the verdict
//! itself: packets that came too early count among those that are looked into, there is room for `bytes` of them, and what
//! comes before the first that was seen is not read. Policies that keep the order of a connection have the verdicts of one worker.
//!
//! # Departures
//! * The paper's buffers are read anew, from their first byte, with each packet that joins them. Here the automaton goes on where
//!   it was; what is kept are bytes that came too early.
//! * A buffer has each side's stream by itself, not what both say in turn: signatures begin at the first byte of a side.
//! * A connection ends when its place is needed, not when it is closed: one that comes soon after it between the same addresses and
//!   ports has its verdict.
//! * Datagrams are not joined: they have beginnings of their own. Fragments of IP are not put together.
//! * What another protocol carries is not looked for (a web page over TLS is `tls`), nor what a tunnel does.

mod automaton;
mod buffer;
mod connections;
mod engine;
mod mark;
mod matched;
mod table;
#[cfg(feature = "vectorscan")]
mod vectorscan;

use core::fmt;
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::id::ServiceId;
use humpyard_core::params;

pub use self::engine::EngineName;
pub use self::mark::{Marks, Names};

use self::buffer::Order;
use self::connections::{Connections, Known, Part, State};
use self::engine::Engine;
use self::mark::Actions;
use self::matched::Matched;
use self::table::{Table, Transport, table};
use crate::ip::{IpPacket, protocol};
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};

params! {
    /// Parameters of L7-filter.
    pub struct L7FilterParams {
        /// How many packets of a connection are looked into, of those that carry something.
        packets: u64 = 8, in 1..=255;
        /// How many bytes of each are looked at, and how many that came too early are kept for each connection.
        bytes: u64 = 2_048, in 1..=65_535, unit "bytes";
        /// Connections remembered; of four by chance the one makes room that was seen least recently.
        connections: u64 = 65_536, in 128..=16_777_216;
        /// TCP connections that are put together at a time; one more takes the buffer of another, which begins anew.
        buffers: u64 = 4_096, in 32..=1_048_576;
        /// What reads the bytes.
        engine: EngineName = EngineName::Regex;
        /// Protocols whose connections are dropped.
        drop: Names = Names(String::new());
        /// Protocols whose clients get a weight.
        weight: Marks = Marks(String::new());
        /// Protocols whose packets go to another service from then on, by its place in the list of services, from 0.
        service: Marks = Marks(String::new());
        /// Protocols whose packets leave with a firewall mark, by a port that sets it: nfqueue:NUMBER.
        fwmark: Marks = Marks(String::new());
    }
}

/// The most bytes that all buffers together have.
const BUFFERED_MAX: u64 = 4 << 30;

/// A signature of the table, to be shown or compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedSignature {
    /// The protocol, as results name it.
    pub protocol: &'static str,
    /// Where its messages are written down.
    pub source: &'static str,
    /// What carries it: `tcp`, `udp`, or `ip`.
    pub transport: &'static str,
    /// A regular expression over bytes, to be matched from the first on.
    pub pattern: &'static str,
}

/// Every signature, in the order in which they count.
pub fn signatures() -> impl Iterator<Item = ListedSignature> {
    table().signatures.iter().map(|signature| {
        let protocol = &table().protocols[usize::from(signature.protocol)];
        let transport = ["tcp", "udp", "ip"][signature.transport as usize];
        ListedSignature { protocol: protocol.name, source: protocol.source, transport, pattern: signature.pattern }
    })
}

/// What all instances share.
struct Shared {
    connections: Connections,
    actions: Actions,
    packets: u8,
    bytes: usize,
}

/// L7-filter. See the [module](self) for what it does.
pub struct L7Filter {
    shared: Arc<Shared>,
    inspector: Inspector,
}

/// What an instance has for itself.
struct Inspector {
    table: &'static Table,
    engine: Engine,
    matched: Matched,
    counts: Counts,
}

/// What is counted.
#[derive(Clone, Default, Debug)]
struct Counts {
    connections: u64,
    no_match: u64,
    examined_packets: u64,
    examined_bytes: u64,
    /// Segments that came too early, and were put by.
    reordered_packets: u64,
    /// Segments that came too early, and for which there was no room.
    unread_packets: u64,
    marked_packets: u64,
    /// Connections by protocol.
    found: Vec<u64>,
}

impl fmt::Debug for L7Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("L7Filter").field("counts", &self.inspector.counts).finish_non_exhaustive()
    }
}

impl Clone for L7Filter {
    /// Another instance, which shares what is known of connections.
    fn clone(&self) -> Self {
        Self::with(Arc::clone(&self.shared), self.inspector.engine.clone())
    }
}

impl Build for L7Filter {
    type Params = L7FilterParams;

    const INFO: Info = Info {
        name: "l7-filter",
        summary: "protocol of each connection by its first eight packets, put in order; verdicts drop, weigh or redirect what follows",
        source: "the PS-HRW paper, section V.A; signatures of our own for some 160 protocols, from their RFCs and specifications",
    };

    fn new(params: &L7FilterParams) -> Result<Self, ServiceError> {
        if params.buffers * params.bytes > BUFFERED_MAX {
            return Err(ServiceError::new(format!(
                "l7-filter: `buffers` times `bytes` is memory, and {} times {} more than {BUFFERED_MAX} bytes: take less of one",
                params.buffers, params.bytes
            )));
        }
        let actions = Actions::new(table(), &params.drop, &params.weight, &params.service, &params.fwmark)?;
        let engine = Engine::new(params.engine)?;
        let bytes = params.bytes as usize;
        let connections = Connections::new(params.connections as usize, params.buffers as usize, bytes, &engine)?;
        Ok(Self::with(Arc::new(Shared { connections, actions, packets: params.packets as u8, bytes }), engine))
    }

    fn refers_to(&self) -> Vec<ServiceId> {
        self.shared.actions.services()
    }
}

/// What one packet carries, and where it belongs.
struct Segment<'a> {
    transport: Transport,
    /// Of a transport without ports the number of its protocol, twice.
    ports: (u16, u16),
    payload: &'a [u8],
    /// Of TCP: the side that sends it, its sequence number, and whether that begins a stream.
    side: usize,
    sequence: u32,
    begins: bool,
}

impl<'a> Segment<'a> {
    fn of(frame: &'a Frame) -> Option<Self> {
        let packet = IpPacket::find(frame).ok()?;
        let upper = packet.upper(frame)?;
        let whole = frame.data.get(upper.start..upper.end)?;
        let datagram =
            |transport, ports, payload| Self { transport, ports, payload, side: 0, sequence: 0, begins: false };
        Some(match upper.protocol {
            protocol::TCP => {
                let ports = upper.ports(frame)?;
                let header = whole.first_chunk::<20>()?;
                let (from, to) = packet.addresses(frame);
                let (flags, resets) = (header[13], header[13] & 4 != 0);
                // What comes with a reset is said of the connection, and not in it.
                let payload = if resets { &[] } else { upper.payload(frame) };
                let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                let begins = flags & 2 != 0;
                let side = usize::from((from, ports.0) > (to, ports.1));
                let sequence = sequence.wrapping_add(u32::from(begins));
                Self { transport: Transport::Tcp, ports, payload, side, sequence, begins }
            }
            protocol::UDP => datagram(Transport::Udp, upper.ports(frame)?, upper.payload(frame)),
            other if upper.first => datagram(Transport::Ip, (u16::from(other), u16::from(other)), whole),
            _ => return None,
        })
    }
}

/// What is decided of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    NotYet,
    Protocol(u8),
    NoMatch,
}

impl L7Filter {
    fn with(shared: Arc<Shared>, engine: Engine) -> Self {
        let table = table();
        let counts = Counts { found: vec![0; table.protocols.len()], ..Counts::default() };
        Self { shared, inspector: Inspector { table, engine, matched: Matched::new(table.signatures.len()), counts } }
    }
}

impl Inspector {
    /// The verdict on a packet's connection, as far as it is known after this packet: its protocol.
    fn examine(&mut self, shared: &Shared, frame: &Frame, connection: u64) -> Option<u8> {
        let mut part = shared.connections.part(connection);
        match part.get(connection).state {
            State::Found(protocol) => return Some(protocol),
            State::NoMatch => return None,
            State::New | State::Open => {}
        }
        let segment = Segment::of(frame)?;
        let known = part.get(connection);
        if known.state == State::New {
            known.state = State::Open;
            self.counts.connections += 1;
        }
        let decision = self.decide(&mut part, connection, &segment, shared.packets, shared.bytes);
        let known = part.get(connection);
        let found = match decision {
            Decision::NotYet => return None,
            Decision::Protocol(protocol) => {
                known.state = State::Found(protocol);
                self.counts.found[usize::from(protocol)] += 1;
                Some(protocol)
            }
            Decision::NoMatch => {
                known.state = State::NoMatch;
                self.counts.no_match += 1;
                None
            }
        };
        part.give_back(connection);
        found
    }

    /// Reads what a packet adds to its connection, and decides.
    fn decide(
        &mut self,
        part: &mut Part,
        connection: u64,
        segment: &Segment<'_>,
        packets: u8,
        bytes: usize,
    ) -> Decision {
        if segment.transport == Transport::Tcp && segment.begins {
            part.with_buffer(connection).1.begin(segment.side, segment.sequence);
        }
        if segment.payload.is_empty() {
            return Decision::NotYet;
        }
        self.matched.clear();
        if segment.transport == Transport::Tcp {
            if !self.read_stream(part, connection, segment, bytes) {
                return Decision::NotYet;
            }
        } else {
            let payload = &segment.payload[..segment.payload.len().min(bytes)];
            self.counts.examined_bytes += payload.len() as u64;
            self.engine.read_whole(segment.transport, segment.ports, payload, &mut self.matched);
        }
        self.counts.examined_packets += 1;
        let known = part.get(connection);
        known.examined += 1;
        let last = known.examined >= packets;
        if let Some(protocol) = known.learn(self.table, &self.matched, segment.ports) {
            return Decision::Protocol(protocol);
        }
        if !last {
            return Decision::NotYet;
        }
        let waited = segment.transport == Transport::Tcp;
        let found = if waited { self.read_what_waits(part, connection, segment.ports, bytes) } else { None };
        found.map_or(Decision::NoMatch, Decision::Protocol)
    }

    /// Reads segments that came too early each by itself: what is before them will not come in time.
    fn read_what_waits(&mut self, part: &mut Part, connection: u64, ports: (u16, u16), bytes: usize) -> Option<u8> {
        let (known, buffer) = part.with_buffer(connection);
        while let Some(piece) = buffer.any_piece() {
            self.matched.clear();
            let piece = &piece[..piece.len().min(bytes)];
            self.engine.read_whole(Transport::Tcp, ports, piece, &mut self.matched);
            if let Some(protocol) = known.learn(self.table, &self.matched, ports) {
                return Some(protocol);
            }
        }
        None
    }

    /// Reads a segment in its place, and what it makes the next of those that came too early; false if it adds nothing.
    fn read_stream(&mut self, part: &mut Part, connection: u64, segment: &Segment<'_>, bytes: usize) -> bool {
        let (_, buffer) = part.with_buffer(connection);
        let old = match buffer.place(segment.side, segment.sequence, segment.payload) {
            Order::Next(old) => old,
            Order::Again => return false,
            Order::Early => {
                self.counts.reordered_packets += 1;
                return true;
            }
            Order::NoRoom => {
                self.counts.unread_packets += 1;
                return true;
            }
        };
        let payload = &segment.payload[old..];
        let side = buffer.advance(segment.side, payload.len());
        self.read(side, payload, segment.ports, bytes);
        while let Some((side, piece)) = buffer.next_piece(segment.side) {
            self.read(side, piece, segment.ports, bytes);
        }
        true
    }

    /// Reads what one side's stream goes on with.
    fn read(&mut self, side: &mut buffer::Side, payload: &[u8], ports: (u16, u16), bytes: usize) {
        let payload = &payload[..payload.len().min(bytes)];
        self.counts.examined_bytes += payload.len() as u64;
        if side.begun {
            self.engine.read_whole(Transport::Tcp, ports, payload, &mut self.matched);
        } else {
            self.engine.begin(&mut side.stream, ports);
            side.begun = true;
        }
        self.engine.read(&mut side.stream, payload, &mut self.matched);
    }
}

impl Known {
    /// Takes in what one packet matched: the protocol that it says, if it says one.
    #[inline]
    fn learn(&mut self, table: &Table, matched: &Matched, ports: (u16, u16)) -> Option<u8> {
        let signatures = &table.signatures;
        let counts = |&number: &usize| signatures[number].is_at(ports);
        let sure = |&number: &usize| signatures[number].times <= 1;
        if let Some(number) = matched.iter().filter(counts).find(sure) {
            return Some(signatures[number].protocol);
        }
        let Some(number) = matched.iter().find(counts) else {
            self.matched = 0;
            return None;
        };
        if self.matched == 0 || usize::from(self.candidate) != number {
            (self.candidate, self.matched) = (number as u16, 0);
        }
        self.matched += 1;
        (self.matched >= signatures[number].times).then_some(signatures[number].protocol)
    }
}

impl Service for L7Filter {
    fn process(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Verdict {
        let protocol = self.inspector.examine(&self.shared, frame, context.connection);
        let Some(protocol) = protocol else { return Verdict::Forward };
        let actions = &self.shared.actions;
        if actions.drops(protocol) {
            return Verdict::Drop(DropReason::ProtocolDenied);
        }
        if let Some(mark) = actions.mark(protocol) {
            generated.mark(mark);
            self.inspector.counts.marked_packets += 1;
        }
        Verdict::Forward
    }

    fn counters(&self) -> Vec<Counter> {
        let Inspector { table, counts, .. } = &self.inspector;
        let &Counts { connections, no_match, examined_packets, examined_bytes, .. } = counts;
        let &Counts { reordered_packets, unread_packets, marked_packets, .. } = counts;
        let mut counters = vec![
            Counter::new("connections", connections),
            Counter::new("no_match", no_match),
            Counter::new("examined_packets", examined_packets),
            Counter::new("examined_bytes", examined_bytes),
            Counter::new("reordered_packets", reordered_packets),
            Counter::new("unread_packets", unread_packets),
            Counter::new("marked_packets", marked_packets),
        ];
        let found = table.protocols.iter().zip(&counts.found).filter(|&(_, &count)| count > 0);
        let name = |name: &str| format!("protocol_{}", name.replace('-', "_"));
        counters.extend(found.map(|(protocol, &count)| Counter::new(name(protocol.name), count)));
        counters
    }
}
