//! One worker: takes packets from its ring, does the services' work, gives the frames back.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;

use humpyard_core::frame::Frame;
use humpyard_core::id::{IdVec, ServiceId, Slot};
use humpyard_core::unit::Time;
use humpyard_services::{Generated, Service, Verdict};
use rtrb::{Consumer, Producer};

use crate::clock::Clock;
use crate::placement::Seat;
use crate::wait::{Bell, Next, Patience};

/// A packet to be served.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) slot: Slot,
    pub(crate) service: ServiceId,
    pub(crate) frame: Frame,
}

/// What comes back from a worker.
#[derive(Debug)]
pub(crate) enum Done {
    /// A packet that was served.
    Served {
        /// Its slot.
        slot: Slot,
        /// The frame, as the service left it.
        frame: Frame,
        /// What becomes of it.
        verdict: Verdict,
        /// When the work was done.
        finished: Time,
        /// How long the work took.
        busy: Time,
    },
    /// A frame that a service made itself; it comes before the packet that caused it.
    Generated(Frame),
}

/// The services of one thread, each an instance of its own.
pub(crate) struct Workbench {
    services: IdVec<ServiceId, Box<dyn Service>>,
    generated: Generated,
    clock: Clock,
    /// When the previous packet was done: where the next one starts, if it was there already.
    previous: Time,
}

impl Workbench {
    pub(crate) fn new(services: IdVec<ServiceId, Box<dyn Service>>, clock: Clock) -> Self {
        Self { services, generated: Generated::default(), clock, previous: Time::ZERO }
    }

    /// The work to come was not there when the last was done: time starts anew.
    pub(crate) fn begin(&mut self) {
        self.previous = self.clock.now();
    }

    /// Does the work of one packet; `give` takes what comes of it.
    pub(crate) fn serve(&mut self, job: Job, mut give: impl FnMut(Done)) {
        let Job { slot, service, mut frame } = job;
        let verdict = self.services[service].process(&mut frame, &mut self.generated);
        let finished = self.clock.now();
        let busy = finished.since(self.previous);
        self.previous = finished;
        if !self.generated.is_empty() {
            for made in self.generated.frames_mut() {
                // Errors are few and their number is limited, so a new buffer each is no cost.
                give(Done::Generated(core::mem::replace(made, Frame::with_capacity(made.data.capacity()))));
            }
            self.generated.clear();
        }
        give(Done::Served { slot, frame, verdict, finished, busy });
    }
}

/// What a worker and the dispatcher share beside their rings.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// Wakes the worker when there are jobs.
    pub(crate) jobs: Bell,
    /// Set by the worker when it sits in its place.
    pub(crate) ready: AtomicBool,
    /// Tells the worker that no more jobs will come.
    pub(crate) over: AtomicBool,
}

/// Everything a worker thread holds.
pub(crate) struct Worker {
    pub(crate) seat: Seat,
    pub(crate) jobs: Consumer<Job>,
    pub(crate) done: Producer<Done>,
    pub(crate) signals: Arc<Signals>,
    /// Wakes the dispatcher when there is something done.
    pub(crate) dispatcher_bell: Arc<Bell>,
    pub(crate) dispatcher: thread::Thread,
    pub(crate) bench: Workbench,
}

/// A sleep is never longer, so that a dispatcher that is gone is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Packets taken from the ring at a time.
pub(crate) const BATCH: usize = 32;

impl Worker {
    /// Serves until it is over and the ring is empty.
    pub(crate) fn work(mut self) {
        let _seated = self.seat.take();
        self.signals.ready.store(true, Ordering::Release);
        let mut patience = Patience::new(self.seat.shared);
        loop {
            if self.serve_batch() {
                patience.reset();
            } else if self.is_over() && self.jobs.is_empty() {
                return;
            } else if patience.wait() == Next::Sleep {
                self.signals.jobs.sleep(SLEEP_MAX, || !self.jobs.is_empty() || self.is_over());
            }
        }
    }

    /// Whether no more jobs will come: the dispatcher said so, or is gone.
    fn is_over(&self) -> bool {
        self.signals.over.load(Ordering::Acquire) || self.jobs.is_abandoned()
    }

    /// Serves what is in the ring, at most a batch; false if there is nothing.
    fn serve_batch(&mut self) -> bool {
        let waiting = self.jobs.slots().min(BATCH);
        let Ok(batch) = self.jobs.read_chunk(waiting) else { return false };
        if waiting == 0 {
            return false;
        }
        self.bench.begin();
        for job in batch {
            let done = &mut self.done;
            self.bench.serve(job, |result| give(done, result));
        }
        self.dispatcher_bell.ring(&self.dispatcher);
        true
    }
}

/// Puts a result into the ring, waiting for room: the dispatcher always empties it, unless it is gone.
fn give(done: &mut Producer<Done>, mut result: Done) {
    while let Err(rtrb::PushError::Full(back)) = done.push(result) {
        if done.is_abandoned() {
            return;
        }
        result = back;
        thread::yield_now();
    }
}
