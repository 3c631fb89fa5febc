//! The workers as the dispatcher sees them: threads behind rings, or its own hands.

use core::sync::atomic::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use humpyard_core::id::{CoreId, Id, IdVec, ServiceId};
use humpyard_services::Factory;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::clock::Clock;
use crate::outcome::RunError;
use crate::placement::{Seat, seats};
use crate::wait::Bell;
use crate::worker::{BATCH, Done, Job, Signals, Workbench, Worker};

/// Who does the work.
pub(crate) enum Crew {
    /// The dispatcher itself, packet by packet.
    Own(Box<Workbench>, VecDeque<Done>),
    /// One thread per core.
    Threads(Vec<Hand>),
}

/// One worker thread, from outside.
pub(crate) struct Hand {
    jobs: Producer<Job>,
    done: Consumer<Done>,
    signals: Arc<Signals>,
    thread: JoinHandle<()>,
}

impl Crew {
    /// Starts so many workers, each with at most `in_flight` packets; 0 is the dispatcher alone. Gives the seats, the
    /// dispatcher's first, which the calling thread takes.
    pub(crate) fn start(
        workers: usize,
        in_flight: usize,
        services: &[Factory],
        clock: Clock,
        bell: &Arc<Bell>,
    ) -> Result<(Self, Vec<Seat>), RunError> {
        let bench = || {
            let services: IdVec<ServiceId, _> = services.iter().map(Factory::make).collect();
            Workbench::new(services, clock)
        };
        let seats = seats(workers);
        if workers == 0 {
            return Ok((Self::Own(Box::new(bench()), VecDeque::with_capacity(64)), seats));
        }
        let hands = seats[1..]
            .iter()
            .enumerate()
            .map(|(worker, &seat)| Hand::start(worker, seat, in_flight, bench(), bell))
            .collect::<Result<_, _>>()?;
        Ok((Self::Threads(hands), seats))
    }

    /// Returns when every worker sits in its place, or is gone.
    pub(crate) fn wait_until_ready(&self) {
        let Self::Threads(hands) = self else { return };
        for hand in hands {
            while !hand.signals.ready.load(Ordering::Acquire) && !hand.thread.is_finished() {
                thread::yield_now();
            }
        }
    }

    /// Gives a core a packet; there is room, for no core ever has more than its packets in flight.
    pub(crate) fn give(&mut self, core: CoreId, job: Job) {
        match self {
            Self::Own(bench, done) => {
                bench.begin();
                bench.serve(job, |result| done.push_back(result));
            }
            Self::Threads(hands) => {
                hands[core.index()].jobs.push(job).expect("a core has at most its packets in flight");
            }
        }
    }

    /// Wakes the worker of this core, if it sleeps. To be called after it was given packets.
    pub(crate) fn wake(&self, core: CoreId) {
        if let Self::Threads(hands) = self {
            let hand = &hands[core.index()];
            hand.signals.jobs.ring(hand.thread.thread());
        }
    }

    /// Takes back one result of a core.
    pub(crate) fn take(&mut self, core: CoreId) -> Option<Done> {
        match self {
            Self::Own(_, done) => done.pop_front(),
            Self::Threads(hands) => hands[core.index()].done.pop().ok(),
        }
    }

    /// Whether a result waits to be taken.
    pub(crate) fn has_results(&self) -> bool {
        match self {
            Self::Own(_, done) => !done.is_empty(),
            Self::Threads(hands) => hands.iter().any(|hand| !hand.done.is_empty()),
        }
    }

    /// Whether every worker is still there.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match self {
            Self::Own(..) => Ok(()),
            Self::Threads(hands) => match hands.iter().position(|hand| hand.thread.is_finished()) {
                Some(worker) => Err(RunError::WorkerLost(worker)),
                None => Ok(()),
            },
        }
    }

    /// Ends the workers, once they have done all they had; results not yet taken are lost.
    pub(crate) fn end(self) -> Result<(), RunError> {
        let Self::Threads(hands) = self else { return Ok(()) };
        for hand in &hands {
            hand.signals.over.store(true, Ordering::Release);
            hand.signals.jobs.ring(hand.thread.thread());
        }
        let mut lost = None;
        for (worker, Hand { done, thread, .. }) in hands.into_iter().enumerate() {
            // A worker waits for room for its results only as long as there is someone to take them.
            drop(done);
            if thread.join().is_err() {
                lost.get_or_insert(worker);
            }
        }
        lost.map_or(Ok(()), |worker| Err(RunError::WorkerLost(worker)))
    }
}

impl Hand {
    fn start(
        number: usize,
        seat: Seat,
        in_flight: usize,
        bench: Workbench,
        bell: &Arc<Bell>,
    ) -> Result<Self, RunError> {
        // A worker gives the places of a batch back when the whole batch is done, so they are needed beside those in flight.
        let (jobs, jobs_taken) = RingBuffer::new(in_flight + BATCH);
        let (done_given, done) = RingBuffer::new(2 * in_flight);
        let signals = Arc::new(Signals::default());
        let worker = Worker {
            seat,
            jobs: jobs_taken,
            done: done_given,
            signals: Arc::clone(&signals),
            dispatcher_bell: Arc::clone(bell),
            dispatcher: thread::current(),
            bench,
        };
        let thread = thread::Builder::new()
            .name(format!("worker {number}"))
            .spawn(move || worker.work())
            .map_err(RunError::Thread)?;
        Ok(Self { jobs, done, signals, thread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    use humpyard_core::frame::Frame;
    use humpyard_core::id::Slot;
    use humpyard_services::{Generated, Service, Verdict};

    /// Forwards, but panics at a frame whose first byte is 1.
    struct Fragile;

    impl Service for Fragile {
        fn process(&mut self, frame: &mut Frame, _: &mut Generated) -> Verdict {
            assert_ne!(frame.data.first(), Some(&1), "this panic is part of a test");
            Verdict::Forward
        }
    }

    const IN_FLIGHT: usize = 4;

    fn crew(workers: usize) -> Crew {
        let bell = Arc::new(Bell::default());
        let clock = Clock::start();
        let bench = || {
            let service: Box<dyn Service> = Box::new(Fragile);
            Workbench::new(IdVec::from_iter([service]), clock)
        };
        let seats = seats(workers);
        let hand = |worker| Hand::start(worker, seats[worker + 1], IN_FLIGHT, bench(), &bell).unwrap();
        Crew::Threads((0..workers).map(hand).collect())
    }

    fn job(slot: u32, byte: u8) -> Job {
        Job { slot: Slot(slot), service: ServiceId(0), frame: Frame { data: vec![byte], ..Frame::default() } }
    }

    fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
        let started = Instant::now();
        while !ready() {
            assert!(started.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_service_that_panics_is_told_as_a_lost_worker() {
        let mut crew = crew(2);
        crew.give(CoreId(0), job(0, 0));
        crew.give(CoreId(1), job(1, 1));
        crew.wake(CoreId(0));
        crew.wake(CoreId(1));
        wait_until("the loss is noticed", || crew.check().is_err());
        assert!(matches!(crew.check(), Err(RunError::WorkerLost(1))));
        assert!(matches!(crew.end(), Err(RunError::WorkerLost(1))));
    }

    #[test]
    fn an_end_does_not_wait_for_results_to_be_taken() {
        let mut crew = crew(1);
        // One more than there is room for among the results, which nobody takes.
        for slot in 0..=2 * IN_FLIGHT as u32 {
            crew.give(CoreId(0), job(slot, 0));
        }
        crew.wake(CoreId(0));
        crew.end().unwrap();
    }

    #[test]
    fn workers_end_when_their_dispatcher_is_gone() {
        let Crew::Threads(hands) = crew(2) else { unreachable!("two workers are two threads") };
        let threads: Vec<JoinHandle<()>> = hands.into_iter().map(|hand| hand.thread).collect();
        wait_until("they end", || threads.iter().all(JoinHandle::is_finished));
    }
}
