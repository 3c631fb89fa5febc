//! The live runtime on a virtual clock against the simulator: policies get the same calls, with the
//! same times in the same order, and the same packets leave.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::{CostModel, LinearCost};
use humpyard_core::frame::Frame;
use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId, Id, IdVec, ServiceId};
use humpyard_core::link::{LinkOutcome, LinkSetup, OutputLink};
use humpyard_core::measure::{Measured, Measurements, Summary};
use humpyard_core::mechanism::{self, Account, ExitOrder, Journal, Limits, Record, Scheduler, Split, WhenFull};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Family, Policy, Share, Steer, Target, View};
use humpyard_core::random::Seed;
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work, WorkUnit};
use humpyard_policies::registry::{self, AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::{Clock, Input, Live, Outcome, Overload, run};
use humpyard_services::{Context, DropReason, Factory, Generated, Service, Verdict, prepare};
use humpyard_sim::{Simulation, simulate};
use humpyard_traffic::pace::{Pace, Pacer};
use humpyard_traffic::source::Polled;
use humpyard_traffic::{Classifier, ClassifierConfig, Match, Rule, Sink, Source, TrafficError, open};

/// A call to a sharing policy that shows which packet was where, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Dispatched { now: Time, core: CoreId, sequence: u64, service: ServiceId },
    Completed { now: Time, core: CoreId, sequence: u64, used: Work },
}

/// The record of a run: the calls to its sharing policies, and the journal of the mechanism.
#[derive(Clone, Default)]
struct Log {
    events: Arc<Mutex<Vec<Event>>>,
    journal: Written,
}

/// A journal in memory.
#[derive(Clone, Debug, Default)]
struct Written(Arc<Mutex<Vec<Record>>>);

impl Journal for Written {
    fn record(&mut self, record: Record) {
        self.0.lock().expect("one thread").push(record);
    }
}

/// A sharing policy that records its calls.
struct Noting {
    share: AnyShare,
    log: Log,
}

impl Noting {
    fn note(&self, event: Event) {
        self.log.events.lock().expect("one thread").push(event);
    }
}

impl Policy for Noting {
    fn next_timeout(&self) -> Option<Time> {
        self.share.next_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.share.on_timeout(now);
    }

    fn check(&self) {
        self.share.check();
    }
}

impl Share for Noting {
    fn merges_clients(&self) -> bool {
        self.share.merges_clients()
    }

    fn serves_services(&self) -> bool {
        self.share.serves_services()
    }

    fn admits(&mut self, now: Time, packet: &Packet) -> bool {
        self.share.admits(now, packet)
    }

    fn holds_back(&self) -> bool {
        self.share.holds_back()
    }

    fn continues(&self, core: CoreId) -> bool {
        self.share.continues(core)
    }

    fn on_arrival(&mut self, now: Time, client: ClientId, packet: &Packet, waiting: u32) {
        self.share.on_arrival(now, client, packet, waiting);
    }

    fn on_wake(&mut self, now: Time, client: ClientId, head: &Packet) {
        self.share.on_wake(now, client, head);
    }

    fn on_head(&mut self, now: Time, client: ClientId, head: &Packet) {
        self.share.on_head(now, client, head);
    }

    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
        self.share.pick(now, core)
    }

    fn prefers_cores(&self) -> bool {
        self.share.prefers_cores()
    }

    fn on_push_out(&mut self, now: Time, client: ClientId, packet: &Packet, waiting: u32) {
        self.share.on_push_out(now, client, packet, waiting);
    }

    fn place(&mut self, now: Time, idle: &IdSet<CoreId>) -> CoreId {
        self.share.place(now, idle)
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet) {
        self.note(Event::Dispatched { now, core, sequence: sent.sequence, service: sent.service });
        self.share.on_dispatch(now, core, client, sent);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet, used: Work) {
        self.note(Event::Completed { now, core, sequence: sent.sequence, used });
        self.share.on_completion(now, core, client, sent, used);
    }

    fn on_idle(&mut self, now: Time, client: ClientId) {
        self.share.on_idle(now, client);
    }

    fn on_client_end(&mut self, now: Time, client: ClientId) {
        self.share.on_client_end(now, client);
    }

    fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        self.share.set_weight(now, client, weight);
    }
}

/// A run, described for both drivers.
#[derive(Clone, Copy)]
struct Case<'a> {
    policy: &'a str,
    input: &'a str,
    pace: Option<Pace>,
    cores: usize,
    /// One service, or one for TCP and one for all else.
    services: usize,
    switch_cost_ns: u64,
    packets: usize,
    in_flight: u32,
    overload: Overload,
    longest: Option<Duration>,
    /// Whether each service's packets go through the other one too.
    chains: bool,
    exit: Option<ExitOrder>,
    split: Option<Split>,
    limits: Limits,
    contexts: usize,
    speeds: &'a [u32],
    /// Behind the cores.
    link: Option<Link<'a>>,
}

/// A link behind the cores.
#[derive(Clone, Copy, Debug)]
struct Link<'a> {
    rate_bps: u64,
    share: &'a str,
    queue: Option<u32>,
}

impl Default for Case<'_> {
    fn default() -> Self {
        Self {
            policy: "fcfs",
            input: "gen:messages:packets=4000",
            pace: Some(HALF_MICROSECONDS),
            cores: 3,
            services: 2,
            switch_cost_ns: 3000,
            packets: 5000,
            in_flight: 1,
            overload: Overload::Drop,
            longest: None,
            chains: false,
            exit: None,
            split: None,
            limits: Limits::default(),
            contexts: 1,
            speeds: &[],
            link: None,
        }
    }
}

/// Arrivals that coincide with other events.
const HALF_MICROSECONDS: Pace = Pace::PacketsPerSecond(2e6);

/// Whole microseconds, so that instants are shared; the second service has cold packets.
const COSTS: [LinearCost; 2] =
    [LinearCost { fixed: 1000, per_byte_milli: 0, cold: 0 }, LinearCost { fixed: 1000, per_byte_milli: 0, cold: 1000 }];

/// The results of a driver.
struct Ran {
    summary: Summary,
    account: Account,
    log: Vec<Event>,
    journal: Vec<Record>,
    flows: u64,
    link: Option<LinkOutcome>,
}

impl Case<'_> {
    fn costs(&self) -> &'static [LinearCost] {
        &COSTS[2 - self.services..]
    }

    fn cost_model(&self) -> CostModel {
        let stalls = vec![Time::from_ns(if self.contexts > 1 { 500 } else { 0 }); self.services];
        CostModel::new(&self.config(), self.costs().iter().copied().collect(), &stalls)
    }

    fn classifier(&self) -> Classifier {
        let kinds = if self.services == 1 { &[Match::Any] as &[Match] } else { &[Match::Tcp, Match::Any] };
        let rule = |(id, &matches): (usize, &Match)| Rule::of(matches, ServiceId::from_index(id));
        let rules = kinds.iter().enumerate().map(rule).collect();
        Classifier::new(ClassifierConfig { flows: 8192, rules, ..ClassifierConfig::default() }).expect("valid rules")
    }

    fn source(&self) -> Box<dyn Source + Send> {
        open(self.input, Seed(1)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The mechanism, and the calls to its sharing policies.
    fn measured(&self) -> (Measured<AnySteer, Noting, AnyAllocate>, Log) {
        self.steered(|spec, config| spec.build_steer(config).expect("a valid set-up"))
    }

    /// The mechanism with this steering policy.
    fn steered<S: Steer>(
        &self,
        steer: impl FnOnce(&PolicySpec, &SchedulerConfig) -> Option<S>,
    ) -> (Measured<S, Noting, AnyAllocate>, Log) {
        self.measured_by(&self.config(), steer)
    }

    fn config(&self) -> SchedulerConfig {
        let services = ["first", "second"][..self.services]
            .iter()
            .map(|name| ServiceConfig {
                name: (*name).to_owned(),
                packet_time: Time::from_ns(1000),
                switch_cost: Time::from_ns(self.switch_cost_ns),
                tolerance: Time::from_ns(20_000),
                guarantee_millionths: 1_000_000 / self.services as u32,
            })
            .collect();
        SchedulerConfig {
            cores: self.cores,
            contexts: self.contexts,
            speeds: self.speeds.to_vec(),
            flows: 8192,
            clients: 8192,
            packets: self.packets,
            in_flight: self.in_flight,
            unit: WorkUnit::Nanoseconds,
            longest: 2000,
            // Later clients have higher weights, so that it matters which were present when a core
            // asked.
            weights: (1..=1000).filter_map(Weight::new).collect(),
            estimates: self.costs().to_vec(),
            services,
            limits: self.limits,
            chains: self.chains_of(),
            exit: self.exit,
            split: self.split,
            ..SchedulerConfig::default()
        }
    }

    fn measured_by<S: Steer>(
        &self,
        config: &SchedulerConfig,
        steer: impl FnOnce(&PolicySpec, &SchedulerConfig) -> Option<S>,
    ) -> (Measured<S, Noting, AnyAllocate>, Log) {
        let log = Log::default();
        let spec: PolicySpec = self.policy.parse().expect("a registered policy");
        let share = || Ok(Noting { share: spec.build_share(config)?, log: log.clone() });
        let (steer, allocate) = (steer(&spec, config), spec.build_allocate(config).expect("a valid set-up"));
        let measurements = Measurements::new(config).with_chains(&config.chains);
        let scheduler = Scheduler::new(config, steer, allocate, share).expect("a valid set-up");
        let scheduler = scheduler.with_journal(Box::new(log.journal.clone()));
        (Measured::new(scheduler, measurements), log)
    }

    fn simulated<S: Steer>(&self, (measured, log): (Measured<S, Noting, AnyAllocate>, Log)) -> Ran {
        let outcome = simulate(Simulation {
            measured,
            cores: self.cores,
            costs: self.cost_model(),
            link: self.output_link(&log),
            swaps: Vec::new(),
            classifier: self.classifier(),
            source: self.source(),
            pacer: Pacer::new(self.pace.expect("a simulation has a pace")),
            stop: &AtomicBool::new(false),
            progress: &mut |_, _| {},
        });
        let outcome = outcome.expect("room for every flow");
        ran(&outcome.measured, outcome.link, &log, outcome.flows)
    }

    /// Runs the live driver on a virtual clock, and returns the frames that went out.
    fn live(&self) -> (Ran, Vec<Frame>) {
        self.live_with(self.measured())
    }

    fn live_with<S: Steer>(&self, (measured, log): (Measured<S, Noting, AnyAllocate>, Log)) -> (Ran, Vec<Frame>) {
        let kept = Kept::default();
        let sink = Box::new(kept.clone());
        let link = self.output_link(&log);
        let stop = AtomicBool::new(false);
        let outcome = self.go_through(link, measured, self.source(), sink, &stop, self.forward());
        assert_eq!(outcome.seats.len(), 1, "there is no worker");
        (ran(&outcome.measured, outcome.link, &log, outcome.flows), kept.take())
    }

    fn forward(&self) -> Vec<Factory> {
        // In the simulator packets cannot end before their chain does, so in such runs nothing is
        // dropped.
        let passes = self.chains || self.exit.is_some() || self.link.is_some();
        let service = || match passes {
            true => Factory::new("pass", || Pass),
            false => prepare(&"forward".parse().expect("a name")).expect("a service"),
        };
        (0..self.services).map(|_| service()).collect()
    }

    fn go<S: Steer, Q: Share, A: Allocate>(
        &self,
        measured: Measured<S, Q, A>,
        source: Box<dyn Source + Send>,
        sink: Box<dyn Sink + Send>,
        stop: &AtomicBool,
        services: Vec<Factory>,
    ) -> Outcome<Measured<S, Q, A>> {
        self.go_through(None, measured, source, sink, stop, services)
    }

    /// The link, whose sharing policy records its calls together with those of the cores.
    fn output_link<S: Steer>(&self, log: &Log) -> Option<OutputLink<S, Noting, AnyAllocate>> {
        let link = self.link?;
        let spec: PolicySpec = link.share.parse().expect("a registered policy");
        let setup = SchedulerConfig {
            cores: 1,
            contexts: 1,
            speeds: Vec::new(),
            in_flight: 1,
            unit: WorkUnit::Bytes,
            longest: 4000,
            estimates: vec![LinearCost::BYTES; self.services],
            limits: Limits::default().with_when_full(self.limits.when_full),
            chains: Vec::new(),
            exit: None,
            split: None,
            ..self.config()
        };
        let share = || Ok(Noting { share: spec.build_share(&setup)?, log: log.clone() });
        let scheduler = Scheduler::new(&setup, None, None, share);
        let measured = Measured::new(scheduler.expect("a valid set-up"), Measurements::new(&setup));
        let link = LinkSetup {
            rate_bps: link.rate_bps,
            expansions: vec![1500, 700],
            chains: self.chains_of(),
            withhold_above: link.queue,
        };
        Some(OutputLink::new(link, measured, &setup))
    }

    fn chains_of(&self) -> Vec<Vec<ServiceId>> {
        let chains: &[[u16; 2]] = if self.chains && self.services == 2 { &[[0, 1], [1, 0]] } else { &[] };
        chains.iter().map(|chain| chain.map(ServiceId).into()).collect()
    }

    fn go_through<S: Steer, Q: Share, A: Allocate>(
        &self,
        link: Option<OutputLink<S, Q, A>>,
        measured: Measured<S, Q, A>,
        source: Box<dyn Source + Send>,
        sink: Box<dyn Sink + Send>,
        stop: &AtomicBool,
        services: Vec<Factory>,
    ) -> Outcome<Measured<S, Q, A>> {
        let outcome = run(Live {
            measured,
            packets: self.packets,
            workers: self.cores,
            seats: None,
            hardware: false,
            services,
            classifier: self.classifier(),
            input: Input::new(source, self.pace.map(Pacer::new)),
            sink,
            link,
            quarantine: None,
            overload: self.overload,
            clock: Clock::Virtual(Box::new(self.cost_model())),
            swaps: Vec::new(),
            replacements: None,
            longest: self.longest,
            stop,
            progress: &mut |_, _| {},
            loads: None,
            watched: None,
        });
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", self.policy));
        assert!(outcome.measured.account().balances() && outcome.out.balances(), "{:?}", outcome.out);
        outcome
    }
}

/// Lets every packet pass.
struct Pass;

impl Service for Pass {
    fn process(&mut self, _: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        Verdict::Forward
    }
}

fn ran<S: Steer, Q: Share, A: Allocate>(
    measured: &Measured<S, Q, A>,
    link: Option<LinkOutcome>,
    log: &Log,
    flows: u64,
) -> Ran {
    let journal = core::mem::take(&mut *log.journal.0.lock().expect("one thread"));
    let log = core::mem::take(&mut *log.events.lock().expect("one thread"));
    Ran { summary: measured.summary(), account: *measured.account(), log, journal, flows, link }
}

/// A sink that keeps its frames for the test.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Frame>>>);

impl Kept {
    fn take(&self) -> Vec<Frame> {
        core::mem::take(&mut self.0.lock().expect("one thread"))
    }
}

impl Sink for Kept {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        self.0.lock().expect("one thread").push(frame.clone());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Ok(0)
    }
}

/// The policies with which only a simulation adds the work of a history, or, by a virtual clock, gives packets back.
const SIMULATED: [&str; 4] = ["scr", "ps", "shinjuku", "concord"];

/// Every registered policy that decides something, and does the same in both drivers.
fn policies() -> Vec<&'static str> {
    let decides =
        |entry: &registry::Entry| entry.info.family != Family::Estimate && !SIMULATED.contains(&entry.info.name);
    registry::entries().into_iter().filter(decides).map(|entry| entry.info.name).collect()
}

/// Runs the case with both drivers, compares them, and returns the live results.
fn assert_same(case: &Case<'_>, what: &str) -> (Ran, Vec<Frame>) {
    let (live, frames) = case.live();
    assert_equal(&live, &case.simulated(case.measured()), what);
    (live, frames)
}

fn assert_equal(live: &Ran, simulated: &Ran, what: &str) {
    let differs = live.log.iter().zip(&simulated.log).position(|(live, simulated)| live != simulated);
    if let Some(at) = differs {
        panic!("{what}: event {at} is {:?} live and {:?} simulated", live.log[at], simulated.log[at]);
    }
    let differs = live.journal.iter().zip(&simulated.journal).position(|(live, simulated)| live != simulated);
    if let Some(at) = differs {
        panic!("{what}: record {at} is {:?} live and {:?} simulated", live.journal[at], simulated.journal[at]);
    }
    assert_eq!(live.journal.len(), simulated.journal.len(), "{what}");
    assert_eq!(live.log.len(), simulated.log.len(), "{what}");
    assert_eq!(live.account, simulated.account, "{what}");
    assert_eq!(live.summary, simulated.summary, "{what}");
    assert_eq!(live.flows, simulated.flows, "{what}");
    let figures = |link: &LinkOutcome| {
        (link.account, link.summary.clone(), link.in_all.max(), link.in_all.count(), link.waiting_max, link.withheld)
    };
    assert_eq!(live.link.as_ref().map(figures), simulated.link.as_ref().map(figures), "{what}");
}

#[test]
fn every_policy_is_told_the_same_at_the_same_times() {
    for policy in policies() {
        for (cores, services) in [(1, 1), (3, 1), (3, 2)] {
            for (pace, packets) in [
                (HALF_MICROSECONDS, 5000),
                // More than the cores can do, with few places.
                (Pace::PacketsPerSecond(5e6), 40),
                (Pace::Trace, 5000),
                // All at one instant, with some places.
                (Pace::Stretched(0.0), 300),
            ] {
                let case = Case { policy, cores, services, pace: Some(pace), packets, ..Case::default() };
                let what = format!("{policy} on {cores} cores, {services} services, {pace:?}");
                let (live, _) = assert_same(&case, &what);
                assert!(live.account.processed >= 300 && live.account.held == 0, "{what}: {:?}", live.account);
                assert_eq!(live.account.dropped_total() > 0, packets < 5000, "{what}: {:?}", live.account);
                assert_eq!(live.log.len() as u64, 2 * live.account.processed, "{what}");
            }
        }
    }
}

/// Everything that the mechanism does beside: chains, the exit, packets pushed out, contexts, cores of unequal speed.
#[test]
fn every_feature_of_the_mechanism_goes_in_lockstep() {
    let exit = Some(ExitOrder { packets: 8, timeout: Time::from_ns(4000) });
    let limits = Limits::default().with_queue(12).with_when_full(WhenFull::LongestQueue);
    let (mut pushed_out, mut reordered) = (0, 0);
    for policy in policies() {
        for (chains, exit, limits, contexts, speeds) in [
            (true, None, Limits::default(), 1, &[] as &[u32]),
            (true, exit, limits, 1, &[1000, 500, 2000, 700]),
            (false, exit, limits, 2, &[]),
        ] {
            let pace = Some(Pace::PacketsPerSecond(2.5e6));
            let case =
                Case { policy, cores: 4, chains, exit, limits, contexts, speeds, pace, packets: 60, ..Case::default() };
            let what = format!("{policy}, chains {chains}, exit {exit:?}, {contexts} contexts");
            let (live, _) = assert_same(&case, &what);
            assert!(live.account.processed >= 300 && live.account.held == 0, "{what}: {:?}", live.account);
            pushed_out += live.account.dropped(mechanism::DropReason::PushedOut);
            reordered += live.journal.iter().filter(|record| matches!(record.event, mechanism::Event::Exit(_))).count();
        }
    }
    assert!(pushed_out > 100 && reordered > 100, "{pushed_out} pushed out, {reordered} reordered");
}

/// The link behind the cores sends the same packets at the same times, withholds the same clients,
/// and drops the same packets.
#[test]
fn a_link_goes_in_lockstep() {
    let exit = Some(ExitOrder { packets: 8, timeout: Time::from_ns(4000) });
    let pushes = Limits::default().with_when_full(WhenFull::LongestQueue);
    let (mut withheld, mut dropped, mut pushed_out, mut idle) = (0, 0, 0, 0);
    for policy in policies() {
        let merges = policy.parse::<PolicySpec>().is_ok_and(|policy| !policy.shares());
        for (rate_bps, share, queue, packets, chains, exit, limits) in [
            (1_000_000_000, "wf2q+", Some(4), 5000, false, None, Limits::default()),
            (1_000_000_000, "drr", None, 60, true, None, Limits::default()),
            (3_000_000_000, "fcfs", Some(16), 300, false, exit, Limits::default()),
            (700_000_000, "sfq", Some(2), 60, false, None, pushes),
            (200_000_000_000, "wf2q+", Some(64), 5000, false, None, Limits::default()),
        ] {
            let link = Some(Link { rate_bps, share, queue: queue.filter(|_| !merges) });
            let case = Case { policy, link, packets, chains, exit, limits, ..Case::default() };
            let what = format!("{policy}, {link:?}, {packets} packets, chains {chains}, exit {exit:?}");
            let (live, frames) = assert_same(&case, &what);
            let link = live.link.expect("there is a link");
            assert!(link.account.balances() && link.account.held == 0, "{what}: {:?}", link.account);
            assert_eq!(link.account.arrived, live.account.processed, "{what}");
            assert_eq!(link.account.processed, frames.len() as u64, "{what}");
            withheld += link.withheld;
            dropped += link.account.dropped(mechanism::DropReason::BufferFull);
            pushed_out += link.account.dropped(mechanism::DropReason::PushedOut);
            idle += u64::from(link.summary.cores_detail[0].utilization < 0.5);
        }
    }
    assert!(
        withheld > 100 && dropped > 100 && pushed_out > 100 && idle > 10,
        "{withheld} {dropped} {pushed_out} {idle}"
    );
}

/// Elephants are found at the same packets, split alike, and put back in order at the same times.
#[test]
fn flows_are_split_alike() {
    let split = Some(Split { cores: 2, share_millionths: 100_000, window: Time::from_ns(50_000) });
    let mut waited = 0;
    let steers = |policy: &&str| registry::find(policy).is_some_and(|entry| entry.info.family == Family::Steer);
    for policy in policies().into_iter().filter(steers) {
        for (chains, packets, timeout) in [(false, 5000, 1 << 40), (true, 5000, 1 << 40), (false, 60, 4000)] {
            let exit = Some(ExitOrder { packets: packets as u32, timeout: Time::from_ns(timeout) });
            let pace = Some(Pace::PacketsPerSecond(2.5e6));
            let case = Case { policy, cores: 4, chains, exit, split, pace, packets, ..Case::default() };
            let what = format!("{policy}, chains {chains}, {packets} packets");
            let (live, _) = assert_same(&case, &what);
            assert!(live.account.processed >= 300 && live.account.held == 0, "{what}: {:?}", live.account);
            assert!(timeout == 4000 || live.summary.order.out_of_order == 0, "{what}");
            waited += live.journal.iter().filter(|record| matches!(record.event, mechanism::Event::Exit(_))).count();
        }
    }
    assert!(waited > 100, "{waited} packets waited at the exit");
}

/// Cores switch to another service: at no cost, at once, or slowly enough that packets wait for
/// them.
#[test]
fn switches_end_at_the_same_times() {
    let mut switches = 0;
    for policy in policies().into_iter().filter(|policy| policy.parse::<PolicySpec>().unwrap().allocates()) {
        for switch_cost_ns in [0, 500, 1000, 50_000] {
            for cores in [2, 3, 8] {
                for input in ["gen:messages:packets=20000", "gen:poisson:packets=3000"] {
                    let case = Case { policy, cores, input, switch_cost_ns, packets: 30_000, ..Case::default() };
                    let what = format!("{policy} on {cores} cores, switches of {switch_cost_ns} ns, {input}");
                    switches += assert_same(&case, &what).0.summary.switches;
                }
            }
        }
    }
    assert!(switches > 100, "only {switches} switches");
}

/// Steers by all its calls and their order; wants a timeout every microsecond.
struct Ticking {
    cores: u64,
    state: u64,
    next: Time,
}

impl Policy for Ticking {
    fn next_timeout(&self) -> Option<Time> {
        Some(self.next)
    }

    fn on_timeout(&mut self, now: Time) {
        self.state = mix(self.state ^ 1);
        self.next = now + Time::from_ns(1000);
    }
}

impl Steer for Ticking {
    fn steer(&mut self, now: Time, _: &Packet, _: &View<'_>) -> Target {
        self.state = mix(self.state ^ now.as_ns());
        Target::Core(CoreId((self.state % self.cores) as u16))
    }

    fn on_completion(&mut self, _: Time, core: CoreId, _: &Packet, _: Work) {
        self.state = mix(self.state ^ (2 + u64::from(core.0)));
    }
}

#[test]
fn what_happens_at_one_instant_happens_in_one_order() {
    for pace in [HALF_MICROSECONDS, Pace::PacketsPerSecond(1e6), Pace::PacketsPerSecond(1e5), Pace::Trace] {
        let case = Case { pace: Some(pace), ..Case::default() };
        let measured = || case.steered(|_, _| Some(Ticking { cores: 3, state: 0, next: Time::ZERO }));
        let (live, _) = case.live_with(measured());
        assert_equal(&live, &case.simulated(measured()), &format!("{pace:?}"));
        assert_eq!(live.account.processed, 4000);
    }
}

/// The outgoing frames are what services make of the packets. On each core they are processed in
/// the order in which it got them, and they leave in the order of completion. A service's own
/// frames come before the packet that caused them.
#[test]
fn frames_go_out_when_they_are_done() {
    for policy in policies() {
        let case = Case { policy, ..Case::default() };
        let (live, frames) = case.live();
        assert_eq!(live.account.processed, 4000, "{policy}");
        assert!(frames == expected(&case, &live.log), "{policy}");
    }
}

fn expected(case: &Case<'_>, log: &[Event]) -> Vec<Frame> {
    let mut arrived = Vec::new();
    let (mut source, mut frame) = (case.source(), Frame::default());
    while source.next(&mut frame).expect("a good source") {
        arrived.push(frame.clone());
    }
    let mut benches: Vec<Vec<Box<dyn Service>>> =
        (0..case.cores).map(|_| case.forward().iter().map(Factory::make).collect()).collect();
    let mut generated = Generated::default();
    let mut made: Vec<Vec<Frame>> = vec![Vec::new(); arrived.len()];
    let mut out = Vec::new();
    for &event in log {
        match event {
            Event::Dispatched { core, sequence, service, .. } => {
                let (mut frame, made) = (arrived[sequence as usize].clone(), &mut made[sequence as usize]);
                let verdict =
                    benches[core.index()][service.index()].process(&mut frame, &Context::default(), &mut generated);
                made.extend_from_slice(generated.frames());
                generated.clear();
                made.extend((verdict == Verdict::Forward).then_some(frame));
            }
            Event::Completed { sequence, .. } => out.append(&mut made[sequence as usize]),
        }
    }
    out
}

/// A source that often reports that it has nothing now.
struct Hesitant {
    source: Box<dyn Source + Send>,
    asked: u64,
}

impl Source for Hesitant {
    fn next(&mut self, _: &mut Frame) -> Result<bool, TrafficError> {
        unreachable!("a live run polls")
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        self.asked += 1;
        if self.asked.is_multiple_of(3) { self.source.poll(frame) } else { Ok(Polled::NotYet) }
    }

    fn description(&self) -> &str {
        self.source.description()
    }
}

#[test]
fn a_source_that_keeps_silent_stops_time() {
    for policy in ["drr", "rr", "everest"] {
        let case = Case { policy, ..Case::default() };
        let (measured, log) = case.measured();
        let kept = Kept::default();
        let source = Box::new(Hesitant { source: case.source(), asked: 0 });
        let sink = Box::new(kept.clone());
        let outcome = case.go(measured, source, sink, &AtomicBool::new(false), case.forward());
        let hesitant = ran(&outcome.measured, None, &log, outcome.flows);
        let (plain, frames) = case.live();
        assert_eq!((hesitant.log, hesitant.summary), (plain.log, plain.summary), "{policy}");
        assert!(kept.take() == frames, "{policy}");
    }
}

/// Gives a number of frames, and then nothing for ever; after enough calls it sets the stop flag.
struct Silent {
    source: Box<dyn Source + Send>,
    left: u64,
    asked: u64,
    stop: Arc<AtomicBool>,
}

impl Source for Silent {
    fn next(&mut self, _: &mut Frame) -> Result<bool, TrafficError> {
        unreachable!("a live run polls")
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return self.source.poll(frame);
        }
        self.asked += 1;
        self.stop.store(self.asked > 2500, Ordering::Relaxed);
        Ok(Polled::NotYet)
    }

    fn description(&self) -> &str {
        self.source.description()
    }
}

#[test]
fn a_stop_is_noticed_while_the_source_keeps_silent() {
    let case = Case::default();
    let (measured, _) = case.measured();
    let stop = Arc::new(AtomicBool::new(false));
    let source = Silent { source: case.source(), left: 10, asked: 0, stop: Arc::clone(&stop) };
    let outcome = case.go(measured, Box::new(source), Box::new(Kept::default()), &stop, case.forward());
    assert!(outcome.interrupted);
    assert_eq!((outcome.measured.account().arrived, outcome.measured.account().processed), (10, 10));
}

#[test]
fn hours_pass_in_no_time_and_end_when_they_are_to() {
    let started = Instant::now();
    let pace = Some(Pace::PacketsPerSecond(0.1));
    let (live, _) = assert_same(&Case { policy: "drr", pace, ..Case::default() }, "hours");
    assert!(live.summary.duration_ns > 10 * 3600 * 1_000_000_000);
    let longest = Some(Duration::from_secs(100));
    let (live, _) = Case { policy: "drr", pace, longest, ..Case::default() }.live();
    assert_eq!((live.account.arrived, live.account.processed), (10, 10), "nothing arrives at the end itself");
    let (live, _) = Case { longest: Some(Duration::ZERO), ..Case::default() }.live();
    assert_eq!(live.account.arrived, 0);
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn who_waits_for_room_drops_nothing_in_virtual_time_either() {
    for pace in [None, Some(Pace::PacketsPerSecond(5e6))] {
        for (policy, packets) in [("fcfs", 1), ("hrw", 2), ("drr", 40), ("static", 3)] {
            let case = Case { policy, pace, packets, overload: Overload::Wait, ..Case::default() };
            let (live, _) = case.live();
            assert_eq!((live.account.processed, live.account.dropped_total()), (4000, 0), "{policy} {packets}");
        }
    }
}

/// A core that gets several packets serves one after the other.
#[test]
fn packets_in_flight_take_turns() {
    for (policy, in_flight) in [("fcfs", 2), ("rr", 7), ("drr", 32)] {
        let pace = Some(Pace::PacketsPerSecond(5e6));
        let (live, _) = Case { policy, in_flight, pace, services: 1, ..Case::default() }.live();
        let mut free: IdVec<CoreId, Time> = IdVec::from_fn(3, |_| Time::ZERO);
        let mut given: IdVec<CoreId, Vec<(u64, Time)>> = IdVec::from_fn(3, |_| Vec::new());
        let mut most = 0;
        for event in live.log {
            match event {
                Event::Dispatched { now, core, sequence, .. } => {
                    given[core].push((sequence, now));
                    most = most.max(given[core].len());
                }
                Event::Completed { now, core, sequence, used } => {
                    let (first, dispatched) = given[core].remove(0);
                    assert_eq!(sequence, first, "{policy}");
                    free[core] = free[core].max(dispatched) + Time::from_ns(used);
                    assert_eq!(now, free[core], "{policy}");
                }
            }
        }
        assert!(most > 1 && most <= in_flight as usize, "{policy}: {most}");
    }
}

/// Panics at every tenth packet it sees.
#[derive(Default)]
struct Fragile(u32);

impl Service for Fragile {
    fn process(&mut self, _: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        self.0 += 1;
        assert!(!self.0.is_multiple_of(10), "this panic is part of a test");
        Verdict::Forward
    }
}

#[test]
fn a_panic_takes_the_time_of_its_packet() {
    let case = Case { policy: "drr", services: 1, ..Case::default() };
    let (measured, log) = case.measured();
    let fragile = vec![Factory::new("fragile", Fragile::default)];
    let outcome = case.go(measured, case.source(), Box::new(Kept::default()), &AtomicBool::new(false), fragile);
    let (plain, _) = case.live();
    assert_eq!(ran(&outcome.measured, None, &log, outcome.flows).log, plain.log);
    let [(reason, count)] = outcome.out.dropped().collect::<Vec<_>>()[..] else { panic!("{:?}", outcome.out) };
    assert_eq!(reason, DropReason::ServicePanicked);
    assert!((398..=400).contains(&count), "every tenth of each core: {count}");
}
