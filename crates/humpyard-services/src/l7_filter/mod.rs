//! L7-filter: finds the protocol of each connection from its payload, and marks the packets that follow.
//!
//! # Work
//! The first packets of a connection that have a payload, up to `packets`, form its connection buffer. TCP
//! payloads are put in the order of their sequence numbers, for each side, and matched against the table of
//! signatures from the first byte on. Each datagram is matched by itself.
//!
//! The verdict is "no match yet" until a signature matches, then the protocol; after `packets` packets it is
//! "no match". The verdict is the connection's: later packets are not inspected. Each protocol may have
//! actions:
//!
//! - `drop` drops the packet that gave the verdict, and those that follow.
//! - `weight` and `service` mark the flows of the connection: the driver gives their client that weight, and
//!   their later packets to that service.
//! - `fwmark` marks this packet and those that follow for other programs of the machine
//!   ([`Mark`](crate::Mark)).
//!
//! A segment is read twice: as the continuation of its stream, and as if a stream began with it. The second
//! reading finds protocols of connections whose beginning was not seen.
//!
//! # Source
//! The L7-filter of the PS-HRW paper (section V.A): connection buffers of up to eight packets, the table that
//! reassembles them, and marks. We wrote the signatures ourselves, from the documents that `signatures.txt`
//! names: a protocol, its patterns, and bytes that they must and must not match.
//!
//! # Several workers
//! All instances share the connections: several workers may process packets of one connection at once, and
//! packets may overtake each other. The verdict is that on the first packets in the order in which they came in
//! ([`Context::sequence`]). A packet that was overtaken is inserted at its place in the buffer, and the packets
//! are read again.
//!
//! So the first packet that matches gives a verdict, even if earlier packets are missing. An earlier packet
//! that comes later may change it. In the end, the verdict does not depend on the speed of workers. For that, a
//! connection with a verdict keeps its packets in its buffer until another connection needs the buffer: in each
//! part of the table, 32 connections later.
//!
//! # Beginnings and ends
//! The stream of a side begins behind its SYN; without a SYN, with the lowest sequence number among the first
//! packets. A connection begins with a SYN of another number than the known one, or with any SYN after a FIN or
//! a reset. It has nothing from the earlier connection between the same addresses and ports. Other connections
//! end when their place is needed.
//!
//! # Departures
//! * The paper reads its buffers again, from the first byte, with each packet that joins them. Here the
//!   automaton continues at its state, unless a packet was overtaken.
//! * A buffer has the stream of each side, not the dialogue of both: signatures begin at the first byte of a
//!   side.
//! * Datagrams are not joined: each has its own beginning. IP fragments are not reassembled.
//! * Protocols inside others are not found: a web page over TLS is `tls`. Neither are protocols inside tunnels.

mod automaton;
mod buffer;
mod connections;
mod engine;
mod inspector;
mod kept;
mod mark;
mod matched;
mod segment;
mod table;
mod tally;
#[cfg(feature = "vectorscan")]
mod vectorscan;

use core::fmt;
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::id::ServiceId;
use humpyard_core::params;

pub use self::engine::EngineName;
pub use self::mark::{Marks, Names};

use self::connections::Connections;
use self::engine::Engine;
use self::inspector::{Counts, Inspector};
use self::mark::Actions;
use self::table::table;
use self::tally::Tally;
use crate::segment::cut_packets;
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};

params! {
    /// Parameters of L7-filter.
    pub struct L7FilterParams {
        /// How many packets of a connection are looked into, of those that carry something.
        packets: u64 = 8, in 1..=255;
        /// How many bytes of each are looked at: room for whole packets of an Ethernet.
        bytes: u64 = 2_048, in 1..=65_535, unit "bytes";
        /// Connections remembered; of four by chance the one makes room that was seen least recently.
        connections: u64 = 65_536, in 128..=16_777_216, cost "always";
        /// Connections without a verdict that are put together at a time; one more takes the room of another, which begins anew. Of what
        /// packets carry `bytes` for each are kept, all together, to be read anew where one was overtaken.
        buffers: u64 = 4_096, in 32..=1_048_576, cost "always";
        /// What reads the bytes.
        engine: EngineName = EngineName::Regex, cost "always";
        /// Protocols whose connections are dropped; `humpyard list protocols` has their names.
        drop: Names = Names(String::new());
        /// Protocols whose clients get a weight.
        weight: Marks = Marks(String::new());
        /// Protocols whose packets go to another service from then on, by its place in the list of services, from 0.
        service: Marks = Marks(String::new());
        /// Protocols whose packets leave with a firewall mark, by a port that sets it: nfqueue:NUMBER.
        fwmark: Marks = Marks(String::new());
    }
}

/// Most bytes of all buffers together.
const BUFFERED_MAX: u64 = 4 << 30;

/// A signature of the table, for display or comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ListedSignature {
    /// The protocol, as in results.
    pub protocol: &'static str,
    /// The specification of its messages.
    pub source: &'static str,
    /// Its transport: `tcp`, `udp`, or `ip`.
    pub transport: &'static str,
    /// A regular expression over bytes, anchored at the first byte.
    pub pattern: &'static str,
}

/// Returns the name of every protocol in the table, with the specification of its messages.
pub fn protocols() -> impl Iterator<Item = (&'static str, &'static str)> {
    table().protocols.iter().map(|protocol| (protocol.name, protocol.source))
}

/// Returns every signature, in the order in which they count.
pub fn signatures() -> impl Iterator<Item = ListedSignature> {
    table().signatures.iter().map(|signature| {
        let protocol = &table().protocols[usize::from(signature.protocol)];
        let transport = ["tcp", "udp", "ip"][signature.transport as usize];
        ListedSignature { protocol: protocol.name, source: protocol.source, transport, pattern: signature.pattern }
    })
}

/// The data that all instances share.
struct Shared {
    connections: Connections,
    actions: Actions,
    verdicts: Tally,
    packets: u8,
    bytes: usize,
}

/// L7-filter; see the [module](self).
pub struct L7Filter {
    shared: Arc<Shared>,
    inspector: Inspector,
}

impl fmt::Debug for L7Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("L7Filter").field("counts", &self.inspector.counts).finish_non_exhaustive()
    }
}

impl Clone for L7Filter {
    /// Returns another instance, which shares the connections.
    fn clone(&self) -> Self {
        Self::with(Arc::clone(&self.shared), self.inspector.engine.clone())
    }
}

impl Build for L7Filter {
    type Params = L7FilterParams;

    const INFO: Info = Info {
        name: "l7-filter",
        summary: "protocol of each connection by its first eight packets, put in order; verdicts drop, weigh or redirect what follows",
        source: "the PS-HRW paper, section V.A; signatures of our own for some 160 protocols, from their RFCs and specifications",
    };

    fn new(params: &L7FilterParams) -> Result<Self, ServiceError> {
        let L7FilterParams { buffers, packets, bytes, .. } = *params;
        let (taken, most) = (connections::buffered(buffers, packets, bytes) >> 20, BUFFERED_MAX >> 20);
        if taken >= most {
            return Err(ServiceError::new(format!(
                "l7-filter: {buffers} `buffers` for {packets} `packets` and {bytes} `bytes` each take {taken} MiB, and less than \
                 {most} are accepted: take less of one"
            )));
        }
        let actions = Actions::new(table(), &params.drop, &params.weight, &params.service, &params.fwmark)?;
        let engine = Engine::new(params.engine)?;
        let (packets, bytes) = (packets as u8, bytes as usize);
        let connections = Connections::new(params.connections as usize, buffers as usize, (packets, bytes), &engine)?;
        let verdicts = Tally::new(table().protocols.len());
        Ok(Self::with(Arc::new(Shared { connections, actions, verdicts, packets, bytes }), engine))
    }

    fn refers_to(&self) -> Vec<ServiceId> {
        self.shared.actions.services()
    }

    fn weighs(&self) -> bool {
        self.shared.actions.weigh()
    }

    fn follows_connections(&self) -> bool {
        true
    }
}

impl L7Filter {
    fn with(shared: Arc<Shared>, engine: Engine) -> Self {
        Self { shared, inspector: Inspector::new(engine) }
    }
}

impl Service for L7Filter {
    fn process(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Verdict {
        let protocol = self.inspector.examine(&self.shared, frame, context);
        let Some(protocol) = protocol else { return Verdict::Forward };
        let actions = &self.shared.actions;
        if actions.drops(protocol) {
            return Verdict::Drop(DropReason::ProtocolDenied);
        }
        if let Some(mark) = actions.mark(protocol) {
            generated.mark(mark);
            self.inspector.counts.marked_packets += 1;
        }
        Verdict::Forward
    }

    fn counters(&self) -> Vec<Counter> {
        let Inspector { counts, reported, .. } = &self.inspector;
        reported.take(&self.shared.verdicts);
        let (no_match, found) = reported.counts();
        let &Counts { connections, examined_packets, examined_bytes, .. } = counts;
        let &Counts { reordered_packets, marked_packets, .. } = counts;
        let mut counters = vec![
            Counter::new("connections", connections),
            Counter::new("no_match", no_match),
            Counter::new("examined_packets", examined_packets),
            Counter::new("examined_bytes", examined_bytes),
            Counter::new("reordered_packets", reordered_packets),
            Counter::new("marked_packets", marked_packets),
        ];
        counters.extend(cut_packets(counts.cut_packets));
        let found = table().protocols.iter().zip(found).filter(|&(_, count)| count > 0);
        let name = |name: &str| format!("protocol_{}", name.replace('-', "_"));
        counters.extend(found.map(|(protocol, count)| Counter::new(name(protocol.name), count)));
        counters
    }
}
