//! Earliest deadline first: serve the client whose next packet is due earliest.
//!
//! **Idea.** A packet is due when the tolerance of its service is over, counted from its arrival.
//! The head that is due earliest is served, whatever its cost and its client.
//!
//! **Source.** A baseline. RIVALS.
//!
//! **Promises.** Work conserving. Of the heads that may be served, none is due earlier than the one
//! that is picked. Every client is served: packets that arrive later are due later, by and by.
//!
//! **Cost.** `pick` O(1), the events O(log n) in the ready clients.
//!
//! **Invariants.** `ready` holds exactly the clients whose head may be served, by deadline.
//!
//! **Departures.** None preempts: a packet in service stays there. In a chain, the tolerance of each
//! service counts from the arrival at its hop. Weights are ignored. Services without a tolerance
//! are due last, in order of arrival.

use alloc::format;
use alloc::string::String;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight};

use super::tournament::Tournament;

params! {
    /// Parameters of earliest deadline first: none.
    pub struct EdfParams {}
}

/// Earliest deadline first.
#[derive(Debug)]
pub struct Edf {
    /// The longest tolerable delay of each service.
    tolerances: IdVec<ServiceId, Time>,
    /// The clients whose head may be served, by deadline in ns.
    ready: Tournament<ClientId>,
}

impl Build for Edf {
    type Params = EdfParams;
    const INFO: Info = Info {
        name: "edf",
        family: Family::Share,
        summary: "the client whose next packet is due earliest: arrival plus the tolerance of its service",
        source: "baseline",
        promises: &[
            Promise::WorkConserving,
            Promise::Served,
            Promise::Fair("no head that may be served is due earlier than the one that is picked"),
        ],
        complexity: "O(log n)",
    };

    fn new(_: &EdfParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let tolerances = config.services.iter().map(|service| service.tolerance).collect();
        Ok(Self { tolerances, ready: Tournament::new(config.clients, config.ties) })
    }
}

impl Policy for Edf {}

impl Share for Edf {
    fn on_wake(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.ready.set(id, self.deadline(head));
    }

    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.ready.set(id, self.deadline(head));
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.ready.first().map(|(_, id)| id)
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, _: &Packet) {
        self.ready.remove(id);
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, _: ClientId) {}

    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}

    fn explain(&self, id: ClientId) -> Option<String> {
        self.ready.tag(id).map(|deadline| format!("its head is due at {deadline} ns"))
    }
}

impl Edf {
    /// Returns when a packet is due, in ns. The sum of two times needs more than their 64 bits.
    fn deadline(&self, head: &Packet) -> u128 {
        u128::from(head.arrival.as_ns()) + u128::from(self.tolerances[head.service].as_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        assert_the_least_is_picked, assert_ties_may_go_to_the_higher, served_once, with_tolerances,
    };
    use alloc::vec::Vec;

    const US: u64 = 1000;

    /// Returns a head of this service that arrived at this time.
    fn head(arrival: u64, service: u16) -> Packet {
        Packet { arrival: Time::from_ns(arrival), service: ServiceId(service), ..Packet::default() }
    }

    fn order(tolerances: &[u64], heads: &[Packet]) -> Vec<u32> {
        let config = with_tolerances(tolerances, heads.len());
        served_once(&mut Edf::new(&EdfParams {}, &config).unwrap(), heads)
    }

    /// RIVALS: A tolerates 10 us, B 5 and C 4.
    #[test]
    fn vector_of_the_specification() {
        let costs = [1, 4, 2];
        let heads: Vec<Packet> =
            (0..).zip(costs).map(|(service, cost)| Packet { estimate: cost * US, ..head(0, service) }).collect();
        assert_eq!(order(&[10 * US, 5 * US, 4 * US], &heads), [2, 1, 0], "C B A");
    }

    #[test]
    fn a_packet_that_came_early_goes_before_one_that_is_more_urgent() {
        assert_eq!(order(&[10, 4], &[head(3, 1), head(0, 0), head(7, 1)]), [0, 1, 2], "due at 7, 10 and 11");
    }

    #[test]
    fn without_a_tolerance_packets_go_last_and_in_order_of_arrival() {
        let late = u64::MAX - 1;
        let heads = [head(late, 0), head(2, 0), head(1, 0), head(late, 1)];
        assert_eq!(order(&[u64::MAX, 1], &heads), [3, 2, 1, 0]);
    }

    #[test]
    fn of_two_that_are_due_together_the_lower_client_goes_first() {
        assert_eq!(order(&[10, 4], &[head(6, 1), head(0, 0)]), [0, 1]);
        assert_ties_may_go_to_the_higher::<Edf>(&EdfParams {});
    }

    #[test]
    fn no_head_is_due_earlier_than_the_one_that_is_picked() {
        let tolerances = [700, 0, u64::MAX, 50];
        assert_the_least_is_picked::<Edf>(&EdfParams {}, &tolerances, |head| {
            u128::from(head.arrival.as_ns()) + u128::from(tolerances[usize::from(head.service.0)])
        });
    }

    #[test]
    fn a_client_is_told_when_its_head_is_due() {
        let mut policy = Edf::new(&EdfParams {}, &with_tolerances(&[5], 2)).unwrap();
        policy.on_wake(Time::from_ns(3), ClientId(1), &head(3, 0));
        assert_eq!(policy.explain(ClientId(1)).as_deref(), Some("its head is due at 8 ns"));
        assert_eq!(policy.explain(ClientId(0)), None);
    }
}
