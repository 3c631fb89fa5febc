//! Turns packets into verdicts.

use humpyard_core::frame::Frame;

use super::Shared;
use super::buffer::{Buffer, Content, Order, Piece, Side};
use super::connections::{Part, State};
use super::engine::Engine;
use super::kept::Kept;
use super::matched::{Matched, Said};
use super::segment::Segment;
use super::table::{Table, Transport, table};
use super::tally::Tally;
use crate::ip::is_complete;
use crate::service::Context;

/// The state of one instance.
pub(super) struct Inspector {
    table: &'static Table,
    pub(super) engine: Engine,
    matched: Matched,
    pub(super) counts: Counts,
    /// Verdicts reported by this instance.
    pub(super) reported: Tally,
}

/// Counters.
#[derive(Clone, Default, Debug)]
pub(super) struct Counts {
    pub(super) connections: u64,
    pub(super) examined_packets: u64,
    pub(super) examined_bytes: u64,
    /// Packets that came before earlier packets of their stream.
    pub(super) reordered_packets: u64,
    /// Packets cut off by the capture, of connections without a verdict.
    pub(super) cut_packets: u64,
    pub(super) marked_packets: u64,
}

impl Inspector {
    pub(super) fn new(engine: Engine) -> Self {
        let table = table();
        let reported = Tally::new(table.protocols.len());
        let matched = Matched::new(table.signatures.len());
        Self { table, engine, matched, counts: Counts::default(), reported }
    }

    /// Examines a packet. Returns the protocol of its connection, if it is known after this packet.
    pub(super) fn examine(&mut self, shared: &Shared, frame: &Frame, context: &Context) -> Option<u8> {
        let (key, sequence) = (context.connection, context.sequence);
        let segment = Segment::of(frame);
        let mut part = shared.connections.part(key);
        let known = part.get(key);
        let (before, decided) = (known.state, known.decided);
        self.counts.cut_packets += u64::from(!before.is_verdict() && !is_complete(frame));
        let Some(segment) = segment else { return before.protocol() };
        let over = before.is_verdict() && sequence >= decided;
        if known.is_before(sequence) || over && !segment.opens && !segment.closes {
            return before.protocol();
        }
        let anew = segment.opens && known.on_syn(segment.side, segment.number, sequence);
        let known = if anew { part.begin_anew(key, sequence) } else { known };
        known.on_packet(sequence, segment.closes);
        if known.state == State::New {
            known.state = State::Open;
            self.counts.connections += 1;
        } else if over {
            return before.protocol();
        }
        if segment.payload.is_empty() && !segment.begins {
            return known.state.protocol();
        }
        let before = known.state;
        self.read(shared, &mut part, before, &segment, context)
    }

    /// Reads the new bytes of a packet's connection, and decides.
    fn read(
        &mut self,
        shared: &Shared,
        part: &mut Part,
        before: State,
        segment: &Segment<'_>,
        context: &Context,
    ) -> Option<u8> {
        let key = context.connection;
        let place = if before.is_verdict() { part.kept(key) } else { Some(part.with_buffer(key)) };
        let Some((known, buffer, kept)) = place else { return before.protocol() };
        let Some(from) = self.take_in((buffer, kept), segment, context.sequence, shared.bytes) else {
            return before.protocol();
        };
        let now = self.judge((buffer, kept), from, segment.ports, shared.packets);
        (known.state, known.decided) = (now, buffer.last());
        known.examined = buffer.before.saturating_add(buffer.len() as u8);
        shared.verdicts.change(before, now);
        match (before.is_verdict(), now.is_verdict()) {
            (false, true) => part.give_back(key),
            (true, false) => part.lend_again(key),
            _ => {}
        }
        now.protocol()
    }

    /// Inserts a packet into the buffer. Returns the first packet from which on there is something to read.
    /// `None`: there is nothing to read.
    fn take_in(
        &mut self,
        (buffer, kept): (&mut Buffer, &mut Kept),
        segment: &Segment<'_>,
        sequence: u64,
        bytes: usize,
    ) -> Option<usize> {
        let anew = segment.begins && buffer.begin(segment.side, segment.number);
        let carries = !segment.payload.is_empty();
        let full = buffer.is_full();
        let at = if carries { self.insert((buffer, kept), segment, sequence, bytes) } else { None };
        // A full buffer lost its last packet, which may have been read.
        let overtaken = at.is_some_and(|at| full || at + 1 < buffer.len());
        self.counts.reordered_packets += u64::from(overtaken);
        if anew || overtaken {
            buffer.restart();
            return Some(0);
        }
        at
    }

    fn insert(
        &mut self,
        (buffer, kept): (&mut Buffer, &mut Kept),
        segment: &Segment<'_>,
        sequence: u64,
        bytes: usize,
    ) -> Option<usize> {
        let payload = &segment.payload[..segment.payload.len().min(bytes)];
        let content = if segment.transport == Transport::Tcp {
            let (number, length) = (segment.number, segment.length);
            Content::Segment(Piece {
                side: segment.side as u8,
                number,
                length,
                kept: payload.len() as u32,
                read: false,
            })
        } else {
            self.matched.clear();
            self.counts.examined_bytes += payload.len() as u64;
            self.engine.read_whole(segment.transport, segment.ports, payload, &mut self.matched);
            Content::Datagram(self.matched.says(self.table, segment.ports))
        };
        let stays = if segment.transport == Transport::Tcp { payload } else { &[] };
        buffer.insert(kept, sequence, content, stays)
    }

    /// Reads the packets from this one on, until one decides. All packets before it were read.
    fn judge(
        &mut self,
        (buffer, kept): (&mut Buffer, &mut Kept),
        mut at: usize,
        ports: (u16, u16),
        packets: u8,
    ) -> State {
        while at < buffer.len() {
            let Some(said) = self.look_at((buffer, kept), at, ports) else {
                buffer.remove(kept, at);
                continue;
            };
            self.counts.examined_packets += 1;
            if let Some(protocol) = self.learn(&mut buffer.row, said) {
                buffer.truncate(at + 1);
                return State::Found(protocol);
            }
            at += 1;
        }
        if usize::from(buffer.before) + buffer.len() < usize::from(packets) {
            return State::Open;
        }
        self.read_what_waits((buffer, kept), ports).map_or(State::NoMatch, State::Found)
    }

    /// Returns the result of a packet, and of early segments that are next with it. `None`: it has no new
    /// bytes.
    fn look_at(&mut self, (buffer, kept): (&mut Buffer, &Kept), at: usize, ports: (u16, u16)) -> Option<Said> {
        let old = match buffer.place(at) {
            Order::Alone(said) => return Some(said),
            Order::Again => return None,
            Order::Early => {
                self.counts.reordered_packets += u64::from(at + 1 == buffer.len());
                return Some(Said::Nothing);
            }
            Order::Next(old) => old,
        };
        self.matched.clear();
        let mut next = Some((at, old));
        while let Some((piece, old)) = next {
            let (side, payload) = buffer.join(kept, piece, old);
            self.read_on(side, payload, ports);
            next = buffer.next_piece(at);
        }
        Some(self.matched.says(self.table, ports))
    }

    /// Reads the next bytes of one side's stream.
    fn read_on(&mut self, side: &mut Side, payload: &[u8], ports: (u16, u16)) {
        self.counts.examined_bytes += payload.len() as u64;
        if side.begun {
            self.engine.read_whole(Transport::Tcp, ports, payload, &mut self.matched);
        } else {
            self.engine.begin(&mut side.stream, ports);
            side.begun = true;
        }
        self.engine.read(&mut side.stream, payload, &mut self.matched);
    }

    /// Reads each segment that is still early by itself: the bytes before it will not come in time.
    fn read_what_waits(&mut self, (buffer, kept): (&Buffer, &Kept), ports: (u16, u16)) -> Option<u8> {
        (0..buffer.len()).find_map(|at| {
            let bytes = buffer.waiting(kept, at)?;
            self.matched.clear();
            self.engine.read_whole(Transport::Tcp, ports, bytes, &mut self.matched);
            if let Said::Protocol(protocol) = self.matched.says(self.table, ports) { Some(protocol) } else { None }
        })
    }

    /// Adds the result of one packet. Returns the protocol, if it is certain by now.
    fn learn(&self, (candidate, times): &mut (u16, u8), said: Said) -> Option<u8> {
        match said {
            Said::Protocol(protocol) => Some(protocol),
            Said::Nothing => {
                *times = 0;
                None
            }
            Said::Maybe(signature) => {
                *times = if *times > 0 && *candidate == signature { *times + 1 } else { 1 };
                *candidate = signature;
                let known = self.table.signatures.get(usize::from(signature))?;
                (*times >= known.times).then_some(known.protocol)
            }
        }
    }
}
