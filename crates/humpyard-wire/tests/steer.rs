//! Buckets of connections at one end of a virtual cable. The tests make network namespaces of their own, for which they
//! need root and `ip`. Where they cannot they say so and pass, unless HUMPYARD_REQUIRE_NETNS is 1.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_testkit::network::{Namespace, pair_with_checksums, turn};
use humpyard_wire::{BareProgram, BucketCounters, FLOW_SAMPLE, Hashing, PacketCount, processors};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

const HASHING: Hashing = Hashing { bits: 7, seed: Seed(1), inner: false };
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends UDP packets from `there` on the first processor, `packets` of each of `flows` ports, all of which arrive.
fn send(here: &Namespace, there: &Namespace, flows: u16, packets: u16) {
    let receiver = here.within(|| UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 1), 9000)).unwrap());
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    there.within(|| {
        let mut first = CpuSet::new();
        first.set(0).unwrap();
        sched_setaffinity(Pid::from_raw(0), &first).unwrap();
        for flow in 0..flows {
            let sender = UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 2), 20_000 + flow)).unwrap();
            for _ in 0..packets {
                sender.send_to(&[7; 100], (Ipv4Addr::new(10, 9, 0, 1), 9000)).unwrap();
                let mut room = [0; 200];
                assert_eq!(receiver.recv(&mut room).unwrap(), 100);
            }
        }
    });
}

/// Packets that the second processor has taken through the kernel.
fn packets_of_second() -> u64 {
    processors().unwrap().iter().find(|count| count.processor == 1).map_or(0, |count| count.packets)
}

/// What came for each bucket, on whichever processor.
fn by_bucket(counters: &BucketCounters) -> Vec<PacketCount> {
    let sum = |counts: &[PacketCount]| PacketCount {
        packets: counts.iter().map(|count| count.packets).sum(),
        bytes: counts.iter().map(|count| count.bytes).sum(),
    };
    counters.counts().unwrap().chunks(counters.processors()).map(sum).collect()
}

fn total(counts: &[PacketCount]) -> u64 {
    counts.iter().map(|count| count.packets).sum()
}

#[test]
fn what_arrives_is_counted_by_bucket_and_goes_on() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let counters = here.within(|| BucketCounters::observe("here", HASHING)).unwrap();
    send(&here, &there, 20, 10);
    let counts = by_bucket(&counters);
    let udp: Vec<&PacketCount> = counts.iter().filter(|count| count.packets >= 10).collect();
    assert!(total(&counts) >= 200, "{}", total(&counts));
    assert!((10..=20).contains(&udp.len()), "20 flows in {} of 128 buckets", udp.len());
    assert!(udp.iter().all(|count| count.bytes >= 142 * count.packets / 2), "{udp:?}");
    assert!(counters.cores().unwrap().is_empty());
}

#[test]
#[expect(clippy::print_stderr, reason = "says what was skipped")]
fn each_bucket_goes_to_its_core_and_moves_when_it_is_empty() {
    let Some(_turn) = turn() else { return };
    if std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("SKIPPED: there is no second processor");
        return;
    }
    let (here, there) = pair_with_checksums();
    let (first, second) = (vec![0; HASHING.buckets()], vec![1; HASHING.buckets()]);
    let guard = Duration::from_millis(20);
    let counters = here.within(|| BucketCounters::steer("here", HASHING, &first, guard)).unwrap();
    send(&here, &there, 20, 10);
    assert_eq!(counters.cores().unwrap(), first);
    counters.set(&second).unwrap();
    assert_eq!(counters.cores().unwrap(), first, "buckets move when the next frame comes");
    std::thread::sleep(2 * guard);
    let before = packets_of_second();
    send(&here, &there, 20, 10);
    let moved = counters.cores().unwrap().iter().filter(|&&core| core == 1).count();
    assert!((10..=21).contains(&moved), "{moved} buckets of 20 flows moved");
    assert!(packets_of_second() - before >= 200, "{}", packets_of_second() - before);
    assert!(total(&by_bucket(&counters)) >= 400);
}

#[test]
fn heavy_flows_are_found() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let counters = here.within(|| BucketCounters::observe("here", HASHING)).unwrap();
    send(&here, &there, 1, 2000);
    send(&here, &there, 20, 2);
    let flows = counters.heavy_flows(3).unwrap();
    let heaviest = &flows[0];
    assert_eq!((heaviest.source.to_string(), heaviest.destination.to_string()), ("10.9.0.2".into(), "10.9.0.1".into()));
    assert_eq!((heaviest.ports, heaviest.protocol), ((20_000, 9000), 17));
    let expected = 2000 / FLOW_SAMPLE;
    assert!((expected / 2..2 * expected).contains(&heaviest.count.packets), "{heaviest:?}");
    assert!(counters.heavy_flows(3).unwrap().is_empty(), "each is reported once");
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    let Some(_turn) = turn() else { return };
    let (here, _there) = pair_with_checksums();
    let refusal = |interface| here.within(|| BucketCounters::observe(interface, HASHING)).unwrap_err().to_string();
    assert_eq!(refusal("nowhere").lines().count(), 1);
    assert!(refusal("nowhere").contains("no interface `nowhere`"), "{}", refusal("nowhere"));
    let _first = here.within(|| BucketCounters::observe("here", HASHING)).unwrap();
    assert!(refusal("here").contains("another XDP program has `here`"), "{}", refusal("here"));
}

/// A frame of a UDP flow from this port, bare and in tunnels, all of which are between the same two ends.
fn frames(port: u16) -> Vec<(&'static str, Vec<u8>)> {
    let ethernet = |kind: u16| [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &kind.to_be_bytes()].concat();
    let ipv4 = |protocol: u8, from: [u8; 4], payload: &[u8]| {
        let length = 20 + payload.len() as u16;
        let mut header = vec![0x45, 0];
        header.extend(length.to_be_bytes());
        header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        header.extend([from, [10, 1, 1, 1]].concat());
        [&header[..], payload].concat()
    };
    let udp = |from: u16, to: u16, payload: &[u8]| {
        let length = 8 + payload.len() as u16;
        [&from.to_be_bytes()[..], &to.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
    };
    let inner = ipv4(17, [10, 7, 7, 7], &udp(port, 53, &[1; 20]));
    let framed = [&ethernet(0x0800)[..], &inner].concat();
    let outer = |protocol: u8, payload: &[u8]| [ethernet(0x0800), ipv4(protocol, [172, 16, 0, 9], payload)].concat();
    let behind = |header: &[u8], payload: &[u8]| [header, payload].concat();
    let gtp = |header: &[u8]| outer(17, &udp(2152, 2152, &behind(header, &inner)));
    vec![
        ("bare", framed.clone()),
        ("IP in IP", outer(4, &inner)),
        ("GRE", outer(47, &behind(&[0, 0, 8, 0], &inner))),
        ("GRE with key and number", outer(47, &behind(&[0x30, 0, 8, 0, 9, 9, 9, 9, 0, 0, 0, 1], &inner))),
        ("Ethernet in GRE", outer(47, &behind(&[0, 0, 0x65, 0x58], &framed))),
        ("VXLAN", outer(17, &udp(4242, 4789, &behind(&[8, 0, 0, 0, 0, 0, 7, 0], &framed)))),
        ("GTP-U", gtp(&[0x30, 255, 0, 0, 0, 0, 0, 5])),
        ("GTP-U with number", gtp(&[0x32, 255, 0, 0, 0, 0, 0, 5, 0, 1, 0, 0])),
        ("GTP-U with extension", gtp(&[0x34, 255, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0x85, 1, 0, 9, 0])),
    ]
}

#[test]
fn a_program_is_timed_on_a_frame_which_it_counts() {
    let Some(_turn) = turn() else { return };
    let (here, _there) = pair_with_checksums();
    let counters = here.within(|| BucketCounters::observe("here", HASHING)).unwrap();
    let (_, frame) = &frames(1000)[0];
    let time = counters.time_program(frame, 10_000).unwrap();
    assert!(time > Duration::ZERO && time < Duration::from_millis(1), "{time:?}");
    let counted = by_bucket(&counters).into_iter().map(|count| count.packets).max().unwrap();
    assert!((10_000..10_100).contains(&counted), "{counted}");
    assert!(counters.time_program(&[0; 4], 1).is_err(), "shorter than a header of Ethernet");
    let bare = [BareProgram::pass(), BareProgram::redirect(0)].map(|program| program.unwrap().time(frame, 10_000));
    assert!(bare.into_iter().all(|time| time.unwrap() < Duration::from_millis(1)));
}

/// Sends frames from `there` and returns the bucket that each is counted for.
fn buckets(counters: &BucketCounters, there: &Namespace, frames: &[(&str, Vec<u8>)]) -> Vec<usize> {
    let nothing = || humpyard_traffic::open("gen:poisson:packets=1", Seed(1));
    let mut sink = there
        .within(|| humpyard_wire::open(&[], "iface:there", false, nothing, humpyard_traffic::create))
        .unwrap()
        .sink;
    let mut found = Vec::new();
    for (name, bytes) in frames {
        let before = by_bucket(counters);
        let frame = Frame { wire_length: bytes.len() as u32, data: bytes.clone(), ..Frame::default() };
        sink.write(&frame).unwrap();
        sink.send().unwrap();
        sink.flush().unwrap();
        let begin = std::time::Instant::now();
        let at = loop {
            let now = by_bucket(counters);
            if let Some(at) = (0..now.len()).find(|&at| now[at].packets > before[at].packets) {
                break at;
            }
            assert!(begin.elapsed() < PATIENCE, "{name} does not arrive");
        };
        found.push(at);
    }
    found
}

#[test]
fn packets_in_tunnels_are_hashed_by_the_packet_inside_if_asked() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let (one, other) = (frames(1000), frames(1001));
    let hashing = Hashing { bits: 16, inner: true, ..HASHING };
    let counters = here.within(|| BucketCounters::observe("here", hashing)).unwrap();
    let [inside, of_other] = [&one, &other].map(|frames| buckets(&counters, &there, frames));
    for (((name, _), bucket), other) in one.iter().zip(&inside).zip(&of_other) {
        assert_eq!(*bucket, inside[0], "{name}: not as the bare packet");
        assert_ne!(bucket, other, "{name}: both flows are one");
    }
    drop(counters);
    let outside = here.within(|| BucketCounters::observe("here", Hashing { inner: false, ..hashing })).unwrap();
    let [inside, of_other] = [&one, &other].map(|frames| buckets(&outside, &there, frames));
    assert_eq!(inside[1..], of_other[1..], "by the outer packet both flows are one");
    assert_ne!(inside[0], inside[1]);
}
