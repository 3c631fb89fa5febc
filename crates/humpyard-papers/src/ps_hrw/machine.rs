//! The cores of the paper's machine in virtual time: the mechanism decides and measures, and a core takes longer for a
//! packet whose connection it takes over from a core that is far away.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::MovePenalties;
use humpyard_core::id::{CoreId, FlowId, Id, IdVec, Slot};
use humpyard_core::measure::{Measured, Measurements, Summary};
use humpyard_core::mechanism::{Arrival, Limits, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Reach, Steer, Target, Topology, View};
use humpyard_core::random::Seed;
use humpyard_core::storage::IndexedHeap;
use humpyard_core::unit::{Time, Work, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;

use super::paper::COSTS;
use super::workload::Offered;
use humpyard_lab::{Costs, LabError};

/// When packets come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Feed<'a> {
    /// As fast as they are taken: the dispatcher waits while a core has more than so many packets.
    Saturated(u32),
    /// When they arrive.
    Arrivals,
    /// Each connection always has so many packets held, by its number, until its packets are all.
    Windows(&'a [u32]),
}

/// The name of a saturated machine.
pub(super) const SATURATED: &str = "saturated";
/// The name of one to which packets come when they arrive.
pub(super) const LOADED: &str = "load 0.8";

impl Feed<'_> {
    /// Says how packets come.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Saturated(_) => SATURATED,
            Self::Arrivals => LOADED,
            Self::Windows(_) => "windows",
        }
    }
}

/// What decisions take, in ns: the core that gets the packet has to wait for it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct DecisionCost {
    /// Of a packet.
    pub(super) packet: u64,
    /// Of a set of cores that is built anew.
    pub(super) rebuild: u64,
}

/// What is to be run.
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
    /// Whether the real time of decisions is measured.
    pub(super) is_timed: bool,
    /// How many packets may wait for a core, and which goes if there are more.
    pub(super) limits: Limits,
    pub(super) seed: Seed,
}

impl<'a> Trial<'a> {
    /// Prepares a trial without packets on this machine: packets of one client are to come when they arrive, and
    /// decisions take no time.
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

    /// Takes the packets that a workload offers.
    pub(super) fn of(self, offered: &'a Offered) -> Self {
        Self { packets: &offered.packets, flows: offered.flows, ..self }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Came {
    /// From the first arrival to the last completion.
    pub(super) makespan: Time,
    pub(super) summary: Summary,
    /// Sets of cores that were built, by a policy that has them.
    pub(super) rebuilt: u64,
    /// By accepted packet, the real time of the policy, in ns; empty unless it is measured.
    pub(super) decisions: Vec<u64>,
    /// Part of all time of cores in which they had nothing to do while packets waited elsewhere.
    pub(super) idle_while_waiting: f64,
    /// By client, the work that was done, in ns.
    pub(super) served: Vec<u64>,
    /// By client, packets that were dropped.
    pub(super) dropped: Vec<u64>,
    /// By client, all delays in ns, ascending.
    pub(super) delays: Vec<Vec<u64>>,
}

/// What is noted of a steering policy.
#[derive(Debug, Default)]
struct Notes {
    /// Sets of cores that it has built.
    rebuilt: Cell<u64>,
    /// By accepted packet, its real time, with that of reading the clock.
    times: RefCell<Vec<u64>>,
    is_timed: bool,
}

/// A steering policy that is watched.
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
        match &self.policy {
            AnySteer::PsHrw(policy) => self.notes.rebuilt.set(policy.built()),
            AnySteer::GpsHrw(policy) => self.notes.rebuilt.set(policy.built()),
            AnySteer::Ap(policy) => self.notes.rebuilt.set(policy.placed()),
            _ => {}
        }
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

/// Calls of a policy for a packet: it is steered, it has joined, it is done.
const CALLS: u64 = 3;

/// What it takes to read the clock before and after nothing, in ns.
fn clock_ns() -> u64 {
    let mut times: Vec<u64> = (0..1001).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// What a core is doing: the packet in this slot, for so long.
type InService = (Slot, Time);

/// The machine.
struct Machine<'a> {
    trial: Trial<'a>,
    measured: Measured<Noted, AnyShare, AnyAllocate>,
    penalties: MovePenalties,
    in_service: IdVec<CoreId, InService>,
    /// The cores that serve a packet, by the end of that.
    under_way: IndexedHeap<CoreId, Time>,
    /// Packets of each connection that are still to leave.
    left: Vec<u32>,
    /// What the decision for each accepted packet took, by its number.
    decisions: Vec<u64>,
    notes: Rc<Notes>,
    now: Time,
    /// Core time without work while packets waited, in ns.
    idle_ns: u128,
    served: Vec<u64>,
    dropped: Vec<u64>,
    delays: Vec<Vec<u64>>,
    /// Connections whose packets are done, since these were last asked for.
    done: Vec<FlowId>,
}

/// Runs it to the end of the last packet.
///
/// # Errors
/// What a policy refuses.
pub(super) fn run(trial: &Trial<'_>) -> Result<Came, LabError> {
    let mut machine = Machine::new(*trial)?;
    match trial.feed {
        Feed::Saturated(most) => machine.saturate(most),
        Feed::Arrivals => machine.follow(),
        Feed::Windows(windows) => machine.keep_up(windows),
    }
    Ok(machine.came())
}

impl<'a> Machine<'a> {
    fn new(trial: Trial<'a>) -> Result<Self, LabError> {
        let cores = trial.topology.cores();
        let held = match trial.feed {
            Feed::Saturated(most) => cores * (most as usize + 2),
            Feed::Arrivals | Feed::Windows(_) => trial.packets.len(),
        };
        let setup = SchedulerConfig {
            cores,
            topology: Some(trial.topology.clone()),
            flows: trial.flows,
            clients: trial.clients,
            packets: held.max(1),
            unit: WorkUnit::Nanoseconds,
            longest: trial.packets.iter().map(|packet| packet.estimate).max().unwrap_or(1),
            seed: trial.seed,
            limits: trial.limits,
            rendezvous: humpyard_simd::rendezvous(),
            ..SchedulerConfig::default()
        };
        let spec: PolicySpec = format!("estimate=oracle/{}", trial.policy).parse()?;
        let notes = Rc::new(Notes { is_timed: trial.is_timed, ..Notes::default() });
        let steer = spec.build_steer(&setup)?.map(|policy| Noted { policy, notes: Rc::clone(&notes) });
        let mut scheduler = Scheduler::new(&setup, steer, None, || spec.build_share(&setup))?;
        if let Some(estimate) = spec.build_estimate(&setup)? {
            scheduler = scheduler.with_estimate(Box::new(estimate));
        }
        let mut left = vec![0; trial.flows];
        trial.packets.iter().for_each(|packet| left[packet.flow.index()] += 1);
        Ok(Self {
            measured: Measured::new(scheduler, Measurements::new(&setup)),
            penalties: Costs::table(COSTS)?.moves,
            in_service: IdVec::from_fn(cores, |_| (Slot::from_index(0), Time::ZERO)),
            under_way: IndexedHeap::new(cores),
            left,
            decisions: Vec::with_capacity(trial.packets.len()),
            notes,
            now: Time::ZERO,
            idle_ns: 0,
            served: vec![0; trial.clients],
            dropped: vec![0; trial.clients],
            delays: vec![Vec::new(); trial.clients],
            done: Vec::new(),
            trial,
        })
    }

    /// Packets come as fast as they are taken: while a core has more than so many, none comes.
    fn saturate(&mut self, most: u32) {
        let mut packets = self.trial.packets.iter();
        while packets.len() > 0 || self.measured.account().held > 0 {
            while !self.is_full(most)
                && let Some(&packet) = packets.next()
            {
                self.arrive(packet);
            }
            self.hand_out();
            self.pass(None);
        }
    }

    /// Packets come when they arrive.
    fn follow(&mut self) {
        let mut packets = self.trial.packets.iter().peekable();
        while packets.peek().is_some() || !self.under_way.is_empty() {
            self.pass(packets.peek().map(|packet| packet.arrival));
            while let Some(&packet) = packets.next_if(|packet| packet.arrival <= self.now) {
                self.arrive(packet);
            }
            self.hand_out();
        }
    }

    /// Connections have so many packets each, and when one is done the next comes, until the first has none to come.
    fn keep_up(&mut self, windows: &[u32]) {
        let mut of_flow: Vec<VecDeque<Packet>> = vec![VecDeque::new(); windows.len()];
        self.trial.packets.iter().for_each(|&packet| of_flow[packet.flow.index()].push_back(packet));
        for (packets, &window) in of_flow.iter_mut().zip(windows) {
            let first: Vec<Packet> = packets.drain(..(window as usize).min(packets.len())).collect();
            first.into_iter().for_each(|packet| self.arrive(packet));
        }
        self.hand_out();
        while of_flow.iter().all(|packets| !packets.is_empty()) {
            self.pass(None);
            for flow in core::mem::take(&mut self.done) {
                if let Some(packet) = of_flow[flow.index()].pop_front() {
                    self.arrive(packet);
                }
            }
            self.hand_out();
        }
    }

    /// Whether a core has more than so many packets.
    fn is_full(&self, most: u32) -> bool {
        let scheduler = self.measured.scheduler();
        let packets = |core| scheduler.waiting(core).unwrap_or(0) + scheduler.in_service(core);
        self.in_service.ids().any(|core| packets(core) > most)
    }

    /// Goes on to the next event, of which this arrival may be one, and through what cores have done then.
    fn pass(&mut self, arrival: Option<Time>) {
        let done = self.under_way.peek().map(|(time, _)| time);
        let next = Time::earlier(Time::earlier(arrival, done), self.measured.next_timeout());
        let Some(next) = next.map(|next| next.max(self.now)) else { return };
        let busy = self.under_way.len();
        if self.measured.account().held > busy as u64 {
            let idle = self.in_service.len() - busy;
            self.idle_ns += u128::from(next.since(self.now).as_ns()) * idle as u128;
        }
        self.now = next;
        while let Some((_, core)) = self.under_way.peek().filter(|&(time, _)| time <= next) {
            self.complete(core);
        }
        if self.measured.next_timeout().is_some_and(|timeout| timeout <= next) {
            self.measured.on_timeout(next);
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let packet = Packet { arrival: self.now, ..packet };
        let before = self.notes.rebuilt.get();
        match self.measured.on_arrival(self.now, &packet) {
            Arrival::Queued(_) => {
                let DecisionCost { packet, rebuild } = self.trial.decision;
                self.decisions.push(packet + rebuild * (self.notes.rebuilt.get() - before));
            }
            Arrival::Dropped(_) => {
                self.dropped[packet.client.index()] += 1;
                self.leave(packet.flow);
            }
        }
    }

    /// Gives every idle core what it can have.
    fn hand_out(&mut self) {
        while let Some(core) = self.measured.next_core(self.now) {
            let Some(dispatch) = self.measured.next(self.now, core) else { continue };
            let packet = &dispatch.packet;
            let penalty = dispatch.moved.map_or(0, |apart| u64::from(self.penalties.permille(apart)));
            let decision = self.decisions[packet.sequence as usize];
            let busy = Time::from_ns(decision + packet.estimate * (1000 + penalty) / 1000);
            self.in_service[core] = (dispatch.slot, busy);
            self.under_way.set(core, self.now + busy);
        }
    }

    fn complete(&mut self, core: CoreId) {
        self.under_way.remove(core);
        let (slot, busy) = self.in_service[core];
        let packet = self.measured.on_completion(self.now, core, slot, self.now, busy).packet;
        let client = packet.client.index();
        self.served[client] += busy.as_ns();
        self.delays[client].push(self.now.since(packet.arrival).as_ns());
        if let Feed::Windows(_) = self.trial.feed {
            self.done.push(packet.flow);
        }
        self.leave(packet.flow);
    }

    /// A packet of this connection is gone; with the last one it ends.
    fn leave(&mut self, flow: FlowId) {
        let left = &mut self.left[flow.index()];
        *left -= 1;
        if *left == 0 {
            self.measured.on_flow_end(self.now, flow);
        }
    }

    fn came(mut self) -> Came {
        let held = self.measured.account().held;
        assert!(held == 0 || matches!(self.trial.feed, Feed::Windows(_)), "{held} packets are left");
        let summary = self.measured.summary();
        let makespan = Time::from_ns(summary.duration_ns);
        let whole = makespan.as_ns() as f64 * self.in_service.len() as f64;
        let mut decisions = self.notes.times.take();
        let clock = CALLS * if self.trial.is_timed { clock_ns() } else { 0 };
        decisions.iter_mut().for_each(|time| *time = time.saturating_sub(clock));
        self.delays.iter_mut().for_each(|delays| delays.sort_unstable());
        Came {
            makespan,
            summary,
            rebuilt: self.notes.rebuilt.get(),
            decisions,
            idle_while_waiting: self.idle_ns as f64 / whole.max(1.0),
            served: self.served,
            dropped: self.dropped,
            delays: self.delays,
        }
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::id::ClientId;

    use super::*;
    use humpyard_lab::parse_topology;

    /// Packets of 1 us, of these connections, these many us apart.
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

    fn came(policy: &str, packets: &[Packet], feed: Feed<'_>, decision: DecisionCost) -> Came {
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

    /// In turn, a connection goes to a core beside, beyond the cache, beside, beyond the socket, and so on.
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
