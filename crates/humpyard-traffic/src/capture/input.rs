//! Reads and decompresses the bytes of a capture.

use core::sync::atomic::{AtomicU64, Ordering};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::OnceLock;

/// The compression of an input, by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
    /// A known compression that is not supported.
    Foreign(&'static str),
}

impl Compression {
    /// Bytes needed to detect the compression.
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

/// Shared state of an input that another reader owns.
#[derive(Default)]
pub(super) struct Watch {
    consumed: AtomicU64,
    failure: OnceLock<io::Error>,
}

impl Watch {
    /// Returns the bytes read before decompression.
    pub(super) fn consumed_bytes(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    /// Returns the error of a failed read, if any.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
    }
}

/// Reads the bytes of a capture. Its reader sees a failure as the end; [`Watch`] distinguishes them.
pub(super) struct Input {
    bytes: Box<dyn Read + Send>,
    compression: Compression,
    watch: Arc<Watch>,
}

impl Input {
    /// Returns the bytes of `input`, decompressed if its first bytes show a compression.
    pub(super) fn new(input: impl Read + Send + 'static) -> io::Result<Self> {
        let watch = Arc::new(Watch::default());
        let mut input = Counted { input, watch: Arc::clone(&watch) };
        let mut start = Vec::with_capacity(Compression::MAGIC_BYTES);
        input.by_ref().take(Compression::MAGIC_BYTES as u64).read_to_end(&mut start)?;
        let compression = Compression::of(&start);
        let input = io::Cursor::new(start).chain(input);
        let bytes: Box<dyn Read + Send> = match compression {
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(input)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(input)?),
            Compression::None | Compression::Foreign(_) => Box::new(input),
        };
        Ok(Self { bytes, compression, watch })
    }

    /// Returns the compression of the input.
    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns the shared state, for use after the input was moved.
    pub(super) fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// Appends this many bytes. Returns false if the input ends or fails before.
    pub(super) fn read_on(&mut self, head: &mut Vec<u8>, bytes: usize) -> bool {
        self.by_ref().take(bytes as u64).read_to_end(head).is_ok_and(|read| read == bytes)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.watch.failure.get().is_none() {
            match self.bytes.read(buffer) {
                Ok(bytes) => return Ok(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // This is the only error, because the loop ends with it.
                    let _ = self.watch.failure.set(error);
                }
            }
        }
        Ok(0)
    }
}

/// A reader that counts its bytes.
struct Counted<R> {
    input: R,
    watch: Arc<Watch>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.watch.consumed.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that returns one byte at a time, is interrupted before each, and fails at the end.
    struct Broken(u8);

    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1..=20 if self.0 % 2 == 1 => Err(io::ErrorKind::Interrupted.into()),
                1..=20 => {
                    buffer[0] = self.0;
                    Ok(1)
                }
                21 => Err(io::ErrorKind::ConnectionReset.into()),
                _ => panic!("it is read on after it has failed"),
            }
        }
    }

    #[test]
    fn a_failure_is_an_end_that_is_remembered() {
        let mut input = Input::new(Broken(0)).unwrap();
        let watch = input.watch();
        let mut bytes = Vec::new();
        assert!(input.read_on(&mut bytes, 9));
        assert!(watch.failure().is_none());
        assert!(!input.read_on(&mut bytes, 9));
        assert_eq!(bytes, [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
        assert_eq!(watch.failure().unwrap().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(watch.consumed_bytes(), 10);
        assert_eq!(input.read(&mut [0]).unwrap(), 0);
    }
}
