//! Parses a frame: its headers, its flow's key, and the two hashes for steering.
//!
//! Parsing never fails. A frame that is not IP, or is cut or broken before its addresses, belongs to a flow by
//! link type, Ethernet type and hardware addresses.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{LaxIpSlice, ip_number};
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::hash::{TOEPLITZ_KEY, Toeplitz};
use humpyard_core::random::Seed;
use siphasher::sip::SipHasher13;

use crate::capture;
use crate::hash_fields::HashFields;
use crate::tunnel::{Carried, Tunnels};

/// The network protocol of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Network {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Another protocol, described by its link.
    Other {
        /// Number of the link type in captures.
        link: u16,
        /// Ethernet type; 0: none.
        ether_type: u16,
    },
}

/// The key of a flow: its addresses, its ports and its protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowKey {
    /// The network protocol, which determines the format of the addresses.
    pub network: Network,
    /// IP protocol number behind all extension headers; 0 if this is not IP.
    pub protocol: u8,
    /// Source address: 16 bytes for IPv6, else 4 (IPv4) or 6 (hardware) and zeros.
    pub source: [u8; 16],
    /// Destination address, as the source.
    pub destination: [u8; 16],
    /// Source port; 0 if the protocol has none, or in a fragment.
    pub source_port: u16,
    /// Destination port; 0 if the protocol has none, or in a fragment.
    pub destination_port: u16,
}

impl FlowKey {
    /// The longest encoding, in bytes.
    const BYTES_MAX: usize = 41;

    /// Returns the key of the connection: the two endpoints in ascending order, the same for both directions.
    pub fn connection(&self) -> Self {
        if (self.source, self.source_port) <= (self.destination, self.destination_port) {
            *self
        } else {
            self.reversed()
        }
    }

    /// Returns the key of the flow in the other direction.
    pub fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..*self
        }
    }

    /// Returns the source's IP address, if this is IP.
    pub fn source_address(&self) -> Option<IpAddr> {
        self.address(&self.source)
    }

    /// Returns the destination's IP address, if this is IP.
    pub fn destination_address(&self) -> Option<IpAddr> {
        self.address(&self.destination)
    }

    fn address(&self, bytes: &[u8; 16]) -> Option<IpAddr> {
        match self.network {
            Network::Ipv4 => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
            Network::Ipv6 => Some(Ipv6Addr::from(*bytes).into()),
            Network::Other { .. } => None,
        }
    }

    const fn has_ports(&self) -> bool {
        self.source_port != 0 || self.destination_port != 0
    }

    /// Writes source address, destination address and any ports in the order that network cards hash. Returns
    /// the length.
    fn tuple(&self, out: &mut [u8]) -> usize {
        // Copies of a constant length need no call.
        match self.network {
            Network::Ipv4 => self.tuple_of::<4>(out),
            Network::Ipv6 => self.tuple_of::<16>(out),
            Network::Other { .. } => self.tuple_of::<6>(out),
        }
    }

    /// The same for addresses of `BYTES` bytes.
    #[inline]
    fn tuple_of<const BYTES: usize>(&self, out: &mut [u8]) -> usize {
        out[..BYTES].copy_from_slice(&self.source[..BYTES]);
        out[BYTES..2 * BYTES].copy_from_slice(&self.destination[..BYTES]);
        if !self.has_ports() {
            return 2 * BYTES;
        }
        out[2 * BYTES..2 * BYTES + 2].copy_from_slice(&self.source_port.to_be_bytes());
        out[2 * BYTES + 2..2 * BYTES + 4].copy_from_slice(&self.destination_port.to_be_bytes());
        2 * BYTES + 4
    }

    /// Writes the whole key; different keys have different encodings. Returns the length.
    fn encode(&self, out: &mut [u8; Self::BYTES_MAX]) -> usize {
        let length = self.tuple(out);
        out[length] = self.protocol;
        let [a, b, c, d] = match self.network {
            Network::Ipv4 => [4, 0, 0, 0],
            Network::Ipv6 => [6, 0, 0, 0],
            Network::Other { link, ether_type } => {
                let ([a, b], [c, d]) = (link.to_be_bytes(), ether_type.to_be_bytes());
                [a, b, c, d]
            }
        };
        out[length + 1..length + 5].copy_from_slice(&[a, b, c, d]);
        length + 5
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(source), Some(destination)) = (self.source_address(), self.destination_address()) {
            let name = protocol_name(self.protocol);
            if !self.has_ports() {
                return write!(f, "{name} {source} > {destination}");
            }
            let (from, to) = (self.source_port, self.destination_port);
            return match self.network {
                Network::Ipv6 => write!(f, "{name} [{source}]:{from} > [{destination}]:{to}"),
                _ => write!(f, "{name} {source}:{from} > {destination}:{to}"),
            };
        }
        if let Network::Other { link, ether_type } = self.network {
            write!(f, "link {link} type {ether_type:#06x} ")?;
        }
        write_hardware(f, &self.source)?;
        f.write_str(" > ")?;
        write_hardware(f, &self.destination)
    }
}

fn write_hardware(f: &mut fmt::Formatter<'_>, address: &[u8; 16]) -> fmt::Result {
    let [a, b, c, d, e, g, ..] = address;
    write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
}

/// Returns the name of an IP protocol: a well-known name, else `ip-` and the number.
pub fn protocol_name(protocol: u8) -> std::borrow::Cow<'static, str> {
    match etherparse::IpNumber(protocol) {
        ip_number::TCP => "tcp".into(),
        ip_number::UDP => "udp".into(),
        ip_number::ICMP => "icmp".into(),
        ip_number::IPV6_ICMP => "icmpv6".into(),
        ip_number::IGMP => "igmp".into(),
        ip_number::GRE => "gre".into(),
        ip_number::ENCAP_SEC => "esp".into(),
        ip_number::SCTP => "sctp".into(),
        ip_number::UDP_LITE => "udplite".into(),
        ip_number::DCCP => "dccp".into(),
        ip_number::OSPFIGP => "ospf".into(),
        ip_number::PIM => "pim".into(),
        other => format!("ip-{}", other.0).into(),
    }
}

/// The coarse kind of a packet, by which rules choose services.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Kind {
    /// TCP, over either IP.
    Tcp,
    /// UDP, over either IP.
    Udp,
    /// ICMP over IPv4, ICMPv6 over IPv6.
    Icmp,
    /// Another IP protocol, or an IP packet cut before its protocol.
    OtherIp,
    /// Not IP.
    #[default]
    NonIp,
}

/// The parsed headers of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Headers {
    /// The coarse kind.
    pub kind: Kind,
    /// The flow the frame belongs to.
    pub key: FlowKey,
    /// Offset of the IP header in the frame. `None`: this is not IP.
    pub ip_offset: Option<u32>,
    /// Offset of the transport header, or of a fragment's payload. `None`: this is not IP.
    pub transport_offset: Option<u32>,
    /// Whether this is a fragment of an IP packet, the first or another.
    pub fragment: bool,
    /// Identifier of the outermost VLAN tag; 0: there is none, or the tag has none.
    pub vlan: u16,
    /// Number of tunnels around this IP packet, among those to look into.
    pub tunnels: u8,
    /// Whether this is TCP with SYN, FIN or RST.
    pub begins_or_ends: bool,
}

impl Headers {
    /// Parses the headers of a frame. Never fails: an unreadable frame belongs to a flow by link and hardware
    /// address.
    pub fn parse(frame: &Frame) -> Self {
        Self::parse_inside(frame, Tunnels::NONE)
    }

    /// Parses the headers of the innermost IP packet in these tunnels.
    #[inline(always)]
    pub fn parse_inside(frame: &Frame, tunnels: Tunnels) -> Self {
        if tunnels == Tunnels::NONE
            && frame.link == LinkType::Ethernet
            && let Some(headers) = Self::parse_common(&frame.data)
        {
            return headers;
        }
        Self::parse_any(frame, tunnels)
    }

    /// Sets these headers to those of [`Self::parse_inside`]. Each way of parsing writes them itself: if both returned
    /// them, the compiler would join the two results field by field.
    #[inline(always)]
    pub fn set_inside(&mut self, frame: &Frame, tunnels: Tunnels) {
        if tunnels == Tunnels::NONE
            && frame.link == LinkType::Ethernet
            && let Some(headers) = Self::parse_common(&frame.data)
        {
            *self = headers;
            return;
        }
        self.set_any(frame, tunnels);
    }

    /// Sets these headers to those of [`Self::parse_any`].
    #[inline(never)]
    fn set_any(&mut self, frame: &Frame, tunnels: Tunnels) {
        *self = Self::parse_any(frame, tunnels);
    }

    /// Parses the most common frames: Ethernet without tags, IPv4 or IPv6 without options, fragments or
    /// extensions, complete headers of TCP or UDP. The result is that of [`Self::parse_any`], which takes
    /// several times as long. `None`: another kind of frame.
    #[inline(always)]
    fn parse_common(data: &[u8]) -> Option<Self> {
        let ether_type = u16::from_be_bytes(*data.get(12..)?.first_chunk()?);
        let packet = &data[ETHERNET_BYTES..];
        // Addresses as numbers stay in registers; arrays copied in part would go through memory.
        let (network, protocol, transport_at, stated, [source, destination]) = match ether_type {
            ether_type::IPV4 => {
                let header: &[u8; 20] = packet.first_chunk()?;
                let &[0x45, _, l0, l1, _, _, f0, f1, _, protocol, _, _, ref addresses @ ..] = header else {
                    return None;
                };
                // The bit for more fragments, and the offset of this one.
                if u16::from_be_bytes([f0, f1]) & 0x3fff != 0 {
                    return None;
                }
                let &[s0, s1, s2, s3, d0, d1, d2, d3] = addresses;
                let ends = [u32::from_le_bytes([s0, s1, s2, s3]), u32::from_le_bytes([d0, d1, d2, d3])];
                (Network::Ipv4, protocol, 20, usize::from(u16::from_be_bytes([l0, l1])), ends.map(u128::from))
            }
            ether_type::IPV6 => {
                let header: &[u8; 40] = packet.first_chunk()?;
                let &[version, _, _, _, l0, l1, protocol, _, ref addresses @ ..] = header;
                if version >> 4 != 6 {
                    return None;
                }
                let ends = [*addresses.first_chunk()?, *addresses.last_chunk()?].map(u128::from_le_bytes);
                (Network::Ipv6, protocol, 40, 40 + usize::from(u16::from_be_bytes([l0, l1])), ends)
            }
            _ => return None,
        };
        let (kind, header_bytes) = match etherparse::IpNumber(protocol) {
            ip_number::TCP => (Kind::Tcp, 20),
            ip_number::UDP => (Kind::Udp, 8),
            _ => return None,
        };
        let transport = packet.get(transport_at..transport_at + header_bytes)?;
        // A packet whose length is less than its headers is invalid.
        if stated < transport_at + header_bytes {
            return None;
        }
        let &[s0, s1, d0, d1, ..] = transport else { return None };
        let (source_port, destination_port) = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
        let (source, destination) = (source.to_le_bytes(), destination.to_le_bytes());
        Some(Self {
            kind,
            key: FlowKey { network, protocol, source, destination, source_port, destination_port },
            ip_offset: Some(ETHERNET_BYTES as u32),
            transport_offset: Some((ETHERNET_BYTES + transport_at) as u32),
            fragment: false,
            vlan: 0,
            tunnels: 0,
            begins_or_ends: kind == Kind::Tcp && transport[13] & FIN_SYN_RST != 0,
        })
    }

    /// Parses the headers of a frame of any kind.
    #[inline(never)]
    fn parse_any(frame: &Frame, tunnels: Tunnels) -> Self {
        let outer = Outer::parse(frame.link, &frame.data);
        let Some((mut headers, end)) = outer.ip_offset().and_then(|offset| Self::parse_ip(&frame.data, offset)) else {
            return outer.non_ip(frame.link);
        };
        headers.vlan = outer.vlan;
        if tunnels != Tunnels::NONE {
            // Bytes behind the IP packet, such as padding, are not inside the tunnel.
            let mut data = &frame.data[..end];
            while usize::from(headers.tunnels) < Tunnels::DEPTH_MAX {
                let Some((inner, end)) = headers.inner(data, tunnels) else { break };
                headers = Self { tunnels: headers.tunnels + 1, vlan: headers.vlan, ..inner };
                data = &data[..end];
            }
        }
        headers
    }

    /// Returns the IP packet inside the one with these headers, if it is a tunnel, and the inner packet's end.
    fn inner(&self, data: &[u8], tunnels: Tunnels) -> Option<(Self, usize)> {
        if self.fragment {
            return None;
        }
        let transport = self.transport_offset? as usize;
        let protocol = etherparse::IpNumber(self.key.protocol);
        let (carried, start) = tunnels.inside(protocol, self.key.destination_port, data.get(transport..)?)?;
        let offset = match carried {
            Carried::Ip => transport + start,
            Carried::Ethernet => {
                let frame = data.get(transport + start..)?;
                transport + start + Outer::parse(LinkType::Ethernet, frame).ip_offset()?
            }
        };
        Self::parse_ip(data, offset)
    }

    /// Returns the IP version: 4 or 6. `None`: this is not IP.
    pub const fn version(&self) -> Option<u8> {
        match self.key.network {
            Network::Ipv4 => Some(4),
            Network::Ipv6 => Some(6),
            Network::Other { .. } => None,
        }
    }

    /// Parses the IP packet at this offset. Returns its headers, and its end: that of its length field, within
    /// the data.
    fn parse_ip(data: &[u8], offset: usize) -> Option<(Self, usize)> {
        let packet = data.get(offset..)?;
        let (ip, cut_extension) = LaxIpSlice::from_slice(packet).ok()?;
        let (mut source, mut destination) = ([0; 16], [0; 16]);
        let network = match &ip {
            LaxIpSlice::Ipv4(ip) => {
                source[..4].copy_from_slice(&ip.header().source());
                destination[..4].copy_from_slice(&ip.header().destination());
                Network::Ipv4
            }
            LaxIpSlice::Ipv6(ip) => {
                source = ip.header().source();
                destination = ip.header().destination();
                Network::Ipv6
            }
        };
        let payload = ip.payload();
        // No fragment has ports here, not even the first: all fragments of a packet belong to one flow.
        let (protocol, ports) = if payload.fragmented {
            (fragmented_protocol(&ip), None)
        } else if cut_extension.is_some() {
            (payload.ip_number, None)
        } else {
            (payload.ip_number, ports(payload.ip_number, payload.payload))
        };
        let (source_port, destination_port) = ports.unwrap_or((0, 0));
        let key = FlowKey { network, protocol: protocol.0, source, destination, source_port, destination_port };
        let transport = offset + header_bytes(&ip);
        let headers = Self {
            kind: kind(network, protocol),
            key,
            ip_offset: u32::try_from(offset).ok(),
            transport_offset: u32::try_from(transport).ok(),
            fragment: payload.fragmented,
            vlan: 0,
            tunnels: 0,
            begins_or_ends: ports.is_some() && protocol == ip_number::TCP && begins_or_ends(payload.payload),
        };
        Some((headers, transport + payload.payload.len()))
    }
}

/// Returns the protocol of a fragmented packet, which all fragments have in common. Only the first fragment has
/// the extension headers behind it; the bytes there are arbitrary in the others.
fn fragmented_protocol(ip: &LaxIpSlice<'_>) -> etherparse::IpNumber {
    match ip {
        LaxIpSlice::Ipv4(ip) => ip.header().protocol(),
        LaxIpSlice::Ipv6(ip) => {
            let (mut next, mut rest) = (ip.header().next_header(), ip.extensions().slice());
            loop {
                let &[after, length, ..] = rest else { return next };
                let bytes = match next {
                    ip_number::IPV6_FRAGMENTATION_HEADER => return etherparse::IpNumber(after),
                    ip_number::AUTHENTICATION_HEADER => 4 * (usize::from(length) + 2),
                    _ => 8 * (usize::from(length) + 1),
                };
                next = etherparse::IpNumber(after);
                rest = rest.get(bytes..).unwrap_or_default();
            }
        }
    }
}

/// Returns the length of the IP header with all extensions, in bytes.
fn header_bytes(ip: &LaxIpSlice<'_>) -> usize {
    match ip {
        LaxIpSlice::Ipv4(ip) => {
            ip.header().slice().len() + ip.extensions().auth.map_or(0, |authentication| authentication.slice().len())
        }
        LaxIpSlice::Ipv6(ip) => ip.header().slice().len() + ip.extensions().slice().len(),
    }
}

fn kind(network: Network, protocol: etherparse::IpNumber) -> Kind {
    match (network, protocol) {
        (_, ip_number::TCP) => Kind::Tcp,
        (_, ip_number::UDP) => Kind::Udp,
        (Network::Ipv4, ip_number::ICMP) | (Network::Ipv6, ip_number::IPV6_ICMP) => Kind::Icmp,
        _ => Kind::OtherIp,
    }
}

/// Returns the ports, which all transports with ports have first.
fn ports(protocol: etherparse::IpNumber, transport: &[u8]) -> Option<(u16, u16)> {
    match (protocol, transport) {
        (
            ip_number::TCP | ip_number::UDP | ip_number::SCTP | ip_number::DCCP | ip_number::UDP_LITE,
            &[a, b, c, d, ..],
        ) => Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
        _ => None,
    }
}

/// The TCP flags that begin or end a connection.
pub(crate) const FIN_SYN_RST: u8 = 0b111;

/// Returns whether a TCP header has SYN, FIN or RST; false if it is cut before its flags.
fn begins_or_ends(transport: &[u8]) -> bool {
    transport.get(13).is_some_and(|flags| flags & FIN_SYN_RST != 0)
}

/// The Ethernet types used here.
mod ether_type {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const VLAN: u16 = 0x8100;
    pub(super) const PROVIDER_VLAN: u16 = 0x88a8;
    /// Stacked tags from before 802.1ad.
    pub(super) const STACKED_VLAN: u16 = 0x9100;
    pub(super) const PPPOE_SESSION: u16 = 0x8864;
    pub(super) const MPLS: u16 = 0x8847;
    /// Smaller values are lengths (802.3), not types.
    pub(super) const MINIMUM: u16 = 0x0600;
}

/// Length of an Ethernet header without tags, in bytes.
const ETHERNET_BYTES: usize = 14;

/// The bits of a VLAN tag that identify the network; the others are priority and drop eligibility.
const VLAN_IDENTIFIER: u16 = 0x0fff;

/// The headers before the network layer.
#[derive(Default)]
struct Outer {
    ether_type: u16,
    offset: usize,
    source: [u8; 6],
    destination: [u8; 6],
    vlan: u16,
}

impl Outer {
    fn parse(link: LinkType, data: &[u8]) -> Self {
        let mut outer = match link {
            LinkType::Ethernet => Self::ethernet(data),
            LinkType::LinuxCooked => Self::cooked(data, 14, 6, 16),
            LinkType::LinuxCooked2 => Self::cooked(data, 0, 12, 20),
            LinkType::RawIp => Some(Self { ether_type: by_version(data), ..Self::default() }),
            LinkType::Loopback => Self::loopback(data),
            LinkType::Other(_) => None,
        }
        .unwrap_or_default();
        outer.unwrap_tags(data);
        outer
    }

    fn ethernet(data: &[u8]) -> Option<Self> {
        let &[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = data.first_chunk()?;
        Some(Self {
            ether_type: u16::from_be_bytes([t0, t1]),
            offset: ETHERNET_BYTES,
            source: [s0, s1, s2, s3, s4, s5],
            destination: [d0, d1, d2, d3, d4, d5],
            vlan: 0,
        })
    }

    /// Reads a Linux cooked header. The two versions have the same fields at different places.
    fn cooked(data: &[u8], type_at: usize, source_at: usize, length: usize) -> Option<Self> {
        let header = data.get(..length)?;
        let ether_type = u16::from_be_bytes([header[type_at], header[type_at + 1]]);
        let source = *header[source_at..].first_chunk()?;
        Some(Self { ether_type, offset: length, source, ..Self::default() })
    }

    /// Reads the address family, in the byte order of an unknown machine.
    fn loopback(data: &[u8]) -> Option<Self> {
        let family = *data.first_chunk()?;
        let ether_type = match u32::from_le_bytes(family).min(u32::from_be_bytes(family)) {
            2 => ether_type::IPV4,
            // IPv6 on Linux, the BSDs and macOS.
            10 | 24 | 28 | 30 => ether_type::IPV6,
            _ => 0,
        };
        Some(Self { ether_type, offset: 4, ..Self::default() })
    }

    /// Skips VLAN tags, a PPPoE session header and MPLS labels.
    fn unwrap_tags(&mut self, data: &[u8]) {
        let mut tags = 0;
        // Every step moves forward, so the loop ends with the data.
        while let Some(rest) = data.get(self.offset..) {
            let (ether_type, length) = match (self.ether_type, rest) {
                (ether_type::VLAN | ether_type::PROVIDER_VLAN | ether_type::STACKED_VLAN, &[a, b, high, low, ..]) => {
                    if tags == 0 {
                        self.vlan = u16::from_be_bytes([a, b]) & VLAN_IDENTIFIER;
                    }
                    tags += 1;
                    (u16::from_be_bytes([high, low]), 4)
                }
                (ether_type::PPPOE_SESSION, &[_, _, _, _, _, _, 0x00, 0x21, ..]) => (ether_type::IPV4, 8),
                (ether_type::PPPOE_SESSION, &[_, _, _, _, _, _, 0x00, 0x57, ..]) => (ether_type::IPV6, 8),
                (ether_type::MPLS, &[_, _, bottom, _, ref inner @ ..]) => {
                    let is_bottom = bottom & 1 == 1;
                    (if is_bottom { by_version(inner) } else { ether_type::MPLS }, 4)
                }
                _ => return,
            };
            self.ether_type = ether_type;
            self.offset += length;
        }
    }

    /// Returns the offset of the IP header, if the Ethernet type is IP.
    fn ip_offset(&self) -> Option<usize> {
        matches!(self.ether_type, ether_type::IPV4 | ether_type::IPV6).then_some(self.offset)
    }

    fn non_ip(&self, link: LinkType) -> Headers {
        let (mut source, mut destination) = ([0; 16], [0; 16]);
        source[..6].copy_from_slice(&self.source);
        destination[..6].copy_from_slice(&self.destination);
        let ether_type = if self.ether_type < ether_type::MINIMUM { 0 } else { self.ether_type };
        let network = Network::Other { link: capture::link_number(link), ether_type };
        let key = FlowKey { network, protocol: 0, source, destination, source_port: 0, destination_port: 0 };
        Headers {
            kind: Kind::NonIp,
            key,
            ip_offset: None,
            transport_offset: None,
            fragment: false,
            vlan: self.vlan,
            tunnels: 0,
            begins_or_ends: false,
        }
    }
}

/// Returns the Ethernet type of an IP packet by its version field; 0: it is no IP packet.
fn by_version(packet: &[u8]) -> u16 {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => ether_type::IPV4,
        Some(6) => ether_type::IPV6,
        _ => 0,
    }
}

/// The two hashes for steering, the same in both directions of a connection. [`HashFields`] says whether its
/// ports count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SteeringHashes {
    /// SipHash-1-3 of the connection under a key drawn from the seed, so that an attacker cannot predict it.
    pub key: u64,
    /// Toeplitz hash of the connection's sorted endpoints, as network cards compute it. If this is not IP: the
    /// low bits of `key`.
    pub rss: u32,
}

/// Length of the most common keys, in bytes: two IPv4 addresses, two ports, the protocol and the network.
const IPV4_KEY_BYTES: usize = 4 + 4 + 2 + 2 + 1 + 4;

/// Hashes flow keys. For one seed, the hashes are the same on every machine.
#[derive(Clone, Debug)]
pub struct KeyHasher {
    sip: SipHasher13,
    toeplitz: Toeplitz,
    /// What the hashes for steering are computed from.
    fields: HashFields,
}

impl KeyHasher {
    /// Returns a hasher with a key drawn from the seed.
    pub fn new(seed: Seed) -> Self {
        let mut random = seed.stream("traffic/flow-key");
        let sip = SipHasher13::new_with_keys(random.bits(), random.bits());
        Self { sip, toeplitz: Toeplitz::new(&TOEPLITZ_KEY), fields: HashFields::default() }
    }

    /// Sets what the hashes for steering are computed from.
    #[must_use]
    pub fn with_fields(self, fields: HashFields) -> Self {
        Self { fields, ..self }
    }

    /// Returns the hash of this key, which depends on the direction.
    #[inline]
    pub fn flow(&self, key: &FlowKey) -> u64 {
        let mut bytes = [0; FlowKey::BYTES_MAX];
        // A constant length lets the compiler unroll the hash.
        match key.encode(&mut bytes) {
            IPV4_KEY_BYTES => self.sip.hash(&bytes[..IPV4_KEY_BYTES]),
            length => self.sip.hash(&bytes[..length]),
        }
    }

    /// Returns the hashes for steering packets of this flow: those of its connection.
    pub fn steering(&self, key: &FlowKey) -> SteeringHashes {
        let connection = self.fields.of(key);
        let key = self.flow(&connection);
        let rss = match connection.network {
            Network::Other { .. } => key as u32,
            Network::Ipv4 | Network::Ipv6 => {
                let mut bytes = [0; Toeplitz::INPUT_MAX];
                let length = connection.tuple(&mut bytes);
                self.toeplitz.hash(&bytes[..length])
            }
        };
        SteeringHashes { key, rss }
    }
}

#[cfg(test)]
mod tests {

    use etherparse::{IpFragOffset, Ipv4Header, Ipv6FragmentHeader, PacketBuilder, VlanId};

    use super::*;

    const CLIENT: [u8; 4] = [198, 18, 0, 1];
    const SERVER: [u8; 4] = [198, 19, 0, 2];
    const CLIENT6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const SERVER6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

    fn headers(link: LinkType, data: &[u8]) -> Headers {
        Headers::parse(&Frame { link, wire_length: data.len() as u32, data: data.into(), ..Frame::default() })
    }

    fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &ether_type.to_be_bytes(), payload].concat()
    }

    fn udp4() -> Vec<u8> {
        let mut data = Vec::new();
        PacketBuilder::ipv4(CLIENT, SERVER, 64).udp(5000, 53).write(&mut data, b"hump").unwrap();
        data
    }

    fn tcp6() -> Vec<u8> {
        let mut data = Vec::new();
        PacketBuilder::ipv6(CLIENT6, SERVER6, 64).tcp(5000, 80, 1, 1024).write(&mut data, b"yard").unwrap();
        data
    }

    /// Returns an IPv6 packet with these extension headers, given as type and content after the next-header
    /// byte.
    fn ipv6_with(extensions: &[(u8, &[u8])], last: u8, payload: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        for (i, (_, bytes)) in extensions.iter().enumerate() {
            content.push(extensions.get(i + 1).map_or(last, |next| next.0));
            content.extend_from_slice(bytes);
        }
        content.extend_from_slice(payload);
        let first = extensions.first().map_or(last, |extension| extension.0);
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&(content.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[first, 64]);
        packet.extend_from_slice(&CLIENT6);
        packet.extend_from_slice(&SERVER6);
        packet.extend_from_slice(&content);
        packet
    }

    fn assert_udp4(found: &Headers, ip_offset: u32) {
        assert_eq!(found.kind, Kind::Udp);
        assert_eq!(found.key.to_string(), "udp 198.18.0.1:5000 > 198.19.0.2:53");
        assert_eq!((found.ip_offset, found.transport_offset), (Some(ip_offset), Some(ip_offset + 20)));
        assert_eq!(found.version(), Some(4));
    }

    #[test]
    fn every_link_type_leads_to_the_same_flow() {
        let ip = udp4();
        assert_udp4(&headers(LinkType::Ethernet, &ethernet(0x0800, &ip)), 14);
        assert_udp4(&headers(LinkType::RawIp, &ip), 0);
        assert_udp4(&headers(LinkType::Loopback, &[&[2, 0, 0, 0], &ip[..]].concat()), 4);
        assert_udp4(&headers(LinkType::Loopback, &[&[0, 0, 0, 2], &ip[..]].concat()), 4);
        let cooked = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0], &ip[..]].concat();
        assert_udp4(&headers(LinkType::LinuxCooked, &cooked), 16);
        let cooked2 = [&[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &ip[..]].concat();
        assert_udp4(&headers(LinkType::LinuxCooked2, &cooked2), 20);
    }

    #[test]
    fn tags_and_labels_are_stepped_over() {
        let ip = udp4();
        assert_udp4(&headers(LinkType::Ethernet, &ethernet(0x8100, &[&[0, 5, 8, 0], &ip[..]].concat())), 18);
        let double = [&[0, 5, 0x81, 0, 0, 6, 8, 0], &ip[..]].concat();
        assert_udp4(&headers(LinkType::Ethernet, &ethernet(0x88a8, &double)), 22);
        let pppoe = [&[0x11, 0, 0, 1, 0, 34, 0, 0x21], &ip[..]].concat();
        assert_udp4(&headers(LinkType::Ethernet, &ethernet(0x8864, &pppoe)), 22);
        let mpls = [&[0, 1, 0, 64, 0, 2, 1, 64], &ip[..]].concat();
        assert_udp4(&headers(LinkType::Ethernet, &ethernet(0x8847, &mpls)), 22);
        let mut built = Vec::new();
        PacketBuilder::ethernet2([2; 6], [2; 6])
            .single_vlan(VlanId::ZERO)
            .ipv6(CLIENT6, SERVER6, 1)
            .udp(1, 2)
            .write(&mut built, &[])
            .unwrap();
        assert_eq!(headers(LinkType::Ethernet, &built).key.to_string(), "udp [2001:db8::1]:1 > [2001:db8::2]:2");
    }

    #[test]
    fn ipv6_extension_headers_are_stepped_over() {
        let udp = [0x13, 0x88, 0, 53, 0, 8, 0, 0];
        let hop_by_hop: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
        let destination: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
        let packet = ipv6_with(&[(0, hop_by_hop), (60, destination)], 17, &udp);
        let found = headers(LinkType::RawIp, &packet);
        assert_eq!(found.kind, Kind::Udp);
        assert_eq!((found.key.source_port, found.key.destination_port), (5000, 53));
        assert_eq!(found.transport_offset, Some(56));
    }

    #[test]
    fn fragments_share_one_key_without_ports() {
        let fragment = |offset: u16, more: bool| {
            let mut header = Ipv4Header::new(8, 64, ip_number::UDP, CLIENT, SERVER).unwrap();
            header.fragment_offset = IpFragOffset::try_new(offset).unwrap();
            header.more_fragments = more;
            let mut data = Vec::new();
            header.write(&mut data).unwrap();
            data.extend_from_slice(&[0x13, 0x88, 0, 53, 0, 8, 0, 0]);
            headers(LinkType::RawIp, &data)
        };
        let (first, last) = (fragment(0, true), fragment(1, false));
        assert!(first.fragment && last.fragment);
        assert_eq!(first.key, last.key);
        assert_eq!(first.key.to_string(), "udp 198.18.0.1 > 198.19.0.2");
        assert_eq!(first.kind, Kind::Udp);
        assert_ne!(first.key, fragment(0, false).key);
    }

    #[test]
    fn ipv6_fragments_share_one_key_and_atomic_ones_keep_their_ports() {
        let fragment = |offset: u16, more: bool| {
            let header =
                Ipv6FragmentHeader::new(ip_number::UDP, IpFragOffset::try_new(offset).unwrap(), more, 7).to_bytes();
            let data = ipv6_with(&[(44, &header[1..])], 17, &[0x13, 0x88, 0, 53, 0, 8, 0, 0]);
            headers(LinkType::RawIp, &data)
        };
        assert_eq!(fragment(0, true).key, fragment(1, false).key);
        assert_eq!(fragment(0, true).key.source_port, 0);
        assert_eq!(fragment(0, false).key.source_port, 5000);
    }

    #[test]
    fn what_is_not_ip_is_a_flow_by_type_and_address() {
        let arp = headers(LinkType::Ethernet, &ethernet(0x0806, &[0; 28]));
        assert_eq!(arp.kind, Kind::NonIp);
        assert_eq!(arp.key.to_string(), "link 1 type 0x0806 02:00:00:00:00:01 > 02:00:00:00:00:02");
        assert_ne!(arp.key, headers(LinkType::Ethernet, &ethernet(0x88cc, &[0; 28])).key);
        // Two 802.3 frames of different lengths belong to one flow.
        let llc = |length: u16| headers(LinkType::Ethernet, &ethernet(length, &[0x42; 40])).key;
        assert_eq!(llc(38), llc(39));
        assert_eq!(headers(LinkType::Other(104), &udp4()).kind, Kind::NonIp);
    }

    #[test]
    fn any_cut_of_a_packet_is_parsed_without_panic() {
        let tagged = ethernet(0x8100, &[&[0, 5, 0x86, 0xdd], &tcp6()[..]].concat());
        for length in 0..=tagged.len() {
            for link in [LinkType::Ethernet, LinkType::LinuxCooked, LinkType::LinuxCooked2, LinkType::Loopback] {
                headers(link, &tagged[..length]);
            }
        }
        assert_eq!(headers(LinkType::Ethernet, &tagged[..18 + 44]).key.source_port, 5000);
        assert_eq!(headers(LinkType::Ethernet, &tagged[..18 + 41]).key.source_port, 0);
    }

    #[test]
    fn hashes_are_symmetric_keyed_and_pinned() {
        let hasher = KeyHasher::new(Seed(1));
        for data in [udp4(), tcp6()] {
            let key = headers(LinkType::RawIp, &data).key;
            assert_eq!(key.connection(), key.reversed().connection());
            assert_eq!(hasher.steering(&key), hasher.steering(&key.reversed()));
            assert_ne!(hasher.flow(&key), hasher.flow(&key.reversed()));
            assert_ne!(hasher.steering(&key).key, KeyHasher::new(Seed(2)).steering(&key).key);
            assert_eq!(hasher.steering(&key).rss, KeyHasher::new(Seed(2)).steering(&key).rss);
        }
        let pinned = hasher.steering(&headers(LinkType::RawIp, &udp4()).key);
        assert_eq!(pinned, SteeringHashes { key: 9_196_718_929_703_463_561, rss: 1_670_343_809 });
    }

    #[test]
    fn rss_is_the_network_cards_hash_of_the_sorted_endpoints() {
        // From Microsoft's verification suite, a tuple whose source is the lower endpoint.
        let key = FlowKey {
            network: Network::Ipv4,
            protocol: 6,
            source: [66, 9, 149, 187, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            destination: [161, 142, 100, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            source_port: 2794,
            destination_port: 1766,
        };
        let hasher = KeyHasher::new(Seed(0));
        assert_eq!(hasher.steering(&key).rss, 0x51cc_c178);
        let without_ports = FlowKey { source_port: 0, destination_port: 0, ..key };
        assert_eq!(hasher.steering(&without_ports.reversed()).rss, 0x323e_8fc2);
    }

    fn inside(text: &str, data: &[u8]) -> Headers {
        let frame =
            Frame { link: LinkType::RawIp, wire_length: data.len() as u32, data: data.into(), ..Frame::default() };
        Headers::parse_inside(&frame, text.parse().unwrap())
    }

    /// Returns an IPv4 packet of this protocol.
    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let header =
            Ipv4Header::new(payload.len() as u16, 64, etherparse::IpNumber(protocol), [10, 0, 0, 1], [10, 0, 0, 2]);
        let mut data = Vec::new();
        header.unwrap().write(&mut data).unwrap();
        [data, payload.into()].concat()
    }

    /// Returns a UDP packet to this port.
    fn udp_to(port: u16, payload: &[u8]) -> Vec<u8> {
        ipv4(
            17,
            &[&[0x40, 0][..], &port.to_be_bytes(), &(8 + payload.len() as u16).to_be_bytes(), &[0, 0], payload]
                .concat(),
        )
    }

    #[test]
    fn the_flow_is_that_of_the_packet_inside() {
        let (inner, framed) = (udp4(), ethernet(0x0800, &udp4()));
        let tagged = ethernet(0x8100, &[&[0, 5, 8, 0], &udp4()[..]].concat());
        for (tunnel, packet) in [
            ("gre", ipv4(47, &[&[0, 0, 8, 0], &inner[..]].concat())),
            ("gre", ipv4(47, &[&[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1], &inner[..]].concat())),
            ("gre", ipv4(47, &[&[0x20, 0, 0x65, 0x58, 0, 0, 0, 7], &framed[..]].concat())),
            ("vxlan", udp_to(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &framed[..]].concat())),
            ("vxlan", udp_to(8472, &[&[8, 0, 0, 0, 0, 0, 7, 0], &tagged[..]].concat())),
            ("gtp-u", udp_to(2152, &[&[0x30, 0xff, 0, 32, 0, 0, 0, 7], &inner[..]].concat())),
            (
                "gtp-u",
                udp_to(2152, &[&[0x34, 0xff, 0, 40, 0, 0, 0, 7, 0, 1, 0, 0x85, 1, 0, 9, 0], &inner[..]].concat()),
            ),
            ("ip-in-ip", ipv4(4, &inner)),
            ("ip-in-ip", ipv6_with(&[], 4, &inner)),
        ] {
            let found = inside(tunnel, &packet);
            assert_eq!((found.key, found.tunnels), (headers(LinkType::RawIp, &inner).key, 1), "{tunnel}");
            assert_eq!(found.ip_offset.unwrap() as usize, packet.len() - inner.len(), "{tunnel}");
            // With this tunnel off, or another one on, the flow is that of the tunnel.
            for other in ["none", if tunnel == "gre" { "vxlan" } else { "gre" }] {
                assert_eq!(inside(other, &packet), headers(LinkType::RawIp, &packet), "{tunnel} {other}");
            }
            // For any cut, nothing behind it is read, and the outer addresses stay.
            for length in 20..packet.len() {
                let cut = inside("all", &packet[..length]);
                assert!(cut.transport_offset.unwrap_or(0) as usize <= length, "{tunnel} {length}");
            }
        }
        let six = ipv4(41, &tcp6());
        assert_eq!(inside("all", &six).key, headers(LinkType::RawIp, &tcp6()).key);
    }

    #[test]
    fn what_cannot_be_looked_into_is_of_the_flow_of_the_tunnel() {
        let inner = udp4();
        let arp = udp_to(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(0x0806, &[0; 28])[..]].concat());
        let mut fragment = ipv4(4, &inner);
        fragment[6] = 0x20;
        // Padding behind the IP packet is not inside the tunnel.
        let padded = [ipv4(4, &[]), inner.clone()].concat();
        let half = ipv4(4, &inner[..19]);
        for packet in [arp, fragment, padded, half] {
            assert_eq!(inside("all", &packet), headers(LinkType::RawIp, &packet));
        }
    }

    #[test]
    fn tunnels_in_tunnels_are_looked_into_up_to_the_limit() {
        let mut packet = udp4();
        for depth in 1..8 {
            packet = ipv4(4, &packet);
            let found = inside("all", &packet);
            assert_eq!(usize::from(found.tunnels), depth.min(Tunnels::DEPTH_MAX));
            assert_eq!(found.kind == Kind::Udp, depth <= Tunnels::DEPTH_MAX);
        }
    }

    #[test]
    fn fragments_with_headers_that_only_the_first_has_share_one_key() {
        // Destination options behind the fragment header, which the second fragment lacks: its bytes there are
        // arbitrary.
        let fragment = |offset: u16, more: bool, next: u8, rest: &[u8]| {
            let header =
                Ipv6FragmentHeader::new(etherparse::IpNumber(next), IpFragOffset::try_new(offset).unwrap(), more, 7)
                    .to_bytes();
            headers(LinkType::RawIp, &ipv6_with(&[(0, &[0, 1, 4, 0, 0, 0, 0]), (44, &header[1..])], next, rest))
        };
        let first = fragment(0, true, 60, &[17, 0, 1, 4, 0, 0, 0, 0, 0x13, 0x88, 0, 53, 0, 8, 0, 0]);
        let second = fragment(2, false, 60, &[99; 16]);
        assert!(first.fragment && second.fragment);
        assert_eq!(first.key, second.key);
        assert_eq!(first.key.protocol, 60);
        // The same in IPv4, with an authentication header.
        let fragment = |offset: u8, more: u8, rest: &[u8]| {
            let mut packet = ipv4(51, rest);
            (packet[6], packet[7]) = (more << 5, offset);
            headers(LinkType::RawIp, &packet)
        };
        let first = fragment(
            0,
            1,
            &[17, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x13, 0x88, 0, 53],
        );
        assert_eq!(first.key, fragment(3, 0, &[5, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]).key);
        assert_eq!((first.key.protocol, first.key.source_port), (51, 0));
    }

    mod anything {
        use proptest::prelude::*;

        use super::*;

        fn link() -> impl Strategy<Value = LinkType> {
            prop_oneof![
                Just(LinkType::Ethernet),
                Just(LinkType::LinuxCooked),
                Just(LinkType::LinuxCooked2),
                Just(LinkType::RawIp),
                Just(LinkType::Loopback),
                any::<u16>().prop_map(LinkType::Other)
            ]
        }

        /// Bytes that look like headers more often than random ones.
        fn bytes() -> impl Strategy<Value = Vec<u8>> {
            let part = prop_oneof![
                prop::collection::vec(any::<u8>(), 0..24),
                Just(udp4()),
                Just(ipv4(47, &[])),
                Just(vec![0x20, 0, 0x65, 0x58, 0, 0, 0, 7]),
                Just(udp_to(4789, &[8, 0, 0, 0, 0, 0, 7, 0])),
                Just(udp_to(2152, &[0x34, 0xff, 0, 40, 0, 0, 0, 7, 0, 1, 0, 0x85, 1, 0, 9, 0])),
                Just(ipv4(4, &[])),
                Just(ipv4(41, &[])),
                Just(ethernet(0x8100, &[0, 5, 8, 0])),
                Just(ethernet(0x0800, &[])),
                Just(ipv6_with(&[(0, &[0, 1, 4, 0, 0, 0, 0])], 44, &[47, 0, 0, 0, 0, 0, 0, 1])),
            ];
            prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
        }

        /// A TCP or UDP frame with flipped bits and the end cut off.
        fn nearly_common() -> impl Strategy<Value = Frame> {
            let packet = prop_oneof![
                Just(udp4()),
                Just(ipv4(6, &[7; 24])),
                Just(ipv6_with(&[], 17, &[7; 12])),
                Just(ipv6_with(&[], 6, &[7; 24])),
            ];
            let flips = prop::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 0..3);
            (packet, flips, 0..40_usize).prop_map(|(packet, flips, kept_off)| {
                let ether_type = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
                let mut data = ethernet(ether_type, &packet);
                for (flip, bit) in flips {
                    let at = flip.index(data.len());
                    data[at] ^= 1 << bit;
                }
                // Half of the frames are complete.
                data.truncate(data.len() - kept_off.saturating_sub(20));
                Frame { link: LinkType::Ethernet, wire_length: data.len() as u32, data, ..Frame::default() }
            })
        }

        proptest! {
            #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn common_headers_are_those_that_the_library_finds(frame in nearly_common()) {
                if let Some(found) = Headers::parse_common(&frame.data) {
                    prop_assert_eq!(found, Headers::parse_any(&frame, Tunnels::NONE));
                }
            }

            #[test]
            fn any_bytes_are_parsed_within_their_bounds(link in link(), mut data in bytes(), flips in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
                for flip in flips {
                    if !data.is_empty() {
                        let at = flip.index(data.len());
                        data[at] ^= 1 << (at % 8);
                    }
                }
                // IP lengths up to the end, so that the packet has contents.
                if link == LinkType::RawIp && data.len() > 4 {
                    let length = (data.len() as u16).to_be_bytes();
                    data[2..4].copy_from_slice(&length);
                }
                let frame = Frame { link, wire_length: data.len() as u32, data, ..Frame::default() };
                let tunnels: Tunnels = "all".parse().unwrap();
                let found = Headers::parse_inside(&frame, tunnels);
                let (ip, transport) = (found.ip_offset.unwrap_or(0), found.transport_offset.unwrap_or(0));
                prop_assert!(ip <= transport && transport as usize <= frame.data.len());
                prop_assert!(usize::from(found.tunnels) <= Tunnels::DEPTH_MAX);
                prop_assert_eq!(found.version().is_some(), found.ip_offset.is_some());
                if found.tunnels == 0 {
                    prop_assert_eq!(found, Headers::parse(&frame));
                }
                // Two fragments, or a fragment and no inner packet: no ports.
                prop_assert!(!found.fragment || (found.key.source_port, found.key.destination_port) == (0, 0));
            }
        }
    }
}
