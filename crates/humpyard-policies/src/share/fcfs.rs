//! First come, first served: packets of all clients leave in order of arrival.
//!
//! **Idea.** One line for all packets.
//!
//! **Source.** The baseline of every paper here.
//!
//! **Promises.** Work conserving. Packets start in order of arrival; on one core they finish in that order.
//!
//! **Cost.** O(1).
//!
//! **Departures.** Clients are merged: the mechanism keeps one line. On several cores, packets of a
//! flow may overtake each other.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight};

params! {
    /// Parameters of first come, first served: none.
    pub struct FcfsParams {}
}

/// First come, first served.
#[derive(Debug)]
pub struct Fcfs {
    /// Whether a packet waits.
    ready: bool,
}

impl Build for Fcfs {
    type Params = FcfsParams;
    const INFO: Info = Info {
        name: "fcfs",
        family: Family::Share,
        summary: "packets in the order in which they came",
        source: "baseline",
        promises: &[Promise::WorkConserving],
        complexity: "O(1)",
    };

    fn new(_: &FcfsParams, _: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { ready: false })
    }
}

impl Policy for Fcfs {}

impl Share for Fcfs {
    fn merges_clients(&self) -> bool {
        true
    }
    #[inline]
    fn on_wake(&mut self, _: Time, _: ClientId, _: &Packet) {
        self.ready = true;
    }
    #[inline]
    fn on_head(&mut self, _: Time, _: ClientId, _: &Packet) {
        self.ready = true;
    }
    #[inline]
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.ready.then_some(ClientId(0))
    }
    #[inline]
    fn on_dispatch(&mut self, _: Time, _: CoreId, _: ClientId, _: &Packet) {
        self.ready = false;
    }
    #[inline]
    fn on_idle(&mut self, _: Time, _: ClientId) {}
    fn on_client_end(&mut self, _: Time, _: ClientId) {}
    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, unit_sequence};

    #[test]
    fn always_ready_clients_take_turns() {
        assert_eq!(unit_sequence::<Fcfs>(&FcfsParams {}, &A, 9), "123123123");
        assert_eq!(unit_sequence::<Fcfs>(&FcfsParams {}, &B, 12), "123456123456");
    }
}
