//! Turns of packets at cores: what is left of a packet that a core gives back after a quantum.

use humpyard_core::id::{CoreId, IdVec, Slot};
use humpyard_core::mechanism::Dispatch;
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::cores::Turn;

/// The turns of all packets. A turn is one quantum, or several if the core keeps the packet.
#[derive(Debug)]
pub(crate) struct Turns {
    quantum: Time,
    /// How long a core is held when it gives a packet back: timer, and saving of its state.
    switch_out: Time,
    left: IdVec<Slot, Left>,
    serving: IdVec<CoreId, Serving>,
}

/// What is left of a packet, beyond the quantum that it has now.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// The packet's number, because another may have its slot.
    sequence: u64,
    time: Time,
}

/// What a core does with the packet that it has.
#[derive(Clone, Copy, Debug, Default)]
struct Serving {
    /// How long it has served the packet in this turn.
    served: Time,
    /// Whether it saves the packet's state.
    is_saving: bool,
}

impl Turns {
    /// Returns the turns of a run with up to `packets` packets, where a core has a packet for `quantum` at most and
    /// gives it back in `switch_out`.
    pub(crate) fn new(quantum: Time, switch_out: Time, packets: usize, cores: usize) -> Self {
        Self {
            quantum,
            switch_out,
            left: IdVec::from_fn(packets, |_| Left::default()),
            serving: IdVec::from_fn(cores, |_| Serving::default()),
        }
    }

    /// Begins a turn of a packet that takes `whole` in all. Returns how long its core is busy with its first quantum.
    pub(crate) fn begin(&mut self, dispatch: &Dispatch<&Packet>, whole: impl FnOnce() -> Time) -> Time {
        let left = &mut self.left[dispatch.slot];
        let sequence = dispatch.packet.sequence;
        if left.sequence != sequence || left.time == Time::ZERO {
            *left = Left { sequence, time: whole() };
        }
        left.next(self.quantum)
    }

    /// Returns when a core is next asked about its packet, if its task ends at `until`: when the packet is done, if the
    /// core `stays` with it; at `until`, if it may give it back or has begun to.
    pub(crate) fn keeps_until(&self, core: CoreId, slot: Slot, until: Time, stays: impl FnOnce() -> bool) -> Time {
        let left = self.left[slot].time;
        if self.serving[core].is_saving || left == Time::ZERO || !stays() { until } else { until + left }
    }

    /// Adds quanta to the task of a core that keeps its packet: the fewest that take this time, or what is left of the
    /// packet. Returns how long they take.
    pub(crate) fn add(&mut self, slot: Slot, time: Time) -> Time {
        let quanta = time.as_ns().div_ceil(self.quantum.as_ns());
        self.left[slot].next(Time::from_ns(quanta.saturating_mul(self.quantum.as_ns())))
    }

    /// Ends a task of a core, which took `busy`. Returns what it means for the packet, and how long the core's
    /// next task with it takes, if there is one.
    pub(crate) fn end(
        &mut self,
        core: CoreId,
        slot: Slot,
        busy: Time,
        yields: impl FnOnce() -> bool,
    ) -> (Turn, Option<Time>) {
        let serving = &mut self.serving[core];
        let Serving { served, is_saving } = core::mem::take(serving);
        if is_saving {
            return (Turn::GivenBack { served, busy: served + busy }, None);
        }
        let served = served + busy;
        let left = &mut self.left[slot];
        if left.time == Time::ZERO {
            return (Turn::Done(served), None);
        }
        if !yields() {
            *serving = Serving { served, is_saving: false };
            return (Turn::Kept, Some(left.next(self.quantum)));
        }
        if self.switch_out == Time::ZERO {
            return (Turn::GivenBack { served, busy: served }, None);
        }
        *serving = Serving { served, is_saving: true };
        (Turn::Kept, Some(self.switch_out))
    }
}

impl Left {
    /// Takes this time off what is left, or what is left if that is less. Returns it.
    fn next(&mut self, time: Time) -> Time {
        let next = self.time.min(time);
        self.time = self.time.since(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: CoreId = CoreId(0);
    const SLOT: Slot = Slot(0);

    fn ns(time: u64) -> Time {
        Time::from_ns(time)
    }

    fn begin(turns: &mut Turns, sequence: u64, whole: u64) -> u64 {
        let packet = Packet { sequence, ..Packet::default() };
        turns.begin(&Dispatch { slot: SLOT, packet: &packet, cold: false, moved: None }, || ns(whole)).as_ns()
    }

    #[test]
    fn a_packet_has_quanta_until_it_is_done() {
        let mut turns = Turns::new(ns(4), Time::ZERO, 1, 1);
        assert_eq!(begin(&mut turns, 0, 9), 4);
        let given_back = |time| (Turn::GivenBack { served: ns(time), busy: ns(time) }, None);
        assert_eq!(turns.end(CORE, SLOT, ns(4), || true), given_back(4));
        assert_eq!(begin(&mut turns, 0, 9), 4, "the time is that of what is left");
        assert_eq!(turns.end(CORE, SLOT, ns(4), || false), (Turn::Kept, Some(ns(1))), "nothing else waits");
        assert_eq!(turns.end(CORE, SLOT, ns(1), || true), (Turn::Done(ns(5)), None), "its last turn had two quanta");
    }

    #[test]
    fn the_core_is_held_while_it_saves_the_state() {
        let mut turns = Turns::new(ns(4), ns(3), 1, 1);
        begin(&mut turns, 0, 8);
        assert_eq!(turns.end(CORE, SLOT, ns(4), || true), (Turn::Kept, Some(ns(3))));
        assert_eq!(turns.end(CORE, SLOT, ns(3), || true), (Turn::GivenBack { served: ns(4), busy: ns(7) }, None));
    }

    #[test]
    fn nothing_is_left_of_a_packet_that_was_dropped() {
        let mut turns = Turns::new(ns(4), Time::ZERO, 1, 1);
        begin(&mut turns, 0, 9);
        turns.end(CORE, SLOT, ns(4), || true);
        assert_eq!(begin(&mut turns, 7, 3), 3, "another packet has its slot");
    }
}
