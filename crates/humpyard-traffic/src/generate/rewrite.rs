//! Changes the addresses of existing packets, and updates their checksums.

use etherparse::ip_number;
use humpyard_core::frame::Frame;

use crate::header::Headers;

/// Changes the addresses of an IP packet by a function of source and destination, each 4 or 16 bytes. Correct
/// checksums stay correct, and wrong ones stay wrong (RFC 1624). Returns whether there were addresses to
/// change.
pub(super) fn addresses(frame: &mut Frame, headers: &Headers, change: impl FnOnce(&mut [u8], &mut [u8])) -> bool {
    let Some(ip) = headers.ip_offset.map(|offset| offset as usize) else { return false };
    let is_v4 = headers.version() == Some(4);
    let (at, length) = if is_v4 { (ip + 12, 4) } else { (ip + 8, 16) };
    let Some(both) = frame.data.get_mut(at..at + 2 * length) else { return false };
    let mut before = [0; 32];
    before[..2 * length].copy_from_slice(both);
    let (source, destination) = both.split_at_mut(length);
    change(source, destination);
    let difference = difference(&before[..2 * length], both);
    if is_v4 {
        update(&mut frame.data, ip + 10, difference);
    }
    if let Some(checksum) = transport_checksum(frame, headers, ip) {
        let is_udp = headers.key.protocol == ip_number::UDP.0;
        let none = frame.data.get(checksum..checksum + 2) == Some(&[0, 0]);
        // A UDP checksum of 0 means that there is none.
        if !(is_udp && none) {
            update(&mut frame.data, checksum, difference);
        }
        if is_udp && !none && frame.data.get(checksum..checksum + 2) == Some(&[0, 0]) {
            frame.data[checksum..checksum + 2].copy_from_slice(&[0xff, 0xff]);
        }
    }
    true
}

/// Returns the offset of the checksum that covers the addresses, if the packet has one.
fn transport_checksum(frame: &Frame, headers: &Headers, ip: usize) -> Option<usize> {
    let transport = headers.transport_offset? as usize;
    if headers.fragment && !is_first_fragment(&frame.data, headers, ip, transport) {
        return None;
    }
    let is_v6 = headers.version() == Some(6);
    match etherparse::IpNumber(headers.key.protocol) {
        ip_number::TCP => Some(transport + 16),
        ip_number::UDP | ip_number::UDP_LITE | ip_number::DCCP => Some(transport + 6),
        ip_number::IPV6_ICMP if is_v6 => Some(transport + 2),
        _ => None,
    }
}

/// Returns whether a fragment contains the transport header.
fn is_first_fragment(data: &[u8], headers: &Headers, ip: usize, transport: usize) -> bool {
    let (at, mask) =
        if headers.version() == Some(4) { (ip + 6, 0x1fff) } else { (transport.saturating_sub(6), 0xfff8) };
    data.get(at..at + 2).is_some_and(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]) & mask == 0)
}

/// Returns the value to add to the complement of a checksum when these bytes change.
fn difference(before: &[u8], after: &[u8]) -> u32 {
    let words = |bytes: &[u8]| -> u32 {
        bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
    };
    let complements = before.len() as u32 / 2 * 0xffff - words(before);
    complements + words(after)
}

fn update(data: &mut [u8], at: usize, difference: u32) {
    let Some(field) = data.get_mut(at..at + 2) else { return };
    let mut sum = u32::from(!u16::from_be_bytes([field[0], field[1]])) + difference;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    field.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::super::packet::tests::assert_sound;
    use super::super::packet::{Endpoint, Side, Version};
    use super::super::sketch::{Segment, Sketch, Transport, Writer};
    use super::*;

    #[test]
    fn packets_stay_sound() {
        let mut writer = Writer::new(2_000, 0);
        let mut frame = Frame::default();
        let mut random = Seed(1).stream("test");
        for _ in 0..5_000 {
            let end = |side, n: u64| Endpoint { side, host: n as u32, port: (n >> 16) as u16 };
            let ends = (end(Side::Client, random.bits()), end(Side::Server, random.bits()));
            let transport = match random.below(3) {
                0 => Transport::Udp,
                1 => Transport::Tcp(Segment::default()),
                _ => Transport::Echo { sequence: random.bits() as u16, reply: false },
            };
            let version = if random.below(2) == 0 { Version::V4 } else { Version::V6 };
            let sketch = Sketch::new(random.bits(), 64 + random.below(600) as u32, version, ends, transport);
            writer.write(&sketch, &mut frame);
            let headers = Headers::parse(&frame);
            let bits = random.bits();
            let changed = addresses(&mut frame, &headers, |source, destination| {
                source[..4].copy_from_slice(&bits.to_be_bytes()[..4]);
                destination[2..4].copy_from_slice(&bits.to_be_bytes()[6..]);
            });
            assert!(changed);
            assert_sound(&frame);
            assert_ne!(Headers::parse(&frame).key, headers.key);
        }
    }

    #[test]
    fn a_datagram_without_checksum_gets_none_and_a_wrong_one_stays_wrong() {
        let ends = [Side::Client, Side::Server].map(|side| Endpoint { side, host: 9, port: 9 });
        let mut frame = Frame::default();
        let sketch = Sketch::new(0, 100, Version::V4, (ends[0], ends[1]), Transport::Udp);
        Writer::new(100, 0).write(&sketch, &mut frame);
        let headers = Headers::parse(&frame);
        let change = |source: &mut [u8], _: &mut [u8]| source.copy_from_slice(&[1, 2, 3, 4]);
        let right = [frame.data[40], frame.data[41]];
        frame.data[40..42].copy_from_slice(&[0, 0]);
        addresses(&mut frame, &headers, change);
        assert_eq!(frame.data[40..42], [0, 0]);
        frame.data[40..42].copy_from_slice(&[right[0] ^ 1, right[1]]);
        addresses(&mut frame, &headers, |source, _| source.copy_from_slice(&[198, 18, 0, 9]));
        addresses(&mut frame, &headers, change);
        let packet = etherparse::LaxSlicedPacket::from_ethernet(&frame.data).unwrap();
        let Some(etherparse::TransportSlice::Udp(udp)) = packet.transport else { panic!("no UDP") };
        let computed = udp.to_header().calc_checksum_ipv4_raw([1, 2, 3, 4], [198, 19, 0, 9], udp.payload()).unwrap();
        assert_ne!(udp.checksum(), computed);
    }

    #[test]
    fn what_is_cut_or_not_ip_is_left() {
        let mut frame = Frame { data: vec![0; 14], ..Frame::default() };
        let headers = Headers::parse(&frame);
        assert!(!addresses(&mut frame, &headers, |_, _| panic!("there are none")));
    }
}
