//! Worker threads behind rings, from outside.

use core::sync::atomic::Ordering;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use humpyard_core::id::{CoreId, Id};
use humpyard_core::unit::Time;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::clock::Stopwatch;
use crate::counters::Counters;
use crate::outcome::RunError;
use crate::placement::Seat;
use crate::wait::Doorbell;
use crate::worker::{BATCH, Done, Job, Laps, Signals, Workbench, Worker};

/// Jobs that go into a ring at a time, at most: each time the worker sees them costs both a cache line's way between processors.
const AT_A_TIME: usize = 16;

/// One worker thread per core.
pub(crate) struct Threads {
    hands: Vec<Hand>,
    /// Whose results are looked for next.
    next: usize,
}

/// One worker thread, from outside.
struct Hand {
    jobs: Producer<Job>,
    /// Jobs that it was given and that are not in the ring yet.
    given: Vec<Job>,
    done: Consumer<Done>,
    signals: Arc<Signals>,
    thread: JoinHandle<Counters>,
    /// The end of going over to another service, which is emulated: the worker is given nothing meanwhile.
    switching: Option<Time>,
}

impl Threads {
    /// Starts a worker in each of these seats, with at most `in_flight` packets each; with `hardware` that counts what they do.
    pub(crate) fn start(
        seats: &[Seat],
        in_flight: usize,
        stopwatch: Stopwatch,
        doorbell: &Arc<Doorbell>,
        hardware: bool,
        bench: impl Fn() -> Workbench,
    ) -> Result<Self, RunError> {
        let hand = |&seat: &Seat| {
            let hand = Hand::start(seat, in_flight, stopwatch, doorbell, hardware, bench());
            hand.map_err(RunError::Thread)
        };
        Ok(Self { hands: seats.iter().map(hand).collect::<Result<_, _>>()?, next: 0 })
    }

    /// Returns when every worker sits in its place, or is gone.
    pub(crate) fn wait_until_ready(&self) {
        for hand in &self.hands {
            while !hand.signals.ready.load(Ordering::Acquire) && !hand.thread.is_finished() {
                thread::yield_now();
            }
        }
    }

    /// Gives a worker a packet; there is room, for no core ever has more than its packets in flight. It may get it only with
    /// [`Threads::wake`].
    pub(crate) fn give(&mut self, core: CoreId, job: Job) {
        let hand = &mut self.hands[core.index()];
        hand.given.push(job);
        if hand.given.len() == AT_A_TIME {
            hand.pass_on();
        }
    }

    /// Lets the worker of this core have what it was given, and wakes it, if it sleeps.
    pub(crate) fn wake(&mut self, core: CoreId) {
        let hand = &mut self.hands[core.index()];
        hand.pass_on();
        hand.signals.jobs.ring(hand.thread.thread());
    }

    /// The core has nothing to serve, and begins to go over to another service.
    pub(crate) fn switch(&mut self, core: CoreId, until: Time) {
        self.hands[core.index()].switching = Some(until);
    }

    /// No core is going over to another service any more.
    pub(crate) fn forget_switches(&mut self) {
        self.hands.iter_mut().for_each(|hand| hand.switching = None);
    }

    /// Takes the next result, by ascending core; none when all have been looked at, and then it begins anew.
    pub(crate) fn take(&mut self, now: Time) -> Option<(CoreId, Done)> {
        while let Some(hand) = self.hands.get_mut(self.next) {
            let core = CoreId::from_index(self.next);
            if let Ok(done) = hand.done.pop() {
                return Some((core, done));
            }
            if hand.switching.take_if(|until| *until <= now).is_some() {
                return Some((core, Done::Switched));
            }
            self.next += 1;
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
        self.hands.iter().any(|hand| !hand.done.is_empty())
    }

    /// Whether every worker is still there.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match self.hands.iter().position(|hand| hand.thread.is_finished()) {
            Some(worker) => Err(RunError::WorkerLost(worker)),
            None => Ok(()),
        }
    }

    /// Ends the workers, once they have done all they had, and tells what the services counted; results not yet taken are
    /// lost.
    pub(crate) fn end(self) -> Result<Counters, RunError> {
        for hand in &self.hands {
            hand.signals.over.store(true, Ordering::Release);
            hand.signals.jobs.ring(hand.thread.thread());
        }
        let mut lost = None;
        let mut counters = Counters::default();
        for (worker, Hand { done, thread, .. }) in self.hands.into_iter().enumerate() {
            // A worker waits for room for its results only as long as there is someone to take them.
            drop(done);
            match thread.join() {
                Ok(counted) => counters.merge(counted),
                Err(_) => {
                    lost.get_or_insert(worker);
                }
            }
        }
        lost.map_or(Ok(counters), |worker| Err(RunError::WorkerLost(worker)))
    }
}

impl Hand {
    /// Puts what the worker was given into its ring.
    fn pass_on(&mut self) {
        let room = self.jobs.write_chunk_uninit(self.given.len()).expect("a core has at most its packets in flight");
        room.fill_from_iter(self.given.drain(..));
    }

    fn start(
        seat: Seat,
        in_flight: usize,
        stopwatch: Stopwatch,
        doorbell: &Arc<Doorbell>,
        hardware: bool,
        bench: Workbench,
    ) -> io::Result<Self> {
        // A worker gives the places of a batch back when the whole batch is done, so they are needed beside those in flight.
        let (jobs, jobs_taken) = RingBuffer::new(in_flight + BATCH);
        let (done_given, done) = RingBuffer::new(2 * in_flight);
        let signals = Arc::new(Signals::default());
        let worker = Worker {
            seat,
            jobs: jobs_taken,
            done: done_given,
            held_back: Vec::with_capacity(BATCH),
            signals: Arc::clone(&signals),
            dispatcher: Arc::clone(doorbell),
            bench,
            laps: Laps::new(stopwatch),
            hardware,
        };
        let thread = thread::Builder::new().name(seat.thread.to_string()).spawn(move || worker.work())?;
        Ok(Self { jobs, given: Vec::with_capacity(AT_A_TIME), done, signals, thread, switching: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    use core::sync::atomic::AtomicUsize;

    use humpyard_core::frame::Frame;
    use humpyard_core::id::{ServiceId, Slot};
    use humpyard_services::{Context, Factory, Generated, Service, Verdict};

    use crate::placement::seats;

    /// Forwards, but panics at a frame whose first byte is 1.
    struct Fragile;

    impl Service for Fragile {
        fn process(&mut self, frame: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
            assert_ne!(frame.data.first(), Some(&1), "this panic is part of a test");
            Verdict::Forward
        }
    }

    const IN_FLIGHT: usize = 4;

    /// Workers whose service can be made so many times.
    fn threads_of(workers: usize, instances: usize) -> Threads {
        let made = AtomicUsize::new(0);
        let factory = Factory::new("fragile", move || {
            assert!(made.fetch_add(1, Ordering::Relaxed) < instances, "this panic is part of a test");
            Fragile
        });
        let bench = || Workbench::new(core::slice::from_ref(&factory), false);
        let doorbell = Arc::new(Doorbell::new().unwrap());
        Threads::start(&seats(workers)[1..], IN_FLIGHT, Stopwatch::start(), &doorbell, false, bench).unwrap()
    }

    fn threads(workers: usize) -> Threads {
        threads_of(workers, usize::MAX)
    }

    fn job(slot: u32, byte: u8) -> Job {
        let frame = Frame { data: vec![byte], ..Frame::default() };
        Job { slot: Slot(slot), service: ServiceId(0), context: Context::default(), frame }
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
        threads.give(CoreId(0), job(0, 0));
        threads.give(CoreId(1), job(1, 1));
        threads.wake(CoreId(0));
        threads.wake(CoreId(1));
        wait_until("the loss is noticed", || threads.check().is_err());
        assert!(matches!(threads.check(), Err(RunError::WorkerLost(1))));
        assert!(matches!(threads.end(), Err(RunError::WorkerLost(1))));
    }

    #[test]
    fn an_end_does_not_wait_for_results_to_be_taken() {
        let mut threads = threads(1);
        // One more than there is room for among the results, which nobody takes.
        for slot in 0..=2 * IN_FLIGHT as u32 {
            threads.give(CoreId(0), job(slot, 0));
        }
        threads.wake(CoreId(0));
        threads.end().unwrap();
    }

    #[test]
    fn workers_end_when_their_dispatcher_is_gone() {
        let threads: Vec<JoinHandle<Counters>> = threads(2).hands.into_iter().map(|hand| hand.thread).collect();
        wait_until("they end", || threads.iter().all(JoinHandle::is_finished));
    }
}
