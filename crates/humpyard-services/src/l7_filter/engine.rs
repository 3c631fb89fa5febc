//! The matching engine: the automata of this crate, or Vectorscan.

use core::fmt;

use humpyard_core::choice;

use super::automaton::{Automata, Position, automata};
use super::matched::Matched;
use super::table::Transport;
#[cfg(feature = "vectorscan")]
use super::vectorscan::{Databases, Reader, StreamOfBytes};
use crate::service::ServiceError;

choice! {
    /// The name of an engine.
    pub enum EngineName {
        /// Dense automata by `regex-automata`.
        Regex = "regex",
        /// Vectorscan, in programs built with the feature `vectorscan`.
        Vectorscan = "vectorscan",
    }
}

/// An engine of one instance: its shared tables, and its own scratch space.
#[derive(Clone, Debug)]
pub(super) enum Engine {
    Regex(&'static Automata),
    #[cfg(feature = "vectorscan")]
    Vectorscan(Reader),
}

/// The position in the stream of one side of a connection.
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
    /// Returns an engine.
    ///
    /// # Errors
    /// If this program was built without the engine, or the library has no memory.
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

    /// Returns a stream, with the memory that this engine needs for it.
    pub(super) fn stream(&self) -> Result<Stream, ServiceError> {
        match self {
            Self::Regex(_) => Ok(Stream::default()),
            #[cfg(feature = "vectorscan")]
            Self::Vectorscan(reader) => Ok(Stream { stream: Some(reader.stream()?), ..Stream::default() }),
        }
    }

    /// Resets a stream to before its first byte.
    #[inline]
    pub(super) fn begin(&mut self, stream: &mut Stream, ports: (u16, u16)) {
        match self {
            Self::Regex(automata) => stream.position = automata.start(Transport::Tcp, ports),
            #[cfg(feature = "vectorscan")]
            Self::Vectorscan(_) => stream.stream.as_mut().expect("made by this engine").begin(),
        }
    }

    /// Reads the next bytes of a stream, and adds the signatures that match by now.
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

    /// Reads a whole payload: a datagram, or a segment as if a stream began with it.
    #[inline]
    pub(super) fn read_whole(&mut self, transport: Transport, ports: (u16, u16), bytes: &[u8], matched: &mut Matched) {
        match self {
            Self::Regex(automata) => {
                automata.read(transport, &mut automata.start(transport, ports), bytes, matched);
            }
            #[cfg(feature = "vectorscan")]
            Self::Vectorscan(reader) => reader.read_whole(transport, bytes, matched),
        }
    }
}

/// Checks that both engines find the same signatures.
#[cfg(all(test, feature = "vectorscan"))]
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
mod tests {
    use humpyard_core::frame::Frame;
    use humpyard_traffic::test_captures::{manifest, traces_directory};
    use humpyard_traffic::{CaptureReader, Source};
    use proptest::prelude::*;

    use super::*;
    use crate::l7_filter::segment::Segment;
    use crate::l7_filter::table::table;

    struct Pair {
        engines: [Engine; 2],
        streams: [Stream; 2],
        /// Number of sets that were not empty.
        found: u64,
    }

    impl Pair {
        fn new() -> Self {
            let engines = [EngineName::Regex, EngineName::Vectorscan].map(|name| Engine::new(name).unwrap());
            let streams = [0, 1].map(|at| engines[at].stream().unwrap());
            Self { engines, streams, found: 0 }
        }

        /// Returns the signatures at these ports that an engine finds in a payload, whole or in pieces.
        fn find(
            &mut self,
            at: usize,
            transport: Transport,
            ports: (u16, u16),
            payload: &[u8],
            piece: usize,
        ) -> Vec<usize> {
            let (engine, stream) = (&mut self.engines[at], &mut self.streams[at]);
            let mut matched = Matched::new(table().signatures.len());
            if piece == 0 {
                engine.read_whole(transport, ports, payload, &mut matched);
            } else {
                engine.begin(stream, ports);
                payload.chunks(piece).for_each(|piece| engine.read(stream, piece, &mut matched));
            }
            matched.iter().filter(|&number| table().signatures[number].is_at(ports)).collect()
        }

        fn compare(&mut self, transport: Transport, ports: (u16, u16), payload: &[u8], piece: usize) {
            let [one, other] = [0, 1].map(|at| self.find(at, transport, ports, payload, piece));
            let text = &payload[..payload.len().min(200)];
            assert_eq!(one, other, "{transport:?} {ports:?} in pieces of {piece}: {}", text.escape_ascii());
            self.found += u64::from(!one.is_empty());
        }
    }

    #[test]
    fn on_every_example() {
        let mut pair = Pair::new();
        for example in &table().examples {
            let signature = &table().signatures[example.signature];
            let port = signature.ports.first().copied().unwrap_or(0);
            for transport in Transport::ALL {
                pair.compare(transport, (port, 1), &example.bytes, 0);
            }
            for piece in [1, 2, 7] {
                pair.compare(Transport::Tcp, (1, port), &example.bytes, piece);
            }
        }
        assert!(pair.found > 250);
    }

    #[test]
    fn on_every_packet_of_the_captures_of_protocols() {
        let Some(directory) = traces_directory() else {
            eprintln!(
                "SKIPPED on_every_packet_of_the_captures_of_protocols: there are no real captures; set HUMPYARD_TRACES"
            );
            return;
        };
        let (mut pair, mut packets) = (Pair::new(), 0);
        let files = manifest(&directory).into_iter().filter(|entry| entry.file.starts_with("protocols/"));
        for entry in files {
            let Ok(mut reader) = CaptureReader::open(directory.join(entry.file)) else { continue };
            let mut frame = Frame::default();
            while let Ok(true) = reader.next(&mut frame) {
                let Some(segment) = Segment::of(&frame) else { continue };
                packets += 1;
                pair.compare(segment.transport, segment.ports, segment.payload, 0);
                if segment.transport == Transport::Tcp {
                    pair.compare(Transport::Tcp, segment.ports, segment.payload, 1 + packets % 50);
                }
            }
        }
        assert!(packets > 40_000 && pair.found > 10_000, "{packets} packets, {} with a match", pair.found);
    }

    /// Generates noise, and examples of the table within noise.
    fn payload() -> impl Strategy<Value = Vec<u8>> {
        let noise = proptest::collection::vec(any::<u8>(), 0..300);
        let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
        let example = (0..table().examples.len(), changes, noise.clone()).prop_map(|(number, changes, tail)| {
            let mut bytes = table().examples[number].bytes.clone();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.extend(tail);
            bytes
        });
        prop_oneof![1 => noise, 3 => example]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn on_anything(payload in payload(), port in 0usize..400, piece in 1usize..40) {
            let mut pair = Pair::new();
            let ports: Vec<u16> = table().signatures.iter().flat_map(|signature| signature.ports.iter().copied()).collect();
            let ports = (ports.get(port).copied().unwrap_or(40_000), 50_000);
            for transport in Transport::ALL {
                pair.compare(transport, ports, &payload, 0);
            }
            pair.compare(Transport::Tcp, ports, &payload, piece);
        }
    }
}
