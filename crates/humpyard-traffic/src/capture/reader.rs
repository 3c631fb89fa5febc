//! The capture reader: pcap and pcapng, detected by their first bytes.
//!
//! pcap-parser finds and decodes the records in its buffer; each is copied once, into the caller's frame.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;
use pcap_parser::nom::{self, IResult};
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{
    Block, EPB_MAGIC, IDB_MAGIC, InterfaceDescriptionBlock, LegacyPcapBlock, LegacyPcapReader, PcapBlockOwned,
    PcapError, PcapNGReader, SHB_MAGIC, SPB_MAGIC, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified,
    parse_pcap_header, parse_sectionheaderblock, parse_unknownblock_be, parse_unknownblock_le,
};

use super::format::{RECORD_BYTES_MAX, Resolution, SNAPSHOT_BYTES, link_type};
use super::input::{Compression, Input, Watch};
use crate::error::{Damage, TrafficError};
use crate::source::{Polled, Source};

/// Size of the buffer, in bytes, unless a record is longer.
const BUFFER_BYTES: usize = 64 << 10;
/// Most interfaces of one section, so that memory is bounded for any file.
const INTERFACES_MAX: usize = 65_536;
/// pcapng: a packet, in its obsolete form.
const BLOCK_PACKET: u32 = 2;

/// Reads a capture as a stream: pcap or pcapng, plain, gzip or zstd, all detected by content.
///
/// Memory does not depend on the length of the capture. If the capture is damaged, the reader returns every
/// packet before the damage, then one error with the place of the damage, and then ends.
///
/// Data that pcap-parser does not read count as damage, so that no packet is lost without a message: packets in
/// blocks of the obsolete kind 2, and interfaces with an `if_tsoffset` in a big-endian section. The big-endian
/// form of Kuznetzov's pcap is rejected. Reading a packet allocates only if it has options: pcap-parser makes
/// an unused list of them, of at most sixteen times their bytes.
pub struct CaptureReader {
    name: String,
    length_bytes: Option<u64>,
    compression: Compression,
    watch: Arc<Watch>,
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

    /// Reads a capture from `input`; messages call it `name`.
    ///
    /// # Errors
    /// If it cannot be read, is empty, is no capture, or is cut inside its header.
    pub fn new(name: &str, input: impl Read + Send + 'static) -> Result<Self, TrafficError> {
        let input = Input::new(input).map_err(|error| TrafficError::unreadable(name, error))?;
        let (compression, watch) = (input.compression(), input.watch());
        let format = Format::open(input).map_err(|reason| TrafficError::unusable(name, reason))?;
        Ok(Self { name: name.into(), length_bytes: None, compression, watch, format, packets: 0, ended: false })
    }

    /// Returns the number of packets returned up to now.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

/// Fills frames until `next` finds no more packet. Returns the number filled, and whether those are all.
#[inline]
fn fill_all(
    frames: &mut [Frame],
    mut next: impl FnMut(&mut Frame) -> Result<bool, Damage>,
) -> (usize, Result<bool, Damage>) {
    for (filled, frame) in frames.iter_mut().enumerate() {
        let there_is = next(frame);
        if !matches!(there_is, Ok(true)) {
            return (filled, there_is);
        }
    }
    (frames.len(), Ok(true))
}

impl CaptureReader {
    /// Returns whether it reads a file, which never blocks, and not a pipe.
    pub fn is_file(&self) -> bool {
        self.length_bytes.is_some()
    }
}

impl Source for CaptureReader {
    #[inline]
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let (filled, found) = self.poll_burst(core::slice::from_mut(frame));
        found.map(|_| filled > 0)
    }

    fn poll_burst(&mut self, frames: &mut [Frame]) -> (usize, Result<Polled, TrafficError>) {
        if self.ended {
            return (0, Ok(Polled::End));
        }
        let (filled, found) = match &mut self.format {
            Format::Classic(classic) => fill_all(frames, |frame| classic.next(frame)),
            Format::Ng(section) => fill_all(frames, |frame| section.next(frame)),
        };
        self.packets += filled as u64;
        self.ended = !matches!(found, Ok(true));
        let found = match found {
            Ok(true) => Ok(Polled::Frame),
            Ok(false) => Ok(Polled::End),
            Err(damage) => {
                let compressed = self.compression != Compression::None;
                Err(TrafficError::damaged(&self.name, self.packets, compressed, damage))
            }
        };
        (filled, found)
    }

    fn description(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> Option<f64> {
        let length = self.length_bytes.filter(|&length| length > 0)?;
        Some((self.watch.consumed_bytes() as f64 / length as f64).min(1.0))
    }
}

/// The input of pcap-parser: the header, which must be in one piece, then the rest.
type Whole = io::Chain<io::Cursor<Vec<u8>>, Input>;

impl Format {
    /// Reads the header. The error is the reason why the input is unusable.
    fn open(mut input: Input) -> Result<Self, String> {
        if let Compression::Foreign(name) = input.compression() {
            return Err(format!("this is {name} compressed data; decompress it, or compress it with gzip or zstd"));
        }
        let watch = input.watch();
        let mut head = Vec::new();
        if !input.read_on(&mut head, 4) {
            return Err(header_missing(&head, &watch, "any capture's header"));
        }
        let ng = head.starts_with(&SHB_MAGIC.to_le_bytes());
        let what = if ng { "the pcapng header" } else { "the pcap header of 24 bytes" };
        let missing_bytes = |head: &[u8]| {
            let failed = if ng { parse_sectionheaderblock(head).err() } else { parse_pcap_header(head).err() };
            failed.and_then(|failed| missing(&failed))
        };
        while let Some(bytes) = missing_bytes(&head) {
            if bytes > RECORD_BYTES_MAX - head.len() {
                return Err(format!("{what} claims more than {RECORD_BYTES_MAX} bytes"));
            }
            if !input.read_on(&mut head, bytes) {
                return Err(header_missing(&head, &watch, what));
            }
        }
        let start = [head[0], head[1], head[2], head[3]];
        let capacity = head.len().next_power_of_two().max(BUFFER_BYTES);
        let input = io::Cursor::new(head).chain(input);
        if ng {
            let reader = PcapNGReader::new(capacity, input)
                .map_err(|_| "the pcapng header is unusable: it is too short, or its byte order mark is none")?;
            return Section::open(Records { reader, offset: 0, watch }).map(Self::Ng);
        }
        let reader = LegacyPcapReader::new(capacity, input).map_err(|_| {
            let [a, b, c, d] = start;
            format!(
                "this is no capture: it starts with {a:02x} {b:02x} {c:02x} {d:02x}, as neither pcap nor pcapng does"
            )
        })?;
        Classic::open(Records { reader, offset: 0, watch }).map(Self::Classic)
    }
}

fn header_missing(head: &[u8], watch: &Watch, what: &str) -> String {
    match watch.failure() {
        Some(error) => format!("cannot be read: {error}"),
        None if head.is_empty() => "this is empty; a capture has at least a header".into(),
        None => format!("this ends after {} bytes, before the end of {what}", head.len()),
    }
}

/// The result of a parser of pcap-parser.
type Parsed<'a, T> = IResult<&'a [u8], T, PcapError<&'a [u8]>>;

/// Returns the bytes that a parser lacks, if it failed for that.
fn missing(failed: &nom::Err<PcapError<&[u8]>>) -> Option<usize> {
    match failed {
        nom::Err::Incomplete(nom::Needed::Size(bytes)) => Some(bytes.get()),
        nom::Err::Incomplete(nom::Needed::Unknown) => Some(1),
        nom::Err::Error(_) | nom::Err::Failure(_) => None,
    }
}

/// A reader of pcap-parser, and its offset in the uncompressed data.
struct Records<R> {
    reader: R,
    offset: u64,
    watch: Arc<Watch>,
}

impl<R: PcapReaderIterator> Records<R> {
    #[inline]
    fn consume(&mut self, bytes: usize) {
        // A refill moves the remaining bytes, which is rare.
        self.reader.consume_noshift(bytes);
        self.offset += bytes as u64;
    }

    /// Reads until the next `bytes` are in the buffer. Returns false if the data end before the first of them.
    #[cold]
    fn ensure(&mut self, bytes: usize) -> Result<bool, Damage> {
        self.reader.grow(bytes.next_power_of_two());
        while self.reader.data().len() < bytes && !self.reader.reader_exhausted() {
            // A refill cannot fail: the input stores its failures.
            let _ = self.reader.refill();
        }
        let available = self.reader.data().len();
        match self.watch.failure() {
            _ if available >= bytes => Ok(true),
            Some(error) => Err(self.damage(format!("cannot be read on: {error}"))),
            None if available == 0 => Ok(false),
            None => Err(self.damage(format!("the data ends after {available} of the record's {bytes} bytes"))),
        }
    }

    /// Returns the damage of the next record.
    #[cold]
    fn damage(&self, reason: String) -> Damage {
        Damage { offset: self.offset, reason }
    }
}

fn fill(frame: &mut Frame, time: Time, link: LinkType, wire_length: u32, data: &[u8]) {
    frame.time = time;
    frame.link = link;
    // Some writers state a wire length below the captured length.
    frame.wire_length = wire_length.max(data.len() as u32);
    frame.data.clear();
    frame.data.extend_from_slice(data);
}

/// A parser of one record.
type ParseRecord = fn(&[u8]) -> Parsed<'_, LegacyPcapBlock<'_>>;

/// A classic capture, and the properties from its header.
struct Classic {
    records: Records<LegacyPcapReader<Whole>>,
    parse: ParseRecord,
    /// Whether `parse` reads little-endian records with headers of 16 bytes.
    is_common: bool,
    record_header_bytes: usize,
    /// The unit of a time's second word, in ns.
    fraction_ns: u64,
    packet_bytes_max: u32,
    link: LinkType,
}

impl Classic {
    fn open(mut records: Records<LegacyPcapReader<Whole>>) -> Result<Self, String> {
        let Ok((header_bytes, PcapBlockOwned::LegacyHeader(header))) = records.reader.next() else {
            return Err("this has no pcap header".into());
        };
        records.consume(header_bytes);
        let version = header.version_major;
        if version != 2 {
            return Err(format!("this is a pcap capture of version {version}, and only version 2 is known"));
        }
        let (parse, record_header_bytes): (ParseRecord, _) = if header.is_modified_format() {
            (parse_pcap_frame_modified, 24)
        } else if header.is_bigendian() {
            (parse_pcap_frame_be, 16)
        } else {
            (parse_pcap_frame, 16)
        };
        Ok(Self {
            records,
            parse,
            is_common: !header.is_modified_format() && !header.is_bigendian(),
            record_header_bytes,
            fraction_ns: if header.is_nanosecond_precision() { 1 } else { 1_000 },
            packet_bytes_max: header.snaplen.clamp(SNAPSHOT_BYTES, RECORD_BYTES_MAX as u32),
            // The upper bits of the link type say whether frames end with a checksum; they are ignored.
            link: link_type(header.network.0 as u16),
        })
    }

    /// Reads a record. If a record does not fit into the buffer, the reader's own `next` does not return its
    /// length; the parser does.
    #[inline]
    fn next(&mut self, frame: &mut Frame) -> Result<bool, Damage> {
        loop {
            let data = self.records.reader.data();
            // A direct call for the most common kind, which the compiler can inline.
            let parsed = if self.is_common { parse_pcap_frame(data) } else { (self.parse)(data) };
            match parsed {
                Ok((rest, packet)) => {
                    self.check(packet.data.len())?;
                    // Below 2^32 s + 2^32 us: no overflow.
                    let ns = u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_usec) * self.fraction_ns;
                    fill(frame, Time::from_ns(ns), self.link, packet.origlen, packet.data);
                    let record_bytes = data.len() - rest.len();
                    self.records.consume(record_bytes);
                    return Ok(true);
                }
                Err(failed) => {
                    let record_bytes = data.len().saturating_add(missing(&failed).unwrap_or(1));
                    self.check(record_bytes - self.record_header_bytes)?;
                    if !self.records.ensure(record_bytes)? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Checks that a packet may have this many captured bytes.
    #[inline]
    fn check(&self, captured: usize) -> Result<(), Damage> {
        if captured <= self.packet_bytes_max as usize {
            return Ok(());
        }
        Err(self.records.damage(format!(
            "it claims to hold {captured} bytes, more than the {} a packet of this capture can have",
            self.packet_bytes_max
        )))
    }
}

/// An interface of a pcapng section.
struct Interface {
    link: LinkType,
    snapshot: u32,
    resolution: Resolution,
    offset_s: i64,
}

/// A pcapng capture, at one of its sections.
struct Section {
    records: Records<PcapNGReader<Whole>>,
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Time of the last packet that had one.
    last_time: Time,
}

/// The kind of a block that was read.
#[derive(PartialEq, Eq)]
enum Found {
    Packet,
    Nothing,
    End,
}

impl Section {
    fn open(records: Records<PcapNGReader<Whole>>) -> Result<Self, String> {
        let mut section = Self { records, big_endian: false, interfaces: Vec::new(), last_time: Time::ZERO };
        match section.block(&mut Frame::default()) {
            Ok(_) => Ok(section),
            Err(damage) => Err(format!("the pcapng header is unusable: {}", damage.reason)),
        }
    }

    #[inline]
    fn next(&mut self, frame: &mut Frame) -> Result<bool, Damage> {
        loop {
            match self.block(frame)? {
                Found::Packet => return Ok(true),
                Found::End => return Ok(false),
                Found::Nothing => {}
            }
        }
    }

    /// Reads one block. Blocks that are not needed are not decoded, so errors inside them do no harm.
    #[inline]
    fn block(&mut self, frame: &mut Frame) -> Result<Found, Damage> {
        let Some((kind, length)) = self.locate()? else { return Ok(Found::End) };
        let found = match kind {
            SHB_MAGIC | IDB_MAGIC | EPB_MAGIC | SPB_MAGIC => self.decode(length, frame),
            BLOCK_PACKET => {
                Err("a packet is in a block of the obsolete kind 2, which is not read; let a program that \
                                 reads it, such as editcap, write the capture anew"
                    .into())
            }
            _ => Ok(Found::Nothing),
        };
        match found {
            Ok(found) => {
                self.records.consume(length);
                Ok(found)
            }
            Err(reason) => Err(self.records.damage(reason)),
        }
    }

    /// Loads the next block completely into the buffer. Returns its kind and length. `None`: the data have
    /// ended.
    #[inline]
    fn locate(&mut self) -> Result<Option<(u32, usize)>, Damage> {
        let bad = |records: &Records<_>, claim: &str| {
            let lengths = format!("lengths are multiples of 4 from 12 to {RECORD_BYTES_MAX}");
            Err(records.damage(format!("a block claims a length {claim}; {lengths}")))
        };
        loop {
            let data = self.records.reader.data();
            match envelope(data, self.big_endian) {
                Ok((_, (_, length, _))) if !length.is_multiple_of(4) || length as usize > RECORD_BYTES_MAX => {
                    return bad(&self.records, &format!("of {length} bytes"));
                }
                Ok((_, (_, length, repeated))) if repeated != length => {
                    let reason = format!("a block has length {length} at its start and {repeated} at its end");
                    return Err(self.records.damage(reason));
                }
                Ok((_, (kind, length, _))) => return Ok(Some((kind, length as usize))),
                Err(failed) => match missing(&failed).map(|missing| data.len().saturating_add(missing)) {
                    Some(bytes) if bytes > RECORD_BYTES_MAX => {
                        return bad(&self.records, &format!("of {bytes} bytes or more"));
                    }
                    Some(bytes) => {
                        if !self.records.ensure(bytes)? {
                            return Ok(None);
                        }
                    }
                    None if data.starts_with(&SHB_MAGIC.to_le_bytes()) => {
                        let reason = "a section header is too short, or its byte order mark is none";
                        return Err(self.records.damage(reason.into()));
                    }
                    None => return bad(&self.records, "below 12 bytes"),
                },
            }
        }
    }

    /// Decodes the next block, which is completely in the buffer.
    #[inline]
    fn decode(&mut self, length: usize, frame: &mut Frame) -> Result<Found, String> {
        let Ok((_, PcapBlockOwned::NG(block))) = self.records.reader.next() else {
            return Err(format!("a block of {length} bytes is too short for what it claims to hold"));
        };
        match block {
            Block::EnhancedPacket(packet) => {
                let interface = interface_of(&self.interfaces, packet.if_id)?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                self.last_time = interface.resolution.time(ticks, interface.offset_s);
                fill(frame, self.last_time, interface.link, packet.origlen, packet.packet_data());
                Ok(Found::Packet)
            }
            // It has no time, so it gets the previous packet's.
            Block::SimplePacket(packet) => {
                let interface = interface_of(&self.interfaces, 0)?;
                let limit = if interface.snapshot == 0 { usize::MAX } else { interface.snapshot as usize };
                let data = packet.packet_data();
                fill(frame, self.last_time, interface.link, packet.origlen, &data[..data.len().min(limit)]);
                Ok(Found::Packet)
            }
            Block::InterfaceDescription(description) => {
                if self.interfaces.len() == INTERFACES_MAX {
                    return Err(format!("a section has more than {INTERFACES_MAX} interfaces"));
                }
                self.interfaces.push(Interface::new(&description, self.big_endian)?);
                Ok(Found::Nothing)
            }
            Block::SectionHeader(header) => {
                let version = header.major_version;
                if version != 1 {
                    return Err(format!("a pcapng section has version {version}, and only version 1 is known"));
                }
                self.big_endian = header.big_endian();
                self.interfaces.clear();
                self.last_time = Time::ZERO;
                Ok(Found::Nothing)
            }
            _ => Ok(Found::Nothing),
        }
    }
}

/// Parses the kind and both lengths of the block at the start of these bytes.
#[inline]
fn envelope(data: &[u8], big_endian: bool) -> Parsed<'_, (u32, u32, u32)> {
    // A section header states its own byte order.
    if data.starts_with(&SHB_MAGIC.to_le_bytes()) {
        parse_sectionheaderblock(data).map(|(rest, block)| (rest, (SHB_MAGIC, block.block_len1, block.block_len2)))
    } else if big_endian {
        let (rest, block) = parse_unknownblock_be(data)?;
        Ok((rest, (block.block_type.swap_bytes(), block.block_len1, block.block_len2)))
    } else {
        let (rest, block) = parse_unknownblock_le(data)?;
        Ok((rest, (block.block_type, block.block_len1, block.block_len2)))
    }
}

impl Interface {
    fn new(description: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Result<Self, String> {
        if big_endian && description.if_tsoffset != 0 {
            return Err("an interface shifts its times, which in big-endian sections is not read".into());
        }
        Ok(Self {
            link: link_type(description.linktype.0 as u16),
            snapshot: description.snaplen,
            resolution: Resolution::from_option(description.if_tsresol),
            offset_s: description.if_tsoffset,
        })
    }
}

fn interface_of(interfaces: &[Interface], index: u32) -> Result<&Interface, String> {
    interfaces
        .get(index as usize)
        .ok_or_else(|| format!("a packet names interface {index}, and the section has described {}", interfaces.len()))
}
