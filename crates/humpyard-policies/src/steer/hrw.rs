//! Highest random weight, or rendezvous hashing: each core bids for the connection, the highest bid has it.
//!
//! **Idea.** Hash the connection afresh with every core; the greatest hash wins. When a core goes, its connections go
//! each to its runner-up and no other moves.
//!
//! **Source.** Thaler, Ravishankar. Using name-based mappings to increase hit rates. ToN 1998. STEERING sections 1, 2.
//!
//! **Promises.** Flow order. Minimal disruption: without core k only k's connections move (1/N of them); with one more
//! core 1/(N+1) of them move, all to it.
//!
//! **Cost.** O(N) in the eligible cores, O(1) for the connections seen last if all cores are eligible. No state
//! per connection.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{salt, score};
use humpyard_core::id::{CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::rendezvous::Rendezvous;
use humpyard_core::unit::Time;

params! {
    /// Parameters of highest random weight: none.
    pub struct HrwParams {}
}

/// Highest random weight.
#[derive(Debug)]
pub struct Hrw {
    /// By core.
    salts: Vec<u64>,
    rendezvous: Rendezvous,
    /// Winners among all cores, by the low bits of the key: what was found once holds for good. 16 KiB, which stay
    /// in the processor's first cache.
    recent: Box<[Recent; RECENT]>,
}

/// A key, and the core that wins it among all cores.
#[derive(Clone, Copy, Debug)]
struct Recent {
    key: u64,
    winner: CoreId,
}

/// Winners that are remembered.
const RECENT: usize = 1024;

impl Build for Hrw {
    type Params = HrwParams;
    const INFO: Info = Info {
        name: "hrw",
        family: Family::Steer,
        summary: "each connection on the core with the highest hash (rendezvous hashing)",
        source: "Thaler, Ravishankar. Using name-based mappings to increase hit rates. ToN 1998",
        promises: &[Promise::FlowOrder, Promise::MinimalDisruption],
        complexity: "O(N)",
    };

    fn new(_: &HrwParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let salts: Vec<u64> = (0..config.cores as u64).map(salt).collect();
        let rendezvous = config.rendezvous;
        let winner = CoreId::from_index((rendezvous.highest)(0, &salts));
        let recent = vec![Recent { key: 0, winner }; RECENT].into_boxed_slice().try_into();
        Ok(Self { salts, rendezvous, recent: recent.expect("it has this length") })
    }
}

impl Policy for Hrw {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for Hrw {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        if view.eligible.len() == self.salts.len() {
            return Target::Core(self.winner_of_all(packet.key));
        }
        let bid = |core: CoreId| score(packet.key, self.salts[core.index()]);
        let (&first, others) = view.eligible.split_first().expect("at least one core is eligible");
        let (winner, _) = others.iter().fold((first, bid(first)), |(winner, highest), &core| {
            let bid = bid(core);
            if bid > highest { (core, bid) } else { (winner, highest) }
        });
        Target::Core(winner)
    }
}

impl Hrw {
    /// The core that wins this key among all cores.
    #[inline]
    fn winner_of_all(&mut self, key: u64) -> CoreId {
        let recent = &mut self.recent[key as usize % RECENT];
        if recent.key != key {
            *recent = Recent { key, winner: CoreId::from_index((self.rendezvous.highest)(key, &self.salts)) };
        }
        recent.winner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, keys, moved, targets, targets_among};

    fn among(cores: usize, keys: &[u64]) -> Vec<CoreId> {
        targets::<Hrw>(&HrwParams {}, cores, keys)
    }

    #[test]
    fn examples_of_the_specification() {
        assert_eq!(among(4, &[12345, 1]), cores_of([3, 2]));
        assert_eq!(among(8, &[1, 2]), cores_of([6, 0]));
    }

    #[test]
    fn without_the_eighth_core_only_its_connections_move() {
        let keys = keys(200_000);
        let (eight, seven) = (among(8, &keys), among(7, &keys));
        assert!(eight.iter().zip(&seven).all(|(&before, &after)| before == after || before == CoreId(7)));
        let fraction = moved(&eight, &seven);
        assert!((fraction - 0.125).abs() < 0.004, "{fraction}");
    }

    /// Keys that share a place displace each other, and win what they won.
    #[test]
    fn what_is_remembered_is_what_is_found() {
        let keys = keys(200);
        let crowded: Vec<u64> = (0..3).flat_map(|_| keys.iter().flat_map(|&key| [key, key + 1024, 0])).collect();
        let alone: Vec<CoreId> = crowded.iter().flat_map(|&key| among(5, &[key])).collect();
        assert_eq!(among(5, &crowded), alone);
    }

    #[test]
    fn any_core_may_go() {
        let keys = keys(20_000);
        let all = among(8, &keys);
        for gone in 0..8 {
            let left: Vec<CoreId> = (0..8).filter(|&core| core != gone).map(CoreId).collect();
            let after = targets_among::<Hrw>(&HrwParams {}, &left, &keys);
            assert!(all.iter().zip(&after).all(|(before, now)| before == now || *before == CoreId(gone)));
        }
    }

    #[test]
    fn a_ninth_core_takes_a_ninth() {
        let keys = keys(200_000);
        let (eight, nine) = (among(8, &keys), among(9, &keys));
        assert!(eight.iter().zip(&nine).all(|(&before, &after)| before == after || after == CoreId(8)));
        let fraction = moved(&eight, &nine);
        assert!((fraction - 1.0 / 9.0).abs() < 0.004, "{fraction}");
    }
}
