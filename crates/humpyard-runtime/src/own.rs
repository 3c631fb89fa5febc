//! A core whose work the dispatcher does itself.

use std::collections::VecDeque;

use humpyard_core::unit::Time;

use crate::clock::Stopwatch;
use crate::counters::Counters;
use crate::worker::{Done, Job, Laps, Workbench};

/// After this time the dispatcher looks after the others again, though there is more.
const AT_A_TIME: Time = Time::from_ns(100_000);

/// One core, whose work the dispatcher does when it has handed out what it can.
pub(crate) struct Own {
    bench: Workbench,
    laps: Laps,
    /// Packets to be served.
    given: VecDeque<Job>,
    done: VecDeque<Done>,
}

impl Own {
    pub(crate) fn new(stopwatch: Stopwatch, bench: Workbench) -> Self {
        Self {
            bench,
            laps: Laps::new(stopwatch),
            given: VecDeque::with_capacity(64),
            done: VecDeque::with_capacity(64),
        }
    }

    /// Takes a packet.
    pub(crate) fn give(&mut self, job: Job) {
        self.given.push_back(job);
    }

    /// Serves what it was given, for so long that nobody else waits too long: in a row, so that the
    /// clock is read once for each. Whether there was anything.
    pub(crate) fn serve(&mut self) -> bool {
        if self.given.is_empty() {
            return false;
        }
        let Self { bench, laps, given, done } = self;
        laps.begin();
        let began = laps.previous();
        while let Some(job) = given.pop_front() {
            bench.serve(job, || laps.end(), |result| done.push_back(result));
            if laps.previous().since(began) >= AT_A_TIME {
                break;
            }
        }
        true
    }

    /// Takes the next result.
    pub(crate) fn take(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// What its services counted.
    pub(crate) fn end(self) -> Counters {
        self.bench.counters()
    }
}
