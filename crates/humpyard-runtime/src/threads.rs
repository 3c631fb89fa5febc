//! The cores of a run on a real clock: worker threads behind rings, and the cores that the
//! dispatcher itself serves.

use core::mem;
use core::sync::atomic::Ordering;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use humpyard_core::id::{CoreId, Id, Slot};
use humpyard_core::mechanism::Dispatch;
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::clock::Stopwatch;
use crate::counters::Counters;
use crate::held::HeldFrames;
use crate::outcome::RunError;
use crate::own::Own;
use crate::placement::Seat;
use crate::wait::Doorbell;
use crate::worker::{
    BATCH, Done, GivenBack, Job, Laps, Returned, Served, Signals, Task, Workbench, Worker, WorkerCore,
};

/// Jobs that go into a ring at a time, at most: each time the worker sees them costs both a cache
/// line's way between processors.
const AT_A_TIME: usize = 16;

/// The cores of a run and the threads that work for them.
///
/// There is one thread for each processor; it serves the cores of that processor in turn. The
/// dispatcher itself serves the cores on its own processor. So this code, not the system, decides
/// which of the two uses the processor.
pub(crate) struct Threads {
    hands: Vec<Hand>,
    threads: Vec<WorkerThread>,
    /// The core whose results are fetched next.
    next: usize,
}

/// One core.
struct Hand {
    does: Does,
    /// The end of an emulated switch to another service: the core gets no packets meanwhile.
    switching: Option<Time>,
}

/// The worker of a core.
enum Does {
    /// A thread, behind rings.
    Thread(Rings),
    /// The dispatcher.
    Dispatcher(Box<Own>),
}

/// The rings of a core.
struct Rings {
    /// The thread, by number.
    thread: usize,
    jobs: Producer<Job>,
    /// Jobs that it was given and that are not in the ring yet.
    given: Vec<Job>,
    done: Consumer<Returned>,
}

/// A thread that serves cores.
struct WorkerThread {
    /// The first of its cores.
    core: usize,
    signals: Arc<Signals>,
    thread: JoinHandle<Counters>,
}

/// The parameters with which threads are started.
pub(crate) struct Crewing<'a> {
    /// Most packets that a core may have.
    pub(crate) in_flight: usize,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) doorbell: &'a Arc<Doorbell>,
    /// Whether to read the threads' hardware counters.
    pub(crate) hardware: bool,
}

impl Threads {
    /// Starts the workers in these seats; the first seat is the dispatcher's. If it is the only
    /// one, the dispatcher serves one core.
    pub(crate) fn start(
        seats: &[Seat],
        crewing: &Crewing<'_>,
        bench: impl Fn() -> Workbench,
    ) -> Result<Self, RunError> {
        let own = || Does::Dispatcher(Box::new(Own::new(crewing.stopwatch, bench())));
        let (mut does, mut groups) = (Vec::new(), Vec::<(Seat, usize, Vec<WorkerCore>)>::new());
        for (core, seat) in seats[1..].iter().enumerate() {
            if seat.processor.is_some() && seat.processor == seats[0].processor {
                does.push(own());
                continue;
            }
            let of_processor = |(other, ..): &(Seat, usize, Vec<WorkerCore>)| {
                seat.processor.is_some() && other.processor == seat.processor
            };
            let thread = groups.iter().position(of_processor).unwrap_or(groups.len());
            if thread == groups.len() {
                groups.push((*seat, core, Vec::new()));
            }
            let (rings, core) = rings(thread, crewing, bench());
            groups[thread].2.push(core);
            does.push(Does::Thread(rings));
        }
        if does.is_empty() {
            does.push(own());
        }
        let start = |(seat, core, cores)| WorkerThread::start(seat, core, cores, crewing).map_err(RunError::Thread);
        Ok(Self {
            hands: does.into_iter().map(|does| Hand { does, switching: None }).collect(),
            threads: groups.into_iter().map(start).collect::<Result<_, _>>()?,
            next: 0,
        })
    }

    /// Returns when every worker is pinned to its seat, or has ended.
    pub(crate) fn wait_until_ready(&self) {
        for worker in &self.threads {
            while !worker.signals.ready.load(Ordering::Acquire) && !worker.thread.is_finished() {
                thread::yield_now();
            }
        }
    }

    /// Gives a packet to a core. There is room, because a core never exceeds its packets in flight.
    /// A worker may receive it only after [`Threads::wake`].
    #[inline(always)]
    pub(crate) fn give(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>, held: &mut HeldFrames) {
        match &mut self.hands[core.index()].does {
            Does::Dispatcher(own) => own.give(now, dispatch.slot),
            Does::Thread(rings) => {
                let task = Task::of(now, dispatch.slot, dispatch.packet);
                rings.given.push(Job { task, frame: mem::take(&mut held[task.slot].frame) });
                if rings.given.len() == AT_A_TIME {
                    rings.pass_on();
                }
            }
        }
    }

    /// Passes the waiting packets on to this core's worker, and wakes it if it sleeps.
    pub(crate) fn wake(&mut self, core: CoreId) {
        if let Does::Thread(rings) = &mut self.hands[core.index()].does {
            rings.pass_on();
            let WorkerThread { signals, thread, .. } = &self.threads[rings.thread];
            signals.jobs.ring(thread.thread());
        }
    }

    /// Serves for a while the cores that are the dispatcher's own. `packet` returns the packet of a
    /// slot. Returns whether there was any work.
    #[inline]
    pub(crate) fn serve<'p>(&mut self, held: &mut HeldFrames, packet: impl Fn(Slot) -> &'p Packet) -> bool {
        let mut any = false;
        for hand in &mut self.hands {
            if let Does::Dispatcher(own) = &mut hand.does {
                any |= own.serve(held, &packet);
            }
        }
        any
    }

    /// Begins the switch of an idle core to another service.
    pub(crate) fn switch(&mut self, core: CoreId, until: Time) {
        self.hands[core.index()].switching = Some(until);
    }

    /// Forgets all switches under way.
    pub(crate) fn forget_switches(&mut self) {
        self.hands.iter_mut().for_each(|hand| hand.switching = None);
    }

    /// Takes the results of the next core that has any, by ascending core, into an empty list, and
    /// puts their frames back into their slots. `None`: all cores have been asked; the next call
    /// starts again with the first.
    #[inline]
    pub(crate) fn take(&mut self, now: Time, held: &mut HeldFrames, results: &mut Vec<Done>) -> Option<CoreId> {
        while let Some(hand) = self.hands.get_mut(self.next) {
            let core = CoreId::from_index(self.next);
            self.next += 1;
            match &mut hand.does {
                Does::Dispatcher(own) => own.take(results),
                Does::Thread(rings) => rings.take(held, results),
            }
            if hand.switching.is_some() && hand.switching.take_if(|until| *until <= now).is_some() {
                results.push(Done::Switched);
            }
            if !results.is_empty() {
                return Some(core);
            }
        }
        self.next = 0;
        None
    }

    /// When the next switch ends. Workers ring when they are done.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.hands.iter().filter_map(|hand| hand.switching).min()
    }

    /// Whether a worker has given a result that was not yet taken.
    pub(crate) fn has_results(&self) -> bool {
        self.hands.iter().any(|hand| matches!(&hand.does, Does::Thread(rings) if !rings.done.is_empty()))
    }

    /// Whether every worker is still there.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match self.threads.iter().find(|worker| worker.thread.is_finished()) {
            Some(worker) => Err(RunError::WorkerLost(worker.core)),
            None => Ok(()),
        }
    }

    /// Ends the workers after all their work, and returns the services' counters. Results not yet
    /// taken are lost.
    pub(crate) fn end(self) -> Result<Counters, RunError> {
        for WorkerThread { signals, thread, .. } in &self.threads {
            signals.over.store(true, Ordering::Release);
            signals.jobs.ring(thread.thread());
        }
        let mut counters = Counters::default();
        for hand in self.hands {
            // A worker waits for room for its results only while the dispatcher exists: dropping
            // the rings ends that wait.
            if let Does::Dispatcher(own) = hand.does {
                counters.merge(own.end());
            }
        }
        let mut lost = None;
        for WorkerThread { core, thread, .. } in self.threads {
            match thread.join() {
                Ok(counted) => counters.merge(counted),
                Err(_) => {
                    lost.get_or_insert(core);
                }
            }
        }
        lost.map_or(Ok(counters), |worker| Err(RunError::WorkerLost(worker)))
    }
}

impl Rings {
    /// Puts the given packets into the worker's ring.
    fn pass_on(&mut self) {
        let room = self.jobs.write_chunk_uninit(self.given.len()).expect("a core has at most its packets in flight");
        room.fill_from_iter(self.given.drain(..));
    }

    /// Takes all finished results, and puts their frames back into their slots.
    #[inline]
    fn take(&mut self, held: &mut HeldFrames, results: &mut Vec<Done>) {
        let there = self.done.slots();
        let Ok(returned) = self.done.read_chunk(there) else { return };
        results.extend(returned.into_iter().map(|Returned { done, frame }| {
            if let Done::Served(Served { slot, .. }) | Done::GivenBack(GivenBack { slot, .. }) = &done {
                held[*slot].frame = frame;
            } else if let Done::Panicked(panicked) = &done {
                held[panicked.slot].frame = frame;
            }
            done
        }));
    }
}

/// Both ends of the rings of a core that this thread serves.
fn rings(thread: usize, crewing: &Crewing<'_>, bench: Workbench) -> (Rings, WorkerCore) {
    // A worker frees the places of a batch only when the whole batch is done. So the ring needs
    // them in addition to the packets in flight.
    let (jobs, jobs_taken) = RingBuffer::new(crewing.in_flight + BATCH);
    let (done_given, done) = RingBuffer::new(2 * crewing.in_flight);
    let core = WorkerCore {
        jobs: jobs_taken,
        done: done_given,
        held_back: Vec::with_capacity(BATCH),
        bench,
        laps: Laps::new(crewing.stopwatch),
    };
    (Rings { thread, jobs, given: Vec::with_capacity(AT_A_TIME), done }, core)
}

impl WorkerThread {
    fn start(seat: Seat, core: usize, cores: Vec<WorkerCore>, crewing: &Crewing<'_>) -> io::Result<Self> {
        let signals = Arc::new(Signals::default());
        let dispatcher = Arc::clone(crewing.doorbell);
        let worker = Worker { seat, cores, signals: Arc::clone(&signals), dispatcher, hardware: crewing.hardware };
        let thread = thread::Builder::new().name(seat.thread.to_string()).spawn(move || worker.work())?;
        Ok(Self { core, signals, thread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    use core::sync::atomic::AtomicUsize;

    use humpyard_core::frame::Frame;
    use humpyard_services::{Context, Factory, Generated, Service, Verdict};

    use crate::held::HeldFrame;
    use crate::placement::Thread;

    /// Forwards frames, but panics at one whose first byte is 1.
    struct Fragile;

    impl Service for Fragile {
        fn process(&mut self, frame: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
            assert_ne!(frame.data.first(), Some(&1), "this panic is part of a test");
            Verdict::Forward
        }
    }

    const IN_FLIGHT: usize = 4;

    /// Returns workers whose service can be instantiated `instances` times.
    fn threads_of(workers: usize, instances: usize) -> Threads {
        let made = AtomicUsize::new(0);
        let factory = Factory::new("fragile", move || {
            assert!(made.fetch_add(1, Ordering::Relaxed) < instances, "this panic is part of a test");
            Fragile
        });
        let bench = || Workbench::new(core::slice::from_ref(&factory), false);
        let doorbell = Arc::new(Doorbell::new().unwrap());
        // Seats anywhere, so that each worker has a thread on any machine.
        let seat = |thread| Seat { thread, processor: None, shared: true };
        let seats: Vec<Seat> =
            core::iter::once(Thread::Dispatcher).chain((0..workers).map(Thread::Worker)).map(seat).collect();
        let crewing =
            Crewing { in_flight: IN_FLIGHT, stopwatch: Stopwatch::start(), doorbell: &doorbell, hardware: false };
        Threads::start(&seats, &crewing, bench).unwrap()
    }

    fn threads(workers: usize) -> Threads {
        threads_of(workers, usize::MAX)
    }

    /// Gives a core a packet of one byte.
    fn give(threads: &mut Threads, core: u16, byte: u8) {
        let frame = Frame { data: vec![byte], ..Frame::default() };
        let mut held = HeldFrames::from_fn(1, |_| HeldFrame { number: 1, frame: frame.clone() });
        let dispatch = Dispatch { slot: Slot(0), packet: &Packet::default(), cold: false, moved: None };
        threads.give(Time::ZERO, CoreId(core), &dispatch, &mut held);
    }

    fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
        let started = Instant::now();
        while !ready() {
            assert!(started.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_service_that_cannot_be_made_anew_is_told_as_a_lost_worker() {
        let mut threads = threads_of(2, 2);
        give(&mut threads, 0, 0);
        give(&mut threads, 1, 1);
        threads.wake(CoreId(0));
        threads.wake(CoreId(1));
        wait_until("the loss is noticed", || threads.check().is_err());
        assert!(matches!(threads.check(), Err(RunError::WorkerLost(1))));
        assert!(matches!(threads.end(), Err(RunError::WorkerLost(1))));
    }

    #[test]
    fn an_end_does_not_wait_for_results_to_be_taken() {
        let mut threads = threads(1);
        // One result more than fits, and nobody takes them.
        for _ in 0..=2 * IN_FLIGHT {
            give(&mut threads, 0, 0);
        }
        threads.wake(CoreId(0));
        threads.end().unwrap();
    }

    #[test]
    fn workers_end_when_their_dispatcher_is_gone() {
        let threads: Vec<JoinHandle<Counters>> = threads(2).threads.into_iter().map(|worker| worker.thread).collect();
        wait_until("they end", || threads.iter().all(JoinHandle::is_finished));
    }
}
