//! Compression and decompression.

use etherparse::Ipv4Slice;
use humpyard_core::frame::{Frame, LinkType};
use humpyard_services::{Context, DropReason, Generated, Service, Verdict, checksum};
use proptest::prelude::*;

use crate::support::{arbitrary_frame, count, framed, process, service, udp, udp_v6};

const CODECS: [&str; 2] = ["lz4", "deflate"];

fn verdict(service: &mut dyn Service, frame: &mut Frame) -> Verdict {
    process(service, frame, &Context::default()).0
}

fn compressed(codec: &str, plain: &Frame) -> Frame {
    let mut frame = plain.clone();
    assert_eq!(verdict(&mut *service(&format!("compress:codec={codec}")), &mut frame), Verdict::Forward);
    frame
}

/// A packet with one letter a hundred times. Raw DEFLATE (checked with Python's zlib) is a literal and a copy,
/// with the fixed codes. LZ4 by hand: a sequence of the literal and a copy, then literal letters.
#[test]
fn golden_packets() {
    let mut plain = framed(
        LinkType::RawIp,
        &[&[0x45, 0, 0, 120, 0, 0, 0, 0, 64, 99, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &[b'a'; 100]].concat(),
    );
    let sum = checksum::checksum(&plain.data[..20]);
    plain.data[10..12].copy_from_slice(&sum.to_be_bytes());
    // A copy of 93 letters, 15 + 74 beyond the minimum of 4; a block ends with literals.
    let lz4 = [&[99, 0, 0xf4, 0xc4, 0x1f, b'a', 1, 0, 74, 0x60][..], b"aaaaaa"].concat();
    let deflate = [99, 0, 0, 2, 0x4b, 0xa4, 0x03, 0x00, 0x00];
    for (codec, expected) in [("lz4", &lz4[..]), ("deflate", &deflate)] {
        let mut frame = compressed(codec, &plain);
        assert_eq!(&frame.data[20..], expected, "{codec}");
        assert_eq!((frame.data[3] as usize, frame.data[9]), (frame.data.len(), 108));
        assert!(checksum::is_valid(&frame.data[..20]));
        assert_eq!(verdict(&mut *service("decompress"), &mut frame), Verdict::Forward);
        assert_eq!(frame, plain);
    }
}

#[test]
fn only_what_gets_shorter_and_comes_back_is_compressed() {
    for codec in CODECS {
        let compress = &mut *service(&format!("compress:codec={codec}"));
        let noise: Vec<u8> = (0..1400u64).map(|i| (humpyard_core::hash::mix(i) >> 8) as u8).collect();
        let mut fragment = udp((1, 2), &[7; 200]);
        fragment.data[20] = 0x20;
        let sum = {
            fragment.data[24..26].fill(0);
            checksum::checksum(&fragment.data[14..34])
        };
        fragment.data[24..26].copy_from_slice(&sum.to_be_bytes());
        let mut unsummed = udp((1, 2), &[7; 200]);
        unsummed.data[24..26].fill(0);
        let mut hop_by_hop = udp_v6((1, 2), &[7; 200]);
        hop_by_hop.data[20] = 0;
        for plain in [udp((1, 2), &noise), udp((1, 2), &[7; 8]), fragment, unsummed, hop_by_hop] {
            let mut frame = plain.clone();
            assert_eq!(verdict(compress, &mut frame), Verdict::Forward);
            assert_eq!(frame, plain, "{codec}");
        }
        for plain in [udp((1, 2), &[7; 200]), udp_v6((1, 2), &[7; 200])] {
            assert!(compressed(codec, &plain).data.len() < 100, "{codec}");
        }
        assert_eq!((count(compress, "compressed"), count(compress, "unchanged")), (0, 5));
    }
}

#[test]
fn a_compressed_packet_is_a_good_ip_packet_and_what_follows_it_stays() {
    for codec in CODECS {
        let mut plain = udp((1, 2), &[7; 200]);
        plain.data.extend(b"check");
        plain.wire_length += 5;
        let mut frame = compressed(codec, &plain);
        assert!(frame.data.ends_with(b"check"));
        let packet = Ipv4Slice::from_slice(&frame.data[14..]).unwrap().header().to_header();
        assert_eq!(packet.calc_header_checksum(), packet.header_checksum);
        assert_eq!(usize::from(packet.total_len) + 14 + 5, frame.data.len());
        assert_eq!(verdict(&mut *service("decompress"), &mut frame), Verdict::Forward);
        assert_eq!(frame, plain);
    }
}

#[test]
fn what_does_not_decompress_is_dropped() {
    let decompress = &mut *service("decompress");
    for codec in CODECS {
        let good = compressed(codec, &udp((1, 2), &[7; 200]));
        // The packet ends before its payload does.
        let mut cut = good.clone();
        cut.data.pop();
        cut.wire_length -= 1;
        cut.data[17] -= 1;
        assert_eq!(verdict(decompress, &mut cut), Verdict::Drop(DropReason::Malformed), "{codec}");
        let mut incomplete = good.clone();
        incomplete.data.pop();
        assert_eq!(verdict(decompress, &mut incomplete), Verdict::Drop(DropReason::Incomplete));
        // An index that is not ours.
        let mut other = good.clone();
        other.data[36] ^= 0x30;
        let before = other.clone();
        assert_eq!(verdict(decompress, &mut other), Verdict::Forward);
        assert_eq!(other, before);
    }
    // A packet of a few hundred bytes whose payload would exceed the longest packet.
    let bomb = [&[17, 0, 0xf4, 0xc4, 0x1f, b'a', 1, 0][..], &[255; 300], &[0, 0x50], b"aaaaa"].concat();
    let mut frame = udp((1, 2), &bomb);
    frame.data[23] = 108;
    frame.data.drain(34..42);
    frame.data[16..18].copy_from_slice(&(20 + bomb.len() as u16).to_be_bytes());
    frame.wire_length = frame.data.len() as u32;
    assert_eq!(verdict(decompress, &mut frame), Verdict::Drop(DropReason::Malformed));
}

/// The longest payload, of noise: no codec shortens it, so it stays as it is.
#[test]
fn the_longest_packet_of_noise() {
    let noise: Vec<u8> = (0..65_507u64).map(|i| (humpyard_core::hash::mix(i) >> 8) as u8).collect();
    let plain = udp((1, 2), &noise);
    for level in 1..=9 {
        assert_eq!(compressed(&format!("deflate,level={level}"), &plain), plain);
    }
    assert_eq!(compressed("lz4", &plain), plain);
}

/// Every level restores the same bytes, and a higher level is no worse on text.
#[test]
fn levels() {
    let text: Vec<u8> =
        (0..60u32).flat_map(|i| format!("packet {i} goes to core {} ", i * 7 % 5).into_bytes()).collect();
    let plain = udp((1, 2), &text);
    let length = |level: u32| {
        let mut frame = plain.clone();
        verdict(&mut *service(&format!("compress:codec=deflate,level={level}")), &mut frame);
        let length = frame.data.len();
        verdict(&mut *service("decompress"), &mut frame);
        assert_eq!(frame, plain, "level {level}");
        length
    };
    let lengths: Vec<usize> = (1..=9).map(length).collect();
    assert!(lengths[8] <= lengths[0] && lengths[0] < plain.data.len() / 2, "{lengths:?}");
}

proptest! {
    #[test]
    fn nothing_makes_them_panic(frame in arbitrary_frame(), cpi in prop_oneof![Just([0xf4, 0xc4]), Just([0, 2])], ipcomp: bool) {
        for spec in ["compress", "compress:codec=deflate,least=0", "decompress"] {
            let mut frame = frame.clone();
            if ipcomp && frame.link == LinkType::RawIp && frame.data.len() > 24 {
                let length = frame.data.len() as u16;
                (frame.data[0], frame.data[9]) = (0x45, 108);
                frame.data[2..4].copy_from_slice(&length.to_be_bytes());
                frame.data[6..8].fill(0);
                frame.data[22..24].copy_from_slice(&cpi);
            }
            let _ = service(spec).process(&mut frame, &Context::default(), &mut Generated::default());
        }
    }
}
