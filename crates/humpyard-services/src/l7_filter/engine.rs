//! What reads the bytes: the automata of this crate, or Vectorscan.

use core::fmt;

use humpyard_core::choice;

use super::automaton::{Automata, Position, automata};
use super::matched::Matched;
use super::table::Transport;
#[cfg(feature = "vectorscan")]
use super::vectorscan::{Databases, Reader, StreamOfBytes};
use crate::service::ServiceError;

choice! {
    /// What reads the bytes.
    pub enum EngineName {
        /// Dense automata by `regex-automata`.
        Regex = "regex",
        /// Vectorscan, in programs built with the feature `vectorscan`.
        Vectorscan = "vectorscan",
    }
}

/// An engine of one instance: what it shares with others, and its scratch space.
#[derive(Clone, Debug)]
pub(super) enum Engine {
    Regex(&'static Automata),
    #[cfg(feature = "vectorscan")]
    Vectorscan(Reader),
}

/// How far the stream of one side of a connection has been read.
#[derive(Default)]
pub(super) struct Stream {
    position: Position,
    #[cfg(feature = "vectorscan")]
    stream: Option<StreamOfBytes>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("position", &self.position).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine.
    ///
    /// # Errors
    /// If this program was built without it, or the library has no room.
    pub(super) fn new(name: EngineName) -> Result<Self, ServiceError> {
        match name {
            EngineName::Regex => Ok(Self::Regex(automata())),
            #[cfg(feature = "vectorscan")]
            EngineName::Vectorscan => Ok(Self::Vectorscan(Reader::new(Databases::shared()?)?)),
            #[cfg(not(feature = "vectorscan"))]
            EngineName::Vectorscan => Err(ServiceError::new(
                "l7-filter: `engine`: this program was built without Vectorscan; accepted: regex (build with the feature \
                 `vectorscan` for the other)",
            )),
        }
    }

    /// A stream, with the memory that this engine needs for it.
    pub(super) fn stream(&self) -> Result<Stream, ServiceError> {
        match self {
            Self::Regex(_) => Ok(Stream::default()),
            #[cfg(feature = "vectorscan")]
            Self::Vectorscan(reader) => Ok(Stream { stream: Some(reader.stream()?), ..Stream::default() }),
        }
    }

    /// Puts a stream before its first byte.
    #[inline]
    pub(super) fn begin(&mut self, stream: &mut Stream, ports: (u16, u16)) {
        match self {
            Self::Regex(automata) => stream.position = automata.start(Transport::Tcp, ports),
            #[cfg(feature = "vectorscan")]
            Self::Vectorscan(_) => stream.stream.as_mut().expect("made by this engine").begin(),
        }
    }

    /// Reads what comes next in a stream, and adds the signatures that match by then.
    #[inline]
    pub(super) fn read(&mut self, stream: &mut Stream, bytes: &[u8], matched: &mut Matched) {
        match self {
            Self::Regex(automata) => automata.read(Transport::Tcp, &mut stream.position, bytes, matched),
            #[cfg(feature = "vectorscan")]
            Self::Vectorscan(reader) => {
                reader.read(stream.stream.as_mut().expect("made by this engine"), bytes, matched);
            }
        }
    }

    /// Reads what is whole by itself: a datagram, or a segment as if a stream began with it.
    #[inline]
    pub(super) fn read_whole(
        &mut self,
        transport: Transport,
        ports: (u16, u16),
        bytes: &[u8],
        matched: &mut Matched,
    ) {
        match self {
            Self::Regex(automata) => {
                automata.read(transport, &mut automata.start(transport, ports), bytes, matched);
            }
            #[cfg(feature = "vectorscan")]
            Self::Vectorscan(reader) => reader.read_whole(transport, bytes, matched),
        }
    }
}
