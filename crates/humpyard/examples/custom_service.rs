//! A service of your own on the data plane: it counts the packets of each protocol and drops long ones.
//!
//! A generator makes the packets. Two worker threads serve them, each with its own instance of the service.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use humpyard::config::SchedulerConfig;
use humpyard::frame::Frame;
use humpyard::id::ServiceId;
use humpyard::measure::{Measured, Measurements};
use humpyard::policies::spec::PolicySpec;
use humpyard::random::Seed;
use humpyard::runtime::{Input, Live, run};
use humpyard::services::{Context, Counter, DropReason, Factory, Generated, Service, Verdict};
use humpyard::traffic::{Classifier, ClassifierConfig, Headers, open};

const INPUT: &str = "gen:imix:packets=20000,flows=50";
const WORKERS: usize = 2;

/// The shared state of all instances. It is read only, so it needs no lock.
struct Limits {
    longest: u32,
}

/// Lets packets pass up to a length, and counts them by their IP protocol.
struct Meter {
    limits: Arc<Limits>,
    passed: BTreeMap<u8, u64>,
}

impl Service for Meter {
    fn process(&mut self, frame: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        if frame.wire_length > self.limits.longest {
            return Verdict::Drop(DropReason::TooBig);
        }
        *self.passed.entry(Headers::parse(frame).key.protocol).or_default() += 1;
        Verdict::Forward
    }

    /// The run adds up the counters of all instances.
    fn counters(&self) -> Vec<Counter> {
        self.passed.iter().map(|(protocol, &count)| Counter::new(format!("protocol_{protocol}"), count)).collect()
    }
}

/// Computes the counts that [`Meter`] should have, in one loop over the same packets.
fn expected(longest: u32) -> Result<(BTreeMap<String, u64>, u64), Box<dyn Error>> {
    let (mut source, mut frame) = (open(INPUT, Seed(1))?, Frame::default());
    let (mut passed, mut dropped) = (BTreeMap::new(), 0);
    while source.next(&mut frame)? {
        if frame.wire_length > longest {
            dropped += 1;
        } else {
            *passed.entry(format!("protocol_{}", Headers::parse(&frame).key.protocol)).or_default() += 1;
        }
    }
    Ok((passed, dropped))
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let limits = Arc::new(Limits { longest: 1000 });
    let longest = limits.longest;
    let meter = Factory::new("meter", move || Meter { limits: Arc::clone(&limits), passed: BTreeMap::new() });
    let classifier = Classifier::new(ClassifierConfig { flows: 256, ..ClassifierConfig::default() })?;
    let config = SchedulerConfig {
        flows: 256,
        clients: classifier.clients_max(),
        in_flight: 32,
        ..SchedulerConfig::new(WORKERS)
    };
    // `hrw` keeps each flow on one worker, so flows stay in order.
    let scheduler = "hrw".parse::<PolicySpec>()?.build(&config)?;
    let measured = Measured::new(scheduler, Measurements::new(&config));
    let input = Input::new(open(INPUT, Seed(1))?, None);
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
    let mut live = Live::new(measured, vec![meter], classifier, input, &stop, &mut progress);
    (live.packets, live.workers) = (config.packets, WORKERS);
    let outcome = run(live)?;
    let dropped: Vec<(DropReason, u64)> = outcome.out.dropped().collect();
    let counters = outcome.counters.of(ServiceId(0));
    println!("forwarded {}, dropped {dropped:?}, counted {counters:?}", outcome.out.forwarded);
    assert!(outcome.out.balances() && outcome.panic.is_none(), "every packet is accounted for");
    let (passed, too_long) = expected(longest)?;
    assert!(too_long > 0, "some packets are long");
    assert_eq!(dropped, [(DropReason::TooBig, too_long)]);
    assert_eq!((outcome.out.forwarded, counters), (passed.values().sum(), passed));
    Ok(())
}
