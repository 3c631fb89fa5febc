//! Compression of the payload of IP packets, and its inverse: IPComp.
//!
//! # Work
//! `compress` replaces everything behind the IP header with a compressed payload. An IPComp header of 4 bytes
//! names the original protocol. A packet that would not get shorter stays as it is. `decompress` restores the
//! packet, to the last byte of its frame; packets that are not compressed pass unchanged.
//!
//! With `deflate`, `compress` has a yield point after each [`PIECE_BYTES`] of a payload. The result may then differ by
//! a few bytes from that of a run without turns: the encoder knows less of what follows.
//!
//! # Source
//! RFC 3173 (IPComp); `deflate`: RFC 2394, raw DEFLATE (RFC 1951); `lz4`: the LZ4 block format, without a size
//! before it.
//!
//! # Departures
//! * There is no negotiation. DEFLATE has its well-known index, 2. LZ4 has no such index, and gets one of those
//!   for private use.
//! * Packets that would not come back bit for bit are not compressed: fragments (section 2.2), and packets
//!   whose IPv4 header checksum is wrong or not yet filled in. In IPv6, neither are packets with hop-by-hop
//!   options or a routing header, which must stay before the IPComp header.
//! * A packet whose IPComp header has another index passes `decompress` unchanged. Section 3.3 requires a drop.
//! * IPComp has no integrity check: the codec detects some damage, and the transport's checksum the rest.

use core::fmt;
use core::ops::ControlFlow;

use flate2::{Compress as Deflate, Compression, Decompress as Inflate, FlushCompress, FlushDecompress, Status};
use humpyard_core::frame::Frame;
use humpyard_core::{choice, params};
use lz4_flex::block::{self, CompressTable};

use crate::expansion::Expansion;
use crate::ip::{IpPacket, LENGTH_MAX, is_complete, protocol};
use crate::link::IpVersion;
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};
use crate::turn::Turn;

/// The IPComp header, in bytes: next header, flags (zero), compression parameter index.
const IPCOMP_BYTES: usize = 4;
/// DEFLATE can give a packet back after each piece of its payload of this many bytes, which takes some microseconds.
pub const PIECE_BYTES: usize = 256;
/// Output buffer for the longest payload, in bytes: DEFLATE with the fixed codes needs up to 9 bits per byte,
/// LZ4 less.
const OUTPUT_BYTES: usize = LENGTH_MAX * 9 / 8 + 64;
/// The index of DEFLATE (RFC 3173, section 3.3).
const CPI_DEFLATE: u16 = 2;
/// The index of LZ4 here: 61440 to 65535 are for private use.
const CPI_LZ4: u16 = 0xf4c4;

params! {
    /// Parameters of compression.
    pub struct CompressParams {
        /// The codec: `lz4` is fast, `deflate` compresses better.
        codec: Codec = Codec::Lz4, cost "always";
        /// How hard `deflate` tries: from 1, fast, to 9, thorough.
        level: u64 = 1, in 1..=9, cost "codec=deflate";
        /// Payloads shorter than this are not tried.
        least: u64 = 64, in 0..=65_535, unit "bytes", cost "always";
    }
}

params! {
    /// Decompression has no parameters: packets say how they were compressed.
    pub struct DecompressParams {}
}

choice! {
    /// How payloads are compressed.
    pub enum Codec {
        /// LZ4.
        Lz4 = "lz4",
        /// DEFLATE.
        Deflate = "deflate",
    }
}

/// The encoder's state, kept between packets to avoid allocations.
enum Encoder {
    Lz4(CompressTable),
    Deflate { stream: Deflate, level: u32 },
}

impl Encoder {
    fn new(codec: Codec, level: u32) -> Self {
        match codec {
            Codec::Lz4 => Self::Lz4(CompressTable::small()),
            Codec::Deflate => Self::Deflate { stream: Deflate::new(Compression::new(level), false), level },
        }
    }

    const fn index(&self) -> u16 {
        match self {
            Self::Lz4(_) => CPI_LZ4,
            Self::Deflate { .. } => CPI_DEFLATE,
        }
    }

    /// Compresses `input` to less than `limit` bytes at the start of `output`. `None`: the result would be
    /// longer.
    fn compress(&mut self, input: &[u8], output: &mut [u8], limit: usize) -> Option<usize> {
        let length = match self {
            Self::Lz4(table) => block::compress_into_with_table(input, output, table).ok(),
            Self::Deflate { stream, .. } => {
                stream.reset();
                // Passes the whole output, not only `limit` bytes: zlib-rs 0.6 can panic if a stored block does
                // not fit.
                match stream.compress(input, output, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => Some(stream.total_out() as usize),
                    _ => None,
                }
            }
        };
        length.filter(|&length| length < limit)
    }
}

/// A payload that is being compressed by DEFLATE, in turns.
struct Deflating {
    stream: Deflate,
    output: Vec<u8>,
}

impl Deflating {
    fn new(level: u32) -> Self {
        Self { stream: Deflate::new(Compression::new(level), false), output: vec![0; OUTPUT_BYTES] }
    }

    /// Compresses the next piece of `input`. Returns whether it was the last. `None`: the result would be too long.
    fn go_on(&mut self, input: &[u8]) -> Option<bool> {
        let (taken, given) = (self.stream.total_in() as usize, self.stream.total_out() as usize);
        let end = input.len().min(taken + PIECE_BYTES);
        let flush = if end == input.len() { FlushCompress::Finish } else { FlushCompress::None };
        match self.stream.compress(&input[taken..end], &mut self.output[given..], flush) {
            Ok(Status::StreamEnd) => Some(true),
            Ok(Status::Ok) if self.stream.total_in() as usize == end && end < input.len() => Some(false),
            _ => None,
        }
    }
}

/// Compression; see the [module](self).
pub struct Compress {
    encoder: Encoder,
    least: usize,
    /// Streams for packets that get several turns, which are at none now.
    #[expect(clippy::vec_box, reason = "a stream moves between here and its packet as it is, without a copy")]
    spare: Vec<Box<Deflating>>,
    /// Output buffer for the longest result of a codec.
    output: Vec<u8>,
    compressed: Expansion,
    /// Packets left unchanged.
    unchanged: u64,
}

impl fmt::Debug for Compress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compress").field("compressed", &self.compressed).finish_non_exhaustive()
    }
}

impl Clone for Compress {
    /// Returns a new instance with the same parameters.
    fn clone(&self) -> Self {
        match self.encoder {
            Encoder::Lz4(_) => Self::with(Codec::Lz4, 1, self.least),
            Encoder::Deflate { level, .. } => Self::with(Codec::Deflate, level, self.least),
        }
    }
}

impl Build for Compress {
    type Params = CompressParams;

    const INFO: Info = Info {
        name: "compress",
        summary: "compression of payloads by LZ4 or DEFLATE, where it makes packets shorter (IPComp)",
        source: "RFC 3173; RFC 2394 and RFC 1951 (DEFLATE); the LZ4 block format",
    };

    fn new(params: &CompressParams) -> Result<Self, ServiceError> {
        Ok(Self::with(params.codec, params.level as u32, params.least as usize))
    }
}

impl Compress {
    fn with(codec: Codec, level: u32, least: usize) -> Self {
        let encoder = Encoder::new(codec, level);
        Self {
            encoder,
            least,
            spare: Vec::new(),
            output: vec![0; OUTPUT_BYTES],
            compressed: Expansion::default(),
            unchanged: 0,
        }
    }

    /// Compresses a packet, if possible and useful.
    fn compress(&mut self, frame: &mut Frame) -> Option<()> {
        let (packet, limit) = self.candidate(frame)?;
        let payload = &frame.data[packet.payload..packet.end];
        let length = self.encoder.compress(payload, &mut self.output, limit)?;
        rewrite(frame, &packet, self.encoder.index(), &self.output[..length], &mut self.compressed);
        Some(())
    }

    /// Returns a packet that may be compressed, and the length that the result must stay below.
    fn candidate(&self, frame: &Frame) -> Option<(IpPacket, usize)> {
        let packet = IpPacket::find(frame).ok().filter(|packet| is_compressible(packet, frame))?;
        let length = packet.end - packet.payload;
        Some((packet, length.checked_sub(IPCOMP_BYTES)?)).filter(|_| length >= self.least)
    }

    /// Compresses a packet by DEFLATE, for a turn. `Break`: the turn is over; else whether the packet got shorter.
    fn deflate(&mut self, frame: &mut Frame, level: u32, turn: &mut Turn<'_>) -> ControlFlow<(), bool> {
        let Some((packet, limit)) = self.candidate(frame) else { return ControlFlow::Continue(false) };
        let payload = &frame.data[packet.payload..packet.end];
        let begun = turn.resume::<Deflating>();
        let mut deflating = begun.unwrap_or_else(|| match self.spare.pop() {
            Some(mut spare) => {
                spare.stream.reset();
                spare
            }
            None => Box::new(Deflating::new(level)),
        });
        let is_done = loop {
            match deflating.go_on(payload) {
                Some(false) if turn.is_over() => {
                    turn.keep(deflating);
                    return ControlFlow::Break(());
                }
                Some(false) => {}
                Some(true) => break true,
                None => break false,
            }
        };
        let length = deflating.stream.total_out() as usize;
        let is_shorter = is_done && length < limit;
        if is_shorter {
            rewrite(frame, &packet, CPI_DEFLATE, &deflating.output[..length], &mut self.compressed);
        }
        self.spare.push(deflating);
        ControlFlow::Continue(is_shorter)
    }
}

/// Puts a compressed payload into a packet, behind an IPComp header with this index.
fn rewrite(frame: &mut Frame, packet: &IpPacket, index: u16, compressed: &[u8], counts: &mut Expansion) {
    let before = frame.data.len();
    let [high, low] = index.to_be_bytes();
    let ipcomp = [packet.protocol, 0, high, low];
    frame.data[packet.payload..packet.payload + IPCOMP_BYTES].copy_from_slice(&ipcomp);
    replace(frame, packet.payload + IPCOMP_BYTES, packet.end, compressed);
    packet.rewrite(frame, protocol::IPCOMP, IPCOMP_BYTES + compressed.len());
    counts.record(before, frame.data.len());
}

/// Returns whether `decompress` would restore the packet exactly.
fn is_compressible(packet: &IpPacket, frame: &Frame) -> bool {
    let stays = match packet.version {
        IpVersion::V4 => packet.protocol == protocol::IPCOMP,
        IpVersion::V6 => {
            [protocol::IPCOMP, protocol::HOP_BY_HOP, protocol::ROUTING, protocol::FRAGMENT].contains(&packet.protocol)
        }
    };
    packet.whole && !packet.fragment && !stays && packet.has_the_checksum(frame)
}

/// Replaces the bytes from `start` to `end` with `bytes`, and moves the rest.
fn replace(frame: &mut Frame, start: usize, end: usize, bytes: &[u8]) {
    let (before, new_end) = (frame.data.len(), start + bytes.len());
    if new_end > end {
        frame.data.resize(before + new_end - end, 0);
    }
    frame.data.copy_within(end..before, new_end);
    frame.data[start..new_end].copy_from_slice(bytes);
    frame.data.truncate(new_end + before - end);
    frame.wire_length = frame.data.len() as u32;
}

impl Service for Compress {
    fn process(&mut self, frame: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        if !is_complete(frame) {
            return Verdict::Drop(DropReason::Incomplete);
        }
        if self.compress(frame).is_none() {
            self.unchanged += 1;
        }
        Verdict::Forward
    }

    fn process_turn(
        &mut self,
        frame: &mut Frame,
        context: &Context,
        generated: &mut Generated,
        turn: &mut Turn<'_>,
    ) -> Option<Verdict> {
        let Encoder::Deflate { level, .. } = self.encoder else {
            return Some(self.process(frame, context, generated));
        };
        if !is_complete(frame) {
            return Some(Verdict::Drop(DropReason::Incomplete));
        }
        let ControlFlow::Continue(is_shorter) = self.deflate(frame, level, turn) else { return None };
        self.unchanged += u64::from(!is_shorter);
        Some(Verdict::Forward)
    }

    fn counters(&self) -> Vec<Counter> {
        let mut counters = self.compressed.counters("compressed");
        counters.push(Counter::new("unchanged", self.unchanged));
        counters
    }
}

/// Decompression; see the [module](self).
pub struct Decompress {
    inflate: Inflate,
    /// Output buffer for the longest payload.
    output: Vec<u8>,
    decompressed: Expansion,
    /// Packets left unchanged.
    unchanged: u64,
}

impl fmt::Debug for Decompress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompress").field("decompressed", &self.decompressed).finish_non_exhaustive()
    }
}

impl Default for Decompress {
    fn default() -> Self {
        let (inflate, output) = (Inflate::new(false), vec![0; LENGTH_MAX]);
        Self { inflate, output, decompressed: Expansion::default(), unchanged: 0 }
    }
}

impl Clone for Decompress {
    /// Returns a new instance.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Build for Decompress {
    type Params = DecompressParams;

    const INFO: Info = Info {
        name: "decompress",
        summary: "the inverse of compress: restores the frame; what is not compressed passes",
        source: "RFC 3173; RFC 2394 and RFC 1951 (DEFLATE); the LZ4 block format",
    };

    fn new(_: &DecompressParams) -> Result<Self, ServiceError> {
        Ok(Self::default())
    }
}

impl Decompress {
    /// Decompresses a packet. Returns false if it is not compressed, or its codec is unknown.
    fn decompress(&mut self, frame: &mut Frame) -> Result<bool, DropReason> {
        let Ok(packet) = IpPacket::find(frame) else { return Ok(false) };
        if packet.protocol != protocol::IPCOMP || !packet.whole || packet.fragment {
            return Ok(false);
        }
        let before = frame.data.len();
        let payload = &frame.data[packet.payload..packet.end];
        let Some((&[next_header, _, high, low], compressed)) = payload.split_first_chunk::<IPCOMP_BYTES>() else {
            return Err(DropReason::Malformed);
        };
        let output = &mut self.output[..packet.payload_max()];
        let length = match u16::from_be_bytes([high, low]) {
            CPI_LZ4 => block::decompress_into(compressed, output).map_err(|_| DropReason::Malformed)?,
            CPI_DEFLATE => inflate(&mut self.inflate, compressed, output).ok_or(DropReason::Malformed)?,
            _ => return Ok(false),
        };
        replace(frame, packet.payload, packet.end, &self.output[..length]);
        packet.rewrite(frame, next_header, length);
        self.decompressed.record(before, frame.data.len());
        Ok(true)
    }
}

/// Decompresses all of `input`. `None`: it is damaged, or the output has too little room.
fn inflate(inflate: &mut Inflate, input: &[u8], output: &mut [u8]) -> Option<usize> {
    inflate.reset(false);
    match inflate.decompress(input, output, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) if inflate.total_in() as usize == input.len() => Some(inflate.total_out() as usize),
        _ => None,
    }
}

impl Service for Decompress {
    fn process(&mut self, frame: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        if !is_complete(frame) {
            return Verdict::Drop(DropReason::Incomplete);
        }
        match self.decompress(frame) {
            Ok(true) => {}
            Ok(false) => self.unchanged += 1,
            Err(reason) => return Verdict::Drop(reason),
        }
        Verdict::Forward
    }

    fn counters(&self) -> Vec<Counter> {
        let mut counters = self.decompressed.counters("decompressed");
        counters.push(Counter::new("unchanged", self.unchanged));
        counters
    }
}
