//! The whole data plane: frames from memory are classified, and go through the mechanism with all
//! its measurements to a worker and back.
//!
//! For each packet it does more than an event device. It copies a frame of 60 bytes, reads its
//! headers and finds its flow in a table. It measures delay, order and fairness, and a service
//! reads the frame. Two objects in memory replace the interfaces: a source that repeats the same
//! frames, one for each flow, and a sink that counts.

use core::sync::atomic::AtomicBool;

use humpyard::frame::Frame;
use humpyard::measure::{Measured, Measurements};

use humpyard::config::SchedulerConfig;
use humpyard::policies::spec::PolicySpec;
use humpyard::runtime::{Input, Live};
use humpyard::services::registry::prepare;
use humpyard::traffic::{Classifier, ClassifierConfig, Source, TrafficError};

use crate::work::{Figures, Order, Work};

/// Runs the work. The dispatcher takes the first processor that this thread may use, the worker the second.
pub(crate) fn run(order: Order, work: &Work) -> Figures {
    let config = ClassifierConfig { flows: 4 * work.flows as usize, ..ClassifierConfig::default() };
    let classifier = Classifier::new(config).expect("a classifier that can be");
    let setup = SchedulerConfig {
        flows: 4 * work.flows as usize,
        clients: classifier.clients_max(),
        packets: work.in_flight,
        in_flight: work.depth,
        exit: order.exit(),
        ..SchedulerConfig::default()
    };
    let policy: PolicySpec = order.policy().parse().expect("a registered policy");
    let scheduler = policy.build(&setup).expect("a set-up that can be");
    let services = vec![prepare(&"pass".parse().expect("a name")).expect("a service without parameters")];
    let measured = Measured::new(scheduler, Measurements::new(&setup));
    let input = Input::new(Box::new(Repeated::new(work.flows)), None);
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
    let mut live = Live::new(measured, services, classifier, input, &stop, &mut progress);
    (live.packets, live.workers, live.longest) = (work.in_flight, 1, Some(work.time));
    let outcome = humpyard::runtime::run_named(live).expect("nothing fails in memory");
    assert!(outcome.out.balances() && outcome.measured.account().balances(), "every packet is accounted for");
    assert_eq!(outcome.out.forwarded, outcome.measured.account().arrived, "every packet came through");
    Figures { events: outcome.out.forwarded, time: outcome.wall }
}

/// The same frames again and again.
struct Repeated {
    frames: Vec<[u8; LENGTH]>,
    next: usize,
}

/// The shortest Ethernet frame, without its checksum.
const LENGTH: usize = 60;

impl Repeated {
    /// Returns a source of one frame for each of `flows` flows.
    fn new(flows: u32) -> Self {
        Self { frames: (0..flows).map(datagram).collect(), next: 0 }
    }
}

impl Source for Repeated {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        frame.data.clear();
        frame.data.extend_from_slice(&self.frames[self.next]);
        frame.wire_length = LENGTH as u32;
        self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
        Ok(true)
    }

    fn description(&self) -> &str {
        "frames in memory"
    }
}

/// A UDP datagram over IPv4 with 18 bytes of payload, from 10.0.0.0 + flow.
fn datagram(flow: u32) -> [u8; LENGTH] {
    let mut frame = [0; LENGTH];
    frame[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
    let ip = &mut frame[14..];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&46_u16.to_be_bytes());
    (ip[8], ip[9]) = (64, 17);
    ip[12..16].copy_from_slice(&(0x0a00_0000 + flow).to_be_bytes());
    ip[16..20].copy_from_slice(&[192, 0, 2, 1]);
    ip[20..22].copy_from_slice(&4000_u16.to_be_bytes());
    ip[22..24].copy_from_slice(&53_u16.to_be_bytes());
    ip[24..26].copy_from_slice(&26_u16.to_be_bytes());
    frame
}
