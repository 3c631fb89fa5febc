//! Shortest remaining processing time: serve the client whose next packet has the least work left.
//!
//! **Idea.** Short packets first: each delays the others by less than a long one would. The work of
//! a head is its estimate when it is offered, or what is left of it after a preemption.
//!
//! **Source.** A baseline. RIVALS.
//!
//! **Promises.** Work conserving. Of the heads that may be served, none has a lower estimate than
//! the one that is picked. Long packets may wait forever while short ones arrive.
//!
//! **Cost.** `pick` O(1), the events O(log n) in the ready clients.
//!
//! **Invariants.** `ready` holds exactly the clients whose head may be served, by estimate.
//!
//! **Departures.** A packet in service stays there until it has had a quantum, so the policy chooses
//! the shortest packet whenever a core is free. Without a quantum (the default) nothing preempts.
//! Weights are ignored.

use alloc::format;
use alloc::string::String;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::tournament::Tournament;

params! {
    /// Parameters of shortest remaining processing time.
    pub struct SrptParams {
        /// How long a core serves a packet before it gives the packet back, if a shorter one waits; 0 is without end.
        quantum: u64 = 0, in 0..=1_000_000_000, unit "ns";
    }
}

/// Shortest remaining processing time.
#[derive(Debug)]
pub struct Srpt {
    /// The clients whose head may be served, by estimated work.
    ready: Tournament<ClientId>,
    /// `None`: packets are served to their end.
    quantum: Option<Time>,
    /// The work left of the packet that each core serves, as of its last quantum.
    left: IdVec<CoreId, Work>,
}

impl Build for Srpt {
    type Params = SrptParams;
    const INFO: Info = Info {
        name: "srpt",
        family: Family::Share,
        summary: "the client whose next packet has the least estimated work left",
        source: "baseline",
        promises: &[
            Promise::WorkConserving,
            Promise::Fair("no head that may be served has less estimated work than the one that is picked"),
        ],
        complexity: "O(log n)",
    };

    const VARIANTS: &'static [&'static str] = &["quantum=1"];

    fn new(params: &SrptParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = (params.quantum > 0).then(|| Time::from_ns(params.quantum));
        Ok(Self {
            ready: Tournament::new(config.clients, config.ties),
            quantum,
            left: IdVec::from_fn(config.cores, |_| 0),
        })
    }
}

impl Policy for Srpt {}

impl Share for Srpt {
    fn on_wake(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.ready.set(id, head.estimate.into());
    }

    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.ready.set(id, head.estimate.into());
    }

    fn quantum(&self) -> Option<Time> {
        self.quantum
    }

    fn yields(&mut self, _: Time, core: CoreId) -> bool {
        let left = &mut self.left[core];
        *left = left.saturating_sub(self.quantum.map_or(0, Time::as_ns)).max(1);
        self.ready.first().is_some_and(|(work, _)| work < (*left).into())
    }

    fn on_preemption(&mut self, _: Time, _: CoreId, id: ClientId, packet: &Packet, _: Work) {
        self.ready.set(id, packet.estimate.into());
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.ready.first().map(|(_, id)| id)
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, id: ClientId, sent: &Packet) {
        self.left[core] = sent.estimate;
        self.ready.remove(id);
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, _: ClientId) {}

    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}

    fn explain(&self, id: ClientId) -> Option<String> {
        self.ready.tag(id).map(|work| format!("its head has {work} of estimated work left"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        V, assert_the_least_is_picked, assert_ties_may_go_to_the_higher, sequence, served_once, v_work, with_tolerances,
    };
    use alloc::vec::Vec;

    fn order(estimates: &[u64]) -> Vec<u32> {
        let mut policy = Srpt::new(&SrptParams::default(), &with_tolerances(&[1], estimates.len())).unwrap();
        let head = |&estimate: &u64| Packet { estimate, ..Packet::default() };
        served_once(&mut policy, &estimates.iter().map(head).collect::<Vec<_>>())
    }

    /// RIVALS: A costs 1 us, B 4 and C 2.
    #[test]
    fn vector_of_the_specification() {
        assert_eq!(order(&[1000, 4000, 2000]), [0, 2, 1], "A C B");
    }

    #[test]
    fn of_two_that_are_as_short_the_lower_client_goes_first() {
        assert_eq!(order(&[7, u64::MAX, 3, 7]), [2, 0, 3, 1]);
        assert_ties_may_go_to_the_higher::<Srpt>(&SrptParams::default());
    }

    /// Packets of client 1 cost at most 8. The third packet of client 2 costs 9 and those of client 3
    /// cost 10, so neither is ever served.
    #[test]
    fn long_packets_starve_behind_short_ones() {
        assert_eq!(sequence::<Srpt>(&SrptParams::default(), &V, 12, 10, v_work), "122111111111");
    }

    #[test]
    fn no_head_is_shorter_than_the_one_that_is_picked() {
        assert_the_least_is_picked::<Srpt>(&SrptParams::default(), &[1], |head| head.estimate.into());
    }
}
