//! VLAN tags that a driver has taken out of frames.

use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_traffic::source::{Polled, Source};
use humpyard_wire::Ports;

use crate::namespace::{End, Pair};
use crate::{PATIENCE, any_frame, open, sink, source};

/// Tags: of a customer with a priority, and of a provider.
const TAGS: [[u8; 4]; 2] = [[0x81, 0, 0x60, 5], [0x88, 0xa8, 0, 7]];

/// The virtual cable, with a bridge at its end `b` to an interface `c`. The bridge's system takes the tag out of what
/// is sent by `c`, and has it beside the frame when it sends that by `b`, as a driver has it.
fn bridged() -> Option<Pair> {
    let pair = Pair::new(1)?;
    for words in [
        // The system takes a frame for too long by the bytes of a tag that is a provider's.
        "link add c mtu 1504 type veth peer name d mtu 1504",
        "link add bridge type bridge forward_delay 0",
        "link set dev d master bridge",
        "link set dev b master bridge",
        "link set dev c up",
        "link set dev d up",
        "link set dev bridge up",
    ] {
        pair.ip(End::B, words);
    }
    Some(pair)
}

/// The frame of this number, of which nine in ten have a tag.
fn any_tagged(number: u32, tag: [u8; 4]) -> Frame {
    let mut frame = any_frame(number);
    if !number.is_multiple_of(10) {
        frame.data.splice(12..12, tag);
        frame.wire_length += 4;
    }
    frame
}

/// Waits for the next frame of ours: the bridge speaks, too.
fn next(source: &mut dyn Source, what: &str) -> Frame {
    let (mut frame, until) = (Frame::default(), Instant::now() + PATIENCE);
    loop {
        if source.poll(&mut frame).unwrap() == Polled::Frame && frame.data[6..12] == any_frame(0).data[6..12] {
            return frame;
        }
        assert!(Instant::now() < until, "nothing comes: {what}");
    }
}

/// Whether something is lost unless the user acts.
fn has_warnings(ports: &Ports) -> bool {
    ports.notes.iter().any(|note| note.is_warning)
}

#[test]
#[expect(clippy::print_stderr, reason = "says what was skipped")]
fn tags_come_in_and_go_out() {
    let Some(pair) = bridged() else { return };
    let mut here = pair.within(End::A, || open(Some("xdp:a:mode=native"), "xdp:a")).unwrap();
    if has_warnings(&here) {
        assert!(std::env::var("HUMPYARD_REQUIRE_NETNS").as_deref() != Ok("1"), "{:?}", here.notes);
        eprintln!("SKIPPED: this kernel does not tell tags: {:?}", here.notes);
        return;
    }
    let (mut from, mut to) = pair.within(End::B, || (sink("iface:c"), source("iface:c")));
    for tag in TAGS {
        for number in 0..500 {
            let sent = any_tagged(number, tag);
            from.write(&sent).unwrap();
            from.send().unwrap();
            let came = next(&mut *here.source, &format!("in, {number} {tag:?}"));
            assert_eq!((came.data == sent.data, came.wire_length), (true, sent.wire_length), "in, {number}: {came:?}");
            here.sink.write(&came).unwrap();
            here.sink.send().unwrap();
            let back = next(&mut *to, &format!("out, {number} {tag:?}"));
            assert_eq!((back.data == sent.data, back.wire_length), (true, sent.wire_length), "out, {number}: {back:?}");
        }
    }
    let received = here.source.received().unwrap().remove(0);
    assert_eq!((received.missed, received.malformed), (0, 0));
}

#[test]
fn a_port_that_loses_tags_says_so() {
    let Some(pair) = Pair::new(1) else { return };
    pair.within(End::A, || {
        let generic = open(Some("xdp:a:mode=generic"), "null:").unwrap();
        let warnings: Vec<_> = generic.notes.iter().filter(|note| note.is_warning).collect();
        assert_eq!(warnings.len(), 1, "{:?}", generic.notes);
        assert!(warnings[0].text.starts_with("xdp:a: VLAN tags are lost"), "{warnings:?}");
        drop(generic);
        assert!(!has_warnings(&open(None, "xdp:a").unwrap()), "what only sends loses none");
    });
}

#[test]
fn a_port_says_how_frames_are_copied() {
    let Some(pair) = Pair::new(1) else { return };
    for (port, says) in [
        ("xdp:a", "xdp:a: the kernel copies frames: the driver "),
        ("xdp:a:copy=copy", "xdp:a: the kernel copies frames: copy=copy asks for it"),
        ("xdp:a:mode=generic", "xdp:a: the kernel copies frames: the program runs behind the driver"),
    ] {
        let opened = pair.within(End::A, || open(Some(port), port)).unwrap();
        assert!(opened.notes[0].text.starts_with(says), "{:?}", opened.notes);
        assert!(!opened.notes[0].is_warning);
    }
}
