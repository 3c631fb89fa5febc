//! A scheduler on each processor, which also does its work. Like `event_dsw`: no thread only
//! schedules.
//!
//! A flow belongs to one of the two processors, so its events stay in order and on one processor.
//! If an event's next flow is the other's, it goes there through a ring. Each event is touched and
//! completed before the next is asked for, so every decision is as late as possible.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use humpyard::mechanism::{Never, Scheduler};
use humpyard::policy::{Share, Steer};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::embedded::{Event, Scheduling};
use crate::work::{Figures, Host, Order, Work, host, pin};

/// Rounds between two looks at the clock.
const LOOK_EVERY: usize = 64;

/// Runs the work.
pub(crate) fn run(order: Order, work: &Work) -> Figures {
    host(order, work.burst as u32, work, PerCore(work))
}

struct PerCore<'a>(&'a Work);

impl Host for PerCore<'_> {
    fn run<S: Steer + Send, Q: Share + Send>(self, make: impl Fn() -> Scheduler<S, Q, Never> + Sync) -> Figures {
        let work = self.0;
        let (to_second, from_first) = RingBuffer::new(2 * work.in_flight);
        let (to_first, from_second) = RingBuffer::new(2 * work.in_flight);
        let ending = Ending { over: AtomicBool::new(false), left: AtomicUsize::new(work.in_flight) };
        let ends = [(to_second, from_second), (to_first, from_first)];
        thread::scope(|scope| {
            let (make, ending) = (&make, &ending);
            let threads: Vec<_> = (0..)
                .zip(ends)
                .map(|(number, (away, coming))| {
                    scope.spawn(move || {
                        pin(work.processors[number as usize]);
                        Serving::new(number, Scheduling::new(make(), work), away, coming, work, ending).run()
                    })
                })
                .collect();
            let done = threads.into_iter().map(|thread| thread.join().expect("the thread has told why it ended"));
            let done: Vec<Done> = done.collect();
            let (events, touches) = done.iter().fold((0, 0), |sums, done| (sums.0 + done.all, sums.1 + done.touches));
            assert_eq!(events, touches, "every event was touched at every hop");
            let measured = done.iter().map(|done| done.figures.events).sum();
            let time = done.iter().map(|done| done.figures.time).max().unwrap_or_default();
            Figures { events: measured, time }
        })
    }
}

/// The end of the run: no thread forwards any more, until every event is removed.
struct Ending {
    over: AtomicBool,
    left: AtomicUsize,
}

/// The results of one thread.
struct Done {
    figures: Figures,
    /// Hops, including those that were not measured.
    all: u64,
    /// The touches counted in the events that it removed.
    touches: u64,
}

/// One processor.
struct Serving<'a, S, Q> {
    number: u32,
    scheduling: Scheduling<S, Q>,
    away: Producer<Event>,
    coming: Consumer<Event>,
    work: &'a Work,
    ending: &'a Ending,
    burst: Vec<Event>,
    leaving: Vec<Event>,
    events: u64,
}

impl<'a, S: Steer, Q: Share> Serving<'a, S, Q> {
    fn new(
        number: u32,
        scheduling: Scheduling<S, Q>,
        away: Producer<Event>,
        coming: Consumer<Event>,
        work: &'a Work,
        ending: &'a Ending,
    ) -> Self {
        let (burst, leaving) = (vec![Event::default(); work.burst], Vec::with_capacity(work.burst));
        Self { number, scheduling, away, coming, work, ending, burst, leaving, events: 0 }
    }

    fn run(mut self) -> Done {
        let now = self.scheduling.now();
        for flow in (0..self.work.in_flight as u32).filter(|&flow| owner(flow) == self.number) {
            self.scheduling.arrive(now, flow, 0);
        }
        self.run_for(self.work.warm_up);
        let figures = self.run_for(self.work.time);
        self.ending.over.store(true, Ordering::Release);
        let touches = self.retire();
        Done { figures, all: self.events, touches }
    }

    /// Works for this time, or until the other thread has ended.
    fn run_for(&mut self, time: Duration) -> Figures {
        let (begun, before) = (Instant::now(), self.events);
        while begun.elapsed() < time && !self.ending.over.load(Ordering::Acquire) {
            (0..LOOK_EVERY).for_each(|_| self.round());
        }
        Figures { events: self.events - before, time: begun.elapsed() }
    }

    /// Runs one round: lets returned events arrive, and serves a burst.
    #[inline]
    fn round(&mut self) {
        let Self { scheduling, work, leaving, .. } = self;
        let now = scheduling.now();
        let (came, _) = self.coming.pop_partial_slice(&mut self.burst);
        came.iter().for_each(|event| scheduling.arrive(now, event.flow, event.touches));
        let mut served = 0;
        while served < work.burst {
            let Some(mut event) = scheduling.next(now) else { break };
            served += 1;
            event.touch(work);
            scheduling.complete(now, &event);
            if owner(event.flow) == self.number {
                scheduling.arrive(now, event.flow, event.touches);
            } else {
                leaving.push(event);
            }
        }
        self.events += served as u64;
        self.away.push_entire_slice(leaving).expect("the ring has room for all events there are");
        leaving.clear();
    }

    /// Removes the circulating events without touching them, and returns their touches.
    fn retire(&mut self) -> u64 {
        let mut touches = 0;
        while self.ending.left.load(Ordering::Acquire) > 0 {
            let now = self.scheduling.now();
            let (came, _) = self.coming.pop_partial_slice(&mut self.burst);
            came.iter().for_each(|event| self.scheduling.arrive(now, event.flow, event.touches));
            while let Some(event) = self.scheduling.next(now) {
                self.scheduling.complete(now, &event);
                touches += event.touches;
                self.ending.left.fetch_sub(1, Ordering::AcqRel);
            }
        }
        assert_eq!(self.scheduling.scheduler.account().held, 0, "nothing is left");
        touches
    }
}

/// Which of the two has this flow: of consecutive flows two each, so that half of the hops to a next flow go across.
const fn owner(flow: u32) -> u32 {
    flow >> 1 & 1
}
