//! L7-filter.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use etherparse::{PacketBuilder, TcpHeader};
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::hash::mix;
use humpyard_core::id::ServiceId;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_services::l7_filter::signatures;
use humpyard_services::{Context, DropReason, Factory, Generated, Mark, Service, Verdict, prepare};
use proptest::prelude::*;

use crate::accuracy::accuracy;
use crate::support::{arbitrary_frame, captures, count, each_frame, files, framed, process, service, udp};

fn of_connection(connection: u64) -> Context {
    Context { connection: mix(connection), ..Context::default() }
}

fn verdict(service: &mut dyn Service, frame: &Frame, connection: u64) -> Verdict {
    process(service, &mut frame.clone(), &of_connection(connection)).0
}

/// Returns the mark of a packet's flow.
fn mark(service: &mut dyn Service, frame: &Frame, connection: u64) -> Option<Mark> {
    let mut generated = Generated::default();
    service.process(&mut frame.clone(), &of_connection(connection), &mut generated);
    generated.take_mark()
}

/// Returns a segment from one side to the other.
fn tcp(from_client: bool, sequence: u32, begins: bool, payload: &[u8]) -> Frame {
    let (client, server) = (([198, 51, 100, 7], 40_000), ([203, 0, 113, 9], 8080));
    let (from, to) = if from_client { (client, server) } else { (server, client) };
    let mut header = TcpHeader::new(from.1, to.1, sequence, 1000);
    (header.syn, header.ack) = (begins, !begins);
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4(from.0, to.0, 64);
    let mut data = Vec::new();
    builder.tcp_header(header).write(&mut data, payload).unwrap();
    framed(LinkType::Ethernet, &data)
}

/// Returns the protocols found, each with its connections.
fn found(service: &dyn Service) -> BTreeMap<String, u64> {
    let named = |name: &str| name.strip_prefix("protocol_").map(ToOwned::to_owned);
    service.counters().iter().filter_map(|counter| Some((named(&counter.name)?, counter.count))).collect()
}

const REQUEST: &[u8] = b"GET /yard HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// A request in pieces that match nothing alone, in every order.
#[test]
fn a_stream_is_put_together_in_any_order() {
    let pieces: Vec<(u32, &[u8])> = vec![(101, &REQUEST[..3]), (104, &REQUEST[3..12]), (113, &REQUEST[12..])];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let l7 = &mut *service("l7-filter");
        verdict(l7, &tcp(true, 100, true, b""), 1);
        for (at, &piece) in order.iter().enumerate() {
            assert!(found(l7).is_empty(), "{order:?} after {at}");
            verdict(l7, &tcp(true, pieces[piece].0, false, pieces[piece].1), 1);
        }
        assert_eq!(found(l7), [("http".to_owned(), 1)].into(), "{order:?}");
        assert_eq!(count(l7, "connections"), 1);
    }
}

/// Each side has its own stream; earlier packets and duplicates do not disturb.
#[test]
fn sides_are_apart_and_what_comes_twice_counts_once() {
    let l7 = &mut *service("l7-filter");
    verdict(l7, &tcp(true, 7, true, b""), 1);
    verdict(l7, &tcp(false, 70, true, b""), 1);
    verdict(l7, &tcp(true, 8, false, b"GE"), 1);
    verdict(l7, &tcp(false, 71, false, b"HTTP/1.1 2"), 1);
    for _ in 0..20 {
        verdict(l7, &tcp(true, 8, false, b"GE"), 1);
    }
    assert_eq!((found(l7).len(), count(l7, "no_match"), count(l7, "examined_packets")), (0, 0, 2));
    verdict(l7, &tcp(true, 8, false, b"GET / HTTP/1.1\r\n"), 1);
    assert_eq!(found(l7), [("http".to_owned(), 1)].into());
}

#[test]
fn a_connection_whose_beginning_was_not_seen_is_known_by_what_comes() {
    let l7 = &mut *service("l7-filter");
    verdict(l7, &tcp(true, 5000, false, b"the end of something"), 1);
    verdict(l7, &tcp(true, 5020, false, REQUEST), 1);
    assert_eq!(found(l7), [("http".to_owned(), 1)].into());
}

/// A missing packet never comes: with the eighth packet, the early segment is read by itself.
#[test]
fn after_eight_packets_it_is_decided() {
    let l7 = &mut *service("l7-filter");
    verdict(l7, &tcp(true, 0, true, b""), 1);
    verdict(l7, &tcp(true, 0, true, b""), 2);
    for packet in 0..8 {
        assert_eq!((found(l7).len(), count(l7, "no_match")), (0, 0), "{packet}");
        verdict(l7, &tcp(true, 100 + packet * 100, false, if packet == 3 { REQUEST } else { b"what is this" }), 1);
    }
    assert_eq!(found(l7), [("http".to_owned(), 1)].into());
    for packet in 0..20 {
        verdict(l7, &tcp(true, 1 + packet * 12, false, b"what is this"), 2);
    }
    assert_eq!((count(l7, "no_match"), count(l7, "examined_packets")), (1, 16));
}

/// Instances share connections: several workers may get parts of a stream, and the verdict holds for all.
#[test]
fn instances_know_together() {
    let factory = prepare(&"l7-filter:drop=http".parse().unwrap()).unwrap();
    let mut workers = [factory.make(), factory.make(), factory.make()];
    verdict(&mut *workers[0], &tcp(true, 0, true, b""), 1);
    assert_eq!(verdict(&mut *workers[1], &tcp(true, 11, false, &REQUEST[10..]), 1), Verdict::Forward);
    assert_eq!(
        verdict(&mut *workers[2], &tcp(true, 1, false, &REQUEST[..10]), 1),
        Verdict::Drop(DropReason::ProtocolDenied)
    );
    for worker in &mut workers {
        assert_eq!(verdict(&mut **worker, &tcp(false, 9, false, b"x"), 1), Verdict::Drop(DropReason::ProtocolDenied));
    }
    let sum: u64 = workers.iter().map(|worker| count(&**worker, "connections")).sum();
    assert_eq!(sum, 1);
}

#[test]
fn verdicts_mark_both_directions() {
    let factory = prepare(&"l7-filter:weight=http=8;dns=2,service=http=1".parse().unwrap()).unwrap();
    let l7 = &mut *factory.make();
    let http = Mark { weight: Weight::new(8), service: Some(ServiceId(1)), fwmark: None };
    assert_eq!(factory.refers_to(), [ServiceId(1)]);
    assert_eq!(mark(l7, &tcp(true, 0, true, b""), 1), None);
    assert_eq!(mark(l7, &tcp(true, 1, false, REQUEST), 1), Some(http));
    assert_eq!(mark(l7, &tcp(false, 1, false, b""), 1), Some(http));
    let question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x01b\x00\x00\x01\x00\x01";
    let dns = Mark { weight: Weight::new(2), service: None, fwmark: None };
    assert_eq!(mark(l7, &udp((40_000, 53), question), 2), Some(dns));
    assert_eq!(mark(l7, &udp((40_000, 4000), b"nothing known"), 3), None);
    assert_eq!(count(l7, "marked_packets"), 3);
}

/// For any packets, memory is bounded, and later connections are recognized correctly.
#[test]
fn memory_is_bounded() {
    let l7 = &mut *service("l7-filter:connections=128,buffers=32,bytes=64");
    for connection in 0..50_000 {
        verdict(l7, &tcp(true, 5, true, b""), connection);
        verdict(l7, &tcp(true, 50 + connection as u32 % 7, false, b"too early"), connection);
    }
    assert_eq!(count(l7, "connections"), 50_000);
    assert!(count(l7, "reordered_packets") > 0);
    verdict(l7, &tcp(true, 1, false, REQUEST), 60_000);
    assert_eq!(found(l7), [("http".to_owned(), 1)].into());
}

/// The goals: recall of 90 % over the labelled flows, and in the mean over protocols; less than 2 % false
/// marks.
#[test]
fn protocols_of_real_captures_are_known() {
    let Some(directory) = captures("protocols_of_real_captures_are_known") else { return };
    let result = accuracy(&directory);
    let (recall, mean, wrong) = (result.recall(), result.mean_recall(), result.false_marks());
    assert!(recall >= 0.95 && mean >= 0.9 && wrong < 0.02, "{recall} {mean} {wrong}\n{}", result.table());
    assert!(result.files >= 270 && result.marks > 2500, "{} {}", result.files, result.marks);
}

/// The page has the table that the example prints.
#[test]
fn the_published_table_is_that_of_this_code() {
    let Some(directory) = captures("the_published_table_is_that_of_this_code") else { return };
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/l7-filter.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(&accuracy(&directory).table()),
        "renew the table in docs/reference/l7-filter.md: the example l7_accuracy prints it"
    );
}

#[test]
fn two_runs_agree() {
    let Some(directory) = captures("two_runs_agree") else { return };
    let file = files(&directory, &["protocols"]).into_iter().find(|file| file.ends_with("viber.pcap")).unwrap();
    let run = || {
        let mut l7 = service("l7-filter:drop=dns,weight=tls=3");
        let mut verdicts = Vec::new();
        each_frame(&file, |frame, context| {
            let mut generated = Generated::default();
            let verdict = l7.process(&mut frame.clone(), context, &mut generated);
            verdicts.push((verdict, generated.take_mark()));
        });
        (verdicts, l7.counters())
    };
    let first = run();
    assert!(first.0.iter().any(|(verdict, _)| *verdict != Verdict::Forward));
    assert!(first.0.iter().any(|(_, mark)| mark.is_some()));
    assert_eq!(first, run());
}

/// Vectorscan gives the same verdicts.
#[cfg(feature = "vectorscan")]
#[test]
fn engines_agree_on_verdicts() {
    let Some(directory) = captures("engines_agree_on_verdicts") else { return };
    for file in files(&directory, &["protocols"]) {
        let factories = ["regex", "vectorscan"]
            .map(|engine| service(&format!("l7-filter:connections=4096,buffers=256,engine={engine}")));
        let counters = factories.map(|mut l7| {
            each_frame(&file, |frame, context| {
                assert_eq!(process(&mut *l7, &mut frame.clone(), context).0, Verdict::Forward)
            });
            l7.counters()
        });
        assert_eq!(counters[0], counters[1], "{file:?}");
    }
}

#[cfg(not(feature = "vectorscan"))]
#[test]
fn an_engine_that_is_not_there_is_refused() {
    let error = prepare(&"l7-filter:engine=vectorscan".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("built without Vectorscan") && error.contains("feature `vectorscan`"), "{error}");
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(
        frames in proptest::collection::vec((arbitrary_frame(), 0u64..3), 1..30),
        segments in proptest::collection::vec((any::<bool>(), 0u32..60, 0usize..40, any::<prop::sample::Index>()), 0..30),
    ) {
        let mut l7 = service("l7-filter:connections=128,buffers=32,bytes=100");
        let segments = segments.into_iter().map(|(side, at, length, cut)| {
            let mut frame = tcp(side, u32::MAX - 30 + at % 31, false, &REQUEST[..length.min(REQUEST.len())]);
            let cut = if at % 5 == 0 { cut.index(frame.data.len()) } else { 0 };
            frame.data.truncate(frame.data.len() - cut);
            (frame, 7)
        });
        for (frame, connection) in frames.into_iter().chain(segments) {
            let before = frame.clone();
            let mut frame = frame;
            let verdict = l7.process(&mut frame, &of_connection(connection), &mut Generated::default());
            prop_assert_eq!((verdict, frame), (Verdict::Forward, before));
        }
    }
}

#[test]
fn buffers_that_take_all_memory_are_refused() {
    let refused = |spec: &str| prepare(&spec.parse().unwrap()).unwrap_err().to_string();
    let error = refused("l7-filter:buffers=1048576,bytes=65535");
    assert!(error.contains("1048576 `buffers` for 8 `packets` and 65535 `bytes` each take"), "{error}");
    assert!(error.contains(" MiB, and less than 4096 are accepted: take less of one"), "{error}");
    prepare(&"l7-filter:buffers=32,packets=255,bytes=65535".parse().unwrap()).unwrap();
}

/// Returns a service that marks each protocol with a different weight.
fn that_tells_protocols(options: &str) -> Factory {
    let mut names: Vec<&str> = signatures().map(|signature| signature.protocol).collect();
    names.dedup();
    let weights: Vec<String> = names.iter().enumerate().map(|(at, name)| format!("{name}={}", at + 1)).collect();
    prepare(&format!("l7-filter:weight={}{options}", weights.join(";")).parse().unwrap()).unwrap()
}

/// Returns the verdict on a connection whose packets are handed to several workers in this order. Each packet
/// has its number among those that came in.
fn verdict_in_order<'a>(
    factory: &Factory,
    packets: impl IntoIterator<Item = &'a (u64, Frame)>,
    connection: u64,
) -> Option<Weight> {
    let mut workers = [factory.make(), factory.make(), factory.make()];
    let mut context = of_connection(connection);
    for (number, (sequence, frame)) in packets.into_iter().enumerate() {
        context.sequence = *sequence;
        workers[number % 3].process(&mut frame.clone(), &context, &mut Generated::default());
    }
    context.sequence = u64::MAX;
    let mut generated = Generated::default();
    workers[0].process(&mut tcp(true, 1, false, b""), &context, &mut generated);
    generated.take_mark().and_then(|mark| mark.weight)
}

/// Returns the first `most` packets of each connection of a capture, each with its number.
fn connections(file: &Path, most: usize) -> Vec<Vec<(u64, Frame)>> {
    let mut connections: Vec<Vec<(u64, Frame)>> = Vec::new();
    let (mut known, mut sequence) = (HashMap::new(), 0);
    each_frame(file, |frame, context| {
        let next = connections.len();
        let at = *known.entry(context.connection).or_insert(next);
        if at == next {
            connections.push(Vec::new());
        }
        if connections[at].len() < most {
            connections[at].push((sequence, frame.clone()));
        }
        sequence += 1;
    });
    connections
}

/// For any order of packets at the workers, a connection has the verdict that it has in order.
///
/// Two captures are left out. In one, segments repeat bytes with different contents. In the other, datagrams
/// are recognized only by several in a row, and others come between them. There, a verdict may come before a
/// packet that would have prevented it.
#[test]
fn verdicts_of_real_connections_do_not_depend_on_order() {
    let Some(directory) = captures("verdicts_of_real_connections_do_not_depend_on_order") else { return };
    let factory = that_tells_protocols(",connections=128,buffers=32");
    let mut random = Seed(1).stream("orders");
    let (mut all, mut known) = (0, 0);
    for file in files(&directory, &["protocols"]) {
        if file.ends_with("heuristic_tcp_ack_payload.pcap") || file.ends_with("discord.pcap") {
            continue;
        }
        for packets in connections(&file, 16) {
            all += 1;
            let expected = verdict_in_order(&factory, &packets, all);
            known += u64::from(expected.is_some());
            let mut order: Vec<&(u64, Frame)> = packets.iter().collect();
            for round in 0..4 {
                match round {
                    0 => order.reverse(),
                    _ => (1..order.len()).rev().for_each(|at| order.swap(at, random.below(at as u64 + 1) as usize)),
                }
                let found = verdict_in_order(&factory, order.iter().copied(), (round + 1) << 40 | all);
                let numbers: Vec<u64> = order.iter().map(|(sequence, _)| *sequence).collect();
                assert_eq!(found, expected, "{file:?}: {numbers:?}");
            }
        }
    }
    assert!(known > 2500, "{known} of {all}");
}

/// Generates both sides of a connection, each cut into segments: with or without a SYN, from the start or the
/// middle, and in any order.
fn made_connection() -> impl Strategy<Value = (Vec<(u64, Frame)>, Vec<usize>)> {
    let client = prop_oneof![
        Just(REQUEST),
        Just(&b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0and the hash"[..]),
        Just(&b"SSH-2.0-yard_1.0\r\n"[..]),
        Just(&b"nothing that there is a signature of"[..]),
    ];
    let server = prop_oneof![Just(&b"HTTP/1.1 200 OK\r\n\r\n"[..]), Just(&b"SSH-2.0-hump\r\n"[..]), Just(&b"well"[..])];
    let cuts = || proptest::collection::vec(1usize..12, 1..6);
    let number = prop_oneof![any::<u32>(), Just(u32::MAX - 9)];
    let packets =
        (client, server, cuts(), cuts(), number, 0..4usize).prop_map(|(client, server, a, b, number, begin)| {
            let mut frames = Vec::new();
            let syns = [flagged(true, number, "S", b""), flagged(false, !number, "SA", b"")];
            for (from_client, bytes, cuts, start) in [(true, client, a, number), (false, server, b, !number)] {
                let mut at = if begin == 3 { 2 } else { 0 };
                for length in cuts.into_iter().chain([bytes.len()]) {
                    let end = (at + length).min(bytes.len());
                    let number = start.wrapping_add(1 + at as u32);
                    frames.push(tcp(from_client, number, false, &bytes[at..end]));
                    at = end;
                }
            }
            (if begin < 2 { syns.to_vec() } else { Vec::new() }, frames)
        });
    packets.prop_flat_map(|(syns, frames)| {
        let order = Just((0..syns.len() + frames.len()).collect::<Vec<_>>()).prop_shuffle();
        // The two sides may come in any order relative to each other, and may be reordered on the way here.
        (Just(syns), Just(frames).prop_shuffle(), order)
            .prop_map(|(syns, frames, order)| ((0..).zip(syns.into_iter().chain(frames)).collect(), order))
    })
}

proptest! {
    #[test]
    fn verdicts_of_made_connections_do_not_depend_on_order((packets, order) in made_connection()) {
        let factory = that_tells_protocols(",connections=128,buffers=32");
        let in_order = verdict_in_order(&factory, &packets, 1);
        prop_assert_eq!(verdict_in_order(&factory, order.iter().map(|&at| &packets[at]), 2), in_order);
    }
}

/// Returns a segment with these flags, and this number among the packets that came in.
fn flagged(from_client: bool, number: u32, flags: &str, payload: &[u8]) -> Frame {
    let mut frame = tcp(from_client, number, false, payload);
    let bits = flags.bytes().map(|flag| match flag {
        b'F' => 1,
        b'S' => 2,
        b'R' => 4,
        _ => 16,
    });
    frame.data[14 + 20 + 13] = bits.sum();
    frame
}

/// Reused ports: the state of the earlier connection does not count, and its late packets change nothing.
#[test]
fn another_connection_has_a_verdict_of_its_own() {
    const GREETING: &[u8] = b"SSH-2.0-yard\r\n";
    let http = || [flagged(true, 0, "S", b""), flagged(true, 1, "A", REQUEST)];
    for (what, ending, opening, known) in [
        ("another number", None, flagged(true, 5_000, "S", b""), true),
        ("the same number after a FIN", Some(flagged(false, 9, "FA", b"")), flagged(true, 0, "S", b""), true),
        ("the same number after a reset", Some(flagged(true, 9, "RA", b"")), flagged(true, 0, "S", b""), true),
        ("the same number", None, flagged(true, 0, "S", b""), false),
        ("the answer to a SYN", None, flagged(false, 77, "SA", b""), false),
    ] {
        let factory = prepare(&"l7-filter:weight=http=2;ssh=3".parse().unwrap()).unwrap();
        let mut workers = [factory.make(), factory.make()];
        let mut context = of_connection(1);
        let next = flagged(false, 70_000, "A", GREETING);
        let late = flagged(true, 1, "A", b"GET /late HTTP/1.1\r\n");
        let packets =
            http().into_iter().chain(ending).chain([opening, next]).enumerate().map(|(at, frame)| (at as u64, frame));
        for (number, mut frame) in packets.chain([(1, late)]) {
            context.sequence = number;
            workers[number as usize % 2].process(&mut frame, &context, &mut Generated::default());
        }
        context.sequence = 100;
        let mut generated = Generated::default();
        workers[0].process(&mut flagged(true, 9, "A", b""), &context, &mut generated);
        let weight = generated.take_mark().and_then(|mark| mark.weight);
        assert_eq!(weight, Weight::new(if known { 3 } else { 2 }), "{what}");
        let counted: u64 = workers.iter().map(|worker| count(&**worker, "connections")).sum();
        assert_eq!(counted, 1 + u64::from(known), "{what}");
    }
}

/// A verdict counted by another worker is taken back when an earlier packet matches another protocol.
#[test]
fn an_earlier_packet_mends_a_verdict() {
    let factory = prepare(&"l7-filter".parse().unwrap()).unwrap();
    let mut workers = [factory.make(), factory.make()];
    for (worker, sequence, frame) in [
        (0, 9, udp((40_000, 40_001), b"BT-SEARCH * HTTP/1.1\r\n")),
        (1, 4, udp((40_000, 40_001), b"M-SEARCH * HTTP/1.1\r\n")),
    ] {
        let context = Context { sequence, ..of_connection(1) };
        workers[worker].process(&mut frame.clone(), &context, &mut Generated::default());
    }
    let mut all = BTreeMap::new();
    for worker in &workers {
        found(&**worker).into_iter().for_each(|(name, count)| *all.entry(name).or_insert(0) += count);
    }
    assert_eq!(all, [("ssdp".to_owned(), 1)].into());
}

/// A packet overtaken by more than the buffer keeps changes no verdict and no stream.
#[test]
fn what_comes_far_too_late_does_no_harm() {
    let l7 = &mut *service("l7-filter:bytes=64");
    let mut give = |connection: u64, sequence: u64, frame: &Frame| {
        let context = Context { sequence, ..of_connection(connection) };
        l7.process(&mut frame.clone(), &context, &mut Generated::default());
    };
    give(1, 9, &tcp(true, 501, false, REQUEST));
    give(2, 1, &tcp(true, 100, true, b""));
    give(2, 9, &tcp(true, 101, false, &REQUEST[..3]));
    give(2, 10, &tcp(true, 104, false, &REQUEST[3..12]));
    for connection in 10..1010 {
        (0..7).for_each(|packet| give(connection, 20 + packet, &tcp(true, 64 * packet as u32, false, &[b'x'; 64])));
    }
    give(1, 8, &tcp(true, 1, false, b"what is this"));
    give(2, 8, &tcp(false, 1, false, b"what is this"));
    give(2, 90, &tcp(true, 113, false, &REQUEST[12..]));
    assert_eq!(found(l7), [("http".to_owned(), 2)].into());
}

/// Of packets cut off by the capture, the captured part is read, and they are counted. The stream continues
/// behind the missing bytes.
#[test]
fn packets_that_were_cut_off_are_counted() {
    let l7 = &mut *service("l7-filter");
    verdict(l7, &tcp(true, 0, true, b""), 1);
    // Cut within the payload, at the end of the TCP header, and within it.
    for captured in [100, 54, 40] {
        let mut cut = tcp(true, 1, false, &[b'x'; 500]);
        cut.data.truncate(captured);
        verdict(l7, &cut, 1);
    }
    verdict(l7, &tcp(true, 501, false, REQUEST), 1);
    assert_eq!((count(l7, "cut_packets"), count(l7, "reordered_packets")), (3, 0));
    assert_eq!(found(l7), [("http".to_owned(), 1)].into());
}
