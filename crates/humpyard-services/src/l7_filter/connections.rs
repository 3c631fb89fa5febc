//! The connections, shared by all instances: their verdicts, and the buffers that reassemble the streams of
//! connections without a verdict.
//!
//! The table has parts, each with its own lock, so that workers seldom wait for each other. Several workers may
//! have packets of one connection. All memory is allocated at the start.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::buffer::Buffer;
use super::engine::Engine;
use super::kept::Kept;
use crate::memory::Memory;
use crate::service::ServiceError;

/// Parts of the table; a power of two.
const PARTS: usize = 32;
/// Buffers per part that keep their packets after they were returned, for packets that were overtaken. With
/// more, a reused buffer would no longer be in the processor's caches.
const KEPT: usize = 32;

/// Returns the memory of `buffers` buffers for `packets` packets of `bytes` bytes, in bytes. Streams of
/// Vectorscan need more.
pub(super) const fn buffered(buffers: u64, packets: u64, bytes: u64) -> u64 {
    let parts = PARTS as u64;
    let places = size_of::<Place>() as u64 + packets * Buffer::PACKET_BYTES;
    parts * (buffers.div_ceil(parts) * (places + bytes) + packets * bytes)
}

/// The state of a connection.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Known {
    pub(super) state: State,
    /// Packets read for it.
    pub(super) examined: u8,
    /// The side and the number of its SYN, if it has come.
    syn: Option<(bool, u32)>,
    /// Whether a FIN or a reset has come.
    closed: bool,
    /// The number of its SYN, or else of its first known packet, among the packets that came in.
    since: u64,
    /// The number of the packet that gave the verdict. A packet that came in earlier may change it.
    pub(super) decided: u64,
    /// The buffer that it got.
    buffer: u32,
    /// The ticket: the buffer still has its packets if its ticket is the same. 0: it never had a buffer.
    ticket: u32,
}

/// The verdict on a connection, if there is one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// No packet was seen.
    #[default]
    New,
    /// No verdict yet (`NO_MATCH_YET`).
    Open,
    /// The protocol was found.
    Found(u8),
    /// No signature matched its first packets (`NO_MATCH`).
    NoMatch,
}

impl State {
    /// Returns whether there is a verdict.
    #[inline]
    pub(super) const fn is_verdict(self) -> bool {
        matches!(self, Self::Found(_) | Self::NoMatch)
    }

    /// Returns the protocol, if it is known.
    #[inline]
    pub(super) const fn protocol(self) -> Option<u8> {
        if let Self::Found(protocol) = self { Some(protocol) } else { None }
    }
}

impl Known {
    /// Returns whether a packet with this number came in before the connection began: it belongs to an earlier
    /// connection.
    #[inline]
    pub(super) fn is_before(&self, sequence: u64) -> bool {
        self.syn.is_some() && sequence < self.since
    }

    /// Handles a SYN. Returns true if it starts another connection than the known one: the known one has
    /// another SYN or none, or is closed.
    pub(super) fn on_syn(&mut self, side: usize, number: u32, sequence: u64) -> bool {
        let syn = Some((side == 1, number));
        if self.syn == syn && !self.closed {
            return false;
        }
        let another = self.state != State::New && sequence >= self.since;
        (self.syn, self.since, self.closed) = (syn, sequence, false);
        another
    }

    /// Handles a packet, which may close the connection.
    #[inline]
    pub(super) fn on_packet(&mut self, sequence: u64, closes: bool) {
        self.closed |= closes;
        if self.syn.is_none() {
            self.since = if self.state == State::New { sequence } else { self.since.min(sequence) };
        }
    }
}

/// All connections.
pub(super) struct Connections {
    parts: Box<[Mutex<Part>]>,
}

/// One part of the table.
pub(super) struct Part {
    known: Memory<Known>,
    buffers: Box<[Place]>,
    /// The payloads of the packets in the buffers.
    kept: Kept,
    /// Returned buffers, the latest at the end.
    free: VecDeque<u32>,
    /// The buffer to take next from a connection if none is free.
    hand: u32,
    /// The last ticket given.
    ticket: u32,
}

/// A buffer, with its owner.
struct Place {
    /// The ticket of the connection whose packets are in the buffer.
    ticket: u32,
    /// Whether that connection still owns it; otherwise it is free.
    lent: bool,
    buffer: Buffer,
}

impl Connections {
    /// Returns a table for `connections` connections, and `buffers` buffers of `packets` packets. The buffers
    /// share the memory of `bytes` bytes each for payloads.
    ///
    /// # Errors
    /// If the engine has no memory for their streams.
    pub(super) fn new(
        connections: usize,
        buffers: usize,
        (packets, bytes): (u8, usize),
        engine: &Engine,
    ) -> Result<Self, ServiceError> {
        let part = || {
            let place = || Ok(Place { ticket: 0, lent: false, buffer: Buffer::new(packets, engine)? });
            // There is always room for the packets of one connection.
            let kept = Kept::new((buffers.div_ceil(PARTS) + usize::from(packets)) * bytes);
            let buffers = (0..buffers.div_ceil(PARTS)).map(|_| place());
            let buffers: Box<[Place]> = buffers.collect::<Result<_, ServiceError>>()?;
            let free = (0..buffers.len() as u32).rev().collect();
            let known = Memory::new(connections.div_ceil(PARTS));
            Ok(Mutex::new(Part { known, buffers, kept, free, hand: 0, ticket: 0 }))
        };
        Ok(Self { parts: (0..PARTS).map(|_| part()).collect::<Result<_, ServiceError>>()? })
    }

    /// Locks the part of a connection. The key must be a hash.
    #[inline]
    pub(super) fn part(&self, key: u64) -> MutexGuard<'_, Part> {
        let part = &self.parts[(key >> 32) as usize % PARTS];
        // A panic under the lock leaves at most one connection in a wrong state.
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// Returns the state of a connection.
    #[inline]
    pub(super) fn get(&mut self, key: u64) -> &mut Known {
        let (known, forgotten) = self.known.get(key);
        if let Some(forgotten) = forgotten {
            let place = &mut self.buffers[forgotten.buffer as usize];
            if forgotten.ticket != 0 && place.ticket == forgotten.ticket {
                place.ticket = 0;
                if core::mem::take(&mut place.lent) {
                    self.free.push_back(forgotten.buffer);
                }
            }
        }
        known
    }

    /// Returns the state of a connection, with its buffer. A connection without one gets an empty buffer, which
    /// another connection may lose.
    pub(super) fn with_buffer(&mut self, key: u64) -> (&mut Known, &mut Buffer, &mut Kept) {
        let (known, _) = self.known.get(key);
        let place = &self.buffers[known.buffer as usize];
        if known.ticket == 0 || place.ticket != known.ticket || !place.lent {
            known.buffer = free(&mut self.free).unwrap_or_else(|| {
                self.hand = (self.hand + 1) % self.buffers.len() as u32;
                self.hand
            });
            self.ticket = self.ticket.wrapping_add(1).max(1);
            known.ticket = self.ticket;
            let place = &mut self.buffers[known.buffer as usize];
            (place.ticket, place.lent) = (self.ticket, true);
            place.buffer.clear();
            place.buffer.before = known.examined;
        }
        let at = known.buffer as usize;
        (known, &mut self.buffers[at].buffer, &mut self.kept)
    }

    /// Returns the state of a connection that has returned its buffer, and the buffer, if its packets are still
    /// there.
    pub(super) fn kept(&mut self, key: u64) -> Option<(&mut Known, &mut Buffer, &mut Kept)> {
        let (known, _) = self.known.get(key);
        let Place { ticket, buffer, .. } = &mut self.buffers[known.buffer as usize];
        let is_there = known.ticket != 0 && *ticket == known.ticket && buffer.is_in(&self.kept);
        is_there.then_some((known, buffer, &mut self.kept))
    }

    /// Takes back the buffer of a connection that has its verdict. The packets stay until another connection
    /// needs the buffer.
    pub(super) fn give_back(&mut self, key: u64) {
        let (known, _) = self.known.get(key);
        let place = &mut self.buffers[known.buffer as usize];
        if known.ticket != 0 && place.ticket == known.ticket && core::mem::take(&mut place.lent) {
            self.free.push_back(known.buffer);
        }
    }

    /// Lends a connection its returned buffer again, which must still have its packets.
    pub(super) fn lend_again(&mut self, key: u64) {
        let (known, _) = self.known.get(key);
        self.buffers[known.buffer as usize].lent = true;
        self.free.retain(|&buffer| buffer != known.buffer);
    }

    /// Begins another connection between the same addresses and ports, with the packet of this number. It keeps
    /// the SYN in the state, and the packets that came in later.
    pub(super) fn begin_anew(&mut self, key: u64, sequence: u64) -> &mut Known {
        let (known, _) = self.known.get(key);
        let place = &mut self.buffers[known.buffer as usize];
        let lent = known.ticket != 0 && place.ticket == known.ticket && place.lent;
        if lent {
            place.buffer.forget(sequence);
        }
        let ticket = if lent { known.ticket } else { 0 };
        *known = Known { state: State::New, examined: 0, decided: 0, ticket, ..*known };
        known
    }
}

/// Takes a free buffer: one returned a while ago, or, if few are free, the one returned first.
fn free(buffers: &mut VecDeque<u32>) -> Option<u32> {
    let longest = buffers.len().saturating_sub(1 + KEPT);
    buffers.remove(longest)
}

#[cfg(test)]
mod tests {
    use humpyard_core::hash::mix;

    use super::*;
    use crate::l7_filter::engine::EngineName;

    /// However many connections come and go, every buffer belongs to one connection or is free.
    #[test]
    fn no_buffer_is_lost_and_none_has_two_owners() {
        let connections = Connections::new(64, 40, (2, 64), &Engine::new(EngineName::Regex).unwrap()).unwrap();
        for number in 0..20_000_u64 {
            let key = mix(number * number % 3001);
            let mut part = connections.part(key);
            part.get(key);
            part.with_buffer(key);
            match number % 5 {
                0 => part.give_back(key),
                1 => {
                    part.give_back(key);
                    assert!(part.kept(key).is_some());
                    part.lend_again(key);
                }
                2 => {
                    part.begin_anew(key, number);
                }
                _ => {}
            }
        }
        for part in &connections.parts {
            let part = part.lock().unwrap();
            let mut free: Vec<u32> = part.free.iter().copied().collect();
            free.sort_unstable();
            let not_lent = (0..part.buffers.len()).filter(|&at| !part.buffers[at].lent);
            assert_eq!(free, not_lent.map(|at| at as u32).collect::<Vec<_>>());
            let lent = part.buffers.iter().filter(|place| place.lent);
            let tickets: Vec<u32> = lent.map(|place| place.ticket).collect();
            let owners = |&ticket: &u32| part.known.values().filter(|known| known.ticket == ticket).count();
            assert!(tickets.iter().all(|ticket| owners(ticket) == 1));
        }
    }
}
