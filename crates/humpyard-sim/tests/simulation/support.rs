//! A simulation in a few words.

use core::sync::atomic::AtomicBool;
use std::io::Cursor;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::{CostModel, LinearCost, MovePenalties};
use humpyard_core::frame::Frame;
use humpyard_core::id::{Id, ServiceId};
use humpyard_core::link::{LinkSetup, OutputLink};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::{ExitOrder, FlowOrder, Limits};
use humpyard_core::policy::Topology;
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::{Simulation, Timing, simulate_named};
use humpyard_traffic::pace::{Pace, Pacer};
use humpyard_traffic::{CaptureReader, Classifier, ClassifierConfig, Match, Rule, Source, open};

/// The outcome of a simulation of any policies.
pub(crate) type Outcome = humpyard_sim::Outcome<AnySteer, AnyShare, AnyAllocate>;

/// A service: its packets, its cost, the delay it tolerates in ns, its guarantee in millionths.
pub(crate) type Service = (Match, LinearCost, u64, u32);

/// A simulation, described.
#[derive(Clone, Copy)]
pub(crate) struct Sim<'a> {
    pub(crate) policy: &'a str,
    pub(crate) input: &'a str,
    pub(crate) cores: usize,
    pub(crate) services: &'a [Service],
    pub(crate) packets: usize,
    pub(crate) limits: Limits,
    pub(crate) flow_order: FlowOrder,
    pub(crate) exit: Option<ExitOrder>,
    pub(crate) pace: Pace,
    pub(crate) topology: Option<&'a Topology>,
    pub(crate) moves: MovePenalties,
    pub(crate) link: Option<Link<'a>>,
}

/// The link behind the cores.
#[derive(Clone, Copy)]
pub(crate) struct Link<'a> {
    pub(crate) rate_bps: u64,
    pub(crate) share: &'a str,
    /// Bytes that each service makes of one, in thousandths.
    pub(crate) expansions: &'a [u32],
    pub(crate) queue: Option<u32>,
}

/// Every packet takes 1000 ns.
pub(crate) const UNIT: LinearCost = LinearCost { fixed: 1000, per_byte_milli: 0, cold: 0 };

impl Default for Sim<'_> {
    fn default() -> Self {
        Self {
            policy: "fcfs",
            input: "gen:poisson:packets=100000,pps=900000",
            cores: 1,
            services: &[(Match::Any, UNIT, 2_000_000, 1_000_000)],
            packets: 4096,
            limits: Limits::default(),
            flow_order: FlowOrder::Hold,
            exit: None,
            pace: Pace::Trace,
            topology: None,
            moves: MovePenalties::NONE,
            link: None,
        }
    }
}

impl Sim<'_> {
    /// Simulates it to its end.
    pub(crate) fn go(self) -> Outcome {
        let source = open(self.input, Seed(1)).unwrap_or_else(|error| panic!("{error}"));
        self.with(source, &AtomicBool::new(false))
    }

    /// Simulates it with a capture as its input.
    pub(crate) fn of_capture(self, capture: &[u8]) -> Outcome {
        let source = CaptureReader::new("test.pcap", Cursor::new(capture.to_vec())).expect("a capture");
        self.with(Box::new(source), &AtomicBool::new(false))
    }

    /// Simulates it with this source and stop flag.
    pub(crate) fn with(self, source: Box<dyn Source + Send>, stop: &AtomicBool) -> Outcome {
        let mut progress = |_: u64, _: Option<f64>| {};
        let simulation = self.simulation(source, stop, &mut progress);
        let outcome = simulate_named(simulation, Timing::default()).expect("room for every flow");
        let account = outcome.measured.account();
        assert!(account.balances() && account.held == 0, "{account:?}");
        outcome
    }

    /// The simulation, ready to start.
    pub(crate) fn simulation<'a>(
        &self,
        source: Box<dyn Source + Send>,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(u64, Option<f64>),
    ) -> Simulation<'a, AnySteer, AnyShare, AnyAllocate> {
        let services = || self.services.iter();
        let rule = |(id, service): (usize, &Service)| Rule::of(service.0, ServiceId::from_index(id));
        let rules = services().enumerate().map(rule).collect();
        let classifier = Classifier::new(ClassifierConfig { flows: 8192, rules, ..ClassifierConfig::default() })
            .expect("valid rules");
        let costs: Vec<LinearCost> = services().map(|service| service.1).collect();
        let known: Vec<ServiceConfig> = services()
            .map(|&(matches, _, tolerance_ns, guarantee_millionths)| ServiceConfig {
                name: matches.name().to_owned(),
                packet_time: Time::ZERO,
                switch_cost: Time::ZERO,
                tolerance: Time::from_ns(tolerance_ns),
                guarantee_millionths,
            })
            .collect();
        let setup = SchedulerConfig {
            cores: self.cores,
            topology: self.topology.cloned(),
            flows: 8192,
            clients: classifier.clients_max(),
            packets: self.packets,
            unit: WorkUnit::Nanoseconds,
            longest: costs.iter().map(|cost| cost.work(1514)).max().expect("a service"),
            estimates: costs.clone(),
            services: known,
            limits: self.limits,
            flow_order: self.flow_order,
            exit: self.exit,
            ..SchedulerConfig::default()
        };
        let policy: PolicySpec = self.policy.parse().expect("a registered policy");
        let scheduler = policy.build(&setup).expect("a valid set-up");
        Simulation {
            measured: Measured::new(scheduler, Measurements::new(&setup)),
            cores: self.cores,
            costs: CostModel::new(&setup, costs.iter().copied().collect(), &[]).with_moves(self.moves),
            link: self.link.map(|link| link.build(&setup)),
            swaps: Vec::new(),
            classifier,
            source,
            pacer: Pacer::new(self.pace),
            stop,
            progress,
        }
    }
}

impl Link<'_> {
    fn build(&self, cores: &SchedulerConfig) -> OutputLink<AnySteer, AnyShare, AnyAllocate> {
        let setup = SchedulerConfig {
            cores: 1,
            topology: None,
            unit: WorkUnit::Bytes,
            longest: 2_000,
            estimates: vec![LinearCost::BYTES; cores.services.len()],
            limits: Limits::default(),
            flow_order: FlowOrder::default(),
            ..cores.clone()
        };
        let scheduler = self.share.parse::<PolicySpec>().expect("a policy").build(&setup);
        let measured = Measured::new(scheduler.expect("a valid set-up"), Measurements::new(&setup));
        let link = LinkSetup {
            rate_bps: self.rate_bps,
            expansions: self.expansions.to_vec(),
            chains: Vec::new(),
            withhold_above: self.queue,
        };
        OutputLink::new(link, measured, &setup)
    }
}

/// When the packets of an input arrive, in ns, as the simulator counts.
pub(crate) fn arrivals(input: &str) -> Vec<u64> {
    let mut source = open(input, Seed(1)).unwrap_or_else(|error| panic!("{error}"));
    let mut pacer = Pacer::new(Pace::Trace);
    let mut frame = Frame::default();
    let mut arrivals = Vec::new();
    while source.next(&mut frame).expect("a good source") {
        arrivals.push(pacer.arrival(frame.time).as_ns());
    }
    arrivals
}

/// A capture of packets at these times in us, each of its own length of bytes on Ethernet, that is no IP.
pub(crate) fn capture(packets: &[(u32, u8)]) -> Vec<u8> {
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for &(time_us, length) in packets {
        capture.extend([0; 4]);
        capture.extend(time_us.to_le_bytes());
        capture.extend([length, 0, 0, 0, length, 0, 0, 0]);
        capture.extend(vec![7; usize::from(length)]);
    }
    capture
}
