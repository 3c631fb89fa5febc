//! The capture reader: pcap and pcapng, told apart by their first bytes.
//!
//! Records are parsed in place and copied once, into the caller's frame.

use alloc::string::String;
use alloc::vec::Vec;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;

use super::format::{
    BLOCK_ENHANCED_PACKET, BLOCK_INTERFACE, BLOCK_PACKET, BLOCK_SECTION, BLOCK_SIMPLE_PACKET, BYTE_ORDER_MAGIC,
    CLASSIC_HEADER_BYTES, MAGIC_MICROSECONDS, MAGIC_MODIFIED, MAGIC_NANOSECONDS, OPTION_END, OPTION_OFFSET,
    OPTION_RESOLUTION, RECORD_BYTES_MAX, Resolution, SNAPSHOT_BYTES, link_type,
};
use super::stream::{ByteStream, Compression};
use crate::error::{Damage, TrafficError};
use crate::source::Source;

/// The most interfaces of one section: memory stays bounded whatever the file claims.
const INTERFACES_MAX: usize = 65_536;

/// Reads a capture as a stream: pcap or pcapng, plain, gzip or zstd, all told apart by content.
///
/// Memory does not depend on the length of the capture. When the capture is damaged, every packet before the damage is
/// delivered first; then comes one error that says where it lies, and from then on the reader is at its end.
pub struct CaptureReader {
    name: String,
    stream: ByteStream,
    length_bytes: Option<u64>,
    format: Format,
    packets: u64,
    ended: bool,
}

enum Format {
    Classic(Classic),
    Ng(Section),
}

impl CaptureReader {
    /// Opens the capture at `path`.
    ///
    /// # Errors
    /// If it cannot be read, is empty, is no capture, or is cut inside its header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TrafficError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TrafficError::unusable(&name, "there is no such file"),
            _ => TrafficError::unreadable(&name, error),
        })?;
        let metadata = file.metadata().map_err(|error| TrafficError::unreadable(&name, error))?;
        if metadata.is_dir() {
            return Err(TrafficError::unusable(&name, "this is a directory; name a capture file in it"));
        }
        let mut reader = Self::new(&name, file)?;
        reader.length_bytes = metadata.is_file().then_some(metadata.len());
        Ok(reader)
    }

    /// Reads a capture from `input`, called `name` in messages.
    ///
    /// # Errors
    /// If it cannot be read, is empty, is no capture, or is cut inside its header.
    pub fn new(name: &str, input: impl Read + Send + 'static) -> Result<Self, TrafficError> {
        let mut stream = ByteStream::new(input).map_err(|error| TrafficError::unreadable(name, error))?;
        let format = Format::detect(&mut stream).map_err(|reason| TrafficError::unusable(name, reason))?;
        Ok(Self { name: name.into(), stream, length_bytes: None, format, packets: 0, ended: false })
    }

    /// How many packets were delivered so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

impl Source for CaptureReader {
    #[inline]
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        if self.ended {
            return Ok(false);
        }
        let read = match &mut self.format {
            Format::Classic(classic) => classic.next(&mut self.stream, frame),
            Format::Ng(section) => section.next(&mut self.stream, frame),
        };
        match read {
            Ok(true) => {
                self.packets += 1;
                Ok(true)
            }
            Ok(false) => {
                self.ended = true;
                Ok(false)
            }
            Err(damage) => {
                self.ended = true;
                let compressed = self.stream.compression() != Compression::None;
                Err(TrafficError::damaged(&self.name, self.packets, compressed, damage))
            }
        }
    }

    fn description(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> Option<f64> {
        let length = self.length_bytes.filter(|&length| length > 0)?;
        Some((self.stream.consumed_bytes() as f64 / length as f64).min(1.0))
    }
}

impl Format {
    /// Reads the header; the error is the reason why the input is unusable.
    fn detect(stream: &mut ByteStream) -> Result<Self, String> {
        if let Compression::Foreign(name) = stream.compression() {
            return Err(format!("this is {name} compressed data; decompress it, or compress it with gzip or zstd"));
        }
        if !stream.ensure(4) {
            return Err(header_missing(stream, "any capture's header"));
        }
        let first = word(stream.available(), 0, false);
        if first == BLOCK_SECTION {
            let mut section = Section::default();
            return match section.block(stream, None) {
                Ok(_) => Ok(Self::Ng(section)),
                Err(damage) => Err(format!("the pcapng header is unusable: {}", damage.reason)),
            };
        }
        Classic::open(first, stream).map(Self::Classic)
    }
}

fn header_missing(stream: &ByteStream, what: &str) -> String {
    let bytes = stream.available().len();
    match stream.failure() {
        Some(error) => format!("cannot be read: {error}"),
        None if bytes == 0 => "this is empty; a capture has at least a header".into(),
        None => format!("this ends after {bytes} bytes, before the end of {what}"),
    }
}

/// Says that a record is cut short, or why it could not be read.
#[cold]
fn cut(stream: &ByteStream, offset: u64, wanted: usize) -> Damage {
    let reason = match stream.failure() {
        Some(error) => format!("cannot be read on: {error}"),
        None => {
            let end = stream.offset() + stream.available().len() as u64;
            format!("the data ends after {} of the record's {wanted} bytes", end - offset)
        }
    };
    Damage { offset, reason }
}

fn word(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}

fn half(bytes: &[u8], at: usize, big_endian: bool) -> u16 {
    let half = [bytes[at], bytes[at + 1]];
    if big_endian { u16::from_be_bytes(half) } else { u16::from_le_bytes(half) }
}

/// Two halves of a count of ticks, the high one first whatever the byte order.
fn ticks(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn fill(frame: &mut Frame, time: Time, link: LinkType, wire_length: u32, data: &[u8]) {
    frame.time = time;
    frame.link = link;
    // Some writers state less than they captured.
    frame.wire_length = wire_length.max(data.len() as u32);
    frame.data.clear();
    frame.data.extend_from_slice(data);
}

/// What the header of a classic capture says of its records.
struct Classic {
    big_endian: bool,
    /// ns per unit of a time's second word.
    fraction_ns: u64,
    record_header_bytes: usize,
    packet_bytes_max: u32,
    link: LinkType,
}

impl Classic {
    fn open(first: u32, stream: &mut ByteStream) -> Result<Self, String> {
        let known = |magic| matches!(magic, MAGIC_MICROSECONDS | MAGIC_NANOSECONDS | MAGIC_MODIFIED);
        let big_endian = known(first.swap_bytes());
        let magic = if big_endian { first.swap_bytes() } else { first };
        if !known(magic) {
            let bytes = first.to_le_bytes();
            return Err(format!(
                "this is no capture: it starts with {:02x} {:02x} {:02x} {:02x}, as neither pcap nor pcapng does",
                bytes[0], bytes[1], bytes[2], bytes[3]
            ));
        }
        if !stream.ensure(CLASSIC_HEADER_BYTES) {
            return Err(header_missing(stream, "the pcap header of 24 bytes"));
        }
        let header = stream.available();
        let version = half(header, 4, big_endian);
        if version != 2 {
            return Err(format!("this is a pcap capture of version {version}, and only version 2 is known"));
        }
        let snapshot = word(header, 16, big_endian);
        // The upper bits of the link type say whether frames end with a checksum; nothing here looks at that.
        let link = link_type(word(header, 20, big_endian) as u16);
        stream.consume(CLASSIC_HEADER_BYTES);
        Ok(Self {
            big_endian,
            fraction_ns: if magic == MAGIC_NANOSECONDS { 1 } else { 1_000 },
            record_header_bytes: if magic == MAGIC_MODIFIED { 24 } else { 16 },
            packet_bytes_max: snapshot.clamp(SNAPSHOT_BYTES, RECORD_BYTES_MAX as u32),
            link,
        })
    }

    #[inline]
    fn next(&self, stream: &mut ByteStream, frame: &mut Frame) -> Result<bool, Damage> {
        let offset = stream.offset();
        let header_bytes = self.record_header_bytes;
        if !stream.ensure(header_bytes) {
            if stream.available().is_empty() && stream.failure().is_none() {
                return Ok(false);
            }
            return Err(cut(stream, offset, header_bytes));
        }
        let header = &stream.available()[..header_bytes];
        let seconds = u64::from(word(header, 0, self.big_endian));
        let fraction = u64::from(word(header, 4, self.big_endian));
        let captured = word(header, 8, self.big_endian);
        let wire_length = word(header, 12, self.big_endian);
        if captured > self.packet_bytes_max {
            let reason = format!(
                "it claims to hold {captured} bytes, more than the {} a packet of this capture can have",
                self.packet_bytes_max
            );
            return Err(Damage { offset, reason });
        }
        let record_bytes = header_bytes + captured as usize;
        if !stream.ensure(record_bytes) {
            return Err(cut(stream, offset, record_bytes));
        }
        // Below 2^32 s + 2^32 us: no overflow.
        let time = Time::from_ns(seconds * 1_000_000_000 + fraction * self.fraction_ns);
        fill(frame, time, self.link, wire_length, &stream.available()[header_bytes..record_bytes]);
        stream.consume(record_bytes);
        Ok(true)
    }
}

/// An interface of a pcapng section.
struct Interface {
    link: LinkType,
    snapshot: u32,
    resolution: Resolution,
    offset_s: i64,
}

/// The state of a pcapng section.
#[derive(Default)]
struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Time of the last packet that had one.
    last_time: Time,
}

/// What a block was.
#[derive(PartialEq, Eq)]
enum Block {
    Packet,
    Nothing,
    End,
}

impl Section {
    fn next(&mut self, stream: &mut ByteStream, frame: &mut Frame) -> Result<bool, Damage> {
        loop {
            match self.block(stream, Some(frame))? {
                Block::Packet => return Ok(true),
                Block::End => return Ok(false),
                Block::Nothing => {}
            }
        }
    }

    /// Reads one block; a packet only if there is a frame to take it.
    #[inline]
    fn block(&mut self, stream: &mut ByteStream, frame: Option<&mut Frame>) -> Result<Block, Damage> {
        let offset = stream.offset();
        if !stream.ensure(12) {
            if stream.available().is_empty() && stream.failure().is_none() {
                return Ok(Block::End);
            }
            return Err(cut(stream, offset, 12));
        }
        let bad = |reason| Damage { offset, reason };
        let start = stream.available();
        let kind = word(start, 0, self.big_endian);
        if kind == BLOCK_SECTION {
            self.big_endian = section_byte_order(start).map_err(bad)?;
        }
        let length = word(start, 4, self.big_endian) as usize;
        if length < 12 || !length.is_multiple_of(4) || length > RECORD_BYTES_MAX {
            return Err(bad(format!(
                "a block claims a length of {length} bytes; lengths are multiples of 4 from 12 to {RECORD_BYTES_MAX}"
            )));
        }
        if !stream.ensure(length) {
            return Err(cut(stream, offset, length));
        }
        let block = &stream.available()[..length];
        let repeated = word(block, length - 4, self.big_endian) as usize;
        if repeated != length {
            return Err(bad(format!("a block has length {length} at its start and {repeated} at its end")));
        }
        let found = self.body(kind, &block[8..length - 4], frame).map_err(bad)?;
        stream.consume(length);
        Ok(found)
    }

    #[inline]
    fn body(&mut self, kind: u32, body: &[u8], frame: Option<&mut Frame>) -> Result<Block, String> {
        match (kind, frame) {
            (BLOCK_ENHANCED_PACKET, Some(frame)) => self.enhanced_packet(body, frame),
            (BLOCK_SIMPLE_PACKET, Some(frame)) => self.simple_packet(body, frame),
            (BLOCK_PACKET, Some(frame)) => self.obsolete_packet(body, frame),
            (BLOCK_INTERFACE, _) => self.interface(body),
            (BLOCK_SECTION, _) => self.section(body),
            _ => Ok(Block::Nothing),
        }
    }

    fn section(&mut self, body: &[u8]) -> Result<Block, String> {
        expect(body, 16, "a section header")?;
        let version = half(body, 4, self.big_endian);
        if version != 1 {
            return Err(format!("a pcapng section has version {version}, and only version 1 is known"));
        }
        self.interfaces.clear();
        self.last_time = Time::ZERO;
        Ok(Block::Nothing)
    }

    fn interface(&mut self, body: &[u8]) -> Result<Block, String> {
        expect(body, 8, "an interface description")?;
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(format!("a section has more than {INTERFACES_MAX} interfaces"));
        }
        let mut interface = Interface {
            link: link_type(half(body, 0, self.big_endian)),
            snapshot: word(body, 4, self.big_endian),
            resolution: Resolution::MICROSECONDS,
            offset_s: 0,
        };
        let mut options = &body[8..];
        // Options that do not fit the block end the list: they are a description, not worth a capture.
        while let Some((code, value, rest)) = self.option(options) {
            match (code, value) {
                (OPTION_END, _) => break,
                (OPTION_RESOLUTION, &[resolution]) => interface.resolution = Resolution::from_option(resolution),
                (OPTION_OFFSET, &[..]) if value.len() == 8 => interface.offset_s = self.signed(value),
                _ => {}
            }
            options = rest;
        }
        self.interfaces.push(interface);
        Ok(Block::Nothing)
    }

    /// The first option of a list: its code, its value, and what follows it.
    fn option<'a>(&self, options: &'a [u8]) -> Option<(u16, &'a [u8], &'a [u8])> {
        let (head, tail) = options.split_at_checked(4)?;
        let length = usize::from(half(head, 2, self.big_endian));
        let rest = tail.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((half(head, 0, self.big_endian), tail.get(..length)?, rest))
    }

    /// Eight bytes as a signed number, which unlike a time lies wholly in the section's byte order.
    fn signed(&self, value: &[u8]) -> i64 {
        let (first, second) = (word(value, 0, self.big_endian), word(value, 4, self.big_endian));
        let bits = if self.big_endian { ticks(first, second) } else { ticks(second, first) };
        bits as i64
    }

    fn interface_of(&self, index: u32) -> Result<&Interface, String> {
        self.interfaces.get(index as usize).ok_or_else(|| {
            format!("a packet names interface {index}, and the section has described {}", self.interfaces.len())
        })
    }

    #[inline]
    fn enhanced_packet(&mut self, body: &[u8], frame: &mut Frame) -> Result<Block, String> {
        expect(body, 20, "a packet")?;
        let read = |at| word(body, at, self.big_endian);
        self.timed_packet(read(0), ticks(read(4), read(8)), read(12), read(16), &body[20..], frame)
    }

    fn obsolete_packet(&mut self, body: &[u8], frame: &mut Frame) -> Result<Block, String> {
        expect(body, 20, "a packet")?;
        let read = |at| word(body, at, self.big_endian);
        let index = u32::from(half(body, 0, self.big_endian));
        self.timed_packet(index, ticks(read(4), read(8)), read(12), read(16), &body[20..], frame)
    }

    #[inline]
    fn timed_packet(
        &mut self,
        index: u32,
        ticks: u64,
        captured: u32,
        wire_length: u32,
        data: &[u8],
        frame: &mut Frame,
    ) -> Result<Block, String> {
        let interface = self.interface_of(index)?;
        let time = interface.resolution.time(ticks, interface.offset_s);
        let data = data.get(..captured as usize).ok_or_else(|| {
            format!("a packet claims {captured} captured bytes, and its block has room for {}", data.len())
        })?;
        fill(frame, time, interface.link, wire_length, data);
        self.last_time = time;
        Ok(Block::Packet)
    }

    /// A simple packet has no time: it gets that of the packet before it.
    fn simple_packet(&self, body: &[u8], frame: &mut Frame) -> Result<Block, String> {
        expect(body, 4, "a simple packet")?;
        let interface = self.interface_of(0)?;
        let wire_length = word(body, 0, self.big_endian);
        let limit = if interface.snapshot == 0 { u32::MAX } else { interface.snapshot };
        let captured = (wire_length.min(limit) as usize).min(body.len() - 4);
        fill(frame, self.last_time, interface.link, wire_length, &body[4..4 + captured]);
        Ok(Block::Packet)
    }
}

fn section_byte_order(block: &[u8]) -> Result<bool, String> {
    match word(block, 8, false) {
        BYTE_ORDER_MAGIC => Ok(false),
        magic if magic.swap_bytes() == BYTE_ORDER_MAGIC => Ok(true),
        magic => Err(format!("a section's byte order mark is {magic:#010x}, which is none")),
    }
}

fn expect(body: &[u8], length: usize, what: &str) -> Result<(), String> {
    if body.len() < length {
        return Err(format!("a block of {} bytes is too short for {what}", body.len() + 12));
    }
    Ok(())
}
