//! The dispatcher's own hands: without threads it does the work itself.

use std::collections::VecDeque;

use humpyard_core::unit::Time;

use crate::clock::Stopwatch;
use crate::counters::Counters;
use crate::worker::{Done, Job, Laps, Workbench};

/// One core, whose work the dispatcher does when it has handed out what it can.
pub(crate) struct Own {
    bench: Workbench,
    laps: Laps,
    /// Packets to be served.
    given: Vec<Job>,
    done: VecDeque<Done>,
    /// The end of going over to another service, which is emulated.
    switching: Option<Time>,
}

impl Own {
    pub(crate) fn new(stopwatch: Stopwatch, bench: Workbench) -> Self {
        Self {
            bench,
            laps: Laps::new(stopwatch),
            given: Vec::with_capacity(64),
            done: VecDeque::with_capacity(64),
            switching: None,
        }
    }

    /// Takes a packet.
    pub(crate) fn give(&mut self, job: Job) {
        self.given.push(job);
    }

    /// Serves what it was given: in a row, so that the clock is read once for each.
    pub(crate) fn serve(&mut self) {
        let Self { bench, laps, given, done, .. } = self;
        laps.begin();
        for job in given.drain(..) {
            bench.serve(job, || laps.end(), |result| done.push_back(result));
        }
    }

    /// Begins to go over to another service.
    pub(crate) fn switch(&mut self, until: Time) {
        self.switching = Some(until);
    }

    /// The core is not going over to another service any more.
    pub(crate) const fn forget_switches(&mut self) {
        self.switching = None;
    }

    /// Takes the next result.
    pub(crate) fn take(&mut self, now: Time) -> Option<Done> {
        let done = self.done.pop_front();
        done.or_else(|| self.switching.take_if(|until| *until <= now).map(|_| Done::Switched))
    }

    /// What its services counted.
    pub(crate) fn end(self) -> Counters {
        self.bench.counters()
    }

    /// When the switch ends, if one is under way.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.switching
    }
}
