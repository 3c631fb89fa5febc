//! A byte stream seen through a bounded window, decompressed on the way.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use std::io::{self, Read};

/// Bytes of the window while no single record is longer.
const WINDOW_BYTES: usize = 256 << 10;

/// How a stream is compressed, by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
    /// Known, and not supported.
    Foreign(&'static str),
}

impl Compression {
    /// Bytes needed to tell.
    const MAGIC_BYTES: usize = 6;

    fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Self::Foreign("xz"),
            [b'B', b'Z', b'h', ..] => Self::Foreign("bzip2"),
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Foreign("lz4"),
            _ => Self::None,
        }
    }
}

/// A window onto a stream: the bytes that were read and not yet consumed.
pub(super) struct ByteStream {
    input: Box<dyn Read + Send>,
    window: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of the first byte of the window's buffer.
    base: u64,
    ended: bool,
    failure: Option<io::Error>,
    compression: Compression,
    consumed: Arc<AtomicU64>,
}

impl ByteStream {
    /// A stream over `input`, decompressed if its first bytes say that it is compressed.
    pub(super) fn new(input: impl Read + Send + 'static) -> io::Result<Self> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut input = Counted { input, bytes: Arc::clone(&consumed) };
        let mut start = Vec::with_capacity(Compression::MAGIC_BYTES);
        input.by_ref().take(Compression::MAGIC_BYTES as u64).read_to_end(&mut start)?;
        let compression = Compression::of(&start);
        let input = io::Cursor::new(start).chain(input);
        let input: Box<dyn Read + Send> = match compression {
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(input)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(input)?),
            Compression::None | Compression::Foreign(_) => Box::new(input),
        };
        Ok(Self {
            input,
            window: vec![0; WINDOW_BYTES],
            start: 0,
            end: 0,
            base: 0,
            ended: false,
            failure: None,
            compression,
            consumed,
        })
    }

    /// How the stream is compressed.
    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes read so far below the decompression.
    pub(super) fn consumed_bytes(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    /// Offset in the uncompressed stream of the first available byte.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// The bytes that can be had without reading.
    #[inline]
    pub(super) fn available(&self) -> &[u8] {
        &self.window[self.start..self.end]
    }

    /// Makes `length` bytes available; false if the stream ends or fails before.
    #[inline]
    pub(super) fn ensure(&mut self, length: usize) -> bool {
        self.end - self.start >= length || self.fill(length)
    }

    /// Drops available bytes.
    #[inline]
    pub(super) fn consume(&mut self, length: usize) {
        debug_assert!(length <= self.end - self.start);
        self.start += length;
    }

    /// What reading failed with, if it failed.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    #[cold]
    fn fill(&mut self, length: usize) -> bool {
        self.window.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        if length > self.window.len() {
            self.window.resize(length.next_power_of_two(), 0);
        }
        while self.end < length && !self.ended {
            match self.input.read(&mut self.window[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.failure = Some(error);
                }
            }
        }
        self.end >= length
    }
}

/// A reader that counts what passes.
struct Counted<R> {
    input: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_and_grows_only_as_far_as_asked() {
        let bytes: Vec<u8> = (0..3 * WINDOW_BYTES).map(|i| (i % 251) as u8).collect();
        let mut stream = ByteStream::new(io::Cursor::new(bytes.clone())).unwrap();
        let mut at = 0;
        for length in [10, WINDOW_BYTES - 5, WINDOW_BYTES + 7, 100] {
            assert!(stream.ensure(length));
            assert_eq!(stream.offset(), at as u64);
            assert_eq!(stream.available()[..length], bytes[at..at + length]);
            stream.consume(length);
            at += length;
        }
        assert!(stream.window.len() <= 2 * WINDOW_BYTES);
        assert!(!stream.ensure(bytes.len()));
        assert_eq!(stream.available(), &bytes[at..]);
    }
}
