//! Watching a run.

use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::mechanism::{Completed, Dispatch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::{Time, Weight};

/// Receives the events of a run, after the scheduler.
pub trait Observer {
    /// A packet was accepted.
    fn on_accept(&mut self, _now: Time, _packet: &Packet) {}
    /// A packet went to a core, where it will take `used` in the unit of work.
    fn on_dispatch(&mut self, _now: Time, _core: CoreId, _dispatch: &Dispatch, _used: u64) {}
    /// A packet is complete, after the core was busy with it for `busy`.
    fn on_completion(&mut self, _now: Time, _core: CoreId, _completed: &Completed, _busy: Time) {}
    /// A packet that had been accepted was dropped.
    fn on_drop(&mut self, _now: Time, _packet: &Packet) {}
    /// A packet leaves that had waited at the exit.
    fn on_exit(&mut self, _now: Time, _packet: &Packet) {}
    /// The weight of a client has changed.
    fn on_weight(&mut self, _now: Time, _client: ClientId, _weight: Weight) {}
    /// A client has ended.
    fn on_client_end(&mut self, _now: Time, _client: ClientId) {}
    /// The number of cores has changed to `cores`.
    fn on_cores(&mut self, _cores: usize) {}
    /// All events of this instant have happened: every core has all the packets that it can have.
    fn on_settled(&mut self, _now: Time) {}
}

/// Ignores all events.
impl Observer for () {}

/// Observes if there is an observer.
impl<A: Observer> Observer for Option<A> {
    fn on_accept(&mut self, now: Time, packet: &Packet) {
        self.iter_mut().for_each(|observer| observer.on_accept(now, packet));
    }
    fn on_dispatch(&mut self, now: Time, core: CoreId, dispatch: &Dispatch, used: u64) {
        self.iter_mut().for_each(|observer| observer.on_dispatch(now, core, dispatch, used));
    }
    fn on_completion(&mut self, now: Time, core: CoreId, completed: &Completed, busy: Time) {
        self.iter_mut().for_each(|observer| observer.on_completion(now, core, completed, busy));
    }
    fn on_drop(&mut self, now: Time, packet: &Packet) {
        self.iter_mut().for_each(|observer| observer.on_drop(now, packet));
    }
    fn on_exit(&mut self, now: Time, packet: &Packet) {
        self.iter_mut().for_each(|observer| observer.on_exit(now, packet));
    }
    fn on_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        self.iter_mut().for_each(|observer| observer.on_weight(now, client, weight));
    }
    fn on_client_end(&mut self, now: Time, client: ClientId) {
        self.iter_mut().for_each(|observer| observer.on_client_end(now, client));
    }
    fn on_settled(&mut self, now: Time) {
        self.iter_mut().for_each(|observer| observer.on_settled(now));
    }
}

/// Both watch.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn on_accept(&mut self, now: Time, packet: &Packet) {
        self.0.on_accept(now, packet);
        self.1.on_accept(now, packet);
    }
    fn on_dispatch(&mut self, now: Time, core: CoreId, dispatch: &Dispatch, used: u64) {
        self.0.on_dispatch(now, core, dispatch, used);
        self.1.on_dispatch(now, core, dispatch, used);
    }
    fn on_completion(&mut self, now: Time, core: CoreId, completed: &Completed, busy: Time) {
        self.0.on_completion(now, core, completed, busy);
        self.1.on_completion(now, core, completed, busy);
    }
    fn on_drop(&mut self, now: Time, packet: &Packet) {
        self.0.on_drop(now, packet);
        self.1.on_drop(now, packet);
    }
    fn on_exit(&mut self, now: Time, packet: &Packet) {
        self.0.on_exit(now, packet);
        self.1.on_exit(now, packet);
    }
    fn on_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        self.0.on_weight(now, client, weight);
        self.1.on_weight(now, client, weight);
    }
    fn on_client_end(&mut self, now: Time, client: ClientId) {
        self.0.on_client_end(now, client);
        self.1.on_client_end(now, client);
    }
    fn on_settled(&mut self, now: Time) {
        self.0.on_settled(now);
        self.1.on_settled(now);
    }
}
