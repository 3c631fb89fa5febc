//! Simulations of traffic from a source, with or without a link behind the cores.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use humpyard_core::cost::{CostModel, Span};
use humpyard_core::id::{ClientId, FlowId};
use humpyard_core::link::{LinkOutcome, OutputLink};
use humpyard_core::measure::{Histogram, Measured};
use humpyard_core::mechanism::{Arrival, PlannedSwap, TakenOver};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_traffic::classify::Classifier;
use humpyard_traffic::flow::Heaviest;
use humpyard_traffic::pace::{ClockJumps, Pacer};
use humpyard_traffic::source::Source;
use humpyard_traffic::{Numbered, TrafficError};

use crate::ahead::{Ahead, BATCH, Heading};
use crate::cores::TimedCores;
use crate::driver::{Driven, Driver, SimulationError};
use crate::timing::Timing;
use crate::workload::Workload;
use crate::{host, kernel};

/// One run of the simulator, ready to start.
pub struct Simulation<'a, S, Q, A> {
    /// The mechanism, with one or more packets in flight on each core. Packets in flight wait at
    /// the core for their turn.
    pub measured: Measured<S, Q, A>,
    /// Number of cores.
    pub cores: usize,
    /// How long each core is busy with a packet.
    pub costs: CostModel,
    /// The link behind the cores. `None`: packets leave as soon as they are done.
    pub link: Option<OutputLink<S, Q, A>>,
    /// Policies that take over on the way, by time, which rises.
    pub swaps: Vec<PlannedSwap<'a, S, Q, A>>,
    /// Finds flow, client and service.
    pub classifier: Classifier,
    /// The source of the frames.
    pub source: Box<dyn Source + Send>,
    /// When they arrive.
    pub pacer: Pacer,
    /// Set from outside to end the run early: no more packets arrive, and waiting packets are
    /// served.
    pub stop: &'a AtomicBool,
    /// Called now and then with the packets so far and the part of the source that was read (0 to
    /// 1, if known).
    pub progress: &'a mut dyn FnMut(u64, Option<f64>),
}

/// The outcome of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome<S, Q, A> {
    /// The mechanism, with the account and the measurements.
    pub measured: Measured<S, Q, A>,
    /// The results of the link, if there is one.
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
    /// Real time of decisions (an arrival, or an idle core's request), in ns; a sample.
    pub decision: Histogram,
    /// Flows seen.
    pub flows: u64,
    /// The heaviest of them.
    pub heaviest: Heaviest,
    /// How often the clock of the source jumped.
    pub clock_jumps: ClockJumps,
    /// The time of the dispatcher. `None`: the machine has none.
    pub dispatcher: Option<DispatcherTime>,
    /// Packets of the source, for all dispatchers.
    pub read: u64,
}

/// How busy the dispatcher of a simulated host was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DispatcherTime {
    /// The dispatcher's working time.
    pub worked: Time,
    /// The time of the run.
    pub lasted: Time,
}

impl DispatcherTime {
    /// The part of the time during which the dispatcher worked, from 0 to 1.
    pub fn utilization(&self) -> f64 {
        self.worked.as_ns() as f64 / self.lasted.as_ns().max(1) as f64
    }
}

/// Runs a simulation to its end: until the source is exhausted and every packet is served.
///
/// The events of one instant happen in this order: packets that left the link; finished tasks of
/// cores, by ascending core; timeouts; all arrivals; the next packet on the link; requests of
/// cores.
///
/// # Errors
/// More flows have packets under way than the classifier has room for, or a policy cannot take
/// over.
pub fn simulate<S: Steer, Q: Share, A: Allocate>(
    simulation: Simulation<'_, S, Q, A>,
) -> Result<Outcome<S, Q, A>, SimulationError> {
    simulate_with(simulation, Timing::default())
}

/// As [`simulate`]; `timing` describes how packets get to cores and how long they take there.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with<S: Steer, Q: Share, A: Allocate>(
    simulation: Simulation<'_, S, Q, A>,
    timing: Timing,
) -> Result<Outcome<S, Q, A>, SimulationError> {
    if simulation.is_plain(&timing) {
        run::<true, _, _, _>(simulation, timing)
    } else {
        run::<false, _, _, _>(simulation, timing)
    }
}

impl<S: Steer, Q: Share, A: Allocate> Simulation<'_, S, Q, A> {
    /// Whether the run has no rare features, no link and no takeover, and packets take the time of
    /// the cost model.
    pub(crate) fn is_plain(&self, timing: &Timing) -> bool {
        self.swaps.is_empty() && self.link.is_none() && self.measured.is_plain() && timing.is_modelled()
    }
}

/// Runs a simulation. `PLAIN`: [`Simulation::is_plain`] holds, and the loop is compiled without
/// checks for rare features.
pub(crate) fn run<const PLAIN: bool, S: Steer, Q: Share, A: Allocate>(
    run: Simulation<'_, S, Q, A>,
    mut timing: Timing,
) -> Result<Outcome<S, Q, A>, SimulationError> {
    let started = Instant::now();
    let mut costs = run.costs.with_further_work(run.measured.scheduler().further_work());
    let (tunnels, digester) = (run.classifier.tunnels(), run.classifier.digester().clone());
    let mut traffic = Traffic::<PLAIN, S, Q, A> {
        arrival: Time::MAX,
        is_dry: false,
        costs: costs.clone(),
        heeds_work: !PLAIN || run.measured.scheduler().heeds_work(),
        link: run.link,
        source: Ahead::new(run.source, run.pacer, tunnels, digester, timing.part.take()),
        classifier: run.classifier,
        stop: run.stop,
        progress: run.progress,
        damage: None,
        interrupted: false,
        arrivals: 0,
        heaviest: Heaviest::default(),
    };
    traffic.read();
    if !PLAIN && let Some(kernel) = timing.kernel.take() {
        return Ok(outcome(started, kernel::drive(kernel, run.cores, costs, run.measured, traffic)?, |()| None));
    }
    // A plain loop has no host, so it is not compiled for one.
    if !PLAIN && let Some(host) = timing.host.take() {
        return Ok(outcome(started, host::drive(*host, costs, run.measured, traffic)?, Some));
    }
    let is_modelled = timing.is_modelled();
    if is_modelled {
        costs = costs.with_further_hand_over(timing.hand_over);
    }
    let quantum = if PLAIN { None } else { run.measured.quantum() };
    assert!(
        quantum.is_none() || is_modelled && timing.hand_over == Time::ZERO,
        "packets with turns take the time of costs"
    );
    let switch_out = timing.switch_out;
    let mut cores = TimedCores::new(run.cores, |now, core, dispatch: &_| {
        if !PLAIN && quantum.is_some() {
            let busy = costs.time(core, dispatch);
            return Span { finished: now + busy, busy };
        }
        if PLAIN || is_modelled {
            costs.serve(now, core, dispatch)
        } else {
            timing.serve(&mut costs, now, core, dispatch)
        }
    });
    if let Some(quantum) = quantum {
        cores = cores.with_quantum(quantum, switch_out, run.measured.scheduler().slots());
    }
    let driven = Driver::new(run.measured, traffic, cores).with_swaps(run.swaps).drive_as::<PLAIN>()?;
    Ok(outcome(started, driven, |_| None))
}

/// Returns the outcome of a run; `worked` is the dispatcher's working time.
fn outcome<const PLAIN: bool, S: Steer, Q: Share, A: Allocate, C>(
    started: Instant,
    driven: Driven<S, Q, A, Traffic<'_, PLAIN, S, Q, A>, C>,
    worked: impl FnOnce(C) -> Option<Time>,
) -> Outcome<S, Q, A> {
    let mut traffic = driven.workload;
    (traffic.progress)(traffic.arrivals, Some(1.0));
    traffic.heaviest.add_all(traffic.classifier.flows(), |flow| driven.measured.packets_of(flow));
    Outcome {
        heaviest: traffic.heaviest,
        flows: traffic.classifier.flows().seen(),
        clock_jumps: traffic.source.jumps(),
        read: traffic.source.passed(),
        measured: driven.measured,
        link: traffic.link.as_ref().map(OutputLink::outcome),
        damage: traffic.damage,
        interrupted: traffic.interrupted,
        wall: started.elapsed(),
        taken_over: driven.taken_over,
        swap_pause_max: driven.swap_pause_max,
        decision: driven.decision,
        dispatcher: worked(driven.cores).map(|worked| DispatcherTime { worked, lasted: driven.end }),
    }
}

/// Packets between two reports of progress. A report comes with the first packet of a batch.
const PROGRESS_EVERY: u64 = 1 << 16;
const _: () = assert!(PROGRESS_EVERY.is_multiple_of(BATCH as u64));

/// The classified frames of a source, and the link that packets leave by; `PLAIN`: there is no
/// link.
struct Traffic<'a, const PLAIN: bool, S, Q, A> {
    /// When the frame that was read last arrives; after the last, [`Time::MAX`].
    arrival: Time,
    /// Whether no frame is left.
    is_dry: bool,
    source: Ahead,
    classifier: Classifier,
    /// For oracles.
    costs: CostModel,
    /// Whether there may be a link or an observer.
    heeds_work: bool,
    link: Option<OutputLink<S, Q, A>>,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(u64, Option<f64>),
    damage: Option<TrafficError>,
    interrupted: bool,
    arrivals: u64,
    heaviest: Heaviest,
}

impl<const PLAIN: bool, S: Steer, Q: Share, A: Allocate> Workload<S, Q, A> for Traffic<'_, PLAIN, S, Q, A> {
    const IS_CLOSED: bool = false;

    #[inline(always)]
    fn next_event(&self) -> Time {
        match self.link() {
            None => self.arrival,
            Some(link) => self.arrival.min(link.next_event().unwrap_or(Time::MAX)),
        }
    }

    #[inline(always)]
    fn next_packet(
        &mut self,
        now: Time,
        packet: &mut Packet,
        measured: &mut Measured<S, Q, A>,
    ) -> Result<bool, TrafficError> {
        // The dispatcher of a host comes later to a packet than that arrives; a plain loop has no host.
        let has_come = if PLAIN { self.arrival == now } else { self.arrival <= now };
        if !has_come || self.is_dry {
            return Ok(false);
        }
        if self.classifier.has_timeout() {
            self.end_idle_flows(now, measured);
        }
        self.classify(now, packet, measured)?;
        packet.arrival = if PLAIN { now } else { self.source.arrived(self.arrival) };
        if self.heeds_work {
            packet.estimate = self.costs.work(packet);
        }
        self.arrivals += 1;
        self.read();
        Ok(true)
    }

    #[inline(always)]
    fn is_over(&self, measured: &Measured<S, Q, A>) -> bool {
        self.is_dry && measured.scheduler().is_empty() && self.link().is_none_or(|link| link.held() == 0)
    }

    fn on_loss(&mut self, _: Time, packet: &Packet, _: &mut Measured<S, Q, A>) {
        self.classifier.release(packet);
    }

    /// Sends the packet, or passes it to the link.
    #[inline(always)]
    fn on_departure(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>) {
        match self.link() {
            None => self.classifier.release(packet),
            Some(_) => self.on_processed(now, packet, measured),
        }
    }

    /// Takes the packets that have left the link at this instant.
    #[inline(always)]
    fn begin(&mut self, now: Time) {
        if let Some(link) = self.link_mut()
            && let Some((_, sent)) = link.next_sent(now)
        {
            self.classifier.release(&sent);
        }
    }

    /// Sends the next packet on the link, if there is one.
    #[inline(always)]
    fn end(&mut self, now: Time, measured: &mut Measured<S, Q, A>) {
        if let Some(link) = self.link_mut() {
            link.send(now, measured.scheduler_mut());
        }
    }

    fn known_flows(&self) -> u64 {
        self.classifier.flows().len() as u64
    }

    fn awaits(&self) -> bool {
        !self.is_dry || self.link().and_then(OutputLink::next_event).is_some()
    }
}

impl<const PLAIN: bool, S: Steer, Q: Share, A: Allocate> Traffic<'_, PLAIN, S, Q, A> {
    #[inline(always)]
    fn link(&self) -> Option<&OutputLink<S, Q, A>> {
        if PLAIN { None } else { self.link.as_ref() }
    }

    #[inline(always)]
    fn link_mut(&mut self) -> Option<&mut OutputLink<S, Q, A>> {
        if PLAIN { None } else { self.link.as_mut() }
    }

    /// Reads the next frame, if there is one.
    #[inline(always)]
    fn read(&mut self) {
        match self.source.next() {
            Some(arrival) => self.arrival = arrival,
            None => self.read_on(),
        }
    }

    /// Reads the next frames, if there are any.
    #[cold]
    fn read_on(&mut self) {
        (self.arrival, self.is_dry) = (Time::MAX, true);
        // A batch has no packets if another dispatcher gets all of them.
        while self.is_dry {
            if self.source.passed().is_multiple_of(PROGRESS_EVERY) {
                (self.progress)(self.arrivals, self.source.progress());
            }
            if self.is_stopped() {
                return;
            }
            match self.source.turn() {
                Ok(true) => self.classifier.look_ahead_numbered(self.source.to_come()),
                Ok(false) => return,
                Err(damage) => {
                    self.damage = Some(damage);
                    return;
                }
            }
            if let Some(arrival) = self.source.next() {
                (self.arrival, self.is_dry) = (arrival, false);
            }
        }
    }

    /// Asks whether to stop. A policy that looks at all clients takes long for a batch, so each batch asks.
    fn is_stopped(&mut self) -> bool {
        self.interrupted |= self.stop.load(Ordering::Relaxed);
        self.interrupted
    }

    /// Ends the flows that have been idle for too long when the packet comes.
    #[inline(never)]
    fn end_idle_flows(&mut self, now: Time, measured: &mut Measured<S, Q, A>) {
        while let Some(expired) = self.classifier.next_expired(self.source.current().time) {
            self.end_of(now, Some(expired.flow), expired.client, measured);
        }
    }

    /// Writes the packet that has come.
    #[inline(always)]
    fn classify(
        &mut self,
        now: Time,
        packet: &mut Packet,
        measured: &mut Measured<S, Q, A>,
    ) -> Result<(), TrafficError> {
        if self.source.flows().is_some() {
            let Numbered { flow, length, .. } = *self.source.current();
            if let Some(known) = self.classifier.classify_numbered(flow, length) {
                *packet = known;
                return Ok(());
            }
        }
        *packet = self.classify_headers(now, measured)?;
        Ok(())
    }

    #[inline(never)]
    fn classify_headers(&mut self, now: Time, measured: &mut Measured<S, Q, A>) -> Result<Packet, TrafficError> {
        let Numbered { flow, length, .. } = *self.source.current();
        let classified = match self.source.flows() {
            Some(flows) => self.classifier.classify_new_number(flow, &flows.headers(flow), length)?,
            None => {
                let Heading { headers, digest } = self.source.heading();
                self.classifier.classify_digest(headers, digest, length)?
            }
        };
        self.end_of(now, classified.ended_flow, classified.ended_client, measured);
        if let Some(weight) = classified.weight {
            measured.set_weight(now, classified.packet.client, weight);
        }
        if let (Some(link), Some(weight)) = (&mut self.link, classified.link_weight) {
            link.set_weight(now, classified.packet.client, weight);
        }
        Ok(classified.packet)
    }

    /// Ends a flow or a client.
    fn end_of(&mut self, now: Time, flow: Option<FlowId>, client: Option<ClientId>, measured: &mut Measured<S, Q, A>) {
        if let Some(flow) = flow {
            self.heaviest.add(self.classifier.flows().last_ended(), measured.packets_of(flow));
            measured.on_flow_end(now, flow);
            if let Some(link) = &mut self.link {
                link.on_flow_end(now, flow);
            }
        }
        if let Some(client) = client {
            measured.on_client_end(now, client);
            if let Some(link) = &mut self.link {
                link.on_client_end(now, client);
            }
        }
    }

    /// Passes a packet to the link, which may drop it or others.
    #[inline(never)]
    fn on_processed(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>) {
        let link = self.link.as_mut().expect("it has one");
        if let Arrival::Dropped(_) = link.on_processed(now, packet, measured.scheduler_mut()) {
            self.classifier.release(packet);
            measured.on_loss_behind(packet, now);
        }
        while let Some(dropped) = link.next_dropped(now) {
            self.classifier.release(&dropped.packet);
            measured.on_loss_behind(&dropped.packet, dropped.packet.arrival);
        }
    }
}
