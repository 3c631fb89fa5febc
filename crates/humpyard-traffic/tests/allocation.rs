//! Checks that generating, reading and classifying allocate no memory per packet: a long capture allocates as
//! much as a short one. Writing allocates a little memory for each packet, and frees it.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicU64, Ordering};
use std::alloc::System;

use humpyard_core::frame::Frame;
use humpyard_core::id::ServiceId;
use humpyard_core::random::Seed;
use humpyard_traffic::{Classifier, ClassifierConfig, Granularity, Match, Rule, create, open};

/// The system's allocator, with a counter.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns rules that test every field.
fn rules() -> Vec<Rule> {
    let conditions = [
        "port=1-100+8080",
        "source=10.1.0.0/16+fd00:0:0:1::/112",
        "vlan=7,fragment=yes",
        "direction=in",
        "protocol=udp",
    ];
    let rule = |text: &str| {
        let mut rule = Rule::of(Match::Any, ServiceId(1));
        for (name, value) in text.split(',').filter_map(|pair| pair.split_once('=')) {
            rule.conditions.set(name, value).unwrap();
        }
        rule
    };
    conditions.into_iter().map(rule).chain([Rule::of(Match::Any, ServiceId(0))]).collect()
}

/// Copies and classifies a source packet by packet. Returns the allocations after the first packets.
fn allocations(source: &str, destination: &str) -> u64 {
    const WARM_UP: u64 = 2_000;
    let mut source = open(source, Seed(1)).unwrap();
    let mut sink = create(destination).unwrap();
    // Fewer places than flows, so that flows end all the time.
    let config = ClassifierConfig {
        flows: 200,
        granularity: Granularity::Connection,
        rules: rules(),
        ..ClassifierConfig::default()
    };
    let mut classifier = Classifier::new(config).unwrap();
    let mut frame = Frame::with_capacity(2_000);
    let (mut packets, mut before) = (0, 0);
    while source.next(&mut frame).unwrap() {
        packets += 1;
        if packets == WARM_UP {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        let packet = classifier.classify(&frame).unwrap().packet;
        classifier.release(&packet);
        sink.write(&frame).unwrap();
    }
    let after = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(packets > 2 * WARM_UP);
    assert!(classifier.flows().evicted() > 1_000);
    sink.finish().unwrap();
    after - before
}

#[test]
fn no_memory_is_kept_per_packet() {
    const PACKETS: u64 = 20_000;
    let generated = format!("gen:messages:packets={PACKETS}");
    let directory = tempfile::tempdir().unwrap();
    let path = |extension| directory.path().join(format!("a.{extension}")).to_str().unwrap().to_owned();
    assert_eq!(allocations(&generated, "null:"), 0, "generating");
    // First the generator and the writers, then the readers of the written files.
    for extension in ["pcap", "pcapng", "pcap.gz", "pcapng.zst"] {
        // The encoder allocates memory for each record, and frees it.
        assert!(allocations(&generated, &path(extension)) < 6 * PACKETS, "writing {extension}");
    }
    for extension in ["pcap", "pcapng", "pcap.gz", "pcapng.zst"] {
        assert_eq!(allocations(&path(extension), "null:"), 0, "reading {extension}");
    }
}
