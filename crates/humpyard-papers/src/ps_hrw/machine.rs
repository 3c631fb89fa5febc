//! The cores of the paper's machine in virtual time: the scheduler decides and measures, and a core takes
//! longer for a packet whose connection comes from a distant core.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::{MovePenalties, Span};
use humpyard_core::id::{CoreId, FlowId, Id};
use humpyard_core::measure::{Measured, Measurements, Summary};
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Limits, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Reach, Steer, Target, Topology, View};
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Work, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::{Driven, Driver, Packets, TimedCores, Windows, Workload};

use super::paper::COSTS;
use super::workload::Offered;
use crate::harness::{Sees, Watched};
use humpyard_lab::{Costs, LabError};

/// The arrivals of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Feed<'a> {
    /// As fast as possible: the dispatcher waits while a core has more than this many packets.
    Saturated(u32),
    /// At their arrival times.
    Arrivals,
    /// Each connection always has this many packets held, by its number, until its packets run out.
    Windows(&'a [u32]),
}

/// The name of a saturated machine.
pub(super) const SATURATED: &str = "saturated";
/// The name of a machine that gets packets at their arrival times.
pub(super) const LOADED: &str = "load 0.8";

impl Feed<'_> {
    /// Returns the name of these arrivals.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Saturated(_) => SATURATED,
            Self::Arrivals => LOADED,
            Self::Windows(_) => "windows",
        }
    }
}

/// The time of decisions, in ns: the core that gets the packet waits for it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct DecisionCost {
    /// Time per packet.
    pub(super) packet: u64,
    /// Time per rebuilt set of cores.
    pub(super) rebuild: u64,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    /// The policies, one of which steers.
    pub(super) policy: &'a str,
    pub(super) packets: &'a [Packet],
    pub(super) flows: usize,
    pub(super) clients: usize,
    pub(super) feed: Feed<'a>,
    pub(super) topology: &'a Topology,
    pub(super) decision: DecisionCost,
    /// Whether to measure the real time of decisions.
    pub(super) is_timed: bool,
    /// Most packets waiting for a core, and the rule for drops.
    pub(super) limits: Limits,
    pub(super) seed: Seed,
}

impl<'a> Trial<'a> {
    /// Returns a trial without packets on this machine: packets of one client, at their arrival times, with
    /// decisions that take no time.
    pub(super) fn on(topology: &'a Topology, seed: Seed) -> Self {
        Self {
            policy: "",
            packets: &[],
            flows: 0,
            clients: 1,
            feed: Feed::Arrivals,
            topology,
            decision: DecisionCost::default(),
            is_timed: false,
            limits: Limits::default(),
            seed,
        }
    }

    /// Sets the packets of a workload.
    pub(super) fn of(self, offered: &'a Offered) -> Self {
        Self { packets: &offered.packets, flows: offered.flows, ..self }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct MachineRun {
    /// Time from the first arrival to the last completion.
    pub(super) makespan: Time,
    pub(super) summary: Summary,
    /// Number of sets of cores that were built, for a policy with such sets.
    pub(super) rebuilt: u64,
    /// The real time of the policy, in ns, by accepted packet; empty unless measured.
    pub(super) decisions: Vec<u64>,
    /// The part of all core time in which cores were idle while packets waited elsewhere.
    pub(super) idle_while_waiting: f64,
    /// Completed work by client, in ns.
    pub(super) served: Vec<u64>,
    /// Dropped packets by client.
    pub(super) dropped: Vec<u64>,
    /// All delays by client, in ns, ascending.
    pub(super) delays: Vec<Vec<u64>>,
}

/// Observations of a steering policy.
#[derive(Debug, Default)]
struct Notes {
    /// Number of sets of cores that it has built.
    rebuilt: Cell<u64>,
    /// Number of sets that it built for each accepted packet.
    rebuilt_for: RefCell<Vec<u64>>,
    /// The policy's real time for each accepted packet, including that of reading the clock.
    times: RefCell<Vec<u64>>,
    is_timed: bool,
}

impl Notes {
    /// Records the number of sets that the policy has built, after it has steered the packet of this number.
    fn on_steer(&self, number: u64, rebuilt: u64) {
        let before = self.rebuilt.replace(rebuilt);
        let mut rebuilt_for = self.rebuilt_for.borrow_mut();
        let number = number as usize;
        if rebuilt_for.len() <= number {
            rebuilt_for.resize(number + 1, 0);
        }
        // A packet that is not accepted leaves its number to the next one.
        rebuilt_for[number] = rebuilt - before;
    }
}

/// A steering policy under observation.
#[derive(Debug)]
struct Noted {
    policy: AnySteer,
    notes: Rc<Notes>,
}

impl Noted {
    /// Calls the policy for the packet of this number.
    #[inline]
    fn timed<T>(&mut self, number: u64, call: impl FnOnce(&mut AnySteer) -> T) -> T {
        if !self.notes.is_timed {
            return call(&mut self.policy);
        }
        let begun = Instant::now();
        let answer = call(&mut self.policy);
        let time = begun.elapsed().as_nanos() as u64;
        let mut times = self.notes.times.borrow_mut();
        let number = number as usize;
        if times.len() <= number {
            times.resize(number + 1, 0);
        }
        times[number] += time;
        answer
    }
}

impl Policy for Noted {
    fn next_timeout(&self) -> Option<Time> {
        self.policy.next_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.policy.on_timeout(now);
    }
}

impl Steer for Noted {
    fn reach(&self) -> Reach {
        self.policy.reach()
    }

    fn steer(&mut self, now: Time, packet: &Packet, view: &View<'_>) -> Target {
        let target = self.timed(packet.sequence, |policy| policy.steer(now, packet, view));
        let rebuilt = match &self.policy {
            AnySteer::PsHrw(policy) => policy.built(),
            AnySteer::GpsHrw(policy) => policy.built(),
            AnySteer::Ap(policy) => policy.placed(),
            _ => 0,
        };
        self.notes.on_steer(packet.sequence, rebuilt);
        target
    }

    fn on_enqueue(&mut self, now: Time, target: Target, packet: &Packet) {
        self.timed(packet.sequence, |policy| policy.on_enqueue(now, target, packet));
    }

    fn on_drop(&mut self, now: Time, target: Target, packet: &Packet) {
        self.policy.on_drop(now, target, packet);
    }

    fn on_push_out(&mut self, now: Time, target: Target, packet: &Packet) {
        self.policy.on_push_out(now, target, packet);
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, target: Target, packet: &Packet) {
        self.policy.on_dispatch(now, core, target, packet);
    }

    fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        self.policy.on_flow_end(now, flow);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, packet: &Packet, used: Work) {
        self.timed(packet.sequence, |policy| policy.on_completion(now, core, packet, used));
    }
}

/// Calls of a policy per packet: it is steered, it has joined, it is done.
const CALLS: u64 = 3;

/// Returns the time to read the clock before and after nothing, in ns.
fn clock_ns() -> u64 {
    let mut times: Vec<u64> = (0..1001).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Counts of a machine's packets.
#[derive(Debug)]
struct Counts {
    cores: u64,
    /// Packets in service, and all packets held.
    in_service: u64,
    held: u64,
    /// The time of the last event.
    now: Time,
    /// Core time without work while packets waited, in ns.
    idle_ns: u128,
    served: Vec<u64>,
    dropped: Vec<u64>,
    delays: Vec<Vec<u64>>,
}

impl Counts {
    fn new(cores: usize, clients: usize) -> Self {
        Self {
            cores: cores as u64,
            in_service: 0,
            held: 0,
            now: Time::ZERO,
            idle_ns: 0,
            served: vec![0; clients],
            dropped: vec![0; clients],
            delays: vec![Vec::new(); clients],
        }
    }

    fn pass(&mut self, now: Time) {
        if self.held > self.in_service {
            let idle = self.cores - self.in_service;
            self.idle_ns += u128::from(now.since(self.now).as_ns()) * u128::from(idle);
        }
        self.now = now;
    }
}

impl Sees for Counts {
    fn on_arrival(&mut self, now: Time, packet: &Packet, arrival: Arrival) {
        self.pass(now);
        match arrival {
            Arrival::Queued(_) => self.held += 1,
            Arrival::Dropped(_) => self.dropped[packet.client.index()] += 1,
        }
    }

    fn on_dispatch(&mut self, now: Time, _: &Dispatch) {
        self.pass(now);
        self.in_service += 1;
    }

    fn on_completion(&mut self, completed: &Completed, finished: Time, busy: Time) {
        self.pass(finished);
        self.in_service -= 1;
        self.held -= 1;
        let client = completed.packet.client.index();
        self.served[client] += busy.as_ns();
        self.delays[client].push(finished.since(completed.packet.arrival).as_ns());
    }

    fn on_drop(&mut self, dropped: &Dropped) {
        self.held -= 1;
        self.dropped[dropped.packet.client.index()] += 1;
    }
}

type Mechanism = Measured<Noted, AnyShare, AnyAllocate>;

/// Runs the trial to the end of the last packet.
///
/// # Errors
/// If a policy rejects the configuration.
pub(super) fn run(trial: &Trial<'_>) -> Result<MachineRun, LabError> {
    let packets = trial.packets;
    let open = |feed| Packets::new(packets.iter().copied(), feed).with_ends(packets);
    match trial.feed {
        Feed::Saturated(most) => run_with(trial, open(humpyard_sim::Feed::Saturated(most))),
        Feed::Arrivals => run_with(trial, open(humpyard_sim::Feed::Arrivals)),
        Feed::Windows(windows) => run_with(trial, Windows::new(packets, windows)),
    }
}

/// Runs the trial with this workload.
fn run_with(trial: &Trial<'_>, workload: impl Workload<Noted, AnyShare, AnyAllocate>) -> Result<MachineRun, LabError> {
    let notes = Rc::new(Notes { is_timed: trial.is_timed, ..Notes::default() });
    let counts = Watched::new(Counts::new(trial.topology.cores(), trial.clients));
    let measured = mechanism(trial, &notes)?.with_observer(Box::new(counts.clone()));
    let penalties = Costs::table(COSTS)?.moves;
    let cores = TimedCores::new(trial.topology.cores(), |now, _, dispatch: &_| {
        let busy = busy(trial, &notes, penalties, dispatch);
        Span { finished: now + busy, busy }
    });
    let Driven { measured, .. } = Driver::new(measured, workload, cores).drive()?;
    let held = measured.account().held;
    assert!(held == 0 || matches!(trial.feed, Feed::Windows(_)), "{held} packets are left");
    Ok(counts.with(|counts| came(trial, &measured, &notes, counts)))
}

/// Returns the scheduler of a trial, whose steering policy is observed.
fn mechanism(trial: &Trial<'_>, notes: &Rc<Notes>) -> Result<Mechanism, LabError> {
    let held = match trial.feed {
        Feed::Saturated(most) => trial.topology.cores() * (most as usize + 2),
        Feed::Arrivals | Feed::Windows(_) => trial.packets.len(),
    };
    let setup = SchedulerConfig {
        cores: trial.topology.cores(),
        topology: Some(trial.topology.clone()),
        flows: trial.flows,
        clients: trial.clients,
        packets: held.max(1),
        unit: WorkUnit::Nanoseconds,
        longest: trial.packets.iter().map(|packet| packet.estimate).max().unwrap_or(1),
        seed: trial.seed,
        rendezvous: humpyard_simd::rendezvous(),
        limits: trial.limits,
        ..SchedulerConfig::default()
    };
    let spec: PolicySpec = format!("estimate=oracle/{}", trial.policy).parse()?;
    let steer = spec.build_steer(&setup)?.map(|policy| Noted { policy, notes: Rc::clone(notes) });
    let mut scheduler = Scheduler::new(&setup, steer, None, || spec.build_share(&setup))?;
    if let Some(estimate) = spec.build_estimate(&setup)? {
        scheduler = scheduler.with_estimate(Box::new(estimate));
    }
    Ok(Measured::new(scheduler, Measurements::new(&setup)))
}

/// Returns how long a packet keeps its core busy: its decision, its work and its move.
fn busy(trial: &Trial<'_>, notes: &Notes, penalties: MovePenalties, dispatch: &Dispatch<&Packet>) -> Time {
    let packet = &dispatch.packet;
    let rebuilt = notes.rebuilt_for.borrow()[packet.sequence as usize];
    let decision = trial.decision.packet + trial.decision.rebuild * rebuilt;
    let penalty = dispatch.moved.map_or(0, |apart| u64::from(penalties.permille(apart)));
    Time::from_ns(decision + packet.estimate * (1000 + penalty) / 1000)
}

fn came(trial: &Trial<'_>, measured: &Mechanism, notes: &Notes, counts: &mut Counts) -> MachineRun {
    let summary = measured.summary();
    let makespan = Time::from_ns(summary.duration_ns);
    let whole = makespan.as_ns() as f64 * counts.cores as f64;
    let mut decisions = notes.times.take();
    let clock = CALLS * if trial.is_timed { clock_ns() } else { 0 };
    decisions.iter_mut().for_each(|time| *time = time.saturating_sub(clock));
    let mut delays = core::mem::take(&mut counts.delays);
    delays.iter_mut().for_each(|delays| delays.sort_unstable());
    MachineRun {
        makespan,
        summary,
        rebuilt: notes.rebuilt.get(),
        decisions,
        idle_while_waiting: counts.idle_ns as f64 / whole.max(1.0),
        served: core::mem::take(&mut counts.served),
        dropped: core::mem::take(&mut counts.dropped),
        delays,
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::id::ClientId;

    use super::*;
    use humpyard_lab::parse_topology;

    /// Returns packets of 1 us of these connections, spaced by this many us.
    fn packets(flows: &[u32], apart_us: u64) -> Vec<Packet> {
        let packet = |(number, &flow): (usize, &u32)| Packet {
            arrival: Time::from_ns(1_000 * apart_us * number as u64),
            flow: FlowId(flow),
            client: ClientId(flow),
            key: u64::from(flow) * 77,
            length: 100,
            estimate: 1_000,
            ..Packet::default()
        };
        flows.iter().enumerate().map(packet).collect()
    }

    fn came(policy: &str, packets: &[Packet], feed: Feed<'_>, decision: DecisionCost) -> MachineRun {
        let topology = parse_topology("e5355").unwrap();
        let flows = packets.iter().map(|packet| packet.flow.0 + 1).max().unwrap_or(0) as usize;
        let trial = Trial {
            policy,
            packets,
            flows,
            clients: flows,
            feed,
            decision,
            is_timed: true,
            ..Trial::on(&topology, Seed(1))
        };
        run(&trial).unwrap()
    }

    /// In turn, a connection moves to the core beside it, beyond the cache, beside, beyond the socket, and so
    /// on.
    #[test]
    fn moves_take_longer() {
        let came = came("rr", &packets(&[0; 8], 10), Feed::Arrivals, DecisionCost::default());
        let work = 8_000 + 4 * 50 + 2 * 250 + 450;
        assert_eq!(came.served, [work]);
        let cache = came.summary.cache.unwrap();
        assert_eq!((cache.moves, cache.bytes_away), (7, 300));
        assert_eq!(came.idle_while_waiting, 0.0);
        assert_eq!(came.decisions.len(), 8);
    }

    #[test]
    fn decisions_take_time_of_the_core() {
        let cost = DecisionCost { packet: 7, rebuild: 100 };
        let one = came("conn", &packets(&[0; 3], 10), Feed::Arrivals, cost);
        assert_eq!(one.served, [3 * 1_007]);
        let built = came("ps-hrw:beta=1e10", &packets(&[0; 3], 10), Feed::Arrivals, cost);
        assert_eq!((built.rebuilt, built.summary.cache.unwrap().moves), (1, 0));
        assert_eq!(built.served, [3 * 1_007 + 100]);
    }

    /// All packets of a connection are on one core: the dispatcher waits for it, and the others are idle.
    #[test]
    fn a_saturated_machine_keeps_its_dispatcher_waiting() {
        let came = came("conn", &packets(&[0; 100], 0), Feed::Saturated(64), DecisionCost::default());
        assert_eq!(came.makespan, Time::from_ns(100_000));
        assert_eq!(came.delays[0][99], 65_000, "behind 64");
        assert!((came.idle_while_waiting - 7.0 / 8.0 * 0.99).abs() < 1e-9, "{}", came.idle_while_waiting);
    }

    #[test]
    fn connections_keep_their_windows() {
        let all = packets(&[0, 1].repeat(400), 0);
        let came = came("jsq", &all, Feed::Windows(&[24, 8]), DecisionCost::default());
        let share = came.served[0] as f64 / came.served.iter().sum::<u64>() as f64;
        assert!((share - 0.75).abs() < 0.05, "{share}");
        assert_eq!(came.dropped, [0, 0]);
    }
}
