//! Sketches of packets, and their conversion to bytes.
//!
//! A model gives the time, the flow and the length of each packet. [`Writer`] makes the frame: Ethernet (or
//! none), IPv4 or IPv6, TCP, UDP or ICMP echo, with correct lengths and checksums. The payload is a part of a
//! prose text with precomputed sums, so that a checksum takes the same time for 9,000 bytes as for 60.

use core::ops::Range;

use etherparse::checksum::Sum16BitWords;
use etherparse::ip_number;
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::hash::mix;
use humpyard_core::unit::Time;

use super::numbered::Draw;
use super::packet::{Endpoint, FRAME_BYTES_MIN, HOPS, Version};
use super::text::{self, Application};
use crate::header::{FIN_SYN_RST, FlowKey, Headers, Kind, Network};
use crate::tunnel::Tunnels;

/// Upper limit of the payload's offset in the prose, unless a model sets the offset.
const STARTS: u64 = 1_024;
/// Length of an Ethernet header, in bytes.
const ETHERNET_BYTES: usize = 14;
/// Length of the longest headers, in bytes: Ethernet, IPv6, TCP.
const HEADERS_MAX: usize = ETHERNET_BYTES + 40 + 20;
/// Length of the longest IP packet, in bytes.
const IP_BYTES_MAX: usize = 65_535;

/// The description of a packet without bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sketch {
    pub(super) time_ns: u64,
    /// Length on the wire in bytes, including any Ethernet header; raised to the length of the headers.
    pub(super) length: u32,
    pub(super) version: Version,
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
    pub(super) transport: Transport,
    /// Whether the frame starts with the IP header.
    pub(super) raw: bool,
    /// The offset of the payload in the prose.
    pub(super) text: u32,
    /// The text of an application before the prose.
    pub(super) says: Option<Saying>,
}

/// The start of a payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saying {
    pub(super) application: Application,
    pub(super) from_server: bool,
    pub(super) conversation: u64,
}

/// The part behind the IP header.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transport {
    Udp,
    Tcp(Segment),
    /// An echo request, or its reply; its identifier is the source's port.
    Echo {
        sequence: u16,
        reply: bool,
    },
}

/// The fields of a TCP header besides the ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Segment {
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    pub(super) flags: u8,
}

impl Segment {
    pub(super) const FIN: u8 = 1;
    pub(super) const SYN: u8 = 2;
    pub(super) const ACK: u8 = 16;
}

impl Sketch {
    /// Returns a packet over Ethernet with prose as payload.
    pub(super) fn new(
        time_ns: u64,
        length: u32,
        version: Version,
        ends: (Endpoint, Endpoint),
        transport: Transport,
    ) -> Self {
        let text = Self::text_at(time_ns);
        let (source, destination) = ends;
        Self { time_ns, length, version, source, destination, transport, raw: false, text, says: None }
    }

    /// Returns the payload's offset in the prose for a packet at this time, unless a model sets the offset.
    pub(super) fn text_at(time_ns: u64) -> u32 {
        (mix(time_ns) % STARTS) as u32
    }

    /// Returns the length of all headers, in bytes.
    fn header_bytes(&self) -> usize {
        let link = if self.raw { 0 } else { ETHERNET_BYTES };
        link + self.version.header_bytes() + self.transport.header_bytes()
    }

    /// Returns the length of the payload, in bytes: the rest of the packet's length, up to the longest IP
    /// packet.
    pub(super) fn payload_bytes(&self) -> usize {
        let room = IP_BYTES_MAX - self.version.header_bytes() - self.transport.header_bytes();
        (self.length as usize).saturating_sub(self.header_bytes()).min(room)
    }

    /// Returns the length of the frame.
    pub(super) fn wire_length(&self) -> u32 {
        let bytes = self.header_bytes() + self.payload_bytes();
        if self.raw { bytes as u32 } else { bytes.max(FRAME_BYTES_MIN) as u32 }
    }

    /// Sets the frame and the headers for [`Source::next_headers`](crate::Source::next_headers). Without
    /// tunnels, it does not write the packet.
    pub(super) fn heading(&self, writer: &mut Writer, frame: &mut Frame, tunnels: Tunnels, headers: &mut Headers) {
        if tunnels == Tunnels::NONE {
            frame.time = Time::from_ns(self.time_ns);
            frame.wire_length = self.wire_length();
            *headers = self.headers();
        } else {
            writer.write(self, frame);
            headers.set_inside(frame, tunnels);
        }
    }

    /// Returns the headers of the frame.
    pub(super) fn headers(&self) -> Headers {
        let (mut source, mut destination) = ([0; 16], [0; 16]);
        let network = match self.version {
            Version::V4 => {
                source[..4].copy_from_slice(&self.source.ipv4());
                destination[..4].copy_from_slice(&self.destination.ipv4());
                Network::Ipv4
            }
            Version::V6 => {
                (source, destination) = (self.source.ipv6(), self.destination.ipv6());
                Network::Ipv6
            }
        };
        let (kind, source_port, destination_port) = match self.transport {
            Transport::Udp => (Kind::Udp, self.source.port, self.destination.port),
            Transport::Tcp(_) => (Kind::Tcp, self.source.port, self.destination.port),
            Transport::Echo { .. } => (Kind::Icmp, 0, 0),
        };
        let protocol = self.transport.protocol(self.version);
        let ip_offset = if self.raw { 0 } else { ETHERNET_BYTES };
        Headers {
            kind,
            key: FlowKey { network, protocol, source, destination, source_port, destination_port },
            ip_offset: Some(ip_offset as u32),
            transport_offset: Some((ip_offset + self.version.header_bytes()) as u32),
            fragment: false,
            vlan: 0,
            tunnels: 0,
            begins_or_ends: matches!(&self.transport, Transport::Tcp(segment) if segment.flags & FIN_SYN_RST != 0),
        }
    }
}

impl Transport {
    const fn header_bytes(&self) -> usize {
        match self {
            Self::Udp | Self::Echo { .. } => 8,
            Self::Tcp(_) => 20,
        }
    }

    /// Returns the protocol's number over this version of IP.
    const fn protocol(&self, version: Version) -> u8 {
        match (self, version) {
            (Self::Udp, _) => ip_number::UDP.0,
            (Self::Tcp(_), _) => ip_number::TCP.0,
            (Self::Echo { .. }, Version::V4) => ip_number::ICMP.0,
            (Self::Echo { .. }, Version::V6) => ip_number::IPV6_ICMP.0,
        }
    }
}

/// Makes frames from sketches.
pub(super) struct Writer {
    prose: Vec<u8>,
    /// Sum of the bytes before each offset, with the even ones times 256.
    sums: Vec<u64>,
    saying: Vec<u8>,
    /// Headers of flows, each at its flow's number modulo [`KEPT`]. Empty before the first.
    kept: Vec<Kept>,
}

/// Number of flows whose headers a writer keeps.
const KEPT: usize = 1_024;

/// The headers of a flow of UDP packets. At the same length, they differ only by their checksum.
#[derive(Clone)]
struct Kept {
    /// The number of the flow.
    flow: u64,
    /// Length of the packets.
    length: u32,
    /// Length of the payload, in bytes.
    payload: u32,
    written: Written,
    header: [u8; HEADERS_MAX],
}

/// Written headers, without the transport's checksum.
#[derive(Clone, Default)]
struct Written {
    /// Length of all headers, in bytes.
    bytes: usize,
    /// The sum of all data that the checksum covers, except the payload.
    sum: Sum16BitWords,
    /// Offset of the checksum.
    checksum_at: usize,
    /// Whether the transport is UDP, where a checksum of 0 means that there is none. Other transports keep a 0:
    /// all ones would be an equal sum, but some receivers reject it.
    no_zero: bool,
}

impl Writer {
    /// Returns a writer of packets up to `length_max` bytes, whose payloads start before offset `starts` of the
    /// prose.
    pub(super) fn new(length_max: usize, starts: usize) -> Self {
        let prose = text::prose(length_max + starts.max(STARTS as usize));
        let mut sum = 0;
        let mut sums = Vec::with_capacity(prose.len() + 1);
        sums.push(sum);
        for (at, &byte) in prose.iter().enumerate() {
            sum += u64::from(byte) << if at % 2 == 0 { 8 } else { 0 };
            sums.push(sum);
        }
        Self { prose, sums, saying: Vec::new(), kept: Vec::new() }
    }

    /// Fills the frame with the packet.
    pub(super) fn write(&mut self, sketch: &Sketch, frame: &mut Frame) {
        let payload = sketch.payload_bytes();
        let said = self.say(sketch, payload);
        let prose = sketch.text as usize..sketch.text as usize + payload - said;
        let payload_sum = self.payload_sum(said, &prose);
        let mut header = [0; HEADERS_MAX];
        let written = write_headers(&mut header, sketch, payload);
        written.complete(&mut header, payload_sum);
        let link = if sketch.raw { LinkType::RawIp } else { LinkType::Ethernet };
        fill(frame, sketch.time_ns, link, [&header[..written.bytes], &self.saying[..said], &self.prose[prose]]);
    }

    /// Like [`Self::write`], for a packet whose flow has a number. The headers of `sketch` must depend only on
    /// that number, the length and the sequence number; its payload must start at `text`. Keeps the headers of
    /// UDP packets over Ethernet for the flow's next packet.
    pub(super) fn write_drawn(&mut self, draw: &Draw, text: u32, sketch: impl FnOnce() -> Sketch, frame: &mut Frame) {
        let place = draw.flow as usize % KEPT;
        if self.kept.get(place).is_none_or(|kept| (kept.flow, kept.length) != (draw.flow, draw.length)) {
            let sketch = sketch();
            if sketch.raw || sketch.says.is_some() || !matches!(sketch.transport, Transport::Udp) {
                return self.write(&sketch, frame);
            }
            self.keep(draw, &sketch);
        }
        let Kept { payload, written, header, .. } = &self.kept[place];
        let prose = text as usize..text as usize + *payload as usize;
        let mut header = *header;
        written.complete(&mut header, self.payload_sum(0, &prose));
        fill(frame, draw.time_ns, LinkType::Ethernet, [&header[..written.bytes], &self.prose[prose]]);
    }

    /// Keeps the headers of this packet for others of its flow and length.
    fn keep(&mut self, draw: &Draw, sketch: &Sketch) {
        let payload = sketch.payload_bytes();
        let mut header = [0; HEADERS_MAX];
        let written = write_headers(&mut header, sketch, payload);
        let kept = Kept { flow: draw.flow, length: draw.length, payload: payload as u32, written, header };
        if self.kept.is_empty() {
            // No packet has a length of 0.
            let none = Kept { flow: 0, length: 0, payload: 0, written: Written::default(), header: [0; HEADERS_MAX] };
            self.kept.resize(KEPT, none);
        }
        self.kept[draw.flow as usize % KEPT] = kept;
    }

    /// Returns the sum of the application's text, of this length, and a part of the prose.
    fn payload_sum(&self, said: usize, prose: &Range<usize>) -> Sum16BitWords {
        Sum16BitWords::new()
            .add_slice(&self.saying[..said])
            .add_2bytes(self.prose_sum(prose.start, prose.end).to_be_bytes())
    }

    /// Writes the application's text, in at most `room` bytes. Returns its length, which is even: an odd one
    /// would shift the sums of the prose.
    fn say(&mut self, sketch: &Sketch, room: usize) -> usize {
        let Some(saying) = sketch.says else { return 0 };
        saying.application.head(&mut self.saying, saying.from_server, saying.conversation, 1);
        if self.saying.len() % 2 == 1 {
            self.saying.push(b' ');
        }
        self.saying.len().min(room & !1)
    }

    /// Returns the sum of a part of the prose as 16-bit words, modulo the checksum's base.
    fn prose_sum(&self, start: usize, end: usize) -> u16 {
        let mut sum = self.sums[end] - self.sums[start];
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let sum = sum as u16;
        if start.is_multiple_of(2) { sum } else { sum.swap_bytes() }
    }
}

/// Fills a frame with these parts, and pads it to Ethernet's minimum length.
#[inline]
fn fill<const PARTS: usize>(frame: &mut Frame, time_ns: u64, link: LinkType, parts: [&[u8]; PARTS]) {
    let data = &mut frame.data;
    data.clear();
    parts.iter().for_each(|part| data.extend_from_slice(part));
    if link == LinkType::Ethernet && data.len() < FRAME_BYTES_MIN {
        data.resize(FRAME_BYTES_MIN, 0);
    }
    frame.time = Time::from_ns(time_ns);
    frame.wire_length = data.len() as u32;
    frame.link = link;
}

impl Written {
    /// Writes the transport's checksum into the headers, for a payload with this sum.
    fn complete(&self, header: &mut [u8; HEADERS_MAX], payload_sum: Sum16BitWords) {
        let sum = self.sum.clone().add_2bytes((!payload_sum.ones_complement()).to_ne_bytes());
        let checksum = if self.no_zero { sum.to_ones_complement_with_no_zero() } else { sum.ones_complement() };
        header[self.checksum_at..self.checksum_at + 2].copy_from_slice(&checksum.to_ne_bytes());
    }
}

/// Writes all headers except the transport's checksum, before a payload of this length.
fn write_headers(out: &mut [u8; HEADERS_MAX], sketch: &Sketch, payload: usize) -> Written {
    let mut at = 0;
    if !sketch.raw {
        out[..6].copy_from_slice(&sketch.destination.hardware());
        out[6..12].copy_from_slice(&sketch.source.hardware());
        let ether_type: u16 = if sketch.version == Version::V4 { 0x0800 } else { 0x86dd };
        out[12..14].copy_from_slice(&ether_type.to_be_bytes());
        at = ETHERNET_BYTES;
    }
    let transport_bytes = sketch.transport.header_bytes() + payload;
    let protocol = sketch.transport.protocol(sketch.version);
    let (ip, rest) = out[at..].split_at_mut(sketch.version.header_bytes());
    // The sum of the pseudo-header.
    let mut pseudo = match sketch.version {
        Version::V4 => write_ipv4(ip, sketch, transport_bytes, protocol),
        Version::V6 => write_ipv6(ip, sketch, transport_bytes, protocol),
    };
    pseudo = pseudo.add_2bytes([0, protocol]).add_4bytes((transport_bytes as u32).to_be_bytes());
    let header = &mut rest[..sketch.transport.header_bytes()];
    let (source, destination) = (sketch.source.port.to_be_bytes(), sketch.destination.port.to_be_bytes());
    let length = (transport_bytes as u16).to_be_bytes();
    // Sums use the values: bytes just written in pieces are slow to read back as words.
    let (sum, checksum_at) = match sketch.transport {
        Transport::Udp => {
            header[..2].copy_from_slice(&source);
            header[2..4].copy_from_slice(&destination);
            header[4..6].copy_from_slice(&length);
            (pseudo.add_2bytes(source).add_2bytes(destination).add_2bytes(length), 6)
        }
        Transport::Tcp(Segment { sequence, acknowledgment, flags }) => {
            let (sequence, acknowledgment) = (sequence.to_be_bytes(), acknowledgment.to_be_bytes());
            let (offset_and_flags, window) = ([5 << 4, flags], 64_240u16.to_be_bytes());
            header[..2].copy_from_slice(&source);
            header[2..4].copy_from_slice(&destination);
            header[4..8].copy_from_slice(&sequence);
            header[8..12].copy_from_slice(&acknowledgment);
            header[12..14].copy_from_slice(&offset_and_flags);
            header[14..16].copy_from_slice(&window);
            let ports = pseudo.add_2bytes(source).add_2bytes(destination);
            let numbers = ports.add_2bytes(offset_and_flags).add_4bytes(sequence).add_4bytes(acknowledgment);
            (numbers.add_2bytes(window), 16)
        }
        Transport::Echo { sequence, reply } => {
            let is_v4 = sketch.version == Version::V4;
            let kind = match (is_v4, reply) {
                (true, false) => 8,
                (true, true) => 0,
                (false, false) => 128,
                (false, true) => 129,
            };
            let (identifier, sequence) = (if reply { destination } else { source }, sequence.to_be_bytes());
            header[0] = kind;
            header[4..6].copy_from_slice(&identifier);
            header[6..8].copy_from_slice(&sequence);
            let before = if is_v4 { Sum16BitWords::new() } else { pseudo };
            (before.add_2bytes([kind, 0]).add_2bytes(identifier).add_2bytes(sequence), 2)
        }
    };
    let before = at + sketch.version.header_bytes();
    Written {
        bytes: before + sketch.transport.header_bytes(),
        sum,
        checksum_at: before + checksum_at,
        no_zero: matches!(sketch.transport, Transport::Udp),
    }
}

/// Writes an IPv4 header. Returns the sum of its addresses.
fn write_ipv4(ip: &mut [u8], sketch: &Sketch, transport_bytes: usize, protocol: u8) -> Sum16BitWords {
    let ip_bytes = ((ip.len() + transport_bytes) as u16).to_be_bytes();
    let (source, destination) = (sketch.source.ipv4(), sketch.destination.ipv4());
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&ip_bytes);
    // The flag that forbids fragmentation.
    ip[6] = 0x40;
    ip[8] = HOPS;
    ip[9] = protocol;
    ip[12..16].copy_from_slice(&source);
    ip[16..20].copy_from_slice(&destination);
    let addresses = || Sum16BitWords::new().add_4bytes(source).add_4bytes(destination);
    let sum = addresses().add_2bytes([0x45, 0]).add_2bytes(ip_bytes).add_2bytes([0x40, 0]).add_2bytes([HOPS, protocol]);
    ip[10..12].copy_from_slice(&sum.ones_complement().to_ne_bytes());
    addresses()
}

/// Writes an IPv6 header. Returns the sum of its addresses.
fn write_ipv6(ip: &mut [u8], sketch: &Sketch, transport_bytes: usize, protocol: u8) -> Sum16BitWords {
    let (source, destination) = (sketch.source.ipv6(), sketch.destination.ipv6());
    ip[0] = 0x60;
    ip[4..6].copy_from_slice(&(transport_bytes as u16).to_be_bytes());
    ip[6] = protocol;
    ip[7] = HOPS;
    ip[8..24].copy_from_slice(&source);
    ip[24..40].copy_from_slice(&destination);
    Sum16BitWords::new().add_16bytes(source).add_16bytes(destination)
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::super::packet::Side;
    use super::super::packet::tests::assert_sound;
    use super::*;

    #[test]
    fn every_combination_is_sound() {
        let mut writer = Writer::new(9_000, 0);
        let mut frame = Frame::default();
        let mut random = Seed(1).stream("test");
        for round in 0..3_000 {
            let end = |side, host: u64, port: u64| Endpoint { side, host: host as u32, port: port as u16 };
            let ends =
                (end(Side::Client, random.bits(), random.bits()), end(Side::Server, random.bits(), random.bits()));
            let version = if random.below(2) == 0 { Version::V4 } else { Version::V6 };
            let transport = match random.below(4) {
                0 => Transport::Udp,
                1 => Transport::Tcp(Segment {
                    sequence: random.bits() as u32,
                    acknowledgment: random.bits() as u32,
                    flags: Segment::ACK,
                }),
                n => Transport::Echo { sequence: random.bits() as u16, reply: n == 2 },
            };
            let length = 40 + random.below(if round % 10 == 0 { 8_900 } else { 200 }) as u32;
            let mut sketch = Sketch::new(random.bits() >> 20, length, version, ends, transport);
            sketch.raw = random.below(4) == 0;
            sketch.text = random.below(STARTS) as u32;
            if random.below(3) == 0 {
                let application = [Application::Web, Application::Telemetry][random.below(2) as usize];
                sketch.says = Some(Saying { application, from_server: random.below(2) == 0, conversation: round });
            }
            writer.write(&sketch, &mut frame);
            assert_sound(&frame);
            assert_eq!(frame.time, Time::from_ns(sketch.time_ns));
            assert_eq!(Headers::parse(&frame), sketch.headers());
            assert_eq!(frame.wire_length, sketch.wire_length());
            let least = if sketch.raw { 0 } else { FRAME_BYTES_MIN as u32 };
            assert_eq!(frame.wire_length, length.max(sketch.header_bytes() as u32).max(least));
        }
    }

    /// With more flows than are kept, so that some share a place, with two lengths and all transports.
    #[test]
    fn kept_headers_are_those_of_the_sketch() {
        let mut random = Seed(1).stream("test");
        let [mut plain, mut keeping] = [(); 2].map(|()| Writer::new(2_000, 2_000));
        let [mut expected, mut frame] = [(); 2].map(|()| Frame::default());
        for _ in 0..10_000 {
            let flow = random.below(3 * KEPT as u64);
            let length = if random.below(9) == 0 { 900 } else { 40 + flow as u32 % 60 };
            let draw = Draw { time_ns: random.bits() >> 20, flow, length, sequence: 7, text: 0 };
            let version = if flow.is_multiple_of(2) { Version::V4 } else { Version::V6 };
            let transport = match flow % 7 {
                0 => Transport::Echo { sequence: draw.sequence as u16, reply: false },
                1 => Transport::Tcp(Segment { sequence: draw.sequence, ..Segment::default() }),
                _ => Transport::Udp,
            };
            let end = |side| Endpoint { side, host: flow as u32, port: 5 + flow as u16 };
            let ends = (end(Side::Client), end(Side::Server));
            let text = Sketch::text_at(draw.time_ns);
            let sketch = Sketch::new(draw.time_ns, length, version, ends, transport);
            plain.write(&sketch, &mut expected);
            keeping.write_drawn(&draw, text, || sketch, &mut frame);
            assert_eq!(frame, expected);
        }
    }

    #[test]
    fn nothing_is_longer_than_an_ip_packet() {
        let ends = [Side::Client, Side::Server].map(|side| Endpoint { side, host: 1, port: 1 });
        for version in [Version::V4, Version::V6] {
            let mut frame = Frame::default();
            let sketch = Sketch::new(0, 100_000, version, (ends[0], ends[1]), Transport::Udp);
            Writer::new(100_000, 0).write(&sketch, &mut frame);
            assert_sound(&frame);
            assert_eq!(frame.data.len(), ETHERNET_BYTES + IP_BYTES_MAX);
        }
    }
}
