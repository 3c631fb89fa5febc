//! Prints statistics of traffic profiles over several seeds: `traffic_statistics [PACKETS [SPECIFICATION
//! ...]]`.
//!
//! Rate, mean length, packets per connection, shares of TCP, UDP and ICMP, standard deviation over mean of
//! packets per millisecond, and the Hurst exponent from 1 to 256 ms; then the time to make a packet. Its output
//! is the table of `docs/reference/traffic.md`.
#![allow(clippy::print_stdout, reason = "a measurement is for people to read")]

use std::time::Instant;

use humpyard_core::{frame::Frame, random::Seed};
use humpyard_traffic::{TrafficError, generate, info, open};

const SEEDS: u64 = 5;
const FLOWS_MAX: usize = 1 << 21;
/// Number of passes; the fastest counts.
const PASSES: usize = 5;

fn main() -> Result<(), TrafficError> {
    let mut arguments = std::env::args().skip(1);
    let packets = arguments.next().unwrap_or_else(|| "1M".into());
    let mut specifications: Vec<String> = arguments.collect();
    if specifications.is_empty() {
        let with_packets =
            generate::entries().into_iter().filter(|entry| entry.parameters.iter().any(|one| one.name == "packets"));
        specifications = with_packets.map(|entry| format!("gen:{}:packets={packets}", entry.name)).collect();
        specifications.insert(1, format!("gen:poisson:packets={packets},mix=services,pps=707k"));
    }
    specifications.iter().try_for_each(|specification| show(specification))
}

fn show(specification: &str) -> Result<(), TrafficError> {
    println!("{specification}");
    for seed in 1..=SEEDS {
        let info = info(&mut *open(specification, Seed(seed))?, FLOWS_MAX)?;
        let protocol = |name: &str| *info.protocols.get(name).unwrap_or(&0) as f64 / info.packets as f64;
        let burstiness = info.burstiness;
        println!(
            "  seed {seed}: {:8.0} pps, {:6.1} B, {:6.2} packets/connection, tcp {:.3} udp {:.3} icmp {:.3} ipv6 {:.3}, sd/mean {:.3}, H {:.2}",
            info.mean_rate_pps.unwrap_or(f64::NAN),
            info.lengths.mean,
            info.packets as f64 / info.connections as f64,
            protocol("tcp"),
            protocol("udp"),
            protocol("icmp") + protocol("icmpv6"),
            info.ipv6_packets as f64 / info.packets as f64,
            burstiness.map_or(f64::NAN, |found| found.relative_deviation),
            burstiness.and_then(|found| found.hurst).map_or(f64::NAN, |hurst| hurst.estimate),
        );
    }
    let passes = (0..PASSES).map(|_| nanoseconds_per_packet(specification)).collect::<Result<Vec<f64>, _>>()?;
    println!("  {:.0} ns per packet", passes.into_iter().fold(f64::INFINITY, f64::min));
    Ok(())
}

/// Returns the time to make a packet with its bytes, in ns.
fn nanoseconds_per_packet(specification: &str) -> Result<f64, TrafficError> {
    let mut source = open(specification, Seed(1))?;
    let mut frame = Frame::with_capacity(2_000);
    let (start, mut packets) = (Instant::now(), 0u32);
    while source.next(&mut frame)? {
        packets += 1;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(packets.max(1)))
}
