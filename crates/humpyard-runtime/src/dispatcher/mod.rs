//! The dispatcher: reads, classifies, asks the mechanism, hands out, takes back, writes.

mod burst;
mod input;
mod link;
mod output;
mod takeover;
mod telling;
mod waiting;

use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_core::id::{CoreId, IdVec, Slot};
use humpyard_core::link::OutputLink;
use humpyard_core::measure::{Histogram, LostOutside, Measured};
use humpyard_core::mechanism::TakenOver;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;
use humpyard_traffic::flow::Heaviest;
use humpyard_traffic::sink::{Sent, Sink};
use humpyard_traffic::source::Received;

use self::burst::Burst;
use crate::clock::{Clock, Now, Stopwatch};
use crate::counters::Counters;
use crate::crew::Crew;
use crate::hardware::ThreadCounters;
use crate::held::{HeldFrames, ready_frames};
use crate::live::Live;
use crate::load::Idle;
use crate::loss;
use crate::outcome::{OutAccount, Outcome, RunError, ServicePanic};
use crate::panic;
use crate::placement::{Seat, Seated, merged, seats};
use crate::replacement::Replacements;
use crate::threads::{Crewing, Threads};
use crate::turns::Turns;
use crate::virtual_cores::VirtualCores;
use crate::wait::{Doorbell, Patience};
use crate::worker::{Done, Workbench};

/// Frames read at a time, at most; then the dispatcher looks after results again.
const BATCH: usize = 32;
/// Arrivals per arrival whose decisions are timed.
const TIMED_EVERY: u64 = 1 << 6;
/// Packets between progress reports and checks of the workers.
const PROGRESS_EVERY: u64 = 1 << 14;
/// A sleep ends this long before the next arrival, because the system needs time to wake a thread.
const WAKE_EARLY: Duration = Duration::from_micros(100);

/// Runs the data plane until the source is exhausted or the run is stopped, and all held packets
/// are served and written.
///
/// The outcome has two accounts, of incoming and of outgoing packets. The caller must check that
/// both balance, in every build. The command line does so, and exits with 1 if one does not.
///
/// A service that panics does not end the run:
///
/// * Its packet is dropped for [`DropReason::ServicePanicked`](humpyard_services::DropReason) and
///   goes to the quarantine.
/// * A new instance replaces the service, and its worker continues.
///
/// The first run of a program puts a panic hook before the program's own. It hides such panics,
/// because the outcome reports them, and passes on all others. (A hook that the program sets later
/// sees all of them.) So the program must not be built to abort on panics.
///
/// # Errors
/// The sink cannot be written, a worker is lost, or there are more flows under way than there is
/// room for. Damage within the source is no error: the packets before it are processed, and the
/// outcome reports it.
pub fn run<S: Steer, Q: Share, A: Allocate>(live: Live<'_, S, Q, A>) -> Result<Outcome<Measured<S, Q, A>>, RunError> {
    if live.becomes_plain() { run_as::<true, _, _, _>(live) } else { run_as::<false, _, _, _>(live) }
}

/// As [`run`]. `PLAIN`: after the warm-up, if there is one, the loop is one that is compiled without rare features;
/// [`Live::becomes_plain`] holds.
pub(crate) fn run_as<const PLAIN: bool, S: Steer, Q: Share, A: Allocate>(
    live: Live<'_, S, Q, A>,
) -> Result<Outcome<Measured<S, Q, A>>, RunError> {
    panic::keep_quiet();
    let stopwatch = Stopwatch::start();
    let doorbell = Arc::new(Doorbell::new().map_err(RunError::Doorbell)?);
    run_from::<PLAIN, _, _, _>(live, Start { stopwatch, doorbell, begin: None })
}

/// How a dispatcher starts.
pub(crate) struct Start<'a> {
    /// The clock of the run.
    pub(crate) stopwatch: Stopwatch,
    /// The doorbell that the dispatcher sleeps on.
    pub(crate) doorbell: Arc<Doorbell>,
    /// Waits until the other threads are ready, and returns the common start time. `None`: there
    /// are no others.
    pub(crate) begin: Option<&'a dyn Fn() -> Time>,
}

/// As [`run_as`], with a clock shared with other threads.
pub(crate) fn run_from<const PLAIN: bool, S: Steer, Q: Share, A: Allocate>(
    mut live: Live<'_, S, Q, A>,
    start: Start<'_>,
) -> Result<Outcome<Measured<S, Q, A>>, RunError> {
    let Start { stopwatch, doorbell, begin } = start;
    let is_real = matches!(live.clock, Clock::Real);
    if live.leaves_to_port() {
        live.input.hold(live.held_by_port());
    }
    let workers = if is_real { live.workers } else { 0 };
    let seats = live.seats.take().filter(|_| is_real).unwrap_or_else(|| seats(workers));
    live.watched.as_ref().inspect(|watched| watched.begin(&doorbell));
    let is_alone = begin.is_none();
    let threads = if is_alone { merged(&seats) } else { seats.clone() };
    let crew = crew(&live, &threads, stopwatch, &doorbell)?;
    let replacements = Replacements::new(live.replacements.take().filter(|_| is_real));
    let now = if is_real { Now::Real(stopwatch) } else { Now::Virtual(Time::ZERO) };
    let seated = seats[0].take();
    // One more, for a packet that is pushed out by another that has its slot already.
    let held = ready_frames(live.packets + 1);
    crew.wait_until_ready();
    let counting = (is_real && live.hardware).then(|| ThreadCounters::start(seats[0].thread));
    let begin = begin.map_or_else(|| now.read(), |begin| begin());
    let started = Instant::now();
    let mut dispatcher = Dispatcher {
        given: IdSet::new(live.workers.max(1)),
        held,
        burst: Burst::new(),
        results: Vec::new(),
        waiting_out: Vec::new(),
        on_link: IdVec::from_fn(live.link.as_ref().map_or(0, OutputLink::slots), |_| Frame::default()),
        made: IdVec::from_fn(live.workers.max(1), |_| Vec::new()),
        kept: IdVec::from_fn(live.workers.max(1), |_| Time::ZERO),
        swap_pause_max: Duration::ZERO,
        taken_over: Vec::new(),
        heaviest: Heaviest::default(),
        spare: Vec::new(),
        shared: threads[0].shared,
        is_alone,
        seated,
        replacements,
        counters: Counters::default(),
        reading: true,
        over: false,
        skipped: 0,
        out: OutAccount::new(live.link.is_some()),
        panic: None,
        damage: None,
        interrupted: false,
        overdue_max: Time::ZERO,
        decision: Histogram::new(),
        arrivals: 0,
        idle: Idle::default(),
        round: begin,
        lost_before: live.measured.measurements().measured_from().map(|_| LostOutside::default()),
        patience: Patience::new(threads[0].shared),
        seats,
        stopwatch,
        crew,
        begin,
        now,
        doorbell,
        live,
    };
    let worked = dispatcher.work_to_the_end::<PLAIN>();
    let loads = dispatcher.load().into_iter().collect();
    if dispatcher.live.input.is_dealt() {
        // The thread that adds up all dispatchers may still ask.
        dispatcher.answer();
    }
    let Dispatcher {
        mut live,
        mut out,
        mut counters,
        seats,
        replacements,
        panic,
        damage,
        interrupted,
        skipped,
        overdue_max,
        swap_pause_max,
        taken_over,
        mut heaviest,
        decision,
        lost_before,
        crew,
        ..
    } = dispatcher;
    if let Some(counting) = counting {
        counters.add_hardware(counting.end());
    }
    // No thread outlives the run, however it ended.
    let ended = crew.end();
    worked?;
    counters.merge(ended?);
    live.input.close()?;
    let received = live.input.received()?;
    live.sink.close()?;
    let sent = live.sink.sent();
    out.on_sent(&sent);
    live.sink.finish()?;
    live.quarantine.map_or(Ok(0), Sink::finish)?;
    (live.progress)(live.measured.account().arrived, Some(1.0));
    heaviest.add_all(live.classifier.flows(), |flow| live.measured.packets_of(flow));
    Ok(Outcome {
        heaviest,
        flows: live.classifier.flows().seen(),
        clock_jumps: live.input.jumps(),
        measured: live.measured,
        out,
        link: live.link.as_ref().map(OutputLink::outcome),
        skipped,
        unaccounted: None,
        lost: lost(lost_before, &received, &sent),
        loads,
        received,
        sent,
        counters,
        panic,
        damage,
        interrupted,
        overdue_max,
        taken_over,
        swap_pause_max,
        replacements: replacements.made,
        wall: started.elapsed(),
        decision,
        seats,
    })
}

/// Returns the packets that interfaces have lost since the end of the warm-up; `before` were lost
/// by then. `None`: the warm-up is not over.
fn lost(before: Option<LostOutside>, received: &[Received], sent: &[Sent]) -> LostOutside {
    before.map_or_else(LostOutside::default, |warm| LostOutside {
        before: loss::received(received) - warm.before,
        behind: loss::sent(sent) - warm.behind,
    })
}

/// A packet that waits at the exit.
#[derive(Default)]
struct WaitingOut {
    frame: Frame,
    /// Frames that services made of the packet; they go out after it.
    made: Vec<Frame>,
}

/// Returns the workers of this run, in these seats; the first seat is the dispatcher's.
fn crew<S: Steer, Q: Share, A: Allocate>(
    live: &Live<'_, S, Q, A>,
    seats: &[Seat],
    stopwatch: Stopwatch,
    doorbell: &Arc<Doorbell>,
) -> Result<Crew, RunError> {
    let scheduler = live.measured.scheduler();
    let quantum = scheduler.quantum().filter(|_| live.has_turns());
    let turns = quantum.map(|quantum| Turns::new(quantum, scheduler.slots(), stopwatch));
    let bench = || Workbench::new(&live.services, live.quarantine.is_some()).with_turns(turns.clone());
    Ok(match &live.clock {
        Clock::Virtual(costs) => {
            Crew::Virtual(Box::new(VirtualCores::new(live.workers.max(1), (**costs).clone(), bench)))
        }
        Clock::Real => {
            let in_flight = scheduler.in_flight() as usize;
            let crewing = Crewing { in_flight, stopwatch, doorbell, hardware: live.hardware };
            Crew::Threads(Threads::start(seats, &crewing, bench)?)
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
    /// The frames of the packets held.
    held: HeldFrames,
    /// The frames read last.
    burst: Burst,
    /// The results of a core while they are processed.
    results: Vec<Done>,
    /// The packets that wait at the exit, by place.
    waiting_out: Vec<WaitingOut>,
    /// The frames of packets at the link.
    on_link: IdVec<Slot, Frame>,
    /// Frames that services made of the packet that each core hands over next; they go out after
    /// it.
    made: IdVec<CoreId, Vec<Frame>>,
    /// How long each core has served its packet in earlier quanta of its turn.
    kept: IdVec<CoreId, Time>,
    /// The longest that all stood still while a policy took over.
    swap_pause_max: Duration,
    /// Policies that have taken over.
    taken_over: Vec<TakenOver>,
    /// The heaviest flows that have ended.
    heaviest: Heaviest,
    /// Buffers of frames that left from elsewhere than their slot, at most one for each packet that may be held.
    spare: Vec<Frame>,
    /// Whether another thread shares the dispatcher's processor.
    shared: bool,
    /// Whether this is the only dispatcher.
    is_alone: bool,
    /// Keeps the dispatcher's thread in its seat.
    seated: Seated,
    seats: Vec<Seat>,
    stopwatch: Stopwatch,
    replacements: Replacements<S, Q, A>,
    /// Counters of service instances that no longer exist.
    counters: Counters,
    /// Whether the source may have more frames.
    reading: bool,
    /// Whether the run is to end before the source does.
    over: bool,
    /// Frames read that had not arrived then.
    skipped: u64,
    out: OutAccount,
    panic: Option<ServicePanic>,
    damage: Option<TrafficError>,
    interrupted: bool,
    /// The longest that a frame was due before it was taken in.
    overdue_max: Time,
    decision: Histogram,
    arrivals: u64,
    /// The time without work.
    idle: Idle,
    /// When the present round of work began; only its end shows whether the round was idle.
    round: Time,
    /// Packets that interfaces had lost when the warm-up ended. `None`: it is not over.
    lost_before: Option<LostOutside>,
}

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// Works until the end of the run. `PLAIN`: from the end of the warm-up on without rare features.
    fn work_to_the_end<const PLAIN: bool>(&mut self) -> Result<(), RunError> {
        if !PLAIN {
            return self.work::<false>(|_| false);
        }
        if !self.live.measured.is_plain() {
            self.work::<false>(Measured::is_plain)?;
            self.live.measured.begin_plain();
        }
        self.work::<true>(|_| false)
    }

    /// Processes the events of one instant in this order: packets that left the link, results of
    /// cores, timeouts, arrivals, the next packet on the link, requests of cores.
    ///
    /// A plain run uses one time for the whole round, that of its beginning; other runs read the
    /// clock at each step. Ends with the run, or before a round at which `ends_before` says so.
    fn work<const PLAIN: bool>(&mut self, ends_before: impl Fn(&Measured<S, Q, A>) -> bool) -> Result<(), RunError> {
        while !ends_before(&self.live.measured) {
            let began = self.now.read();
            self.round = began;
            let sent = !PLAIN && self.finish_sending(began)?;
            let completed = self.take_back::<PLAIN>(began)?;
            let timed_out = (!PLAIN || self.live.measured.scheduler().keeps_time()) && self.keep_time()?;
            let arrived = self.take_in::<PLAIN>()?;
            if !PLAIN {
                self.feed_link(self.now.read());
            }
            // A replacement waits until no packet is in service.
            let dispatched = if !PLAIN && self.replacements.is_waiting() {
                // Packets that the dispatcher's own cores were given are in service, too.
                self.serve() | self.replace()?
            } else {
                self.hand_out::<PLAIN>()?
            };
            self.live.sink.send()?;
            if self.is_asked() {
                self.answer();
            }
            if self.lost_before.is_none() {
                self.look_at_warm_up();
            }
            if !self.reading && self.live.measured.account().held + self.out.held == 0 {
                return Ok(());
            }
            if sent || completed || timed_out || dispatched || arrived {
                self.idle.end(began);
                self.patience.reset();
                if self.shared && !(sent || completed || timed_out || dispatched) {
                    self.give_way();
                }
            } else {
                self.idle.begin(began);
                if !self.wait()? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Yields the processor when every core has all the packets that it can have. A worker that
    /// shares this processor would otherwise make no progress.
    fn give_way(&mut self) {
        let before = self.now.read();
        thread::yield_now();
        self.idle.add(self.now.read().since(before));
    }

    /// Gives every core as many packets as it may have in flight.
    fn hand_out<const PLAIN: bool>(&mut self) -> Result<bool, RunError> {
        let now = self.now.read();
        let mut timed = self.is_timed().then(Instant::now);
        loop {
            let measured = &mut self.live.measured;
            let next = if PLAIN {
                measured.lend_next_plain(now)
            } else {
                measured.next_core(now).map(|core| (core, measured.lend_next_turn(now, core)))
            };
            let Some((core, dispatch)) = next else { break };
            let Some(dispatch) = dispatch else { continue };
            if let Some(started) = timed.take() {
                self.decision.record(started.elapsed().as_nanos() as u64);
            }
            self.crew.give(now, core, &dispatch, &mut self.held);
            self.given.insert(core);
            if self.live.measured.may_follow::<PLAIN>() {
                self.follow_up(now)?;
            }
        }
        let any = !self.given.is_empty();
        while let Some(core) = self.given.first() {
            self.given.remove(core);
            self.crew.wake(core);
        }
        Ok(self.serve() || any)
    }

    /// Serves a while for the dispatcher's own cores. Returns whether there was any packet.
    #[inline]
    fn serve(&mut self) -> bool {
        self.crew.serve(&mut self.held, |slot| self.live.measured.packet(slot))
    }

    /// Whether the next decision is timed.
    #[inline]
    fn is_timed(&self) -> bool {
        self.arrivals.is_multiple_of(TIMED_EVERY)
    }
}

/// Converts to nanoseconds; saturates.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
