//! The IPv4 header: its checks, addresses that are not forwarded, and the time to live.

use core::net::Ipv4Addr;

use crate::checksum;
use crate::service::DropReason;

/// The shortest header, in bytes.
pub(super) const HEADER_BYTES: usize = 20;
/// The bit DF, in the byte that begins with the flags.
pub(super) const DO_NOT_FRAGMENT: u8 = 0x40;

/// The fields that forwarding needs of a header that passed all checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ipv4 {
    pub(super) destination: Ipv4Addr,
    pub(super) time_to_live: u8,
}

/// Checks the header at the start of `packet`. `room` is the packet's maximum length on the wire, in bytes; the
/// capture may have kept less.
#[inline]
pub(super) fn read(packet: &[u8], room: usize) -> Result<Ipv4, DropReason> {
    let header = packet.first_chunk::<HEADER_BYTES>().ok_or(DropReason::Truncated)?;
    check(header, packet, room)?;
    let source = Ipv4Addr::from([header[12], header[13], header[14], header[15]]);
    let destination = Ipv4Addr::from([header[16], header[17], header[18], header[19]]);
    if let Some(reason) = source_fault(source).or_else(|| destination_fault(destination)) {
        return Err(reason);
    }
    Ok(Ipv4 { destination, time_to_live: header[8] })
}

/// Checks a header by RFC 1812, section 5.2.2.
#[inline]
fn check(header: &[u8; HEADER_BYTES], packet: &[u8], room: usize) -> Result<(), DropReason> {
    if header[0] >> 4 != 4 {
        return Err(DropReason::BadVersion);
    }
    let header_length = usize::from(header[0] & 15) * 4;
    if header_length < HEADER_BYTES {
        return Err(DropReason::BadHeaderLength);
    }
    let total_length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if total_length < header_length || total_length > room {
        return Err(DropReason::BadTotalLength);
    }
    let valid = if header_length == HEADER_BYTES {
        checksum::is_valid(header)
    } else {
        checksum::is_valid(packet.get(..header_length).ok_or(DropReason::Truncated)?)
    };
    if valid { Ok(()) } else { Err(DropReason::BadChecksum) }
}

/// Returns why a packet from this address is not forwarded (RFC 1812, section 5.3.7; link-local: RFC 3927,
/// section 7). `None`: it may be forwarded.
#[inline]
pub(crate) fn source_fault(address: Ipv4Addr) -> Option<DropReason> {
    Some(match address.octets() {
        [0, ..] => DropReason::SourceUnspecified,
        [127, ..] => DropReason::SourceLoopback,
        [169, 254, ..] => DropReason::SourceLinkLocal,
        [224..=239, ..] => DropReason::SourceMulticast,
        [255, 255, 255, 255] => DropReason::SourceBroadcast,
        [240..=255, ..] => DropReason::SourceReserved,
        _ => return None,
    })
}

/// Returns why a packet to this address is not forwarded. `None`: it may be forwarded. Multicast would need
/// group membership.
#[inline]
pub(crate) fn destination_fault(address: Ipv4Addr) -> Option<DropReason> {
    Some(match address.octets() {
        [0, ..] => DropReason::DestinationUnspecified,
        [127, ..] => DropReason::DestinationLoopback,
        [169, 254, ..] => DropReason::DestinationLinkLocal,
        [224..=239, ..] => DropReason::DestinationMulticast,
        [255, 255, 255, 255] => DropReason::DestinationBroadcast,
        [240..=255, ..] => DropReason::DestinationReserved,
        _ => return None,
    })
}

/// Fills in the checksum if it is zero; it stays zero if that is correct. Leaves an incomplete header
/// unchanged.
#[inline]
pub(super) fn fill_checksum(packet: &mut [u8]) {
    let Some(&first) = packet.first() else { return };
    let Some(header) = packet.get_mut(..usize::from(first & 15) * 4) else { return };
    if header.get(10..12) == Some(&[0, 0]) {
        let sum = checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Decrements the time to live, which must be at least 1, and updates the checksum.
#[inline]
pub(super) fn count_down(packet: &mut [u8]) {
    let Some(header) = packet.first_chunk_mut::<HEADER_BYTES>() else { return };
    let old = u16::from_be_bytes([header[8], header[9]]);
    let new = old - 0x100;
    let sum = checksum::update(u16::from_be_bytes([header[10], header[11]]), old, new);
    header[8..10].copy_from_slice(&new.to_be_bytes());
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 192.168.0.1 to 192.168.0.199, UDP, 115 bytes.
    const GOLDEN: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
        0x00, 0xc7,
    ];

    fn resum(header: &mut [u8]) {
        header[10..12].fill(0);
        let sum = checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    /// Returns why the golden header is dropped after one change, with its checksum corrected.
    fn with(change: impl FnOnce(&mut [u8; 20])) -> Option<DropReason> {
        let mut header = GOLDEN;
        change(&mut header);
        resum(&mut header);
        read(&header, 115).err()
    }

    #[test]
    fn golden_header() {
        let header = read(&GOLDEN, 115).unwrap();
        assert_eq!((header.destination, header.time_to_live), (Ipv4Addr::new(192, 168, 0, 199), 64));
        let mut packet = GOLDEN;
        count_down(&mut packet);
        let mut expected = GOLDEN;
        expected[8..12].copy_from_slice(&[0x3f, 0x11, 0xb9, 0x61]);
        assert_eq!(packet, expected);
    }

    #[test]
    fn checks_of_rfc_1812() {
        assert_eq!(with(|_| ()), None);
        assert_eq!(with(|h| h[0] = 0x65), Some(DropReason::BadVersion));
        assert_eq!(with(|h| h[0] = 0x44), Some(DropReason::BadHeaderLength));
        assert_eq!(with(|h| h[0] = 0x46), Some(DropReason::Truncated));
        assert_eq!(with(|h| h[3] = 19), Some(DropReason::BadTotalLength));
        assert_eq!(with(|h| h[3] = 116), Some(DropReason::BadTotalLength));
        assert_eq!(read(&GOLDEN[..19], 115).err(), Some(DropReason::Truncated));
        let mut header = GOLDEN;
        header[5] = 1;
        assert_eq!(read(&header, 115).err(), Some(DropReason::BadChecksum));
    }

    #[test]
    fn options_are_in_the_sum() {
        let mut packet = [&GOLDEN[..], &[1, 1, 1, 0]].concat();
        packet[0] = 0x46;
        resum(&mut packet);
        assert!(read(&packet, 115).is_ok());
        packet[20] = 0;
        assert_eq!(read(&packet, 115).err(), Some(DropReason::BadChecksum));
    }

    #[test]
    fn a_zero_checksum_is_filled_in_and_no_other() {
        let mut zero = GOLDEN;
        zero[10..12].fill(0);
        let filled = |packet: &[u8]| {
            let mut packet = packet.to_vec();
            fill_checksum(&mut packet);
            packet
        };
        assert_eq!(filled(&zero), GOLDEN);
        let mut wrong = GOLDEN;
        wrong[11] = 0;
        assert_eq!(filled(&wrong), wrong);
        // The header sums to 0xffff without its checksum, so zero is correct.
        let mut right = zero;
        right[4..6].copy_from_slice(&0xb861u16.to_be_bytes());
        assert_eq!(filled(&right), right);
        assert!(read(&right, 115).is_ok());
        // The checksum covers options. Headers that are cut off, too short or empty stay unchanged.
        let mut options = [&zero[..], &[1, 1, 1, 0, 9]].concat();
        options[0] = 0x46;
        assert!(read(&filled(&options), 115).is_ok());
        for short in [&options[..23], &zero[..19], &[0x40; 30], &[]] {
            assert_eq!(filled(short), short);
        }
    }

    #[test]
    fn addresses_that_are_not_forwarded() {
        use DropReason::*;
        for (address, source, destination) in [
            ([0, 0, 0, 0], SourceUnspecified, DestinationUnspecified),
            ([0, 1, 2, 3], SourceUnspecified, DestinationUnspecified),
            ([127, 0, 0, 1], SourceLoopback, DestinationLoopback),
            ([169, 254, 3, 4], SourceLinkLocal, DestinationLinkLocal),
            ([224, 0, 0, 1], SourceMulticast, DestinationMulticast),
            ([239, 255, 255, 250], SourceMulticast, DestinationMulticast),
            ([255, 255, 255, 255], SourceBroadcast, DestinationBroadcast),
            ([240, 0, 0, 1], SourceReserved, DestinationReserved),
            ([255, 255, 255, 254], SourceReserved, DestinationReserved),
        ] {
            assert_eq!(with(|h| h[12..16].copy_from_slice(&address)), Some(source));
            assert_eq!(with(|h| h[16..20].copy_from_slice(&address)), Some(destination));
        }
        for address in [[1, 0, 0, 0], [169, 253, 0, 0], [169, 255, 0, 0], [223, 255, 255, 255], [10, 0, 0, 0]] {
            assert_eq!(with(|h| h[12..16].copy_from_slice(&address)), None);
            assert_eq!(with(|h| h[16..20].copy_from_slice(&address)), None);
        }
    }

    proptest! {
        #[test]
        fn counting_down_is_summing_anew(mut header in proptest::collection::vec(any::<u8>(), 20..=20), ttl in 1u8..) {
            header[0] = 0x45;
            header[8] = ttl;
            resum(&mut header);
            let mut expected = header.clone();
            count_down(&mut header);
            expected[8] -= 1;
            resum(&mut expected);
            prop_assert_eq!(header, expected);
        }
    }
}
