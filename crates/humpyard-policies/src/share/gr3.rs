//! Group ratio round robin: clients of similar weight take turns, and groups of them share in the
//! ratio of their weights.
//!
//! **Idea.** Clients of weights from 2^k to 2^(k+1) − 1 form the group of order k. Groups are
//! ordered by weight. The turn goes on to the next group if (slots + 1)/weight is greater than
//! that of the next group. Otherwise the turn goes back to the first group. Within a group, clients are
//! visited in a ring. Their weights differ by less than a factor of two, so a visit is one or two
//! slots, and the unused rest is kept. So the policy stays cheap and fair with many clients and
//! unequal weights.
//!
//! **Algorithm and state.** The page of `group_ratio.rs`, whose run queue `gr3mp` shares, has the
//! algorithm in the paper's symbols, and a picture of the state. This file adds what one policy for
//! all cores needs: the ring of the clients with work in the bank, which are served first.
//!
//! **Source.** Caprita, Chan, Nieh, Stein, Zheng. Group ratio round-robin: O(1) proportional share
//! scheduling for uniprocessor and multiprocessor systems. USENIX ATC 2005. PROPORTIONAL_SHARE
//! section 3; packets of any length: section 3.5.
//!
//! **Promises.** Work conserving. Let packets have one quantum, and let the clients of g groups
//! stay. A client is then less than (g−1)(g−2)/2 + 4 behind its share of the service, and less than
//! g + 3 ahead of it.
//!
//! **Cost.** O(1); O(g) when a client comes or goes; there are at most 32 groups. A client that
//! owes more than a visit gives is visited without service until it has paid. On several cores a
//! pick may give slots to clients in service, and pass over some.
//!
//! **Invariants.** A group's weight is the sum of its clients' weights. Clients that are not idle
//! are in their group's ring; idle ones may be. A group's credit is at most one slot. `banked`
//! holds the clients that have work in the bank and whose head may be served.
//!
//! **Departures.**
//! - The estimate is charged at dispatch and corrected at completion. Debts outlast idleness.
//! - When a client comes or goes, a turn of the first group goes to the group that is then first.
//!   Another group keeps its turn. Otherwise new clients could keep all groups but the first from their turns.
//! - On several cores, a client may have waiting packets that may not be served because one is in
//!   service. It still receives its slots. They go to its bank (the frontlog of the paper), and it
//!   is served from that first, in any group's turn.
//! - A bank holds at most four slots per core. Otherwise a client whose weight is more than a core
//!   can serve would save for ever; `gr3mp` lowers such a weight instead.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::storage::IdRing;
use humpyard_core::unit::{Time, Weight, Work};

use super::group_ratio::{Draw, RunQueue};
use super::slot::{BANK_SLOTS, quantum};

params! {
    /// Parameters of group ratio round robin.
    pub struct Gr3Params {
        /// Work of one slot; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
    }
}

/// Group ratio round robin.
#[derive(Debug)]
pub struct Gr3 {
    run: Box<RunQueue>,
    /// The clients that have work in the bank and whose head may be served.
    banked: IdRing<ClientId>,
}

impl Build for Gr3 {
    type Params = Gr3Params;
    const INFO: Info = Info {
        name: "gr3",
        family: Family::Share,
        summary: "groups of like weights share in ratio, their clients take turns",
        source: "Caprita, Chan, Nieh, Stein, Zheng. Group ratio round-robin. USENIX ATC 2005",
        promises: &[
            Promise::WorkConserving,
            Promise::Fair("unit packets, g groups: -(g-1)(g-2)/2 - 4 < error < g + 3"),
        ],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000"];

    fn new(params: &Gr3Params, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = quantum(Self::INFO.name, params.quantum, config)?;
        let bank_limit = BANK_SLOTS * config.cores as i64 * quantum;
        let weight = |id| u64::from(config.weight(id).get());
        Ok(Self {
            run: RunQueue::new(quantum, bank_limit, config.clients, weight),
            banked: IdRing::new(config.clients),
        })
    }
}

impl Policy for Gr3 {
    fn check(&self) {
        self.run.check();
        for id in self.run.ids() {
            let banked = self.run.is_offered(id) && self.run.bank(id) > 0;
            assert_eq!(self.banked.contains(id), banked, "client {id} is banked");
        }
    }
}

impl Share for Gr3 {
    #[inline]
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
        self.run.add_waiting(id);
    }

    #[inline]
    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.run.wake(id);
        self.on_head(now, id, head);
    }

    #[inline]
    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.run.offer(id, head);
        if self.run.is_banked(id) {
            self.banked.push_back(id);
        }
    }

    #[inline]
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        if self.run.offered() == 0 {
            return None;
        }
        if let Some(id) = self.banked.front() {
            return Some(id);
        }
        loop {
            if let Draw::Served(id) = self.run.draw(|_| true) {
                return Some(id);
            }
        }
    }

    #[inline]
    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        if self.run.dispatch(id, sent.estimate) > 0 {
            self.banked.remove(id);
        }
    }

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.run.settle(id, used, sent.estimate);
    }

    fn on_push_out(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
        self.run.set_waiting(id, waiting);
    }

    #[inline]
    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.run.block(id);
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.run.end(id);
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        if self.run.set_weight(id, u64::from(weight.get())) > 0 {
            self.banked.remove(id);
        }
    }

    fn explain(&self, id: ClientId) -> Option<String> {
        let (bank, quantum) = (self.run.bank(id), self.run.quantum());
        Some(format!("it has {bank} of work left of its slots, and a slot is worth {quantum}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, Desk, V, random_weights, sequence, unit_sequence, v_work};
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;
    use humpyard_core::random::Seed;

    const GR3: Gr3Params = Gr3Params { quantum: Auto::Auto };

    /// Returns a desk with all clients of a set awake.
    fn desk(weights: &[u32]) -> Desk<Gr3> {
        let mut desk = Desk::new(&GR3, weights);
        desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
        desk
    }

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Gr3>(&GR3, &A, 12), "121123121123");
        assert_eq!(unit_sequence::<Gr3>(&GR3, &B, 48), "213141516121213131415161".repeat(2));
        assert_eq!(sequence::<Gr3>(&GR3, &V, 14, 10, v_work), "22311211231121");
    }

    /// Costs are unknown before service; all packets are estimated as a quantum.
    #[test]
    fn variable_costs_unknown_before_service() {
        let work = |client, number| (10, u64::from(v_work(client, number)));
        let mut desk = Desk::<Gr3>::with_work(&GR3, &V, 10, work);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(14), "23112211311221");
    }

    /// Figure 3 of the paper. If the turn also moved on at equality, the order would be 212131.
    #[test]
    fn the_turn_goes_on_only_where_the_ratio_is_exceeded() {
        let mut desk = Desk::<Gr3>::new(&GR3, &A);
        desk.wake(&[2, 1, 3]);
        assert_eq!(desk.serve(6), "212113");
    }

    /// PROPORTIONAL_SHARE section 1: only the sequences of groups. The group of weight 12 with five
    /// clients is the first of two.
    #[test]
    fn groups_of_the_specification() {
        let groups = |weights: &[u32], group_of: &[char], slots| -> String {
            let mut desk = desk(weights);
            (0..slots).map(|_| group_of[desk.step().0.index()]).collect()
        };
        assert_eq!(groups(&[4, 2, 1], &['1', '2', '3'], 7), "1121123");
        assert_eq!(groups(&[5, 3, 1, 1], &['1', '2', '3', '3'], 10), "1231121123");
        assert_eq!(groups(&[7, 1, 1, 1, 3], &['1', '2', '2', '2', '3'], 13), "1123112311123");
        assert_eq!(groups(&[5, 1], &['1', '2'], 6), "111112");
        assert_eq!(groups(&[12, 3, 3, 2, 2, 2], &['2', '1', '1', '1', '1', '1'], 4), "1212");
    }

    /// PROPORTIONAL_SHARE section 3.4, test D: clients come, go, and change weight.
    #[test]
    fn events_of_the_specification() {
        let mut desk = Desk::<Gr3>::new(&GR3, &[3, 2, 1, 2, 6]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(4), "1211");
        desk.wake(&[4]);
        assert_eq!(desk.policy().run.state()[0], (1, 7, 6, vec![1, 2, 4]));
        assert_eq!(desk.serve(8), "23412411");
        desk.wake(&[5]);
        let groups = [(1, 7, 13, vec![1, 2, 4]), (2, 6, 12, vec![5]), (0, 1, 1, vec![3])];
        assert_eq!(desk.policy().run.state(), groups);
        assert_eq!(desk.serve(7), "2453152");
        assert_eq!(desk.serve(4), "5451");
        desk.block(1);
        assert_eq!(desk.policy().run.slots_left(ClientId(0)), 1.0);
        assert_eq!(desk.serve(12), "524535255452");
        assert_eq!(desk.policy().run.state(), [(2, 6, 22, vec![5]), (1, 4, 15, vec![2, 4]), (0, 1, 3, vec![3])]);
        desk.wake(&[1]);
        assert_eq!(desk.policy().run.state(), [(1, 7, 27, vec![2, 4, 1]), (2, 6, 22, vec![5]), (0, 1, 3, vec![3])]);
        assert_eq!(desk.serve(8), "45153254");
        desk.set_weight(2, 5);
        assert_eq!(desk.policy().run.state(), [(2, 11, 46, vec![5, 2]), (1, 5, 23, vec![4, 1]), (0, 1, 4, vec![3])]);
        assert_eq!(desk.serve(8), "25525215");
    }

    /// Test E: a client that wakes before the ring reaches it still has its place, and one slot of its rest.
    #[test]
    fn a_short_absence_goes_unnoticed() {
        let mut desk = desk(&[3, 2, 2]);
        assert_eq!(desk.serve(4), "1231");
        desk.block(1);
        assert_eq!(desk.policy().run.slots_left(ClientId(0)), 1.0);
        assert_eq!(desk.serve(1), "2");
        desk.wake(&[1]);
        assert_eq!(desk.serve(8), "31123112");
    }

    /// The rule of PROPORTIONAL_SHARE section 3.2, slot by slot, for clients that stay.
    fn unit_mode(weights: &[u32], slots: usize) -> Vec<usize> {
        struct Group {
            order: u32,
            ring: Vec<usize>,
            weight: i64,
            used: i64,
            cursor: usize,
            rest: u64,
        }
        let mut groups: Vec<Group> = Vec::new();
        for order in 0..32 {
            let ring: Vec<usize> = (0..weights.len()).filter(|&client| weights[client].ilog2() == order).collect();
            let weight = ring.iter().map(|&client| i64::from(weights[client])).sum();
            let cursor = ring.len().wrapping_sub(1);
            groups.push(Group { order, ring, weight, used: 0, cursor, rest: 0 });
        }
        groups.retain(|group| group.weight > 0);
        groups.sort_by_key(|group| (-group.weight, group.order));
        let mut deficits = vec![0u64; weights.len()];
        let mut turn = 0;
        let mut served = Vec::new();
        for _ in 0..slots {
            let group = &mut groups[turn];
            if group.rest == 0 {
                group.cursor = (group.cursor + 1) % group.ring.len();
                let deficit = &mut deficits[group.ring[group.cursor]];
                *deficit += u64::from(weights[group.ring[group.cursor]]);
                group.rest = *deficit >> group.order;
                *deficit &= (1 << group.order) - 1;
                assert!((1..=2).contains(&group.rest), "a visit of one slot or two");
            }
            group.rest -= 1;
            served.push(group.ring[group.cursor]);
            group.used += 1;
            let next = turn + 1;
            let on = next < groups.len()
                && (groups[turn].used + 1) * groups[next].weight > (groups[next].used + 1) * groups[turn].weight;
            turn = if on { next } else { 0 };
        }
        served
    }

    #[test]
    fn packets_of_one_quantum_are_served_slot_by_slot() {
        for weights in random_weights("gr3/unit", 300, 20, 100) {
            let mut desk = Desk::<Gr3>::with_work(&GR3, &weights, 10, |_, _| (10, 10));
            desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
            let slots = 2 * weights.iter().sum::<u32>() as usize;
            let served: Vec<usize> = (0..slots).map(|_| desk.step().0.index()).collect();
            assert_eq!(served, unit_mode(&weights, slots), "{weights:?}");
        }
    }

    /// The least and greatest service errors, times the sum of the weights.
    struct Errors {
        /// By index in the list.
        groups: Vec<(i128, i128)>,
        clients: (i128, i128),
        /// Whether all clients were within −3 and 4 of their share of their group's service.
        within_groups: bool,
    }

    fn errors(weights: &[u32]) -> Errors {
        let mut desk = desk(weights);
        let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
        let list: Vec<(u8, i128)> =
            desk.policy().run.state().iter().map(|group| (group.0, i128::from(group.1))).collect();
        let place =
            |client: usize| list.iter().position(|group| u32::from(group.0) == weights[client].ilog2()).unwrap();
        let mut errors = Errors { groups: vec![(0, 0); list.len()], clients: (0, 0), within_groups: true };
        let mut served = vec![0i128; weights.len()];
        let mut of_groups = vec![0i128; list.len()];
        for slot in 0..total {
            let client = desk.step().0.index();
            let (group, weight) = (place(client), i128::from(weights[client]));
            let group_weight = list[group].1;
            for after in [0, 1] {
                let of_client = served[client] * total - (slot + after) * weight;
                let of_group = of_groups[group] * total - (slot + after) * group_weight;
                let within = served[client] * group_weight - of_groups[group] * weight;
                errors.clients = (errors.clients.0.min(of_client), errors.clients.1.max(of_client));
                let extremes = &mut errors.groups[group];
                *extremes = (extremes.0.min(of_group), extremes.1.max(of_group));
                errors.within_groups &= -3 * group_weight < within && within < 4 * group_weight;
                served[client] += 1 - after;
                of_groups[group] += 1 - after;
            }
        }
        assert!(served.iter().zip(weights).all(|(&served, &weight)| served == i128::from(weight)), "exact at the end");
        errors
    }

    /// PROPORTIONAL_SHARE section 3.3: lemma 4 for groups, the bounds within groups, and the
    /// resulting bounds for clients.
    #[test]
    fn unit_errors_stay_within_the_bounds() {
        let mixes = random_weights("gr3/few", 300, 12, 3000).chain(random_weights("gr3/many", 100, 200, 60));
        for weights in mixes {
            let errors = errors(&weights);
            let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
            let mut group_weights = [0i128; 32];
            weights.iter().for_each(|&weight| group_weights[weight.ilog2() as usize] += i128::from(weight));
            let mut group_weights: Vec<i128> = group_weights.into_iter().filter(|&weight| weight > 0).collect();
            group_weights.sort_unstable_by_key(|weight| -weight);
            let g = group_weights.len() as i128;
            for (k, (&weight, &(least, greatest))) in (1..).zip(group_weights.iter().zip(&errors.groups)) {
                assert!(2 * least >= -(g - k) * (g - k - 1) * weight - 2 * total, "group {k} behind: {weights:?}");
                assert!(greatest <= (g - 1) * total, "group {k} ahead: {weights:?}");
            }
            assert!(errors.within_groups, "{weights:?}");
            let (least, greatest) = errors.clients;
            assert!(2 * least > -((g - 1) * (g - 2) + 8) * total && greatest < (g + 3) * total, "{weights:?}");
        }
    }

    /// PROPORTIONAL_SHARE section 3.3, integer ratios.
    #[test]
    fn errors_of_groups_in_whole_ratios() {
        let errors = errors(&[4, 2, 1]);
        assert_eq!(errors.groups, [(0, 8), (-4, 2), (-6, 0)]);
    }

    /// A group far heavier than four similar ones falls behind by more than an earlier claimed
    /// bound, −(g−1)²/8 − 1 = −3.
    #[test]
    fn a_heavy_group_falls_behind() {
        let mut weights = vec![3749, 49, 24, 24, 15, 15, 9, 8];
        weights.extend([7, 7, 7, 7, 7, 7, 4]);
        let errors = errors(&weights);
        assert_eq!(errors.groups.len(), 5);
        let millionths = errors.groups[0].0 * 1_000_000 / 3939;
        assert_eq!((millionths - 500) / 1000, -5291, "in thousandths");
    }

    /// Subtracting full rounds from all groups never changes a decision.
    #[test]
    fn normalising_changes_nothing() {
        for weights in random_weights("gr3/normalise", 200, 10, 200) {
            let mut random = Seed(weights[0].into()).stream("gr3/normalise");
            let [mut plain, mut normalised] = [desk(&weights), desk(&weights)];
            let mut busy = weights.len();
            let mut idle = Vec::new();
            for _ in 0..500 {
                normalised.policy().run.normalise();
                let (client, _) = plain.step();
                assert_eq!(normalised.step().0, client, "{weights:?}");
                let number = client.0 + 1;
                match random.below(8) {
                    0 if busy > 1 => {
                        [&mut plain, &mut normalised].into_iter().for_each(|desk| desk.block(number));
                        busy -= 1;
                        idle.push(number);
                    }
                    1 if !idle.is_empty() => {
                        let woken = idle.swap_remove(random.below(idle.len() as u64) as usize);
                        [&mut plain, &mut normalised].into_iter().for_each(|desk| desk.wake(&[woken]));
                        busy += 1;
                    }
                    2 => {
                        let weight = 1 + random.below(200) as u32;
                        [&mut plain, &mut normalised].into_iter().for_each(|desk| desk.set_weight(number, weight));
                    }
                    _ => {}
                }
            }
        }
    }

    /// PROPORTIONAL_SHARE section 3.5: errors in quanta, for packets of any cost up to one quantum.
    #[test]
    fn packets_of_any_cost_keep_the_shares() {
        let work = |client: ClientId, number: u64| {
            let work = 1 + humpyard_core::hash::mix(u64::from(client.0) << 32 | number) % 1000;
            (work, work)
        };
        for weights in random_weights("gr3/packets", 100, 30, 300) {
            let mut desk = Desk::<Gr3>::with_work(&GR3, &weights, 1000, work);
            desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
            let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
            let mut served = vec![0i128; weights.len()];
            let mut all = 0;
            for _ in 0..3000 {
                let (client, work) = desk.step();
                served[client.index()] += i128::from(work);
                all += i128::from(work);
                for (&served, &weight) in served.iter().zip(&weights) {
                    let error = served * total - all * i128::from(weight);
                    assert!(error.abs() < 6000 * total, "{} quanta: {weights:?}", error / total / 1000);
                }
            }
        }
    }

    /// 48 clients of weight 1 are busy, each for one packet. Whenever one goes, another comes that
    /// is in no ring. If the turn started again each time, as in PROPORTIONAL_SHARE section 3.4, it
    /// would never reach the other group.
    #[test]
    fn newcomers_keep_no_group_from_its_turn() {
        let mut desk = Desk::<Gr3>::new(&GR3, &[vec![1; 200], vec![16]].concat());
        desk.wake(&(1..=48).chain([201]).collect::<Vec<_>>());
        let mut served = 0;
        for _ in 0..10_000 {
            let client = desk.step().0;
            if client == ClientId(200) {
                served += 1;
            } else {
                desk.block(client.0 + 1);
                let next = (0..200).find(|&next| !desk.policy().run.is_member(ClientId(next)));
                desk.wake(&[next.expect("most are not in the ring") + 1]);
            }
        }
        assert!((2490..=2510).contains(&served), "{served} of 10000 slots, at weight 16 of 64");
    }
}
