//! What is known of connections, shared by all instances: verdicts, and for connections that have none yet the buffers in which
//! their streams are put together.
//!
//! It is in parts, each behind a lock of its own, so that workers seldom wait for each other, though the packets of one
//! connection may be with several of them. All memory is taken at the start.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::buffer::Buffer;
use super::engine::Engine;
use crate::memory::Memory;
use crate::service::ServiceError;

/// Parts; a power of two.
const PARTS: usize = 32;

/// What is known of a connection.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Known {
    pub(super) state: State,
    /// Packets that were given to the engine, or put by.
    pub(super) examined: u8,
    /// A signature that has matched, but not often enough, and how often it has.
    pub(super) candidate: u16,
    pub(super) matched: u8,
    /// The buffer it was given.
    buffer: u32,
    /// The buffer is still its own if that has this ticket; 0 if it never had one, or gave it back.
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

/// All connections.
pub(super) struct Connections {
    parts: Box<[Mutex<Part>]>,
}

/// Some of the connections.
pub(super) struct Part {
    known: Memory<Known>,
    buffers: Box<[Place]>,
    free: Vec<u32>,
    /// The buffer that is taken next from a connection, where none is free.
    hand: u32,
    /// The last ticket given.
    ticket: u32,
}

/// A buffer, and the ticket of whoever it belongs to; 0 if to nobody.
struct Place {
    ticket: u32,
    buffer: Buffer,
}

impl Connections {
    /// Room for so many connections, and so many buffers of so many bytes.
    ///
    /// # Errors
    /// If the engine has no memory for their streams.
    pub(super) fn new(connections: usize, buffers: usize, bytes: usize, engine: &Engine) -> Result<Self, ServiceError> {
        let part = || {
            let place = || Ok(Place { ticket: 0, buffer: Buffer::new(bytes, engine)? });
            let buffers = (0..buffers.div_ceil(PARTS)).map(|_| place());
            let buffers: Box<[Place]> = buffers.collect::<Result<_, ServiceError>>()?;
            let free = (0..buffers.len() as u32).rev().collect();
            let known = Memory::new(connections.div_ceil(PARTS));
            Ok(Mutex::new(Part { known, buffers, free, hand: 0, ticket: 0 }))
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
                self.free.push(forgotten.buffer);
            }
        }
        known
    }

    /// What is known of a connection, with its buffer: an empty one if it has none, for which another connection may lose its own.
    pub(super) fn with_buffer(&mut self, key: u64) -> (&mut Known, &mut Buffer) {
        let (known, _) = self.known.get(key);
        let place = &self.buffers[known.buffer as usize];
        if known.ticket == 0 || place.ticket != known.ticket {
            known.buffer = self.free.pop().unwrap_or_else(|| {
                self.hand = (self.hand + 1) % self.buffers.len() as u32;
                self.hand
            });
            self.ticket = self.ticket.wrapping_add(1).max(1);
            known.ticket = self.ticket;
            let place = &mut self.buffers[known.buffer as usize];
            place.ticket = self.ticket;
            place.buffer.clear();
        }
        let at = known.buffer as usize;
        (known, &mut self.buffers[at].buffer)
    }

    /// Takes back the buffer of a connection that has its verdict.
    pub(super) fn give_back(&mut self, key: u64) {
        let (known, _) = self.known.get(key);
        let ticket = core::mem::take(&mut known.ticket);
        let place = &mut self.buffers[known.buffer as usize];
        if ticket != 0 && place.ticket == ticket {
            place.ticket = 0;
            self.free.push(known.buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::hash::mix;

    use super::*;
    use crate::l7_filter::engine::EngineName;

    /// However many connections come and go, every buffer belongs to one of them or is free.
    #[test]
    fn no_buffer_is_lost_and_none_has_two_owners() {
        let connections = Connections::new(64, 40, 64, &Engine::new(EngineName::Regex).unwrap()).unwrap();
        for number in 0..20_000_u64 {
            let key = mix(number * number % 3001);
            let mut part = connections.part(key);
            part.get(key);
            part.with_buffer(key);
            if number % 3 == 0 {
                part.give_back(key);
            }
        }
        for part in &connections.parts {
            let part = part.lock().unwrap();
            let tickets: Vec<u32> =
                part.buffers.iter().map(|place| place.ticket).filter(|&ticket| ticket != 0).collect();
            assert_eq!(tickets.len() + part.free.len(), part.buffers.len());
            let owners = |&ticket: &u32| part.known.values().filter(|known| known.ticket == ticket).count();
            assert!(tickets.iter().all(|ticket| owners(ticket) == 1));
        }
    }
}
