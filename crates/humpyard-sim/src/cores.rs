//! Cores in virtual time: the task of each core, and when it ends.

use humpyard_core::cost::Span;
use humpyard_core::id::{CoreId, Slot};
use humpyard_core::mechanism::{Dispatch, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::agenda::Agenda;

/// The task of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Serving the packet in this slot, which keeps it busy for this time.
    Packet(Slot, Time),
    /// Switching to another service.
    Switch,
}

/// The cores of a simulated machine. They say how long packets take.
pub trait Cores {
    /// Returns when the next task on a core ends; [`Time::MAX`] if there is none.
    fn next_event(&self) -> Time;

    /// Returns a core that has finished by now, and its task. Call it until it returns `None`.
    fn next_done(&mut self, now: Time) -> Option<(CoreId, Doing)>;

    /// The core gets this packet.
    fn serve(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>);

    /// Begins the switch of a core to another service.
    fn switch(&mut self, now: Time, switch: &Switch);
}

/// Cores that serve one packet after the other. `span` gives the time of each packet when the core
/// gets it. Cores that finish at the same time come by ascending number.
#[derive(Debug)]
pub struct TimedCores<F> {
    agenda: Agenda,
    span: F,
}

impl<F: FnMut(Time, CoreId, &Dispatch<&Packet>) -> Span> TimedCores<F> {
    /// Returns `cores` cores.
    pub fn new(cores: usize, span: F) -> Self {
        Self { agenda: Agenda::new(cores), span }
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

    #[inline]
    fn switch(&mut self, now: Time, switch: &Switch) {
        self.agenda.begin(switch.core, now + switch.cost, Doing::Switch);
    }
}
