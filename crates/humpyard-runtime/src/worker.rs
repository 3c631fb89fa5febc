//! A worker thread: takes packets from the rings of its cores, does the services' work, gives the
//! frames back.

use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;

use humpyard_core::cost::Span;
use humpyard_core::frame::Frame;
use humpyard_core::id::{IdVec, ServiceId, Slot};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_services::{Context, Factory, Generated, Mark, Service, Verdict};
use rtrb::{Consumer, Producer};

use crate::clock::Stopwatch;
use crate::counters::Counters;
use crate::hardware::ThreadCounters;
use crate::panic;
use crate::placement::Seat;
use crate::turns::Turns;
use crate::wait::{Bell, Doorbell, Next, Patience};

/// A packet to be served. Its frame is in its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) slot: Slot,
    pub(crate) service: ServiceId,
    /// The context that its service gets.
    pub(crate) context: Context,
}

impl Task {
    /// Returns the task of a packet that is handed out now.
    #[inline]
    pub(crate) fn of(now: Time, slot: Slot, packet: &Packet) -> Self {
        Self { slot, service: packet.service, context: Context::of(now, packet) }
    }
}

/// A task for another thread, with its frame.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) frame: Frame,
}

/// A result from another thread.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) done: Done,
    /// The frame of the packet that is done, as the service left it. Empty if `done` is about no
    /// packet.
    pub(crate) frame: Frame,
}

/// A result of a core. The frame of a packet is in its slot again.
#[derive(Debug)]
pub(crate) enum Done {
    /// A packet that was served.
    Served(Served),
    /// A packet that is given back before it is done.
    GivenBack(GivenBack),
    /// A packet at which its service panicked.
    Panicked(Box<Panicked>),
    /// A frame that a service made; it comes before the packet that caused it.
    Generated(Frame),
    /// The core has switched to another service.
    Switched,
}

/// A packet that was served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// Its slot.
    pub(crate) slot: Slot,
    /// The service's verdict on it.
    pub(crate) verdict: Verdict,
    /// What the service found out about its flow.
    pub(crate) mark: Option<Mark>,
    /// The time it took.
    pub(crate) span: Span,
}

/// A packet whose turn is over before it is done. Its frame is as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenBack {
    /// Its slot.
    pub(crate) slot: Slot,
    /// The time of this turn.
    pub(crate) span: Span,
}

/// A packet at which its service panicked. If originals are kept, its frame is as it was before the
/// service.
#[derive(Debug)]
pub(crate) struct Panicked {
    /// Its slot.
    pub(crate) slot: Slot,
    /// The time it took, including that for a new instance of the service.
    pub(crate) span: Span,
    /// The reason and the place, in one line.
    pub(crate) message: String,
}

/// Measures consecutive pieces of work.
#[derive(Debug)]
pub(crate) struct Laps {
    stopwatch: Stopwatch,
    /// When the previous packet was done: the next one starts then, if it was already there.
    previous: Time,
}

impl Laps {
    pub(crate) fn new(stopwatch: Stopwatch) -> Self {
        Self { stopwatch, previous: Time::ZERO }
    }

    /// Returns when the last work was done, or when the next work began.
    pub(crate) const fn previous(&self) -> Time {
        self.previous
    }

    /// Starts the time again, because the next work was not there when the last was done.
    pub(crate) fn begin(&mut self) {
        self.previous = self.stopwatch.read();
    }

    /// Some work is done.
    pub(crate) fn end(&mut self) -> Span {
        let finished = self.stopwatch.read();
        let busy = finished.since(self.previous);
        self.previous = finished;
        Span { finished, busy }
    }
}

/// One service of one core, and the factory for a new instance.
struct Station {
    factory: Factory,
    service: Box<dyn Service>,
}

/// The services of one core, each an instance of its own.
pub(crate) struct Workbench {
    stations: IdVec<ServiceId, Station>,
    generated: Generated,
    /// What few runs have. `None`: the frame in work is not kept as it was, and each packet is served to its end.
    rare: Option<Box<Rare>>,
    /// Counters of instances that no longer exist.
    counters: Counters,
}

/// What few runs have at a core.
#[derive(Default)]
struct Rare {
    /// The frame in work as it was before, if originals are kept.
    original: Option<Frame>,
    /// The turns of packets. `None`: each is served to its end.
    turns: Option<Turns>,
}

impl Workbench {
    /// Returns the services of a core. With `keep_originals`, a frame at which a service panics is
    /// returned as it came.
    pub(crate) fn new(services: &[Factory], keep_originals: bool) -> Self {
        let station = |factory: &Factory| Station { factory: factory.clone(), service: factory.make() };
        Self {
            stations: services.iter().map(station).collect(),
            generated: Generated::default(),
            rare: keep_originals.then(|| Box::new(Rare { original: Some(Frame::default()), turns: None })),
            counters: Counters::default(),
        }
    }

    /// Gives packets back when their turns are over.
    pub(crate) fn with_turns(mut self, turns: Option<Turns>) -> Self {
        if turns.is_some() {
            self.rare.get_or_insert_default().turns = turns;
        }
        self
    }

    /// Does the work of one packet, or of one turn, on its frame. `end` measures the work when it is done; `made` takes
    /// the frames that the service makes.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        task: Task,
        frame: &mut Frame,
        end: impl FnOnce() -> Span,
        made: impl FnMut(Frame),
    ) -> Done {
        if self.rare.is_some() {
            return self.serve_rarely(task, frame, end, made);
        }
        let Task { service: id, context, .. } = task;
        let port = frame.port;
        let Station { service, .. } = &mut self.stations[id];
        let served = panic::catch(|| service.process(frame, &context, &mut self.generated));
        self.done(task, frame, port, served, end, made)
    }

    /// As [`Workbench::serve`], in a run that keeps originals or gives packets back.
    #[cold]
    #[inline(never)]
    fn serve_rarely(
        &mut self,
        task: Task,
        frame: &mut Frame,
        end: impl FnOnce() -> Span,
        made: impl FnMut(Frame),
    ) -> Done {
        let Task { slot, service: id, context } = task;
        let port = frame.port;
        let Self { stations, generated, rare, .. } = self;
        let Rare { original, turns } = &mut **rare.as_mut().expect("just seen");
        if let Some(original) = original {
            copy(frame, original);
        }
        let service = &mut stations[id].service;
        let served = panic::catch(|| match turns {
            None => Some(service.process(frame, &context, generated)),
            Some(turns) => {
                turns.give(slot, context.sequence, |turn| service.process_turn(frame, &context, generated, turn))
            }
        });
        match served.transpose() {
            Some(served) => self.done(task, frame, port, served, end, made),
            None => Done::GivenBack(GivenBack { slot, span: end() }),
        }
    }

    /// Returns the result of a packet that a service has worked on.
    #[inline(always)]
    fn done(
        &mut self,
        task: Task,
        frame: &mut Frame,
        port: u16,
        served: Result<Verdict, String>,
        end: impl FnOnce() -> Span,
        made: impl FnMut(Frame),
    ) -> Done {
        let Task { slot, service: id, .. } = task;
        match served {
            Ok(verdict) => {
                let span = end();
                if !self.generated.is_empty() {
                    self.give_generated(port, made);
                }
                Done::Served(Served { slot, verdict, mark: self.generated.take_mark(), span })
            }
            Err(message) => {
                self.renew(id, frame);
                Done::Panicked(Box::new(Panicked { slot, span: end(), message }))
            }
        }
    }

    /// Replaces the instance of a service that panicked, and restores the frame if originals are kept.
    #[cold]
    fn renew(&mut self, id: ServiceId, frame: &mut Frame) {
        // The state of the panicked work is not reliable: neither its frames nor the instance.
        self.generated.clear();
        self.generated.take_mark();
        let Station { service, factory } = &mut self.stations[id];
        // Reading its counters may panic too.
        self.counters.add(id, panic::catch(|| service.counters()).unwrap_or_default());
        *service = factory.make();
        if let Some(original) = self.rare.as_mut().and_then(|rare| rare.original.as_mut()) {
            mem::swap(original, frame);
        }
    }

    /// Returns the counters of this core's services.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = self.counters.clone();
        for id in self.stations.ids() {
            let station = &self.stations[id];
            counters.add(id, panic::catch(|| station.service.counters()).unwrap_or_default());
        }
        counters
    }

    /// Passes on the frames that the service made of one that came by this port; they get the same
    /// port.
    #[inline(never)]
    fn give_generated(&mut self, port: u16, mut made: impl FnMut(Frame)) {
        for frame in self.generated.frames_mut() {
            frame.port = port;
            // Such frames are few and limited, so a new buffer for each costs nothing noticeable.
            made(mem::replace(frame, Frame::with_capacity(frame.data.capacity())));
        }
        self.generated.clear();
    }
}

/// Makes `copy` equal to `frame`, in the memory that it has.
fn copy(frame: &Frame, copy: &mut Frame) {
    let Frame { time, wire_length, link, port, answer, queued, mark, data } = frame;
    (copy.time, copy.wire_length, copy.link) = (*time, *wire_length, *link);
    (copy.port, copy.answer, copy.queued, copy.mark) = (*port, *answer, *queued, *mark);
    copy.data.clone_from(data);
}

/// Signals between a worker and the dispatcher, beside their rings. They have their own cache
/// lines: a waiting worker reads them continuously. Other data there would move between the
/// processors with each of the dispatcher's writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Signals {
    /// Wakes the worker when there are jobs.
    pub(crate) jobs: Bell,
    /// Set by the worker when it sits in its place.
    pub(crate) ready: AtomicBool,
    /// Signals the worker that no more jobs will come.
    pub(crate) over: AtomicBool,
}

/// Everything a worker thread holds.
pub(crate) struct Worker {
    pub(crate) seat: Seat,
    /// The cores that it serves in turn: all those of its processor.
    pub(crate) cores: Vec<WorkerCore>,
    pub(crate) signals: Arc<Signals>,
    /// Wakes the dispatcher when a result is ready.
    pub(crate) dispatcher: Arc<Doorbell>,
    /// Whether to read its hardware counters.
    pub(crate) hardware: bool,
}

/// One core of a worker thread.
pub(crate) struct WorkerCore {
    pub(crate) jobs: Consumer<Job>,
    pub(crate) done: Producer<Returned>,
    /// Results that are not in the ring yet; empty between batches.
    pub(crate) held_back: Vec<Returned>,
    pub(crate) bench: Workbench,
    pub(crate) laps: Laps,
}

/// A sleep is never longer, so that a dispatcher that is gone is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Packets taken from the ring at a time.
pub(crate) const BATCH: usize = 32;
/// After this much work, results are handed over even if the batch is not done. Each transfer costs
/// both sides a cache line's way between processors, so results of short work go together.
pub const HELD_BACK_MAX: Time = Time::from_ns(1_000);

impl Worker {
    /// Serves until the run is over and the rings are empty, and returns the services' counters.
    pub(crate) fn work(mut self) -> Counters {
        let _seated = self.seat.take();
        let counting = self.hardware.then(|| ThreadCounters::start(self.seat.thread));
        self.signals.ready.store(true, Ordering::Release);
        let mut patience = Patience::new(self.seat.shared);
        loop {
            if self.serve_all() {
                patience.reset();
            } else if self.is_over() && !self.has_jobs() {
                return self.counters(counting);
            } else if patience.wait() == Next::Sleep {
                self.signals.jobs.sleep(SLEEP_MAX, || self.has_jobs() || self.is_over());
            }
        }
    }

    /// Serves a batch of each core. Returns false if there is no work.
    fn serve_all(&mut self) -> bool {
        let Self { cores, dispatcher, .. } = self;
        let mut any = false;
        for core in cores {
            any |= core.serve_batch(dispatcher);
        }
        any
    }

    fn has_jobs(&self) -> bool {
        self.cores.iter().any(|core| !core.jobs.is_empty())
    }

    /// Whether no more jobs will come: the dispatcher said so, or has ended.
    fn is_over(&self) -> bool {
        self.signals.over.load(Ordering::Acquire) || self.cores.iter().all(|core| core.jobs.is_abandoned())
    }

    fn counters(&self, counting: Option<ThreadCounters>) -> Counters {
        let mut counters = Counters::default();
        self.cores.iter().for_each(|core| counters.merge(core.bench.counters()));
        if let Some(counting) = counting {
            counters.add_hardware(counting.end());
        }
        counters
    }
}

impl WorkerCore {
    /// Serves the packets in the ring, at most a batch. Returns false if there are none.
    fn serve_batch(&mut self, dispatcher: &Doorbell) -> bool {
        let Self { jobs, done, held_back, bench, laps } = self;
        let waiting = jobs.slots().min(BATCH);
        let Ok(batch) = jobs.read_chunk(waiting) else { return false };
        if waiting == 0 {
            return false;
        }
        laps.begin();
        let mut given = laps.previous;
        for Job { task, mut frame } in batch {
            let made = |frame| held_back.push(Returned { done: Done::Generated(frame), frame: Frame::default() });
            let result = bench.serve(task, &mut frame, || laps.end(), made);
            held_back.push(Returned { done: result, frame });
            if laps.previous.since(given) >= HELD_BACK_MAX {
                give(done, held_back);
                dispatcher.ring();
                given = laps.previous;
            }
        }
        if !held_back.is_empty() {
            give(done, held_back);
            dispatcher.ring();
        }
        true
    }
}

/// Puts results into the ring, waiting for room: the dispatcher always empties it, unless it is
/// gone.
fn give(done: &mut Producer<Returned>, results: &mut Vec<Returned>) {
    while !results.is_empty() {
        let room = done.slots().min(results.len());
        if room == 0 {
            if done.is_abandoned() {
                return results.clear();
            }
            thread::yield_now();
        } else if let Ok(places) = done.write_chunk_uninit(room) {
            places.fill_from_iter(results.drain(..room));
        }
    }
}
