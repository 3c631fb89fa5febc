//! Builds a live run in a few words, with a sink that keeps its frames.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::LinearCost;
use humpyard_core::frame::Frame;
use humpyard_core::link::{LinkSetup, OutputLink};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::{Account, ExitOrder, Limits};
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::{
    Clock, Dispatching, Feed, Input, Live, OutAccount, Overload, Part, RunError, Several, Watched, places, run,
    run_named, run_several_named,
};
use humpyard_services::{Factory, prepare};
use humpyard_traffic::pace::{Pace, Pacer};
use humpyard_traffic::{Classifier, ClassifierConfig, Sink, Source, Spread, TrafficError, Tunnels, open};

/// The outcome of a run with any policies.
pub(crate) type Outcome = humpyard_runtime::Outcome<AnyMeasured>;

/// The outcome of a run of several dispatchers.
pub(crate) type SeveralOutcome = humpyard_runtime::Outcome<Vec<Part<AnySteer, AnyShare, AnyAllocate>>>;

type AnyMeasured = Measured<AnySteer, AnyShare, AnyAllocate>;

/// A run, described.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) policy: &'a str,
    pub(crate) input: &'a str,
    pub(crate) service: &'a str,
    /// Makes another service than that.
    pub(crate) factory: Option<fn() -> Factory>,
    /// Makes a second service, which gets no packets unless a mark or a rule sends them.
    pub(crate) second: Option<fn() -> Factory>,
    pub(crate) workers: usize,
    /// Most packets held.
    pub(crate) packets: usize,
    pub(crate) in_flight: u32,
    pub(crate) flows: usize,
    pub(crate) limits: Limits,
    pub(crate) exit: Option<ExitOrder>,
    /// `None`: as fast as packets are taken.
    pub(crate) pace: Option<Pace>,
    pub(crate) overload: Overload,
    pub(crate) longest: Option<Duration>,
    /// Packets that come within this time after the first are not measured.
    pub(crate) warm_up: Time,
    /// The weights of the first clients.
    pub(crate) weights: &'a [u32],
    /// The link behind the cores: bits per second, shared by `wf2q+`, and the most packets of a
    /// client that may wait there.
    pub(crate) link: Option<(u64, Option<u32>)>,
    /// Whether the loop for all policies runs it, even if the policy has its own loop.
    pub(crate) in_general: bool,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Self {
            policy: "hrw",
            input: "gen:messages:packets=20000",
            service: "forward",
            factory: None,
            second: None,
            workers: 2,
            packets: 1024,
            in_flight: 32,
            flows: 8192,
            limits: Limits::default(),
            exit: None,
            pace: None,
            overload: Overload::Wait,
            longest: None,
            warm_up: Time::ZERO,
            weights: &[],
            link: None,
            in_general: false,
        }
    }
}

impl Run<'_> {
    /// Runs it, and returns the outcome and the frames that went out.
    pub(crate) fn go(self) -> (Outcome, Vec<Frame>) {
        let (kept, paced) = (Kept::default(), self.pace.is_some());
        let outcome = self.to(Box::new(kept.clone())).unwrap_or_else(|error| panic!("{}: {error}", self.policy));
        assert_balanced(&outcome);
        let frames = kept.take();
        assert_eq!(frames.len() as u64, outcome.out.forwarded, "what was forwarded is what went out");
        kept.assert_told_of_each(&outcome, paced);
        (outcome, frames)
    }

    /// Runs it into this sink.
    pub(crate) fn to(self, sink: Box<dyn Sink + Send>) -> Result<Outcome, RunError> {
        self.with(self.source(), sink, &AtomicBool::new(false), &mut |_, _| {})
    }

    pub(crate) fn source(self) -> Box<dyn Source + Send> {
        open(self.input, Seed(1)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs it with these sources, sinks and observers.
    pub(crate) fn with(
        self,
        source: Box<dyn Source + Send>,
        sink: Box<dyn Sink + Send>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u64, Option<f64>),
    ) -> Result<Outcome, RunError> {
        self.into(source, sink, None, stop, progress, None)
    }

    /// Runs it while it is watched.
    pub(crate) fn watched(self, watched: Watched, stop: &AtomicBool) -> Outcome {
        let sink = Box::new(Kept::default());
        let outcome = self.into(self.source(), sink, None, stop, &mut |_, _| {}, Some(watched));
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", self.policy));
        assert_balanced(&outcome);
        outcome
    }

    /// Runs it with a quarantine, and returns the outcome, the frames that went out, and those in
    /// the quarantine.
    pub(crate) fn quarantined(self) -> (Outcome, Vec<Frame>, Vec<Frame>) {
        let (kept, quarantine) = (Kept::default(), Kept::default());
        let paced = self.pace.is_some();
        let (sink, aside) = (Box::new(kept.clone()), Box::new(quarantine.clone()));
        let outcome = self.into(self.source(), sink, Some(aside), &AtomicBool::new(false), &mut |_, _| {}, None);
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", self.policy));
        assert_balanced(&outcome);
        kept.assert_told_of_each(&outcome, paced);
        (outcome, kept.take(), quarantine.take())
    }

    /// Runs it with this quarantine.
    pub(crate) fn aside(self, quarantine: Box<dyn Sink + Send>) -> Result<Outcome, RunError> {
        let sink = Box::new(Kept::default());
        self.into(self.source(), sink, Some(quarantine), &AtomicBool::new(false), &mut |_, _| {}, None)
    }

    fn into(
        self,
        source: Box<dyn Source + Send>,
        sink: Box<dyn Sink + Send>,
        quarantine: Option<Box<dyn Sink + Send>>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u64, Option<f64>),
        watched: Option<Watched>,
    ) -> Result<Outcome, RunError> {
        let (measured, classifier) = self.mechanism(self.workers.max(1), self.packets)?;
        let link = self.output_link(classifier.clients_max());
        let live = Live {
            measured,
            packets: self.packets,
            workers: self.workers,
            seats: None,
            hardware: false,
            services: self.services(),
            classifier,
            input: Input::new(source, self.pace.map(Pacer::new)),
            sink,
            link,
            quarantine,
            overload: self.overload,
            clock: Clock::Real,
            swaps: Vec::new(),
            replacements: None,
            longest: self.longest,
            stop,
            progress,
            loads: None,
            watched,
        };
        if self.in_general { run(live) } else { run_named(live) }
    }

    /// Runs it with this number of dispatchers, each with its workers and packets.
    pub(crate) fn on_several(self, dispatchers: usize) -> (SeveralOutcome, Vec<Frame>) {
        let kept = Kept::default();
        let ends = Ends { sink: Some(Box::new(kept.clone())), ..Ends::new(self.source()) };
        let outcome = self.on_several_into(dispatchers, ends, &AtomicBool::new(false));
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", self.policy));
        assert_parts_balance(&outcome);
        let frames = kept.take();
        assert_eq!(frames.len() as u64, outcome.out.forwarded, "what was forwarded is what went out");
        (outcome, frames)
    }

    /// Runs it with this number of dispatchers, and with these sources, sinks and observers.
    pub(crate) fn on_several_into(
        self,
        dispatchers: usize,
        ends: Ends,
        stop: &AtomicBool,
    ) -> Result<SeveralOutcome, RunError> {
        let one = || {
            let (measured, classifier) = self.mechanism(self.workers, self.packets)?;
            Ok::<_, RunError>(Dispatching {
                measured,
                packets: self.packets,
                workers: self.workers,
                classifier,
                replacements: None,
            })
        };
        run_several_named(Several {
            dispatchers: (0..dispatchers).map(|_| one()).collect::<Result<_, _>>()?,
            places: places(&vec![self.workers; dispatchers], ends.sink.is_some()),
            feed: Feed::Shared {
                source: ends.source,
                pacer: self.pace.map(Pacer::new),
                spread: Spread::new(dispatchers, Tunnels::NONE, Seed(1)),
                sink: ends.sink,
            },
            hardware: false,
            services: self.services(),
            quarantine: ends.quarantine,
            overload: self.overload,
            warm_up: self.warm_up,
            longest: self.longest,
            stop,
            progress: &mut |_, _| {},
            loads: None,
            watched: ends.watched,
        })
    }

    fn services(&self) -> Vec<Factory> {
        let first = match self.factory {
            Some(make) => make(),
            None => prepare(&self.service.parse().expect("a name")).expect("a valid service"),
        };
        [first].into_iter().chain(self.second.map(|make| make())).collect()
    }

    fn weights(&self) -> Vec<Weight> {
        self.weights.iter().filter_map(|&weight| Weight::new(weight)).collect()
    }

    /// The link behind the cores, if there is one, with twice their room.
    fn output_link(&self, clients: usize) -> Option<OutputLink<AnySteer, AnyShare, AnyAllocate>> {
        let (rate_bps, withhold_above) = self.link?;
        let services = 1 + usize::from(self.second.is_some());
        let setup = SchedulerConfig {
            cores: 1,
            flows: self.flows,
            clients,
            packets: 2 * self.packets,
            unit: WorkUnit::Bytes,
            longest: 2000,
            weights: self.weights(),
            estimates: vec![LinearCost::BYTES; services],
            services: vec![ServiceConfig::default(); services],
            ..SchedulerConfig::default()
        };
        let share: PolicySpec = "wf2q+".parse().expect("a registered policy");
        let scheduler = share.build(&setup).expect("a valid set-up");
        let measured = Measured::new(scheduler, Measurements::new(&setup));
        let link = LinkSetup { rate_bps, expansions: Vec::new(), chains: Vec::new(), withhold_above };
        Some(OutputLink::new(link, measured, &setup))
    }

    /// Returns the mechanism for this number of cores and packets, and its classifier.
    fn mechanism(&self, cores: usize, packets: usize) -> Result<(AnyMeasured, Classifier), RunError> {
        let classifier = Classifier::new(ClassifierConfig { flows: self.flows, ..ClassifierConfig::default() })?;
        let services = ["forward", "second"].map(|name| ServiceConfig {
            name: name.to_owned(),
            tolerance: Time::from_ns(2_000_000),
            ..ServiceConfig::default()
        });
        let services = &services[..1 + usize::from(self.second.is_some())];
        let estimate = LinearCost { fixed: 60, per_byte_milli: 20, cold: 0 };
        let setup = SchedulerConfig {
            cores,
            flows: self.flows,
            clients: classifier.clients_max(),
            packets,
            in_flight: self.in_flight,
            unit: WorkUnit::Nanoseconds,
            longest: estimate.work(1514),
            weights: self.weights(),
            estimates: vec![estimate; services.len()],
            services: services.to_vec(),
            limits: self.limits,
            exit: self.exit,
            ..SchedulerConfig::default()
        };
        let policy: PolicySpec = self.policy.parse().expect("a registered policy");
        let scheduler = policy.build(&setup).expect("a valid set-up");
        Ok((Measured::new(scheduler, Measurements::new(&setup).with_warm_up(self.warm_up)), classifier))
    }
}

/// The source and sink of a run of several dispatchers, and its observer.
pub(crate) struct Ends {
    pub(crate) source: Box<dyn Source + Send>,
    pub(crate) sink: Option<Box<dyn Sink + Send>>,
    pub(crate) quarantine: Option<Box<dyn Sink + Send>>,
    pub(crate) watched: Option<Watched>,
}

impl Ends {
    pub(crate) fn new(source: Box<dyn Source + Send>) -> Self {
        Self { source, sink: None, quarantine: None, watched: None }
    }
}

/// Panics unless the accounts of each dispatcher and of all balance and agree, and no packet is
/// held.
pub(crate) fn assert_parts_balance(outcome: &SeveralOutcome) {
    assert_eq!(outcome.unaccounted, None);
    let mut sum = Account::default();
    for part in &outcome.measured {
        let (account, out) = (part.measured.account(), &part.out);
        assert!(account.balances() && out.balances(), "{account:?} {out:?}");
        assert_eq!((account.processed, account.held, out.held), (out.processed, 0, 0), "{account:?} {out:?}");
        sum.add(account);
    }
    assert!(sum.balances() && outcome.out.balances(), "{sum:?} {:?}", outcome.out);
    assert_eq!(sum.processed, outcome.out.processed);
    assert_eq!(outcome.measured.iter().map(|part| part.flows).sum::<u64>(), outcome.flows);
}

/// Panics unless both accounts balance and agree, and no packet is held.
pub(crate) fn assert_balanced(outcome: &Outcome) {
    let (account, out): (&Account, &OutAccount) = (outcome.measured.account(), &outcome.out);
    assert!(account.balances() && out.balances(), "{account:?} {out:?}");
    assert_eq!((account.processed, account.held, out.held), (out.processed, 0, 0), "{account:?} {out:?}");
    if let Some(link) = &outcome.link {
        assert!(link.account.balances() && link.account.held == 0, "{:?}", link.account);
        assert_eq!(link.account.processed, out.forwarded, "{out:?}");
        for (reason, count) in out.dropped_at_link() {
            assert_eq!(count, link.account.dropped(reason), "{out:?}");
        }
    }
    let summary = outcome.measured.summary();
    assert_eq!(summary.cores_detail.iter().map(|core| core.packets).sum::<u64>(), account.processed);
    assert_eq!(summary.services.iter().map(|service| service.packets).sum::<u64>(), account.processed);
}

/// A sink that keeps its frames for the test.
#[derive(Clone, Default)]
pub(crate) struct Kept {
    written: Arc<Mutex<Vec<Frame>>>,
    /// Frames that the run reported as discarded.
    discarded: Arc<AtomicU64>,
}

impl Kept {
    /// Panics unless every frame that came in was written or discarded exactly once. In a paced
    /// run, one more frame may have been read whose time had not come at the end.
    fn assert_told_of_each(&self, outcome: &Outcome, paced: bool) {
        let ended = self.discarded.load(Ordering::Relaxed) + outcome.out.forwarded;
        let came = outcome.measured.account().arrived + outcome.out.generated;
        assert!((came..=came + u64::from(paced)).contains(&ended), "each is written or discarded: {ended} of {came}");
    }

    pub(crate) fn take(&self) -> Vec<Frame> {
        core::mem::take(&mut self.written.lock().expect("no writer panicked"))
    }
}

impl Sink for Kept {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        self.written.lock().expect("no reader panicked").push(frame.clone());
        Ok(())
    }

    fn discard(&mut self, _: &Frame) -> Result<(), TrafficError> {
        self.discarded.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Ok(self.written.lock().expect("no reader panicked").len() as u64)
    }
}

/// Every frame of a source.
pub(crate) fn frames(input: &str) -> Vec<Frame> {
    let mut source = Run { input, ..Run::default() }.source();
    let mut frame = Frame::default();
    let mut frames = Vec::new();
    while source.next(&mut frame).expect("a good source") {
        frames.push(frame.clone());
    }
    frames
}
