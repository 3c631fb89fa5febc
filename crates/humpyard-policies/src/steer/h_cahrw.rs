//! Hierarchical, cache-aware adjusted highest random weight: rendezvous hashing at every level of the machine.
//!
//! **Idea.** Sockets bid for the packet, then the caches of the winner, then the cores of the
//! winner. Each bids its hash of the connection over its mean queue. A bidder far from the
//! connection's home counts its queue as longer. So packets stay near their home unless the queues
//! there are long, and a decision examines few nodes instead of all cores.
//!
//! **Source.** Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications, section
//! IV. STEERING sections 4, 5.
//!
//! **Promises.** If all cores are idle, a connection is at its home, and each core is the home of
//! 1/N of the connections on average. If a core is removed, connections leave only the groups that
//! contained it. No order.
//!
//! **Cost.** A decision takes a hash for each child on the way down: O(log N) if no node has many.
//! A flow's first packet needs a second descent. A packet that joins or leaves costs O(depth). If
//! the children of a node have different numbers of eligible cores, each child takes a logarithm.
//! 16 bytes for each flow, for its home.
//!
//! **Invariants.** Each node counts the eligible cores below it, and the packets on them.
//!
//! **Departures.** The paper does not define the queue of a group: here it is the mean over its
//! cores, the new packet included. The same descent without queues finds the home. Groups of
//! unequal size bid -size / (queue · ln hash), so that each core has its share. The paper weights
//! queues at the cores alone (`distance=cores`); here every level does. The policy counts queues
//! from its own events, because the view may be older.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::CoreId;
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::{Time, Work};

pub use super::tree::Distance;
use super::tree::Forest;

params! {
    /// Parameters of hierarchical, cache-aware adjusted highest random weight.
    pub struct HCahrwParams {
        /// Where leaving home counts: at every level of the machine, or among the cores that share a cache alone.
        distance: Distance = Distance::Levels;
    }
}

/// Hierarchical, cache-aware adjusted highest random weight.
#[derive(Debug)]
pub struct HCahrw {
    forest: Forest,
}

impl Build for HCahrw {
    type Params = HCahrwParams;
    const INFO: Info = Info {
        name: "h-cahrw",
        family: Family::Steer,
        summary: "down the tree of caches, at each step to the child with the highest hash over queue length and distance",
        source: "Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications (PS-HRW)",
        promises: &[Promise::Fair("idle cores: each core has 1/N of the connections, in the mean")],
        complexity: "O(log N)",
    };
    const VARIANTS: &'static [&'static str] = &["distance=cores"];

    fn new(params: &HCahrwParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { forest: Forest::new(config, params.distance)? })
    }
}

impl Policy for HCahrw {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        self.forest.check();
    }
}

impl Steer for HCahrw {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let eligible = self.forest.eligible_set(packet.service, view.eligible);
        let home = self.forest.home(eligible, packet);
        Target::Core(self.forest.choose(eligible, packet.key, home))
    }

    #[inline]
    fn on_enqueue(&mut self, _: Time, target: Target, _: &Packet) {
        if let Some(core) = target.core() {
            self.forest.on_enqueue(core);
        }
    }

    #[inline]
    fn on_push_out(&mut self, _: Time, target: Target, _: &Packet) {
        if let Some(core) = target.core() {
            self.forest.on_completion(core);
        }
    }

    /// Another policy may have let a packet wait for several cores; it joins one only now.
    fn on_dispatch(&mut self, _: Time, core: CoreId, target: Target, _: &Packet) {
        if target.core().is_none() {
            self.forest.on_enqueue(core);
        }
    }

    fn on_completion(&mut self, _: Time, core: CoreId, _: &Packet, _: Work) {
        self.forest.on_completion(core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, keys, shares, targets, views};
    use crate::testing::config;
    use alloc::vec::Vec;
    use humpyard_core::hash::{salt, score};
    use humpyard_core::id::Id;
    use humpyard_core::policy::Topology;
    use humpyard_core::random::Seed;

    const LEVELS: HCahrwParams = HCahrwParams { distance: Distance::Levels };

    /// Returns a policy that has seen these numbers of packets on the cores.
    fn behind(params: &HCahrwParams, topology: Option<&Topology>, lengths: &[u32]) -> HCahrw {
        let mut policy =
            HCahrw::new(params, &SchedulerConfig { topology: topology.cloned(), ..config(lengths.len(), 1, &[]) })
                .unwrap();
        for (core, &length) in lengths.iter().enumerate() {
            let join = |_| policy.on_enqueue(Time::ZERO, Target::Core(CoreId::from_index(core)), &Packet::default());
            (0..length).for_each(join);
        }
        policy
    }

    fn steered(policy: &mut HCahrw, eligible: &[CoreId], key: u64) -> CoreId {
        let cores = views(&[0; 8]);
        let view = View { as_of: Time::ZERO, cores: &cores, eligible };

        policy.steer(Time::ZERO, &Packet { key, ..Packet::default() }, &view).core().expect("a core")
    }

    #[test]
    fn example_of_the_specification() {
        let tree = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap();
        let all = cores_of([0, 1, 2, 3, 4, 5, 6, 7]);
        let mut policy = behind(&LEVELS, Some(&tree), &[2, 0, 1, 3, 0, 0, 4, 1]);
        assert_eq!([12345, 1, 2, 3].map(|key| steered(&mut policy, &all, key)), [2, 7, 5, 4].map(CoreId));
        let mut idle = behind(&LEVELS, Some(&tree), &[0; 8]);
        assert_eq!([12345, 1, 2, 3].map(|key| steered(&mut idle, &all, key)), [3, 7, 5, 4].map(CoreId));
    }

    #[test]
    fn completions_undo_what_packets_that_joined_did() {
        let tree = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap();
        let all = cores_of([0, 1, 2, 3, 4, 5, 6, 7]);
        let mut policy = behind(&LEVELS, Some(&tree), &[2, 0, 1, 3, 0, 0, 4, 1]);
        for core in cores_of([0, 0, 2, 3, 3, 3, 6, 6, 6, 6, 7]) {
            policy.on_completion(Time::ZERO, core, &Packet::default(), 1);
            policy.check();
        }
        assert_eq!([12345, 1, 2, 3].map(|key| steered(&mut policy, &all, key)), [3, 7, 5, 4].map(CoreId));
    }

    #[test]
    fn a_flat_tree_without_costs_is_ahrw_on_the_salts_of_the_tree() {
        let mut random = Seed(3).stream("test");
        for keys in keys(2000).chunks(20) {
            let lengths: Vec<u32> = (0..8).map(|_| random.below(6) as u32).collect();
            let eligible: Vec<CoreId> = (0..8).filter(|_| random.below(4) > 0).chain([8]).map(CoreId).collect();
            let eligible = if eligible.len() > 1 { &eligible[..eligible.len() - 1] } else { &[CoreId(5)] };
            let mut policy = behind(&LEVELS, None, &lengths);
            for &key in keys {
                let bid = |core: CoreId| {
                    let g = 2 * score(key, salt(1000 + u64::from(core.0))) + 1;
                    (u128::from(g), u128::from(lengths[core.index()]) + 1)
                };
                let better = |best: CoreId, core: CoreId| {
                    let ((g, length), (highest, least)) = (bid(core), bid(best));
                    if g * least > highest * length { core } else { best }
                };
                let ahrw = eligible.iter().copied().reduce(better).unwrap();
                assert_eq!(steered(&mut policy, eligible, key), ahrw);
            }
        }
    }

    #[test]
    fn all_idle_is_hrw_on_the_salts_of_the_tree() {
        let keys = keys(1000);
        let home =
            |&key: &u64| (0..8).map(CoreId).max_by_key(|core| score(key, salt(1000 + u64::from(core.0)))).unwrap();
        assert_eq!(targets::<HCahrw>(&LEVELS, 8, &keys), keys.iter().map(home).collect::<Vec<_>>());
    }

    /// Two sockets: the first has a cache with three cores and one with a single core, the second
    /// one cache with two cores.
    fn uneven() -> Topology {
        let levels = r#"{"levels": [
            {"group": [0, 0, 0, 0, 1, 1], "cost_permille": 2000},
            {"group": [0, 0, 0, 1, 2, 2], "cost_permille": 1400},
            {"group": [0, 1, 2, 3, 4, 5], "cost_permille": 1100}
        ]}"#;
        serde_json::from_str(levels).expect("a topology")
    }

    #[test]
    fn in_a_tree_of_any_shape_every_core_is_home_to_as_many() {
        let (tree, all) = (uneven(), cores_of([0, 1, 2, 3, 4, 5]));
        let mut policy = behind(&LEVELS, Some(&tree), &[0; 6]);
        let homes: Vec<CoreId> = keys(60_000).into_iter().map(|key| steered(&mut policy, &all, key)).collect();
        for share in shares(&homes, 6) {
            assert!((share - 1.0 / 6.0).abs() < 6e-3, "{share}");
        }
        let mut alike = behind(&LEVELS, Some(&tree), &[3; 6]);
        let there: Vec<CoreId> = keys(60_000).into_iter().map(|key| steered(&mut alike, &all, key)).collect();
        assert_eq!(there, homes, "queues of one length");
    }

    #[test]
    fn in_a_tree_of_any_shape_the_short_queues_have_more_and_the_far_ones_less() {
        let (tree, all) = (uneven(), cores_of([0, 1, 2, 3, 4, 5]));
        let mut policy = behind(&LEVELS, Some(&tree), &[4, 4, 4, 4, 0, 0]);
        let found = keys(20_000).into_iter().map(|key| steered(&mut policy, &all, key)).collect::<Vec<_>>();
        let share: f64 = shares(&found, 6)[4..].iter().sum();
        // At the root the first socket bids 4 / 5 and the second, where it is home, 2 / 2. A home
        // in the second socket is never left.
        assert!((share - 1.0 / (1.0 + 4.0 / 5.0)).abs() < 0.01, "{share}");
    }

    #[test]
    fn distance_among_cores_alone_leaves_home_more_easily() {
        let tree = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap();
        let all = cores_of([0, 1, 2, 3, 4, 5, 6, 7]);
        let left = |distance| {
            let mut policy = behind(&HCahrwParams { distance }, Some(&tree), &[1, 2, 1, 2, 1, 2, 1, 2]);
            let mut idle = behind(&HCahrwParams { distance }, Some(&tree), &[0; 8]);
            let mut left = |&key: &u64| steered(&mut policy, &all, key).0 / 4 != steered(&mut idle, &all, key).0 / 4;
            keys(4000).iter().filter(|key| left(key)).count()
        };
        assert_eq!(left(Distance::Levels), 0, "sockets of equal load");
        assert_eq!(left(Distance::Cores), 0, "sockets of equal load");
        let crossed = |distance| {
            let mut policy = behind(&HCahrwParams { distance }, Some(&tree), &[4, 4, 4, 4, 2, 2, 2, 2]);
            keys(4000).into_iter().filter(|&key| steered(&mut policy, &all, key).0 >= 4).count()
        };
        assert!(crossed(Distance::Levels) < crossed(Distance::Cores));
    }
}
