//! Frames in tunnels, and the buckets for which they are counted.

use std::time::{Duration, Instant};

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_testkit::network::Namespace;
use humpyard_wire::PacketCount;

/// How long to wait for a packet.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What came for each bucket, on whichever of the `processors`.
pub(crate) fn by_bucket(counts: &[PacketCount], processors: usize) -> Vec<PacketCount> {
    let sum = |counts: &[PacketCount]| PacketCount {
        packets: counts.iter().map(|count| count.packets).sum(),
        bytes: counts.iter().map(|count| count.bytes).sum(),
    };
    counts.chunks(processors).map(sum).collect()
}

/// A frame of a UDP flow from this port, bare and in tunnels, all of which are between the same two ends.
pub(crate) fn frames(port: u16) -> Vec<(&'static str, Vec<u8>)> {
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

/// Sends frames from `there` and returns the bucket that each is counted for.
pub(crate) fn buckets(
    counts: impl Fn() -> Vec<PacketCount>,
    there: &Namespace,
    frames: &[(&'static str, Vec<u8>)],
) -> Vec<usize> {
    let nothing = || humpyard_traffic::open("gen:poisson:packets=1", Seed(1));
    let mut sink = there
        .within(|| humpyard_wire::open(&[], "iface:there", false, nothing, humpyard_traffic::create))
        .unwrap()
        .sink;
    let mut found = Vec::new();
    for (name, bytes) in frames {
        let before = counts();
        let frame = Frame { wire_length: bytes.len() as u32, data: bytes.clone(), ..Frame::default() };
        sink.write(&frame).unwrap();
        sink.send().unwrap();
        sink.flush().unwrap();
        let begin = Instant::now();
        let at = loop {
            let now = counts();
            if let Some(at) = (0..now.len()).find(|&at| now[at].packets > before[at].packets) {
                break at;
            }
            assert!(begin.elapsed() < PATIENCE, "{name} does not arrive");
        };
        found.push(at);
    }
    found
}
