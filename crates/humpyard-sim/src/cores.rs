//! Cores in virtual time: the task of each core, and when it ends.

use humpyard_core::cost::Span;
use humpyard_core::id::{CoreId, Slot};
use humpyard_core::mechanism::{Dispatch, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::agenda::Agenda;
use crate::turns::Turns;

/// The task of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Serving the packet in this slot, which keeps it busy for this time.
    Packet(Slot, Time),
    /// Switching to another service.
    Switch,
}

/// How a task with a packet has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The packet is done. The core was busy with its last turn for this time.
    Done(Time),
    /// The core gives the packet back.
    GivenBack {
        /// How long the core served the packet in this turn.
        served: Time,
        /// How long it was busy with the turn, with the time to save the packet's state.
        busy: Time,
    },
    /// The core keeps the packet: it has a further quantum, or its state is being saved.
    Kept,
}

/// The cores of a simulated machine. They say how long packets take.
pub trait Cores {
    /// Returns when the next task on a core ends; [`Time::MAX`] if there is none.
    fn next_event(&self) -> Time;

    /// Returns a core that has finished by now, and its task. Call it until it returns `None`.
    fn next_done(&mut self, now: Time) -> Option<(CoreId, Doing)>;

    /// The core gets this packet.
    fn serve(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>);

    /// As [`Cores::serve`]; but where cores give packets back, the task lasts no longer than a quantum.
    fn serve_turn(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>) {
        self.serve(now, core, dispatch);
    }

    /// Returns how the task with this packet has ended, for which the core was busy for `busy`. `yields`: whether the
    /// core gives the packet back if it is not done.
    fn end_turn(&mut self, _now: Time, _core: CoreId, _slot: Slot, busy: Time, _yields: impl FnOnce() -> bool) -> Turn {
        Turn::Done(busy)
    }

    /// Gives further quanta to packets that their cores keep, until the first of these: `end`, a packet that is done,
    /// and a core that may give its packet back. `stays`: whether the packet's core keeps it until then.
    fn skip_quanta(&mut self, _end: Time, _stays: impl Fn(Slot) -> bool) {}

    /// Begins the switch of a core to another service.
    fn switch(&mut self, now: Time, switch: &Switch);
}

/// Cores that serve one packet after the other. `span` gives the time of each packet when the core
/// gets it. Cores that finish at the same time come by ascending number.
#[derive(Debug)]
pub struct TimedCores<F> {
    agenda: Agenda,
    span: F,
    /// `None`: cores serve each packet to its end.
    turns: Option<Turns>,
}

impl<F: FnMut(Time, CoreId, &Dispatch<&Packet>) -> Span> TimedCores<F> {
    /// Returns `cores` cores.
    pub fn new(cores: usize, span: F) -> Self {
        Self { agenda: Agenda::new(cores), span, turns: None }
    }

    /// Sets that cores give back a packet that they have not finished after `quantum`, in `switch_out`; `slots`
    /// is that of the scheduler. The time of `span` is then that of the whole packet, on a core without other
    /// packets.
    #[must_use]
    pub fn with_quantum(self, quantum: Time, switch_out: Time, slots: usize) -> Self {
        Self { turns: Some(Turns::new(quantum, switch_out, slots, self.agenda.cores())), ..self }
    }
}

impl<F: FnMut(Time, CoreId, &Dispatch<&Packet>) -> Span> Cores for TimedCores<F> {
    #[inline(always)]
    fn next_event(&self) -> Time {
        self.agenda.next()
    }

    #[inline(always)]
    fn next_done(&mut self, now: Time) -> Option<(CoreId, Doing)> {
        self.agenda.next_done(now)
    }

    #[inline(always)]
    fn serve(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>) {
        let Span { finished, busy } = (self.span)(now, core, dispatch);
        self.agenda.begin(core, finished, Doing::Packet(dispatch.slot, busy));
    }

    #[inline(never)]
    fn serve_turn(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>) {
        let Some(turns) = &mut self.turns else { return self.serve(now, core, dispatch) };
        let busy = turns.begin(dispatch, || (self.span)(now, core, dispatch).busy);
        self.agenda.begin(core, now + busy, Doing::Packet(dispatch.slot, busy));
    }

    #[inline(always)]
    fn end_turn(&mut self, now: Time, core: CoreId, slot: Slot, busy: Time, yields: impl FnOnce() -> bool) -> Turn {
        let Some(turns) = &mut self.turns else { return Turn::Done(busy) };
        let (turn, next) = turns.end(core, slot, busy, yields);
        if let Some(busy) = next {
            self.agenda.begin(core, now + busy, Doing::Packet(slot, busy));
        }
        turn
    }

    fn skip_quanta(&mut self, end: Time, stays: impl Fn(Slot) -> bool) {
        let Some(turns) = &mut self.turns else { return };
        let changes = self.agenda.tasks().map(|(until, core, doing)| match doing {
            Doing::Packet(slot, _) => turns.keeps_until(core, slot, until, || stays(slot)),
            Doing::Switch => until,
        });
        let end = changes.fold(end, Time::min);
        // Cores whose tasks end before keep their packets.
        while self.agenda.next() < end {
            let now = self.agenda.next();
            if let Some((core, Doing::Packet(slot, busy))) = self.agenda.next_done(now) {
                let added = turns.add(slot, end.since(now));
                self.agenda.begin(core, now + added, Doing::Packet(slot, busy + added));
            }
        }
    }

    #[inline]
    fn switch(&mut self, now: Time, switch: &Switch) {
        self.agenda.begin(switch.core, now + switch.cost, Doing::Switch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: Time = Time::from_ns(4);

    fn ns(time: u64) -> Time {
        Time::from_ns(time)
    }

    /// Three cores, of which 0 and 2 have begun at 0 with packets of 30 and 8 ns, and 1 at 1 with one of 10 ns.
    fn cores() -> impl Cores {
        let lengths = [30, 10, 8];
        let span = move |now: Time, core: CoreId, _: &Dispatch<&Packet>| {
            let busy = ns(lengths[usize::from(core.0)]);
            Span { finished: now + busy, busy }
        };
        let mut cores = TimedCores::new(3, span).with_quantum(QUANTUM, Time::ZERO, 3);
        for (core, began) in [(0, 0), (1, 1), (2, 0)] {
            let packet = Packet { sequence: core + 1, ..Packet::default() };
            let dispatch = Dispatch { slot: Slot(core as u32), packet: &packet, cold: false, moved: None };
            cores.serve_turn(ns(began), CoreId(core as u16), &dispatch);
        }
        cores
    }

    #[test]
    fn quanta_are_skipped_up_to_the_first_packet_that_is_done() {
        let mut cores = cores();
        cores.skip_quanta(ns(100), |_| true);
        // The packet of core 2 is done at 8, and the others have quanta that end then or later.
        let ended = (CoreId(0), Doing::Packet(Slot(0), ns(8)));
        assert_eq!(cores.next_done(ns(8)), Some(ended), "cores with tasks that end together come in their order");
        let turn = cores.end_turn(ns(8), CoreId(0), Slot(0), ns(8), || true);
        assert_eq!(turn, Turn::GivenBack { served: ns(8), busy: ns(8) }, "its turn had two quanta");
        assert_eq!(cores.next_done(ns(8)), Some((CoreId(2), Doing::Packet(Slot(2), ns(8)))));
        assert_eq!(cores.end_turn(ns(8), CoreId(2), Slot(2), ns(8), || true), Turn::Done(ns(8)));
        assert_eq!(cores.next_event(), ns(9), "of core 1, in its second quantum");
    }

    #[test]
    fn quanta_are_skipped_up_to_the_next_event_and_to_a_core_that_gives_its_packet_back() {
        for (end, stays, expected) in [(6, true, 8), (3, true, 4), (100, false, 4)] {
            let mut cores = cores();
            cores.skip_quanta(ns(end), |slot| stays || slot != Slot(2));
            assert_eq!(cores.next_event(), ns(expected), "{end} {stays}");
        }
        let mut cores = cores();
        cores.skip_quanta(ns(6), |_| true);
        assert_eq!(cores.next_done(ns(8)), Some((CoreId(0), Doing::Packet(Slot(0), ns(8)))));
        assert_eq!(cores.next_done(ns(8)), Some((CoreId(2), Doing::Packet(Slot(2), ns(8)))));
        assert_eq!(cores.next_done(ns(9)), Some((CoreId(1), Doing::Packet(Slot(1), ns(8)))));
    }
}
