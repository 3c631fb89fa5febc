//! The capture writer: pcap and pcapng, plain or compressed. No incomplete file ever has the final name.

use std::io::{self, Write};
use std::path::Path;
use std::string::{String, ToString};

use humpyard_core::frame::{Frame, LinkType};
use pcap_parser::{
    BOM_MAGIC, EnhancedPacketBlock, InterfaceDescriptionBlock, LegacyPcapBlock, Linktype, PcapHeader,
    SectionHeaderBlock, ToVec,
};

use super::format::{RECORD_BYTES_MAX, SNAPSHOT_BYTES, link_number};
use super::partial::PartialFile;
use crate::error::TrafficError;
use crate::sink::Sink;

/// First word of a classic capture with nanoseconds.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Bytes collected before they are compressed and written.
const PENDING_BYTES: usize = 64 << 10;
/// Size of a pcapng block besides the packet, in bytes; a classic record has less.
const BLOCK_OVERHEAD_BYTES: usize = 64;

/// Writes a capture. The file gets its name when [`Sink::finish`] returns. A writer that is dropped leaves
/// nothing behind.
pub struct CaptureWriter {
    name: String,
    format: Format,
    pending: Vec<u8>,
    encoder: Encoder,
    /// Whether it streams to the standard output.
    streams: bool,
    packets: u64,
}

enum Format {
    /// The single link type, once it is known.
    Classic(Option<LinkType>),
    /// The link types that have an interface, and whether the section was started.
    Ng { started: bool, interfaces: Vec<LinkType> },
}

#[derive(Clone, Copy)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The destination of the bytes.
enum Target {
    File(PartialFile),
    Stdout(io::Stdout),
}

enum Encoder {
    Plain(Target),
    Gzip(flate2::write::GzEncoder<Target>),
    Zstd(zstd::stream::write::Encoder<'static, Target>),
}

impl CaptureWriter {
    /// Returns a writer of the capture `path`: `.pcap` (or `.cap`) or `.pcapng`, with `.gz` or `.zst` behind it
    /// for compression.
    ///
    /// `-` streams an uncompressed pcap to the standard output.
    ///
    /// # Errors
    /// If the name has another extension, or no file can be created beside it.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, TrafficError> {
        let path = path.as_ref();
        if path == Path::new("-") {
            let encoder = Encoder::Plain(Target::Stdout(io::stdout()));
            return Ok(Self::new("standard output".into(), Format::Classic(None), encoder, true));
        }
        let name = path.display().to_string();
        let (format, compression) = by_extension(path)?;
        let file = PartialFile::create(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TrafficError::output(&name, error.to_string()),
            _ => TrafficError::unwritable(&name, error),
        })?;
        let encoder =
            Encoder::new(compression, Target::File(file)).map_err(|error| TrafficError::unwritable(&name, error))?;
        Ok(Self::new(name, format, encoder, false))
    }

    fn new(name: String, format: Format, encoder: Encoder, streams: bool) -> Self {
        Self { name, format, pending: Vec::with_capacity(2 * PENDING_BYTES), encoder, streams, packets: 0 }
    }

    /// Appends a frame: its captured bytes, its time in ns, and its length on the wire.
    ///
    /// # Errors
    /// If the frame does not fit the format (the message names the format that it fits), or the file cannot be
    /// written.
    pub fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        self.append(frame)
            .map_err(|reason| TrafficError::output(&self.name, format!("packet {}: {reason}", self.packets + 1)))?;
        self.packets += 1;
        if self.pending.len() >= PENDING_BYTES { self.flush_pending() } else { Ok(()) }
    }

    /// Appends a frame to the pending bytes, with the headers that must precede it.
    fn append(&mut self, frame: &Frame) -> Result<(), String> {
        let record = match &mut self.format {
            Format::Classic(Some(link)) => classic_record(*link, frame)?,
            Format::Classic(link @ None) => {
                self.pending.extend(classic_header(frame.link)?);
                *link = Some(frame.link);
                classic_record(frame.link, frame)?
            }
            Format::Ng { started, interfaces } => {
                if !*started {
                    self.pending.extend(section_header()?);
                    *started = true;
                }
                let known = interfaces.iter().position(|&link| link == frame.link);
                if known.is_none() {
                    self.pending.extend(interface_description(frame.link)?);
                    interfaces.push(frame.link);
                }
                packet_block(known.unwrap_or(interfaces.len() - 1), frame)?
            }
        };
        self.pending.extend(record);
        Ok(())
    }

    /// Completes the capture, gives it its name, and returns the number of its packets.
    ///
    /// # Errors
    /// If the rest cannot be written, or the file cannot be renamed.
    pub fn finish(mut self) -> Result<u64, TrafficError> {
        self.append_missing_headers().map_err(|reason| TrafficError::output(&self.name, reason))?;
        self.flush_pending()?;
        let Self { name, encoder, packets, .. } = self;
        let target = encoder.finish().map_err(|error| TrafficError::unwritable(&name, error))?;
        if let Target::File(file) = target {
            file.finish().map_err(|error| TrafficError::unwritable(&name, error))?;
        }
        Ok(packets)
    }

    /// Appends the headers of a capture without packets, which tools want to name at least one link type.
    fn append_missing_headers(&mut self) -> Result<(), String> {
        match self.format {
            Format::Classic(None) => self.pending.extend(classic_header(LinkType::Ethernet)?),
            Format::Ng { started: false, .. } => {
                self.pending.extend(section_header()?);
                self.pending.extend(interface_description(LinkType::Ethernet)?);
            }
            Format::Classic(Some(_)) | Format::Ng { started: true, .. } => {}
        }
        Ok(())
    }

    fn flush_pending(&mut self) -> Result<(), TrafficError> {
        self.encoder.write_all(&self.pending).map_err(|error| TrafficError::unwritable(&self.name, error))?;
        self.pending.clear();
        Ok(())
    }
}

impl Sink for CaptureWriter {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        Self::write(self, frame)
    }

    fn flush(&mut self) -> Result<(), TrafficError> {
        if !self.streams || self.pending.is_empty() {
            return Ok(());
        }
        self.flush_pending()?;
        self.encoder.flush().map_err(|error| TrafficError::unwritable(&self.name, error))
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Self::finish(*self)
    }
}

fn by_extension(path: &Path) -> Result<(Format, Compression), TrafficError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let (stem, compression) = if let Some(stem) = name.strip_suffix(".gz") {
        (stem, Compression::Gzip)
    } else if let Some(stem) = name.strip_suffix(".zst") {
        (stem, Compression::Zstd)
    } else {
        (name.as_str(), Compression::None)
    };
    let format = if stem.ends_with(".pcap") || stem.ends_with(".cap") {
        Format::Classic(None)
    } else if stem.ends_with(".pcapng") {
        Format::Ng { started: false, interfaces: Vec::new() }
    } else if path.is_dir() {
        return Err(TrafficError::usage(format!(
            "{}: this is a directory; name a file in it, out.pcap for example",
            path.display()
        )));
    } else {
        return Err(TrafficError::usage(format!(
            "{}: the extension says no capture format; use .pcap or .pcapng, and .gz or .zst behind it to compress",
            path.display()
        )));
    };
    Ok((format, compression))
}

impl Encoder {
    fn new(compression: Compression, target: Target) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain(target),
            Compression::Gzip => Self::Gzip(flate2::write::GzEncoder::new(target, flate2::Compression::default())),
            Compression::Zstd => {
                Self::Zstd(zstd::stream::write::Encoder::new(target, zstd::DEFAULT_COMPRESSION_LEVEL)?)
            }
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(target) => target.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(target) => target.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }

    fn finish(self) -> io::Result<Target> {
        let mut target = match self {
            Self::Plain(target) => target,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        target.flush()?;
        Ok(target)
    }
}

impl Target {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::File(file) => file,
            Self::Stdout(stdout) => stdout,
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

fn encoded(block: &mut impl ToVec) -> Result<Vec<u8>, String> {
    block.to_vec().map_err(|error| format!("it cannot be encoded: {error:?}"))
}

fn classic_header(link: LinkType) -> Result<Vec<u8>, String> {
    encoded(&mut PcapHeader {
        magic_number: MAGIC_NANOSECONDS,
        snaplen: SNAPSHOT_BYTES,
        network: linktype(link),
        ..PcapHeader::new()
    })
}

fn classic_record(opened: LinkType, frame: &Frame) -> Result<Vec<u8>, String> {
    if frame.link != opened {
        return Err(format!(
            "its link type is {}, and a .pcap has room for one alone, here {}; write a .pcapng",
            link_number(frame.link),
            link_number(opened)
        ));
    }
    if frame.data.len() > SNAPSHOT_BYTES as usize {
        return Err(format!(
            "it has {} bytes, and a .pcap takes {SNAPSHOT_BYTES} at most; write a .pcapng",
            frame.data.len()
        ));
    }
    let ns = frame.time.as_ns();
    let seconds = u32::try_from(ns / 1_000_000_000)
        .map_err(|_| "its time is beyond the year 2106, where a .pcap ends; write a .pcapng".to_string())?;
    encoded(&mut LegacyPcapBlock {
        ts_sec: seconds,
        ts_usec: (ns % 1_000_000_000) as u32,
        caplen: frame.data.len() as u32,
        origlen: frame.wire_length,
        data: &frame.data,
    })
}

/// A placeholder: the encoder fills in types and lengths of blocks.
const OPEN: u32 = 0;

fn section_header() -> Result<Vec<u8>, String> {
    encoded(&mut SectionHeaderBlock {
        block_type: OPEN,
        block_len1: OPEN,
        bom: BOM_MAGIC,
        major_version: 1,
        minor_version: 0,
        // The length is not known beforehand.
        section_len: -1,
        options: Vec::new(),
        block_len2: OPEN,
    })
}

fn interface_description(link: LinkType) -> Result<Vec<u8>, String> {
    encoded(&mut InterfaceDescriptionBlock {
        block_type: OPEN,
        block_len1: OPEN,
        linktype: linktype(link),
        reserved: 0,
        snaplen: 0,
        options: Vec::new(),
        block_len2: OPEN,
        // The unit is 10^-9 s.
        if_tsresol: 9,
        if_tsoffset: 0,
    })
}

fn packet_block(interface: usize, frame: &Frame) -> Result<Vec<u8>, String> {
    let captured = frame.data.len();
    if captured > RECORD_BYTES_MAX - BLOCK_OVERHEAD_BYTES {
        return Err(format!("it has {captured} bytes; {} are the most", RECORD_BYTES_MAX - BLOCK_OVERHEAD_BYTES));
    }
    let ns = frame.time.as_ns();
    encoded(&mut EnhancedPacketBlock {
        block_type: OPEN,
        block_len1: OPEN,
        if_id: interface as u32,
        ts_high: (ns >> 32) as u32,
        ts_low: ns as u32,
        caplen: captured as u32,
        origlen: frame.wire_length,
        data: &frame.data,
        options: Vec::new(),
        block_len2: OPEN,
    })
}

fn linktype(link: LinkType) -> Linktype {
    Linktype(link_number(link).into())
}
