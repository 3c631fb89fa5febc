//! The dispatcher: reads, classifies, asks the mechanism, hands out, takes back, writes.

use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Instant;

use humpyard_core::cost::Span;
use humpyard_core::frame::Frame;
use humpyard_core::id::{CoreId, Id, IdVec, Slot};
use humpyard_core::measure::{DelayTally, Histogram, Measured};
use humpyard_core::mechanism::{Arrival, PlannedSwap};
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;
use humpyard_services::{DropReason, Factory, Verdict};
use humpyard_traffic::TrafficError;
use humpyard_traffic::classify::Classifier;
use humpyard_traffic::pace::Pacer;
use humpyard_traffic::sink::Sink;
use humpyard_traffic::source::{Polled, Source};

use crate::clock::{Clock, Now, Stopwatch};
use crate::counters::Counters;
use crate::crew::Crew;
use crate::hardware::ThreadCounters;
use crate::outcome::{OutAccount, Outcome, RunError, ServicePanic};
use crate::own::Own;
use crate::panic;
use crate::placement::{Seat, Seated, Thread, seats};
use crate::replacement::{Replacement, Replacements};
use crate::threads::Threads;
use crate::virtual_cores::VirtualCores;
use crate::wait::{Doorbell, Next, Patience};
use crate::watch::{FlowCounts, Snapshot, Watched};
use crate::worker::{Done, Panicked, Workbench};

/// What to do when as many packets are held as may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overload {
    /// Read no more until there is room: nothing is dropped, the source waits.
    #[default]
    Wait,
    /// Drop what arrives, as a wire would.
    Drop,
}

/// One live run, ready to start.
pub struct Live<'a, S, Q, A> {
    /// The mechanism; its number of cores is `workers`, or 1 for none.
    pub measured: Measured<S, Q, A>,
    /// Most packets held: the mechanism's.
    pub packets: usize,
    /// Worker threads, one per core; 0 does everything on the calling thread, as one core.
    pub workers: usize,
    /// Where the threads sit, the dispatcher first, by a real clock; none is as [`seats`](crate::seats()) says.
    pub seats: Option<Vec<Seat>>,
    /// Whether hardware is to count what each thread does, where it can: by a real clock.
    pub hardware: bool,
    /// Makes each service.
    pub services: Vec<Factory>,
    /// Finds flow, client and service.
    pub classifier: Classifier,
    /// Where frames come from.
    pub source: Box<dyn Source + Send>,
    /// Where they go.
    pub sink: Box<dyn Sink + Send>,
    /// Takes the packets at which a service panicked, as they came in. Without it they are not kept, and cost nothing.
    pub quarantine: Option<Box<dyn Sink + Send>>,
    /// When frames arrive; none is as fast as they are taken.
    pub pacer: Option<Pacer>,
    /// What to do when there is no room.
    pub overload: Overload,
    /// Which time it goes by. By a virtual one there are no threads.
    pub clock: Clock,
    /// Policies that take over on the way, by time since the start, which rises.
    pub swaps: Vec<PlannedSwap<'a, S, Q, A>>,
    /// What it goes on with when it is told; none is never. Not by a virtual clock.
    pub replacements: Option<Receiver<Replacement<S, Q, A>>>,
    /// Ends reading after so long, by that time.
    pub longest: Option<Duration>,
    /// Set from outside to end reading: what is held is served and written.
    pub stop: &'a AtomicBool,
    /// Told now and then of the packets so far and how much of the source was read (0 to 1, where that is known).
    pub progress: &'a mut dyn FnMut(u64, Option<f64>),
    /// One half of [`watch`](crate::watch()): the other is told how the run stands when it asks.
    pub watched: Option<Watched>,
}

/// Frames read, at most, before results are looked for again.
const BATCH: usize = 32;
/// One in so many arrivals has its decisions timed.
const TIMED_EVERY: u64 = 1 << 6;
/// How often progress is told, and a look is taken at the workers, in packets.
const PROGRESS_EVERY: u64 = 1 << 14;
/// A sleep is never longer, so that an end from outside is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(20);
/// A sleep ends so long before the next arrival, for the system takes its time to wake a thread.
const WAKE_EARLY: Duration = Duration::from_micros(100);

/// Runs the data plane until the source is dry, or the run is ended, and everything held is served and written.
///
/// The outcome has two accounts, of what came in and of what went out; whoever runs this checks that both balance, in every
/// build, as the command line does, which exits with 1 if one does not.
///
/// A service that panics ends nothing: its packet is dropped for [`DropReason::ServicePanicked`](humpyard_services::DropReason)
/// and goes to the quarantine, its instance is made anew, and its worker goes on. The first run of a program puts a panic hook
/// before that of the program, which says nothing of such panics, for the outcome tells of them; all others it passes on. (A
/// hook that the program sets later is told of them all.) So the program must not be built to abort on panics.
///
/// # Errors
/// A sink that cannot be written, a lost worker, more flows under way than there is room for. Damage within the source is
/// no error: what came before it is processed, and the outcome tells of it.
pub fn run<S: Steer, Q: Share, A: Allocate>(mut live: Live<'_, S, Q, A>) -> Result<Outcome<S, Q, A>, RunError> {
    panic::keep_quiet();
    let stopwatch = Stopwatch::start();
    let doorbell = Arc::new(Doorbell::new().map_err(RunError::Doorbell)?);
    let is_real = matches!(live.clock, Clock::Real);
    let workers = if is_real { live.workers } else { 0 };
    let seats = live.seats.take().filter(|_| is_real).unwrap_or_else(|| seats(workers));
    live.watched.as_ref().inspect(|watched| watched.begin(&doorbell));
    let crew = crew(&live, &seats, stopwatch, &doorbell)?;
    let replacements = Replacements::new(live.replacements.take().filter(|_| is_real));
    let now = if is_real { Now::Real(stopwatch) } else { Now::Virtual(Time::ZERO) };
    let seated = seats[0].take();
    crew.wait_until_ready();
    let counting = (is_real && live.hardware).then(|| ThreadCounters::start(Thread::Dispatcher));
    let started = Instant::now();
    let mut dispatcher = Dispatcher {
        given: IdSet::new(live.workers.max(1)),
        // One more, for a packet that is pushed out by another that has its slot already.
        held: IdVec::from_fn(live.packets + 1, |_| Held::default()),
        waiting_out: Vec::new(),
        made: IdVec::from_fn(live.workers.max(1), |_| Vec::new()),
        swap_pause_max: Duration::ZERO,
        swaps: 0,
        spare: Vec::new(),
        next: None,
        shared: seats[0].shared,
        seated,
        replacements,
        counters: Counters::default(),
        reading: true,
        out: OutAccount::default(),
        panic: None,
        damage: None,
        interrupted: false,
        overdue_max: Time::ZERO,
        decision: Histogram::new(),
        arrivals: 0,
        patience: Patience::new(seats[0].shared),
        seats,
        stopwatch,
        crew,
        begin: now.read(),
        now,
        doorbell,
        live,
    };
    let worked = dispatcher.work();
    let Dispatcher {
        mut live,
        mut out,
        mut counters,
        seats,
        replacements,
        panic,
        damage,
        interrupted,
        overdue_max,
        swap_pause_max,
        decision,
        crew,
        ..
    } = dispatcher;
    if let Some(counting) = counting {
        counters.add_hardware(counting.end());
    }
    // No thread outlives the run, whatever became of it.
    let ended = crew.end();
    worked?;
    counters.merge(ended?);
    let received = live.source.received()?;
    live.sink.close()?;
    let sent = live.sink.sent();
    out.on_sent(&sent);
    live.sink.finish()?;
    live.quarantine.map_or(Ok(0), Sink::finish)?;
    (live.progress)(live.measured.account().arrived, Some(1.0));
    Ok(Outcome {
        flows: live.classifier.flows().seen(),
        clock_jumps: live.pacer.as_ref().map(Pacer::jumps).unwrap_or_default(),
        measured: live.measured,
        out,
        received,
        sent,
        counters,
        panic,
        damage,
        interrupted,
        overdue_max,
        swap_pause_max,
        replacements: replacements.made,
        wall: started.elapsed(),
        decision,
        seats,
    })
}

/// A packet held.
#[derive(Default)]
struct Held {
    /// Its number among those that came in, from 1.
    number: u64,
    /// Its frame, until it goes to a worker.
    frame: Frame,
}

/// Whoever does the work of this run: threads in the seats but the first, which is the dispatcher's, or that alone.
fn crew<S: Steer, Q: Share, A: Allocate>(
    live: &Live<'_, S, Q, A>,
    seats: &[Seat],
    stopwatch: Stopwatch,
    doorbell: &Arc<Doorbell>,
) -> Result<Crew, RunError> {
    let bench = || Workbench::new(&live.services, live.quarantine.is_some());
    Ok(match &live.clock {
        Clock::Virtual(costs) => Crew::Virtual(VirtualCores::new(live.workers.max(1), (**costs).clone(), bench)),
        Clock::Real if live.workers == 0 => Crew::Own(Own::new(stopwatch, bench())),
        Clock::Real => {
            let in_flight = live.measured.scheduler().in_flight() as usize;
            Crew::Threads(Threads::start(&seats[1..], in_flight, stopwatch, doorbell, live.hardware, bench)?)
        }
    })
}

struct Dispatcher<'a, S, Q, A> {
    live: Live<'a, S, Q, A>,
    crew: Crew,
    now: Now,
    /// When everybody was ready: from then arrivals count.
    begin: Time,
    doorbell: Arc<Doorbell>,
    patience: Patience,
    /// Cores that were given packets and not yet woken.
    given: IdSet<CoreId>,
    held: IdVec<Slot, Held>,
    /// The frames of packets that wait at the exit, by place.
    waiting_out: Vec<Frame>,
    /// What services made of the packet that each core is about to hand over: it goes out behind that.
    made: IdVec<CoreId, Vec<Frame>>,
    /// The longest that all stood still while a policy took over.
    swap_pause_max: Duration,
    /// Policies that have taken over.
    swaps: u64,
    /// Buffers not in use.
    spare: Vec<Frame>,
    /// The frame read and not yet arrived, with its arrival.
    next: Option<(Time, Frame)>,
    /// Whether a worker shares the dispatcher's processor.
    shared: bool,
    /// The dispatcher's own seat, as long as it has it.
    seated: Seated,
    seats: Vec<Seat>,
    stopwatch: Stopwatch,
    replacements: Replacements<S, Q, A>,
    /// What services counted that are no more.
    counters: Counters,
    /// Whether the source may have more.
    reading: bool,
    out: OutAccount,
    panic: Option<ServicePanic>,
    damage: Option<TrafficError>,
    interrupted: bool,
    /// The longest that a frame was due before it was taken in.
    overdue_max: Time,
    decision: Histogram,
    arrivals: u64,
}

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// What happens at one instant happens in this order: what cores have done, timeouts, arrivals, questions of cores.
    fn work(&mut self) -> Result<(), RunError> {
        loop {
            let completed = self.take_back()?;
            let timed_out = self.keep_time()?;
            let arrived = self.take_in()?;
            // What would go on otherwise waits until nothing is in service.
            let replaces = self.replacements.is_waiting();
            let dispatched = if replaces { self.replace()? } else { self.hand_out() };
            self.live.sink.send()?;
            if self.is_asked() {
                self.answer();
            }
            if !self.reading && self.live.measured.account().held + self.out.held == 0 {
                return Ok(());
            }
            if completed || timed_out || dispatched {
                self.patience.reset();
            } else if arrived {
                // Every core has what it can have. A worker that shares this processor must get it, or it gets nothing done.
                if self.shared {
                    thread::yield_now();
                }
                self.patience.reset();
            } else if !self.wait()? {
                return Ok(());
            }
        }
    }

    /// Whether somebody wants to know how the run stands.
    #[inline]
    fn is_asked(&self) -> bool {
        self.live.watched.as_ref().is_some_and(Watched::is_asked)
    }

    /// Tells how the run stands.
    #[cold]
    fn answer(&mut self) {
        let snapshot = Box::new(self.snapshot());
        if let Some(watched) = &mut self.live.watched {
            watched.answer(snapshot);
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let measured = &self.live.measured;
        let scheduler = measured.scheduler();
        let flows = self.live.classifier.flows();
        let sent = self.live.sink.sent();
        let mut out = self.out.clone();
        out.on_sent(&sent);
        let tally = measured.tally();
        // Cores that there are no more keep their figures.
        let cores = (0..tally.cores.len()).map(|core| (core < scheduler.cores()).then(|| CoreId::from_index(core)));
        Snapshot {
            elapsed: self.now.read().since(self.begin),
            account: *measured.account(),
            out,
            in_flight: cores.clone().map(|core| core.map_or(0, |core| scheduler.in_service(core))).collect(),
            waiting: cores.map(|core| scheduler.waiting(core?)).collect(),
            tally,
            flows: FlowCounts {
                known: flows.len() as u64,
                seen: flows.seen(),
                evicted: flows.evicted(),
                expired: flows.expired(),
            },
            // A look at a run is no reason to end it.
            received: self.live.source.received().unwrap_or_default(),
            sent,
            decision: DelayTally::of(&self.decision),
            overdue_max: self.overdue_max,
            swaps: self.swaps,
            policy: self.replacements.policy.clone(),
            swap_pause_max: self.swap_pause_max,
            sampled: Vec::new(),
        }
    }

    /// Everything that cores have done: packets and switches.
    fn take_back(&mut self) -> Result<bool, RunError> {
        let now = self.now.read();
        let mut any = false;
        while let Some((core, done)) = self.crew.take(now) {
            self.settle(now, core, done)?;
            any = true;
        }
        Ok(any)
    }

    fn settle(&mut self, now: Time, core: CoreId, done: Done) -> Result<(), RunError> {
        match done {
            Done::Served { slot, frame, verdict, span } => {
                self.on_served(now, core, slot, frame, verdict, span)?;
                if !self.made[core].is_empty() {
                    self.send_made(core)?;
                }
            }
            Done::Panicked(panicked) => {
                let Panicked { slot, frame, span, message } = *panicked;
                let number = self.held[slot].number;
                let completed = self.live.measured.on_end(now, core, slot, span.finished, span.busy);
                self.live.classifier.release(&completed.packet);
                let service = completed.packet.service;
                self.on_panic(ServicePanic { packet: number, service, message }, &frame)?;
                self.spare.push(frame);
            }
            Done::Generated(frame) => {
                self.made[core].push(frame);
            }
            Done::Switched => self.live.measured.on_switched(now, core),
        }
        self.follow_up(now)
    }

    /// A packet was served: it goes on, out, to wait for earlier ones of its flow, or it ends here.
    fn on_served(
        &mut self,
        now: Time,
        core: CoreId,
        slot: Slot,
        frame: Frame,
        verdict: Verdict,
        span: Span,
    ) -> Result<(), RunError> {
        let measured = &mut self.live.measured;
        if verdict != Verdict::Forward {
            let completed = measured.on_end(now, core, slot, span.finished, span.busy);
            self.live.classifier.release(&completed.packet);
            self.out.on_verdict(verdict);
            self.spare.push(frame);
            return Ok(());
        }
        let completed = measured.on_completion(now, core, slot, span.finished, span.busy);
        if completed.onward.is_some() {
            self.held[slot].frame = frame;
            return Ok(());
        }
        if let Some(place) = completed.exit {
            self.out.on_wait();
            if self.waiting_out.len() <= place.index() {
                self.waiting_out.resize_with(place.index() + 1, Frame::default);
            }
            self.waiting_out[place.index()] = frame;
            return Ok(());
        }
        self.live.classifier.release(&completed.packet);
        self.out.on_verdict(verdict);
        self.send(frame)
    }

    /// Sends what services made of a packet that was just handed over.
    fn send_made(&mut self, core: CoreId) -> Result<(), RunError> {
        let mut made = mem::take(&mut self.made[core]);
        for frame in made.drain(..) {
            self.out.on_generated();
            self.send(frame)?;
        }
        self.made[core] = made;
        Ok(())
    }

    fn send(&mut self, frame: Frame) -> Result<(), RunError> {
        self.live.sink.write(&frame)?;
        self.spare.push(frame);
        Ok(())
    }

    /// What follows from the last call of the mechanism: packets that are gone, packets that leave, switches that begin.
    fn follow_up(&mut self, now: Time) -> Result<(), RunError> {
        while let Some(dropped) = self.live.measured.next_dropped() {
            self.live.classifier.release(&dropped.packet);
            self.spare.push(mem::take(&mut self.held[dropped.slot].frame));
        }
        while let Some(exit) = self.live.measured.next_exit(now) {
            self.live.classifier.release(&exit.packet);
            self.out.on_exit();
            let frame = mem::take(&mut self.waiting_out[exit.place.index()]);
            self.send(frame)?;
        }
        while let Some(switch) = self.live.measured.next_switch() {
            self.crew.switch(switch.core, now + switch.cost);
        }
        Ok(())
    }

    /// Counts a packet at which its service panicked, and puts its frame aside.
    fn on_panic(&mut self, panic: ServicePanic, frame: &Frame) -> Result<(), RunError> {
        self.out.on_verdict(Verdict::Drop(DropReason::ServicePanicked));
        if let Some(quarantine) = &mut self.live.quarantine {
            quarantine.write(frame)?;
        }
        if self.panic.as_ref().is_none_or(|known| panic.packet < known.packet) {
            self.panic = Some(panic);
        }
        Ok(())
    }

    /// The frames that have arrived: at most a batch, but in virtual time all of an instant.
    fn take_in(&mut self) -> Result<bool, RunError> {
        let now = self.now.read();
        let mut any = false;
        loop {
            let taken = self.take_batch(now)?;
            any |= taken > 0;
            if taken < BATCH || !self.now.is_virtual() {
                return Ok(any);
            }
        }
    }

    fn take_batch(&mut self, now: Time) -> Result<usize, RunError> {
        if self.is_over(now) {
            self.reading = false;
            self.next = None;
        }
        for taken in 0..BATCH {
            if self.must_wait() {
                return Ok(taken);
            }
            let next = if self.next.is_some() { self.next.take() } else { self.read(now)? };
            let Some((arrival, frame)) = next else { return Ok(taken) };
            if arrival > now {
                self.next = Some((arrival, frame));
                return Ok(taken);
            }
            self.overdue_max = self.overdue_max.max(now.since(arrival));
            self.arrive(now, arrival, frame)?;
        }
        Ok(BATCH)
    }

    /// Whether the next frame has to wait until there is room.
    fn must_wait(&self) -> bool {
        self.live.overload == Overload::Wait && self.live.measured.scheduler().is_full()
    }

    /// Reads the next frame and gives it with its arrival; none when there is none now, or no more.
    fn read(&mut self, now: Time) -> Result<Option<(Time, Frame)>, RunError> {
        let mut frame = self.spare.pop().unwrap_or_default();
        (frame.port, frame.answer) = (0, false);
        while self.reading {
            match self.live.source.poll(&mut frame) {
                Ok(Polled::Frame) => {
                    let arrival = self.live.pacer.as_mut().map_or(now, |pacer| self.begin + pacer.arrival(frame.time));
                    return Ok(Some((arrival, frame)));
                }
                Ok(Polled::NotYet) if self.now.is_virtual() => {
                    // Time cannot go on until it is known what comes next.
                    self.wait_for_source()?;
                    self.reading = !self.is_over(now);
                }
                Ok(Polled::NotYet) => break,
                Ok(Polled::End) => self.reading = false,
                Err(damage) => {
                    self.damage = Some(damage);
                    self.reading = false;
                }
            }
        }
        self.spare.push(frame);
        Ok(None)
    }

    fn wait_for_source(&mut self) -> Result<(), RunError> {
        if self.patience.wait() == Next::Sleep {
            self.flush()?;
            self.doorbell.sleep(SLEEP_MAX, &self.live.source.descriptors(), || false);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RunError> {
        self.live.sink.flush()?;
        if let Some(quarantine) = &mut self.live.quarantine {
            quarantine.flush()?;
        }
        Ok(())
    }

    /// Whether the run is to end before the source does.
    fn is_over(&mut self, now: Time) -> bool {
        self.interrupted |= self.live.stop.load(Ordering::Relaxed);
        self.interrupted || self.live.longest.is_some_and(|longest| now.since(self.begin).as_ns() >= ns(longest))
    }

    fn arrive(&mut self, now: Time, arrival: Time, frame: Frame) -> Result<(), RunError> {
        let measured = &mut self.live.measured;
        while let Some(expired) = self.live.classifier.next_expired(&frame) {
            measured.on_flow_end(now, expired.flow);
            if let Some(client) = expired.client {
                measured.on_client_end(now, client);
            }
        }
        let classified = self.live.classifier.classify(&frame)?;
        if let Some(flow) = classified.ended_flow {
            measured.on_flow_end(now, flow);
        }
        if let Some(client) = classified.ended_client {
            measured.on_client_end(now, client);
        }
        if let Some(weight) = classified.weight {
            measured.set_weight(now, classified.packet.client, weight);
        }
        let mut packet = classified.packet;
        packet.arrival = arrival;
        packet.estimate = self.crew.work(&packet).unwrap_or(0);
        let timed = self.arrivals.is_multiple_of(TIMED_EVERY).then(Instant::now);
        let answer = measured.on_arrival(now, packet);
        self.record(timed);
        self.arrivals += 1;
        if let Some(watched) = &mut self.live.watched {
            watched.on_arrival(self.arrivals, || self.live.classifier.flows().key(packet.flow));
        }
        self.follow_up(now)?;
        match answer {
            Arrival::Queued(slot) => self.held[slot] = Held { number: self.arrivals, frame },
            Arrival::Dropped(_) => {
                self.live.classifier.release(&packet);
                self.spare.push(frame);
            }
        }
        if self.arrivals.is_multiple_of(PROGRESS_EVERY) {
            // Where packets come and go all the time, nobody waits and notices that a worker is gone.
            self.crew.check()?;
            (self.live.progress)(self.arrivals, self.live.source.progress());
        }
        Ok(())
    }

    /// Gives every core as many packets as it may have in flight.
    fn hand_out(&mut self) -> bool {
        let now = self.now.read();
        while let Some(core) = self.live.measured.next_core(now) {
            let timed = self.arrivals.is_multiple_of(TIMED_EVERY).then(Instant::now);
            let Some(dispatch) = self.live.measured.next(now, core) else { continue };
            self.record(timed);
            let frame = mem::take(&mut self.held[dispatch.slot].frame);
            self.crew.give(now, core, &dispatch, frame);
            self.given.insert(core);
        }
        let any = !self.given.is_empty();
        while let Some(core) = self.given.first() {
            self.given.remove(core);
            self.crew.wake(core);
        }
        any
    }

    /// Goes on with what waits to take over, if nothing is in service; whether it did.
    fn replace(&mut self) -> Result<bool, RunError> {
        if !self.live.measured.scheduler().is_quiet() {
            return Ok(false);
        }
        let Some((replacement, since)) = self.replacements.take() else { return Ok(false) };
        let Replacement { policy, scheduler, weights, workers, topology, seats } = replacement;
        let now = self.now.read();
        let in_flight = self.live.measured.scheduler().in_flight();
        self.crew.forget_switches();
        self.live.measured.replace(now, scheduler, topology.as_ref()).map_err(RunError::Swap)?;
        // The rings of the workers have room for so many packets as may be in flight.
        if workers != self.live.workers || self.live.measured.scheduler().in_flight() != in_flight {
            self.change_crew(workers, seats)?;
        }
        for (client, weight) in weights {
            self.live.measured.set_weight(now, client, weight);
        }
        self.follow_up(now)?;
        self.replacements.made += 1;
        self.replacements.policy = Some(policy);
        self.swaps += 1;
        self.swap_pause_max = self.swap_pause_max.max(since.elapsed());
        Ok(true)
    }

    /// Has so many other workers do the work, while nobody has any.
    fn change_crew(&mut self, workers: usize, chosen: Option<Vec<Seat>>) -> Result<(), RunError> {
        self.live.workers = workers;
        // Seats are chosen among the processors that the thread may use, which in its seat is that alone.
        self.seated.leave();
        let seats = chosen.unwrap_or_else(|| seats(workers));
        let crew = crew(&self.live, &seats, self.stopwatch, &self.doorbell)?;
        crew.wait_until_ready();
        self.counters.merge(mem::replace(&mut self.crew, crew).end()?);
        self.seated = seats[0].take();
        self.shared = seats[0].shared;
        self.patience = Patience::new(self.shared);
        self.seats = seats;
        self.given = IdSet::new(workers.max(1));
        self.made = IdVec::from_fn(workers.max(1), |_| Vec::new());
        Ok(())
    }

    /// Tells the policies the time, if they asked for it.
    fn keep_time(&mut self) -> Result<bool, RunError> {
        let now = self.now.read();
        let due = self.live.measured.next_timeout().is_some_and(|timeout| timeout <= now);
        if due {
            self.live.measured.on_timeout(now);
            self.follow_up(now)?;
        }
        while self.live.swaps.first().is_some_and(|swap| self.begin + swap.at <= now) {
            let swap = self.live.swaps.remove(0);
            let started = Instant::now();
            (swap.take_over)(now, self.live.measured.scheduler_mut()).map_err(RunError::Swap)?;
            self.swap_pause_max = self.swap_pause_max.max(started.elapsed());
            self.swaps += 1;
            self.follow_up(now)?;
        }
        Ok(due)
    }

    /// Nothing to do now: time passes. False if nothing will ever come.
    fn wait(&mut self) -> Result<bool, RunError> {
        if let Now::Virtual(now) = self.now {
            let next = self.next_event();
            self.now = Now::Virtual(next.map_or(now, |next| next.max(now)));
            return Ok(next.is_some());
        }
        if self.patience.wait() == Next::Sleep {
            self.sleep()?;
        }
        Ok(true)
    }

    /// Sleeps until a worker rings or something is due.
    fn sleep(&mut self) -> Result<(), RunError> {
        self.flush()?;
        self.crew.check()?;
        let now = self.now.read();
        let until_next = self.next_event().map(|next| Duration::from_nanos(next.since(now).as_ns()));
        let longest = until_next.map_or(SLEEP_MAX, |until| until.saturating_sub(WAKE_EARLY).min(SLEEP_MAX));
        if !longest.is_zero() {
            let wakers = if self.listens() { self.live.source.descriptors() } else { Vec::new() };
            self.doorbell.sleep(longest, &wakers, || self.crew.has_results() || self.is_asked());
        }
        Ok(())
    }

    /// Whether a frame could be taken in if there were one.
    fn listens(&self) -> bool {
        self.reading && self.next.is_none() && !self.must_wait()
    }

    /// When the next thing happens of which nobody tells.
    fn next_event(&self) -> Option<Time> {
        let arrival = self.next.as_ref().map(|&(arrival, _)| arrival).filter(|_| !self.must_wait());
        let end = self.live.longest.filter(|_| self.reading).map(|longest| self.begin + Time::from_ns(ns(longest)));
        let swap = self.live.swaps.first().map(|swap| self.begin + swap.at);
        [arrival, end, swap, self.crew.next_time(), self.live.measured.next_timeout()].into_iter().flatten().min()
    }

    fn record(&mut self, timed: Option<Instant>) {
        if let Some(started) = timed {
            self.decision.record(started.elapsed().as_nanos() as u64);
        }
    }
}

/// In nanoseconds, at most as many as can be told.
fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
