//! The headers of TCP, UDP and ICMP queries: ports, and a checksum over addresses.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::kinds::Protocol;
use super::tcp::Segment;
use crate::checksum::{self, Sum};
use crate::ip::protocol;
use crate::service::DropReason;

/// Types of echo requests and their replies.
const ECHO_V4: [u8; 2] = [8, 0];
const ECHO_V6: [u8; 2] = [128, 129];

/// The payload of an IP packet, as translation classifies it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// A protocol with ports, or with an identifier.
    Query(Protocol),
    /// An ICMP error.
    Error,
    /// Any other protocol: only addresses are translated.
    Other,
}

/// The version of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    V4,
    V6,
}

impl Content {
    /// Classifies a payload by its protocol and its first bytes; `upper` is empty if they are in another
    /// fragment.
    #[inline]
    pub(super) fn of(side: Side, protocol: u8, upper: &[u8]) -> Result<Self, DropReason> {
        Ok(match (side, protocol) {
            (_, protocol::TCP) => Self::Query(Protocol::Tcp),
            (_, protocol::UDP) => Self::Query(Protocol::Udp),
            (Side::V4, protocol::ICMP) => match upper.first().ok_or(DropReason::Truncated)? {
                0 | 8 => Self::Query(Protocol::Icmp),
                3 | 11 | 12 => Self::Error,
                _ => return Err(DropReason::IcmpUntranslatable),
            },
            (Side::V6, protocol::ICMPV6) => match upper.first().ok_or(DropReason::Truncated)? {
                128 | 129 => Self::Query(Protocol::Icmp),
                1..=4 => Self::Error,
                _ => return Err(DropReason::IcmpUntranslatable),
            },
            // In IPv6, this number would be an extension header.
            (
                Side::V4,
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::FRAGMENT | protocol::DESTINATION_OPTIONS,
            ) => {
                return Err(DropReason::ProtocolDenied);
            }
            // ICMP of the other version: no host on that side would understand it.
            (Side::V4, protocol::ICMPV6) | (Side::V6, protocol::ICMP) => return Err(DropReason::IcmpUntranslatable),
            _ => Self::Other,
        })
    }
}

impl Protocol {
    /// Returns the number of first bytes that translation needs.
    pub(super) const fn header_bytes(self) -> usize {
        match self {
            Self::Tcp => 20,
            Self::Udp | Self::Icmp => 8,
        }
    }

    const fn checksum_at(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
            Self::Icmp => 2,
        }
    }
}

/// The ports of the two ends. A single identifier counts as the port of the IPv6 side; the other port is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ports {
    pub(super) source: u16,
    pub(super) destination: u16,
}

impl Ports {
    /// Reads the ports at the start of `upper`, which has at least 8 bytes. `local` is the end that has the
    /// identifier.
    #[inline]
    pub(super) fn read(protocol: Protocol, upper: &[u8], local: End) -> Self {
        let word = |at: usize| u16::from_be_bytes([upper[at], upper[at + 1]]);
        match (protocol, local) {
            (Protocol::Icmp, End::Source) => Self { source: word(4), destination: 0 },
            (Protocol::Icmp, End::Destination) => Self { source: 0, destination: word(4) },
            _ => Self { source: word(0), destination: word(2) },
        }
    }
}

/// One of the two ends of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Source,
    Destination,
}

/// Returns the flags of a TCP segment; no flags for other protocols.
#[inline]
pub(super) fn segment(protocol: Protocol, upper: &[u8]) -> Segment {
    match (protocol, upper.get(13)) {
        (Protocol::Tcp, Some(&flags)) => Segment::of(flags),
        _ => Segment::NONE,
    }
}

/// The two addresses of a packet, for checksums.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Ends {
    /// Returns the sum of the addresses. It suffices for protocols whose pseudo-header has the same length and
    /// number in both versions.
    #[inline]
    fn sum(self) -> Sum {
        match self {
            Self::V4(source, destination) => Sum::default().with(&source.octets()).with(&destination.octets()),
            Self::V6(source, destination) => Sum::default().with(&source.octets()).with(&destination.octets()),
        }
    }

    /// Returns the sum of the pseudo-header of ICMP, which IPv4 does not have.
    #[inline]
    fn icmp_sum(self, length: usize) -> Sum {
        match self {
            Self::V4(..) => Sum::default(),
            Self::V6(..) => self.pseudo(protocol::ICMPV6, length),
        }
    }

    /// Returns the sum of the pseudo-header (RFC 8200, section 8.1; RFC 793).
    #[inline]
    pub(super) fn pseudo(self, protocol: u8, length: usize) -> Sum {
        self.sum().with(&(length as u32).to_be_bytes()).with(&[0, protocol])
    }
}

/// The changes to the header of a query: the addresses around it, and its ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) before: Ends,
    pub(super) after: Ends,
    pub(super) ports: Ports,
    /// The length of the IP payload, in bytes.
    pub(super) length: usize,
}

/// Writes the ports, and updates the checksum by the changes (RFC 1624). Fields that were cut off are skipped:
/// a quoted packet may end before its checksum.
///
/// A UDP checksum of zero means that there is none, and stays zero.
#[inline]
pub(super) fn change(protocol: Protocol, upper: &mut [u8], change: Change) {
    let Change { before, after, ports, length } = change;
    let is_icmp = protocol == Protocol::Icmp;
    let sums = if is_icmp { (before.icmp_sum(length), after.icmp_sum(length)) } else { (before.sum(), after.sum()) };
    let Some(front) = upper.first_chunk_mut::<8>() else { return };
    let removed = sums.0.with(&front[..2]).with(if is_icmp { &front[4..6] } else { &front[2..4] });
    if is_icmp {
        front[0] = echo(front[0], after);
        front[4..6].copy_from_slice(&(ports.source | ports.destination).to_be_bytes());
    } else {
        front[..2].copy_from_slice(&ports.source.to_be_bytes());
        front[2..4].copy_from_slice(&ports.destination.to_be_bytes());
    }
    let added = sums.1.with(&front[..2]).with(if is_icmp { &front[4..6] } else { &front[2..4] });
    let at = protocol.checksum_at();
    let Some(field) = upper.get_mut(at..at + 2) else { return };
    let old = u16::from_be_bytes([field[0], field[1]]);
    if protocol == Protocol::Udp && old == 0 {
        return;
    }
    let new = checksum::update(old, removed.fold(), added.fold());
    field.copy_from_slice(&stated(protocol, new).to_be_bytes());
}

/// Returns the message type in the other version: an echo request or its reply.
const fn echo(icmp_type: u8, after: Ends) -> u8 {
    match after {
        Ends::V4(..) => ECHO_V4[(icmp_type & 1) as usize],
        Ends::V6(..) => ECHO_V6[(icmp_type == 0) as usize],
    }
}

/// Returns a checksum as its header has it: in UDP, zero would mean no checksum (RFC 768).
const fn stated(protocol: Protocol, checksum: u16) -> u16 {
    if matches!(protocol, Protocol::Udp) && checksum == 0 { 0xffff } else { checksum }
}

/// Returns whether a UDP header has no checksum.
#[inline]
pub(super) fn lacks_checksum(protocol: Protocol, upper: &[u8]) -> bool {
    protocol == Protocol::Udp && upper.get(6..8) == Some(&[0, 0])
}

/// Computes the checksum of a complete UDP packet. It covers the length in the UDP header.
pub(super) fn fill_checksum(upper: &mut [u8], ends: Ends) {
    let length = upper.get(4..6).map_or(0, |length| usize::from(u16::from_be_bytes([length[0], length[1]])));
    let length = if length < 8 { upper.len() } else { length.min(upper.len()) };
    let upper = &mut upper[..length];
    let sum = ends.pseudo(protocol::UDP, upper.len()).with(upper).checksum();
    if let Some(field) = upper.get_mut(6..8) {
        field.copy_from_slice(&stated(Protocol::Udp, sum).to_be_bytes());
    }
}
