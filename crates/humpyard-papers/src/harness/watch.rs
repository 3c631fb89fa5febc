//! Observers that share their observations with their creator.

use core::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use humpyard_core::id::{CoreId, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

/// The events that an observer handles; it ignores the others.
pub(crate) trait Sees: Debug {
    /// A packet arrived.
    fn on_arrival(&mut self, _: Time, _: &Packet, _: Arrival) {}

    /// A core got a packet.
    fn on_dispatch(&mut self, _: Time, _: &Dispatch) {}

    /// A core finished a packet at `finished`, after work of `busy`.
    fn on_completion(&mut self, _: &Completed, _finished: Time, _busy: Time) {}

    /// A packet was dropped after it had a slot.
    fn on_drop(&mut self, _: &Dropped) {}

    /// A core begins to switch to another service.
    fn on_switch(&mut self, _: &Switch) {}
}

/// An observer; clones share their observations.
#[derive(Debug)]
pub(crate) struct Watched<S>(Arc<Mutex<S>>);

impl<S> Clone for Watched<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Watched<S> {
    /// Returns an observer with this initial state.
    pub(crate) fn new(seen: S) -> Self {
        Self(Arc::new(Mutex::new(seen)))
    }

    /// Accesses the observations up to now.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut S) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Sees> Observer for Watched<S> {
    fn on_arrival(&mut self, now: Time, packet: &Packet, arrival: Arrival) {
        self.with(|seen| seen.on_arrival(now, packet, arrival));
    }

    fn on_dispatch(&mut self, now: Time, _: CoreId, dispatch: &Dispatch) {
        self.with(|seen| seen.on_dispatch(now, dispatch));
    }

    fn on_completion(&mut self, _: CoreId, _: Slot, completed: &Completed, finished: Time, busy: Time) {
        self.with(|seen| seen.on_completion(completed, finished, busy));
    }

    fn on_drop(&mut self, dropped: &Dropped) {
        self.with(|seen| seen.on_drop(dropped));
    }

    fn on_switch(&mut self, switch: &Switch) {
        self.with(|seen| seen.on_switch(switch));
    }

    fn on_switched(&mut self, _: Time, _: CoreId) {}
}
