//! The capture writer: pcap and pcapng, plain or compressed, never half a file under the final name.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use humpyard_core::frame::{Frame, LinkType};
use tempfile::NamedTempFile;

use super::format::{
    BLOCK_ENHANCED_PACKET, BLOCK_INTERFACE, BLOCK_SECTION, BYTE_ORDER_MAGIC, MAGIC_NANOSECONDS, OPTION_END,
    OPTION_RESOLUTION, RECORD_BYTES_MAX, SNAPSHOT_BYTES, link_number,
};
use crate::error::TrafficError;
use crate::sink::Sink;

/// Bytes gathered before they are compressed and written.
const PENDING_BYTES: usize = 64 << 10;
/// Room a pcapng block takes beside the packet, and more than a classic record does.
const BLOCK_OVERHEAD_BYTES: usize = 64;

/// Writes a capture. What it writes appears under its name when [`Sink::finish`] returns, and not before; a writer that is
/// dropped leaves nothing behind.
pub struct CaptureWriter {
    name: String,
    format: Format,
    pending: Vec<u8>,
    encoder: Encoder,
    /// Where the file goes in the end; none for stdout.
    path: Option<PathBuf>,
    packets: u64,
}

enum Format {
    /// One link type, once it is known.
    Classic(Option<LinkType>),
    /// The link types that have an interface, and whether the section has been opened.
    Ng { started: bool, interfaces: Vec<LinkType> },
}

#[derive(Clone, Copy)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Where bytes go.
enum Target {
    Temporary(NamedTempFile),
    Stdout(io::Stdout),
}

enum Encoder {
    Plain(Target),
    Gzip(flate2::write::GzEncoder<Target>),
    Zstd(zstd::stream::write::Encoder<'static, Target>),
}

impl CaptureWriter {
    /// A writer of the capture `path`: `.pcap` (or `.cap`) or `.pcapng`, with `.gz` or `.zst` behind it to compress.
    ///
    /// `-` writes an uncompressed pcap to the standard output, as it comes.
    ///
    /// # Errors
    /// If the name has another extension, or no file can be made beside it.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, TrafficError> {
        let path = path.as_ref();
        if path == Path::new("-") {
            let encoder = Encoder::Plain(Target::Stdout(io::stdout()));
            return Ok(Self::new("standard output".into(), Format::Classic(None), encoder, None));
        }
        let name = path.display().to_string();
        let (format, compression) = by_extension(path)?;
        let temporary = temporary_beside(path).map_err(|error| TrafficError::unwritable(&name, error))?;
        let encoder = Encoder::new(compression, Target::Temporary(temporary))
            .map_err(|error| TrafficError::unwritable(&name, error))?;
        Ok(Self::new(name, format, encoder, Some(path.into())))
    }

    fn new(name: String, format: Format, encoder: Encoder, path: Option<PathBuf>) -> Self {
        Self { name, format, pending: Vec::with_capacity(2 * PENDING_BYTES), encoder, path, packets: 0 }
    }

    /// Appends a frame: its captured bytes, its time in ns, and its length on the wire.
    ///
    /// # Errors
    /// If the frame does not fit the format (the message says which one it fits), or the file cannot be written.
    pub fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        match &mut self.format {
            Format::Classic(link) => {
                let opened = *link.get_or_insert_with(|| {
                    classic_header(&mut self.pending, frame.link);
                    frame.link
                });
                classic_record(&mut self.pending, opened, frame)
            }
            Format::Ng { started, interfaces } => {
                if !core::mem::replace(started, true) {
                    section_header(&mut self.pending);
                }
                let index = interfaces.iter().position(|&link| link == frame.link).unwrap_or_else(|| {
                    interface_description(&mut self.pending, frame.link);
                    interfaces.push(frame.link);
                    interfaces.len() - 1
                });
                packet_block(&mut self.pending, index, frame)
            }
        }
        .map_err(|reason| TrafficError::output(&self.name, format!("packet {}: {reason}", self.packets + 1)))?;
        self.packets += 1;
        if self.pending.len() >= PENDING_BYTES { self.flush_pending() } else { Ok(()) }
    }

    /// Completes the capture, gives it its name, and answers how many packets it has.
    ///
    /// # Errors
    /// If the rest cannot be written, or the file cannot be given its name.
    pub fn finish(mut self) -> Result<u64, TrafficError> {
        self.write_missing_headers();
        self.flush_pending()?;
        let Self { name, encoder, path, packets, .. } = self;
        let target = encoder.finish().map_err(|error| TrafficError::unwritable(&name, error))?;
        if let (Target::Temporary(file), Some(path)) = (target, path) {
            file.persist(path).map_err(|error| TrafficError::unwritable(&name, error.error))?;
        }
        Ok(packets)
    }

    /// A capture without packets is a capture too; tools want it to name at least one link type.
    fn write_missing_headers(&mut self) {
        match &mut self.format {
            Format::Classic(link @ None) => {
                classic_header(&mut self.pending, LinkType::Ethernet);
                *link = Some(LinkType::Ethernet);
            }
            Format::Ng { started: started @ false, interfaces } => {
                section_header(&mut self.pending);
                interface_description(&mut self.pending, LinkType::Ethernet);
                interfaces.push(LinkType::Ethernet);
                *started = true;
            }
            _ => {}
        }
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
    } else {
        return Err(TrafficError::usage(format!(
            "{}: the extension says no capture format; use .pcap or .pcapng, and .gz or .zst behind it to compress",
            path.display()
        )));
    };
    Ok((format, compression))
}

fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".humpyard-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The user's umask takes from this what it takes from any new file.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory)
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
            Self::Temporary(file) => {
                let file: &mut File = file.as_file_mut();
                file
            }
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

fn put16(out: &mut Vec<u8>, halves: &[u16]) {
    for half in halves {
        out.extend_from_slice(&half.to_le_bytes());
    }
}

fn put32(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn classic_header(out: &mut Vec<u8>, link: LinkType) {
    put32(out, &[MAGIC_NANOSECONDS]);
    put16(out, &[2, 4]);
    put32(out, &[0, 0, SNAPSHOT_BYTES, u32::from(link_number(link))]);
}

fn classic_record(out: &mut Vec<u8>, opened: LinkType, frame: &Frame) -> Result<(), String> {
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
    put32(out, &[seconds, (ns % 1_000_000_000) as u32, frame.data.len() as u32, frame.wire_length]);
    out.extend_from_slice(&frame.data);
    Ok(())
}

fn section_header(out: &mut Vec<u8>) {
    put32(out, &[BLOCK_SECTION, 28, BYTE_ORDER_MAGIC]);
    put16(out, &[1, 0]);
    // The length of the section is not known beforehand.
    put32(out, &[u32::MAX, u32::MAX, 28]);
}

fn interface_description(out: &mut Vec<u8>, link: LinkType) {
    put32(out, &[BLOCK_INTERFACE, 32]);
    put16(out, &[link_number(link), 0]);
    put32(out, &[0]);
    put16(out, &[OPTION_RESOLUTION, 1]);
    // 10^-9 s, and three bytes to fill the word.
    out.extend_from_slice(&[9, 0, 0, 0]);
    put16(out, &[OPTION_END, 0]);
    put32(out, &[32]);
}

fn packet_block(out: &mut Vec<u8>, interface: usize, frame: &Frame) -> Result<(), String> {
    let captured = frame.data.len();
    if captured > RECORD_BYTES_MAX - BLOCK_OVERHEAD_BYTES {
        return Err(format!("it has {captured} bytes; {} are the most", RECORD_BYTES_MAX - BLOCK_OVERHEAD_BYTES));
    }
    let padded = captured.next_multiple_of(4);
    let length = (32 + padded) as u32;
    let ns = frame.time.as_ns();
    put32(out, &[BLOCK_ENHANCED_PACKET, length, interface as u32, (ns >> 32) as u32, ns as u32]);
    put32(out, &[captured as u32, frame.wire_length]);
    out.extend_from_slice(&frame.data);
    out.extend_from_slice(&[0; 3][..padded - captured]);
    put32(out, &[length]);
    Ok(())
}
