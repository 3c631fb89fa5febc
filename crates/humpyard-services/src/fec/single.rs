//! The code over one packet: seven parts, and an eighth.

use core::fmt;

use humpyard_core::frame::Frame;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use super::header::Kind;
use super::{PROTOCOL, passes_unprotected};
use crate::expansion::Expansion;
use crate::service::{Counter, DropReason};
use crate::tunnel::{self, Outer};

/// Parts that a packet is cut into.
const PARTS: usize = 7;
/// Parts including the one that the code adds.
const ALL: usize = PARTS + 1;
/// The header, in bytes: kind and number of parts (4), CRC-32 (4), length (4), a check of each part (2 each).
const HEAD_BYTES: usize = 12 + 2 * ALL;

/// Returns the length of each part of a packet of this length, in bytes. The code works on 16-bit words.
const fn part_bytes(packet_bytes: usize) -> usize {
    match packet_bytes.div_ceil(PARTS).next_multiple_of(2) {
        0 => 2,
        bytes => bytes,
    }
}

/// Returns the check of a part, which shows whether it is undamaged.
fn check(part: &[u8]) -> [u8; 2] {
    let [.., high, low] = crc32fast::hash(part).to_be_bytes();
    [high, low]
}

/// Protects packets with their own code.
pub(super) struct Single {
    encoder: ReedSolomonEncoder,
    protected: Expansion,
    unprotected: u64,
}

impl Single {
    pub(super) fn new() -> Self {
        let encoder = ReedSolomonEncoder::new(PARTS, 1, 2).expect("the code has 7 parts and one more");
        Self { encoder, protected: Expansion::default(), unprotected: 0 }
    }

    pub(super) fn protect(&mut self, frame: &mut Frame) -> Result<(), DropReason> {
        let before = frame.data.len();
        match self.encode(frame) {
            Ok(()) => self.protected.record(before, frame.data.len()),
            Err(reason) => {
                passes_unprotected(reason)?;
                self.unprotected += 1;
            }
        }
        Ok(())
    }

    fn encode(&mut self, frame: &mut Frame) -> Result<(), DropReason> {
        let network = tunnel::inner(frame)?;
        let inner_bytes = frame.data.len() - network.offset;
        let bytes = part_bytes(inner_bytes);
        let wrapped = tunnel::wrap(frame, PROTOCOL, HEAD_BYTES, ALL * bytes - inner_bytes)?;
        let (head, body) = frame.data[wrapped.payload..].split_at_mut(HEAD_BYTES);
        let (parts, parity) = body.split_at_mut(PARTS * bytes);
        let sizes = "parts have the size that the code was told of";
        self.encoder.reset(PARTS, 1, bytes).expect(sizes);
        for part in parts.chunks_exact(bytes) {
            self.encoder.add_original_shard(part).expect(sizes);
        }
        let encoded = self.encoder.encode().expect(sizes);
        parity.copy_from_slice(encoded.recovery(0).expect(sizes));
        head[..4].copy_from_slice(&[Kind::Single as u8, PARTS as u8, 0, 0]);
        head[4..8].copy_from_slice(&crc32fast::hash(&body[..inner_bytes]).to_be_bytes());
        head[8..12].copy_from_slice(&(inner_bytes as u32).to_be_bytes());
        for (into, part) in head[12..].chunks_exact_mut(2).zip(body.chunks_exact(bytes)) {
            into.copy_from_slice(&check(part));
        }
        Ok(())
    }

    pub(super) fn counters(&self) -> Vec<Counter> {
        let mut counters = self.protected.counters("protected");
        counters.push(Counter::new("unprotected", self.unprotected));
        counters
    }
}

impl Clone for Single {
    /// Returns a new instance.
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single").field("protected", &self.protected).finish_non_exhaustive()
    }
}

/// Repairs packets with their own code.
pub(super) struct Mender {
    decoder: ReedSolomonDecoder,
    whole: u64,
    mended: u64,
}

impl Mender {
    pub(super) fn new() -> Self {
        let decoder = ReedSolomonDecoder::new(PARTS, 1, 2).expect("the code has 7 parts and one more");
        Self { decoder, whole: 0, mended: 0 }
    }

    /// Repairs a packet if necessary and possible, and takes it out of its tunnel.
    pub(super) fn mend(&mut self, frame: &mut Frame, outer: &Outer) -> Result<(), DropReason> {
        let Some((head, body)) = frame.data[outer.payload.clone()].split_first_chunk_mut::<HEAD_BYTES>() else {
            return Err(DropReason::Malformed);
        };
        let bytes = body.len() / ALL;
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (sum, inner_bytes) = (number(4), number(8) as usize);
        if head[1] as usize != PARTS || !body.len().is_multiple_of(ALL) || bytes != part_bytes(inner_bytes) {
            return Err(DropReason::Malformed);
        }
        let is_damaged = |&at: &usize| head[12 + 2 * at..14 + 2 * at] != check(&body[at * bytes..][..bytes]);
        let mut damaged = (0..ALL).filter(is_damaged);
        let (first, second) = (damaged.next(), damaged.next());
        if second.is_some() {
            return Err(DropReason::Unrecoverable);
        }
        if let Some(at) = first.filter(|&at| at < PARTS) {
            self.restore(body, bytes, at).ok_or(DropReason::Unrecoverable)?;
        }
        if crc32fast::hash(&body[..inner_bytes]) != sum {
            return Err(DropReason::Unrecoverable);
        }
        let start = outer.payload.start + HEAD_BYTES;
        tunnel::unwrap(frame, outer, start..start + inner_bytes);
        *(if first.is_some() { &mut self.mended } else { &mut self.whole }) += 1;
        Ok(())
    }

    /// Restores the damaged part from the others.
    fn restore(&mut self, body: &mut [u8], bytes: usize, damaged: usize) -> Option<()> {
        self.decoder.reset(PARTS, 1, bytes).ok()?;
        for (at, part) in body.chunks_exact(bytes).enumerate() {
            if at == PARTS {
                self.decoder.add_recovery_shard(0, part).ok()?;
            } else if at != damaged {
                self.decoder.add_original_shard(at, part).ok()?;
            }
        }
        let decoded = self.decoder.decode().ok()?;
        body[damaged * bytes..][..bytes].copy_from_slice(decoded.restored_original(damaged)?);
        Some(())
    }

    pub(super) fn counters(&self) -> Vec<Counter> {
        vec![Counter::new("packets_whole", self.whole), Counter::new("packets_mended", self.mended)]
    }
}

impl Clone for Mender {
    /// Returns a new instance.
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl fmt::Debug for Mender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mender").field("mended", &self.mended).finish_non_exhaustive()
    }
}
