//! One scheduler, whose thread hands events to a worker's thread. Like `event_sw`: one processor
//! schedules, one works.
//!
//! For every returned event the scheduling thread reports its completion and its arrival at the
//! next hop, and asks for the worker's next event. The worker takes a burst from a ring, touches
//! each event, names the flow of its next hop, and puts the burst into the ring back.

use core::hint;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use humpyard::mechanism::{Never, Scheduler};
use humpyard::policy::{Share, Steer};
use humpyard::unit::Time;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::embedded::{Event, Scheduling};
use crate::work::{Figures, Host, Order, Work, host, pin};

/// Rounds between two looks at the clock.
const LOOK_EVERY: usize = 64;

/// Runs the work.
pub(crate) fn run(order: Order, work: &Work) -> Figures {
    host(order, work.depth, work, HandedOver(work))
}

struct HandedOver<'a>(&'a Work);

impl Host for HandedOver<'_> {
    fn run<S: Steer + Send, Q: Share + Send>(self, make: impl Fn() -> Scheduler<S, Q, Never> + Sync) -> Figures {
        let work = self.0;
        let (jobs, jobs_taken) = RingBuffer::new(2 * work.in_flight);
        let (done_given, done) = RingBuffer::new(2 * work.in_flight);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                pin(work.processors[0]);
                serve(jobs_taken, done_given, work, &over);
            });
            let scheduling = scope.spawn(|| {
                pin(work.processors[1]);
                let _over = SetOnDrop(&over);
                Dispatching::new(Scheduling::new(make(), work), jobs, done, work).run()
            });
            scheduling.join().expect("the scheduling thread has told why it ended")
        })
    }
}

/// Ends the worker when the scheduling thread ends, even by a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The worker.
fn serve(mut jobs: Consumer<Event>, mut done: Producer<Event>, work: &Work, over: &AtomicBool) {
    let mut burst = vec![Event::default(); work.burst];
    while !over.load(Ordering::Relaxed) {
        let (taken, _) = jobs.pop_partial_slice(&mut burst);
        if taken.is_empty() {
            hint::spin_loop();
            continue;
        }
        taken.iter_mut().for_each(|event| event.touch(work));
        done.push_entire_slice(taken).expect("the ring has room for all events there are");
    }
}

/// The scheduling thread.
struct Dispatching<'a, S, Q> {
    scheduling: Scheduling<S, Q>,
    jobs: Producer<Event>,
    done: Consumer<Event>,
    work: &'a Work,
    burst: Vec<Event>,
    given: Vec<Event>,
    /// Events that came back.
    events: u64,
}

impl<'a, S: Steer, Q: Share> Dispatching<'a, S, Q> {
    fn new(scheduling: Scheduling<S, Q>, jobs: Producer<Event>, done: Consumer<Event>, work: &'a Work) -> Self {
        let (burst, given) = (vec![Event::default(); work.burst], Vec::with_capacity(work.in_flight));
        Self { scheduling, jobs, done, work, burst, given, events: 0 }
    }

    fn run(mut self) -> Figures {
        let now = self.scheduling.now();
        for event in 0..self.work.in_flight as u32 {
            self.scheduling.arrive(now, event & (self.work.flows - 1), 0);
        }
        self.hand_out(now);
        self.run_for(self.work.warm_up);
        let figures = self.run_for(self.work.time);
        self.retire();
        figures
    }

    fn run_for(&mut self, time: Duration) -> Figures {
        let (begun, before) = (Instant::now(), self.events);
        while begun.elapsed() < time {
            (0..LOOK_EVERY).for_each(|_| self.round());
        }
        Figures { events: self.events - before, time: begun.elapsed() }
    }

    /// Runs one round: completes the returned events, lets them arrive at their next hop, and gives
    /// the worker its next events.
    fn round(&mut self) {
        let Self { scheduling, done, burst, .. } = self;
        let (came, _) = done.pop_partial_slice(burst);
        if came.is_empty() {
            return;
        }
        let now = scheduling.now();
        for event in &*came {
            scheduling.complete(now, event);
            scheduling.arrive(now, event.flow, event.touches);
        }
        self.events += came.len() as u64;
        self.hand_out(now);
    }

    /// Gives the worker the events that it may have.
    fn hand_out(&mut self, now: Time) {
        while self.scheduling.scheduler.next_core(now).is_some() {
            self.given.extend(self.scheduling.next(now));
        }
        self.jobs.push_entire_slice(&self.given).expect("the ring has room for all events there are");
        self.given.clear();
    }

    /// Removes the circulating events, and checks that all work was done.
    fn retire(&mut self) {
        let (mut touches, mut left) = (0, self.work.in_flight);
        while left > 0 {
            let Ok(event) = self.done.pop() else { continue };
            let now = self.scheduling.now();
            self.scheduling.complete(now, &event);
            self.hand_out(now);
            touches += event.touches;
            left -= 1;
        }
        assert_eq!(touches, self.events + self.work.in_flight as u64, "every event was touched at every hop");
        assert_eq!(self.scheduling.scheduler.account().held, 0, "nothing is left");
    }
}
