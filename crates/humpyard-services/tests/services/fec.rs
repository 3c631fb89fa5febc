//! Forward error correction and its inverse.

use std::collections::BTreeMap;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::hash::mix;
use humpyard_core::id::FlowId;
use humpyard_core::unit::Time;
use humpyard_services::{Context, DropReason, Generated, Service, Verdict};
use proptest::prelude::*;

use crate::support::{arbitrary_frame, captures, count, each_frame, files, process, raw, service, udp};

/// Offset behind the Ethernet and the outer IPv4 header.
const FEC: usize = 14 + 20;
/// The header of a packet with its own code, in bytes.
const SINGLE: usize = 28;

fn verdict(service: &mut dyn Service, frame: &mut Frame) -> Verdict {
    process(service, frame, &Context::default()).0
}

fn protected(plain: &Frame) -> Frame {
    let mut frame = plain.clone();
    assert_eq!(verdict(&mut *service("fec"), &mut frame), Verdict::Forward);
    frame
}

/// With one part more than the data, the code is the sum of the parts: each bit of the eighth part is the
/// parity of seven.
#[test]
fn golden_parity() {
    // 28 bytes of headers and 42 of payload: seven parts of 10 bytes.
    let plain = udp((1, 2), &core::array::from_fn::<u8, 42, _>(|i| mix(i as u64) as u8));
    let frame = protected(&plain);
    let body = &frame.data[FEC + SINGLE..];
    assert_eq!(body.len(), 80);
    assert_eq!(&body[..70], &plain.data[14..]);
    let sum = |at: usize| (0..7).fold(0, |sum, part| sum ^ body[10 * part + at]);
    assert_eq!(&body[70..], (0..10).map(sum).collect::<Vec<u8>>());
}

/// As the EFQ and LAP paper states, packets get longer by 8/7, besides the headers.
#[test]
fn the_expansion_factor() {
    let fec = &mut *service("fec");
    for i in 0..100 {
        verdict(fec, &mut raw(&udp((1, 2), &vec![7; 7 * 14 * (i % 10 + 1) - 28]).data[14..]));
    }
    let headers = 100 * (20 + SINGLE as u64);
    assert_eq!(count(fec, "protected"), 100);
    assert_eq!((count(fec, "bytes_out") - headers) * 7, count(fec, "bytes_in") * 8);
}

#[test]
fn one_damaged_part_is_mended_and_two_are_not() {
    let decode = &mut *service("fec-decode");
    for plain in [udp((1, 2), &[7; 42]), udp((1, 2), &core::array::from_fn::<u8, 1001, _>(|i| mix(i as u64) as u8))] {
        let good = protected(&plain);
        let part = (good.data.len() - FEC - SINGLE) / 8;
        let damage = |frame: &mut Frame, at: usize| {
            let start = FEC + SINGLE + at * part;
            frame.data[start..start + part].iter_mut().for_each(|byte| *byte ^= 0x5a);
        };
        for first in 0..8 {
            let mut frame = good.clone();
            damage(&mut frame, first);
            assert_eq!(verdict(decode, &mut frame), Verdict::Forward, "part {first}");
            assert_eq!(frame, plain);
            for second in 0..first {
                let mut frame = good.clone();
                damage(&mut frame, first);
                damage(&mut frame, second);
                assert_eq!(verdict(decode, &mut frame), Verdict::Drop(DropReason::Unrecoverable));
            }
        }
        // For any changed bit of the header, no wrong packet comes out.
        for bit in 8 * FEC..8 * (FEC + SINGLE) {
            let mut frame = good.clone();
            frame.data[bit / 8] ^= 1 << (bit % 8);
            match verdict(decode, &mut frame) {
                Verdict::Forward => assert_eq!(frame, plain, "bit {bit}"),
                Verdict::Drop(DropReason::Unrecoverable | DropReason::Malformed) => {}
                // The change may make its header that of a packet of a group.
                other => assert!(bit < 8 * FEC + 8, "bit {bit}: {other:?}"),
            }
        }
    }
    assert!(count(decode, "packets_mended") >= 16);
}

/// Returns the ten packets of a group: the eight source packets, and their parity.
fn group(fec: &mut dyn Service, context: &Context, plain: &[Frame]) -> Vec<Frame> {
    let mut out = Vec::new();
    for frame in plain {
        let mut frame = frame.clone();
        let (verdict, parity) = process(fec, &mut frame, context);
        assert_eq!(verdict, Verdict::Forward);
        out.push(frame);
        out.extend(parity);
    }
    out
}

fn packets(number: usize) -> Vec<Frame> {
    let payload = |i: usize| (0..i * 393 % 700).map(|at| mix((i * 1000 + at) as u64) as u8).collect::<Vec<u8>>();
    (0..number).map(|i| udp((1, 2), &payload(i))).collect()
}

/// Returns the output of the inverse for these frames.
fn decoded(decode: &mut dyn Service, frames: &[Frame]) -> Vec<Frame> {
    let mut out = Vec::new();
    for frame in frames {
        let mut frame = frame.clone();
        let (verdict, recovered) = process(decode, &mut frame, &Context::default());
        out.extend(recovered);
        match verdict {
            Verdict::Forward => out.push(frame),
            Verdict::Consume => {}
            Verdict::Drop(reason) => panic!("{reason}"),
        }
    }
    out
}

fn sorted(frames: &[Frame]) -> Vec<Vec<u8>> {
    let mut data: Vec<Vec<u8>> = frames.iter().map(|frame| frame.data.clone()).collect();
    data.sort();
    data
}

#[test]
fn whichever_two_of_ten_are_lost_come_back() {
    let plain = packets(8);
    let sent = group(&mut *service("fec:code=8+2"), &Context::default(), &plain);
    assert_eq!(sent.len(), 10);
    for first in 0..10 {
        for second in 0..10 {
            let mut received = sent.clone();
            received.remove(first.max(second));
            if first != second {
                received.remove(first.min(second));
            }
            for reversed in [false, true] {
                if reversed {
                    received.reverse();
                }
                let decode = &mut *service("fec-decode");
                let out = decoded(decode, &received);
                assert_eq!(sorted(&out), sorted(&plain), "without {first} and {second}");
                assert!(out.iter().all(|frame| frame.wire_length as usize == frame.data.len()));
                // A packet recovered from parity that came first is a duplicate when it comes.
                let lost = u64::from(first < 8) + u64::from(first != second && second < 8);
                assert_eq!(count(decode, "recovered"), lost + count(decode, "duplicates"));
                assert!(reversed || count(decode, "duplicates") == 0);
                assert_eq!(count(decode, "not_recovered"), 0);
            }
        }
    }
}

#[test]
fn three_lost_are_lost_and_nothing_wrong_comes_out() {
    let plain = packets(8);
    let mut received = group(&mut *service("fec:code=8+2"), &Context::default(), &plain);
    received.drain(1..4);
    let decode = &mut *service("fec-decode");
    let expected: Vec<Frame> = [&plain[..1], &plain[4..]].concat();
    assert_eq!(decoded(decode, &received), expected);
    assert_eq!((count(decode, "recovered"), count(decode, "not_recovered")), (0, 3));
}

/// A late packet is not forwarded twice.
#[test]
fn what_was_recovered_and_comes_after_all_is_a_duplicate() {
    let plain = packets(8);
    let mut received = group(&mut *service("fec:code=8+2"), &Context::default(), &plain);
    let late = received.remove(3);
    received.push(late.clone());
    received.push(late);
    let decode = &mut *service("fec-decode");
    assert_eq!(sorted(&decoded(decode, &received)), sorted(&plain));
    assert_eq!(count(decode, "duplicates"), 2);
}

/// Flow 0 stalls after three packets; its parity is sent with the first packet of another flow after the wait.
#[test]
fn a_stalled_flow_gets_its_parity_after_the_wait() {
    let fec = &mut *service("fec:code=8+2,wait=50");
    let at =
        |ms: u64, flow: u32| Context { now: Time::from_ns(ms * 1_000_000), flow: FlowId(flow), ..Context::default() };
    let plain = packets(3);
    let mut sent = group(fec, &at(0, 0), &plain);
    assert_eq!((sent.len(), count(fec, "uncovered")), (3, 3));
    let other = udp((3, 4), b"car");
    assert_eq!(group(fec, &at(49, 1), core::slice::from_ref(&other)).len(), 1);
    let late = group(fec, &at(50, 1), core::slice::from_ref(&other));
    assert_eq!((late.len(), count(fec, "uncovered")), (3, 2));
    sent.extend_from_slice(&late[1..]);
    for (first, second) in [(0, 1), (0, 2), (1, 2)] {
        let received: Vec<Frame> = (0..5).filter(|&i| i != first && i != second).map(|i| sent[i].clone()).collect();
        assert_eq!(sorted(&decoded(&mut *service("fec-decode"), &received)), sorted(&plain));
    }
}

/// More flows than groups: the oldest group is closed with its parity, so that its packets are covered.
#[test]
fn memory_is_bounded_and_what_gives_way_is_covered() {
    let fec = &mut *service("fec:code=8+2,groups=4,wait=3600000");
    let (mut sent, mut plain) = (Vec::new(), Vec::new());
    for i in 0..40u32 {
        let frame = udp((1, 2), &i.to_be_bytes());
        let context = Context { flow: FlowId(i % 20), ..Context::default() };
        sent.extend(group(fec, &context, core::slice::from_ref(&frame)));
        plain.push(frame);
    }
    assert_eq!((count(fec, "parity"), count(fec, "uncovered")), (2 * 36, 4));
    // Groups of one packet: the parity alone restores the packet.
    let parity: Vec<Frame> = sent.iter().filter(|frame| frame.data[FEC] == 3).cloned().collect();
    assert_eq!(sorted(&decoded(&mut *service("fec-decode"), &parity)), sorted(&plain[..36]));
    let decode = &mut *service("fec-decode:groups=2");
    let first: Vec<Frame> = sent.iter().filter(|frame| frame.data[FEC] == 2).cloned().collect();
    assert_eq!(decoded(decode, &first), plain);
}

/// Parity that comes after its group was forgotten restores no packet that was there.
#[test]
fn late_parity_makes_no_packet_twice() {
    let fec = &mut *service("fec:code=8+2,wait=3600000");
    let plain: Vec<Frame> = (0..40u32).map(|i| udp((1, 2), &i.to_be_bytes())).collect();
    let context = |flow: u32, now| Context { flow: FlowId(flow), now: Time::from_ns(now), ..Context::default() };
    let mut sent = Vec::new();
    for (i, frame) in plain.iter().enumerate() {
        sent.extend(group(fec, &context(i as u32, 0), core::slice::from_ref(frame)));
    }
    let last = udp((1, 2), b"last");
    let mut parity = Vec::new();
    for _ in 0..5 {
        parity.extend(group(fec, &context(99, 3_600_000_000_000), core::slice::from_ref(&last)));
    }
    parity.retain(|frame| frame.data[FEC] == 3);
    assert_eq!((sent.len(), parity.len()), (40, 80));
    let decode = &mut *service("fec-decode:groups=8");
    assert_eq!(decoded(decode, &[sent, parity].concat()), plain);
    assert_eq!((count(decode, "recovered"), count(decode, "late_parity")), (0, 64));
}

#[test]
fn what_does_not_fit_a_tunnel_passes_unprotected() {
    for code in ["8/7", "8+2"] {
        let fec = &mut *service(&format!("fec:code={code}"));
        let mut arp = udp((1, 2), b"car");
        arp.data[13] = 6;
        for plain in [arp, udp((1, 2), &vec![7; 65_480])] {
            let mut frame = plain.clone();
            assert_eq!(verdict(fec, &mut frame), Verdict::Forward);
            assert_eq!(frame, plain);
            assert_eq!(decoded(&mut *service("fec-decode"), core::slice::from_ref(&frame)), [plain]);
        }
        assert_eq!((count(fec, "protected"), count(fec, "unprotected")), (0, 2));
        let mut cut = udp((1, 2), b"car");
        cut.wire_length += 1;
        assert_eq!(verdict(fec, &mut cut), Verdict::Drop(DropReason::Incomplete));
    }
}

/// Real traffic: of every group with its parity two packets are lost, and all packets arrive.
#[test]
fn two_of_each_group_of_real_traffic_are_lost_and_recovered() {
    let Some(directory) = captures("two_of_each_group_of_real_traffic_are_lost_and_recovered") else { return };
    let mut recovered = 0;
    for file in files(&directory, &["protocols"]) {
        let (mut fec, mut plain, mut sent) = (service("fec:code=8+2"), Vec::new(), Vec::new());
        each_frame(&file, |frame, context| {
            let mut out = frame.clone();
            let (verdict, parity) = process(&mut *fec, &mut out, context);
            if verdict == Verdict::Forward {
                plain.push(frame.clone());
                sent.push(out);
            }
            sent.extend(parity);
        });
        // The groups, by number and addresses; those with parity lose two packets.
        let mut groups: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (at, frame) in sent.iter().enumerate() {
            if let Some((key, _)) = group_of(frame) {
                groups.entry(key).or_default().push(at);
            }
        }
        let mut lost = vec![false; sent.len()];
        for (number, members) in groups.values().enumerate() {
            if members.iter().any(|&at| group_of(&sent[at]).is_some_and(|(_, kind)| kind == 3)) {
                let chance = mix(number as u64) as usize;
                lost[members[chance % members.len()]] = true;
                lost[members[chance / 16 % members.len()]] = true;
            }
        }
        let received: Vec<Frame> =
            sent.iter().zip(&lost).filter(|(_, lost)| !**lost).map(|(frame, _)| frame.clone()).collect();
        let mut decode = service("fec-decode:groups=4096");
        assert_eq!(sorted(&decoded(&mut *decode, &received)), sorted(&plain), "{}", file.display());
        recovered += count(&*decode, "recovered");
    }
    assert!(recovered > 5_000, "{recovered}");
}

/// Returns the group of a packet and its kind, if it belongs to a group. Has its own rules, independent of the
/// service.
fn group_of(frame: &Frame) -> Option<(Vec<u8>, u8)> {
    let start = humpyard_services::link::Network::find(frame).ok()?.offset;
    let packet = &frame.data[start..];
    let (header, protocol, addresses) = match packet[0] >> 4 {
        4 => (20, packet.get(9)?, packet.get(12..20)?),
        6 => (40, packet.get(6)?, packet.get(8..40)?),
        _ => return None,
    };
    let fec = packet.get(header..header + 12).filter(|_| *protocol == 253)?;
    (fec[0] > 1).then(|| ([addresses, &fec[4..]].concat(), fec[0]))
}

proptest! {
    #[test]
    fn nothing_makes_them_panic(frames in proptest::collection::vec((arbitrary_frame(), any::<bool>(), 0u8..5), 1..20)) {
        let mut services = ["fec", "fec:code=8+2,groups=2,wait=1", "fec-decode:groups=2"].map(service);
        for (frame, fec, kind) in frames {
            for service in &mut services {
                let mut frame = frame.clone();
                if fec && frame.link == LinkType::RawIp && frame.data.len() > 24 {
                    let length = frame.data.len() as u16;
                    (frame.data[0], frame.data[9], frame.data[20]) = (0x45, 253, kind);
                    frame.data[2..4].copy_from_slice(&length.to_be_bytes());
                    frame.data[6..8].fill(0);
                    // Few different groups and indices, so that packets share them.
                    frame.data[12..20].fill(0);
                    for byte in frame.data.iter_mut().skip(24).take(8) {
                        *byte = 0;
                    }
                    frame.data[21] %= 9;
                    frame.data[22] %= 9;
                }
                let _ = service.process(&mut frame, &Context::default(), &mut Generated::default());
            }
        }
    }

    /// Random flows and random losses: every packet that arrives is correct, and groups with at most two losses
    /// are complete.
    #[test]
    fn losses_by_chance(
        arrivals in proptest::collection::vec((0u32..4, 0usize..400, 0u64..30, prop::bool::weighted(0.15)), 1..120),
    ) {
        let mut fec = service("fec:code=8+2,wait=40,groups=3");
        let mut decode = service("fec-decode");
        let (mut sent, mut now) = (Vec::new(), 0);
        for (number, (flow, length, gap, lost)) in arrivals.into_iter().enumerate() {
            now += gap;
            let mut payload = vec![number as u8; length];
            payload.extend((number as u32).to_be_bytes());
            let plain = udp((flow as u16, 2), &payload);
            let context = Context { now: Time::from_ns(now * 1_000_000), flow: FlowId(flow), ..Context::default() };
            let mut frame = plain.clone();
            let (_, parity) = process(&mut *fec, &mut frame, &context);
            sent.push((frame, Some(plain), lost));
            sent.extend(parity.into_iter().map(|frame| (frame, None, lost)));
        }
        let received: Vec<Frame> = sent.iter().filter(|(.., lost)| !lost).map(|(frame, ..)| frame.clone()).collect();
        let out = sorted(&decoded(&mut *decode, &received));
        let mut groups: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (at, (frame, ..)) in sent.iter().enumerate() {
            groups.entry(group_of(frame).unwrap().0).or_default().push(at);
        }
        let mut expected = Vec::new();
        for members in groups.values() {
            let parity = members.iter().filter(|&&at| sent[at].1.is_none() && !sent[at].2).count();
            let missing = members.iter().filter(|&&at| sent[at].1.is_some() && sent[at].2).count();
            for &at in members {
                let (_, plain, lost) = &sent[at];
                expected.extend(plain.clone().filter(|_| !lost || missing <= parity));
            }
        }
        prop_assert_eq!(out, sorted(&expected));
    }
}
