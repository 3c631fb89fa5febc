//! Smoothed round robin: spreads the bits of the weights over a round.
//!
//! **Idea.** A matrix has a row for each client with the bits of its weight. A sequence in which
//! every second element is 1, every fourth 2, every eighth 3, and so on, selects its columns.
//! Element 1 is the column of the highest bit, so that column is visited most often. A visit to a
//! column gives a slot to each client that has the bit. So the slots of a client are spread over
//! the round, without any comparison.
//!
//! **Source.** Guo. SRR: an O(1) time complexity packet scheduler for flows in multi-service packet
//! networks. SIGCOMM 2001. PROPORTIONAL_SHARE sections 2.10 and 0 (slots).
//!
//! **Promises.** Work conserving. With packets of one quantum and clients that stay, service is exact at the
//! end of every round. A round has as many slots as the sum of the weights. Within a round, the error of a
//! client's service is below k n slots, for n clients with weights of up to k bits.
//!
//! **Cost.** `pick` O(1): of two visits, at least one is to a column that has clients. O(k) when a
//! client comes or goes. A client that owes more than one slot receives several, one per visit. On
//! several cores a pick may give slots to clients in service, and pass over some. 58 bytes per
//! client: one place in all columns (see `columns.rs`), instead of links in each.
//!
//! **Invariants.** Clients that are not idle have a place, in order of arrival, and are in the
//! columns of their weights. A client that was due a slot and could not take it is in no column
//! until its next head is offered. The element is within its sequence.
//!
//! **Departures.** A client keeps its place when its weight changes. The number of columns is read
//! when a visit begins; the element then changes to the one at the same part of the round. On
//! several cores, a client may have waiting packets that may not be served because one is in
//! service. It still receives its slots, up to four per core.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::columns::Columns;
use super::slot::{GivesSlots, Slots, quantum, slot_handlers};

params! {
    /// Parameters of smoothed round robin.
    pub struct SrrParams {
        /// Work of one slot; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
    }
}

/// The state of one client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    weight: u32,
    /// Whether it is in the columns of its weight.
    shown: bool,
}

/// Smoothed round robin.
#[derive(Debug)]
pub struct Srr {
    columns: Columns,
    /// The number of columns for which `element` is valid.
    order: u32,
    /// The element of the sequence, from 1, whose column is visited; 0 before the first.
    element: u64,
    slots: Slots<Client>,
}

impl Build for Srr {
    type Params = SrrParams;
    const INFO: Info = Info {
        name: "srr",
        family: Family::Share,
        summary: "a slot for each client that has the bit, the bits of weights spread over a round",
        source: "Guo. SRR: an O(1) time complexity packet scheduler. SIGCOMM 2001",
        promises: &[
            Promise::WorkConserving,
            Promise::Fair(
                "unit packets, n clients with weights of k bits: |error| < k n, = 0 at the end of every round",
            ),
        ],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000"];

    fn new(params: &SrrParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = quantum(Self::INFO.name, params.quantum, config)?;
        let client = |id| Client { weight: config.weight(id).get(), shown: false };
        Ok(Self {
            columns: Columns::new(config.clients),
            order: 0,
            element: 0,
            slots: Slots::new(quantum, config, client),
        })
    }
}

impl Policy for Srr {
    fn check(&self) {
        self.slots.check();
        self.columns.check(|id| self.slots[id].shown.then_some(self.slots[id].weight));
        assert!(self.element >> self.order == 0, "element {} of order {}", self.element, self.order);
        for id in self.slots.ids() {
            if !self.columns.contains(id) {
                self.slots.check_idle(id);
            }
            assert!(self.slots[id].shown || !self.slots.is_offered(id), "client {id} is in its columns");
        }
    }
}

impl Share for Srr {
    // Handlers for arrivals, dispatches, completions and push-outs; the client that holds a slot is served.
    slot_handlers!();

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.columns.insert(id);
        self.on_head(now, id, head);
    }

    #[inline]
    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        if !self.slots[id].shown {
            self.show(id);
        }
        self.slots.offer(id);
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.slots.block(id);
        self.hide(id);
        self.columns.remove(id);
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.slots.forgive(id);
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let shown = self.slots[id].shown;
        self.hide(id);
        self.slots[id].weight = weight.get();
        if shown {
            self.show(id);
        }
    }
}

impl GivesSlots for Srr {
    type Client = Client;

    #[inline]
    fn slots(&mut self) -> &mut Slots<Client> {
        &mut self.slots
    }

    #[inline]
    fn give(&mut self) {
        loop {
            match self.columns.next() {
                Some(id) if self.slots.is_able(id) => return self.slots.grant(id, 1),
                Some(id) => self.hide(id),
                None => self.visit_next(),
            }
        }
    }
}

impl Srr {
    /// Moves on to the next element, and visits its column. Some client is in a column.
    fn visit_next(&mut self) {
        let order = self.columns.count();
        // Keeps the same part of the round.
        if order >= self.order {
            self.element <<= order - self.order;
        } else {
            self.element >>= self.order - order;
        }
        self.order = order;
        self.element += 1;
        if self.element >> order != 0 {
            self.element = 1;
        }
        self.columns.visit(order - 1 - self.element.trailing_zeros());
    }

    /// Adds a client, which is in no column, to the columns of its weight.
    fn show(&mut self, id: ClientId) {
        let client = &mut self.slots[id];
        client.shown = true;
        self.columns.show(id, client.weight);
    }

    /// Removes a client from the columns, if it is in any.
    fn hide(&mut self, id: ClientId) {
        let client = &mut self.slots[id];
        if client.shown {
            client.shown = false;
            self.columns.hide(id, client.weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        A, B, Desk, V, churn_errors, random_weights, sequence, unit_errors, unit_sequence, v_work,
    };
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;
    use humpyard_core::random::Seed;

    const SRR: SrrParams = SrrParams { quantum: Auto::Auto };

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Srr>(&SRR, &A, 12), "121312121312");
        assert_eq!(unit_sequence::<Srr>(&SRR, &B, 48), "111234561112311123456111".repeat(2));
        assert_eq!(sequence::<Srr>(&SRR, &V, 14, 10, v_work), "11222311112231");
    }

    /// Guo's example.
    #[test]
    fn weights_of_three_bits() {
        assert_eq!(unit_sequence::<Srr>(&SRR, &[5, 2, 2, 3, 1], 26), "1234114512341".repeat(2));
    }

    #[test]
    fn unit_errors_are_within_bits_times_clients_and_rounds_are_exact() {
        for weights in random_weights("srr", 300, 20, 300) {
            let round: u32 = weights.iter().sum();
            let bits = weights.iter().max().expect("a client").ilog2() + 1;
            let (behind, ahead) = unit_errors::<Srr>(&SRR, &weights, 2 * round as usize);
            let bound = i128::from(bits) * weights.len() as i128 * i128::from(round);
            assert!(-bound < behind && ahead < bound, "{weights:?}: {behind} to {ahead}");
            let served = unit_sequence::<Srr>(&SRR, &weights, round as usize);
            for (client, &weight) in ('1'..='9').zip(&weights) {
                assert_eq!(served.matches(client).count(), weight as usize, "{weights:?}");
            }
        }
    }

    /// PROPORTIONAL_SHARE section 2.10: a heavy client is furthest off just before and after the
    /// first visit to the column of the top bit of the light weights. The error is h (1 - h) W /
    /// 2^(b+1) of the sum of the weights.
    #[test]
    fn a_heavy_client_goes_as_far_as_is_known() {
        let weights: [u32; 65] = core::array::from_fn(|client| if client == 0 { 64 * 15 } else { 15 });
        let (behind, ahead) = unit_errors::<Srr>(&SRR, &weights, 128 * 15);
        let total = 128 * 15;
        let extreme = total * total / 4 / 16;
        assert!((ahead - extreme).abs() < extreme / 5 && (behind + extreme).abs() < extreme / 5, "{behind} to {ahead}");
    }

    /// From two columns to three and back: element 2 of 3 becomes element 4 of 7.
    #[test]
    fn the_element_keeps_its_part_of_the_round() {
        let mut desk = Desk::<Srr>::new(&SRR, &[3, 2, 1, 4]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(4), "1213");
        assert_eq!((desk.policy().order, desk.policy().element), (2, 2));
        desk.wake(&[4]);
        assert_eq!(desk.serve(1), "4");
        assert_eq!((desk.policy().order, desk.policy().element), (3, 5));
        desk.block(4);
        assert_eq!(desk.serve(2), "12");
        assert_eq!((desk.policy().order, desk.policy().element), (2, 3));
    }

    /// A client whose weight gains a bit keeps its place.
    #[test]
    fn who_comes_while_its_column_is_visited_waits_for_the_next_visit() {
        let mut desk = Desk::<Srr>::new(&SRR, &[2, 2, 2, 1]);
        desk.wake(&[1, 2]);
        assert_eq!(desk.serve(1), "1");
        desk.wake(&[3]);
        assert_eq!(desk.serve(1), "2");
        desk.set_weight(1, 3);
        desk.wake(&[4]);
        assert_eq!(desk.serve(6), "141231");
    }

    /// The rule with a list for each column, and a copy of the list of the visited column.
    #[derive(Default)]
    struct InLists {
        columns: [Vec<(usize, u32)>; 32],
        pending: VecDeque<(usize, u32)>,
        order: u32,
        element: u64,
    }

    impl InLists {
        fn arrive(&mut self, id: usize, weight: u32) {
            let own = |(bit, _): &(usize, &mut Vec<_>)| weight >> bit & 1 == 1;
            self.columns.iter_mut().enumerate().filter(own).for_each(|(_, column)| column.push((id, weight)));
        }

        fn block(&mut self, id: usize) {
            self.columns.iter_mut().for_each(|column| column.retain(|member| member.0 != id));
            self.pending.retain(|member| member.0 != id);
        }

        fn next(&mut self) -> usize {
            loop {
                if let Some((id, _)) = self.pending.pop_front() {
                    return id;
                }
                let order = self.columns.iter().rposition(|column| !column.is_empty()).expect("a client") as u32 + 1;
                self.element = (self.element << order >> self.order) + 1;
                self.order = order;
                if self.element == 1 << order {
                    self.element = 1;
                }
                let column = order - 1 - self.element.trailing_zeros();
                self.pending = self.columns[column as usize].iter().copied().collect();
            }
        }
    }

    #[test]
    fn decides_as_lists_do_while_clients_come_and_go() {
        for weights in random_weights("srr/lists", 60, 20, 2000) {
            let clients: Vec<u32> = (1..=weights.len() as u32).collect();
            let mut desk = Desk::<Srr>::new(&SRR, &weights);
            let mut lists = InLists::default();
            desk.wake(&clients);
            weights.iter().enumerate().for_each(|(id, &weight)| lists.arrive(id, weight));
            let mut idle = VecDeque::new();
            let mut random = Seed(u64::from(weights[0])).stream("test");
            for _ in 0..2000 {
                let served = desk.step().0.index();
                assert_eq!(served, lists.next(), "{weights:?}");
                if random.below(4) == 0 && idle.len() + 1 < weights.len() {
                    desk.block(served as u32 + 1);
                    lists.block(served);
                    idle.push_back(served);
                }
                if random.below(5) == 0
                    && let Some(id) = idle.pop_front()
                {
                    desk.wake(&[id as u32 + 1]);
                    lists.arrive(id, weights[id]);
                }
            }
        }
    }

    /// PROPORTIONAL_SHARE section 5.5.
    #[test]
    fn errors_of_clients_that_come_and_go() {
        for seed in 1..=6 {
            let (behind, ahead) = churn_errors::<Srr>(&SRR, seed, 20_000);
            assert!(behind > -5.2 && ahead < 4.0, "seed {seed}: {behind} to {ahead}");
        }
    }
}
