//! The buffer of one connection: its first packets in the order in which they came in, and how far its streams were read.
//!
//! What comes later than it should is put in its place among them, and all are read anew: so what is found in them does not depend on
//! the order in which they were handed in.

use super::engine::{Engine, Stream};
use super::kept::Kept;
use super::matched::Said;
use crate::service::ServiceError;

/// What is further ahead of a stream, or behind it, is of another, or of one of which much was not captured.
const WINDOW: u32 = 1 << 17;

/// The first packets of a connection.
#[derive(Debug)]
pub(super) struct Buffer {
    sides: [Side; 2],
    /// Those in use first, in the order in which they came in.
    entries: Box<[Entry]>,
    used: usize,
    /// Whether there may be a segment that was not read in its place, besides the one that is looked at.
    waits: bool,
    /// A signature that takes several datagrams in a row, and how many have matched.
    pub(super) row: (u16, u8),
    /// Packets that were read before this buffer was there.
    pub(super) before: u8,
}

/// What one side sends.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) stream: Stream,
    /// Where it begins, if its SYN has come.
    syn: Option<u32>,
    /// The first sequence number that was read.
    first: u32,
    /// The sequence number that comes next, if one has come.
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

/// What is known of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// Of a datagram what was found in it.
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
    /// How many bytes it has, and how many of them are kept.
    pub(super) length: u32,
    pub(super) kept: u32,
    /// Whether it was read in its place.
    pub(super) read: bool,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// It is no part of a stream.
    Alone(Said),
    /// It is next, but for so many bytes at its start that were there already.
    Next(usize),
    /// All of it was there already.
    Again,
    /// Something before it is missing.
    Early,
}

impl Buffer {
    /// The memory that a packet takes besides what it carries, in bytes.
    pub(super) const PACKET_BYTES: u64 = size_of::<Entry>() as u64;

    /// An empty buffer, for so many packets.
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

    /// Makes it empty, for another connection.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.before = 0;
        self.sides.iter_mut().for_each(|side| side.syn = None);
        self.restart();
    }

    /// Makes nothing of it read.
    pub(super) fn restart(&mut self) {
        self.row = (0, 0);
        for side in &mut self.sides {
            (side.next, side.first, side.begun) = (side.syn, side.syn.unwrap_or(0), false);
        }
        self.unread(self.used, 0);
        self.unread(self.used, 1);
        self.waits = self.used > 0;
    }

    /// How many packets are in it.
    pub(super) const fn len(&self) -> usize {
        self.used
    }

    /// Whether there is room for no more packets.
    pub(super) const fn is_full(&self) -> bool {
        self.used == self.entries.len()
    }

    /// The number of its last packet among those that came in; 0 if it is empty.
    pub(super) fn last(&self) -> u64 {
        self.used.checked_sub(1).map_or(0, |last| self.entries[last].sequence)
    }

    /// A side begins here. True if something of it was read from elsewhere on, and all has to be read anew.
    pub(super) fn begin(&mut self, side: usize, number: u32) -> bool {
        let side = &mut self.sides[side];
        side.syn = Some(number);
        if side.begun {
            return side.first != number;
        }
        (side.first, side.next) = (number, Some(number));
        false
    }

    /// Forgets the packets that came in up to this one, and where streams began.
    pub(super) fn forget(&mut self, sequence: u64) {
        let gone = self.until(sequence);
        self.entries[..self.used].rotate_left(gone);
        self.used -= gone;
        self.before = 0;
        self.sides.iter_mut().for_each(|side| side.syn = None);
        self.restart();
    }

    /// Puts a packet in its place, for which the last may have to go, and its bytes where they are kept; its index, or none if all
    /// that are there came in before it, and there is no room. Where those cannot be read anew its place is behind them.
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

    /// Whether the bytes of all its packets are there, to be read anew.
    pub(super) fn is_in(&self, kept: &Kept) -> bool {
        self.entries[..self.used].iter().all(|entry| kept.has(entry.start))
    }

    /// How many of its packets came in up to this one.
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

    /// Forgets all packets behind the first so many.
    pub(super) fn truncate(&mut self, packets: usize) {
        self.used = packets;
    }

    /// Finds out where in its stream a packet belongs; all before it have been looked at.
    ///
    /// A stream of which no SYN has come begins with the lowest number: where this one is lower than those read, they have not been read.
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
            // The stream goes on somewhere else.
            (side.first, side.next) = (number, Some(number));
            return Order::Next(0);
        }
        self.waits = true;
        Order::Early
    }

    /// Makes the segments of a side among the first so many packets unread.
    fn unread(&mut self, packets: usize, of: usize) {
        for entry in &mut self.entries[..packets] {
            if let Content::Segment(piece) = &mut entry.content {
                piece.read &= usize::from(piece.side) != of;
            }
        }
    }

    /// A segment's side, whose stream it has joined now, and its bytes, but for so many of the first.
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

    /// Of the packets up to this one a segment that was early, and is no more: its index, and how many of its bytes were there already.
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

    /// The bytes of a segment that nothing has led to.
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

    /// Looks at the packets from this one on, and adds to `read` what the stream goes on by.
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

    /// Without a SYN the lowest number is the beginning; with one it is that.
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
        /// Whatever the order in which overlapping segments are handed in, what is read is what is read when they come in order, and
        /// that is the stream as far as it has no hole.
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
