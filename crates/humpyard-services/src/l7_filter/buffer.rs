//! The buffer of one connection: how far its streams were read, and what came too early.

use super::engine::{Engine, Stream};
use crate::service::ServiceError;

/// Segments that are kept until those before them have come.
const PIECES_MAX: usize = 8;
/// What is further ahead of a stream is of another, or of one of which much was not captured.
const WINDOW: u32 = 1 << 17;

/// The two streams of a connection.
#[derive(Debug)]
pub(super) struct Buffer {
    sides: [Side; 2],
    pieces: [Piece; PIECES_MAX],
    pieces_used: usize,
    /// The bytes of the pieces, one behind the other.
    bytes: Box<[u8]>,
    bytes_used: usize,
}

/// What one side sends.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) stream: Stream,
    /// The sequence number that comes next, if one has come.
    next: Option<u32>,
    /// Whether a byte of the stream was read.
    pub(super) begun: bool,
}

/// A segment that came too early.
#[derive(Clone, Copy, Default, Debug)]
struct Piece {
    side: u8,
    sequence: u32,
    start: usize,
    length: usize,
}

/// What is to be done with a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// It is next, but for so many bytes at its start that were there already.
    Next(usize),
    /// All of it was there already.
    Again,
    /// It was put by.
    Early,
    /// It came too early, and there is no room for it.
    NoRoom,
}

impl Buffer {
    /// An empty buffer, with room for so many bytes that come too early.
    ///
    /// # Errors
    /// If the engine has no memory for the streams.
    pub(super) fn new(bytes: usize, engine: &Engine) -> Result<Self, ServiceError> {
        let side = || Ok::<_, ServiceError>(Side { stream: engine.stream()?, next: None, begun: false });
        Ok(Self {
            sides: [side()?, side()?],
            pieces: [Piece::default(); PIECES_MAX],
            pieces_used: 0,
            bytes: vec![0; bytes].into(),
            bytes_used: 0,
        })
    }

    /// Makes it empty, for another connection.
    pub(super) fn clear(&mut self) {
        for side in &mut self.sides {
            (side.next, side.begun) = (None, false);
        }
        (self.pieces_used, self.bytes_used) = (0, 0);
    }

    /// A side begins: this number comes next, unless something of it was read already.
    pub(super) fn begin(&mut self, side: usize, next: u32) {
        let side = &mut self.sides[side];
        if !side.begun {
            side.next = Some(next);
        }
    }

    /// Finds out where in its stream a segment belongs, and puts it by if it came too early.
    pub(super) fn place(&mut self, side: usize, sequence: u32, payload: &[u8]) -> Order {
        let next = *self.sides[side].next.get_or_insert(sequence);
        let ahead = sequence.wrapping_sub(next);
        let behind = next.wrapping_sub(sequence);
        if behind <= WINDOW {
            let old = behind as usize;
            return if old < payload.len() { Order::Next(old) } else { Order::Again };
        }
        if ahead > WINDOW {
            // The stream goes on somewhere else.
            self.sides[side].next = Some(sequence);
            return Order::Next(0);
        }
        let end = self.bytes_used + payload.len();
        let (Some(piece), Some(bytes)) =
            (self.pieces.get_mut(self.pieces_used), self.bytes.get_mut(self.bytes_used..end))
        else {
            return Order::NoRoom;
        };
        bytes.copy_from_slice(payload);
        *piece = Piece { side: side as u8, sequence, start: self.bytes_used, length: payload.len() };
        self.pieces_used += 1;
        self.bytes_used = end;
        Order::Early
    }

    /// A side, whose stream has been given so many bytes more.
    pub(super) fn advance(&mut self, side: usize, bytes: usize) -> &mut Side {
        let side = &mut self.sides[side];
        side.next = side.next.map(|next| next.wrapping_add(bytes as u32));
        side
    }

    /// A piece of which the next byte of this side is part, from that byte on; it is no longer kept.
    pub(super) fn next_piece(&mut self, side: usize) -> Option<(&mut Side, &[u8])> {
        let next = self.sides[side].next?;
        let old = |piece: &Piece| next.wrapping_sub(piece.sequence);
        let mut at = 0;
        while at < self.pieces_used {
            let piece = self.pieces[at];
            if usize::from(piece.side) == side && old(&piece) <= WINDOW {
                self.remove(at);
                let old = old(&piece) as usize;
                if old < piece.length {
                    let side = &mut self.sides[side];
                    side.next = Some(next.wrapping_add((piece.length - old) as u32));
                    return Some((side, &self.bytes[piece.start + old..piece.start + piece.length]));
                }
            } else {
                at += 1;
            }
        }
        None
    }

    /// Any piece that is kept, with what follows it no more: for when what is before it will not come.
    pub(super) fn any_piece(&mut self) -> Option<&[u8]> {
        let last = self.pieces_used.checked_sub(1)?;
        let Piece { start, length, .. } = self.pieces[last];
        self.pieces_used = last;
        Some(&self.bytes[start..start + length])
    }

    fn remove(&mut self, at: usize) {
        self.pieces.copy_within(at + 1..self.pieces_used, at);
        self.pieces_used -= 1;
        if self.pieces_used == 0 {
            self.bytes_used = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::l7_filter::engine::EngineName;

    fn buffer(bytes: usize) -> Buffer {
        Buffer::new(bytes, &Engine::new(EngineName::Regex).unwrap()).unwrap()
    }

    /// Gives a segment, and adds to `read` what the stream goes on by.
    fn give(buffer: &mut Buffer, sequence: u32, payload: &[u8], read: &mut Vec<u8>) -> Order {
        let order = buffer.place(0, sequence, payload);
        if let Order::Next(old) = order {
            read.extend_from_slice(&payload[old..]);
            buffer.advance(0, payload.len() - old);
            while let Some((_, bytes)) = buffer.next_piece(0) {
                read.extend_from_slice(bytes);
            }
        }
        order
    }

    #[test]
    fn segments_are_put_in_order() {
        let (mut buffer, mut read) = (buffer(8), Vec::new());
        buffer.begin(0, u32::MAX);
        assert_eq!(give(&mut buffer, 3, b"ef", &mut read), Order::Early);
        assert_eq!(give(&mut buffer, 1, b"cdef", &mut read), Order::Early);
        assert_eq!(give(&mut buffer, 20, b"xyz", &mut read), Order::NoRoom);
        assert_eq!(give(&mut buffer, u32::MAX, b"ab", &mut read), Order::Next(0));
        assert_eq!(read, b"abcdef");
        assert_eq!(give(&mut buffer, 0, b"bc", &mut read), Order::Again);
        assert_eq!(give(&mut buffer, 4, b"fgh", &mut read), Order::Next(1));
        assert_eq!(give(&mut buffer, 900_000, b"new", &mut read), Order::Next(0));
        assert_eq!(read, b"abcdefghnew");
    }

    #[test]
    fn what_waits_in_vain_is_read_by_itself() {
        let mut buffer = buffer(8);
        buffer.begin(1, 0);
        assert_eq!(buffer.place(1, 5, b"later"), Order::Early);
        assert_eq!(buffer.any_piece(), Some(&b"later"[..]));
        assert_eq!(buffer.any_piece(), None);
    }

    proptest! {
        /// Whatever the order in which overlapping segments come, what is read is the stream as far as it has no hole.
        #[test]
        fn any_order(start: u32, cuts in proptest::collection::vec((0usize..60, 1usize..20), 1..30)) {
            let whole: Vec<u8> = (0..80).collect();
            let (mut buffer, mut read) = (buffer(4096), Vec::new());
            buffer.begin(0, start);
            for (at, length) in cuts {
                give(&mut buffer, start.wrapping_add(at as u32), &whole[at..(at + length).min(80)], &mut read);
                prop_assert_eq!(&read[..], &whole[..read.len()]);
                prop_assert!(buffer.pieces_used <= PIECES_MAX);
            }
        }
    }
}
