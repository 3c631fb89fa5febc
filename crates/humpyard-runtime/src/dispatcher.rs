//! The dispatcher: reads, classifies, asks the mechanism, hands out, takes back, writes.

use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_core::id::{CoreId, Id, IdVec, Slot};
use humpyard_core::measure::{Histogram, Measured};
use humpyard_core::mechanism::{Arrival, Completed};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;
use humpyard_services::{DropReason, Factory, Verdict};
use humpyard_traffic::TrafficError;
use humpyard_traffic::classify::Classifier;
use humpyard_traffic::pace::Pacer;
use humpyard_traffic::sink::Sink;
use humpyard_traffic::source::{Polled, Source};

use crate::clock::Clock;
use crate::crew::Crew;
use crate::outcome::{OutAccount, Outcome, RunError, ServicePanic};
use crate::panic;
use crate::wait::{Bell, Next, Patience};
use crate::worker::{Done, Job, Panicked, Span};

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
    /// Worker threads; 0 does everything on the calling thread.
    pub workers: usize,
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
    /// Ends reading after so long.
    pub longest: Option<Duration>,
    /// Set from outside to end reading: what is held is served and written.
    pub stop: &'a AtomicBool,
    /// Told now and then of the packets so far and how much of the source was read (0 to 1, where that is known).
    pub progress: &'a mut dyn FnMut(u64, Option<f64>),
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
pub fn run<S: Steer, Q: Share, A: Allocate>(live: Live<'_, S, Q, A>) -> Result<Outcome<S, Q, A>, RunError> {
    panic::keep_quiet();
    let clock = Clock::start();
    let bell = Arc::new(Bell::default());
    let in_flight = live.measured.scheduler().in_flight() as usize;
    let quarantined = live.quarantine.is_some();
    let (crew, seats) = Crew::start(live.workers, in_flight, &live.services, quarantined, clock, &bell)?;
    let _seated = seats[0].take();
    crew.wait_until_ready();
    let started = Instant::now();
    let mut dispatcher = Dispatcher {
        cores: live.workers.max(1),
        given: IdSet::new(live.workers.max(1)),
        switching: Vec::with_capacity(live.workers.max(1)),
        held: IdVec::from_fn(live.packets, |_| Held::default()),
        spare: Vec::new(),
        next: None,
        shared: seats[0].shared,
        reading: true,
        out: OutAccount::default(),
        panic: None,
        damage: None,
        interrupted: false,
        overdue_max: Time::ZERO,
        decision: Histogram::new(),
        arrivals: 0,
        patience: Patience::new(seats[0].shared),
        crew,
        begin: clock.now(),
        clock,
        bell,
        live,
    };
    let worked = dispatcher.work();
    let Dispatcher { live, out, panic, damage, interrupted, overdue_max, decision, crew, .. } = dispatcher;
    // No thread outlives the run, whatever became of it.
    let ended = crew.end();
    worked.and(ended)?;
    live.sink.finish()?;
    live.quarantine.map_or(Ok(0), Sink::finish)?;
    (live.progress)(live.measured.account().arrived, Some(1.0));
    Ok(Outcome {
        flows: live.classifier.flows().seen(),
        measured: live.measured,
        out,
        panic,
        damage,
        interrupted,
        overdue_max,
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

struct Dispatcher<'a, S, Q, A> {
    live: Live<'a, S, Q, A>,
    crew: Crew,
    clock: Clock,
    /// When everybody was ready: from then arrivals count.
    begin: Time,
    bell: Arc<Bell>,
    patience: Patience,
    cores: usize,
    /// Cores that were given packets and not yet woken.
    given: IdSet<CoreId>,
    /// Cores that go over to another service, with the end of that; room for all.
    switching: Vec<(Time, CoreId)>,
    held: IdVec<Slot, Held>,
    /// Buffers not in use.
    spare: Vec<Frame>,
    /// The frame read and not yet arrived, with its arrival.
    next: Option<(Time, Frame)>,
    /// Whether a worker shares the dispatcher's processor.
    shared: bool,
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
    fn work(&mut self) -> Result<(), RunError> {
        loop {
            let completed = self.take_back()?;
            let moved = self.keep_time();
            let arrived = self.take_in()?;
            let dispatched = self.hand_out();
            if !self.reading && self.live.measured.account().held == 0 {
                return Ok(());
            }
            if completed || moved || dispatched {
                self.patience.reset();
            } else if arrived {
                // Every core has what it can have. A worker that shares this processor must get it, or it gets nothing done.
                if self.shared {
                    thread::yield_now();
                }
                self.patience.reset();
            } else {
                self.wait()?;
            }
        }
    }

    /// Everything the workers have done, by ascending core.
    fn take_back(&mut self) -> Result<bool, RunError> {
        let now = self.clock.now();
        let mut any = false;
        for core in (0..self.cores).map(CoreId::from_index) {
            while let Some(done) = self.crew.take(core) {
                self.settle(now, core, done)?;
                any = true;
            }
        }
        Ok(any)
    }

    fn settle(&mut self, now: Time, core: CoreId, done: Done) -> Result<(), RunError> {
        let (frame, goes_out) = match done {
            Done::Served { slot, frame, verdict, span } => {
                self.complete(now, core, slot, span);
                (frame, self.out.on_verdict(verdict))
            }
            Done::Panicked(panicked) => {
                let Panicked { slot, frame, span, message } = *panicked;
                let service = self.complete(now, core, slot, span).service;
                self.on_panic(ServicePanic { packet: self.held[slot].number, service, message }, &frame)?;
                (frame, false)
            }
            Done::Generated(frame) => {
                self.out.on_generated();
                (frame, true)
            }
        };
        if goes_out {
            self.live.sink.write(&frame)?;
        }
        self.spare.push(frame);
        Ok(())
    }

    fn complete(&mut self, now: Time, core: CoreId, slot: Slot, span: Span) -> Packet {
        let Completed { packet, .. } = self.live.measured.on_completion(now, core, slot, span.finished, span.busy);
        self.begin_switches(now);
        self.live.classifier.release(&packet);
        packet
    }

    /// The packet is out of the account, but for its name; its bytes may be wanted.
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

    /// The frames that have arrived, at most a batch.
    fn take_in(&mut self) -> Result<bool, RunError> {
        let now = self.clock.now();
        if self.is_over(now) {
            self.reading = false;
            self.next = None;
        }
        let mut any = false;
        for _ in 0..BATCH {
            if self.live.overload == Overload::Wait && self.live.measured.scheduler().is_full() {
                break;
            }
            let Some((arrival, frame)) = self.next.take().or_else(|| self.read(now)) else { break };
            if arrival > now {
                self.next = Some((arrival, frame));
                break;
            }
            self.overdue_max = self.overdue_max.max(now.since(arrival));
            self.arrive(now, arrival, frame)?;
            any = true;
        }
        Ok(any)
    }

    /// Reads the next frame and gives it with its arrival; none when there is none now, or no more.
    fn read(&mut self, now: Time) -> Option<(Time, Frame)> {
        if !self.reading {
            return None;
        }
        let mut frame = self.spare.pop().unwrap_or_default();
        match self.live.source.poll(&mut frame) {
            Ok(Polled::Frame) => {
                let arrival = self.live.pacer.as_mut().map_or(now, |pacer| self.begin + pacer.arrival(frame.time));
                return Some((arrival, frame));
            }
            Ok(Polled::NotYet) => {
                self.spare.push(frame);
                return None;
            }
            Ok(Polled::End) => {}
            Err(damage) => self.damage = Some(damage),
        }
        self.reading = false;
        None
    }

    /// Whether the run is to end before the source does.
    fn is_over(&mut self, now: Time) -> bool {
        self.interrupted |= self.live.stop.load(Ordering::Relaxed);
        self.interrupted
            || self.live.longest.is_some_and(|longest| u128::from(now.since(self.begin).as_ns()) >= longest.as_nanos())
    }

    fn arrive(&mut self, now: Time, arrival: Time, frame: Frame) -> Result<(), RunError> {
        let classified = self.live.classifier.classify(&frame)?;
        let measured = &mut self.live.measured;
        if let Some(flow) = classified.ended_flow {
            measured.on_flow_end(now, flow);
        }
        if let Some(client) = classified.ended_client {
            measured.on_client_end(now, client);
        }
        let mut packet = classified.packet;
        packet.arrival = arrival;
        let timed = self.arrivals.is_multiple_of(TIMED_EVERY).then(Instant::now);
        let answer = measured.on_arrival(now, packet);
        self.record(timed);
        self.begin_switches(now);
        self.arrivals += 1;
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
        let now = self.clock.now();
        while let Some(core) = self.live.measured.next_core(now) {
            let timed = self.arrivals.is_multiple_of(TIMED_EVERY).then(Instant::now);
            let Some(dispatch) = self.live.measured.next(now, core) else { continue };
            self.record(timed);
            let frame = mem::take(&mut self.held[dispatch.slot].frame);
            self.crew.give(core, Job { slot: dispatch.slot, service: dispatch.packet.service, frame });
            self.given.insert(core);
        }
        let any = !self.given.is_empty();
        while let Some(core) = self.given.first() {
            self.given.remove(core);
            self.crew.wake(core);
        }
        any
    }

    /// Ends switches whose time is over, and tells the policies the time if they asked for it.
    fn keep_time(&mut self) -> bool {
        let now = self.clock.now();
        let mut any = false;
        while let Some(at) = self.switching.iter().position(|&(until, _)| until <= now) {
            let (_, core) = self.switching.swap_remove(at);
            self.live.measured.on_switched(now, core);
            any = true;
        }
        if self.live.measured.next_timeout().is_some_and(|timeout| timeout <= now) {
            self.live.measured.on_timeout(now);
            any = true;
        }
        self.begin_switches(now);
        any
    }

    /// A switch is emulated: the core is given nothing for as long as it takes.
    fn begin_switches(&mut self, now: Time) {
        while let Some(switch) = self.live.measured.next_switch() {
            self.switching.push((now + switch.cost, switch.core));
        }
    }

    /// Nothing to do: spins, yields, or sleeps until a worker rings or the next frame arrives.
    fn wait(&mut self) -> Result<(), RunError> {
        if self.patience.wait() == Next::Look {
            return Ok(());
        }
        self.live.sink.flush()?;
        if let Some(quarantine) = &mut self.live.quarantine {
            quarantine.flush()?;
        }
        self.crew.check()?;
        let now = self.clock.now();
        let arrival = self.next.as_ref().map(|&(arrival, _)| arrival);
        let switch = self.switching.iter().map(|&(until, _)| until).min();
        let next = [arrival, switch, self.live.measured.next_timeout()].into_iter().flatten().min();
        let until_next = next.map(|next| Duration::from_nanos(next.since(now).as_ns()));
        let longest = until_next.map_or(SLEEP_MAX, |until| until.saturating_sub(WAKE_EARLY).min(SLEEP_MAX));
        if !longest.is_zero() {
            self.bell.sleep(longest, || self.crew.has_results());
        }
        Ok(())
    }

    fn record(&mut self, timed: Option<Instant>) {
        if let Some(started) = timed {
            self.decision.record(started.elapsed().as_nanos() as u64);
        }
    }
}
