//! Checks that a running service allocates nothing. Alone in its file, because it replaces the allocator of the
//! process.

extern crate alloc;

use alloc::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;
use humpyard_services::{Context, DropReason, Generated, Verdict, prepare};

thread_local! {
    /// Allocations of this thread: the test harness allocates in other threads.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a counter.
struct Counting;

// SAFETY: every call goes unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// An IPv6 packet without payload to 2001:db8::`last`.
fn frame(last: u8) -> Frame {
    let mut data = vec![0; 1400];
    data[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    data[18..22].copy_from_slice(&[0x05, 0x00, 17, 255]);
    for at in [22, 38] {
        data[at..at + 4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        data[at + 15] = last;
    }
    Frame { link: LinkType::Ethernet, data, ..Frame::default() }
}

#[test]
fn nothing_is_allocated_per_packet() {
    let spec = "forward:routes=2001:db8::2=out;2001:db8::3=unreachable,icmp-interval=0";
    let mut forward = prepare(&spec.parse().unwrap()).unwrap().make();
    let mut generated = Generated::default();
    let mut frames = [frame(2), frame(3), frame(4)];
    let expected = [Verdict::Forward, Verdict::Drop(DropReason::RouteUnreachable), Verdict::Drop(DropReason::NoRoute)];
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        for (frame, expected) in frames.iter_mut().zip(expected) {
            assert_eq!(forward.process(frame, &Context::default(), &mut generated), expected);
        }
        assert_eq!(generated.len(), 2);
        generated.clear();
    }
    assert_eq!(ALLOCATIONS.get(), before);
    drop(frame(2));
    assert_eq!(ALLOCATIONS.get(), before + 1, "the counter counts");
}

/// TCP segments to ever new ports of ever new hosts: detectors have all their memory from the start.
#[test]
fn detectors_allocate_nothing_whatever_they_find() {
    for spec in ["portscan:ports=2,hosts=2,unused=::/0,interval=0.001,history=2", "synflood:floor=1,period=0.001"] {
        let mut service = prepare(&spec.parse().unwrap()).unwrap().make();
        let mut generated = Generated::default();
        let mut frame = frame(2);
        frame.data[20] = 6;
        frame.data[54 + 13] = 2;
        let before = ALLOCATIONS.get();
        for number in 0..10_000u32 {
            frame.time = Time::from_ns(u64::from(number) * 100_000);
            frame.data[50..54].copy_from_slice(&(number / 3).to_be_bytes());
            frame.data[56..58].copy_from_slice(&(number as u16).to_be_bytes());
            assert_eq!(service.process(&mut frame, &Context::default(), &mut generated), Verdict::Forward);
        }
        assert_eq!(ALLOCATIONS.get(), before, "{spec}");
        assert!(service.counters().iter().any(|counter| counter.name == "alarms" && counter.count > 0), "{spec}");
    }
}

/// Nor does `nat64` allocate, in either direction, while its table fills up and it reports errors.
#[test]
fn nothing_is_allocated_per_translated_packet() {
    let spec = "nat64:prefix=2001:db9::/96,pool=192.0.2.64/32,sessions=4096,icmp-interval=0";
    let mut nat = prepare(&spec.parse().unwrap()).unwrap().make();
    let mut generated = Generated::default();
    let (mut there, mut back) = (Frame::with_capacity(2000), Frame::with_capacity(2000));
    let original = Frame { wire_length: 1334, ..frame(2) };
    let before = ALLOCATIONS.get();
    let mut expired = 0;
    for port in 1024..9000_u16 {
        there.data.clone_from(&original.data);
        there.wire_length = original.wire_length;
        // To 2001:db9::198.51.100.7.
        there.data[41] = 0xb9;
        there.data[50..54].copy_from_slice(&[198, 51, 100, 7]);
        there.data[54..56].copy_from_slice(&port.to_be_bytes());
        there.data[21] = if port % 8 == 0 { 1 } else { 64 };
        let verdict = nat.process(&mut there, &Context::default(), &mut generated);
        if verdict != Verdict::Forward {
            expired += generated.len();
            generated.clear();
            continue;
        }
        // The answer, with a new checksum.
        back.data.clone_from(&there.data);
        back.wire_length = there.wire_length;
        back.data[26..34].rotate_left(4);
        back.data[34..38].rotate_left(2);
        assert_eq!(nat.process(&mut back, &Context::default(), &mut generated), Verdict::Forward);
    }
    assert_eq!(ALLOCATIONS.get(), before);
    assert!(expired > 3000, "{expired}");
}

/// After the first packets no service allocates, for any lengths that it has seen.
#[test]
fn no_service_allocates_per_packet() {
    for spec in [
        "encrypt",
        "encrypt:cipher=cast-128",
        "compress:codec=lz4",
        "compress:codec=deflate",
        "fec:code=8/7",
        "fec:code=8+2",
        "dpi",
        "l7-filter",
        #[cfg(feature = "vectorscan")]
        "l7-filter:engine=vectorscan",
        "firewall:rules=deny+tcp+dport=22;allow+any,state=true",
    ] {
        let mut service = prepare(&spec.parse().unwrap()).unwrap().make();
        let inverse = match spec.split(':').next() {
            Some("encrypt") => spec.replace("encrypt", "decrypt"),
            Some("compress") => "decompress".into(),
            Some("fec") => "fec-decode:groups=4".into(),
            _ => "forward".into(),
        };
        let mut inverse = prepare(&inverse.parse().unwrap()).unwrap().make();
        let mut generated = Generated::default();
        let original = Frame { wire_length: 1400, ..frame(2) };
        let mut frame = Frame::with_capacity(2000);
        let mut serve = |rounds: usize| {
            for round in 0..rounds {
                frame.data.clone_from(&original.data);
                frame.data.truncate(1400 - round % 7 * 100);
                let length = frame.data.len();
                frame.data[18..20].copy_from_slice(&(length as u16 - 54).to_be_bytes());
                frame.wire_length = length as u32;
                assert_eq!(
                    service.process(&mut frame, &Context::default(), &mut generated),
                    Verdict::Forward,
                    "{spec}"
                );
                generated.clear();
                assert_eq!(
                    inverse.process(&mut frame, &Context::default(), &mut generated),
                    Verdict::Forward,
                    "{spec}"
                );
                generated.clear();
            }
        };
        serve(1000);
        let before = ALLOCATIONS.get();
        serve(200);
        assert_eq!(ALLOCATIONS.get(), before, "{spec}");
    }
}
