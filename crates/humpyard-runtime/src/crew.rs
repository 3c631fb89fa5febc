//! The workers as the dispatcher sees them: threads behind rings, or its own hands.

use core::sync::atomic::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use humpyard_core::id::{CoreId, Id};
use humpyard_services::Factory;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::clock::Clock;
use crate::outcome::RunError;
use crate::placement::{Seat, seats};
use crate::wait::Bell;
use crate::worker::{BATCH, Done, Job, Laps, Signals, Workbench, Worker};

/// Who does the work.
pub(crate) enum Crew {
    /// The dispatcher itself, packet by packet.
    Own(Box<Own>),
    /// One thread per core.
    Threads(Vec<Hand>),
}

/// The hands of the dispatcher.
pub(crate) struct Own {
    bench: Workbench,
    laps: Laps,
    done: VecDeque<Done>,
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
    /// dispatcher's first, which the calling thread takes. With `keep_originals` frames at which a service panics come back as
    /// they were before.
    pub(crate) fn start(
        workers: usize,
        in_flight: usize,
        services: &[Factory],
        keep_originals: bool,
        clock: Clock,
        bell: &Arc<Bell>,
    ) -> Result<(Self, Vec<Seat>), RunError> {
        let bench = || Workbench::new(services, keep_originals);
        let seats = seats(workers);
        if workers == 0 {
            let own = Own { bench: bench(), laps: Laps::new(clock), done: VecDeque::with_capacity(64) };
            return Ok((Self::Own(Box::new(own)), seats));
        }
        let hands = seats[1..]
            .iter()
            .enumerate()
            .map(|(worker, &seat)| Hand::start(worker, seat, in_flight, bench(), clock, bell))
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
            Self::Own(own) => {
                let Own { bench, laps, done } = &mut **own;
                laps.begin();
                bench.serve(job, || laps.end(), |result| done.push_back(result));
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
            Self::Own(own) => own.done.pop_front(),
            Self::Threads(hands) => hands[core.index()].done.pop().ok(),
        }
    }

    /// Whether a result waits to be taken.
    pub(crate) fn has_results(&self) -> bool {
        match self {
            Self::Own(own) => !own.done.is_empty(),
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
        clock: Clock,
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
            laps: Laps::new(clock),
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

    use core::sync::atomic::AtomicUsize;

    use humpyard_core::frame::Frame;
    use humpyard_core::id::{ServiceId, Slot};
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

    /// A crew whose service can be made so many times.
    fn crew_of(workers: usize, instances: usize) -> Crew {
        let made = AtomicUsize::new(0);
        let make = move || {
            assert!(made.fetch_add(1, Ordering::Relaxed) < instances, "this panic is part of a test");
            Fragile
        };
        let (bell, clock) = (Arc::new(Bell::default()), Clock::start());
        Crew::start(workers, IN_FLIGHT, &[Factory::new("fragile", make)], false, clock, &bell).unwrap().0
    }

    fn crew(workers: usize) -> Crew {
        crew_of(workers, usize::MAX)
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
    fn a_service_that_cannot_be_made_anew_is_told_as_a_lost_worker() {
        let mut crew = crew_of(2, 2);
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
