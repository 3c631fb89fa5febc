//! The model of `mit`, `tu` and `nyp`: a constant number of connections with heavy-tailed lengths, in bursts.

use humpyard_core::random::{Random, Seed};

use super::addresses::Addresses;
use super::laws::FlowSize;
use super::model::Model;
use super::packet::{Endpoint, Version};
use super::poisson_clock::PoissonClock;
use super::protocol::Protocol;
use super::sketch::{Saying, Segment, Sketch, Transport};
use super::text::Application;

/// Tail exponent and maximum of the packets per connection.
const SHAPE: f64 = 1.3;
const PACKETS_MAX: f64 = 5_000.0;
/// Ports of the servers, by application.
const WEB: u16 = 80;
/// Lengths of Ethernet frames, in bytes.
const SHORT: u32 = 64;
const MIDDLE: u32 = 576;
const LONG: u32 = 1_400;
/// The longest packet.
pub(super) const LENGTH_MAX: usize = LONG as usize;
/// Bursts have 1 to this many packets, uniformly distributed.
const BURST_MAX: u64 = 6;
/// Time on the wire of a byte at 10 Gbit/s, in tenths of a ns.
const BYTE_TENTHS_NS: u64 = 8;

/// The properties of a trace.
pub(super) struct Trace {
    pub(super) name: &'static str,
    /// Mean number of packets per connection.
    pub(super) connection_packets: f64,
    /// Mean length of Ethernet frames, in bytes.
    pub(super) mean_bytes: f64,
    /// Share of packets of 576 bytes.
    pub(super) middle: f64,
    /// Mean rate, in packets/s.
    pub(super) pps: u64,
    /// Connections at a time.
    pub(super) connections: u64,
}

/// Connections that send bursts.
pub(super) struct Connections {
    sizes: FlowSize,
    addresses: Addresses,
    arrivals: Random,
    choices: Random,
    clock: PoissonClock,
    /// The earliest time of the next packet on the wire.
    free_ns: u64,
    /// The longest time of a packet on the wire: a fraction of the mean gap, so that a high rate is possible.
    wire_ns_max: u64,
    /// Shares of short and of middle packets, handshakes excluded.
    short: f64,
    middle: f64,
    connections: Vec<Connection>,
    opened: u64,
    /// The connection of the current burst, and the remaining packets of the burst.
    burst: (usize, u64),
}

struct Connection {
    number: u64,
    ends: (Endpoint, Endpoint),
    left: u64,
    /// Packets sent; starts at 2 if the handshake was before the traffic.
    sent: u64,
    /// Next sequence numbers of client and server.
    next: [u32; 2],
    /// Whether either end has sent data.
    spoke: [bool; 2],
}

impl Connections {
    pub(super) fn new(trace: &Trace, seed: Seed) -> Self {
        let sizes = FlowSize::pareto(SHAPE, trace.connection_packets, PACKETS_MAX);
        let long = f64::from(LONG);
        let short = (long * (1.0 - trace.middle) + f64::from(MIDDLE) * trace.middle - trace.mean_bytes)
            / (long - f64::from(SHORT));
        // The first two packets of a connection are its handshake, and short.
        let handshake = 2.0 / trace.connection_packets;
        let mean_burst = (BURST_MAX + 1) as f64 / 2.0;
        let mut connections = Self {
            sizes,
            addresses: Addresses::new(seed, trace.name),
            arrivals: seed.stream(&format!("traffic/{}/arrivals", trace.name)),
            choices: seed.stream(&format!("traffic/{}/choices", trace.name)),
            clock: PoissonClock::new(1e9 / trace.pps as f64 * mean_burst),
            free_ns: 0,
            wire_ns_max: 500_000_000 / trace.pps,
            short: ((short - handshake) / (1.0 - handshake)).max(0.0),
            middle: trace.middle / (1.0 - handshake),
            connections: Vec::new(),
            opened: 0,
            burst: (0, 0),
        };
        for _ in 0..trace.connections {
            let left = connections.sizes.draw_residual(&mut connections.choices);
            let resumed = connections.open(left, 2);
            connections.connections.push(resumed);
        }
        connections
    }

    fn open(&mut self, left: u64, sent: u64) -> Connection {
        let number = self.opened;
        self.opened += 1;
        let next = [self.choices.bits() as u32, self.choices.bits() as u32];
        let ends = self.addresses.ends_at(number, Protocol::Tcp, WEB);
        Connection { number, ends, left, sent, next, spoke: [sent > 0; 2] }
    }

    /// Returns the connection of the next packet, and its time.
    fn schedule(&mut self) -> (usize, u64) {
        if self.burst.1 == 0 {
            self.free_ns = self.free_ns.max(self.clock.tick(&mut self.arrivals));
            let whose = self.arrivals.below(self.connections.len() as u64) as usize;
            self.burst = (whose, 1 + self.arrivals.below(BURST_MAX));
        }
        self.burst.1 -= 1;
        (self.burst.0, self.free_ns)
    }

    /// Returns the length of a packet after the handshake, and whether the server sends it.
    fn length(&mut self) -> (u32, bool) {
        let draw = self.choices.unit();
        if draw < self.short {
            (SHORT, false)
        } else if draw < self.short + self.middle {
            (MIDDLE, self.choices.below(2) == 0)
        } else {
            (LONG, true)
        }
    }
}

impl Model for Connections {
    type Packet = Sketch;

    fn next(&mut self) -> Option<Sketch> {
        let (whose, time_ns) = self.schedule();
        let (length, from_server) = match self.connections[whose].sent {
            0 => (SHORT, false),
            1 => (SHORT, true),
            _ => self.length(),
        };
        let sketch = self.connections[whose].packet(time_ns, length, from_server);
        if self.connections[whose].left == 0 {
            let packets = self.sizes.draw(&mut self.choices);
            self.connections[whose] = self.open(packets, 0);
        }
        let wire_ns = u64::from(length) * BYTE_TENTHS_NS / 10;
        self.free_ns += wire_ns.min(self.wire_ns_max).max(1);
        Some(sketch)
    }
}

impl Connection {
    fn packet(&mut self, time_ns: u64, length: u32, from_server: bool) -> Sketch {
        let sender = usize::from(from_server);
        let is_handshake = self.sent < 2;
        let fin = self.left == 1 && !is_handshake;
        let mut flags = if self.sent == 0 { 0 } else { Segment::ACK };
        if is_handshake {
            flags |= Segment::SYN;
        }
        if fin {
            flags |= Segment::FIN;
        }
        let acknowledgment = if self.sent == 0 { 0 } else { self.next[1 - sender] };
        let segment = Segment { sequence: self.next[sender], acknowledgment, flags };
        let (client, server) = self.ends;
        let ends = if from_server { (server, client) } else { (client, server) };
        let mut sketch = Sketch::new(time_ns, length, Version::V4, ends, Transport::Tcp(segment));
        let payload = sketch.payload_bytes() as u32;
        // Short packets have room for a few bytes, but are acknowledgments without payload.
        let payload = if length == SHORT {
            sketch.length = 0;
            0
        } else {
            payload
        };
        if payload > 0 && !core::mem::replace(&mut self.spoke[sender], true) {
            sketch.says = Some(Saying { application: Application::Web, from_server, conversation: self.number });
        }
        let sent = payload + u32::from(is_handshake) + u32::from(fin);
        self.next[sender] = self.next[sender].wrapping_add(sent);
        self.sent += 1;
        self.left -= 1;
        sketch
    }
}
