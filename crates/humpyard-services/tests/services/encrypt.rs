//! Encryption and decryption.

use std::collections::HashSet;

use etherparse::{Ipv4Slice, Ipv6Slice};
use humpyard_core::frame::{Frame, LinkType};
use humpyard_services::{Context, DropReason, Generated, Service, Verdict, prepare};
use proptest::prelude::*;

use crate::support::{arbitrary_frame, count, framed, process, raw, service, udp, udp_v6};

const CIPHERS: [&str; 2] = ["aes-128-gcm", "cast-128"];

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap();
    (0..hexadecimal.len()).step_by(2).map(digit).collect()
}

/// 192.0.2.1 to 198.51.100.2, UDP, `car`.
const PLAIN: &str = "4500001f0007000040118e90c0000201c633640203e807d0000b0000636172";

fn verdict(service: &mut dyn Service, frame: &mut Frame) -> Verdict {
    process(service, frame, &Context::default()).0
}

fn encrypted(cipher: &str, plain: &Frame) -> Frame {
    let mut frame = plain.clone();
    assert_eq!(verdict(&mut *service(&format!("encrypt:spi=256,cipher={cipher}")), &mut frame), Verdict::Forward);
    frame
}

/// Packets made by another implementation (Python's `cryptography`, based on OpenSSL), with instance 1 as here.
#[test]
fn golden_packets() {
    for (cipher, expected) in [(CIPHERS[0], GOLDEN_AES_128_GCM), (CIPHERS[1], GOLDEN_CAST_128)] {
        let plain = raw(&bytes(PLAIN));
        let mut frame = encrypted(cipher, &plain);
        assert_eq!(frame.data, bytes(expected), "{cipher}");
        let decrypt = &mut *service(&format!("decrypt:cipher={cipher}"));
        assert_eq!(verdict(decrypt, &mut frame), Verdict::Forward);
        assert_eq!(frame, plain);
        assert_eq!((count(decrypt, "decrypted"), count(decrypt, "bytes_out")), (1, 31));
    }
}

const GOLDEN_AES_128_GCM: &str = "450000580000400040324e3dc0000201c6336402000001000000000100010000000000006645c0a01a83329bf5ef65d6e33c779b5ff7823a921ebc5d48ed4a489487daefd8c59e7aa2b35325fd0588819d17d235be1d9158";
const GOLDEN_CAST_128: &str = "4500005c0000400040324e39c0000201c633640200000100000000017ea0f1c367ac15f54310d87b9eab90cbc7b71831d3e0b301f9e13fa7116090e76b3740ccac1f99f5e6ed778c2eb375a9d97d2a345d941fe0962f7d821e373e7a";

#[test]
fn an_encrypted_packet_is_a_good_ip_packet() {
    for cipher in CIPHERS {
        for length in 0..40 {
            let plain = udp((1, 2), &vec![7; length]);
            let frame = encrypted(cipher, &plain);
            let packet = Ipv4Slice::from_slice(&frame.data[14..]).unwrap();
            let header = packet.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum);
            assert_eq!(
                (header.protocol.0, header.source, header.destination),
                (50, [198, 51, 100, 7], [203, 0, 113, 9])
            );
            assert_eq!(
                (usize::from(header.total_len) + 14, frame.data.len()),
                (frame.data.len(), frame.wire_length as usize)
            );
            assert_eq!(packet.payload().payload.len() % if cipher == CIPHERS[0] { 4 } else { 8 }, 0);
            let frame = encrypted(cipher, &udp_v6((1, 2), &vec![7; length]));
            let packet = Ipv6Slice::from_slice(&frame.data[14..]).unwrap();
            assert_eq!((packet.header().next_header().0, packet.header().hop_limit()), (50, 64));
            assert_eq!(usize::from(packet.header().payload_length()) + 54, frame.data.len());
        }
    }
}

#[test]
fn what_follows_the_packet_comes_back_too() {
    for cipher in CIPHERS {
        // Padded to Ethernet's minimum length, and with a wrong header checksum.
        let mut plain = udp((1, 2), b"car");
        plain.data.resize(60, 0xee);
        plain.data[25] ^= 1;
        plain.wire_length = 60;
        let mut frame = encrypted(cipher, &plain);
        // The link adds padding on the way.
        frame.data.extend([0; 9]);
        frame.wire_length += 9;
        assert_eq!(verdict(&mut *service(&format!("decrypt:cipher={cipher}")), &mut frame), Verdict::Forward);
        assert_eq!(frame, plain);
    }
}

/// For any changed bit behind the outer header, and any cut of the packet.
#[test]
fn what_is_forged_or_damaged_is_dropped() {
    for cipher in CIPHERS {
        let decrypt = &mut *service(&format!("decrypt:cipher={cipher}"));
        let good = encrypted(cipher, &raw(&bytes(PLAIN)));
        for bit in 20 * 8..good.data.len() * 8 {
            let mut frame = good.clone();
            frame.data[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verdict(decrypt, &mut frame), Verdict::Drop(DropReason::NotAuthentic), "bit {bit}");
        }
        for length in 0..good.data.len() {
            let mut cut = good.clone();
            cut.data.truncate(length);
            assert!(matches!(
                verdict(decrypt, &mut cut.clone()),
                Verdict::Drop(DropReason::Incomplete | DropReason::Truncated)
            ));
            cut.wire_length = length as u32;
            assert!(matches!(
                verdict(decrypt, &mut cut),
                Verdict::Drop(DropReason::BadTotalLength | DropReason::Truncated)
            ));
        }
        let other = &mut *service(&format!("decrypt:cipher={cipher},key={}", "ab".repeat(16)));
        assert_eq!(verdict(other, &mut good.clone()), Verdict::Drop(DropReason::NotAuthentic));
    }
}

#[test]
fn what_cannot_be_served_is_dropped_for_its_reason() {
    let encrypt = &mut *service("encrypt");
    let arp = framed(LinkType::Ethernet, &[&[2; 12][..], &[8, 6], &[0; 28]].concat());
    assert_eq!(verdict(encrypt, &mut arp.clone()), Verdict::Drop(DropReason::NotIp));
    let mut cut = udp((1, 2), b"car");
    cut.wire_length += 1;
    assert_eq!(verdict(encrypt, &mut cut), Verdict::Drop(DropReason::Incomplete));
    let mut long = udp((1, 2), &[0; 65_480]);
    let before = long.clone();
    assert_eq!(verdict(encrypt, &mut long), Verdict::Drop(DropReason::TooLong));
    assert_eq!(long, before);
    let decrypt = &mut *service("decrypt");
    assert_eq!(verdict(decrypt, &mut udp((1, 2), b"car")), Verdict::Drop(DropReason::NotEncapsulated));
}

/// No two packets of the instances of a factory, or of a new factory, have the same vector under the same
/// index.
#[test]
fn no_nonce_is_used_twice() {
    for cipher in CIPHERS {
        let mut seen = HashSet::new();
        for _ in 0..2 {
            let factory = prepare(&format!("encrypt:cipher={cipher}").parse().unwrap()).unwrap();
            for _ in 0..8 {
                let mut instance = factory.make();
                for _ in 0..50 {
                    let mut frame = raw(&bytes(PLAIN));
                    assert_eq!(verdict(&mut *instance, &mut frame), Verdict::Forward);
                    let index_and_vector = [&frame.data[20..24], &frame.data[28..36]].concat();
                    assert!(seen.insert(index_and_vector), "{cipher}: twice");
                }
            }
        }
    }
}

/// Forged indices evict associations, and do no other harm.
#[test]
fn packets_of_many_runs_mixed() {
    let decrypt = &mut *service("decrypt");
    let plain = raw(&bytes(PLAIN));
    let frames: Vec<Frame> = (256..356)
        .map(|spi| {
            let mut frame = plain.clone();
            verdict(&mut *service(&format!("encrypt:spi={spi}")), &mut frame);
            frame
        })
        .collect();
    for frame in frames.iter().chain(frames.iter().rev()) {
        let mut frame = frame.clone();
        assert_eq!(verdict(decrypt, &mut frame), Verdict::Forward);
        assert_eq!(frame, plain);
    }
}

proptest! {
    #[test]
    fn nothing_makes_them_panic(frame in arbitrary_frame(), esp: bool) {
        for spec in ["encrypt", "encrypt:cipher=cast-128", "decrypt", "decrypt:cipher=cast-128"] {
            let mut frame = frame.clone();
            if esp && frame.link == LinkType::RawIp && frame.data.len() > 9 {
                (frame.data[0], frame.data[9]) = (0x45, 50);
            }
            let _ = service(spec).process(&mut frame, &Context::default(), &mut Generated::default());
        }
    }
}
