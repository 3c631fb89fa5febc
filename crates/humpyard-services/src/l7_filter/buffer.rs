//! The buffer of one connection: its first packets in the order in which they came in, and the positions in its
//! streams.
//!
//! A late packet is inserted at its place among them, and all packets are read again. So the result does not
//! depend on the order in which packets are handed in.

use super::engine::{Engine, Stream};
use super::kept::Kept;
use super::matched::Said;
use crate::service::ServiceError;

/// Most bytes between a segment and its stream's position. A segment further away belongs to another stream, or
/// much of the stream was not captured.
const WINDOW: u32 = 1 << 17;

/// The first packets of a connection.
#[derive(Debug)]
pub(super) struct Buffer {
    sides: [Side; 2],
    /// The packets: those in use first, in the order in which they came in.
    entries: Box<[Entry]>,
    used: usize,
    /// Whether a segment other than the current one may be unread at its place in the stream.
    waits: bool,
    /// A signature that needs several datagrams in a row, and the number of its matches.
    pub(super) row: (u16, u8),
    /// Packets read before this buffer was assigned.
    pub(super) before: u8,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) stream: Stream,
    /// The sequence number of its first byte, if its SYN has come.
    syn: Option<u32>,
    /// The first sequence number that was read.
    first: u32,
    /// The next sequence number, if a segment has come.
    next: Option<u32>,
    /// Whether a byte of the stream was read.
    pub(super) begun: bool,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its number among the packets that came in.
    sequence: u64,
    /// Where its bytes are kept.
    start: u64,
    content: Content,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// A datagram, with the result of its signatures.
    Datagram(Said),
    /// A segment of a stream, whose bytes are kept.
    Segment(Piece),
}

/// A segment of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) side: u8,
    /// The sequence number of its first byte.
    pub(super) number: u32,
    /// Its length, and the number of bytes kept, in bytes.
    pub(super) length: u32,
    pub(super) kept: u32,
    /// Whether it was read at its place.
    pub(super) read: bool,
}

/// How to read a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// It is not part of a stream.
    Alone(Said),
    /// It is next in its stream; skip this many bytes at its start, which were read before.
    Next(usize),
    /// All its bytes were read before.
    Again,
    /// Bytes before it are missing.
    Early,
}

impl Buffer {
    /// The memory of a packet besides its payload, in bytes.
    pub(super) const PACKET_BYTES: u64 = size_of::<Entry>() as u64;

    /// Returns an empty buffer for this many packets.
    ///
    /// # Errors
    /// If the engine has no memory for the streams.
    pub(super) fn new(packets: u8, engine: &Engine) -> Result<Self, ServiceError> {
        let side = || {
            let stream = engine.stream()?;
            Ok::<_, ServiceError>(Side { stream, syn: None, first: 0, next: None, begun: false })
        };
        let entry = Entry { sequence: 0, start: 0, content: Content::Datagram(Said::Nothing) };
        Ok(Self {
            sides: [side()?, side()?],
            entries: vec![entry; usize::from(packets)].into(),
            used: 0,
            waits: false,
            row: (0, 0),
            before: 0,
        })
    }

    /// Empties the buffer, for another connection.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.before = 0;
        self.sides.iter_mut().for_each(|side| side.syn = None);
        self.restart();
    }

    /// Marks all packets as unread.
    pub(super) fn restart(&mut self) {
        self.row = (0, 0);
        for side in &mut self.sides {
            (side.next, side.first, side.begun) = (side.syn, side.syn.unwrap_or(0), false);
        }
        self.unread(self.used, 0);
        self.unread(self.used, 1);
        self.waits = self.used > 0;
    }

    /// Returns the number of packets in the buffer.
    pub(super) const fn len(&self) -> usize {
        self.used
    }

    /// Returns whether the buffer has no room for another packet.
    pub(super) const fn is_full(&self) -> bool {
        self.used == self.entries.len()
    }

    /// Returns the number of its last packet among those that came in; 0 if it is empty.
    pub(super) fn last(&self) -> u64 {
        self.used.checked_sub(1).map_or(0, |last| self.entries[last].sequence)
    }

    /// Sets the begin of a side's stream. Returns true if the side was read from another number on, so that all
    /// packets must be read again.
    pub(super) fn begin(&mut self, side: usize, number: u32) -> bool {
        let side = &mut self.sides[side];
        side.syn = Some(number);
        if side.begun {
            return side.first != number;
        }
        (side.first, side.next) = (number, Some(number));
        false
    }

    /// Forgets the packets up to this one, and the begin of each stream.
    pub(super) fn forget(&mut self, sequence: u64) {
        let gone = self.until(sequence);
        self.entries[..self.used].rotate_left(gone);
        self.used -= gone;
        self.before = 0;
        self.sides.iter_mut().for_each(|side| side.syn = None);
        self.restart();
    }

    /// Inserts a packet at its place, and keeps its bytes; a full buffer loses its last packet. Returns the
    /// packet's index. `None`: the buffer is full, and all its packets came in earlier. If the packets cannot
    /// be read again, the place is behind them.
    pub(super) fn insert(&mut self, kept: &mut Kept, sequence: u64, content: Content, bytes: &[u8]) -> Option<usize> {
        let last = self.last();
        let in_order = last <= sequence || !self.is_in(kept);
        let (at, sequence) = if in_order { (self.used, sequence.max(last)) } else { (self.until(sequence), sequence) };
        if at == self.entries.len() {
            return None;
        }
        self.used = (self.used + 1).min(self.entries.len());
        self.entries[at..self.used].rotate_right(1);
        self.entries[at] = Entry { sequence, start: kept.put(bytes), content };
        Some(at)
    }

    /// Returns whether the bytes of all its packets are still kept, so that they can be read again.
    pub(super) fn is_in(&self, kept: &Kept) -> bool {
        self.entries[..self.used].iter().all(|entry| kept.has(entry.start))
    }

    /// Returns how many of its packets came in up to this one.
    fn until(&self, sequence: u64) -> usize {
        self.entries[..self.used].partition_point(|entry| entry.sequence <= sequence)
    }

    /// Removes a packet.
    pub(super) fn remove(&mut self, kept: &mut Kept, at: usize) {
        if let Entry { start, content: Content::Segment(piece), .. } = self.entries[at] {
            kept.take_back(start, piece.kept);
        }
        self.entries[at..self.used].rotate_left(1);
        self.used -= 1;
    }

    /// Forgets all packets after the first `packets`.
    pub(super) fn truncate(&mut self, packets: usize) {
        self.used = packets;
    }

    /// Finds the place of a packet in its stream. All packets before it must have been placed.
    ///
    /// A stream without a SYN begins with its lowest number. If this packet's number is lower than those read,
    /// the others become unread.
    pub(super) fn place(&mut self, at: usize) -> Order {
        let Piece { side, number, length, .. } = match self.entries[at].content {
            Content::Datagram(said) => return Order::Alone(said),
            Content::Segment(piece) => piece,
        };
        let of = usize::from(side);
        let side = &mut self.sides[of];
        let Some(next) = side.next else {
            (side.first, side.next) = (number, Some(number));
            return Order::Next(0);
        };
        if side.syn.is_none() && (1..=WINDOW).contains(&side.first.wrapping_sub(number)) {
            (side.first, side.next, side.begun) = (number, Some(number), false);
            self.unread(at, of);
            self.waits = true;
            return Order::Next(0);
        }
        let behind = next.wrapping_sub(number);
        if behind <= WINDOW {
            return if behind < length { Order::Next(behind as usize) } else { Order::Again };
        }
        if number.wrapping_sub(next) > WINDOW {
            // The stream continues at another number.
            (side.first, side.next) = (number, Some(number));
            return Order::Next(0);
        }
        self.waits = true;
        Order::Early
    }

    /// Marks the segments of a side among the first `packets` packets as unread.
    fn unread(&mut self, packets: usize, of: usize) {
        for entry in &mut self.entries[..packets] {
            if let Content::Segment(piece) = &mut entry.content {
                piece.read &= usize::from(piece.side) != of;
            }
        }
    }

    /// Marks a segment as read. Returns its side, and its bytes without the first `old`.
    pub(super) fn join<'a>(&mut self, kept: &'a Kept, at: usize, old: usize) -> (&mut Side, &'a [u8]) {
        let Entry { start, content: Content::Segment(piece), .. } = &mut self.entries[at] else {
            unreachable!("datagrams have no place in a stream")
        };
        piece.read = true;
        let side = &mut self.sides[usize::from(piece.side)];
        side.next = Some(piece.number.wrapping_add(piece.length));
        let bytes = kept.get(*start, piece.kept);
        (side, &bytes[old.min(bytes.len())..])
    }

    /// Finds a segment up to this packet that was early, and is next now. Returns its index, and how many of
    /// its bytes were read before.
    pub(super) fn next_piece(&mut self, upto: usize) -> Option<(usize, usize)> {
        if !self.waits {
            return None;
        }
        let Content::Segment(Piece { side, .. }) = self.entries[upto].content else { return None };
        let next = self.sides[usize::from(side)].next?;
        for (at, entry) in self.entries[..=upto].iter_mut().enumerate() {
            let Content::Segment(piece) = &mut entry.content else { continue };
            let behind = next.wrapping_sub(piece.number);
            if piece.read || piece.side != side || behind > WINDOW {
                continue;
            }
            if behind < piece.length {
                return Some((at, behind as usize));
            }
            piece.read = true;
        }
        None
    }

    /// Returns the bytes of a segment that is still early.
    pub(super) fn waiting<'a>(&self, kept: &'a Kept, at: usize) -> Option<&'a [u8]> {
        let Entry { start, content: Content::Segment(piece), .. } = self.entries[at] else { return None };
        (!piece.read).then(|| kept.get(start, piece.kept))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::l7_filter::engine::EngineName;

    fn buffer(packets: u8) -> (Buffer, Kept) {
        let kept = Kept::new(usize::from(packets) * 64);
        (Buffer::new(packets, &Engine::new(EngineName::Regex).unwrap()).unwrap(), kept)
    }

    fn segment(number: u32, bytes: &[u8]) -> Content {
        let length = bytes.len() as u32;
        Content::Segment(Piece { side: 0, number, length, kept: length, read: false })
    }

    /// Places the packets from this one on, and appends the new bytes of the stream to `read`.
    fn look((buffer, kept): &mut (Buffer, Kept), mut at: usize, read: &mut Vec<u8>) -> Vec<Order> {
        let mut orders = Vec::new();
        while at < buffer.len() {
            let order = buffer.place(at);
            orders.push(order);
            match order {
                Order::Again => {
                    buffer.remove(kept, at);
                    continue;
                }
                Order::Next(old) => {
                    if !buffer.sides[0].begun {
                        read.clear();
                    }
                    let (side, bytes) = buffer.join(kept, at, old);
                    side.begun = true;
                    read.extend_from_slice(bytes);
                    while let Some((piece, old)) = buffer.next_piece(at) {
                        read.extend_from_slice(buffer.join(kept, piece, old).1);
                    }
                }
                Order::Early | Order::Alone(_) => {}
            }
            at += 1;
        }
        orders
    }

    /// Hands in a packet with this number among those that came in.
    fn give(both: &mut (Buffer, Kept), sequence: u64, number: u32, bytes: &[u8], read: &mut Vec<u8>) -> Vec<Order> {
        let (buffer, kept) = both;
        let Some(mut at) = buffer.insert(kept, sequence, segment(number, bytes), bytes) else { return Vec::new() };
        if at + 1 < buffer.len() {
            buffer.restart();
            at = 0;
        }
        look(both, at, read)
    }

    #[test]
    fn segments_are_put_in_order() {
        let (mut buffer, mut read) = (buffer(8), Vec::new());
        assert!(!buffer.0.begin(0, u32::MAX));
        assert_eq!(give(&mut buffer, 0, 3, b"ef", &mut read), [Order::Early]);
        assert_eq!(give(&mut buffer, 0, 1, b"cdef", &mut read), [Order::Early]);
        assert_eq!(give(&mut buffer, 0, u32::MAX, b"ab", &mut read), [Order::Next(0)]);
        assert_eq!(read, b"abcdef");
        assert_eq!(give(&mut buffer, 0, 0, b"bc", &mut read), [Order::Again]);
        assert_eq!(give(&mut buffer, 0, 4, b"fgh", &mut read), [Order::Next(1)]);
        assert_eq!(give(&mut buffer, 0, 900_000, b"new", &mut read), [Order::Next(0)]);
        assert_eq!((&read[..], buffer.0.len()), (&b"abcdefghnew"[..], 5));
    }

    /// Without a SYN, a stream begins with its lowest number; with a SYN, at the SYN's number.
    #[test]
    fn where_a_stream_begins() {
        let (mut buffer, mut read) = (buffer(8), Vec::new());
        assert_eq!(give(&mut buffer, 0, 105, b"fgh", &mut read), [Order::Next(0)]);
        assert_eq!(give(&mut buffer, 0, 100, b"abc", &mut read), [Order::Next(0)]);
        assert_eq!(read, b"abc");
        assert_eq!(give(&mut buffer, 0, 102, b"cdef", &mut read), [Order::Next(1)]);
        assert_eq!(read, b"abcdefgh");
        assert!(!buffer.0.begin(0, 100));
        assert!(buffer.0.begin(0, 90));
        buffer.0.restart();
        read.clear();
        assert_eq!(look(&mut buffer, 0, &mut read), [Order::Early; 3]);
        assert_eq!((buffer.0.waiting(&buffer.1, 0), &read[..]), (Some(&b"fgh"[..]), &b""[..]));
    }

    #[test]
    fn those_that_came_in_first_stay() {
        let (mut buffer, mut read) = (buffer(3), Vec::new());
        for (sequence, number, bytes) in [(4, 5, b"e"), (9, 6, b"f"), (7, 9, b"i"), (2, 3, b"c")] {
            give(&mut buffer, sequence, number, bytes, &mut read);
        }
        assert_eq!((&read[..], buffer.0.last()), (&b"c"[..], 7));
        assert!(give(&mut buffer, 8, 4, b"d", &mut read).is_empty());
        give(&mut buffer, 3, 4, b"d", &mut read);
        assert_eq!((&read[..], buffer.0.last()), (&b"cde"[..], 4));
        buffer.0.forget(3);
        read.clear();
        assert_eq!((look(&mut buffer, 0, &mut read), &read[..]), (vec![Order::Next(0)], &b"e"[..]));
    }

    proptest! {
        /// For any order of overlapping segments, the bytes read are those read in order: the stream up to its
        /// first gap.
        #[test]
        fn any_order(
            start: u32,
            begins: bool,
            (cuts, order) in proptest::collection::vec((0usize..60, 1usize..20), 1..20)
                .prop_flat_map(|cuts| (Just(cuts.clone()), Just((0..cuts.len()).collect::<Vec<_>>()).prop_shuffle())),
        ) {
            let whole: Vec<u8> = (0..80).collect();
            let run = |order: &[usize]| {
                let (mut buffer, mut read) = (buffer(20), Vec::new());
                if begins {
                    buffer.0.begin(0, start);
                }
                for &packet in order {
                    let (at, length) = cuts[packet];
                    let bytes = &whole[at..(at + length).min(80)];
                    give(&mut buffer, packet as u64, start.wrapping_add(at as u32), bytes, &mut read);
                }
                read
            };
            let read = run(&order);
            let begin = if begins { 0 } else { cuts.iter().map(|&(at, _)| at).min().unwrap() };
            prop_assert_eq!(&read[..], &whole[begin..begin + read.len()]);
            prop_assert_eq!(&read, &run(&(0..cuts.len()).collect::<Vec<_>>()));
        }
    }
}
