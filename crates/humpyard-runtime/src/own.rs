//! A core whose work the dispatcher does itself.

use core::mem;

use humpyard_core::id::Slot;
use humpyard_core::packet::Packet;
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
    /// Packets to be served, and since when each is handed out: at most as many as the core may have in flight.
    given: Vec<(Slot, Time)>,
    done: Vec<Done>,
}

impl Own {
    pub(crate) fn new(stopwatch: Stopwatch, bench: Workbench) -> Self {
        Self { bench, laps: Laps::new(stopwatch), given: Vec::with_capacity(64), done: Vec::with_capacity(64) }
    }

    /// Takes a packet.
    #[inline]
    pub(crate) fn give(&mut self, now: Time, slot: Slot) {
        self.given.push((slot, now));
    }

    /// Serves the packets that it has, on their frames, but not for so long that others wait too long. `packet` finds the packet of
    /// a slot. Reads the clock once for each. Returns whether there was any.
    #[inline]
    pub(crate) fn serve<'p>(&mut self, held: &mut HeldFrames, packet: impl Fn(Slot) -> &'p Packet) -> bool {
        if self.given.is_empty() {
            return false;
        }
        let Self { bench, laps, given, done } = self;
        laps.begin();
        let began = laps.previous();
        let mut served = 0;
        for &(slot, now) in &*given {
            let task = Task::of(now, slot, packet(slot));
            let frame = &mut held[slot].frame;
            let result = bench.serve(task, frame, || laps.end(), |made| done.push(Done::Generated(made)));
            done.push(result);
            served += 1;
            if laps.previous().since(began) >= AT_A_TIME {
                break;
            }
        }
        given.drain(..served);
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

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::thread;

    use humpyard_core::frame::Frame;
    use humpyard_services::{Context, Factory, Generated, Service, Verdict};

    use super::*;
    use crate::held::HeldFrame;

    /// Takes longer for each packet than the dispatcher serves at a time.
    #[derive(Clone)]
    struct Slow;

    impl Service for Slow {
        fn process(&mut self, _: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
            thread::sleep(2 * Duration::from_nanos(AT_A_TIME.as_ns()));
            Verdict::Forward
        }
    }

    #[test]
    fn served_packets_leave_the_list_though_more_are_given_each_time() {
        let factories = [Factory::new("slow", || Slow)];
        let mut own = Own::new(Stopwatch::start(), Workbench::new(&factories, false));
        let mut held = HeldFrames::from_fn(1, |_| HeldFrame::default());
        let (mut results, packet) = (Vec::new(), Packet::default());
        own.give(Time::ZERO, Slot(0));
        for _ in 0..10 {
            own.give(Time::ZERO, Slot(0));
            assert!(own.serve(&mut held, |_| &packet));
            own.take(&mut results);
            assert_eq!((results.len(), own.given.len()), (1, 1));
            results.clear();
        }
    }
}
