//! Cache-aware adjusted highest random weight: a core far from a connection's home bids as if its queue were longer.
//!
//! **Idea.** A connection has a home, its core of highest random weight, where its state is cached.
//! Each core bids its hash of the connection, divided by its queue times the cost to get there from
//! home. So packets leave home for a near core sooner than for a far one.
//!
//! **Source.** Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications, section
//! IV. STEERING section 4.
//!
//! **Promises.** With idle cores every connection is at home, so each core has 1/N of them on
//! average. If a core is removed while queues stay the same, only its connections move, and those
//! whose home it was. No order.
//!
//! **Cost.** O(N) in the eligible cores, no state per connection; 4 N² bytes for the distances.
//!
//! **Departures.** The paper's weighted queue is distance times length, which is 0 for all idle
//! cores, near or far. Here the length includes the new packet before it is multiplied by the
//! distance. The home is that of `hrw`.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{salt, score};
use humpyard_core::id::{CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;

use super::bid::{Exact, highest, length};

params! {
    /// Parameters of cache-aware adjusted highest random weight: none.
    pub struct CaAhrwParams {}
}

/// Cache-aware adjusted highest random weight.
#[derive(Debug)]
pub struct CaAhrw {
    /// The salt of each core.
    salts: Vec<u64>,
    /// By home, then by core: the cost to get there, in thousandths of the cost to stay.
    distances_permille: Vec<u32>,
    /// The score of the current connection for each eligible core, in their order.
    scores: Vec<u64>,
}

impl Build for CaAhrw {
    type Params = CaAhrwParams;
    const INFO: Info = Info {
        name: "ca-ahrw",
        family: Family::Steer,
        summary: "each packet to the core with the highest hash over queue length and distance from its home",
        source: "Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications (PS-HRW)",
        promises: &[Promise::Fair("idle cores: each core has 1/N of the connections, in the mean")],
        complexity: "O(N)",
    };

    fn new(_: &CaAhrwParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let cores = config.cores;
        let distance = |place: usize| {
            let (home, core) = (CoreId::from_index(place / cores), CoreId::from_index(place % cores));
            config.topology.as_ref().map_or(1000, |topology| topology.distance_permille(home, core))
        };
        Ok(Self {
            salts: (0..cores as u64).map(salt).collect(),
            distances_permille: (0..cores * cores).map(distance).collect(),
            scores: vec![0; cores],
        })
    }
}

impl Policy for CaAhrw {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for CaAhrw {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        for (score_there, &core) in self.scores.iter_mut().zip(view.eligible) {
            *score_there = score(packet.key, self.salts[core.index()]);
        }
        let candidates = || view.eligible.iter().copied().zip(self.scores.iter().copied());
        let home = highest(candidates().map(|(core, score)| (core, Exact::new(score, 1)))).expect("a core is eligible");
        let distances = self.distances_from(home);
        let winner =
            highest(candidates().map(|(core, score)| {
                (core, Exact::new(score, u64::from(distances[core.index()]) * length(view, core)))
            }));
        Target::Core(winner.expect("a core is eligible"))
    }
}

impl CaAhrw {
    /// Returns the cost to get from `home` to each core.
    #[inline]
    fn distances_from(&self, home: CoreId) -> &[u32] {
        let cores = self.salts.len();
        &self.distances_permille[home.index() * cores..(home.index() + 1) * cores]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::ahrw::{Ahrw, AhrwParams};
    use crate::steer::hrw::{Hrw, HrwParams};
    use crate::steer::testing::{cores_of, keys, targets, targets_behind, views};
    use crate::testing::config;
    use humpyard_core::hash::unit_score;
    use humpyard_core::policy::Topology;
    use humpyard_core::random::Seed;

    /// The ring of four cores of the specification; a tree cannot represent it.
    const RING: [u32; 16] =
        [1000, 1500, 2000, 1500, 1500, 1000, 1500, 2000, 2000, 1500, 1000, 1500, 1500, 2000, 1500, 1000];

    fn steered(policy: &mut CaAhrw, lengths: &[u32], key: u64) -> CoreId {
        let (cores, eligible) = (views(lengths), (0..lengths.len()).map(CoreId::from_index).collect::<Vec<_>>());
        let view = View { as_of: Time::ZERO, cores: &cores, eligible: &eligible };

        policy.steer(Time::ZERO, &Packet { key, ..Packet::default() }, &view).core().expect("a core")
    }

    #[test]
    fn example_of_the_specification() {
        let mut policy = CaAhrw::new(&CaAhrwParams {}, &config(4, 1, &[])).unwrap();
        policy.distances_permille = RING.to_vec();
        let lengths = [2, 0, 1, 3];
        for (key, home, bids, winner) in
            [(12345, 3, [0.1062, 0.2627, 0.1962, 0.2389], 1), (1, 2, [0.0057, 0.2943, 0.2940, 0.0321], 1)]
        {
            assert_eq!(targets::<Hrw>(&HrwParams::default(), 4, &[key]), [CoreId(home)]);
            for (core, expected) in bids.into_iter().enumerate() {
                let queue = f64::from(RING[usize::from(home) * 4 + core]) / 1000.0 * f64::from(lengths[core] + 1);
                let bid = unit_score(score(key, salt(core as u64))) / queue;
                assert!((bid - expected).abs() < 6e-5, "key {key}, core {core}: {bid}, not {expected}");
            }
            assert_eq!(steered(&mut policy, &lengths, key), CoreId(winner));
        }
    }

    #[test]
    fn idle_cores_leave_every_connection_at_home() {
        let tree = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap();
        let mut policy =
            CaAhrw::new(&CaAhrwParams {}, &SchedulerConfig { topology: Some(tree.clone()), ..config(8, 1, &[]) })
                .unwrap();
        let keys = keys(5000);
        let homes = targets::<Hrw>(&HrwParams::default(), 8, &keys);
        for (key, home) in keys.into_iter().zip(homes) {
            assert_eq!(steered(&mut policy, &[0; 8], key), home);
            assert_eq!(steered(&mut policy, &[5; 8], key), home, "so do queues of one length");
        }
    }

    #[test]
    fn without_distances_it_is_ahrw() {
        let mut random = Seed(3).stream("test");
        for keys in keys(2000).chunks(20) {
            let lengths: Vec<u32> = (0..8).map(|_| random.below(6) as u32).collect();
            assert_eq!(
                targets_behind::<CaAhrw>(&CaAhrwParams {}, &lengths, keys),
                targets_behind::<Ahrw>(&AhrwParams::default(), &lengths, keys)
            );
        }
    }

    /// Packets away from home are nearer to it than they would be without distances.
    #[test]
    fn packets_stay_near_their_home() {
        let tree = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap();
        let mut policy =
            CaAhrw::new(&CaAhrwParams {}, &SchedulerConfig { topology: Some(tree.clone()), ..config(8, 1, &[]) })
                .unwrap();
        let (keys, lengths) = (keys(5000), [3, 0, 2, 1, 4, 0, 1, 2]);
        let homes = targets::<Hrw>(&HrwParams::default(), 8, &keys);
        let unaware = targets_behind::<Ahrw>(&AhrwParams::default(), &lengths, &keys);
        let aware: Vec<CoreId> = keys.iter().map(|&key| steered(&mut policy, &lengths, key)).collect();
        let other_socket = |found: &[CoreId]| found.iter().zip(&homes).filter(|(a, b)| a.0 / 4 != b.0 / 4).count();
        assert!(2 * other_socket(&aware) < other_socket(&unaware));
    }

    #[test]
    fn an_endless_queue_is_never_joined_while_another_is_short() {
        let found = targets_behind::<CaAhrw>(&CaAhrwParams {}, &[3, u32::MAX, 0], &keys(10_000));
        assert!(!found.contains(&cores_of([1])[0]));
    }
}
