//! A traffic model of your own in the simulator: eight senders answer a request at the same instant, every millisecond.
//!
//! Such an incast fills queues though the load is small. With four cores and 1 us a packet, the last of 8 × 10
//! packets waits 19 us under a policy that uses all cores; a hash of flows does worse.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;
use std::sync::atomic::AtomicBool;

use humpyard::config::SchedulerConfig;
use humpyard::cost::{CostModel, LinearCost};
use humpyard::frame::{Frame, LinkType};
use humpyard::measure::{Measured, Measurements, Summary};
use humpyard::policies::spec::PolicySpec;
use humpyard::sim::{Simulation, simulate};
use humpyard::traffic::pace::{Pace, Pacer};
use humpyard::traffic::{Classifier, ClassifierConfig, Source, TrafficError};
use humpyard::unit::{Time, WorkUnit};

const SENDERS: u64 = 8;
/// Packets of a sender to each request.
const BURST: u64 = 10;
const REQUESTS: u64 = 100;
const CORES: usize = 4;
const PACKET_NS: u64 = 1000;
const ROOM: usize = 256;

/// Gives the answers of all senders to one request after the other.
struct Incast {
    given: u64,
}

impl Source for Incast {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let (request, number) = (self.given / (SENDERS * BURST), self.given % (SENDERS * BURST));
        if request == REQUESTS {
            return Ok(false);
        }
        self.given += 1;
        frame.time = Time::from_ns(1_000_000 * request);
        frame.link = LinkType::RawIp;
        frame.data.clear();
        frame.data.extend_from_slice(&datagram((number % SENDERS) as u8));
        frame.wire_length = 1000; // The frame holds the headers alone, as a capture with a snapshot length does.
        Ok(true)
    }

    fn description(&self) -> &str {
        "incast"
    }
}

/// Returns the headers of an IPv4 packet with UDP from `10.0.0.sender:9000` to `10.0.1.1:9001`.
fn datagram(sender: u8) -> [u8; 28] {
    let mut bytes = [0; 28];
    (bytes[0], bytes[8], bytes[9]) = (0x45, 64, 17); // Version and header length, time to live, UDP.
    bytes[2..4].copy_from_slice(&1000u16.to_be_bytes());
    bytes[12..16].copy_from_slice(&[10, 0, 0, sender]);
    bytes[16..20].copy_from_slice(&[10, 0, 1, 1]);
    bytes[20..22].copy_from_slice(&9000u16.to_be_bytes());
    bytes[22..24].copy_from_slice(&9001u16.to_be_bytes());
    bytes[24..26].copy_from_slice(&980u16.to_be_bytes());
    bytes
}

fn simulated(policy: &str) -> Result<Summary, Box<dyn Error>> {
    let classifier = Classifier::new(ClassifierConfig { flows: ROOM, ..ClassifierConfig::default() })?;
    let cost = LinearCost { fixed: PACKET_NS, per_byte_milli: 0, cold: 0 };
    let config = SchedulerConfig {
        flows: ROOM,
        clients: classifier.clients_max(),
        unit: WorkUnit::Nanoseconds,
        longest: PACKET_NS,
        estimates: vec![cost],
        ..SchedulerConfig::new(CORES)
    };
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
    let outcome = simulate(Simulation {
        measured: Measured::new(policy.parse::<PolicySpec>()?.build(&config)?, Measurements::new(&config)),
        cores: CORES,
        costs: CostModel::new(&config, [cost].into_iter().collect(), &[]),
        link: None,
        swaps: Vec::new(),
        classifier,
        source: Box::new(Incast { given: 0 }),
        pacer: Pacer::new(Pace::Trace),
        stop: &stop,
        progress: &mut progress,
    })?;
    assert_eq!(outcome.flows, SENDERS, "each sender is a flow");
    assert_eq!(outcome.measured.account().processed, SENDERS * BURST * REQUESTS, "none is dropped");
    Ok(outcome.measured.summary())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (drr, hrw) = (simulated("drr")?, simulated("hrw")?);
    println!("longest delay: {} ns under drr, {} ns under hrw", drr.delay_ns.max, hrw.delay_ns.max);
    // Four cores serve 80 packets of 1 us in 20 us. A hash gives some core three or more of the eight flows.
    assert_eq!(drr.delay_ns.max, SENDERS * BURST / CORES as u64 * PACKET_NS);
    assert!(hrw.delay_ns.max >= drr.delay_ns.max);
    assert_eq!((drr.order.out_of_order, hrw.order.out_of_order), (0, 0), "both keep flows in order");
    Ok(())
}
