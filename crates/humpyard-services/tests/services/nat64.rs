//! Tests translation between IPv6 and IPv4: worked examples, round trips, and packets of all kinds.
#![expect(
    clippy::print_stderr,
    reason = "a test that skips must say so, and what was compared is for a person to read"
)]

use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use etherparse::{IpSlice, PacketBuilder, SlicedPacket};
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;
use humpyard_services::link::Network;
use humpyard_services::{Context, DropReason, Generated, Service, Verdict, checksum};
use proptest::prelude::*;

use crate::support::{arbitrary_frame, captures, count, each_frame, framed, process, raw, service};

const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x21);
const OTHER_HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x22);
const PEER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// The one address of the pool in most tests.
const ONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 64);
const FIXED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const SPEC: &str = "nat64:pool=192.0.2.64/32,map=192.0.2.9=2001:db8::22,icmp-interval=0";

/// Returns the IPv6 address of an IPv4 host.
fn behind(v4: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x64_ff9b << 96 | u128::from(v4.to_bits()))
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// Fills in a packet's checksum field: the sum over `pseudo` and the bytes from `start` on.
fn fill(packet: &mut [u8], start: usize, at: usize, pseudo: &[u8]) {
    packet[start + at..start + at + 2].fill(0);
    let sum = checksum::Sum::default().with(pseudo).with(&packet[start..]).checksum();
    packet[start + at..start + at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: usize) -> Vec<u8> {
    let length = (length as u32).to_be_bytes();
    [&source.octets()[..], &destination.octets(), &length, &[0, 0, 0, protocol]].concat()
}

/// Returns an IPv6 packet with these bytes.
fn v6(source: Ipv6Addr, destination: Ipv6Addr, next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    [&[0x60, 0, 0, 0, length[0], length[1], next, hops][..], &source.octets(), &destination.octets(), payload].concat()
}

/// Returns an IPv4 packet with these bytes; `fragment` is the second word of its header.
fn v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, ttl: u8, fragment: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let mut packet = [&[0x45, 0, length[0], length[1]][..], &fragment, &[ttl, protocol, 0, 0]].concat();
    packet.extend(source.octets().into_iter().chain(destination.octets()));
    fill(&mut packet, 0, 10, &[]);
    packet.extend_from_slice(payload);
    packet
}

fn udp_v6(source: Ipv6Addr, destination: Ipv6Addr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv6(source.octets(), destination.octets(), 64).udp(ports.0, ports.1);
    builder.write(&mut packet, payload).unwrap();
    packet
}

fn udp_v4(source: Ipv4Addr, destination: Ipv4Addr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(source.octets(), destination.octets(), 64).udp(ports.0, ports.1);
    builder.write(&mut packet, payload).unwrap();
    packet
}

/// Returns the translation of a packet, which the service must forward without other frames.
fn translated(nat: &mut dyn Service, packet: &[u8]) -> Vec<u8> {
    let mut frame = raw(packet);
    let (verdict, generated) = process(nat, &mut frame, &Context::default());
    assert_eq!((verdict, generated.len()), (Verdict::Forward, 0), "{packet:02x?}");
    assert_eq!(frame.wire_length as usize, frame.data.len());
    check(&frame);
    frame.data
}

/// Returns the reason why the service drops a packet, and the error that it sends, if any.
fn refused(nat: &mut dyn Service, packet: &[u8]) -> (DropReason, Option<Vec<u8>>) {
    let (verdict, mut generated) = process(nat, &mut raw(packet), &Context::default());
    let Verdict::Drop(reason) = verdict else { panic!("{verdict:?}: {packet:02x?}") };
    (reason, generated.pop().map(|frame| frame.data))
}

/// Returns the sum over a packet's pseudo-header and payload. `None`: it is a fragment.
fn sum_of_content(packet: &[u8]) -> Option<(u8, u16)> {
    let (pseudo, protocol, start, is_fragment) = if packet[0] >> 4 == 4 {
        let start = usize::from(packet[0] & 15) * 4;
        let length = (packet.len() - start) as u16;
        let pseudo = [&packet[12..20], &[0, packet[9]], &length.to_be_bytes()].concat();
        (if packet[9] == 1 { Vec::new() } else { pseudo }, packet[9], start, packet[6] & 0x3f != 0 || packet[7] != 0)
    } else {
        let length = ((packet.len() - 40) as u32).to_be_bytes();
        ([&packet[8..40], &length, &[0, 0, 0, packet[6]]].concat(), packet[6], 40, packet[6] == 44)
    };
    let content = packet.get(start..)?;
    if is_fragment || !matches!(protocol, 1 | 6 | 17 | 58) || protocol == 17 && content.get(6..8)? == [0, 0] {
        return None;
    }
    Some((protocol, checksum::Sum::default().with(&pseudo).with(content).fold()))
}

/// Checks that a packet parses, has the stated length, and has correct checksums.
fn check(frame: &Frame) {
    let at = Network::find(frame).unwrap().offset;
    let packet = &frame.data[at..];
    let parsed = SlicedPacket::from_ip(packet).unwrap_or_else(|error| panic!("{error}: {packet:02x?}"));
    if packet[0] >> 4 == 4 {
        assert!(checksum::is_valid(&packet[..20]));
        assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
    } else {
        assert_eq!(usize::from(u16::from_be_bytes([packet[4], packet[5]])) + 40, packet.len());
    }
    assert!(parsed.net.is_some());
    assert!(sum_of_content(packet).is_none_or(|(_, sum)| sum == 0xffff), "{packet:02x?}");
}

/// Summed by hand. UDP 5000 to 53, "hi", from 2001:db8::21 to 64:ff9b::198.51.100.7: the pseudo-header and the
/// packet are 2001+0db8+0021 + 0064+ff9b+c633+6407 + 000a + 0011 + 1388+0035+000a + 6869 = 2d45e, folded d460,
/// so the checksum is 2b9f. In IPv4 it is c000+0240 + c633+6407 + 0011+000a + 1388+0035+000a + 6869 = 268c5,
/// folded 68c7, so 9738.
#[test]
fn golden_udp_there_and_back() {
    let mut nat = service(SPEC);
    let there = bytes(
        "60a12345 000a1140 20010db8000000000000000000000021 0064ff9b0000000000000000c6336407 13880035000a2b9f 6869",
    );
    let made = translated(&mut *nat, &there);
    // The traffic class becomes the type of service, and the flow label is lost; identification 1, may be
    // fragmented, one hop less.
    let header = bytes("450a001e 00010000 3f110000 c0000240 c6336407");
    let mut expected = [header, bytes("13880035000a9738 6869")].concat();
    fill(&mut expected[..20], 0, 10, &[]);
    assert_eq!(made, expected);
    // The answer exchanges ports and addresses, so the checksums are the same.
    let back = v4(PEER, ONE, 17, 50, [0, 9, 0x40, 0], &bytes("00351388000a9738 6869"));
    let expected = bytes(
        "60000000 000a1131 0064ff9b0000000000000000c6336407 20010db8000000000000000000000021 00351388000a2b9f 6869",
    );
    assert_eq!(translated(&mut *nat, &back), expected);
    let counted = ["v6_v4_udp", "v4_v6_udp", "bindings", "sessions", "hairpinned"].map(|name| count(&*nat, name));
    assert_eq!(counted, [1, 1, 1, 1, 0]);
}

/// Summed by hand. An echo request, identifier 7, sequence 1, no data: 2001+0db8+0021 + 0064+ff9b+c633+6407 +
/// 0008+003a + 8000+0007+0001 = 2d85d, folded d85f, so 27a0. In IPv4 there is no pseudo-header: 0800+0007+0001
/// = 0808, so f7f7. For the reply 0007+0001 = 0008, so fff7; in IPv6 that is the sum above plus 0100, so 26a0.
#[test]
fn golden_echo_there_and_back() {
    let mut nat = service(SPEC);
    let request = v6(HOST, behind(PEER), 58, 64, &bytes("8000 27a0 0007 0001"));
    let made = translated(&mut *nat, &request);
    assert_eq!(made, v4(ONE, PEER, 1, 63, [0, 1, 0, 0], &bytes("0800 f7f7 0007 0001")));
    let reply = v4(PEER, ONE, 1, 64, [0, 1, 0, 0], &bytes("0000 fff7 0007 0001"));
    assert_eq!(translated(&mut *nat, &reply), v6(behind(PEER), HOST, 58, 63, &bytes("8100 26a0 0007 0001")));
}

/// An IPv4 router reports that the port of the UDP packet above is closed. It quotes the packet that it got,
/// and the host gets the packet that it sent.
#[test]
fn golden_error_from_ipv4() {
    let mut nat = service(SPEC);
    let sent = udp_v6(HOST, behind(PEER), (5000, 53), b"hi");
    let made = translated(&mut *nat, &sent);
    let router = Ipv4Addr::new(203, 0, 113, 1);
    let mut message = [&[3, 3, 0, 0, 0, 0, 0, 0], &made[..28]].concat();
    fill(&mut message, 0, 2, &[]);
    let got = translated(&mut *nat, &v4(router, ONE, 1, 60, [0; 4], &message));
    // The sent packet has lost one hop since, and the quote contains everything but its two bytes of payload.
    let mut quote = sent[..48].to_vec();
    quote[7] = 63;
    let mut message = [&[1, 4, 0, 0, 0, 0, 0, 0], &quote[..]].concat();
    fill(&mut message, 0, 2, &pseudo_v6(behind(router), HOST, 58, 56));
    assert_eq!(got, v6(behind(router), HOST, 58, 59, &message));
}

/// An IPv6 host reports that the port of an answer is closed. The IPv4 host gets the packet that it sent, from
/// the address that it sent to.
#[test]
fn golden_error_from_ipv6() {
    let mut nat = service(SPEC);
    translated(&mut *nat, &udp_v6(HOST, behind(PEER), (5000, 53), b"hi"));
    let answer = udp_v4(PEER, ONE, (53, 5000), b"ho");
    let made = translated(&mut *nat, &answer);
    let error = |icmp_type: u8, code: u8, word: [u8; 4]| {
        let mut message = [&[icmp_type, code, 0, 0][..], &word, &made].concat();
        fill(&mut message, 0, 2, &pseudo_v6(HOST, behind(PEER), 58, 8 + made.len()));
        v6(HOST, behind(PEER), 58, 64, &message)
    };
    let expected = |icmp_type: u8, code: u8, word: [u8; 4], identification: u8| {
        // The quoted packet is short, so it may be fragmented.
        let quote = v4(PEER, ONE, 17, 63, [0; 4], &answer[20..]);
        let mut message = [&[icmp_type, code, 0, 0][..], &word, &quote].concat();
        fill(&mut message, 0, 2, &[]);
        v4(ONE, PEER, 1, 63, [0, identification, 0, 0], &message)
    };
    assert_eq!(translated(&mut *nat, &error(1, 4, [0; 4])), expected(3, 3, [0; 4], 2));
    assert_eq!(translated(&mut *nat, &error(2, 0, [0, 0, 5, 220])), expected(3, 4, [0, 0, 5, 200], 3));
    assert_eq!(translated(&mut *nat, &error(4, 0, [0, 0, 0, 7])), expected(12, 0, [8, 0, 0, 0], 4));
    // Errors about another sender's packet, and damaged ones.
    let mut foreign = error(1, 4, [0; 4]);
    foreign[48 + 40 + 3] ^= 1;
    fill(&mut foreign, 40, 2, &pseudo_v6(HOST, behind(PEER), 58, 8 + made.len()));
    assert_eq!(refused(&mut *nat, &foreign), (DropReason::NoBinding, None));
    let mut damaged = error(1, 4, [0; 4]);
    damaged[60] ^= 1;
    assert_eq!(refused(&mut *nat, &damaged), (DropReason::BadChecksum, None));
}

/// Every link header announces the other version, and is unchanged otherwise; padding is removed.
#[test]
fn link_headers() {
    let mut nat = service(SPEC);
    let macs = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (link, before, after) in [
        (LinkType::Ethernet, [&macs[..], &[0x86, 0xdd]].concat(), [&macs[..], &[8, 0]].concat()),
        (
            LinkType::Ethernet,
            [&macs[..], &[0x81, 0, 0, 5, 0x86, 0xdd]].concat(),
            [&macs[..], &[0x81, 0, 0, 5, 8, 0]].concat(),
        ),
        (LinkType::LinuxCooked, [vec![0; 14], vec![0x86, 0xdd]].concat(), [vec![0; 14], vec![8, 0]].concat()),
        (LinkType::LinuxCooked2, [vec![0x86, 0xdd], vec![0; 18]].concat(), [vec![8, 0], vec![0; 18]].concat()),
        (LinkType::RawIp, vec![], vec![]),
        (LinkType::Loopback, vec![0, 0, 0, 30], vec![0, 0, 0, 2]),
        (LinkType::Loopback, vec![30, 0, 0, 0], vec![2, 0, 0, 0]),
    ] {
        let there = udp_v6(HOST, behind(PEER), (5000, 53), b"hi");
        let mut frame = framed(link, &[&before[..], &there, &[0; 9]].concat());
        assert_eq!(process(&mut *nat, &mut frame, &Context::default()).0, Verdict::Forward);
        assert_eq!((&frame.data[..after.len()], frame.data.len()), (&after[..], after.len() + 30), "{link:?}");
        check(&frame);
        let mut frame = framed(link, &[&after[..], &udp_v4(PEER, ONE, (53, 5000), b"ho")].concat());
        assert_eq!(process(&mut *nat, &mut frame, &Context::default()).0, Verdict::Forward);
        assert_eq!((&frame.data[..before.len()], frame.data.len()), (&before[..], before.len() + 50), "{link:?}");
        check(&frame);
    }
    let mut group = framed(LinkType::Ethernet, &[&[1; 12][..], &[8, 0, 0x45]].concat());
    assert_eq!(process(&mut *nat, &mut group, &Context::default()).0, Verdict::Drop(DropReason::LinkGroup));
}

#[test]
fn what_is_refused_and_who_is_told() {
    let mut nat = service(&format!("{SPEC},filter=address-dependent,private=false"));
    let mut says = |packet: &[u8]| {
        let (reason, error) = refused(&mut *nat, packet);
        let kind = error.map(|error| if error[0] >> 4 == 4 { (error[20], error[21]) } else { (error[40], error[41]) });
        (reason, kind)
    };
    let there = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = udp_v6(HOST, behind(PEER), (5000, 53), b"hi");
        change(&mut packet);
        packet
    };
    let back = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = udp_v4(PEER, FIXED, (53, 5000), b"ho");
        change(&mut packet);
        let length = usize::from(packet[0] & 15) * 4;
        fill(&mut packet[..length], 0, 10, &[]);
        packet
    };
    use DropReason as Reason;
    assert_eq!(says(&there(&|p| p[7] = 1)), (Reason::TtlExpired, Some((3, 0))));
    assert_eq!(says(&there(&|p| p[24] = 0x20)), (Reason::NotTranslated, None));
    assert_eq!(says(&there(&|p| p[8..24].copy_from_slice(&behind(PEER).octets()))), (Reason::SourceTranslated, None));
    assert_eq!(says(&there(&|p| p[36] = 127)), (Reason::DestinationLoopback, None));
    assert_eq!(says(&there(&|p| p[36] = 10)), (Reason::DestinationReserved, None));
    assert_eq!(says(&there(&|p| p[6] = 50)), (Reason::ProtocolDenied, Some((1, 1))));
    assert_eq!(says(&there(&|p| p[6] = 58)), (Reason::IcmpUntranslatable, None));
    assert_eq!(says(&there(&|p| p[6] = 59)), (Reason::ProtocolDenied, Some((1, 1))));
    assert_eq!(says(&there(&|p| p[5] = 200)), (Reason::BadTotalLength, None));
    assert_eq!(says(&there(&|p| (p[5], _) = (7, p.truncate(47)))), (Reason::Malformed, None));
    assert_eq!(says(&back(&|p| p[8] = 1)), (Reason::TtlExpired, Some((11, 0))));
    assert_eq!(says(&back(&|p| p[19] = 11)), (Reason::NotTranslated, None));
    assert_eq!(says(&back(&|p| p[19] = 64)), (Reason::NoBinding, Some((3, 1))));
    assert_eq!(says(&back(&|p| (p[19], p[9]) = (64, 50))), (Reason::ProtocolDenied, Some((3, 13))));
    assert_eq!(says(&back(&|p| p[12..16].copy_from_slice(&ONE.octets()))), (Reason::SourceTranslated, None));
    assert_eq!(says(&back(&|p| p[12] = 10)), (Reason::SourceReserved, None));
    assert_eq!(says(&back(&|p| (p[9], p[20]) = (1, 5))), (Reason::IcmpUntranslatable, None));
    assert_eq!(says(&back(&|p| (p[9], p[20], p[6]) = (1, 8, 0x20))), (Reason::Fragment, None));
    assert_eq!(says(&back(&|p| (p[6], p[26], p[27]) = (0x20, 0, 0))), (Reason::ChecksumMissing, None));
    let route = |p: &mut Vec<u8>| {
        p.splice(20..20, [131, 7, 4, 10, 0, 0, 1, 0]);
        (p[0], p[3]) = (0x47, p[3] + 8);
    };
    assert_eq!(says(&back(&route)), (Reason::SourceRouted, Some((3, 5))));
    let mut damaged = udp_v4(PEER, FIXED, (53, 5000), b"ho");
    damaged[10] ^= 1;
    assert_eq!(says(&damaged), (Reason::BadChecksum, None));
    // An incomplete source route: the error points to its header.
    let routing = [&[17, 0, 0, 1, 0, 0, 0, 0][..], &udp_v6(HOST, behind(PEER), (1, 2), b"")[40..]].concat();
    assert_eq!(says(&v6(HOST, behind(PEER), 43, 64, &routing)), (Reason::SourceRouted, Some((4, 0))));
    // A TCP connection that began earlier, and an answer from a peer that the host has not sent to.
    let mut ack = Vec::new();
    let builder = PacketBuilder::ipv6(HOST.octets(), behind(PEER).octets(), 64).tcp(7, 8, 9, 10).ack(11);
    builder.write(&mut ack, &[]).unwrap();
    assert_eq!(says(&ack), (Reason::StartMissing, None));
    assert_eq!(process(&mut *nat, &mut raw(&there(&|_| ())), &Context::default()).0, Verdict::Forward);
    let mut says = |packet: &[u8]| refused(&mut *nat, packet).0;
    assert_eq!(says(&udp_v4(Ipv4Addr::new(198, 51, 100, 8), ONE, (53, 5000), b"")), Reason::SenderUnknown);
}

/// Packets to the address of another IPv6 host reach that host in IPv6, one hop older; errors about them find
/// the way back.
#[test]
fn hairpins() {
    let mut nat = service(SPEC);
    let made = translated(&mut *nat, &udp_v6(HOST, behind(FIXED), (5000, 53), b"hi"));
    let mut expected = udp_v6(behind(ONE), OTHER_HOST, (5000, 53), b"hi");
    expected[7] = 63;
    assert_eq!(made, expected);
    let mut message = [&[1, 4, 0, 0, 0, 0, 0, 0], &made[..]].concat();
    let length = message.len();
    fill(&mut message, 0, 2, &pseudo_v6(OTHER_HOST, behind(ONE), 58, length));
    let told = translated(&mut *nat, &v6(OTHER_HOST, behind(ONE), 58, 64, &message));
    let mut quote = udp_v6(HOST, behind(FIXED), (5000, 53), b"hi");
    quote[7] = 63;
    let mut message = [&[1, 4, 0, 0, 0, 0, 0, 0], &quote[..]].concat();
    fill(&mut message, 0, 2, &pseudo_v6(behind(FIXED), HOST, 58, length));
    assert_eq!(told, v6(behind(FIXED), HOST, 58, 63, &message));
    assert_eq!(count(&*nat, "hairpinned"), 2);
}

/// Fragments keep their offsets. Later ones need the first, and no others.
#[test]
fn fragments() {
    let mut nat = service(SPEC);
    let whole = udp_v6(HOST, behind(PEER), (5000, 53), &[7; 24]);
    let fragment = |from: usize, to: usize, more: u8| {
        let header = [17, 0, 0, from as u8 | more, 0xab, 0xcd, 0x12, 0x34];
        v6(HOST, behind(PEER), 44, 64, &[&header[..], &whole[40 + from..40 + to]].concat())
    };
    assert_eq!(refused(&mut *nat, &fragment(16, 32, 0)), (DropReason::StartMissing, None));
    let first = translated(&mut *nat, &fragment(0, 16, 1));
    assert_eq!((&first[4..8], first.len()), (&[0x12, 0x34, 0x20, 0][..], 36));
    let second = translated(&mut *nat, &fragment(16, 32, 0));
    assert_eq!(second, v4(ONE, PEER, 17, 63, [0x12, 0x34, 0, 2], &[7; 16]));
    // Reassembled, they equal the whole packet, with its checksum.
    let mut together = v4(ONE, PEER, 17, 63, [0; 4], &[&first[20..], &second[20..]].concat());
    check(&raw(&together));
    // And back: the same fragments of the peer's packet, with a fragment header.
    together = udp_v4(PEER, ONE, (53, 5000), &[9; 24]);
    let piece = |from: usize, to: usize, flags: u8| {
        v4(PEER, ONE, 17, 64, [0x12, 0x34, flags, from as u8 / 8], &together[20 + from..20 + to])
    };
    assert_eq!(refused(&mut *nat, &piece(16, 32, 0)), (DropReason::StartMissing, None));
    let first = translated(&mut *nat, &piece(0, 16, 0x20));
    assert_eq!(first[40..48], [17, 0, 0, 1, 0, 0, 0x12, 0x34]);
    let second = translated(&mut *nat, &piece(16, 32, 0));
    assert_eq!(second[40..48], [17, 0, 0, 16, 0, 0, 0x12, 0x34]);
    let together = v6(behind(PEER), HOST, 17, 63, &[&first[48..], &second[48..]].concat());
    check(&raw(&together));
}

/// Packets that may be fragmented are, so that they fit every IPv6 link; the others are reported.
#[test]
fn long_packets() {
    let mut nat = service(SPEC);
    let mut sent = udp_v4(PEER, FIXED, (53, 5000), &[9; 4000]);
    let (reason, error) = refused(&mut *nat, &sent);
    let error = error.unwrap();
    assert_eq!((reason, &error[20..22], &error[24..28]), (DropReason::TooBig, &[3, 4][..], &[0, 0, 5, 200][..]));
    sent[6] = 0;
    fill(&mut sent[..20], 0, 10, &[]);
    let mut frame = raw(&sent);
    let mut generated = Generated::default();
    assert_eq!(nat.process(&mut frame, &Context::default(), &mut generated), Verdict::Forward);
    let pieces: Vec<&Frame> = [&frame].into_iter().chain(generated.frames()).collect();
    let mut payload = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        check(piece);
        assert!(piece.data.len() <= 1280);
        let place = (payload.len() as u16) | u16::from(number + 1 < pieces.len());
        assert_eq!(piece.data[42..44], place.to_be_bytes());
        payload.extend_from_slice(&piece.data[48..]);
    }
    assert_eq!((pieces.len(), payload.len()), (4, 4008));
    check(&raw(&v6(behind(PEER), OTHER_HOST, 17, 63, &payload)));
    // Without room for the fragments, the packet is dropped.
    let verdict = nat.process(&mut raw(&sent), &Context::default(), &mut Generated::new(2, 0));
    assert_eq!(verdict, Verdict::Drop(DropReason::TooLong));
    let (reason, error) = refused(&mut *nat, &udp_v6(HOST, behind(PEER), (1, 2), &[7; 1473]));
    let error = error.unwrap();
    assert_eq!((reason, &error[40..42], &error[44..48]), (DropReason::TooBig, &[2, 0][..], &[0, 0, 5, 220][..]));
}

/// A UDP packet may lack its checksum in IPv4, but not in IPv6.
#[test]
fn a_missing_udp_checksum_is_made() {
    let mut nat = service(SPEC);
    let mut sent = udp_v4(PEER, FIXED, (53, 5000), b"odd");
    sent[26..28].fill(0);
    let made = translated(&mut *nat, &sent);
    let mut expected = udp_v6(behind(PEER), OTHER_HOST, (53, 5000), b"odd");
    expected[7] = 63;
    assert_eq!(made, expected);
    let mut cut = raw(&sent);
    cut.data.truncate(29);
    assert_eq!(process(&mut *nat, &mut cut, &Context::default()).0, Verdict::Drop(DropReason::Incomplete));
}

/// Options and completed routes are removed; the rest is kept.
#[test]
fn extension_headers_are_skipped() {
    let mut nat = service(SPEC);
    let plain = udp_v6(HOST, behind(PEER), (5000, 53), b"hi");
    let headers = [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[43, 0, 1, 4, 0, 0, 0, 0], &[17, 0, 0, 0, 0, 0, 0, 0]].concat();
    let made = translated(&mut *nat, &v6(HOST, behind(PEER), 0, 64, &[&headers, &plain[40..]].concat()));
    let expected = translated(&mut *nat, &plain);
    // Except for the identification, which is always different.
    assert_eq!((&made[..4], &made[12..]), (&expected[..4], &expected[12..]));
}

/// All workers share one table: a binding of one is valid for another.
#[test]
fn workers_share_their_table() {
    let factory = humpyard_services::prepare(&SPEC.parse().unwrap()).unwrap();
    let (mut one, mut other) = (factory.make(), factory.make());
    translated(&mut *one, &udp_v6(HOST, behind(PEER), (5000, 53), b"hi"));
    translated(&mut *other, &udp_v4(PEER, ONE, (53, 5000), b"ho"));
    assert_eq!((count(&*one, "bindings"), count(&*other, "bindings")), (1, 0));
    // Until its timeout.
    let late = Context { now: Time::from_ns(300_000_000_000), ..Context::default() };
    let verdict = process(&mut *other, &mut raw(&udp_v4(PEER, ONE, (53, 5000), b"ho")), &late).0;
    assert_eq!(verdict, Verdict::Drop(DropReason::NoBinding));
}

/// Returns a packet with its ends exchanged; the checksums stay correct.
fn answer(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let is_v4 = packet[0] >> 4 == 4;
    let (start, protocol, addresses) = if is_v4 { (20, packet[9], 12..20) } else { (40, packet[6], 8..40) };
    let half = addresses.len() / 2;
    packet[addresses].rotate_left(half);
    match protocol {
        6 | 17 => packet[start..start + 4].rotate_left(2),
        // Changes a request to its reply.
        _ => {
            let change = if is_v4 { (8, 0) } else { (128, 129) };
            assert_eq!(packet[start], change.0);
            packet[start] = change.1;
            let pseudo =
                if is_v4 { Vec::new() } else { [&packet[8..40], &[0, 0], &packet[4..6], &[0, 0, 0, 58]].concat() };
            fill(&mut packet, start, 2, &pseudo);
        }
    }
    packet
}

/// Returns the expected packet after two translators, from an IPv4 packet. It is unchanged except for two hops,
/// options, and, in unfragmented packets, the identification and DF, which depends on the length.
fn there_and_back(packet: &[u8]) -> Vec<u8> {
    let mut expected = packet.to_vec();
    let options = usize::from(packet[0] & 15) * 4;
    expected.drain(20..options);
    expected[0] = 0x45;
    let length = expected.len();
    expected[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    expected[8] -= 2;
    if expected[6] & 0x3f == 0 && expected[7] == 0 {
        expected[4..6].fill(0);
        expected[6] = if length > 1260 { 0x40 } else { 0 };
    } else {
        expected[6] &= 0x3f;
    }
    expected
}

/// Returns two translators, of which the second undoes the work of the first: 2001:db8:64::/96 is the second's
/// prefix, and contains the first's hosts.
fn pair(hosts: &BTreeSet<Ipv4Addr>, peers: &BTreeSet<Ipv4Addr>) -> [Box<dyn Service>; 2] {
    let host = |v4: &Ipv4Addr| Ipv6Addr::from_bits(0x2001_0db8_0064 << 80 | u128::from(v4.to_bits()));
    let list = |pairs: Vec<String>| if pairs.is_empty() { "none".to_owned() } else { pairs.join(";") };
    let hosts = list(hosts.iter().map(|v4| format!("{v4}={}", host(v4))).collect());
    let peers = list(peers.iter().map(|v4| format!("{v4}={}", behind(*v4))).collect());
    // The pools have unused addresses.
    let rest = "pool=203.0.113.254/32,mtu=65535,fragment-above=65535,sessions=16,fragments=4";
    let specs = [format!("nat64:map={hosts},{rest}"), format!("nat64:prefix=2001:db8:64::/96,map={peers},{rest}")];
    specs.map(|spec| service(&spec))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// An answer reaches the requesting host, with the ports and addresses that it sent to.
    #[test]
    fn an_answer_comes_back(kind in 0u8..3, ports: (u16, u16), payload in proptest::collection::vec(any::<u8>(), 0..1400)) {
        let mut nat = service("nat64");
        let mut sent = Vec::new();
        let builder = PacketBuilder::ipv6(HOST.octets(), behind(PEER).octets(), 64);
        match kind {
            0 => builder.udp(ports.0, ports.1).write(&mut sent, &payload).unwrap(),
            1 => builder.tcp(ports.0, ports.1, 1, 2).syn().write(&mut sent, &payload).unwrap(),
            _ => builder.icmpv6_echo_request(ports.0, ports.1).write(&mut sent, &payload).unwrap(),
        }
        let made = translated(&mut *nat, &sent);
        let mut expected = answer(&sent);
        expected[7] = 62;
        // The mapped port may differ from the host's: 0 is not a usable port.
        prop_assert_eq!(translated(&mut *nat, &answer(&made)), expected);
    }

    /// No frame causes a panic or is lost, and a valid packet that is forwarded has correct checksums
    /// afterwards.
    #[test]
    fn anything_is_taken(frames in proptest::collection::vec(arbitrary_frame(), 1..20)) {
        // All packets of the tests are translated: their addresses have a fixed mapping, or the prefix.
        let spec = "nat64:prefix=2001:db8::/96,map=203.0.113.9=2001:db9::9,router-v6=2001:db7::1,icmp-interval=0";
        for spec in [spec, "nat64", "nat64:map=203.0.113.9=2001:db9::7,prefix=2001:db8:0:0::/64,router-v6=2001:db7::1"] {
            let mut nat = service(spec);
            for frame in &frames {
                let mut after = frame.clone();
                let (verdict, generated) = process(&mut *nat, &mut after, &Context::default());
                prop_assert!(verdict != Verdict::Consume);
                if verdict == Verdict::Forward && after.data.len() == after.wire_length as usize {
                    let at = Network::find(frame).unwrap().offset;
                    if sum_of_content(&frame.data[at..]).is_some_and(|(_, sum)| sum == 0xffff) {
                        check(&after);
                    }
                }
                generated.iter().for_each(check);
            }
        }
    }

    /// The same for more realistic packets: fragments, errors and options, with some damage.
    #[test]
    fn what_is_almost_right_is_taken(
        packets in proptest::collection::vec(
            (0u8..6, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..120), any::<u16>(), any::<u8>()),
            1..30,
        ),
    ) {
        let mut nat = service("nat64:pool=192.0.2.64/32,map=192.0.2.9=2001:db8::22,ports=1-65535");
        for (kind, from_v6, payload, at, value) in packets {
            let inner = if from_v6 { udp_v6(behind(PEER), HOST, (53, 5000), &payload) } else { udp_v4(ONE, PEER, (5000, 53), &payload) };
            let error = [&[1, value % 5, 0, 0, 0, 0, 0, 0][..], &inner].concat();
            let (number, content): (u8, &[u8]) = match kind {
                0 => (17, &payload),
                1 => (6, &payload),
                2 => (if from_v6 { 58 } else { 1 }, &payload),
                3 => (44, &payload),
                4 => (0, &payload),
                _ => (if from_v6 { 58 } else { 1 }, &error),
            };
            let mut packet = if from_v6 {
                v6(HOST, behind(PEER), number, 64, content)
            } else {
                v4(PEER, if value & 1 == 0 { ONE } else { FIXED }, number, 64, [value, 1, value, 0], content)
            };
            let place = usize::from(at) % packet.len();
            packet[place] = value;
            if packet[0] == 0x45 {
                fill(&mut packet[..20], 0, 10, &[]);
            }
            let mut frame = raw(&packet);
            let mut generated = Generated::default();
            let verdict = nat.process(&mut frame, &Context::default(), &mut generated);
            if verdict == Verdict::Forward {
                prop_assert!(IpSlice::from_slice(&frame.data).is_ok() || IpSlice::from_slice(&packet).is_err());
                prop_assert_eq!(frame.wire_length as usize, frame.data.len());
            }
            generated.frames().iter().filter(|_| verdict != Verdict::Forward).for_each(check);
        }
    }
}

/// Returns the complete packets of real captures that have an IPv4 header and a single host as destination.
/// Other tests cover packets that are cut off or multicast.
fn real_packets(directory: &std::path::Path) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for file in CAPTURES {
        let mut taken = 0;
        each_frame(&directory.join(file), |frame, _| {
            let Ok(network) = Network::find(frame) else { return };
            let packet = &frame.data[network.offset..];
            if taken == PACKETS_OF_EACH || network.group || packet[0] >> 4 != 4 || packet.len() < 20 {
                return;
            }
            let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let header = usize::from(packet[0] & 15) * 4;
            if packet.len() < length
                || length < header
                || header < 20
                || !checksum::is_valid(&packet[..header])
                || packet[8] < 3
            {
                return;
            }
            let (source, destination) = addresses(packet);
            if source == destination || ![source, destination].into_iter().all(is_of_a_host) {
                return;
            }
            taken += 1;
            packets.push(packet[..length].to_vec());
        });
    }
    packets
}

const CAPTURES: [&str; 8] = [
    "attacks/amp.TCP.reflection.SYNACK.pcap",
    "attacks/amp.dns.RRSIG.fragmented.pcap",
    "attacks/pkt.TCP.synflood.spoofed.pcap",
    "industrial/right.pcap",
    "protocols/synscan.pcap",
    "protocols/wa_voice.pcap",
    "devices/D-LinkHomeHub-Setup-A-1-STA.pcap",
    "devices/Aria-Setup-A-1-STA.pcap",
];
const PACKETS_OF_EACH: usize = 1000;

fn addresses(packet: &[u8]) -> (Ipv4Addr, Ipv4Addr) {
    let at = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
    (at(12), at(16))
}

/// Returns whether an address may be translated: a host's address, which routers forward.
fn is_of_a_host(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    first > 0 && first < 224 && !address.is_loopback() && !address.is_link_local()
}

/// Returns real packets after the first of two translators, and then after the second.
fn translate_real(
    packets: &[Vec<u8>],
    mut visit: impl FnMut(&[u8], &[u8], &[u8]),
) -> (usize, BTreeMap<DropReason, usize>) {
    let (mut done, mut dropped) = (0, BTreeMap::new());
    // A translator pair for each packet's own two addresses: an address is mapped to a host in only one
    // direction.
    for packet in packets {
        let (source, destination) = addresses(packet);
        let mut translators = pair(&[destination].into(), &[source].into());
        let mut frame = raw(packet);
        let mut generated = Generated::default();
        match translators[0].process(&mut frame, &Context::default(), &mut generated) {
            Verdict::Forward => {
                let between = frame.data.clone();
                let verdict = translators[1].process(&mut frame, &Context::default(), &mut generated);
                assert_eq!(verdict, Verdict::Forward, "{packet:02x?}");
                visit(packet, &between, &frame.data);
                done += 1;
            }
            Verdict::Drop(reason) => *dropped.entry(reason).or_default() += 1,
            Verdict::Consume => panic!("it keeps nothing"),
        }
    }
    (done, dropped)
}

#[test]
fn real_packets_come_back_as_they_were() {
    let Some(directory) = captures("real_packets_come_back_as_they_were") else { return };
    let packets = real_packets(&directory);
    let (done, dropped) = translate_real(&packets, |before, _, after| {
        let mut expected = there_and_back(before);
        let mut after = after.to_vec();
        if expected[6] & 0x3f == 0 && expected[7] == 0 {
            after[4..6].fill(0);
        }
        // A missing checksum was filled in.
        let is_udp = expected[9] == 17 && expected[6] & 0x1f == 0 && expected[7] == 0;
        if is_udp && expected[26..28] == [0, 0] {
            after[26..28].fill(0);
        }
        fill(&mut expected[..20], 0, 10, &[]);
        fill(&mut after[..20], 0, 10, &[]);
        // A quoted header changes like the header of a packet.
        if expected[9] != 1 || matches!(expected[20], 0 | 8) {
            assert_eq!(after, expected, "{before:02x?}");
        }
    });
    eprintln!("{} packets: {done} there and back, {dropped:?}", packets.len());
    assert!(done > packets.len() / 2 && packets.len() > 4000);
}

/// Compares with another translation by the RFCs: scapy reads the packet, builds the IPv6 packet and the IPv4
/// packet again, and computes all checksums.
#[test]
fn real_packets_are_what_scapy_makes_of_them() {
    let Some(directory) = captures("real_packets_are_what_scapy_makes_of_them") else { return };
    // Prefers Debian's Python to another one on the path.
    let has_scapy = |python: &&str| {
        let status = Command::new(python).args(["-c", "import scapy.all"]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let Some(python) = ["/usr/bin/python3", "python3"].into_iter().find(has_scapy) else {
        eprintln!(
            "SKIPPED real_packets_are_what_scapy_makes_of_them: there is no scapy; scripts/prerequisites scapy installs it"
        );
        return;
    };
    let mut lines = String::new();
    let (done, dropped) = translate_real(&real_packets(&directory), |before, between, after| {
        writeln!(lines, "{} {} {}", hex(before), hex(between), hex(after)).unwrap();
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/nat64_expected.py");
    let mut python = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    eprintln!("{done} packets, {dropped:?}: {said}");
    assert!(output.status.success(), "{said}");
}

/// Returns an unfragmented IPv4 packet between other addresses; its payload's sum stays as right or wrong as it
/// was.
fn readdressed(packet: &[u8], source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let header = usize::from(packet[0] & 15) * 4;
    let ends = [source.octets(), destination.octets()].concat();
    let (old, new) = (checksum::Sum::default().with(&packet[12..20]), checksum::Sum::default().with(&ends));
    let at = match packet[9] {
        6 => header + 16,
        17 => header + 6,
        _ => packet.len(),
    };
    if let Some(field) = packet.get_mut(at..at + 2) {
        let sum = checksum::update(u16::from_be_bytes([field[0], field[1]]), old.fold(), new.fold());
        field.copy_from_slice(&sum.to_be_bytes());
    }
    packet[12..20].copy_from_slice(&ends);
    fill(&mut packet[..header], 0, 10, &[]);
    packet
}

/// Returns tayga's output for packets, `None` for each without output. `None` as a whole: tayga cannot run
/// here.
fn tayga(packets: &[Vec<u8>]) -> Option<Vec<Option<Vec<u8>>>> {
    let able = Command::new("unshare").args(["--net", "sh", "-c", "command -v tayga && test -c /dev/net/tun"]).output();
    if !able.is_ok_and(|output| output.status.success()) {
        let required = std::env::var("HUMPYARD_REQUIRE_NETNS").as_deref() == Ok("1");
        assert!(!required, "no tayga, or no network namespaces");
        eprintln!("SKIPPED: no tayga (scripts/prerequisites network), or this machine makes no network namespaces");
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/nat64_tayga.py");
    let lines = [
        "ipv4-addr 203.0.113.254",
        "ipv6-addr 2001:db8:ffff::1",
        "prefix 2001:db8:ff::/96",
        "map 192.0.2.9 2001:db8::22",
    ];
    let mut command = Command::new("unshare");
    command.args(["--net", "python3", script]).args(lines).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let text: String = packets.iter().map(|packet| hex(packet) + "\n").collect();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let answers = String::from_utf8_lossy(&output.stdout);
    Some(answers.lines().map(|line| Some(bytes(line)).filter(|_| line != "-")).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Compares with tayga, a stateless translator: real packets between two hosts, and errors.
///
/// Where RFC 7915 gives a choice, both outputs are normalized before the comparison. For unfragmented packets,
/// tayga sets DF and identification 0, as RFC 6145 allowed; we allow fragmentation of packets up to 1,260
/// bytes.
#[test]
fn packets_are_what_tayga_makes_of_them() {
    let Some(directory) = captures("packets_are_what_tayga_makes_of_them") else { return };
    let mut nat = service("nat64:prefix=2001:db8:ff::/96,map=192.0.2.9=2001:db8::22,icmp-interval=0");
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for packet in real_packets(&directory).iter().step_by(20) {
        let is_whole = packet[6] & 0x3f == 0 && packet[7] == 0;
        if !is_whole || packet[8] < 4 || packet.len() > 1400 || packet[0] != 0x45 {
            continue;
        }
        // Forward: as from an IPv4 host. Back: as the IPv6 host would have sent.
        let there = readdressed(packet, PEER, FIXED);
        let mut frame = raw(&there);
        if process(&mut *nat, &mut frame, &Context::default()).0 != Verdict::Forward {
            continue;
        }
        let mut back = frame.data;
        back[8..40].rotate_left(16);
        sent.extend([there, back]);
    }
    let answers_to = |message: &[u8], quote: &[u8]| [message, quote].concat();
    let quote = udp_v4(FIXED, PEER, (5000, 53), b"quoted");
    for (icmp_type, code, word) in
        [(3, 0, 0), (3, 1, 0), (3, 3, 0), (3, 13, 0), (11, 0, 0), (3, 4, 1400_u32), (12, 0, 8 << 24)]
    {
        let mut message = answers_to(&[&[icmp_type, code, 0, 0][..], &u32::to_be_bytes(word)].concat(), &quote);
        fill(&mut message, 0, 2, &[]);
        sent.push(v4(Ipv4Addr::new(203, 0, 113, 1), FIXED, 1, 60, [0, 0, 0x40, 0], &message));
    }
    let Some(theirs) = tayga(&sent) else { return };
    assert_eq!(theirs.len(), sent.len());
    let (mut alike, mut silent) = (0, 0);
    for (packet, theirs) in sent.iter().zip(theirs) {
        let Some(mut theirs) = theirs else {
            silent += 1;
            continue;
        };
        // A checksum that was wrong in the capture stays wrong.
        let mut frame = raw(packet);
        assert_eq!(process(&mut *nat, &mut frame, &Context::default()).0, Verdict::Forward);
        let mut ours = frame.data;
        for made in [&mut ours, &mut theirs] {
            if made[0] >> 4 == 4 {
                made[4..8].fill(0);
                fill(&mut made[..20], 0, 10, &[]);
            }
        }
        assert_eq!(hex(&ours), hex(&theirs), "of {}", hex(packet));
        alike += 1;
    }
    eprintln!("{alike} packets alike, {silent} that tayga says nothing to");
    assert!(alike > sent.len() * 9 / 10 && alike > 200);
}
