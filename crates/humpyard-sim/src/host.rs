//! The host of the cores. Its threads read packets, decide, hand packets over and take them back.
//! Each step takes time, which a simulation of cores alone leaves out.
//!
//! [`Host`] is the loop of `humpyard_runtime`'s dispatcher in virtual time. Its steps are: take
//! back the packets that cores have served, take in at most a burst, hand out, and serve the
//! packets of its own cores. Each step takes the time given in [`HostCosts`].

use core::cmp::Reverse;
use core::mem;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};

use humpyard_core::cost::{CostModel, Span};
use humpyard_core::id::{CoreId, Id, IdVec, Slot};
use humpyard_core::measure::{Histogram, Measured};
use humpyard_core::mechanism::{Arrival, Dispatch, Effect};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;

use crate::driver::{Driven, SimulationError};
use crate::interruptions::Interrupted;
use crate::workload::Workload;

/// Most packets that the dispatcher takes in per turn, as in the data plane.
const BURST: usize = 32;
/// Longest time per turn in which the dispatcher serves its own cores, as in the data plane.
const AT_A_TIME: Time = Time::from_ns(100_000);

/// Idle time after which a thread takes longer for its next packet, because caches and branch
/// predictors have lost its state.
pub const RESTED: Time = Time::from_ns(5_000);

/// The times that a host adds to the work of services, in ns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostCosts {
    /// Fixed time of a turn of the dispatcher's loop that takes packets in or back.
    pub turn: f64,
    /// Time until an idle dispatcher sees a packet that has come.
    pub notice: f64,
    /// Reading a packet and giving it to one of several dispatchers. The reader takes this time.
    pub deal: f64,
    /// Reading a packet, finding its flow, and deciding.
    pub take_in: f64,
    /// Each byte of a packet that is read.
    pub per_byte: f64,
    /// Completing a packet: its account, its measurements, its way out.
    pub take_back: f64,
    /// Completing a packet that goes on to the next service of its chain.
    pub onward: f64,
    /// Extra time of a packet by the number of packets held, ascending, because their frames and
    /// tables exceed the caches. Values between two numbers are interpolated linearly.
    pub held: Vec<(u64, f64)>,
    /// Extra time of a service by the number of packets held, ascending, because frames have left
    /// the caches before their service begins. Values between two numbers are interpolated
    /// linearly.
    pub served: Vec<(u64, f64)>,
    /// The same for a service on a worker.
    pub worker_served: Vec<(u64, f64)>,
    /// Giving a packet to another thread.
    pub give: f64,
    /// Extra time of the first packet that a turn gives to a thread: its cache lines come one by one.
    pub give_first: f64,
    /// Fetching a packet that another thread has done.
    pub fetch: f64,
    /// Extra time of the first packet that a turn fetches from a thread.
    pub fetch_first: f64,
    /// A worker's overhead for each packet, without the service.
    pub worker: f64,
    /// Extra time of a packet that finds its worker without work.
    pub worker_first: f64,
    /// A worker hands over the results of the packets that it has found together, after this time at the latest.
    pub hold_back: f64,
    /// The dispatcher's overhead for each packet that it serves, without the service.
    pub own: f64,
    /// Time from giving a packet to an awake worker until it begins.
    pub hand_over: f64,
    /// Extra time of the first packet after the dispatcher was idle for [`RESTED`].
    pub rested: f64,
    /// The same for a worker.
    pub worker_rested: f64,
    /// Waking a worker that sleeps.
    pub wake: f64,
    /// Idle time after which a worker sleeps.
    pub awake: f64,
    /// Extra time of a packet for cache misses by the number of known flows, ascending. Values
    /// between two numbers lie on a straight line.
    pub flows: Vec<(u64, f64)>,
}

impl HostCosts {
    /// Returns the extra time of a packet for this many known flows and held packets.
    fn beyond_caches(&self, flows: u64, held: u64) -> f64 {
        between(&self.flows, flows) + between(&self.held, held)
    }
}

/// Interpolates linearly between points with ascending places. Beyond the ends the nearest point's
/// value holds.
fn between(points: &[(u64, f64)], at: u64) -> f64 {
    let next = points.partition_point(|&(place, _)| place <= at);
    match (next.checked_sub(1).map(|before| points[before]), points.get(next)) {
        (None, None) => 0.0,
        (None, Some(&(_, value))) | (Some((_, value)), None) => value,
        (Some((few, less)), Some(&(many, more))) => less + (more - less) * (at - few) as f64 / (many - few) as f64,
    }
}

/// The threads of a host, and the times that they take.
#[derive(Clone, Debug)]
pub struct Host {
    costs: HostCosts,
    /// The thread of each core. `None`: the dispatcher serves the core.
    threads: IdVec<CoreId, Option<usize>>,
    /// How the threads are interrupted. `None`: never.
    interrupted: Option<Interrupted>,
    /// Whether packets wait at the input while the buffer is full.
    waits: bool,
}

impl Host {
    /// Returns the host of a run with this number of workers, on this number of processors. The
    /// dispatcher is on the first processor, workers on the others in turn. A processor has one
    /// thread. The dispatcher serves the cores on its own processor, and all cores if there are no
    /// workers.
    pub fn new(costs: HostCosts, workers: usize, processors: usize) -> Self {
        let processors = processors.max(1);
        let place = |core: CoreId| ((core.index() + 1) % processors).checked_sub(1);
        Self::placed(costs, IdVec::from_fn(workers.max(1), |core| if workers == 0 { None } else { place(core) }))
    }

    /// Returns the host of a run with these threads: that of each core, counted from 0. `None`: the dispatcher serves
    /// the core.
    pub fn placed(costs: HostCosts, threads: IdVec<CoreId, Option<usize>>) -> Self {
        Self { costs, threads, interrupted: None, waits: false }
    }

    /// Sets how the threads are interrupted; there is one thread for each processor.
    #[must_use]
    pub fn with_interrupted(self, interrupted: impl Into<Option<Interrupted>>) -> Self {
        Self { interrupted: interrupted.into(), ..self }
    }

    /// Sets whether packets wait at the input while the buffer is full; otherwise they are dropped.
    #[must_use]
    pub fn with_waiting(self, waits: bool) -> Self {
        Self { waits, ..self }
    }
}

/// Runs a workload on the cores of a host. Returns the dispatcher's working time in place of the
/// cores.
///
/// # Errors
/// The error of the workload.
pub(crate) fn drive<S: Steer, Q: Share, A: Allocate, W: Workload<S, Q, A>>(
    host: Host,
    costs: CostModel,
    measured: Measured<S, Q, A>,
    workload: W,
) -> Result<Driven<S, Q, A, W, Time>, SimulationError> {
    let threads = host.threads.iter().flatten().map(|thread| thread + 1).max().unwrap_or(0);
    let mut dispatcher = Dispatcher {
        workers: vec![Worker::default(); threads],
        host,
        costs,
        measured,
        workload,
        now: Time::ZERO,
        fraction: 0.0,
        worked: Time::ZERO,
        worked_until: Time::ZERO,
        turns: 0,
        done: BinaryHeap::new(),
        own: VecDeque::new(),
        own_done: Vec::new(),
    };
    dispatcher.run()?;
    let account = dispatcher.measured.account();
    assert!(account.balances(), "packets are unaccounted for: {account:?}");
    Ok(Driven {
        measured: dispatcher.measured,
        workload: dispatcher.workload,
        cores: dispatcher.worked,
        end: dispatcher.now,
        taken_over: Vec::new(),
        swap_pause_max: Duration::ZERO,
        decision: Histogram::new(),
    })
}

/// A result of a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Done {
    /// The core has switched to another service.
    Switch,
    /// This thread hands over its next result.
    Packet(usize),
}

/// A packet that a thread has served, now or in the future.
#[derive(Clone, Copy, Debug)]
struct Served {
    core: CoreId,
    slot: Slot,
    span: Span,
    /// When the thread hands it over.
    handed_over: Time,
}

/// A thread that serves cores.
#[derive(Clone, Debug, Default)]
struct Worker {
    /// When the core has finished all its packets.
    free: Time,
    /// Packets that it has served, in order, until the dispatcher fetches them.
    served: VecDeque<Served>,
    /// When it began with the packets that it found together, and their number.
    batch: (Time, usize),
    /// When it last handed results over, or began with a batch.
    handed_over: Time,
    /// The last packets served that it hands over together.
    together: usize,
    /// The last turn that gave it a packet, and the last that fetched one.
    given: u64,
    fetched: u64,
}

impl Worker {
    /// Serves a packet that comes then and is begun with then. Its result is handed over with those of the packets that
    /// the thread has found together with it, but none is held back longer.
    fn serve(&mut self, comes: Time, begin: Time, served: Served, hold_back: Time) {
        let (found, packets) = self.batch;
        if comes > found || packets == BURST {
            self.batch = (begin, 0);
            (self.handed_over, self.together) = (begin, 0);
        }
        self.batch.1 += 1;
        self.together += 1;
        self.served.push_back(served);
        let handed_over = served.span.finished;
        self.served.iter_mut().rev().take(self.together).for_each(|one| one.handed_over = handed_over);
        if handed_over.since(self.handed_over) >= hold_back {
            (self.handed_over, self.together) = (handed_over, 0);
        }
    }
}

/// A packet that the dispatcher itself is to serve.
struct Own {
    core: CoreId,
    slot: Slot,
    /// The work of its service.
    work: Time,
}

/// The dispatcher, and the future results of the other threads.
struct Dispatcher<S, Q, A, W> {
    host: Host,
    costs: CostModel,
    measured: Measured<S, Q, A>,
    workload: W,
    /// The dispatcher's time.
    now: Time,
    /// The fraction of a nanosecond that is not yet in `now`.
    fraction: f64,
    /// The dispatcher's working time.
    worked: Time,
    /// When it was last at work.
    worked_until: Time,
    /// Turns so far.
    turns: u64,
    workers: Vec<Worker>,
    /// Results of other threads, present and future, the earliest first.
    done: BinaryHeap<Reverse<(Time, CoreId, Done)>>,
    /// Packets of the dispatcher's own cores, in order.
    own: VecDeque<Own>,
    /// Packets that the dispatcher has served itself.
    own_done: Vec<(CoreId, Slot, Span)>,
}

impl<S: Steer, Q: Share, A: Allocate, W: Workload<S, Q, A>> Dispatcher<S, Q, A, W> {
    fn run(&mut self) -> Result<(), SimulationError> {
        let mut packet = Packet::default();
        while !self.workload.is_over(&self.measured) {
            self.turns += 1;
            let is_begun = self.take_back() | self.keep_time();
            let taken_in = self.take_in(&mut packet, is_begun)?;
            if is_begun | taken_in | self.hand_out() | self.serve() {
                continue;
            }
            let next = self.next_event();
            if next == Time::MAX && !self.workload.awaits() {
                break;
            }
            self.now = self.now.max(next + Time::from_ns(self.host.costs.notice as u64));
            if let Some(interrupted) = &mut self.host.interrupted {
                self.now = interrupted.dispatcher_runs_at(self.now);
            }
        }
        Ok(())
    }

    /// Returns the time of the next event for an idle dispatcher.
    fn next_event(&mut self) -> Time {
        let done = self.next_done().unwrap_or(Time::MAX);
        let timeout = self.measured.next_timeout().unwrap_or(Time::MAX);
        let arrival = if self.room() == 0 { Time::MAX } else { self.workload.next_event() };
        arrival.min(done).min(timeout)
    }

    /// Returns the number of packets that may be taken in now, at most a burst.
    fn room(&self) -> usize {
        if self.host.waits { self.measured.scheduler().room().min(BURST as u64) as usize } else { BURST }
    }

    /// Advances the dispatcher's time by its work.
    fn spend(&mut self, ns: f64) {
        let all = self.fraction + ns;
        let work = Time::from_ns(all as u64);
        self.fraction = all - work.as_ns() as f64;
        self.worked += work;
        self.now = match &mut self.host.interrupted {
            Some(interrupted) => interrupted.dispatcher_done(self.now, work),
            None => self.now + work,
        };
        self.worked_until = self.now;
    }

    /// Takes back all that cores have done by now.
    fn take_back(&mut self) -> bool {
        let now = self.now;
        let (mut cost, mut any) = (self.host.costs.turn, !self.own_done.is_empty());
        for (core, slot, span) in mem::take(&mut self.own_done) {
            cost += self.complete(now, core, slot, span);
        }
        while self.next_done().is_some_and(|time| time <= now)
            && let Some(Reverse((_, core, done))) = self.done.pop()
        {
            any = true;
            match done {
                Done::Switch => {
                    self.measured.on_switched(now, core);
                    self.follow_up(now);
                }
                Done::Packet(thread) => {
                    let (fetch, Served { slot, span, .. }) = self.fetch(thread);
                    cost += fetch + self.complete(now, core, slot, span);
                }
            }
        }
        if any {
            self.spend(cost);
        }
        any
    }

    /// Returns when the next result of another thread can be taken.
    fn next_done(&mut self) -> Option<Time> {
        while let Some(&Reverse((time, core, done))) = self.done.peek() {
            let Done::Packet(thread) = done else { return Some(time) };
            let next = self.workers[thread].served.front().map_or(time, |served| served.handed_over);
            if next == time {
                return Some(time);
            }
            // More packets are handed over together with it than when it was served.
            self.done.pop();
            self.done.push(Reverse((next, core, done)));
        }
        None
    }

    /// Fetches the next packet of a thread. Returns the time that it takes, in ns, and the packet.
    fn fetch(&mut self, thread: usize) -> (f64, Served) {
        let (costs, worker) = (&self.host.costs, &mut self.workers[thread]);
        let served = worker.served.pop_front().expect("the thread has served a packet");
        if let Some(next) = worker.served.front() {
            self.done.push(Reverse((next.handed_over, next.core, Done::Packet(thread))));
        }
        let is_first = mem::replace(&mut worker.fetched, self.turns) != self.turns;
        (costs.fetch + if is_first { costs.fetch_first } else { 0.0 }, served)
    }

    /// Takes a packet back. Returns the time that it takes, in ns.
    fn complete(&mut self, now: Time, core: CoreId, slot: Slot, span: Span) -> f64 {
        let completed = self.measured.on_completion(now, core, slot, span.finished, span.busy);
        if completed.onward.is_none() && completed.exit.is_none() {
            self.workload.on_departure(now, &completed.packet, &mut self.measured);
        }
        self.follow_up(now);
        let costs = &self.host.costs;
        if completed.onward.is_some() { costs.onward } else { costs.take_back }
    }

    /// Calls the policies' timeout if it is due.
    fn keep_time(&mut self) -> bool {
        let now = self.now;
        if self.measured.next_timeout().is_none_or(|timeout| timeout > now) {
            return false;
        }
        self.measured.on_timeout(now);
        self.follow_up(now);
        true
    }

    /// Takes in the packets that have come, at most a burst. Adds the fixed time of the turn unless
    /// the turn has begun.
    fn take_in(&mut self, packet: &mut Packet, is_begun: bool) -> Result<bool, SimulationError> {
        let (now, most) = (self.now, self.room());
        let (mut cost, mut taken) = (if is_begun { 0.0 } else { self.host.costs.turn }, 0);
        while taken < most && self.workload.next_packet(now, packet, &mut self.measured)? {
            let costs = &self.host.costs;
            taken += 1;
            cost += costs.take_in + costs.per_byte * f64::from(packet.length);
            cost += costs.beyond_caches(self.workload.known_flows(), self.measured.scheduler().account().held);
            let arrival = self.measured.on_arrival(now, packet);
            self.follow_up(now);
            if let Arrival::Dropped(_) = arrival {
                self.workload.on_loss(now, packet, &mut self.measured);
            }
        }
        if taken > 0 {
            let is_rested = now.since(self.worked_until) > RESTED;
            self.spend(cost + if is_rested { self.host.costs.rested } else { 0.0 });
        }
        Ok(taken > 0)
    }

    /// Gives every core the packets that it may have.
    fn hand_out(&mut self) -> bool {
        let now = self.now;
        let mut any = false;
        while let Some(core) = self.measured.next_core(now) {
            let Some(dispatch) = self.measured.lend_next(now, core) else { continue };
            any = true;
            let slot = dispatch.slot;
            match self.host.threads[core] {
                None => {
                    let work = self.costs.serve(now, core, &dispatch).busy;
                    self.own.push_back(Own { core, slot, work });
                }
                Some(thread) => {
                    let dispatch = dispatch.copied();
                    let is_first = mem::replace(&mut self.workers[thread].given, self.turns) != self.turns;
                    self.spend(self.host.costs.give + if is_first { self.host.costs.give_first } else { 0.0 });
                    self.give(thread, core, &dispatch);
                }
            }
            self.follow_up(now);
        }
        any
    }

    /// Gives a packet to another thread.
    fn give(&mut self, thread: usize, core: CoreId, dispatch: &Dispatch) {
        let costs = &self.host.costs;
        let worker = &mut self.workers[thread];
        let idle = self.now.since(worker.free);
        let slept = if idle.as_ns() as f64 > costs.awake { costs.wake } else { 0.0 };
        let on_the_way = costs.hand_over + slept + if idle > RESTED { costs.worker_rested } else { 0.0 };
        let comes = self.now + Time::from_ns(on_the_way as u64);
        let begin = match &mut self.host.interrupted {
            Some(interrupted) => interrupted.worker_begins(thread, comes),
            None => comes.max(worker.free),
        };
        let span = self.costs.serve(begin, core, dispatch);
        let held = self.measured.scheduler().account().held;
        let first = if comes > worker.free { costs.worker_first } else { 0.0 };
        let beside = Time::from_ns((costs.worker + first + between(&costs.worker_served, held)) as u64);
        let mut span = Span { finished: span.finished + beside, busy: span.busy + beside };
        if let Some(interrupted) = &mut self.host.interrupted {
            span = interrupted.serve(begin, CoreId::from_index(thread), span);
        }
        worker.free = span.finished;
        if worker.served.is_empty() {
            self.done.push(Reverse((span.finished, core, Done::Packet(thread))));
        }
        let hold_back = Time::from_ns(costs.hold_back as u64);
        worker.serve(comes, begin, Served { core, slot: dispatch.slot, span, handed_over: span.finished }, hold_back);
    }

    /// Serves packets of the dispatcher's own cores, for [`AT_A_TIME`] at most.
    fn serve(&mut self) -> bool {
        let began = self.now;
        let any = !self.own.is_empty();
        while let Some(Own { core, slot, work }) = self.own.pop_front() {
            let before = self.now;
            let costs = &self.host.costs;
            let beside = costs.own + between(&costs.served, self.measured.scheduler().account().held);
            self.spend(beside + work.as_ns() as f64);
            let span = Span { finished: self.now, busy: self.now.since(before) };
            self.own_done.push((core, slot, span));
            if self.now.since(began) >= AT_A_TIME {
                break;
            }
        }
        any
    }

    /// Handles the effects of the last call of the mechanism: dropped packets, packets that leave,
    /// switches that begin.
    fn follow_up(&mut self, now: Time) {
        while let Some(effect) = self.measured.next_effect(now) {
            match &effect {
                Effect::Dropped(dropped) => self.workload.on_loss(now, &dropped.packet, &mut self.measured),
                Effect::Left(exit) => self.workload.on_departure(now, &exit.packet, &mut self.measured),
                Effect::Switch(switch) => self.done.push(Reverse((now + switch.cost, switch.core, Done::Switch))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use humpyard_core::config::SchedulerConfig;
    use humpyard_core::cost::LinearCost;
    use humpyard_core::id::FlowId;
    use humpyard_core::measure::{Measurements, Observer};
    use humpyard_core::mechanism::{Completed, Dropped, Switch};
    use humpyard_core::random::Seed;
    use humpyard_policies::spec::PolicySpec;

    use super::*;
    use crate::interruptions::{Disturbance, Interruptions};
    use crate::workload::{Feed, Packets};

    /// Returns times that are distinguishable in a sum.
    fn costs() -> HostCosts {
        HostCosts {
            turn: 1_000.0,
            notice: 0.0,
            deal: 0.0,
            take_in: 100.0,
            per_byte: 1.0,
            take_back: 40.0,
            onward: 50.0,
            held: Vec::new(),
            served: Vec::new(),
            worker_served: Vec::new(),
            give: 10.0,
            give_first: 0.0,
            fetch: 20.0,
            fetch_first: 0.0,
            worker_first: 0.0,
            hold_back: 0.0,
            worker: 7.0,
            own: 3.0,
            hand_over: 300.0,
            rested: 0.0,
            worker_rested: 0.0,
            wake: 50_000.0,
            awake: 100_000.0,
            flows: Vec::new(),
        }
    }

    /// Delays in ns, in the order in which packets were done.
    #[derive(Clone, Debug, Default)]
    struct Delays(Arc<Mutex<Vec<u64>>>);

    impl Observer for Delays {
        fn on_completion(&mut self, _: CoreId, _: Slot, completed: &Completed, finished: Time, _: Time) {
            self.0.lock().unwrap().push(finished.since(completed.packet.arrival).as_ns());
        }
        fn on_arrival(&mut self, _: Time, _: &Packet, _: Arrival) {}
        fn on_dispatch(&mut self, _: Time, _: CoreId, _: &Dispatch) {}
        fn on_drop(&mut self, _: &Dropped) {}
        fn on_switch(&mut self, _: &Switch) {}
        fn on_switched(&mut self, _: Time, _: CoreId) {}
    }

    /// Runs packets of 50 bytes that come at these times and take 500 ns each. Returns their delays
    /// and the dispatcher's working time, in ns.
    fn delays(host: Host, workers: usize, arrivals: &[u64]) -> (Vec<u64>, u64) {
        let config = SchedulerConfig { flows: 2, in_flight: 32, ..SchedulerConfig::new(workers.max(1)) };
        let packet = |(number, &at): (u32, &u64)| {
            let arrival = Time::from_ns(at);
            Packet { arrival, flow: FlowId(number % 2), length: 50, ..Packet::default() }
        };
        let packets: Vec<Packet> = (0..).zip(arrivals).map(packet).collect();
        let line = LinearCost { fixed: 500, per_byte_milli: 0, cold: 0 };
        let costs = CostModel::new(&config, IdVec::from_fn(1, |_| line), &[]);
        let scheduler = "fcfs".parse::<PolicySpec>().unwrap().build(&config).unwrap();
        let delays = Delays::default();
        let measured = Measured::new(scheduler, Measurements::new(&config)).with_observer(Box::new(delays.clone()));
        let driven = drive(host, costs, measured, Packets::new(packets, Feed::Arrivals)).unwrap();
        let delays = delays.0.lock().unwrap().clone();
        (delays, driven.cores.as_ns())
    }

    #[test]
    fn a_thread_alone_does_one_after_the_other() {
        let host = || Host::new(costs(), 0, 2);
        // A turn of 1,000 and 150 to take it in; 503 to serve it; another turn, and 40 to take it
        // back.
        assert_eq!(delays(host(), 0, &[1_000]), (vec![1_653], 2_693));
        // Both are taken in before one is served.
        assert_eq!(delays(host(), 0, &[1_000, 1_000]), (vec![1_803, 2_306], 3_386));
        // The second packet comes while the first is taken in, and waits until the first is served.
        // The turn that takes the first back also takes the second in, by 3,843.
        assert_eq!(delays(host(), 0, &[1_000, 2_000]), (vec![1_653, 2_346], 2_653 - 1_000 + 1_040 + 653 + 1_040));
        let noticed = Host::new(HostCosts { notice: 25.0, ..costs() }, 0, 2);
        assert_eq!(delays(noticed, 0, &[1_000]).0, [1_678]);
    }

    #[test]
    fn a_worker_has_its_packets_handed_over() {
        let host = || Host::new(costs(), 1, 2);
        // Taken in by 2,150, given by 2,160, there at 2,460.
        assert_eq!(delays(host(), 1, &[1_000]), (vec![1_967], 2_150 + 10 + 60));
        assert_eq!(delays(host(), 1, &[1_000_000]), (vec![51_967], 2_220), "it slept");
        assert_eq!(delays(Host::new(costs(), 1, 1), 1, &[1_000]).0, [1_653], "there is one processor");
        let rested = HostCosts { rested: 600.0, worker_rested: 900.0, ..costs() };
        assert_eq!(
            delays(Host::new(rested.clone(), 1, 2), 1, &[5_000]).0,
            [1_967 + 900],
            "the worker alone rested for more"
        );
        assert_eq!(delays(Host::new(rested, 1, 2), 1, &[6_000]).0, [1_967 + 600 + 900]);
        // The dispatcher takes in the second while the worker serves the first.
        assert_eq!(delays(host(), 1, &[1_000, 2_000]).0, [1_967, 2_127]);
    }

    #[test]
    fn the_first_packet_of_a_turn_takes_longer() {
        // Both are taken in by 2,300 and given by 2,320; each is fetched in a turn of its own.
        assert_eq!(delays(Host::new(costs(), 1, 2), 1, &[1_000, 1_000]), (vec![2_117, 2_624], 1_320 + 2 * 1_060));
        let first = HostCosts { give_first: 5.0, fetch_first: 9.0, worker_first: 11.0, ..costs() };
        let expected = (vec![2_117 + 16, 2_624 + 16], 1_320 + 5 + 2 * (1_060 + 9));
        assert_eq!(delays(Host::new(first, 1, 2), 1, &[1_000, 1_000]), expected);
    }

    #[test]
    fn what_a_worker_finds_together_is_handed_over_together() {
        let ns = Time::from_ns;
        // Each packet takes 300; the second comes while the first is served, and the others while the second is.
        let handed_over = |hold_back: u64| {
            let mut worker = Worker::default();
            for (number, comes) in (0..).zip([100, 200, 390, 400, 401]) {
                let begin = ns(100 + 300 * number);
                let span = Span { finished: begin + ns(300), busy: ns(300) };
                let served = Served { core: CoreId(0), slot: Slot(0), span, handed_over: span.finished };
                worker.serve(ns(comes), begin, served, ns(hold_back));
            }
            worker.served.iter().map(|served| served.handed_over.as_ns()).collect::<Vec<_>>()
        };
        assert_eq!(handed_over(0), [400, 700, 1_000, 1_300, 1_600], "each when it is done");
        assert_eq!(handed_over(5_000), [400, 1_300, 1_300, 1_300, 1_600], "three are found together");
        assert_eq!(handed_over(500), [400, 1_000, 1_000, 1_300, 1_600], "two of them take too long");
    }

    #[test]
    fn more_flows_take_longer() {
        let costs = HostCosts { flows: vec![(1_000, 10.0), (2_000, 110.0)], ..costs() };
        let beyond = |flows| costs.beyond_caches(flows, 0);
        assert_eq!([0, 1_000, 1_250, 2_000, 1 << 40].map(beyond), [10.0, 10.0, 35.0, 110.0, 110.0]);
        let costs = HostCosts { held: vec![(32, 0.0), (132, 50.0)], ..costs };
        assert_eq!([0, 82, 4_096].map(|held| costs.beyond_caches(0, held)), [10.0, 35.0, 60.0]);
    }

    #[test]
    fn services_take_longer_while_many_packets_are_held() {
        let costs = HostCosts { served: vec![(1, 0.0), (2, 80.0)], worker_served: vec![(1, 30.0)], ..costs() };
        // Both are held until a turn takes them back.
        assert_eq!(delays(Host::new(costs.clone(), 0, 2), 0, &[1_000, 1_000]), (vec![1_883, 2_466], 3_546));
        assert_eq!(delays(Host::new(costs, 1, 2), 1, &[1_000]).0, [1_967 + 30]);
    }

    #[test]
    fn what_the_machine_takes_delays_all() {
        let every = |run, stop| Interruptions { runs: vec![(run, 1)], stops: vec![(stop, 1)] };
        let disturbance = Disturbance { dispatcher: every(1_500, 10_000), ..Disturbance::default() };
        let interrupted = Interrupted::new(1, &disturbance, Seed(1));
        let host = Host::new(costs(), 0, 1).with_interrupted(interrupted);
        // The dispatcher stops at 1,500, for 10,000; again after 1,500 more, beyond the end.
        assert_eq!(delays(host, 0, &[1_000]).0, [11_653]);
    }
}
