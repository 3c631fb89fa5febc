//! Shared helpers of the tests: packets, captures, services by name.
#![expect(clippy::print_stderr, reason = "a test that skips must say so")]

use std::path::PathBuf;

use etherparse::PacketBuilder;
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_services::{Context, Generated, Service, Verdict, prepare};
use humpyard_traffic::test_captures::{manifest, traces_directory};
use humpyard_traffic::{CaptureReader, Classifier, ClassifierConfig, Source};
use proptest::prelude::*;

/// Returns the service of this specification.
pub(crate) fn service(spec: &str) -> Box<dyn Service> {
    prepare(&spec.parse().unwrap()).unwrap_or_else(|error| panic!("{spec}: {error}")).make()
}

/// Returns the verdict on one frame, and the frames generated for it.
pub(crate) fn process(service: &mut dyn Service, frame: &mut Frame, context: &Context) -> (Verdict, Vec<Frame>) {
    let mut generated = Generated::new(32, 0);
    let verdict = service.process(frame, context, &mut generated);
    (verdict, generated.frames().to_vec())
}

/// Returns a service's counter of this name.
pub(crate) fn count(service: &dyn Service, name: &str) -> u64 {
    let counters = service.counters();
    let found = counters.iter().find(|counter| counter.name == name);
    found.unwrap_or_else(|| panic!("no counter {name}: {counters:?}")).count
}

/// Returns a frame that starts with its IP header.
pub(crate) fn raw(packet: &[u8]) -> Frame {
    framed(LinkType::RawIp, packet)
}

pub(crate) fn framed(link: LinkType, data: &[u8]) -> Frame {
    Frame { time: Time::from_ns(77), wire_length: data.len() as u32, link, data: data.to_vec(), ..Frame::default() }
}

/// Returns an Ethernet frame with a UDP packet in IPv4.
pub(crate) fn udp(ports: (u16, u16), payload: &[u8]) -> Frame {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
    let mut data = Vec::new();
    let builder = builder.ipv4([198, 51, 100, 7], [203, 0, 113, 9], 64).udp(ports.0, ports.1);
    builder.write(&mut data, payload).unwrap();
    framed(LinkType::Ethernet, &data)
}

/// Returns an Ethernet frame with a UDP packet in IPv6.
pub(crate) fn udp_v6(ports: (u16, u16), payload: &[u8]) -> Frame {
    let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
    let mut data = Vec::new();
    let builder = builder.ipv6(address(7), address(9), 64).udp(ports.0, ports.1);
    builder.write(&mut data, payload).unwrap();
    framed(LinkType::Ethernet, &data)
}

/// Returns the directory of real captures. `None`, with a message: there is none.
pub(crate) fn captures(test: &str) -> Option<PathBuf> {
    let directory = traces_directory();
    if directory.is_none() {
        eprintln!("SKIPPED {test}: there are no real captures; set HUMPYARD_TRACES to their directory");
    }
    directory
}

/// Returns the captures of these folders, in the order of the manifest; no folder means all.
pub(crate) fn files(directory: &std::path::Path, folders: &[&str]) -> Vec<PathBuf> {
    let wanted =
        |file: &str| folders.is_empty() || folders.iter().any(|folder| file.starts_with(&format!("{folder}/")));
    let files = manifest(directory).into_iter().filter(|entry| wanted(&entry.file));
    files.map(|entry| directory.join(entry.file)).collect()
}

/// Visits every frame of a capture, up to any damage, with the context that a driver would give.
pub(crate) fn each_frame(file: &std::path::Path, mut visit: impl FnMut(&Frame, &Context)) {
    let Ok(mut reader) = CaptureReader::open(file) else { return };
    let config = ClassifierConfig { flows: 1 << 16, seed: Seed(1), ..ClassifierConfig::default() };
    let mut classifier = Classifier::new(config).unwrap();
    let mut frame = Frame::default();
    let mut first = None;
    while let Ok(true) = reader.next(&mut frame) {
        let packet = classifier.classify(&frame).unwrap().packet;
        classifier.release(&packet);
        let first = *first.get_or_insert(frame.time);
        visit(&frame, &Context::of(Time::from_ns(frame.time.since(first).as_ns()), &packet));
    }
}

/// Generates any frames: random bytes, and packets with a few bytes changed or cut off.
pub(crate) fn arbitrary_frame() -> impl Strategy<Value = Frame> {
    let link = prop_oneof![
        4 => Just(LinkType::Ethernet),
        2 => Just(LinkType::RawIp),
        1 => Just(LinkType::LinuxCooked),
        1 => Just(LinkType::LinuxCooked2),
        1 => Just(LinkType::Loopback),
        1 => Just(LinkType::Other(7)),
    ];
    let noise = (link, proptest::collection::vec(any::<u8>(), 0..200)).prop_map(|(link, data)| framed(link, &data));
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let payload = proptest::collection::vec(any::<u8>(), 0..300);
    let damaged = (any::<bool>(), payload, changes, any::<prop::sample::Index>(), 0u32..3).prop_map(
        |(v6, payload, changes, cut, beyond)| {
            let mut frame = if v6 { udp_v6((7, 53), &payload) } else { udp((7, 53), &payload) };
            for (at, byte) in changes {
                let at = at.index(frame.data.len());
                frame.data[at] = byte;
            }
            if beyond == 1 {
                frame.data.truncate(cut.index(frame.data.len() + 1));
                frame.wire_length = frame.data.len() as u32;
            } else if beyond == 2 {
                frame.data.truncate(cut.index(frame.data.len() + 1));
            }
            frame
        },
    );
    prop_oneof![noise, damaged]
}
