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
use crate::worker::{Done, Job, Signals, Workbench, Worker};

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

    /// Ends the workers, once all they had is done.
    pub(crate) fn end(self) -> Result<(), RunError> {
        let Self::Threads(hands) = self else { return Ok(()) };
        for hand in &hands {
            hand.signals.over.store(true, Ordering::Release);
            hand.signals.jobs.ring(hand.thread.thread());
        }
        for (worker, hand) in hands.into_iter().enumerate() {
            hand.thread.join().map_err(|_| RunError::WorkerLost(worker))?;
        }
        Ok(())
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
        let (jobs, jobs_taken) = RingBuffer::new(in_flight);
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
