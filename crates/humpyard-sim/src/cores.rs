//! Cores in virtual time: what each of them does, and until when.

use humpyard_core::cost::Span;
use humpyard_core::id::{CoreId, Slot};
use humpyard_core::mechanism::{Dispatch, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::agenda::Agenda;

/// What a core is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Serving the packet in this slot, which keeps it busy for so long.
    Packet(Slot, Time),
    /// Going over to another service.
    Switch,
}

/// The cores of a simulated machine. They say how long packets take.
pub trait Cores {
    /// When something happens on a core next; [`Time::MAX`] if nothing is under way.
    fn next_event(&self) -> Time;

    /// A core that is done by now, and with what; asked until there is none.
    fn next_done(&mut self, now: Time) -> Option<(CoreId, Doing)>;

    /// The core gets this packet.
    fn serve(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>);

    /// A core begins to go over to another service.
    fn switch(&mut self, now: Time, switch: &Switch);
}

/// Cores that serve one packet after the other, each for as long as `span` says when the core gets it. Several cores that
/// are done at the same time come by ascending number.
#[derive(Debug)]
pub struct TimedCores<F> {
    agenda: Agenda,
    span: F,
}

impl<F: FnMut(Time, CoreId, &Dispatch<&Packet>) -> Span> TimedCores<F> {
    /// So many cores.
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
