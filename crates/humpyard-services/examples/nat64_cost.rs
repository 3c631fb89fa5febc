//! Measures the cost of `nat64` per packet, in ns, in the six directions of the Everest paper's table 2: known
//! connections, new connections, and hosts of the fixed map.
//!
//! `cargo run --release --example nat64_cost`. Bias: the frames and the table are in the caches, and nothing
//! else runs on the core. The time to copy each packet into its buffer is measured separately and subtracted.
#![expect(clippy::print_stdout, reason = "it exists to print the table")]

use std::time::Instant;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_services::{Context, Generated, Service, Verdict, checksum, prepare};

/// Measurements of each case; the fastest one counts.
const ROUNDS: usize = 25;
/// Connections, of one packet each.
const CONNECTIONS: u16 = 4096;
/// Lengths of the IPv4 packets, in bytes: the shortest and the longest on Ethernet.
const LENGTHS: [usize; 2] = [50, 1480];

/// The kind of packet to translate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
    Icmp,
}

fn main() {
    println!("{:>10}  {:>6}  {:>8}  {:>8}  {:>8}", "", "bytes", "known", "new", "fixed");
    for from_v4 in [true, false] {
        for (kind, name) in [(Kind::Tcp, "TCP"), (Kind::Udp, "UDP"), (Kind::Icmp, "ICMP")] {
            for length in LENGTHS {
                let known = cost_ns(kind, length, from_v4, SPEC, true);
                // An IPv4 host cannot open a connection to a host that it does not know.
                let new = (!from_v4).then(|| cost_ns(kind, length, from_v4, SPEC, false));
                let fixed = cost_ns(kind, length, from_v4, FIXED, true);
                let new = new.map_or("-".into(), |ns| format!("{ns:.0}"));
                let way = if from_v4 { "v4->v6" } else { "v6->v4" };
                println!("{way:>6} {name:<4} {length:>6}  {known:>8.0}  {new:>8}  {fixed:>8.0}");
            }
        }
    }
}

const SPEC: &str = "nat64:pool=192.0.2.64/32,sessions=262144";
const FIXED: &str = "nat64:pool=192.0.2.65/32,map=192.0.2.64=2001:db8::21";

/// Returns the least time per packet of all rounds, without the copy.
fn cost_ns(kind: Kind, length: usize, from_v4: bool, spec: &str, known: bool) -> f64 {
    let there: Vec<Frame> = (0..CONNECTIONS).map(|number| frame(kind, length, false, 1024 + number)).collect();
    let back: Vec<Frame> = (0..CONNECTIONS).map(|number| frame(kind, length, true, 1024 + number)).collect();
    let make = || {
        let mut nat = prepare(&spec.parse().expect("a specification")).expect("a service").make();
        if known {
            // The mapping keeps each port number, because there is only one host.
            spend(Some(&mut *nat), &there);
        }
        nat
    };
    let frames = if from_v4 { &back } else { &there };
    let mut nat = make();
    let (mut with, mut copy) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        if !known {
            nat = make();
        }
        with = with.min(spend(Some(&mut *nat), frames));
        copy = copy.min(spend(None, frames));
    }
    with - copy
}

/// Returns the time per packet, in ns. All packets must be forwarded.
fn spend(mut nat: Option<&mut (dyn Service + '_)>, frames: &[Frame]) -> f64 {
    let mut buffer = Frame::with_capacity(2048);
    let mut generated = Generated::default();
    let started = Instant::now();
    for frame in frames {
        (buffer.link, buffer.wire_length) = (frame.link, frame.wire_length);
        buffer.data.clone_from(&frame.data);
        if let Some(nat) = &mut nat {
            let verdict = nat.process(&mut buffer, &Context::default(), &mut generated);
            assert_eq!(verdict, Verdict::Forward);
        }
        std::hint::black_box(&buffer);
    }
    started.elapsed().as_nanos() as f64 / frames.len() as f64
}

/// Returns an Ethernet frame between 2001:db8::21 (or 192.0.2.64, its IPv4 address) and 198.51.100.7: a SYN, a
/// UDP packet or an echo request, or the answer. `length` is that of the IPv4 packet.
fn frame(kind: Kind, length: usize, from_v4: bool, port: u16) -> Frame {
    let carried = length - 20;
    let (mine, peer) = (port.to_be_bytes(), [0, 53]);
    let (source, destination) = if from_v4 { (peer, mine) } else { (mine, peer) };
    let mut content = [source, destination].concat();
    content.resize(carried, 0x5a);
    let (v4, v6, at) = match kind {
        Kind::Tcp => {
            (content[12], content[13]) = (0x50, 2);
            (6, 6, 16)
        }
        Kind::Udp => {
            content[4..6].copy_from_slice(&(carried as u16).to_be_bytes());
            (17, 17, 6)
        }
        Kind::Icmp => {
            content[..2].copy_from_slice(if from_v4 { &[0, 0] } else { &[128, 0] });
            content[4..6].copy_from_slice(&mine);
            (1, 58, 2)
        }
    };
    content[at..at + 2].fill(0);
    let host = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x21];
    let behind = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 198, 51, 100, 7];
    let length = (length as u16).to_be_bytes();
    let carried = (carried as u16).to_be_bytes();
    let (header, pseudo) = if from_v4 {
        let mut header =
            [&[0x45, 0][..], &length, &[0, 1, 0x40, 0, 64, v4, 0, 0, 198, 51, 100, 7, 192, 0, 2, 64]].concat();
        let sum = checksum::checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let pseudo = [&header[12..20], &[0, v4], &carried].concat();
        (header, if kind == Kind::Icmp { Vec::new() } else { pseudo })
    } else {
        let header = [&[0x60, 0, 0, 0][..], &carried, &[v6, 64], &host, &behind].concat();
        let pseudo = [&host[..], &behind, &[0, 0], &carried, &[0, 0, 0, v6]].concat();
        (header, pseudo)
    };
    let sum = checksum::Sum::default().with(&pseudo).with(&content).checksum();
    content[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let ethertype = if from_v4 { [8, 0] } else { [0x86, 0xdd] };
    let data = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype, &header, &content].concat();
    Frame { wire_length: data.len() as u32, link: LinkType::Ethernet, data, ..Frame::default() }
}
