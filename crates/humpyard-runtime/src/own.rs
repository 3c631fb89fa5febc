//! A core whose work the dispatcher does itself.

use core::mem;

use humpyard_core::unit::Time;

use crate::clock::Stopwatch;
use crate::counters::Counters;
use crate::held::HeldFrames;
use crate::worker::{Done, Laps, Task, Workbench};

/// After this time the dispatcher looks after the others again, though there is more.
const AT_A_TIME: Time = Time::from_ns(100_000);

/// One core, whose work the dispatcher does when it has handed out what it can.
pub(crate) struct Own {
    bench: Workbench,
    laps: Laps,
    /// Packets that it was given.
    given: Vec<Task>,
    /// How many of them it has served.
    served: usize,
    done: Vec<Done>,
}

impl Own {
    pub(crate) fn new(stopwatch: Stopwatch, bench: Workbench) -> Self {
        Self {
            bench,
            laps: Laps::new(stopwatch),
            given: Vec::with_capacity(64),
            served: 0,
            done: Vec::with_capacity(64),
        }
    }

    /// Takes a packet.
    #[inline]
    pub(crate) fn give(&mut self, task: Task) {
        self.given.push(task);
    }

    /// Serves the packets that it has, on their frames, but not for so long that others wait too long. Reads the clock once
    /// for each. Returns whether there was any.
    pub(crate) fn serve(&mut self, held: &mut HeldFrames) -> bool {
        if self.given.is_empty() {
            return false;
        }
        let Self { bench, laps, given, served, done } = self;
        laps.begin();
        let began = laps.previous();
        for &task in &given[*served..] {
            let frame = &mut held[task.slot].frame;
            let result = bench.serve(task, frame, || laps.end(), |made| done.push(Done::Generated(made)));
            done.push(result);
            *served += 1;
            if laps.previous().since(began) >= AT_A_TIME {
                break;
            }
        }
        if *served == given.len() {
            given.clear();
            *served = 0;
        }
        true
    }

    /// Takes all results, into a list that is empty.
    #[inline]
    pub(crate) fn take(&mut self, results: &mut Vec<Done>) {
        mem::swap(&mut self.done, results);
    }

    /// What its services counted.
    pub(crate) fn end(self) -> Counters {
        self.bench.counters()
    }
}
