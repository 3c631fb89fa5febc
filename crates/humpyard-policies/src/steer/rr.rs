//! Round robin: each packet goes to the next core.
//!
//! **Idea.** Distribute packets over the cores one by one. This is the best balance of packet
//! counts, and the worst order.
//!
//! **Source.** STEERING section 2; the baseline of Guo, Bhuyan (PS-HRW).
//!
//! **Promises.** Of n consecutive packets of a service, any two of its cores get counts that differ
//! by at most one.
//!
//! **Cost.** O(1).
//!
//! **Departures.** Each service has its own turn over the cores that may serve it.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;

params! {
    /// Parameters of round robin: none.
    pub struct RrParams {}
}

/// Round robin.
#[derive(Debug)]
pub struct Rr {
    /// By service: the index of the next packet's core among the cores that may serve it.
    next: Vec<usize>,
}

impl Build for Rr {
    type Params = RrParams;
    const INFO: Info = Info {
        name: "rr",
        family: Family::Steer,
        summary: "each packet to the next core in turn",
        source: "baseline of Guo, Bhuyan. PS-HRW",
        promises: &[Promise::Fair("packet counts of two cores differ by at most 1")],
        complexity: "O(1)",
    };

    fn new(_: &RrParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { next: vec![0; config.services.len()] })
    }
}

impl Policy for Rr {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for Rr {
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let next = &mut self.next[usize::from(packet.service.0)];
        let place = if *next < view.eligible.len() { *next } else { 0 };
        *next = place + 1;
        Target::Core(view.eligible[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, targets};

    #[test]
    fn visits_the_cores_in_turn() {
        let keys = [9, 9, 9, 9, 9, 9, 9];
        assert_eq!(targets::<Rr>(&RrParams {}, 3, &keys), cores_of([0, 1, 2, 0, 1, 2, 0]));
    }

    #[test]
    fn one_core_takes_all() {
        assert_eq!(targets::<Rr>(&RrParams {}, 1, &[1, 2, 3]), cores_of([0, 0, 0]));
    }
}
