//! Builds real packets: Ethernet, perhaps a VLAN tag, IPv4 or IPv6, UDP or TCP, with correct lengths and
//! checksums.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6FlowLabel, Ipv6Header, PacketBuilder, TcpHeader, VlanId,
};
use humpyard_core::frame::{Frame, LinkType};

use crate::error::TrafficError;

/// The shortest frame, in bytes; shorter packets are padded as on a real Ethernet.
pub(super) const FRAME_BYTES_MIN: usize = 64;
/// Time to live of packets that do not expire on the way.
pub(super) const HOPS: u8 = 64;

/// One end of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Endpoint {
    pub(super) side: Side,
    /// The host number on that side: 24 bits for a client, 20 for a server.
    pub(super) host: u32,
    pub(super) port: u16,
}

/// The two sides of the network around a benchmarked device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Client,
    Server,
}

impl Endpoint {
    /// Returns an address of the prefixes for private use (RFC 1918, RFC 4193): of 10.0.0.0/8 or 172.16.0.0/12,
    /// of fd00:0:0:1::/64 or fd00:0:0:2::/64.
    fn address(&self, version: Version) -> IpAddr {
        match version {
            Version::V4 => Ipv4Addr::from(self.ipv4()).into(),
            Version::V6 => Ipv6Addr::from(self.ipv6()).into(),
        }
    }

    pub(super) fn ipv4(&self) -> [u8; 4] {
        let [_, high, middle, low] = self.host.to_be_bytes();
        match self.side {
            Side::Client => [10, high, middle, low],
            Side::Server => [172, 16 | high & 15, middle, low],
        }
    }

    pub(super) fn ipv6(&self) -> [u8; 16] {
        let [_, high, middle, low] = self.host.to_be_bytes();
        let network = if self.side == Side::Client { 1 } else { 2 };
        [0xfd, 0, 0, 0, 0, 0, 0, network, 0, 0, 0, 0, 0, high, middle, low]
    }

    /// Returns a locally administered hardware address.
    pub(super) fn hardware(&self) -> [u8; 6] {
        let [_, high, middle, low] = self.host.to_be_bytes();
        [0x02, 0, if self.side == Side::Client { 1 } else { 2 }, high, middle, low]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    V4,
    V6,
}

impl Version {
    /// Returns the length of an IP header without options, in bytes.
    pub(super) const fn header_bytes(self) -> usize {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
}

/// The parts of a packet.
pub(super) struct Parts<'a> {
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
    pub(super) version: Version,
    pub(super) vlan: Option<u16>,
    pub(super) hops: u8,
    /// A TCP header, whose ports and checksum are set here. `None`: UDP.
    pub(super) tcp: Option<TcpHeader>,
    pub(super) payload: &'a [u8],
}

impl Parts<'_> {
    /// Fills the frame with the packet; its time stays.
    pub(super) fn write(self, frame: &mut Frame) -> Result<(), TrafficError> {
        frame.data.clear();
        let ethernet = PacketBuilder::ethernet2(self.source.hardware(), self.destination.hardware());
        let ip = self.ip()?;
        let packet = match self.vlan.and_then(|id| VlanId::try_new(id).ok()) {
            Some(id) => ethernet.single_vlan(id).ip(ip),
            None => ethernet.ip(ip),
        };
        let (from, to) = (self.source.port, self.destination.port);
        let written = match self.tcp {
            None => packet.udp(from, to).write(&mut frame.data, self.payload),
            Some(mut tcp) => {
                tcp.source_port = from;
                tcp.destination_port = to;
                packet.tcp_header(tcp).write(&mut frame.data, self.payload)
            }
        };
        written.map_err(impossible)?;
        if frame.data.len() < FRAME_BYTES_MIN {
            frame.data.resize(FRAME_BYTES_MIN, 0);
        }
        frame.link = LinkType::Ethernet;
        frame.wire_length = frame.data.len() as u32;
        Ok(())
    }

    /// Returns the IP header; the builder fills in lengths, protocol and checksum.
    fn ip(&self) -> Result<IpHeaders, TrafficError> {
        let addresses = (self.source.address(self.version), self.destination.address(self.version));
        match addresses {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let protocol = etherparse::IpNumber(0);
                let header = Ipv4Header::new(0, self.hops, protocol, source.octets(), destination.octets())
                    .map_err(impossible)?;
                Ok(IpHeaders::Ipv4(header, Ipv4Extensions::default()))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: 0,
                    next_header: etherparse::IpNumber(0),
                    hop_limit: self.hops,
                    source: source.octets(),
                    destination: destination.octets(),
                };
                Ok(IpHeaders::Ipv6(header, Ipv6Extensions::default()))
            }
            _ => Err(impossible("its ends have different versions")),
        }
    }
}

/// Returns the error that ends a generator if a profile makes an invalid length, which would be a defect.
fn impossible(error: impl ToString) -> TrafficError {
    TrafficError::unusable("generator", format!("it made a packet that does not exist: {}", error.to_string()))
}

/// Checks of the profiles' packets.
#[cfg(test)]
pub(super) mod tests {
    use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
    use humpyard_core::random::Seed;

    use super::*;

    /// Returns all packets of a source.
    pub(in super::super) fn frames(specification: &str, seed: u64) -> Vec<Frame> {
        all_of(&mut *crate::open(specification, Seed(seed)).unwrap())
    }

    /// Returns all packets of an open source.
    pub(in super::super) fn all_of(source: &mut dyn crate::Source) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut frame = Frame::default();
        while source.next(&mut frame).unwrap() {
            frames.push(frame.clone());
        }
        frames
    }

    /// Asserts that a frame is a complete packet with correct lengths and checksums.
    pub(in super::super) fn assert_sound(frame: &Frame) {
        assert_eq!(frame.wire_length as usize, frame.data.len());
        let packet = match frame.link {
            LinkType::RawIp => LaxSlicedPacket::from_ip(&frame.data).unwrap(),
            _ => LaxSlicedPacket::from_ethernet(&frame.data).unwrap(),
        };
        assert!(frame.data.len() >= if frame.link == LinkType::RawIp { 28 } else { FRAME_BYTES_MIN });
        assert!(packet.stop_err.is_none(), "{:?}", packet.stop_err);
        let (ip_header_sound, checksum, found) =
            match (packet.net.as_ref().unwrap(), packet.transport.as_ref().unwrap()) {
                (LaxNetSlice::Ipv4(ip), transport) => {
                    let header = ip.header().to_header();
                    assert!(!ip.payload().incomplete);
                    let (a, b) = (header.source, header.destination);
                    let (computed, found) = match transport {
                        TransportSlice::Udp(udp) => {
                            (udp.to_header().calc_checksum_ipv4_raw(a, b, udp.payload()).unwrap(), udp.checksum())
                        }
                        TransportSlice::Tcp(tcp) => (tcp.calc_checksum_ipv4(a, b).unwrap(), tcp.checksum()),
                        TransportSlice::Icmpv4(icmp) => {
                            (icmp.icmp_type().calc_checksum(icmp.payload()), icmp.checksum())
                        }
                        other => panic!("{other:?}"),
                    };
                    (header.calc_header_checksum() == header.header_checksum, computed, found)
                }
                (LaxNetSlice::Ipv6(ip), transport) => {
                    let header = ip.header().to_header();
                    assert!(!ip.payload().incomplete);
                    let (a, b) = (header.source, header.destination);
                    let (computed, found) = match transport {
                        TransportSlice::Udp(udp) => {
                            (udp.to_header().calc_checksum_ipv6_raw(a, b, udp.payload()).unwrap(), udp.checksum())
                        }
                        TransportSlice::Tcp(tcp) => (tcp.calc_checksum_ipv6(a, b).unwrap(), tcp.checksum()),
                        TransportSlice::Icmpv6(icmp) => {
                            (icmp.icmp_type().calc_checksum(a, b, icmp.payload()).unwrap(), icmp.checksum())
                        }
                        other => panic!("{other:?}"),
                    };
                    (true, computed, found)
                }
                other => panic!("{other:?}"),
            };
        assert!(ip_header_sound);
        assert_eq!(checksum, found);
    }

    #[test]
    fn every_combination_is_sound() {
        let mut frame = Frame::default();
        let mut random = Seed(1).stream("test");
        for _ in 0..200 {
            let payload = vec![b'x'; random.below(1400) as usize];
            let client = Endpoint { side: Side::Client, host: random.bits() as u32, port: random.bits() as u16 };
            let server = Endpoint { side: Side::Server, host: random.bits() as u32, port: random.bits() as u16 };
            let parts = Parts {
                source: client,
                destination: server,
                version: if random.below(2) == 0 { Version::V4 } else { Version::V6 },
                vlan: (random.below(2) == 0).then_some(7),
                hops: HOPS,
                tcp: (random.below(2) == 0).then(TcpHeader::default),
                payload: &payload,
            };
            parts.write(&mut frame).unwrap();
            assert_sound(&frame);
        }
    }
}
