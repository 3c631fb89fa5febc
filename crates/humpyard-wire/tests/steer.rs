//! Buckets of connections at one end of a virtual cable. The tests make network namespaces of their own, for which they
//! need root and `ip`. Where they cannot they say so and pass, unless HUMPYARD_REQUIRE_NETNS is 1.

mod steer_frames;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use humpyard_core::random::Seed;
use humpyard_testkit::network::{Namespace, pair_with_checksums, turn};
use humpyard_wire::{BareProgram, BucketCounters, FLOW_SAMPLE, HandOver, Hashing, PacketCount, processors};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::steer_frames::{PATIENCE, buckets, frames};

const HASHING: Hashing = Hashing { bits: 7, seed: Seed(1), inner: false };

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
    steer_frames::by_bucket(&counters.counts().unwrap(), counters.processors())
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
    let count = total(&by_bucket(&counters));
    assert!(count >= 400);
    let HandOver { handed, passed, missing, overtaken } = counters.end().unwrap().unwrap();
    assert!(handed >= count, "{handed} of {count} were handed over");
    assert_eq!((passed, missing, overtaken), (handed, 0, 0), "all came, in order");
}

/// Virtual cables tell the hash that the kernel makes in software: a flow keeps its entry, and flows differ.
#[test]
fn what_arrives_is_counted_by_the_hash_of_the_card() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let counters = here.within(|| BucketCounters::observe_card("here", HASHING)).unwrap();
    send(&here, &there, 20, 10);
    let counts = by_bucket(&counters);
    let used: Vec<u64> = counts.iter().map(|count| count.packets).filter(|&packets| packets >= 10).collect();
    assert!((10..=20).contains(&used.len()), "20 flows in {used:?}");
    assert!(total(&counts) >= 200);
    let queues: u64 = counters.queue_counts().unwrap().iter().map(|count| count.packets).sum();
    assert_eq!(queues, total(&by_bucket(&counters)), "queues and buckets count alike");
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
    assert_eq!(by_bucket(&counters)[heaviest.bucket as usize].packets / 2000, 1, "its bucket has its packets");
    let of_bucket = heaviest.of_bucket.unwrap();
    assert!((heaviest.count.packets..=heaviest.count.packets + 20).contains(&of_bucket), "{heaviest:?}");
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

#[test]
fn packets_in_tunnels_are_hashed_by_the_packet_inside_if_asked() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let (one, other) = (frames(1000), frames(1001));
    let hashing = Hashing { bits: 16, inner: true, ..HASHING };
    let counters = here.within(|| BucketCounters::observe("here", hashing)).unwrap();
    let [inside, of_other] = [&one, &other].map(|frames| buckets(|| by_bucket(&counters), &there, frames));
    for (((name, _), bucket), other) in one.iter().zip(&inside).zip(&of_other) {
        assert_eq!(*bucket, inside[0], "{name}: not as the bare packet");
        assert_ne!(bucket, other, "{name}: both flows are one");
    }
    drop(counters);
    let outside = here.within(|| BucketCounters::observe("here", Hashing { inner: false, ..hashing })).unwrap();
    let [inside, of_other] = [&one, &other].map(|frames| buckets(|| by_bucket(&outside), &there, frames));
    assert_eq!(inside[1..], of_other[1..], "by the outer packet both flows are one");
    assert_ne!(inside[0], inside[1]);
}
