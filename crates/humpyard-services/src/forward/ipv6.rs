//! The IPv6 header: its checks, addresses that are not forwarded, the hop limit, and the upper-layer header.

use core::net::Ipv6Addr;

use crate::service::DropReason;

/// The fixed header, in bytes.
pub(super) const HEADER_BYTES: usize = 40;
/// Most extension headers to skip. RFC 8200, section 4.1 lists seven.
const EXTENSIONS_MAX: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

/// The fields that forwarding needs of a header that passed all checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ipv6 {
    pub(super) destination: Ipv6Addr,
    pub(super) hop_limit: u8,
}

/// Checks the header at the start of `packet`. `room` is the packet's maximum length on the wire, in bytes; the
/// capture may have kept less.
#[inline]
pub(super) fn read(packet: &[u8], room: usize) -> Result<Ipv6, DropReason> {
    let header = packet.first_chunk::<HEADER_BYTES>().ok_or(DropReason::Truncated)?;
    if header[0] >> 4 != 6 {
        return Err(DropReason::BadVersion);
    }
    // A jumbogram has a length of 0 here (RFC 2675): it passes.
    if usize::from(u16::from_be_bytes([header[4], header[5]])) + HEADER_BYTES > room {
        return Err(DropReason::BadTotalLength);
    }
    let destination = address(header, 24);
    if let Some(reason) = source_fault(address(header, 8)).or_else(|| destination_fault(destination)) {
        return Err(reason);
    }
    Ok(Ipv6 { destination, hop_limit: header[7] })
}

#[inline]
fn address(header: &[u8; HEADER_BYTES], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[at..at + 16]);
    Ipv6Addr::from(octets)
}

/// Returns why a packet from this address is not forwarded (RFC 4291, sections 2.5.2, 2.5.3, 2.5.6, 2.7;
/// IPv4-mapped: RFC 6890, section 2.2.3). `None`: it may be forwarded.
#[inline]
pub(crate) fn source_fault(address: Ipv6Addr) -> Option<DropReason> {
    Some(match address.to_bits() {
        0 => DropReason::SourceUnspecified,
        1 => DropReason::SourceLoopback,
        bits if bits >> 120 == 0xff => DropReason::SourceMulticast,
        bits if bits >> 118 == 0xfe80 >> 6 => DropReason::SourceLinkLocal,
        bits if bits >> 32 == 0xffff => DropReason::SourceReserved,
        _ => return None,
    })
}

/// Returns why a packet to this address is not forwarded. `None`: it may be forwarded. Multicast would need
/// group membership.
#[inline]
pub(crate) fn destination_fault(address: Ipv6Addr) -> Option<DropReason> {
    Some(match address.to_bits() {
        0 => DropReason::DestinationUnspecified,
        1 => DropReason::DestinationLoopback,
        bits if bits >> 120 == 0xff => DropReason::DestinationMulticast,
        bits if bits >> 118 == 0xfe80 >> 6 => DropReason::DestinationLinkLocal,
        bits if bits >> 32 == 0xffff => DropReason::DestinationReserved,
        _ => return None,
    })
}

/// Decrements the hop limit, which must be at least 1. IPv6 has no header checksum.
#[inline]
pub(super) fn count_down(packet: &mut [u8]) {
    if let Some(hop_limit) = packet.get_mut(7) {
        *hop_limit -= 1;
    }
}

/// Returns the protocol above the extension headers, and its first bytes; they are empty in fragments after the
/// first. `None`: the chain of headers was cut off, or is too long.
pub(super) fn upper_layer(packet: &[u8]) -> Option<(u8, &[u8])> {
    let mut next = *packet.get(6)?;
    let mut rest = packet.get(HEADER_BYTES..)?;
    for _ in 0..=EXTENSIONS_MAX {
        let length = match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HOST_IDENTITY | SHIM6 => {
                8 + 8 * usize::from(*rest.get(1)?)
            }
            AUTHENTICATION => 8 + 4 * usize::from(*rest.get(1)?),
            FRAGMENT => {
                let offset = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]) >> 3;
                if offset != 0 {
                    return Some((rest[0], &[]));
                }
                8
            }
            upper => return Some((upper, rest)),
        };
        next = *rest.first()?;
        rest = rest.get(length..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2001:db8::1 to 2001:db8:0:1::2, nothing behind the header.
    fn header(payload_length: u16, next: u8) -> [u8; 40] {
        let mut header = [0; 40];
        header[0] = 0x60;
        header[4..6].copy_from_slice(&payload_length.to_be_bytes());
        header[6..8].copy_from_slice(&[next, 64]);
        header[8..24].copy_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        header[24..].copy_from_slice(&"2001:db8:0:1::2".parse::<Ipv6Addr>().unwrap().octets());
        header
    }

    #[test]
    fn checks_of_rfc_8200() {
        assert!(read(&header(0, 59), 40).is_ok());
        assert!(read(&header(1000, 59), 1040).is_ok());
        assert_eq!(read(&header(1000, 59), 1039).err(), Some(DropReason::BadTotalLength));
        assert_eq!(read(&header(0, 59)[..39], 40).err(), Some(DropReason::Truncated));
        let mut bad = header(0, 59);
        bad[0] = 0x45;
        assert_eq!(read(&bad, 40).err(), Some(DropReason::BadVersion));
    }

    #[test]
    fn addresses_that_are_not_forwarded() {
        use DropReason::*;
        for (text, source, destination) in [
            ("::", SourceUnspecified, DestinationUnspecified),
            ("::1", SourceLoopback, DestinationLoopback),
            ("fe80::1", SourceLinkLocal, DestinationLinkLocal),
            ("febf:ffff::1", SourceLinkLocal, DestinationLinkLocal),
            ("ff02::1", SourceMulticast, DestinationMulticast),
            ("ff0e::1", SourceMulticast, DestinationMulticast),
            ("::ffff:192.0.2.1", SourceReserved, DestinationReserved),
        ] {
            let address: Ipv6Addr = text.parse().unwrap();
            assert_eq!(source_fault(address), Some(source));
            assert_eq!(destination_fault(address), Some(destination));
        }
        for text in ["2001:db8::1", "fec0::1", "fe7f::1", "fc00::1", "64:ff9b::192.0.2.1", "::2"] {
            let address: Ipv6Addr = text.parse().unwrap();
            assert_eq!((source_fault(address), destination_fault(address)), (None, None), "{text}");
        }
    }

    #[test]
    fn the_way_to_the_upper_layer() {
        let packet = |next, rest: &[u8]| [&header(0, next)[..], rest].concat();
        let hop_by_hop = [FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
        let first = [58, 0, 0, 1, 0, 0, 0, 7];
        let later = [58, 0, 0, 9, 0, 0, 0, 7];
        assert_eq!(upper_layer(&packet(17, &[1, 2])), Some((17, &[1, 2][..])));
        assert_eq!(upper_layer(&packet(0, &[&hop_by_hop[..], &first, &[128]].concat())), Some((58, &[128][..])));
        assert_eq!(upper_layer(&packet(0, &[&hop_by_hop[..], &later, &[128]].concat())), Some((58, &[][..])));
        assert_eq!(upper_layer(&packet(AUTHENTICATION, &[&[6, 1][..], &[0; 10], &[9]].concat())), Some((6, &[9][..])));
        assert_eq!(upper_layer(&packet(0, &[&hop_by_hop[..], &first[..3]].concat())), None);
        assert_eq!(upper_layer(&packet(0, &[0; 8].repeat(20))), None);
    }
}
