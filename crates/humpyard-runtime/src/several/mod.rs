//! Several dispatchers as one data plane.
//!
//! Each dispatcher is a data plane of its own, with its thread, flows, scheduler and workers. It
//! gets all packets of some connections ([`Spread`]). So every property of the packets of a flow or
//! connection holds as with one dispatcher.
//!
//! A reader thread deals out the frames of the source over rings of bounded length, and waits if
//! one is full. A writer thread takes the forwarded frames, so the frames of a dispatcher leave in
//! its order. The calling thread supervises all of them.
//!
//! A dispatcher without workers is a worker without a dispatcher; each has its own ports
//! ([`Feed::Own`]). Then there is neither a reader nor a writer.

mod common;
mod reader;
mod sum;
mod writer;

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::panic::resume_unwind;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Scope, ScopedJoinHandle};

use humpyard_core::measure::{LostOutside, Measured};
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_services::Factory;
use humpyard_traffic::pace::Pacer;
use humpyard_traffic::sink::{NullSink, Sink};
use humpyard_traffic::source::Source;
use humpyard_traffic::{Classifier, Spread};

use crate::clock::Stopwatch;
use crate::dispatcher::{Start, ns, run_from};
use crate::input::Input;
use crate::live::{Live, Overload};
use crate::load::{Hears, Load, SharedLoad};
use crate::outcome::{Outcome, Part, RunError};
use crate::panic;
use crate::placement::{Places, Seat};
use crate::replacement::Replacement;
use crate::wait::{Doorbell, SLEEP_MAX};
use crate::watch::{Snapshot, Watch, Watched, watch};

use common::Common;
use reader::{HasRead, Reader};
use sum::{Summed, add_received, add_sent, sum_up};
use writer::{HasWritten, Shared, Writer};

/// How long an answer of one of the threads is waited for, when somebody looks at the run.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// One of several dispatchers, ready to start.
pub struct Dispatching<S, Q, A> {
    /// Its mechanism; its number of cores is `workers`.
    pub measured: Measured<S, Q, A>,
    /// Most packets that it holds: the mechanism's.
    pub packets: usize,
    /// Number of its worker threads, one per core; 0: it does their work itself.
    pub workers: usize,
    /// Finds flow, client and service.
    pub classifier: Classifier,
    /// Replacements during the run, with the same number of workers in the same seats. `None`: no
    /// replacement. Every dispatcher gets the same number of them, in the same order.
    pub replacements: Option<Receiver<Replacement<S, Q, A>>>,
}

/// The sources and sinks of several dispatchers.
pub enum Feed {
    /// A reader deals them out, and a writer collects them.
    Shared {
        /// The source of the frames.
        source: Box<dyn Source + Send>,
        /// When frames arrive. `None`: as fast as they are taken.
        pacer: Option<Pacer>,
        /// Assigns packets to dispatchers; made for this number of dispatchers.
        spread: Spread,
        /// The destination of the frames. `None`: they go nowhere, and there is no writer.
        sink: Option<Box<dyn Sink + Send>>,
    },
    /// Each dispatcher has interfaces of its own, which give it the packets of some connections:
    /// for each a source and a sink.
    Own(Vec<(Box<dyn Source + Send>, Box<dyn Sink + Send>)>),
}

/// A live run of several dispatchers on a real clock, ready to start. The fields are those of
/// [`Live`], except the ones that each dispatcher has itself.
pub struct Several<'a, S, Q, A> {
    /// The dispatchers.
    pub dispatchers: Vec<Dispatching<S, Q, A>>,
    /// The seats of the threads: [`places`](crate::places()) for these numbers of workers.
    pub places: Places,
    /// The sources and sinks of the frames.
    pub feed: Feed,
    /// Whether to read the hardware counters of each dispatcher and worker, where possible.
    pub hardware: bool,
    /// Makes each service for the workers of all dispatchers. Shared state of instances is shared
    /// by all of them.
    pub services: Vec<Factory>,
    /// Takes the packets at which a service panicked, as they came in.
    pub quarantine: Option<Box<dyn Sink + Send>>,
    /// The reaction of a dispatcher without room.
    pub overload: Overload,
    /// Packets that come in within this time after the first are not measured. The dispatchers'
    /// measurements have the same warm-up.
    pub warm_up: Time,
    /// The run time after which reading ends. `None`: no limit.
    pub longest: Option<Duration>,
    /// Set from outside to end reading. The run then serves and writes the packets that it holds.
    pub stop: &'a AtomicBool,
    /// Called now and then with the packets read so far, and the part of the source read (0 to 1,
    /// if known).
    pub progress: &'a mut dyn FnMut(u64, Option<f64>),
    /// Called now and then with the load of each dispatcher so far.
    pub loads: Option<Hears<'a>>,
    /// One half of [`watch`](crate::watch()).
    pub watched: Option<Watched>,
}

impl<S: Steer, Q: Share, A: Allocate> Several<'_, S, Q, A> {
    /// Whether no dispatcher has a rare feature that its loop would check for every packet: none of
    /// [`Measured::becomes_plain`], and no takeover.
    pub(crate) fn becomes_plain(&self) -> bool {
        self.dispatchers.iter().all(|one| one.measured.becomes_plain() && one.replacements.is_none())
    }
}

/// A thread of the run. If it ends without reporting success, as by a panic, the run is to end.
struct Running<'a> {
    common: &'a Common,
    well: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.well {
            self.common.end();
        }
        self.common.running.fetch_sub(1, Ordering::AcqRel);
        self.common.bell.ring();
    }
}

/// Starts a thread of the run.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    common: &'scope Common,
    name: String,
    work: impl FnOnce() -> (T, bool) + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, RunError> {
    common.running.fetch_add(1, Ordering::AcqRel);
    let running = Running { common, well: false };
    let threaded = move || {
        let mut running = running;
        let (left, well) = work();
        running.well = well;
        left
    };
    // If the thread cannot be started, the closure is dropped, and so the other threads end.
    thread::Builder::new().name(name).spawn_scoped(scope, threaded).map_err(RunError::Thread)
}

/// Runs several dispatchers until the source is exhausted or the run is stopped, and all held
/// packets are served and written.
///
/// The outcome has the accounts of each dispatcher and their sum. [`Outcome::unaccounted`] reports
/// whether each account and the sum balance, and agree with the packets read and written.
///
/// # Errors
/// As of [`run`](crate::run()).
///
/// If there is no dispatcher, if a dispatcher has no worker, if the places are for another number
/// of threads, or if a thread panics outside a service.
pub fn run_several<S, Q, A>(several: Several<'_, S, Q, A>) -> InParts<S, Q, A>
where
    S: Steer + Send,
    Q: Share + Send,
    A: Allocate + Send,
{
    if several.becomes_plain() {
        run_several_as::<true, _, _, _>(several)
    } else {
        run_several_as::<false, _, _, _>(several)
    }
}

/// As [`run_several`]. `PLAIN`: the loops are compiled without rare features; [`Several::becomes_plain`] holds.
pub(crate) fn run_several_as<const PLAIN: bool, S, Q, A>(several: Several<'_, S, Q, A>) -> InParts<S, Q, A>
where
    S: Steer + Send,
    Q: Share + Send,
    A: Allocate + Send,
{
    panic::keep_quiet();
    let Several { dispatchers, places, feed, services, quarantine, watched, .. } = several;
    let count = dispatchers.len();
    let workers: Vec<usize> = dispatchers.iter().map(|one| one.workers).collect();
    assert!(places.fit(&workers), "places of other threads");
    let doorbells: Vec<Arc<Doorbell>> = (0..count).map(|_| doorbell()).collect::<Result<_, _>>()?;
    let common = Common {
        stopwatch: Stopwatch::start(),
        missing: AtomicUsize::new(count + usize::from(matches!(feed, Feed::Shared { .. }))),
        begun: OnceLock::new(),
        over: AtomicBool::new(false),
        running: AtomicUsize::new(0),
        bell: doorbell()?,
        frames: AtomicU64::new(0),
        progress: AtomicU64::new(f64::NAN.to_bits()),
        loads: (0..count).map(|_| SharedLoad::default()).collect(),
    };
    let (is_shared, writes) = match &feed {
        Feed::Shared { sink, .. } => (true, sink.is_some()),
        Feed::Own(ports) => {
            assert_eq!(ports.len(), count, "ports for each dispatcher");
            (false, false)
        }
    };
    assert!(places.reader.is_some() == is_shared && places.writer.is_some() == writes, "places of other threads");
    let mut lookout = watched.map(|watched| Lookout::new(watched, count, is_shared, writes, &common.bell));
    let longest = several.longest.map(|longest| Time::from_ns(ns(longest)));
    let Fed { inputs, outlets, reader, writer } =
        feed_by(feed, &doorbells, &common, lookout.as_mut(), longest, several.warm_up)?;
    let quarantine = quarantine.map(Shared::new);
    let (hardware, overload) = (several.hardware, several.overload);
    let after = After { stop: several.stop, longest, progress: several.progress, loads: several.loads };
    let (ends, interrupted, wall) = thread::scope(|scope| {
        let common = &common;
        let mut running = Threads { dispatchers: Vec::new(), reader: None, writer: None };
        let mut ready = inputs.into_iter().zip(outlets).zip(doorbells).zip(dispatchers).enumerate();
        let started = ready.try_for_each(|(number, (((input, sink), doorbell), one))| {
            let with = Fittings {
                input,
                sink,
                tells: !is_shared,
                quarantine: quarantine.clone().map(|shared| Box::new(shared) as Box<dyn Sink + Send>),
                doorbell,
                seats: places.dispatchers[number].clone(),
                services: services.clone(),
                hardware,
                overload,
                watched: lookout.as_mut().and_then(|lookout| lookout.dispatchers[number].half.take()),
            };
            let work = move || dispatch::<PLAIN, _, _, _>(number, one, with, common);
            let name = places.dispatchers[number][0].thread.to_string();
            running.dispatchers.push(spawn(scope, common, name, work)?);
            Ok(())
        });
        let started = started.and_then(|()| {
            if let (Some(writer), Some(seat)) = (writer, places.writer) {
                let write = move || (writer.write(seat), true);
                running.writer = Some(spawn(scope, common, "writer".to_owned(), write)?);
            }
            if let (Some(reader), Some(seat)) = (reader, places.reader) {
                let read = move || (reader.read(seat), true);
                running.reader = Some(spawn(scope, common, "reader".to_owned(), read)?);
            }
            Ok(())
        });
        let (interrupted, wall) = after.look(common, lookout.as_mut());
        let ends = running.join();
        let ends = started.and(ends)?;
        if is_shared && ends.read.is_none() {
            return Err(RunError::Thread(std::io::ErrorKind::Other.into()));
        }
        Ok((ends, interrupted, wall))
    })?;
    let seats = places.all().collect();
    sum_up(ends, seats, quarantine, Summed { interrupted, wall, workers })
}

/// The feeds of the dispatchers: the dispatchers' ends, and the threads at the other ends.
struct Fed<'a> {
    inputs: Vec<Input>,
    outlets: Vec<Box<dyn Sink + Send>>,
    reader: Option<Reader<'a>>,
    writer: Option<Writer<'a>>,
}

fn feed_by<'a>(
    feed: Feed,
    doorbells: &[Arc<Doorbell>],
    common: &'a Common,
    mut lookout: Option<&mut Lookout>,
    longest: Option<Time>,
    warm_up: Time,
) -> Result<Fed<'a>, RunError> {
    let (source, pacer, spread, sink) = match feed {
        Feed::Shared { source, pacer, spread, sink } => (source, pacer, spread, sink),
        Feed::Own(ports) => {
            let (sources, outlets): (Vec<_>, _) = ports.into_iter().unzip();
            let inputs = sources.into_iter().map(Input::stamped).collect();
            return Ok(Fed { inputs, outlets, reader: None, writer: None });
        }
    };
    let (reader, inlets) = Reader::new(source, pacer, spread, doorbells, common)?;
    let half = lookout.as_mut().and_then(|lookout| lookout.reader.as_mut()?.half.take());
    let reader = reader.until(longest).with_warm_up(warm_up).watched(half);
    let (writer, outlets) = match sink {
        Some(sink) => {
            let (writer, outlets) = Writer::new(sink, doorbells.len(), common)?;
            let half = lookout.as_mut().and_then(|lookout| lookout.writer.as_mut()?.half.take());
            (Some(writer.with_warm_up(warm_up).watched(half)), outlets)
        }
        None => {
            let nowhere = |_: &_| Box::new(NullSink::default()) as Box<dyn Sink + Send>;
            (None, doorbells.iter().map(nowhere).collect())
        }
    };
    Ok(Fed { inputs: inlets.into_iter().map(Input::dealt).collect(), outlets, reader: Some(reader), writer })
}

/// What a dispatcher gets from the run, in addition to its own parts.
struct Fittings {
    input: Input,
    sink: Box<dyn Sink + Send>,
    /// Whether it reports the number of frames read: if there is no reader.
    tells: bool,
    quarantine: Option<Box<dyn Sink + Send>>,
    doorbell: Arc<Doorbell>,
    seats: Vec<Seat>,
    services: Vec<Factory>,
    hardware: bool,
    overload: Overload,
    watched: Option<Watched>,
}

/// The outcome of one dispatcher.
type Dispatched<S, Q, A> = Result<Outcome<Measured<S, Q, A>>, RunError>;

/// The outcome of all dispatchers.
pub(crate) type InParts<S, Q, A> = Result<Outcome<Vec<Part<S, Q, A>>>, RunError>;

/// Runs one dispatcher, and reports whether it succeeded.
fn dispatch<const PLAIN: bool, S: Steer, Q: Share, A: Allocate>(
    number: usize,
    one: Dispatching<S, Q, A>,
    with: Fittings,
    common: &Common,
) -> (Dispatched<S, Q, A>, bool) {
    let mut loads = |loads: &[Load]| loads.iter().for_each(|&load| common.loads[number].tell(load));
    let mut told = 0;
    let mut progress = |frames, _| {
        if with.tells {
            common.frames.fetch_add(frames - told, Ordering::Relaxed);
            told = frames;
        }
    };
    let mut live = Live::new(one.measured, with.services, one.classifier, with.input, &common.over, &mut progress);
    (live.packets, live.workers) = (one.packets, one.workers);
    (live.seats, live.hardware) = (Some(with.seats), with.hardware);
    (live.sink, live.quarantine, live.overload) = (with.sink, with.quarantine, with.overload);
    live.loads = Some(&mut loads);
    live.replacements = one.replacements;
    live.watched = with.watched;
    let begin = || common.begin();
    let start = Start { stopwatch: common.stopwatch, doorbell: with.doorbell, begin: Some(&begin) };
    let outcome = run_from::<PLAIN, _, _, _>(live, start);
    let well = outcome.is_ok();
    (outcome, well)
}

fn doorbell() -> Result<Arc<Doorbell>, RunError> {
    Doorbell::new().map(Arc::new).map_err(RunError::Doorbell)
}

/// The threads of a run.
struct Threads<'scope, S, Q, A> {
    dispatchers: Vec<ScopedJoinHandle<'scope, Dispatched<S, Q, A>>>,
    reader: Option<ScopedJoinHandle<'scope, HasRead>>,
    writer: Option<ScopedJoinHandle<'scope, HasWritten>>,
}

/// The results of the threads.
struct Ends<S, Q, A> {
    dispatchers: Vec<Outcome<Measured<S, Q, A>>>,
    read: Option<HasRead>,
    written: Option<HasWritten>,
}

impl<S, Q, A> Threads<'_, S, Q, A> {
    /// Waits for all threads, and resumes the panic of the first that panicked.
    fn join(self) -> Result<Ends<S, Q, A>, RunError> {
        let ended: Vec<_> = self.dispatchers.into_iter().map(ScopedJoinHandle::join).collect();
        let read = self.reader.map(ScopedJoinHandle::join);
        let written = self.writer.map(ScopedJoinHandle::join).transpose().unwrap_or_else(|panic| resume_unwind(panic));
        let read = read.transpose().unwrap_or_else(|panic| resume_unwind(panic));
        let mut workers = 0;
        let mut dispatchers = Vec::new();
        for ended in ended {
            let outcome = ended.unwrap_or_else(|panic| resume_unwind(panic));
            let outcome = outcome.map_err(|error| match error {
                RunError::WorkerLost(worker) => RunError::WorkerLost(workers + worker),
                other => other,
            })?;
            workers += outcome.seats.len() - 1;
            dispatchers.push(outcome);
        }
        Ok(Ends { dispatchers, read, written })
    }
}

/// The duties of the calling thread while the others work.
struct After<'a> {
    stop: &'a AtomicBool,
    longest: Option<Time>,
    progress: &'a mut dyn FnMut(u64, Option<f64>),
    loads: Option<Hears<'a>>,
}

impl After<'_> {
    /// Returns when all threads have ended: whether the run was stopped from outside, and how long
    /// it took.
    fn look(mut self, common: &Common, mut lookout: Option<&mut Lookout>) -> (bool, Duration) {
        let mut interrupted = false;
        while common.running.load(Ordering::Acquire) > 0 {
            let now = common.stopwatch.read();
            let end = common.begun.get().zip(self.longest).map(|(&begun, longest)| begun + longest);
            interrupted |= self.stop.load(Ordering::Relaxed);
            if interrupted || end.is_some_and(|end| end <= now) {
                common.end();
            }
            let read = f64::from_bits(common.progress.load(Ordering::Relaxed));
            (self.progress)(common.frames.load(Ordering::Relaxed), Some(read).filter(|read| !read.is_nan()));
            if let Some(tell) = &mut self.loads {
                tell(&common.loads.iter().map(SharedLoad::look).collect::<Vec<_>>());
            }
            if let Some(lookout) = &mut lookout {
                lookout.answer();
            }
            let until = end.map_or(SLEEP_MAX, |end| Duration::from_nanos(end.since(now).as_ns()));
            let is_asked = || lookout.as_ref().is_some_and(|lookout| lookout.watched.is_asked());
            let sleep = if common.is_over() { SLEEP_MAX } else { until.min(SLEEP_MAX) };
            common.bell.sleep(sleep, &[], || common.running.load(Ordering::Acquire) == 0 || is_asked());
        }
        let wall = common.begun.get().map(|&begun| common.stopwatch.read().since(begun));
        (interrupted, Duration::from_nanos(wall.unwrap_or_default().as_ns()))
    }
}

/// Looking at several threads as at one run.
struct Lookout {
    watched: Watched,
    reader: Option<Watching>,
    writer: Option<Watching>,
    dispatchers: Vec<Watching>,
}

/// One thread that is looked at.
struct Watching {
    watch: Watch,
    /// The other half, until the thread takes it.
    half: Option<Watched>,
    /// The last answer; after the end of the thread, its final state.
    last: Option<Box<Snapshot>>,
}

impl Watching {
    fn new() -> Self {
        let (watch, half) = watch();
        Self { watch, half: Some(half), last: None }
    }

    /// Returns the latest state. `None`: the thread has never answered.
    fn look(&mut self) -> Option<&Snapshot> {
        self.last = self.watch.look(ANSWER_MAX).or(self.last.take());
        self.last.as_deref()
    }
}

impl Lookout {
    fn new(watched: Watched, dispatchers: usize, reads: bool, writes: bool, bell: &Arc<Doorbell>) -> Self {
        watched.begin(bell);
        Self {
            watched,
            reader: reads.then(Watching::new),
            writer: writes.then(Watching::new),
            dispatchers: (0..dispatchers).map(|_| Watching::new()).collect(),
        }
    }

    /// Answers an observer with the state of the run, if one asks.
    fn answer(&mut self) {
        if self.watched.is_asked()
            && let Some(snapshot) = self.snapshot()
        {
            self.watched.answer(Box::new(snapshot));
        }
    }

    /// Returns the combined answers of all threads. `None`: some thread has not answered yet.
    fn snapshot(&mut self) -> Option<Snapshot> {
        // The writer is asked first: a frame counts as forwarded before it can be refused.
        let writer = self.writer.as_mut();
        let (sent, behind) = match writer.map(Watching::look) {
            Some(told) => told.map(|told| (told.sent.clone(), told.lost.behind))?,
            None => (Vec::new(), 0),
        };
        let mut sum = Snapshot::default();
        for dispatcher in &mut self.dispatchers {
            let one = dispatcher.look()?;
            sum.add(one);
            if self.reader.is_none() {
                add_received(&mut sum.received, &one.received);
                add_sent(&mut sum.sent, &one.sent);
                sum.lost = LostOutside {
                    before: sum.lost.before + one.lost.before,
                    behind: sum.lost.behind + one.lost.behind,
                };
            }
        }
        let Some(reader) = &mut self.reader else { return Some(sum) };
        sum.out.on_sent(&sent);
        let read = reader.look()?;
        sum.received = read.received.clone();
        sum.lost = LostOutside { before: read.lost.before, behind };
        sum.sent = sent;
        Some(sum)
    }
}
