//! The discrete-event driver.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BinaryHeap;
use std::time::Instant;

use core::cmp::Reverse;
use humpyard_core::cost::LinearCost;
use humpyard_core::frame::Frame;
use humpyard_core::id::{CoreId, IdVec, ServiceId, Slot};
use humpyard_core::measure::{Histogram, Measured};
use humpyard_core::mechanism::Arrival;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;
use humpyard_traffic::classify::Classifier;
use humpyard_traffic::pace::Pacer;
use humpyard_traffic::source::Source;

/// One run of the simulator, ready to start.
pub struct Simulation<'a, S, Q, A> {
    /// The mechanism.
    pub measured: Measured<S, Q, A>,
    /// Number of cores.
    pub cores: usize,
    /// What a packet costs a core, by service, in ns.
    pub costs: IdVec<ServiceId, LinearCost>,
    /// Finds flow, client and service.
    pub classifier: Classifier,
    /// Where the frames come from.
    pub source: Box<dyn Source + Send>,
    /// When they arrive.
    pub pacer: Pacer,
    /// Set from outside to end the run early: no more arrivals, what waits is served.
    pub stop: &'a AtomicBool,
    /// Told now and then of the packets so far and how much of the source was read (0 to 1, where that is known).
    pub progress: &'a mut dyn FnMut(u64, Option<f64>),
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome<S, Q, A> {
    /// The mechanism, with the account and the measurements.
    pub measured: Measured<S, Q, A>,
    /// The damage at which the source ended, if it did not end well.
    pub damage: Option<TrafficError>,
    /// Whether the run was ended from outside.
    pub interrupted: bool,
    /// Time from the start to the end of the run, by a real clock.
    pub wall: core::time::Duration,
    /// Real time of decisions (an arrival, or the question of an idle core), in ns; a sample of them.
    pub decision: Histogram,
    /// Flows seen.
    pub flows: u64,
}

/// What a core will be done with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    /// A packet, in this slot, which keeps the core busy for so long.
    Packet(Slot, Time),
    /// Going over to another service.
    Switch,
}

/// What is under way, by its end, then core.
type UnderWay = Reverse<(Time, CoreId, Done)>;

struct State<'a, S, Q, A> {
    run: Simulation<'a, S, Q, A>,
    under_way: BinaryHeap<UnderWay>,
    frame: Frame,
    damage: Option<TrafficError>,
    interrupted: bool,
    decision: Histogram,
    arrivals: u64,
}

/// Runs a simulation to its end: until the source is dry and every packet is served.
///
/// # Errors
/// If more flows have packets under way than the classifier has room for.
pub fn simulate<S: Steer, Q: Share, A: Allocate>(
    run: Simulation<'_, S, Q, A>,
) -> Result<Outcome<S, Q, A>, TrafficError> {
    let started = Instant::now();
    let cores = run.cores;
    let mut state = State {
        run,
        under_way: BinaryHeap::with_capacity(cores),
        frame: Frame::default(),
        damage: None,
        interrupted: false,
        decision: Histogram::new(),
        arrivals: 0,
    };
    let mut arrival = state.read();
    loop {
        let done = state.under_way.peek().map(|&Reverse((time, ..))| time);
        // With nothing to come and nothing under way nobody waits for the time either.
        let timeout = state.run.measured.next_timeout().filter(|_| arrival.is_some() || state.is_busy());
        let Some(now) = [arrival, done, timeout].into_iter().flatten().min() else { break };
        state.complete(now);
        if timeout.is_some_and(|timeout| timeout <= now) {
            state.run.measured.on_timeout(now);
            state.begin_switches(now);
        }
        while arrival == Some(now) {
            state.arrive(now)?;
            arrival = state.read();
        }
        state.hand_out(now);
    }
    (state.run.progress)(state.arrivals, Some(1.0));
    Ok(Outcome {
        flows: state.run.classifier.flows().seen(),
        measured: state.run.measured,
        damage: state.damage,
        interrupted: state.interrupted,
        wall: started.elapsed(),
        decision: state.decision,
    })
}

/// How often progress is told, in packets.
const PROGRESS_EVERY: u64 = 1 << 16;
/// One in so many arrivals has its decisions timed.
const TIMED_EVERY: u64 = 1 << 8;

impl<S: Steer, Q: Share, A: Allocate> State<'_, S, Q, A> {
    /// Reads the next frame and gives its arrival; none when there is no more.
    fn read(&mut self) -> Option<Time> {
        if self.arrivals.is_multiple_of(PROGRESS_EVERY) {
            (self.run.progress)(self.arrivals, self.run.source.progress());
            if self.run.stop.load(Ordering::Relaxed) {
                self.interrupted = true;
                return None;
            }
        }
        match self.run.source.next(&mut self.frame) {
            Ok(true) => Some(self.run.pacer.arrival(self.frame.time)),
            Ok(false) => None,
            Err(damage) => {
                self.damage = Some(damage);
                None
            }
        }
    }

    fn arrive(&mut self, now: Time) -> Result<(), TrafficError> {
        let classified = self.run.classifier.classify(&self.frame)?;
        if let Some(flow) = classified.ended_flow {
            self.run.measured.on_flow_end(now, flow);
        }
        if let Some(client) = classified.ended_client {
            self.run.measured.on_client_end(now, client);
        }
        let mut packet = classified.packet;
        packet.arrival = now;
        self.arrivals += 1;
        let timed = self.is_timed().then(Instant::now);
        let arrival = self.run.measured.on_arrival(now, packet);
        self.record(timed);
        self.begin_switches(now);
        if let Arrival::Dropped(_) = arrival {
            self.run.classifier.release(&packet);
        }
        Ok(())
    }

    /// Everything that ends at this instant, by ascending core.
    fn complete(&mut self, now: Time) {
        while let Some(&Reverse((time, core, done))) = self.under_way.peek() {
            if time > now {
                break;
            }
            self.under_way.pop();
            match done {
                Done::Packet(slot, busy) => {
                    let completed = self.run.measured.on_completion(now, core, slot, now, busy);
                    self.run.classifier.release(&completed.packet);
                }
                Done::Switch => self.run.measured.on_switched(now, core),
            }
            self.begin_switches(now);
        }
    }

    fn begin_switches(&mut self, now: Time) {
        while let Some(switch) = self.run.measured.next_switch() {
            self.under_way.push(Reverse((now + switch.cost, switch.core, Done::Switch)));
        }
    }

    /// Gives every core that has room what it can have.
    fn hand_out(&mut self, now: Time) {
        while let Some(core) = self.run.measured.next_core(now) {
            let timed = self.is_timed().then(Instant::now);
            let Some(dispatch) = self.run.measured.next(now, core) else { continue };
            self.record(timed);
            let cost = &self.run.costs[dispatch.packet.service];
            let busy = cost.work(dispatch.packet.length).saturating_add(if dispatch.cold { cost.cold } else { 0 });
            let busy = Time::from_ns(busy);
            self.under_way.push(Reverse((now + busy, core, Done::Packet(dispatch.slot, busy))));
        }
    }

    fn is_busy(&self) -> bool {
        self.run.measured.account().held > 0 || !self.under_way.is_empty()
    }

    fn is_timed(&self) -> bool {
        self.arrivals.is_multiple_of(TIMED_EVERY)
    }

    fn record(&mut self, timed: Option<Instant>) {
        if let Some(started) = timed {
            self.decision.record(started.elapsed().as_nanos() as u64);
        }
    }
}
