//! IP headers for translation: reads the fields of one version, and writes them in the other.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum;
use crate::forward::icmp::Problem;
use crate::ip::{IPV4_BYTES, IPV6_BYTES, LENGTH_MAX, protocol};
use crate::service::DropReason;

/// The fragment header of IPv6, in bytes.
const FRAGMENT_BYTES: usize = 8;
/// The longest header that is written, in bytes.
const HEAD_MAX: usize = IPV6_BYTES + FRAGMENT_BYTES;
/// Most extension headers to skip.
const EXTENSIONS_MAX: usize = 8;
/// IPv4 packets up to this length, in bytes, may be fragmented. Every IPv6 link supports this length, so path
/// MTU discovery would learn nothing (RFC 7915, section 5.1).
const MAY_FRAGMENT_MAX: usize = 1260;
/// Loose and strict source routes (RFC 791), the end of the option list, and the option without effect.
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;
const OPTIONS_END: u8 = 0;
const NO_OPTION: u8 = 1;

/// Why a packet is not translated, and whether to report it to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) reason: DropReason,
    pub(super) problem: Option<Problem>,
}

impl From<DropReason> for Refusal {
    fn from(reason: DropReason) -> Self {
        Self { reason, problem: None }
    }
}

impl Refusal {
    pub(super) const fn told(reason: DropReason, problem: Problem) -> Self {
        Self { reason, problem: Some(problem) }
    }
}

/// The place of a fragment in its packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fragment {
    pub(super) identification: u32,
    /// Its offset, in units of 8 bytes.
    pub(super) offset: u16,
    /// Whether more fragments follow.
    pub(super) more: bool,
}

/// The fields of an IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header<A> {
    pub(super) source: A,
    pub(super) destination: A,
    /// Type of service or traffic class.
    pub(super) class: u8,
    /// Time to live or hop limit.
    pub(super) hops: u8,
    /// The protocol of the payload, as a number of this version.
    pub(super) protocol: u8,
    /// The start of the payload, in bytes from the start of the header: behind options and extension headers.
    pub(super) upper: usize,
    /// The length of the payload, in bytes; the captured bytes may be fewer.
    pub(super) carried: usize,
    pub(super) fragment: Option<Fragment>,
    /// Whether it may be fragmented on its way.
    pub(super) may_fragment: bool,
}

impl<A> Header<A> {
    /// Returns whether the payload starts with its protocol's header.
    pub(super) fn is_start(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.offset == 0)
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Header<Ipv4Addr> {
    /// Reads the header at the start of `packet`; the rest may be cut off.
    pub(super) fn read(packet: &[u8]) -> Result<Self, Refusal> {
        let header = packet.first_chunk::<IPV4_BYTES>().ok_or(DropReason::Truncated)?;
        if header[0] >> 4 != 4 {
            return Err(DropReason::BadVersion.into());
        }
        let upper = usize::from(header[0] & 15) * 4;
        if upper < IPV4_BYTES {
            return Err(DropReason::BadHeaderLength.into());
        }
        let length = usize::from(word(header, 2));
        let carried = length.checked_sub(upper).ok_or(DropReason::BadTotalLength)?;
        let flags = word(header, 6);
        let (offset, more) = (flags & 0x1fff, flags & 0x2000 != 0);
        let identification = u32::from(word(header, 4));
        if usize::from(offset) * 8 + carried > LENGTH_MAX {
            return Err(DropReason::Malformed.into());
        }
        Ok(Self {
            source: Ipv4Addr::new(header[12], header[13], header[14], header[15]),
            destination: Ipv4Addr::new(header[16], header[17], header[18], header[19]),
            class: header[1],
            hops: header[8],
            protocol: header[9],
            upper,
            carried,
            fragment: (offset > 0 || more).then_some(Fragment { identification, offset, more }),
            may_fragment: flags & 0x4000 == 0,
        })
    }

    /// Returns the header in IPv6; `protocol` is the payload's number in IPv6, and `carried` its length.
    pub(super) fn as_v6(&self, source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, carried: usize) -> Head {
        let mut head = Head { bytes: [0; HEAD_MAX], length: IPV6_BYTES };
        let bytes = &mut head.bytes;
        (bytes[0], bytes[1]) = (0x60 | self.class >> 4, self.class << 4);
        (bytes[6], bytes[7]) = (protocol, self.hops);
        bytes[8..24].copy_from_slice(&source.octets());
        bytes[24..40].copy_from_slice(&destination.octets());
        if let Some(fragment) = self.fragment {
            bytes[6] = protocol::FRAGMENT;
            bytes[40] = protocol;
            bytes[42..44].copy_from_slice(&(fragment.offset << 3 | u16::from(fragment.more)).to_be_bytes());
            bytes[44..48].copy_from_slice(&fragment.identification.to_be_bytes());
            head.length = HEAD_MAX;
        }
        let payload = (head.length - IPV6_BYTES + carried) as u16;
        head.bytes[4..6].copy_from_slice(&payload.to_be_bytes());
        head
    }
}

/// Returns whether a source route in the options is incomplete (RFC 7915, section 4.1).
pub(super) fn has_source_route(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        let length = match (*kind, rest) {
            (OPTIONS_END, _) => return false,
            (NO_OPTION, _) => 1,
            (LOOSE_ROUTE | STRICT_ROUTE, [length, pointer, ..]) if pointer <= length => return true,
            (_, [length, ..]) if *length >= 2 => usize::from(*length),
            _ => return false,
        };
        options = options.get(length..).unwrap_or_default();
    }
    false
}

impl Header<Ipv6Addr> {
    /// Reads the header at the start of `packet`, and its extension headers; the rest may be cut off.
    pub(super) fn read(packet: &[u8]) -> Result<Self, Refusal> {
        let fixed = packet.first_chunk::<IPV6_BYTES>().ok_or(DropReason::Truncated)?;
        if fixed[0] >> 4 != 6 {
            return Err(DropReason::BadVersion.into());
        }
        let end = IPV6_BYTES + usize::from(word(fixed, 4));
        let address = |at: usize| Ipv6Addr::from(fixed[at..].first_chunk::<16>().copied().unwrap_or_default());
        let mut header = Self {
            source: address(8),
            destination: address(24),
            class: fixed[0] << 4 | fixed[1] >> 4,
            hops: fixed[7],
            protocol: fixed[6],
            upper: IPV6_BYTES,
            carried: 0,
            fragment: None,
            may_fragment: false,
        };
        header.skip_extensions(packet, end)?;
        header.carried = end - header.upper;
        let offset = header.fragment.map_or(0, |fragment| usize::from(fragment.offset) * 8);
        if offset + header.carried > LENGTH_MAX {
            return Err(DropReason::Malformed.into());
        }
        Ok(header)
    }

    /// Skips extension headers. By RFC 7915, section 5.1, options and completed routes are ignored.
    fn skip_extensions(&mut self, packet: &[u8], end: usize) -> Result<(), Refusal> {
        for _ in 0..=EXTENSIONS_MAX {
            let is_fragment = self.protocol == protocol::FRAGMENT;
            if !is_fragment
                && !matches!(self.protocol, protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS)
            {
                return Ok(());
            }
            if self.fragment.is_some() {
                // Headers behind a fragment header belong to the whole packet, and may be in several fragments.
                return Err(DropReason::Fragment.into());
            }
            if self.upper + 8 > end {
                return Err(DropReason::Malformed.into());
            }
            let bytes = packet.get(self.upper..self.upper + 8).ok_or(DropReason::Truncated)?;
            let mut length = 8;
            if is_fragment {
                let flags = word(bytes, 2);
                let identification = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
                self.fragment = Some(Fragment { identification, offset: flags >> 3, more: flags & 1 != 0 });
            } else {
                length += usize::from(bytes[1]) * 8;
                if self.protocol == protocol::ROUTING && bytes[3] != 0 {
                    return Err(Refusal::told(DropReason::SourceRouted, Problem::Header(self.upper as u32 + 3)));
                }
            }
            self.protocol = bytes[0];
            self.upper += length;
            if self.upper > end {
                return Err(DropReason::Malformed.into());
            }
            if !self.is_start() {
                return Ok(());
            }
        }
        Err(DropReason::Malformed.into())
    }

    /// Returns the header in IPv4; `protocol` is the payload's number in IPv4, and `carried` its length.
    ///
    /// # Errors
    /// If the packet is too long for IPv4.
    pub(super) fn as_v4(
        &self,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
        carried: usize,
        identification: u16,
    ) -> Result<Head, Refusal> {
        let length = IPV4_BYTES + carried;
        let total = u16::try_from(length).map_err(|_| DropReason::TooLong)?;
        let (identification, flags) = match self.fragment {
            Some(Fragment { identification, offset, more }) => (identification as u16, offset | u16::from(more) << 13),
            None if length > MAY_FRAGMENT_MAX => (0, 0x4000),
            None => (identification, 0),
        };
        let mut head = Head { bytes: [0; HEAD_MAX], length: IPV4_BYTES };
        let bytes = &mut head.bytes;
        (bytes[0], bytes[1], bytes[8], bytes[9]) = (0x45, self.class, self.hops, protocol);
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[4..6].copy_from_slice(&identification.to_be_bytes());
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        bytes[12..16].copy_from_slice(&source.octets());
        bytes[16..20].copy_from_slice(&destination.octets());
        let sum = checksum::checksum(&bytes[..IPV4_BYTES]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        Ok(head)
    }
}

/// A header that replaces another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    bytes: [u8; HEAD_MAX],
    length: usize,
}

impl Head {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_routes() {
        // A record-route option, then a loose route with one hop left, and the same route completed.
        assert!(has_source_route(&[7, 3, 4, 1, 131, 7, 4, 10, 0, 0, 1, 0]));
        assert!(!has_source_route(&[7, 3, 4, 1, 131, 7, 8, 10, 0, 0, 1, 0]));
        assert!(has_source_route(&[137, 7, 4, 10, 0, 0, 1, 0]));
        // Options behind the end of the list, and invalid lengths.
        for options in [&[0, 137, 7, 4][..], &[7, 0, 137, 7, 4], &[7, 200, 137, 7], &[7], &[]] {
            assert!(!has_source_route(options), "{options:?}");
        }
    }
}
