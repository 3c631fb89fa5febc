//! A core that the dispatcher itself works for.

use core::mem;

use humpyard_core::id::Slot;
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::clock::Stopwatch;
use crate::counters::Counters;
use crate::held::HeldFrames;
use crate::worker::{Done, Laps, Task, Workbench};

/// After this time the dispatcher turns to its other tasks, even if packets are left.
const AT_A_TIME: Time = Time::from_ns(100_000);

/// One core that the dispatcher serves after it has handed out all it can.
pub(crate) struct Own {
    bench: Workbench,
    laps: Laps,
    /// Packets to be served, and when each was handed out. At most the packets that the core may
    /// have in flight.
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

    /// Serves its packets, on their frames, until the time limit. `packet` returns the packet of a
    /// slot. Reads the clock once for each. Returns whether there was any work.
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

    /// Returns the counters of its services.
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
