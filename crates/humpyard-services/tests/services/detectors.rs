//! Tests the detectors on handmade sequences, on real captures, and on attacks within background traffic.
#![expect(clippy::print_stderr, reason = "the test prints what it measured as a table")]

use core::net::Ipv4Addr;

use etherparse::PacketBuilder;
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::packet::Part;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_services::{Context, Counter, DropReason, Service, Verdict, prepare};
use proptest::prelude::*;

use crate::support::{arbitrary_frame, captures, count, each_frame, files, framed, process, service, udp};

/// A second, in ns.
const SECOND: u64 = 1_000_000_000;
/// Flags of a TCP header.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Returns a TCP segment from 10.0.0.`source` to 192.0.2.`host`; greater numbers give other addresses.
fn segment(time: u64, source: u32, host: u32, port: u16, flags: u8) -> Frame {
    let address = |base: [u8; 4], number: u32| Ipv4Addr::from(u32::from_be_bytes(base) + number).octets();
    let builder = PacketBuilder::ipv4(address([10, 0, 0, 0], source), address([192, 0, 2, 0], host), 64);
    let mut data = Vec::new();
    builder.tcp(40_000, port, 1, 1024).write(&mut data, &[]).unwrap();
    data[33] = flags;
    Frame { time: Time::from_ns(time), ..framed(LinkType::RawIp, &data) }
}

fn verdict(service: &mut dyn Service, frame: &Frame) -> Verdict {
    process(service, &mut frame.clone(), &Context::default()).0
}

const SCAN: Verdict = Verdict::Drop(DropReason::Scan);
const FLOOD: Verdict = Verdict::Drop(DropReason::Flood);

/// Returns the alarms among counters: the text behind the number, and the packets.
fn alarms(counters: &[Counter]) -> Vec<(String, u64)> {
    let listed = counters.iter().filter(|counter| counter.name.starts_with("alarm_"));
    listed.map(|alarm| (alarm.name.split_once(' ').expect("a number").1.to_owned(), alarm.count)).collect()
}

fn alarms_of(service: &dyn Service) -> Vec<(String, u64)> {
    alarms(&service.counters())
}

/// Five ports of one host within ten seconds: the fifth raises the alarm, and none before.
#[test]
fn a_vertical_scan_is_found_at_its_threshold() {
    let portscan = &mut *service("portscan:ports=5,window=10,drop=true");
    for (port, expected) in [(1, Verdict::Forward), (2, Verdict::Forward), (3, Verdict::Forward), (4, Verdict::Forward)]
    {
        for again in 0..3 {
            let frame = segment(u64::from(port) * SECOND + again, 1, 1, port, SYN);
            assert_eq!(verdict(portscan, &frame), expected, "port {port}");
        }
    }
    assert_eq!(alarms_of(portscan), []);
    // Segments to another host, from another source, or of connections do not belong to the scan.
    for frame in [
        segment(5 * SECOND, 1, 2, 5, SYN),
        segment(5 * SECOND, 2, 1, 5, SYN),
        segment(5 * SECOND, 1, 1, 5, SYN | ACK),
        segment(5 * SECOND, 1, 1, 6, RST),
        segment(5 * SECOND, 1, 1, 7, FIN | ACK),
        udp((5, 5), b"x"),
    ] {
        assert_eq!(verdict(portscan, &frame), Verdict::Forward);
    }
    let fifth = segment(11 * SECOND - 1, 1, 1, 5, SYN);
    assert_eq!(verdict(portscan, &fifth), SCAN);
    assert_eq!(verdict(portscan, &segment(20 * SECOND, 1, 1, 1, SYN)), SCAN);
    assert_eq!(verdict(portscan, &segment(20 * SECOND, 1, 1, 1, ACK)), Verdict::Forward, "only attempts are dropped");
    let expected = [("vertical 10.0.0.1 to 192.0.2.1 at 10.999999999".to_owned(), 14)];
    assert_eq!(alarms_of(portscan), expected);
    assert_eq!((count(portscan, "alarms"), count(portscan, "attempts")), (1, 16));
    // After a window without attempts, the source may try again.
    assert_eq!(verdict(portscan, &segment(30 * SECOND, 1, 1, 1, SYN)), Verdict::Forward);
}

/// The same at the end of a window, and with segments that only scanners send.
#[test]
fn a_window_ends_and_stealthy_segments_count() {
    let portscan = &mut *service("portscan:ports=3,window=10");
    for (time, port) in [(0, 1), (1, 2), (10, 3), (11, 4)] {
        verdict(portscan, &segment(time * SECOND, 1, 1, port, SYN));
    }
    assert_eq!(alarms_of(portscan), [], "two, and two");
    for (port, flags) in [(1, 0), (2, FIN), (3, FIN | 8 | 32)] {
        verdict(portscan, &segment(50 * SECOND, 3, 1, port, flags));
    }
    assert_eq!(alarms_of(portscan), [("vertical 10.0.0.3 to 192.0.2.1 at 50.000000000".to_owned(), 3)]);
}

#[test]
fn a_horizontal_scan_is_found_at_its_threshold() {
    let portscan = &mut *service("portscan:hosts=4,window=10");
    for host in [1, 2, 3, 3, 2, 1] {
        assert_eq!(verdict(portscan, &segment(0, 1, host, 22, SYN)), Verdict::Forward);
        verdict(portscan, &segment(0, 1, host, 80 + host as u16, SYN));
    }
    assert_eq!(alarms_of(portscan), []);
    assert_eq!(verdict(portscan, &segment(7, 1, 4, 22, SYN)), Verdict::Forward, "an alarm alone drops nothing");
    assert_eq!(alarms_of(portscan), [("horizontal 10.0.0.1 to port 22 at 0.000000007".to_owned(), 7)]);
}

/// Instances share the table: each of three sees a third of a scan.
#[test]
fn instances_share_what_they_know() {
    let factory = prepare(&"portscan:ports=30,drop=true".parse().unwrap()).unwrap();
    let mut instances = [factory.make(), factory.make(), factory.make()];
    let verdicts: Vec<Verdict> =
        (0..60).map(|port| verdict(&mut *instances[usize::from(port) % 3], &segment(0, 1, 1, port, SYN))).collect();
    assert!(verdicts[..29].iter().all(|&verdict| verdict == Verdict::Forward));
    assert!(verdicts[29..].iter().all(|&verdict| verdict == SCAN));
    let packets: u64 = instances.iter().flat_map(|instance| alarms_of(&**instance)).map(|(_, packets)| packets).sum();
    let raised: u64 = instances.iter().map(|instance| count(&**instance, "alarms")).sum();
    assert_eq!((packets, raised), (60, 1));

    let factory = prepare(&"synflood:floor=10".parse().unwrap()).unwrap();
    let mut instances = [factory.make(), factory.make(), factory.make()];
    for number in 0..30 {
        verdict(&mut *instances[number % 3], &segment(number as u64, number as u32, 1, 80, SYN));
    }
    let told: Vec<_> = instances.iter().flat_map(|instance| alarms_of(&**instance)).collect();
    assert_eq!(told, [("flood to 192.0.2.1 at 0.000000029".to_owned(), 30)], "the last period, once");
}

/// With a floor of 10: 14 SYN in a period give 1.4 - .35 = N, which is no alarm; one more raises it.
#[test]
fn a_flood_is_found_at_its_threshold() {
    for (syns, expected) in [(14, Verdict::Forward), (15, FLOOD)] {
        let synflood = &mut *service("synflood:floor=10,drop=true");
        verdict(synflood, &segment(5 * SECOND, 0, 9, 80, SYN));
        for number in 1..syns {
            assert_eq!(verdict(synflood, &segment(6 * SECOND - 1, number, 9, 80, SYN)), Verdict::Forward);
        }
        assert_eq!(verdict(synflood, &segment(6 * SECOND, 99, 9, 80, SYN)), expected, "{syns} SYN");
        assert_eq!(verdict(synflood, &segment(6 * SECOND, 99, 8, 80, SYN)), Verdict::Forward, "not at this host");
        assert_eq!(verdict(synflood, &segment(6 * SECOND, 99, 9, 80, ACK)), Verdict::Forward);
        if expected == FLOOD {
            assert_eq!(alarms_of(synflood), [("flood to 192.0.2.9 at 6.000000000".to_owned(), 16)]);
        }
        // Each empty period subtracts .35: 1.15, then 0.15 + .3 of two more, .45 and so on.
        assert_eq!(verdict(synflood, &segment(9 * SECOND, 99, 9, 80, SYN)), Verdict::Forward);
    }
}

/// Closings balance openings: both ends of a connection, or its refusal.
#[test]
fn what_is_closed_again_is_no_flood() {
    let synflood = &mut *service("synflood:floor=10");
    for number in 0..10_000 {
        let time = u64::from(number) * SECOND / 200;
        for flags in if number % 2 == 0 { [SYN, SYN | ACK, FIN | ACK, FIN | ACK] } else { [SYN, RST | ACK, ACK, ACK] } {
            verdict(synflood, &segment(time, number, 1, 80, flags));
        }
    }
    assert_eq!(
        (count(synflood, "alarms"), count(synflood, "openings"), count(synflood, "closings")),
        (0, 15_000, 15_000)
    );
    let strict = &mut *service("synflood:floor=10,reset=false");
    for number in 0..15 {
        verdict(strict, &segment(0, number, number, 80, SYN));
        verdict(strict, &segment(0, number, number, 80, RST));
    }
    assert_eq!(alarms_of(strict), [("flood to many hosts at 0.000000000".to_owned(), 15)]);
}

#[test]
fn lists_and_tables_are_bounded() {
    let portscan = &mut *service("portscan:ports=2,hosts=2,entries=64,alarms=3");
    for source in 0..1000 {
        for port in 0..2 {
            verdict(portscan, &segment(0, source, source, port, SYN));
        }
    }
    assert_eq!(alarms_of(portscan).len(), 3);
    assert_eq!(count(portscan, "alarms"), 1000);
    assert_eq!(count(portscan, "alarms_not_listed_packets"), 2 * 997);
}

/// A slow scanner among many single attempts: with little memory it is evicted, but there is no false alarm.
#[test]
fn what_is_forgotten_is_missed_and_never_wrong() {
    for (entries, expected) in [(64, 0), (16_384, 1)] {
        let portscan = &mut *service(&format!("portscan:ports=10,hosts=10,entries={entries}"));
        for port in 0..20 {
            verdict(portscan, &segment(0, 1, 1, port, SYN));
            for source in 0..200 {
                verdict(portscan, &segment(0, 1000 + u32::from(port) * 200 + source, 1, 80, SYN));
            }
        }
        assert_eq!(count(portscan, "alarms"), expected, "{entries} entries");
    }
}

/// A worm: each second, the same number of new hosts try unused addresses; later, more and more.
#[test]
fn a_worm_is_found_by_its_victims() {
    let spec = "portscan:unused=192.0.2.128/25,history=10,intervals=3,deviations=3,victims=2";
    let portscan = &mut *service(spec);
    let mut victim = 0;
    for second in 0..40 {
        let new = if second < 30 { 1 + second % 2 } else { 8 << (second - 30).min(5) };
        for _ in 0..new {
            victim += 1;
            for host in [200, 201] {
                verdict(portscan, &segment(second * SECOND, victim, host, 445, SYN));
            }
        }
        verdict(portscan, &segment(second * SECOND, 1, 5, 80, SYN));
    }
    let told = alarms_of(portscan);
    assert_eq!(told[0], ("worm at 33.000000000".to_owned(), told[0].1));
    assert_eq!(told.len(), 1);
    assert_eq!(count(portscan, "attempts_unused"), 2 * u64::from(victim));
}

#[test]
fn later_parts_of_a_packet_are_not_looked_at() {
    let portscan = &mut *service("portscan:ports=2");
    for (port, part) in [(1, Part::First), (2, Part::Middle), (3, Part::Last)] {
        let context = Context { part, ..Context::default() };
        assert_eq!(process(portscan, &mut segment(0, 1, 1, port, SYN), &context).0, Verdict::Forward);
    }
    assert_eq!(count(portscan, "attempts"), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any frames at any times: frames pass unchanged, and two runs give the same result.
    #[test]
    fn any_bytes_pass_unchanged_and_alike(
        frames in proptest::collection::vec((arbitrary_frame(), any::<u64>()), 0..40),
        flags in proptest::collection::vec((any::<u8>(), 0u32..4, 0u32..4, 0u16..4, any::<u64>()), 0..60),
    ) {
        for spec in ["portscan:ports=2,hosts=2,entries=64,alarms=2,unused=192.0.2.2/31,history=2,intervals=1", "synflood:floor=1,alarms=2"] {
            let counters = [(); 2].map(|()| {
                let service = &mut *service(spec);
                for (frame, time) in &frames {
                    let mut copy = Frame { time: Time::from_ns(*time), ..frame.clone() };
                    let before = copy.clone();
                    let (verdict, made) = process(service, &mut copy, &Context::default());
                    assert_eq!((verdict, made.len()), (Verdict::Forward, 0));
                    assert_eq!(copy, before);
                }
                for &(flags, source, host, port, time) in &flags {
                    verdict(service, &segment(time, source, host, port, flags));
                }
                service.counters()
            });
            prop_assert_eq!(&counters[0], &counters[1]);
            prop_assert!(counters[0].len() <= 8);
        }
    }
}

/// Returns the alarms of a detector on a capture.
fn on_capture(spec: &str, file: &std::path::Path) -> Vec<(String, u64)> {
    let service = &mut *service(spec);
    each_frame(file, |frame, context| {
        let mut copy = frame.clone();
        assert_eq!(process(service, &mut copy, context).0, Verdict::Forward);
        assert_eq!(copy, *frame);
    });
    alarms_of(service)
}

/// The alarms expected on a capture, with their packets: the alarm's text up to the time, which depends on the
/// capture.
struct Expected {
    file: &'static str,
    spec: &'static str,
    alarms: &'static [(&'static str, u64)],
}

const fn expected(file: &'static str, spec: &'static str, alarms: &'static [(&'static str, u64)]) -> Expected {
    Expected { file, spec, alarms }
}

/// The expected alarms. Every capture of these folders that is not listed raises none.
const EXPECTED: &[Expected] = &[
    // 6,651 SYN/ACK from thousands of servers to one host in .15 s: less than a period, which is judged when
    // the run ends.
    expected("attacks/amp.TCP.reflection.SYNACK.pcap", "synflood", &[("flood to 10.10.10.10", 6_652)]),
    // 37,841 SYN from 37,623 addresses: a flood, and no scan, because hardly any source tries twice. The eight
    // missing ones come after a pause of the flood that ends the alarm.
    expected("attacks/pkt.TCP.synflood.spoofed.pcap", "synflood", &[("flood to 10.10.10.10", 37_833)]),
    // Three hosts are scanned at 1,000 ports, one of them several times. The ports do not answer, so it is a
    // flood, too.
    expected(
        "industrial/right.pcap",
        "portscan",
        &[
            ("vertical 198.18.134.99 to 198.18.134.4", 3_008),
            ("vertical 198.18.134.99 to 198.18.134.41", 3_016),
            ("vertical 198.18.134.99 to 198.18.134.48", 9_050),
        ],
    ),
    expected(
        "industrial/right.pcap",
        "synflood",
        &[("flood to 198.18.134.4", 2_885), ("flood to 198.18.134.41", 2_949), ("flood to 198.18.134.48", 8_892)],
    ),
    // 1,000 ports of one host, of which most do not answer.
    expected("protocols/synscan.pcap", "portscan", &[("vertical 172.16.0.8 to 64.13.134.52", 1_994)]),
    expected("protocols/synscan.pcap", "synflood", &[("flood to 64.13.134.52", 1_978)]),
    // Four ports, with four SYN and three segments without: too few for the default. A threshold of four finds
    // the scan.
    expected("protocols/tcp_scan.pcapng", "portscan:ports=4", &[("vertical 192.168.1.178 to 192.168.1.2", 7)]),
    // A false alarm: a benchmark opens 1,000 connections at once, and closes them later.
    expected("uniform/echo-connections.pcap", "synflood", &[("flood to 127.0.0.1", 1_075)]),
];

#[test]
fn alarms_on_real_captures_are_those_that_are_due() {
    let Some(traces) = captures("alarms_on_real_captures_are_those_that_are_due") else { return };
    let without_time =
        |(alarm, packets): (String, u64)| (alarm.split_once(" at ").expect("a time").0.to_owned(), packets);
    let due = |file: &str, spec: &str| EXPECTED.iter().find(|expected| expected.file == file && expected.spec == spec);
    let mut silent = 0;
    for file in files(&traces, &[]) {
        let name = file.strip_prefix(&traces).unwrap().to_str().unwrap();
        for spec in ["portscan", "synflood", "portscan:ports=4"] {
            let expected = due(name, spec);
            if spec.contains(':') && expected.is_none() {
                continue;
            }
            let told: Vec<_> = on_capture(spec, &file).into_iter().map(without_time).collect();
            let due: Vec<_> = expected
                .map_or(&[][..], |expected| expected.alarms)
                .iter()
                .map(|&(what, packets)| (what.to_owned(), packets))
                .collect();
            assert_eq!(told, due, "{name}: {spec}");
            silent += u64::from(told.is_empty());
            for (what, packets) in told {
                eprintln!("| `{name}` | `{spec}` | {what} | {packets} |");
            }
        }
    }
    eprintln!("| all others | | none: {silent} runs | |");
}

/// Mean duration of a connection in seconds, and connections per second.
const LASTING: f64 = 2.0;
const CONNECTIONS: f64 = 100.0;
/// Closing segments per second: both ends close.
const CLOSINGS: f64 = 2.0 * CONNECTIONS;
/// Seconds of background, and the time at which attacks begin.
const SECONDS: u64 = 120;
const BEGIN: f64 = 30.3;

/// Segments with their times in seconds, in any order.
type Segments = Vec<(f64, Frame)>;

fn at(seconds: f64, source: u32, host: u32, port: u16, flags: u8) -> (f64, Frame) {
    (seconds, segment((seconds * SECOND as f64) as u64, source, host, port, flags))
}

/// Returns background traffic: 200 clients, 250 servers with five services each. It is in its steady state from
/// the start.
fn background(seed: u64) -> Segments {
    let mut random = Seed(seed).stream("background");
    let mut segments = Vec::new();
    let mut begin = -10.0 * LASTING;
    while begin < SECONDS as f64 {
        begin += random.exponential(1.0 / CONNECTIONS);
        let (client, server) = (random.below(200) as u32, 10 + random.below(250) as u32);
        let port = [80, 443, 25, 22, 8080][random.below(5) as usize];
        let end = begin + random.exponential(LASTING);
        for (time, flags) in [(begin, SYN), (begin, SYN | ACK), (end, FIN | ACK), (end, FIN | ACK)] {
            if (0.0..SECONDS as f64).contains(&time) {
                segments.push(at(time, client, server, port, flags));
            }
        }
    }
    segments
}

/// Returns attempts of one source at ever new hosts, at this rate per second, at random times or equally
/// spaced.
fn horizontal_scan(rate: f64, seed: Option<u64>) -> Segments {
    let mut random = Seed(seed.unwrap_or_default()).stream("scan");
    let mut time = BEGIN;
    let mut segments = Vec::new();
    while time < SECONDS as f64 && segments.len() < 20_000 {
        segments.push(at(time, 5000, 300 + segments.len() as u32, 445, SYN));
        time += if seed.is_some() { random.exponential(1.0 / rate) } else { 1.0 / rate };
    }
    segments
}

/// Returns SYN segments from unused addresses to one host, at this rate per second.
fn flood(rate: f64, seed: u64) -> Segments {
    let mut random = Seed(seed).stream("flood");
    let mut time = BEGIN;
    let mut segments = Vec::new();
    while time < SECONDS as f64 {
        segments.push(at(time, 1_000_000 + random.below(1 << 22) as u32, 9, 80, SYN));
        time += random.exponential(1.0 / rate);
    }
    segments
}

/// Returns the alarms on these segments: the text, and the seconds since the attack began.
fn on_segments(spec: &str, mut segments: Segments) -> Vec<(String, f64)> {
    segments.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let service = &mut *service(spec);
    for (_, frame) in &segments {
        verdict(service, frame);
    }
    let first = segments[0].0;
    let delay = |(alarm, _): (String, u64)| {
        let (what, time) = alarm.split_once(" at ").expect("a time");
        (what.to_owned(), time.parse::<f64>().expect("seconds") - BEGIN)
    };
    assert!(first < 0.1, "periods begin with the background");
    alarms_of(service).into_iter().map(delay).collect()
}

/// Returns the shortest, mean and longest delay.
fn range(delays: &[f64]) -> (f64, f64, f64) {
    let shortest = delays.iter().copied().fold(f64::MAX, f64::min);
    let longest = delays.iter().copied().fold(0.0, f64::max);
    (shortest, delays.iter().sum::<f64>() / delays.len() as f64, longest)
}

const SEEDS: core::ops::Range<u64> = 1..6;

/// No source tries more than about 30 hosts in a window, and the sum of the flood detector stays far below its
/// threshold. With a deviation of .125 per period, the bound is e^-46.
#[test]
fn background_traffic_raises_no_alarm() {
    for seed in SEEDS {
        for spec in ["portscan", "synflood"] {
            assert_eq!(on_segments(spec, background(seed)), [], "{spec}, seed {seed}");
        }
    }
}

/// The 64th attempt raises the alarm, 63 gaps after the first: a gamma distribution.
#[test]
fn horizontal_scans_in_background_traffic_are_found_in_time() {
    for rate in [2.0, 10.0, 100.0, 1000.0] {
        let (mean, deviation) = (63.0 / rate, f64::sqrt(63.0) / rate);
        let delays: Vec<f64> = SEEDS
            .map(|seed| {
                let told = on_segments("portscan", [background(seed), horizontal_scan(rate, Some(seed))].concat());
                assert_eq!((told.len(), told[0].0.as_str()), (1, "horizontal 10.0.19.136 to port 445"), "{told:?}");
                told[0].1
            })
            .collect();
        let (shortest, average, longest) = range(&delays);
        assert!(shortest > mean - 5.0 * deviation && longest < mean + 5.0 * deviation, "{rate}: {delays:?}");
        eprintln!("| {rate}/s | {mean:.3} s | {shortest:.3} to {longest:.3} s, {average:.3} on average |");
    }
    // Equally spaced: 64 hosts in a little over 60 s are found at the 64th, but 60 hosts never are.
    let told = on_segments("portscan", [background(1), horizontal_scan(1.1, None)].concat());
    assert!((told[0].1 - 63.0 / 1.1).abs() < 1e-6, "{told:?}");
    assert_eq!(on_segments("portscan", [background(1), horizontal_scan(1.0, None)].concat()), []);
}

/// With x times as many SYN as closed connections, the sum rises by x - a per period, and the alarm comes at
/// the end of the first period k with k (x - a) > N.
///
/// The bound allows for noise of the background. The number of open connections varies, with a deviation of
/// sqrt(2 * 200) connections of two segments each: .2 of the closings in a period; three deviations are
/// allowed. The average varies by 2 %, of which three are allowed, too. And the first period is not all flood.
#[test]
fn floods_in_background_traffic_are_found_in_time() {
    let periods = |x: f64, noise: f64| ((1.05 + noise) / (x - 0.35)).floor() + 1.0;
    for x in [0.7, 1.0, 2.0, 5.0] {
        let delays: Vec<f64> = SEEDS
            .map(|seed| {
                let told = on_segments("synflood", [background(seed), flood(x * CLOSINGS, seed)].concat());
                assert_eq!((told.len(), told[0].0.as_str()), (1, "flood to 192.0.2.9"), "{told:?}");
                told[0].1
            })
            .collect();
        let (shortest, average, longest) = range(&delays);
        let bound = periods(x * 0.94, 0.6) + 1.0;
        assert!(shortest > 0.0 && longest <= bound, "{x}: {delays:?}");
        let rate = x * CLOSINGS;
        let expected = periods(x, 0.0);
        eprintln!(
            "| {rate}/s, {x} F | {expected} | {bound} s | {shortest:.2} to {longest:.2} s, {average:.2} on average |"
        );
    }
    for seed in SEEDS {
        let told = on_segments("synflood", [background(seed), flood(0.15 * CLOSINGS, seed)].concat());
        assert_eq!(told, [], "less than a F is never found");
    }
}
