//! Tests forwarding as a user sees it: packets in, packets and verdicts out.

use etherparse::{Icmpv4Slice, Icmpv6Slice, Ipv4Slice, Ipv6Slice, PacketBuilder};
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;
use humpyard_services::forward::{Checksum, Forward, ForwardParams, LinkMtu, Routes};
use humpyard_services::{Build, Context, DropReason, Generated, Service, Verdict, checksum, prepare};
use proptest::prelude::*;

const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const V4: [[u8; 4]; 2] = [[198, 51, 100, 7], [203, 0, 113, 9]];

fn v6(last: u8) -> [u8; 16] {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    address[15] = last;
    address
}

/// An IPv4 packet with UDP in it.
fn udp_v4(ttl: u8, payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4(V4[0], V4[1], ttl).udp(5000, 6000).write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

/// An IPv6 packet with UDP in it.
fn udp_v6(hop_limit: u8, payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv6(v6(7), v6(9), hop_limit).udp(5000, 6000);
    builder.write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

/// Returns every kind of link header, each with the start of an answer to it.
fn links(is_v6: bool) -> Vec<(LinkType, Vec<u8>, Vec<u8>)> {
    let ethertype = if is_v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    let ethernet = |tags: &[u8]| {
        let header = |to: [u8; 6], from: [u8; 6]| [&to[..], &from, tags, &ethertype].concat();
        (LinkType::Ethernet, header(ROUTER, SENDER), header(SENDER, ROUTER))
    };
    let cooked = |kind: u8, mac: [u8; 6]| [&[0, kind, 0, 1, 0, 6][..], &mac, &[0, 0], &ethertype].concat();
    let cooked_2 =
        |kind: u8, mac: [u8; 6]| [&ethertype[..], &[0, 0, 0, 0, 0, 3, 0, 1, kind, 6], &mac, &[0, 0]].concat();
    let family = if is_v6 { [30, 0, 0, 0] } else { [2, 0, 0, 0] };
    vec![
        ethernet(&[]),
        ethernet(&[0x81, 0, 0, 5]),
        ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]),
        (LinkType::LinuxCooked, cooked(0, SENDER), cooked(4, ROUTER)),
        (LinkType::LinuxCooked2, cooked_2(0, SENDER), cooked_2(4, ROUTER)),
        (LinkType::RawIp, vec![], vec![]),
        (LinkType::Loopback, family.to_vec(), family.to_vec()),
    ]
}

fn frame(link: LinkType, header: &[u8], packet: &[u8]) -> Frame {
    let data = [header, packet].concat();
    Frame { time: Time::from_ns(77), wire_length: data.len() as u32, link, data, ..Frame::default() }
}

fn raw(packet: &[u8]) -> Frame {
    frame(LinkType::RawIp, &[], packet)
}

fn router(routes: &str) -> Forward {
    let params = ForwardParams { routes: Routes(routes.into()), icmp_interval: 0, ..ForwardParams::default() };
    Forward::new(&params).unwrap()
}

const OUT: &str = "0.0.0.0/0=out;::/0=out";

/// Returns the verdict on one frame, and the frames generated for it.
fn process(forward: &mut Forward, frame: &mut Frame) -> (Verdict, Vec<Frame>) {
    let mut generated = Generated::default();
    let verdict = forward.process(frame, &Context::default(), &mut generated);
    (verdict, generated.frames().to_vec())
}

/// Writes the correct checksum into the IPv4 header at the start of `packet`.
fn resum(packet: &mut [u8]) {
    let length = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = checksum::checksum(&packet[..length]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn only_the_time_to_live_and_the_checksum_change() {
    let mut forward = router(OUT);
    for is_v6 in [false, true] {
        for (link, header, _) in links(is_v6) {
            let packet = if is_v6 { udp_v6(64, 100) } else { udp_v4(64, 100) };
            let mut frame = frame(link, &header, &packet);
            let mut expected = frame.clone();
            let packet = &mut expected.data[header.len()..];
            if is_v6 {
                packet[7] = 63;
            } else {
                packet[8] = 63;
                resum(packet);
            }
            assert_eq!(process(&mut forward, &mut frame), (Verdict::Forward, vec![]));
            assert_eq!(frame, expected, "{link:?}");
        }
    }
}

#[test]
fn a_station_gets_the_frame_from_the_router() {
    let mut forward = router("0.0.0.0/0=02:00:00:00:00:99");
    for (link, header, _) in links(false) {
        let mut frame = frame(link, &header, &udp_v4(64, 100));
        let mut expected = header.clone();
        if link == LinkType::Ethernet {
            expected[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 1]);
        }
        assert_eq!(process(&mut forward, &mut frame).0, Verdict::Forward);
        assert_eq!(frame.data[..header.len()], expected, "{link:?}");
    }
}

#[test]
fn routes_decide() {
    let verdict = |routes: &str, packet: &[u8]| {
        let (verdict, generated) = process(&mut router(routes), &mut raw(packet));
        (verdict, generated.len())
    };
    for packet in [udp_v4(64, 0), udp_v6(64, 0)] {
        assert_eq!(verdict("0.0.0.0/0=local;::/0=local", &packet), (Verdict::Consume, 0));
        let discard = "0.0.0.0/0=discard;::/0=discard";
        assert_eq!(verdict(discard, &packet), (Verdict::Drop(DropReason::RouteDiscard), 0));
        let unreachable = "0.0.0.0/0=unreachable;::/0=unreachable";
        assert_eq!(verdict(unreachable, &packet), (Verdict::Drop(DropReason::RouteUnreachable), 1));
        assert_eq!(verdict("", &packet), (Verdict::Drop(DropReason::NoRoute), 1));
    }
    // A packet for the router itself may have a time to live of 0.
    assert_eq!(verdict("0.0.0.0/0=local", &udp_v4(0, 0)), (Verdict::Consume, 0));
    let mut packet = udp_v4(1, 0);
    packet[16..20].copy_from_slice(&[192, 0, 2, 1]);
    resum(&mut packet);
    assert_eq!(verdict(OUT, &packet), (Verdict::Consume, 0));
}

#[test]
fn frames_for_a_group_are_not_forwarded() {
    for first in [0x01, 0xff] {
        let (link, mut header, _) = links(false).swap_remove(0);
        header[0] = first;
        let mut frame = frame(link, &header, &udp_v4(1, 0));
        assert_eq!(process(&mut router(OUT), &mut frame), (Verdict::Drop(DropReason::LinkGroup), vec![]));
    }
}

#[test]
fn a_capture_that_cut_the_packet_short_is_no_fault() {
    let mut frame = raw(&udp_v4(64, 1000));
    frame.data.truncate(60);
    assert_eq!(process(&mut router(OUT), &mut frame).0, Verdict::Forward);
    frame.wire_length = 60;
    assert_eq!(process(&mut router(OUT), &mut frame).0, Verdict::Drop(DropReason::BadTotalLength));
}

/// For every link, in the forwarded packet and in the quote of an error.
#[test]
fn a_checksum_left_zero_is_filled_in_where_asked_for() {
    let params = ForwardParams { checksum: Checksum::Fill, ..ForwardParams::default() };
    let mut forward = Forward::new(&params).unwrap();
    for (link, header, answer) in links(false) {
        let given = |ttl: u8, sum: &[u8]| {
            let mut packet = udp_v4(ttl, 100);
            packet[10..12].copy_from_slice(sum);
            frame(link, &header, &packet)
        };
        let mut zero = given(64, &[0, 0]);
        assert_eq!(process(&mut router(OUT), &mut zero.clone()).0, Verdict::Drop(DropReason::BadChecksum));
        assert_eq!(process(&mut forward, &mut zero), (Verdict::Forward, vec![]));
        assert_eq!(zero, frame(link, &header, &udp_v4(63, 100)));
        assert_eq!(process(&mut forward, &mut given(64, &[0, 1])).0, Verdict::Drop(DropReason::BadChecksum));
        let (verdict, generated) = process(&mut forward, &mut given(1, &[0, 0]));
        assert_eq!(verdict, Verdict::Drop(DropReason::TtlExpired));
        check_v4(&generated[0].data[answer.len()..], (11, 0), &udp_v4(1, 100));
    }
}

#[test]
fn icmp_errors_parse_and_their_checksums_are_right() {
    let cases = [
        (OUT, 1, DropReason::TtlExpired, (11, 0)),
        (OUT, 0, DropReason::TtlExpired, (11, 0)),
        ("", 64, DropReason::NoRoute, (3, 0)),
        ("0.0.0.0/0=unreachable", 64, DropReason::RouteUnreachable, (3, 1)),
    ];
    for (routes, ttl, reason, kind) in cases {
        for (link, header, answer) in links(false) {
            for payload in [0, 18, 520, 521, 1400] {
                let packet = udp_v4(ttl, payload);
                let mut frame = frame(link, &header, &packet);
                frame.data.extend([0; 6]); // Padding is not quoted.
                let (verdict, generated) = process(&mut router(routes), &mut frame);
                assert_eq!(verdict, Verdict::Drop(reason));
                let [error] = &generated[..] else { panic!("{} errors", generated.len()) };
                assert_eq!((error.link, error.time), (link, frame.time));
                assert_eq!(error.wire_length as usize, error.data.len());
                let (error_header, error) = error.data.split_at(answer.len());
                assert_eq!(error_header, answer);
                check_v4(error, kind, &packet);
            }
        }
    }
}

/// Checks an ICMP error about `packet`.
fn check_v4(error: &[u8], kind: (u8, u8), packet: &[u8]) {
    let ip = Ipv4Slice::from_slice(error).unwrap();
    let header = ip.header();
    assert_eq!(usize::from(header.total_len()), error.len());
    assert_eq!((header.source(), header.destination()), ([192, 0, 2, 1], V4[0]));
    assert_eq!(header.to_header().calc_header_checksum(), header.header_checksum());
    let icmp = Icmpv4Slice::from_slice(ip.payload().payload).unwrap();
    assert_eq!((icmp.type_u8(), icmp.code_u8()), kind);
    assert_eq!(icmp.header().icmp_type.calc_checksum(icmp.payload()), icmp.checksum());
    assert_eq!(icmp.payload(), &packet[..packet.len().min(576 - 28)]);
}

#[test]
fn icmpv6_errors_parse_and_their_checksums_are_right() {
    let cases = [
        (OUT, 1, DropReason::TtlExpired, (3, 0)),
        (OUT, 0, DropReason::TtlExpired, (3, 0)),
        ("", 64, DropReason::NoRoute, (1, 0)),
        ("::/0=unreachable", 64, DropReason::RouteUnreachable, (1, 3)),
    ];
    for (routes, hop_limit, reason, kind) in cases {
        for (link, header, answer) in links(true) {
            for payload in [0, 11, 1184, 1185, 1400] {
                let packet = udp_v6(hop_limit, payload);
                let mut frame = frame(link, &header, &packet);
                let (verdict, generated) = process(&mut router(routes), &mut frame);
                assert_eq!(verdict, Verdict::Drop(reason));
                let [error] = &generated[..] else { panic!("{} errors", generated.len()) };
                let (error_header, error) = error.data.split_at(answer.len());
                assert_eq!(error_header, answer);
                check_v6(error, kind, &packet);
            }
        }
    }
}

/// Checks an ICMPv6 error about `packet`.
fn check_v6(error: &[u8], kind: (u8, u8), packet: &[u8]) {
    let ip = Ipv6Slice::from_slice(error).unwrap();
    let header = ip.header();
    assert_eq!(usize::from(header.payload_length()) + 40, error.len());
    assert_eq!((header.source(), header.destination()), (v6(1), v6(7)));
    let icmp = Icmpv6Slice::from_slice(ip.payload().payload).unwrap();
    assert_eq!((icmp.type_u8(), icmp.code_u8()), kind);
    assert!(icmp.is_checksum_valid(header.source(), header.destination()));
    assert_eq!(icmp.payload(), &packet[..packet.len().min(1280 - 48)]);
}

/// IPv4 packets that are never reported: errors, later fragments, the router's own packets, packets cut off.
#[test]
fn some_packets_are_dropped_without_an_error() {
    let errors = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = udp_v4(1, 20);
        change(&mut packet);
        resum(&mut packet);
        let mut frame = raw(&packet);
        frame.wire_length = 48;
        let (verdict, generated) = process(&mut router(OUT), &mut frame);
        assert_eq!(verdict, Verdict::Drop(DropReason::TtlExpired));
        generated.len()
    };
    let icmp = |icmp_type: u8| {
        errors(&move |p| {
            p[9] = 1;
            p[20] = icmp_type;
        })
    };
    assert_eq!(errors(&|_| ()), 1);
    assert_eq!(errors(&|p| p[6] = 0x20), 1, "the first fragment");
    assert_eq!(errors(&|p| p[7] = 1), 0, "a later fragment");
    assert_eq!(errors(&|p| p[12..16].copy_from_slice(&[192, 0, 2, 1])), 0, "the router's own");
    assert_eq!([0, 3, 4, 5, 8, 11, 12, 13].map(icmp), [1, 0, 0, 0, 1, 0, 0, 1]);
    let cut = errors(&|p| {
        p[9] = 1;
        p.truncate(20);
    });
    assert_eq!(cut, 0, "an ICMP type that the capture cut off");
}

/// The same for IPv6, where later fragments of anything but ICMPv6 may be reported.
#[test]
fn some_ipv6_packets_are_dropped_without_an_error() {
    let errors = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = udp_v6(1, 20);
        change(&mut packet);
        let mut frame = raw(&packet);
        frame.wire_length = 68;
        let (verdict, generated) = process(&mut router(OUT), &mut frame);
        assert_eq!(verdict, Verdict::Drop(DropReason::TtlExpired));
        generated.len()
    };
    let icmp = |icmp_type: u8| {
        errors(&move |p| {
            p[6] = 58;
            p[40] = icmp_type;
        })
    };
    let fragment = |next: u8, offset: u8| {
        errors(&move |p| {
            p[6] = 44;
            p[40..48].copy_from_slice(&[next, 0, offset, 0, 0, 0, 0, 1]);
            p[48] = 128;
        })
    };
    assert_eq!(errors(&|_| ()), 1);
    assert_eq!([1, 3, 127, 128, 129, 137].map(icmp), [0, 0, 0, 1, 1, 0]);
    assert_eq!([fragment(17, 0), fragment(17, 1), fragment(58, 0), fragment(58, 1)], [1, 1, 1, 0]);
    assert_eq!(errors(&|p| p[8..24].copy_from_slice(&v6(1))), 0, "the router's own");
    let cut = errors(&|p| {
        p[6] = 0;
        p.truncate(41);
    });
    assert_eq!(cut, 0, "an extension header that the capture cut off");
}

/// Returns a router whose next link has this MTU, in bytes.
fn narrow(mtu: u16) -> Forward {
    let params = ForwardParams { mtu: LinkMtu(Some(mtu)), icmp_interval: 0, ..ForwardParams::default() };
    Forward::new(&params).unwrap()
}

/// Returns an IPv4 packet with UDP and DF, of this total length.
fn whole_v4(ttl: u8, length: usize) -> Vec<u8> {
    let mut packet = udp_v4(ttl, length - 28);
    packet[6] |= 0x40;
    resum(&mut packet);
    packet
}

#[test]
fn the_sender_of_a_packet_that_is_too_big_hears_the_mtu() {
    for (link, header, answer) in links(false) {
        for length in [1401, 1500, 9000] {
            let packet = whole_v4(64, length);
            let mut frame = frame(link, &header, &packet);
            let (verdict, generated) = process(&mut narrow(1400), &mut frame);
            assert_eq!(verdict, Verdict::Drop(DropReason::TooBig));
            let [error] = &generated[..] else { panic!("{} errors", generated.len()) };
            assert!(error.answer, "it goes back");
            assert_eq!(error.data[..answer.len()], answer);
            let error = &error.data[answer.len()..];
            check_v4(error, (3, 4), &packet);
            // RFC 1191, section 4: two bytes unused, then the MTU of the next hop.
            assert_eq!(error[24..28], [0, 0, 5, 120]);
        }
    }
    for (link, header, answer) in links(true) {
        let packet = udp_v6(64, 1401 - 48);
        let (verdict, generated) = process(&mut narrow(1400), &mut frame(link, &header, &packet));
        assert_eq!(verdict, Verdict::Drop(DropReason::TooBig));
        let [error] = &generated[..] else { panic!("{} errors", generated.len()) };
        let error = &error.data[answer.len()..];
        check_v6(error, (2, 0), &packet);
        // RFC 4443, section 3.2: the MTU has all four bytes.
        assert_eq!(error[44..48], [0, 0, 5, 120]);
    }
}

/// The whole message, byte by byte.
#[test]
fn golden_fragmentation_needed() {
    let packet = whole_v4(64, 100);
    let (_, generated) = process(&mut narrow(68), &mut raw(&packet));
    // Header: 45c0 + 0080 + 0000 + 4000 + 4001 + c000 + 0201 + c633 + 6407 = 2b27c, folded b27e, complement 4d81.
    let header = [0x45, 0xc0, 0, 128, 0, 0, 0x40, 0, 64, 1, 0x4d, 0x81, 192, 0, 2, 1, 198, 51, 100, 7];
    let sum = checksum::checksum(&[&[3, 4, 0, 0, 0, 0, 0, 68][..], &packet].concat()).to_be_bytes();
    let expected = [&header[..], &[3, 4], &sum, &[0, 0, 0, 68], &packet].concat();
    assert_eq!(generated[0].data, expected);
}

/// Packets that fit, that may be fragmented, that are not forwarded, or that get no answer.
#[test]
fn not_every_long_packet_has_an_answer() {
    let outcome = |mtu: u16, packet: &[u8]| {
        let (verdict, generated) = process(&mut narrow(mtu), &mut raw(packet));
        (verdict, generated.len())
    };
    let dropped = |reason, errors| (Verdict::Drop(reason), errors);
    assert_eq!(outcome(1400, &whole_v4(64, 1400)), (Verdict::Forward, 0));
    assert_eq!(outcome(1400, &udp_v6(64, 1400 - 48)), (Verdict::Forward, 0));
    // Padding of the link does not count.
    let mut padded = raw(&whole_v4(64, 68));
    padded.data.extend([0; 100]);
    assert_eq!(process(&mut narrow(68), &mut padded).0, Verdict::Forward);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = whole_v4(64, 100);
        change(&mut packet);
        resum(&mut packet);
        outcome(68, &packet)
    };
    assert_eq!(with(&|_| ()), dropped(DropReason::TooBig, 1));
    assert_eq!(with(&|p| p[6] = 0), dropped(DropReason::TooBig, 0), "it may be fragmented");
    assert_eq!(with(&|p| p[8] = 1), dropped(DropReason::TtlExpired, 1), "its time is up before");
    assert_eq!(with(&|p| p[16..20].copy_from_slice(&[192, 0, 2, 1])), (Verdict::Consume, 0), "for the router");
    assert_eq!(with(&|p| p[16] = 224), dropped(DropReason::DestinationMulticast, 0));
    assert_eq!(with(&|p| p[12] = 127), dropped(DropReason::SourceLoopback, 0));
    assert_eq!(with(&|p| p[7] = 1), dropped(DropReason::TooBig, 0), "a later fragment");
    let icmp = |icmp_type: u8| {
        with(&move |p| {
            p[9] = 1;
            p[20] = icmp_type;
        })
    };
    assert_eq!([3, 8].map(icmp), [dropped(DropReason::TooBig, 0), dropped(DropReason::TooBig, 1)]);
    let mut error = udp_v6(64, 1400);
    (error[6], error[40]) = (58, 1);
    assert_eq!(outcome(1400, &error), dropped(DropReason::TooBig, 0), "an error of ICMPv6");
    error[40] = 128;
    assert_eq!(outcome(1400, &error), dropped(DropReason::TooBig, 1));
}

#[test]
fn words_on_packets_that_are_too_big_are_limited_as_others() {
    let factory = prepare(&"forward:mtu=1000,icmp-interval=10,icmp-burst=5".parse().unwrap()).unwrap();
    let (mut forward, mut generated) = (factory.make(), Generated::new(100, 1600));
    for _ in 0..100 {
        let verdict = forward.process(&mut raw(&whole_v4(64, 1001)), &Context::default(), &mut generated);
        assert_eq!(verdict, Verdict::Drop(DropReason::TooBig));
    }
    assert_eq!(generated.len(), 15);
}

#[test]
fn errors_are_limited_by_packets_and_by_room() {
    let mut forward = prepare(&"forward:icmp-interval=10,icmp-burst=5".parse().unwrap()).unwrap().make();
    let mut generated = Generated::new(100, 1600);
    for _ in 0..100 {
        let verdict = forward.process(&mut raw(&udp_v4(1, 0)), &Context::default(), &mut generated);
        assert_eq!(verdict, Verdict::Drop(DropReason::TtlExpired));
    }
    // Five at first, and one more after every 10 packets.
    assert_eq!(generated.len(), 15);
    let mut none = Generated::new(0, 0);
    let verdict = router(OUT).process(&mut raw(&udp_v4(1, 0)), &Context::default(), &mut none);
    assert_eq!((verdict, none.len()), (Verdict::Drop(DropReason::TtlExpired), 0));
}

#[test]
fn workers_have_an_instance_each_and_share_the_table() {
    let factory = prepare(&"forward:routes=203.0.113.0/24=discard".parse().unwrap()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut forward = factory.make();
                let verdict = forward.process(&mut raw(&udp_v4(64, 0)), &Context::default(), &mut Generated::default());
                assert_eq!(verdict, Verdict::Drop(DropReason::RouteDiscard));
            });
        }
    });
}

/// Processes a frame, and checks invariants: only the link addresses, the time to live and the IPv4 checksum
/// change, and nothing if it is not forwarded.
fn check_any(frame: &Frame) {
    let mut after = frame.clone();
    let (verdict, generated) = process(&mut router("0.0.0.0/1=out;128.0.0.0/1=02:00:00:00:00:99;::/1=out"), &mut after);
    assert_eq!((after.data.len(), after.wire_length, after.link), (frame.data.len(), frame.wire_length, frame.link));
    let changes = frame.data.iter().zip(&after.data).skip(12).filter(|(a, b)| a != b).count();
    match verdict {
        Verdict::Forward => assert!(changes <= 3 && generated.is_empty()),
        _ => assert_eq!(frame, &after),
    }
    for error in generated {
        assert!(error.data.len() <= 20 + 4 * 4 + 1280);
    }
}

fn any_link() -> impl Strategy<Value = LinkType> {
    prop_oneof![
        Just(LinkType::Ethernet),
        Just(LinkType::LinuxCooked),
        Just(LinkType::LinuxCooked2),
        Just(LinkType::RawIp),
        Just(LinkType::Loopback),
        any::<u16>().prop_map(LinkType::Other),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(link in any_link(), data in proptest::collection::vec(any::<u8>(), 0..200), wire_length: u32) {
        check_any(&Frame { link, data, wire_length, ..Frame::default() });
    }

    /// Valid packets with some bytes changed and the end cut off: they pass more checks than random bytes.
    #[test]
    fn nearly_good_packets(
        is_v6: bool,
        which in 0usize..7,
        hops in 0u8..4,
        payload in 0usize..1500,
        changes in proptest::collection::vec((0usize..90, any::<u8>()), 0..4),
        resummed: bool,
        cut in 0usize..150,
        wire_length in 0u32..1600,
    ) {
        let (link, header, _) = links(is_v6).swap_remove(which);
        let mut packet = if is_v6 { udp_v6(hops, payload) } else { udp_v4(hops, payload) };
        for (at, byte) in changes {
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
        }
        if resummed && !is_v6 && packet.len() >= 60 {
            resum(&mut packet);
        }
        let mut frame = frame(link, &header, &packet);
        if cut < 100 {
            frame.data.truncate(cut);
            frame.wire_length = wire_length;
        }
        check_any(&frame);
    }
}
