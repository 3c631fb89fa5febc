//! Weighted round robin: visits clients in a ring; each visit has as many slots as the client has weight.
//!
//! **Idea.** Clients stand in a ring. A visit gives a client as many slots, quanta of work, as it
//! has weight, and serves it while it has slots left. This is simple and cheap, but bursts are as
//! long as the greatest weight.
//!
//! **Source.** Folklore. PROPORTIONAL_SHARE sections 2.1 and 0 (slots).
//!
//! **Promises.** Work conserving, with these bounds for packets of one quantum; W is the sum of the
//! weights. A client is at most max_k w_k (w_1 + .. + w_k-1) / W behind its share of the service,
//! and at most max_k w_k (1 − w_k/W) ahead of it.
//!
//! **Cost.** O(1) for all operations, if no client owes more than a visit gives. On several cores
//! that keep the order of clients, a pick may pass over the clients in service.
//!
//! **Invariants.** `ring` holds exactly the clients that are not idle, in the order of their next
//! visits. The last of them is the client visited last, the cursor. No other client holds a slot.
//!
//! **Departures.** All slots of a visit are given at once, which is equivalent: they are used up before the
//! next visit. Debt outlasts idleness, credit does not. On several cores each core may serve a visit. A client
//! in service when its turn comes keeps that turn until it is offered again.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::storage::IdRing;
use humpyard_core::unit::{Time, Weight, Work};

use super::slot::{GivesSlots, Slots, quantum, slot_handlers};

params! {
    /// Parameters of weighted round robin.
    pub struct WrrParams {
        /// Work of one slot; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
    }
}

/// Weighted round robin.
#[derive(Debug)]
pub struct Wrr {
    /// The clients that are not idle, in the order of their next visits.
    ring: IdRing<ClientId>,
    /// Whether the last of the ring was visited: new clients then go before it, to the end of the round.
    begun: bool,
    /// Slots, and weights.
    slots: Slots<Weight>,
}

impl Build for Wrr {
    type Params = WrrParams;
    const INFO: Info = Info {
        name: "wrr",
        family: Family::Share,
        summary: "visits in a ring, as many slots each as the client has weight",
        source: "folklore",
        promises: &[
            Promise::WorkConserving,
            Promise::Fair("unit packets: -max w_k (w_1 + .. + w_(k-1)) / W <= error <= max w_k (1 - w_k / W)"),
        ],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000"];

    fn new(params: &WrrParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self {
            ring: IdRing::new(config.clients),
            begun: false,
            slots: Slots::new(quantum(Self::INFO.name, params.quantum, config)?, config, |id| config.weight(id)),
        })
    }
}

impl Policy for Wrr {
    fn check(&self) {
        self.slots.check();
        assert!(!self.begun || !self.ring.is_empty(), "a cursor in an empty ring");
        self.slots.ids().filter(|&id| !self.ring.contains(id)).for_each(|id| self.slots.check_idle(id));
    }
}

impl Share for Wrr {
    // Handlers for arrivals, dispatches, completions and push-outs; the client that holds a slot is served.
    slot_handlers!();

    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        match self.ring.back().filter(|_| self.begun) {
            Some(cursor) => self.ring.insert_before(cursor, id),
            None => self.ring.push_back(id),
        }
        self.slots.offer(id);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.slots.offer(id);
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.slots.block(id);
        self.ring.remove(id);
        self.begun &= !self.ring.is_empty();
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.slots.forgive(id);
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        self.slots[id] = weight;
    }
}

impl GivesSlots for Wrr {
    type Client = Weight;

    fn slots(&mut self) -> &mut Slots<Weight> {
        &mut self.slots
    }

    /// Visits the next client whose head may be served.
    fn give(&mut self) {
        let slots = &self.slots;
        let next = self.ring.iter().find(|&id| slots.is_offered(id));
        let id = next.expect("a client whose head may be served is in the ring");
        self.ring.remove(id);
        self.ring.push_back(id);
        self.begun = true;
        self.slots.grant(id, self.slots[id].get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, Desk, V, random_weights, sequence, unit_errors, unit_sequence, v_work};

    const WRR: WrrParams = WrrParams { quantum: Auto::Auto };

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Wrr>(&WRR, &A, 12), "111223111223");
        assert_eq!(unit_sequence::<Wrr>(&WRR, &B, 24), "111111111111222333445566");
        assert_eq!(sequence::<Wrr>(&WRR, &V, 14, 10, v_work), "11112223111122");
    }

    /// PROPORTIONAL_SHARE section 2.1: both bounds are reached, the upper one by a client that
    /// precedes all others.
    #[test]
    fn unit_errors_are_those_of_the_bound() {
        for weights in random_weights("wrr", 200, 12, 100) {
            let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
            let mut before = 0;
            let (mut behind, mut ahead) = (0, 0);
            for &weight in &weights {
                let weight = i128::from(weight);
                behind = behind.max(weight * before);
                ahead = ahead.max(weight * (total - before - weight));
                before += weight;
            }
            assert_eq!(unit_errors::<Wrr>(&WRR, &weights, total as usize), (-behind, ahead), "{weights:?}");
        }
    }

    /// PROPORTIONAL_SHARE section 2.1: a new client goes before the cursor's client, whose visit continues.
    #[test]
    fn a_newcomer_waits_for_the_end_of_the_round() {
        let mut desk = Desk::<Wrr>::new(&WRR, &[3, 2, 1, 2]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(2), "11");
        desk.wake(&[4]);
        assert_eq!(desk.serve(9), "122344111");
    }

    /// When the cursor's client goes, the cursor steps back: the next new client goes before the
    /// client visited before it.
    #[test]
    fn a_visit_ends_when_its_client_is_idle() {
        let mut desk = Desk::<Wrr>::new(&WRR, &[3, 2, 1, 2]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(4), "1112");
        desk.block(2);
        desk.wake(&[4]);
        assert_eq!(desk.serve(7), "3441113");
        desk.wake(&[2]);
        assert_eq!(desk.serve(6), "441112");
    }

    #[test]
    fn another_weight_holds_from_the_next_visit() {
        let mut desk = Desk::<Wrr>::new(&WRR, &A);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(1), "1");
        desk.set_weight(1, 1);
        assert_eq!(desk.serve(9), "112231223");
    }
}
