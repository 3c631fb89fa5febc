//! The discrete-event driver.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use humpyard_core::cost::CostModel;
use humpyard_core::id::{ClientId, FlowId};
use humpyard_core::link::{LinkOutcome, OutputLink};
use humpyard_core::measure::{Histogram, Measured};
use humpyard_core::mechanism::{Arrival, PlannedSwap, TakenOver};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, BuildError, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_traffic::classify::Classifier;
use humpyard_traffic::flow::Heaviest;
use humpyard_traffic::pace::{ClockJumps, Pacer};
use humpyard_traffic::source::Source;
use humpyard_traffic::{Numbered, TrafficError};

use crate::agenda::{Agenda, Doing};
use crate::ahead::{Ahead, Heading};
use crate::work::Work;

/// One run of the simulator, ready to start.
pub struct Simulation<'a, S, Q, A> {
    /// The mechanism, with one packet in flight on each core, or more: those wait there for their turn.
    pub measured: Measured<S, Q, A>,
    /// Number of cores.
    pub cores: usize,
    /// How long each core is busy with a packet.
    pub costs: CostModel,
    /// The link behind the cores; none where packets leave as they are done.
    pub link: Option<OutputLink<S, Q, A>>,
    /// Policies that take over on the way, by time, which rises.
    pub swaps: Vec<PlannedSwap<'a, S, Q, A>>,
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
#[non_exhaustive]
pub struct Outcome<S, Q, A> {
    /// The mechanism, with the account and the measurements.
    pub measured: Measured<S, Q, A>,
    /// What came of the link, if there is one.
    pub link: Option<LinkOutcome>,
    /// The damage at which the source ended, if it did not end well.
    pub damage: Option<TrafficError>,
    /// Whether the run was ended from outside.
    pub interrupted: bool,
    /// Time from the start to the end of the run, by a real clock.
    pub wall: Duration,
    /// The policies that took over, in order.
    pub taken_over: Vec<TakenOver>,
    /// The longest that everything stood still, by a real clock, while a policy took over.
    pub swap_pause_max: Duration,
    /// Real time of decisions (an arrival, or the question of an idle core), in ns; a sample of them.
    pub decision: Histogram,
    /// Flows seen.
    pub flows: u64,
    /// The heaviest of them.
    pub heaviest: Heaviest,
    /// How often the clock of the source jumped.
    pub clock_jumps: ClockJumps,
}

/// Why a simulation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// Packets could not be classified.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A policy that was to take over could not.
    #[error(transparent)]
    Swap(BuildError),
}

struct State<'a, S, Q, A> {
    measured: Measured<S, Q, A>,
    link: Option<OutputLink<S, Q, A>>,
    costs: CostModel,
    swaps: Vec<PlannedSwap<'a, S, Q, A>>,
    classifier: Classifier,
    source: Ahead,
    pacer: Pacer,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(u64, Option<f64>),
    /// How packets get to cores, and what they take there.
    work: Work,
    /// What cores are doing.
    agenda: Agenda,
    damage: Option<TrafficError>,
    interrupted: bool,
    decision: Histogram,
    arrivals: u64,
    heaviest: Heaviest,
    taken_over: Vec<TakenOver>,
    swap_pause_max: Duration,
    /// Whether there is a link, or a policy that is to take over.
    is_timed_otherwise: bool,
}

/// Runs a simulation to its end: until the source is dry and every packet is served.
///
/// What happens at one instant happens in this order: what has left the link; what cores are done with, by ascending core;
/// timeouts; arrivals, all of them; what the link sends next; questions of cores.
///
/// # Errors
/// If more flows have packets under way than the classifier has room for, or a policy cannot take over.
pub fn simulate<S: Steer, Q: Share, A: Allocate>(
    run: Simulation<'_, S, Q, A>,
) -> Result<Outcome<S, Q, A>, SimulationError> {
    simulate_with(run, Work::default())
}

/// As [`simulate`], where packets get to cores like this, and take so long there.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with<S: Steer, Q: Share, A: Allocate>(
    run: Simulation<'_, S, Q, A>,
    work: Work,
) -> Result<Outcome<S, Q, A>, SimulationError> {
    let started = Instant::now();
    let mut state = State {
        is_timed_otherwise: run.link.is_some() || !run.swaps.is_empty(),
        work,
        agenda: Agenda::new(run.cores),
        measured: run.measured,
        costs: run.costs,
        link: run.link,
        swaps: run.swaps,
        source: Ahead::new(run.source, run.classifier.tunnels(), run.classifier.digester().clone()),
        classifier: run.classifier,
        pacer: run.pacer,
        stop: run.stop,
        progress: run.progress,
        damage: None,
        interrupted: false,
        decision: Histogram::new(),
        arrivals: 0,
        heaviest: Heaviest::default(),
        taken_over: Vec::new(),
        swap_pause_max: Duration::ZERO,
    };
    // The last instant stands for never, which makes the comparison at every event cheap. Only at that instant the loop checks
    // which of the two it is.
    let mut arrival = state.read();
    let mut now = Time::ZERO;
    while arrival.is_some() || state.is_busy() {
        let mut next = arrival.unwrap_or(Time::MAX).min(state.agenda.next());
        if state.keeps_time() {
            next = next.min(state.next_timeout());
        }
        if next == Time::MAX && arrival.is_none() && !state.awaits() {
            break;
        }
        now = next.max(now);
        state.finish_sending(now);
        state.complete(now);
        if state.keeps_time() && state.next_timeout() <= now {
            state.keep_time(now);
            state.swap(now)?;
        }
        while arrival == Some(now) {
            state.arrive(now)?;
            arrival = state.read();
        }
        state.send(now);
        state.hand_out(now);
    }
    (state.progress)(state.arrivals, Some(1.0));
    let measured = &state.measured;
    state.heaviest.add_all(state.classifier.flows(), |flow| measured.packets_of(flow));
    Ok(Outcome {
        heaviest: state.heaviest,
        flows: state.classifier.flows().seen(),
        clock_jumps: state.pacer.jumps(),
        measured: state.measured,
        link: state.link.as_ref().map(OutputLink::outcome),
        damage: state.damage,
        interrupted: state.interrupted,
        wall: started.elapsed(),
        taken_over: state.taken_over,
        swap_pause_max: state.swap_pause_max,
        decision: state.decision,
    })
}

/// How often progress is told, in packets.
const PROGRESS_EVERY: u64 = 1 << 16;
/// One in so many arrivals has its decisions timed.
const TIMED_EVERY: u64 = 1 << 8;

impl<S: Steer, Q: Share, A: Allocate> State<'_, S, Q, A> {
    /// Reads the next frame and gives its arrival; none when there is no more.
    #[inline]
    fn read(&mut self) -> Option<Time> {
        if self.arrivals.is_multiple_of(PROGRESS_EVERY) && self.is_stopped() {
            return None;
        }
        match self.source.next() {
            Ok(time) => time.map(|time| self.pacer.arrival(time)),
            Err(damage) => {
                self.damage = Some(damage);
                None
            }
        }
    }

    /// Says how far it is, and asks whether to go on.
    #[cold]
    fn is_stopped(&mut self) -> bool {
        (self.progress)(self.arrivals, self.source.progress());
        self.interrupted |= self.stop.load(Ordering::Relaxed);
        self.interrupted
    }

    fn arrive(&mut self, now: Time) -> Result<(), TrafficError> {
        while let Some(expired) = self.classifier.next_expired(self.source.current().time) {
            self.end(now, Some(expired.flow), expired.client);
        }
        let mut packet = self.classify(now)?;
        packet.arrival = now;
        packet.estimate = self.costs.work(&packet);
        self.arrivals += 1;
        let timed = self.is_timed().then(Instant::now);
        let arrival = self.measured.on_arrival(now, &packet);
        self.record(timed);
        self.follow_up(now);
        if let Arrival::Dropped(_) = arrival {
            self.classifier.release(&packet);
        }
        Ok(())
    }

    /// The packet that has come.
    #[inline]
    fn classify(&mut self, now: Time) -> Result<Packet, TrafficError> {
        if self.source.flows().is_some() {
            let Numbered { flow, length, .. } = *self.source.current();
            if let Some(packet) = self.classifier.classify_numbered(flow, length) {
                return Ok(packet);
            }
        }
        self.classify_headers(now)
    }

    #[inline(never)]
    fn classify_headers(&mut self, now: Time) -> Result<Packet, TrafficError> {
        let Numbered { flow, length, .. } = *self.source.current();
        let classified = match self.source.flows() {
            Some(flows) => self.classifier.classify_new_number(flow, &flows.headers(flow), length)?,
            None => {
                let Heading { headers, digest } = self.source.heading();
                self.classifier.classify_digest(headers, digest, length)?
            }
        };
        self.end(now, classified.ended_flow, classified.ended_client);
        if let Some(weight) = classified.weight {
            self.measured.set_weight(now, classified.packet.client, weight);
        }
        if let (Some(link), Some(weight)) = (&mut self.link, classified.link_weight) {
            link.set_weight(now, classified.packet.client, weight);
        }
        Ok(classified.packet)
    }

    /// A flow is over, or a client is gone.
    fn end(&mut self, now: Time, flow: Option<FlowId>, client: Option<ClientId>) {
        if let Some(flow) = flow {
            self.heaviest.add(self.classifier.flows().last_ended(), self.measured.packets_of(flow));
            self.measured.on_flow_end(now, flow);
            if let Some(link) = &mut self.link {
                link.on_flow_end(now, flow);
            }
        }
        if let Some(client) = client {
            self.measured.on_client_end(now, client);
            if let Some(link) = &mut self.link {
                link.on_client_end(now, client);
            }
        }
    }

    /// A packet has been through all its services: it leaves, or comes to the link.
    fn leave(&mut self, now: Time, packet: &Packet) {
        let Some(link) = &mut self.link else { return self.classifier.release(packet) };
        if let Arrival::Dropped(_) = link.on_processed(now, packet, self.measured.scheduler_mut()) {
            self.classifier.release(packet);
            self.measured.on_loss_behind(packet, now);
        }
        while let Some(dropped) = link.next_dropped() {
            self.classifier.release(&dropped.packet);
            self.measured.on_loss_behind(&dropped.packet, dropped.packet.arrival);
        }
    }

    /// Whether the scheduler, the link or a planned takeover may have a timeout.
    #[inline]
    fn keeps_time(&self) -> bool {
        self.measured.scheduler().keeps_time() || self.is_timed_otherwise
    }

    /// When a policy, the link or a policy that is to take over wants to be asked; the last instant if none does.
    #[inline]
    fn next_timeout(&self) -> Time {
        let mut next = self.measured.next_timeout().unwrap_or(Time::MAX);
        if let Some(swap) = self.swaps.first() {
            next = next.min(swap.at);
        }
        if let Some(sent) = self.link.as_ref().and_then(OutputLink::next_event) {
            next = next.min(sent);
        }
        next
    }

    /// Whether one of them wants to be asked, be it at the last instant.
    #[cold]
    fn awaits(&self) -> bool {
        let link = self.link.as_ref().and_then(OutputLink::next_event);
        self.measured.next_timeout().is_some() || !self.swaps.is_empty() || link.is_some()
    }

    /// What has left the link at this instant.
    #[inline]
    fn finish_sending(&mut self, now: Time) {
        if let Some(link) = &mut self.link
            && let Some((_, sent)) = link.next_sent(now)
        {
            self.classifier.release(&sent);
        }
    }

    /// Sends the next packet on the link, if there is one.
    #[inline]
    fn send(&mut self, now: Time) {
        if let Some(link) = &mut self.link {
            link.send(now, self.measured.scheduler_mut());
        }
    }

    /// Everything that cores are done with at this instant, by ascending core.
    fn complete(&mut self, now: Time) {
        while let Some((core, done)) = self.agenda.next_done(now) {
            match done {
                Doing::Packet(slot, busy) => {
                    let completed = self.measured.on_completion(now, core, slot, now, busy);
                    if completed.onward.is_none() && completed.exit.is_none() {
                        self.leave(now, &completed.packet);
                    }
                }
                Doing::Switch => self.measured.on_switched(now, core),
            }
            self.follow_up(now);
        }
    }

    /// Tells the policies the time, if they asked for it.
    fn keep_time(&mut self, now: Time) {
        if self.measured.next_timeout().is_some_and(|timeout| timeout <= now) {
            self.measured.on_timeout(now);
            self.follow_up(now);
        }
    }

    /// Makes the policies take over that are to do so by now.
    fn swap(&mut self, now: Time) -> Result<(), SimulationError> {
        while self.swaps.first().is_some_and(|swap| swap.at <= now) {
            let swap = self.swaps.remove(0);
            let started = Instant::now();
            (swap.take_over)(now, self.measured.scheduler_mut()).map_err(SimulationError::Swap)?;
            self.swap_pause_max = self.swap_pause_max.max(started.elapsed());
            self.taken_over.push(TakenOver { at: now, policy: swap.policy });
            self.follow_up(now);
        }
        Ok(())
    }

    /// What follows from the last call of the mechanism: packets that are gone, packets that leave, switches that begin.
    #[inline]
    fn follow_up(&mut self, now: Time) {
        if !self.measured.is_settled() {
            self.settle(now);
        }
    }

    #[inline(never)]
    fn settle(&mut self, now: Time) {
        while let Some(dropped) = self.measured.next_dropped() {
            self.classifier.release(&dropped.packet);
        }
        while let Some(exit) = self.measured.next_exit(now) {
            self.leave(now, &exit.packet);
        }
        self.begin_switches(now);
    }

    fn begin_switches(&mut self, now: Time) {
        while let Some(switch) = self.measured.next_switch() {
            self.agenda.begin(switch.core, now + switch.cost, Doing::Switch);
        }
    }

    /// Gives every core that has room what it can have.
    fn hand_out(&mut self, now: Time) {
        while let Some(core) = self.measured.next_core(now) {
            let timed = self.is_timed().then(Instant::now);
            let Some(dispatch) = self.measured.next(now, core) else { continue };
            self.record(timed);
            let span = self.work.serve(&mut self.costs, now, core, &dispatch);
            self.agenda.begin(core, span.finished, Doing::Packet(dispatch.slot, span.busy));
            if !self.measured.is_settled() {
                self.begin_switches(now);
            }
        }
    }

    fn is_busy(&self) -> bool {
        let scheduler = self.measured.scheduler();
        let on_link = self.link.as_ref().map_or(0, OutputLink::held);
        scheduler.account().held + scheduler.exit_account().held + on_link > 0
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
