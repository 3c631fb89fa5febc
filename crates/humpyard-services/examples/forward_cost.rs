//! Measures the cost of `forward` per packet, in ns: with small and large tables, and with one, a few, or ever
//! new destinations.
//!
//! `cargo run --release --example forward_cost`. Bias: the frames and the table are in the caches, and nothing
//! else runs on the core.
#![expect(clippy::print_stdout, reason = "it exists to print the table")]

extern crate alloc;

use std::sync::Arc;
use std::time::Instant;

use core::net::{Ipv4Addr, Ipv6Addr};
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::random::Seed;
use humpyard_services::forward::{Forward, ForwardParams, Next, RouteTable};
use humpyard_services::{Context, Generated, Service, Verdict, checksum};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Measurements of each case; the fastest one counts.
const ROUNDS: usize = 15;
const PACKETS_PER_ROUND: usize = 200_000;

fn main() {
    println!("{:>8}  {:>12}  {:>10}  {:>10}", "routes", "destinations", "IPv4 ns", "IPv6 ns");
    for routes in [3, 100_000] {
        let table = Arc::new(table(routes));
        for destinations in [1, 64, 16_384] {
            let [v4, v6] = [frame_v4 as fn(u64) -> Frame, frame_v6].map(|make| cost_ns(&table, destinations, make));
            println!("{routes:>8}  {destinations:>12}  {v4:>10.1}  {v6:>10.1}");
        }
    }
}

/// Returns a table of the default routes and random ones, a few levels deep, half for IPv4 and half for IPv6.
fn table(routes: usize) -> RouteTable {
    let mut table = RouteTable::default();
    let mut random = Seed(1).stream("routes");
    while table.len() < 2 * routes {
        let bits = random.bits();
        let v4 = Ipv4Net::new(address_v4(bits), 12 + (bits % 13) as u8).map(IpNet::V4);
        let v6 = Ipv6Net::new(address_v6(bits), 28 + (bits % 21) as u8).map(IpNet::V6);
        for prefix in [v4, v6].into_iter().flatten() {
            table.insert(prefix, Next::Out);
        }
    }
    table
}

/// Returns the least time per packet of all rounds.
fn cost_ns(table: &Arc<RouteTable>, destinations: u64, make: impl Fn(u64) -> Frame) -> f64 {
    let mut frames: Vec<Frame> = (0..destinations).map(make).collect();
    let mut forward = Forward::with_table(Arc::clone(table), &ForwardParams::default());
    let mut generated = Generated::default();
    let mut best_ns = f64::INFINITY;
    for _ in 0..ROUNDS {
        frames.iter_mut().for_each(refill);
        let mut spent_ns = 0;
        let mut packets = 0;
        while packets < PACKETS_PER_ROUND {
            // The most passes that one time to live allows.
            let passes = 60;
            let start = Instant::now();
            for _ in 0..passes {
                for frame in &mut frames {
                    assert_eq!(forward.process(frame, &Context::default(), &mut generated), Verdict::Forward);
                }
            }
            spent_ns += start.elapsed().as_nanos();
            packets += passes * frames.len();
            frames.iter_mut().for_each(refill);
        }
        best_ns = best_ns.min(spent_ns as f64 / packets as f64);
    }
    best_ns
}

/// Restores a frame's time to live.
fn refill(frame: &mut Frame) {
    if frame.data[14] >> 4 == 6 {
        frame.data[21] = 64;
        return;
    }
    frame.data[22] = 64;
    frame.data[24..26].fill(0);
    let sum = checksum::checksum(&frame.data[14..34]);
    frame.data[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// A 64-byte UDP packet.
fn frame_v4(number: u64) -> Frame {
    let mut data = vec![0; 64];
    data[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00]);
    data[14..26].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0]);
    data[26..30].copy_from_slice(&[10, 0, 0, 1]);
    data[30..34].copy_from_slice(&address_v4(Seed(number).stream("destination").bits()).octets());
    frame(data)
}

/// An 84-byte UDP packet.
fn frame_v6(number: u64) -> Frame {
    let mut data = vec![0; 84];
    data[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd]);
    data[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 30, 17, 64]);
    data[22..38].copy_from_slice(&address_v6(0).octets());
    data[38..54].copy_from_slice(&address_v6(Seed(number).stream("destination").bits()).octets());
    frame(data)
}

fn frame(data: Vec<u8>) -> Frame {
    let mut frame = Frame { wire_length: data.len() as u32, link: LinkType::Ethernet, data, ..Frame::default() };
    refill(&mut frame);
    frame
}

/// Returns an address from 20.0.0.0 to 51.255.255.255, where all addresses may be forwarded.
fn address_v4(random: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits((20 << 24) + (random >> 35) as u32)
}

/// Returns an address in 2000::/3.
fn address_v6(random: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(1 << 125 | u128::from(random >> 3) << 64 | u128::from(random))
}
