//! What is known of connections, shared by all instances: verdicts, and for connections that have none yet the buffers in which
//! their streams are put together.
//!
//! It is in parts, each behind a lock of its own, so that workers seldom wait for each other, though the packets of one
//! connection may be with several of them. All memory is taken at the start.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::buffer::Buffer;
use super::engine::Engine;
use super::kept::Kept;
use crate::memory::Memory;
use crate::service::ServiceError;

/// Parts; a power of two.
const PARTS: usize = 32;
/// So many buffers of each part stay as they are after they were given back, for packets that were overtaken; more would only be
/// out of the processor's caches when they are needed again.
const KEPT: usize = 32;

/// The memory that so many buffers take for so many packets of so many bytes, in bytes; streams of Vectorscan take more.
pub(super) const fn buffered(buffers: u64, packets: u64, bytes: u64) -> u64 {
    let parts = PARTS as u64;
    let places = size_of::<Place>() as u64 + packets * Buffer::PACKET_BYTES;
    parts * (buffers.div_ceil(parts) * (places + bytes) + packets * bytes)
}

/// What is known of a connection.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Known {
    pub(super) state: State,
    /// Packets that were read for it.
    pub(super) examined: u8,
    /// The side and the number of its SYN, if that has come.
    syn: Option<(bool, u32)>,
    /// Whether a FIN or a reset has come.
    closed: bool,
    /// The number of its SYN among the packets that came in, or of the first that is known.
    since: u64,
    /// The number of the packet that brought the verdict; what came in before it may bring another.
    pub(super) decided: u64,
    /// The buffer it was given.
    buffer: u32,
    /// The buffer still has its packets if that has this ticket; 0 if it never had one.
    ticket: u32,
}

/// Whether it is known what a connection speaks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nothing was seen of it.
    #[default]
    New,
    /// Not yet (`NO_MATCH_YET`).
    Open,
    /// This protocol.
    Found(u8),
    /// None of its first packets said anything (`NO_MATCH`).
    NoMatch,
}

impl State {
    /// Whether there is a verdict.
    #[inline]
    pub(super) const fn is_verdict(self) -> bool {
        matches!(self, Self::Found(_) | Self::NoMatch)
    }

    /// The protocol, where it is known.
    #[inline]
    pub(super) const fn protocol(self) -> Option<u8> {
        if let Self::Found(protocol) = self { Some(protocol) } else { None }
    }
}

impl Known {
    /// Whether a packet with this number came in before the connection began: it is of one before it.
    #[inline]
    pub(super) fn is_before(&self, sequence: u64) -> bool {
        self.syn.is_some() && sequence < self.since
    }

    /// A side has asked for a connection. True if it is another than the one that is known: that began elsewhere, is over, or had
    /// come so far without a SYN.
    pub(super) fn on_syn(&mut self, side: usize, number: u32, sequence: u64) -> bool {
        let syn = Some((side == 1, number));
        if self.syn == syn && !self.closed {
            return false;
        }
        let another = self.state != State::New && sequence >= self.since;
        (self.syn, self.since, self.closed) = (syn, sequence, false);
        another
    }

    /// A packet of it has come, and may have closed it.
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

/// Some of the connections.
pub(super) struct Part {
    known: Memory<Known>,
    buffers: Box<[Place]>,
    /// What the packets in the buffers carry.
    kept: Kept,
    /// Buffers that were given back, the last at the end.
    free: VecDeque<u32>,
    /// The buffer that is taken next from a connection, where none is free.
    hand: u32,
    /// The last ticket given.
    ticket: u32,
}

/// A buffer.
struct Place {
    /// The ticket of the connection whose packets are in it.
    ticket: u32,
    /// Whether it is that connection's still, or free.
    lent: bool,
    buffer: Buffer,
}

impl Connections {
    /// Room for so many connections, and so many buffers for so many packets; what these carry is kept as if it were so many bytes in
    /// each buffer.
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
            // One connection's packets have room in any case.
            let kept = Kept::new((buffers.div_ceil(PARTS) + usize::from(packets)) * bytes);
            let buffers = (0..buffers.div_ceil(PARTS)).map(|_| place());
            let buffers: Box<[Place]> = buffers.collect::<Result<_, ServiceError>>()?;
            let free = (0..buffers.len() as u32).rev().collect();
            let known = Memory::new(connections.div_ceil(PARTS));
            Ok(Mutex::new(Part { known, buffers, kept, free, hand: 0, ticket: 0 }))
        };
        Ok(Self { parts: (0..PARTS).map(|_| part()).collect::<Result<_, ServiceError>>()? })
    }

    /// The part of a connection. The key must be a hash.
    #[inline]
    pub(super) fn part(&self, key: u64) -> MutexGuard<'_, Part> {
        let part = &self.parts[(key >> 32) as usize % PARTS];
        // A panic while it was held left at worst one connection as it should not be.
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// What is known of a connection.
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

    /// What is known of a connection, with its buffer: an empty one if it has none, for which another connection may lose its own.
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

    /// What is known of a connection that has given its buffer back, with that, if its packets are still there, and what they carry.
    pub(super) fn kept(&mut self, key: u64) -> Option<(&mut Known, &mut Buffer, &mut Kept)> {
        let (known, _) = self.known.get(key);
        let Place { ticket, buffer, .. } = &mut self.buffers[known.buffer as usize];
        let is_there = known.ticket != 0 && *ticket == known.ticket && buffer.is_in(&self.kept);
        is_there.then_some((known, buffer, &mut self.kept))
    }

    /// Takes back the buffer of a connection that has its verdict. Its packets stay there until another connection needs it.
    pub(super) fn give_back(&mut self, key: u64) {
        let (known, _) = self.known.get(key);
        let place = &mut self.buffers[known.buffer as usize];
        if known.ticket != 0 && place.ticket == known.ticket && core::mem::take(&mut place.lent) {
            self.free.push_back(known.buffer);
        }
    }

    /// Lends a connection the buffer again that it has given back, and in which its packets are still.
    pub(super) fn lend_again(&mut self, key: u64) {
        let (known, _) = self.known.get(key);
        self.buffers[known.buffer as usize].lent = true;
        self.free.retain(|&buffer| buffer != known.buffer);
    }

    /// Another connection begins between the same addresses and ports, with the packet of this number. It has of what is known of
    /// that before it how it began, and the packets that came in later.
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

/// A buffer that was given back a while ago, or of few the one that was so first.
fn free(buffers: &mut VecDeque<u32>) -> Option<u32> {
    let longest = buffers.len().saturating_sub(1 + KEPT);
    buffers.remove(longest)
}

#[cfg(test)]
mod tests {
    use humpyard_core::hash::mix;

    use super::*;
    use crate::l7_filter::engine::EngineName;

    /// However many connections come and go, every buffer belongs to one of them or is free.
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
