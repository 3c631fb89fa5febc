//! The six services of a gateway between IPv4 and IPv6: TCP, UDP and ICMP over either, with their shares of the
//! packets and their packet lengths.

use humpyard_core::random::{Random, Seed};

use super::addresses::Addresses;
use super::numbered::{Draw, ServiceFlows};
use super::packet::{Endpoint, FRAME_BYTES_MIN, Version};
use super::protocol::Protocol;
use super::sketch::{Segment, Sketch, Transport};

/// Ethernet lengths of TCP packets of mixed flows, in bytes, each with the share of longer packets.
const TCP_LENGTHS: [(f64, u32); 3] = [(0.42, 64), (0.17, 576), (0.0, 1_514)];
/// Least and greatest Ethernet length of UDP packets, in bytes, uniformly distributed.
const UDP_LENGTHS: (u32, u32) = (64, 576);
/// Payload of an echo, in bytes, as in common programs.
const ECHO_BYTES: u32 = 56;
/// Length of an Ethernet header, in bytes.
const ETHERNET_BYTES: u32 = 14;
/// The longest Ethernet frame made, in bytes.
pub(super) const LENGTH_MAX: u32 = 1_514;

/// One of the services.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    pub(super) protocol: Protocol,
    pub(super) version: Version,
    /// Its share of all packets.
    pub(super) share: f64,
    /// Length of all headers of its packets, in bytes.
    header_bytes: u32,
    /// The endpoints of its flows.
    addresses: Addresses,
}

/// The flows of the six services.
pub(super) type Gateway = ServiceFlows<6>;

/// Shares of the packets. TCP has the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) udp: f64,
    pub(super) icmp: f64,
    pub(super) ipv6: f64,
}

impl Mix {
    /// Returns the services of a profile, with their shares.
    pub(super) fn services(&self, profile: &str, seed: Seed) -> [Service; 6] {
        // Reduces ICMP's share so that shares sum to 1.
        let icmp = self.icmp.min(1.0 - self.udp);
        let shares = [(Protocol::Tcp, 1.0 - self.udp - icmp), (Protocol::Udp, self.udp), (Protocol::Icmp, icmp)];
        core::array::from_fn(|at| {
            let (protocol, share) = shares[at % 3];
            let (version, part) = if at < 3 { (Version::V4, 1.0 - self.ipv6) } else { (Version::V6, self.ipv6) };
            let name = format!("{profile}/{}", service_name(version, protocol));
            let header_bytes = header_bytes(protocol, version);
            Service { protocol, version, share: share * part, header_bytes, addresses: Addresses::new(seed, &name) }
        })
    }
}

/// Returns the name of a random stream.
const fn service_name(version: Version, protocol: Protocol) -> &'static str {
    match (version, protocol) {
        (Version::V4, Protocol::Tcp) => "v4-tcp",
        (Version::V4, Protocol::Udp) => "v4-udp",
        (Version::V4, Protocol::Icmp) => "v4-icmp",
        (Version::V6, Protocol::Tcp) => "v6-tcp",
        (Version::V6, Protocol::Udp) => "v6-udp",
        (Version::V6, Protocol::Icmp) => "v6-icmp",
    }
}

/// Returns the length of all headers of a packet, in bytes.
const fn header_bytes(protocol: Protocol, version: Version) -> u32 {
    let transport = match protocol {
        Protocol::Tcp => 20,
        Protocol::Udp | Protocol::Icmp => 8,
    };
    ETHERNET_BYTES + version.header_bytes() as u32 + transport
}

impl Service {
    /// Returns the name of its random stream.
    pub(super) const fn name(&self) -> &'static str {
        service_name(self.version, self.protocol)
    }

    /// Returns client and server of a flow.
    pub(super) fn ends(&self, flow: u64) -> (Endpoint, Endpoint) {
        self.addresses.ends(flow, self.protocol)
    }

    /// Returns a packet from the client.
    pub(super) fn sketch(&self, time_ns: u64, length: u32, ends: (Endpoint, Endpoint), sequence: u32) -> Sketch {
        let transport = match self.protocol {
            Protocol::Tcp => Transport::Tcp(Segment { sequence, acknowledgment: 1, flags: Segment::ACK }),
            Protocol::Udp => Transport::Udp,
            Protocol::Icmp => Transport::Echo { sequence: sequence as u16, reply: false },
        };
        Sketch::new(time_ns, length, self.version, ends, transport)
    }

    /// Returns the Ethernet length of its shortest packet, in bytes.
    #[inline]
    const fn length_min(&self) -> u32 {
        let headers = self.header_bytes;
        if headers > FRAME_BYTES_MIN as u32 { headers } else { FRAME_BYTES_MIN as u32 }
    }

    /// Returns a random Ethernet length of a packet, in bytes.
    #[inline]
    pub(super) fn length(&self, random: &mut Random) -> u32 {
        match self.protocol {
            Protocol::Tcp => {
                let draw = random.unit();
                TCP_LENGTHS.iter().find(|(longer, _)| draw > *longer).map_or(LENGTH_MAX, |&(_, length)| length)
            }
            Protocol::Udp => {
                let (least, greatest) = UDP_LENGTHS;
                least + random.below(u64::from(greatest - least) + 1) as u32
            }
            Protocol::Icmp => self.header_bytes + ECHO_BYTES,
        }
    }
}

/// The progress of a flow, by which its next packet follows the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The next TCP sequence number of either end, or of the next echo.
    pub(super) next: u32,
}

impl Progress {
    /// Returns the client's next packet, of this length.
    pub(super) fn sketch(
        &mut self,
        time_ns: u64,
        length: u32,
        ends: (Endpoint, Endpoint),
        service: &Service,
    ) -> Sketch {
        service.sketch(time_ns, length, ends, self.advance(length, service))
    }

    /// Returns the next packet of the flow with this number.
    #[inline]
    pub(super) fn draw(&mut self, time_ns: u64, length: u32, flow: u64, service: &Service) -> Draw {
        let sequence = self.advance(length, service);
        Draw { time_ns, flow, length: length.max(service.length_min()), sequence, text: 0 }
    }

    /// Returns the sequence number of the next packet, of this length.
    #[inline]
    fn advance(&mut self, length: u32, service: &Service) -> u32 {
        let passed = match service.protocol {
            Protocol::Tcp => length.saturating_sub(service.header_bytes),
            Protocol::Udp | Protocol::Icmp => 1,
        };
        let next = self.next.wrapping_add(passed);
        core::mem::replace(&mut self.next, next)
    }
}
