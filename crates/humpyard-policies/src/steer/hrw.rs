//! Highest random weight, or rendezvous hashing: each core bids for the connection, and the highest bid wins.
//!
//! **Idea.** Hash the connection with every core; the greatest hash wins. When a core goes, each of
//! its connections moves to its runner-up, and no other moves. With `buckets` the cores bid for
//! buckets of connections, like the table of a kernel or a card: a bucket moves as a whole.
//!
//! **Source.** Thaler, Ravishankar. Using name-based mappings to increase hit rates. ToN 1998. STEERING sections 1, 2.
//!
//! **Promises.** Flow order. Minimal disruption: without core k only k's connections move (1/N of
//! them). With one more core, 1/(N+1) of them move, all to it.
//!
//! **Cost.** O(N) in the eligible cores; O(1) for recent connections if all cores are eligible. No
//! state per connection.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{salt, score, unit_score};
use humpyard_core::id::{CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::rendezvous::Rendezvous;
use humpyard_core::unit::Time;

params! {
    /// Parameters of highest random weight.
    pub struct HrwParams {
        /// Buckets into which a hash divides connections, a power of two; all connections of a bucket go to one core.
        /// 0: each connection is decided by itself. `run --dispatchers 0` decides for 4096 buckets in any case.
        buckets: u64 = 0, in 0..=65536;
    }
}

/// Highest random weight.
#[derive(Debug)]
pub struct Hrw {
    /// The salt of each core.
    salts: Vec<u64>,
    /// The number of low key bits to ignore: the remaining bits are the bucket, or the whole key.
    shift: u32,
    rendezvous: Rendezvous,
    /// Winners among all cores, by the low bits of the key. A winner never changes. 16 KiB, which
    /// stay in the first-level cache.
    recent: Box<[Recent; RECENT]>,
}

/// A key and the core that wins it among all cores.
#[derive(Clone, Copy, Debug)]
struct Recent {
    key: u64,
    winner: CoreId,
}

/// The number of winners in the cache.
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

    const VARIANTS: &'static [&'static str] = &["buckets=4096"];

    fn new(params: &HrwParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let shift = match params.buckets {
            0 => 0,
            buckets if buckets.is_power_of_two() && buckets > 1 => u64::BITS - buckets.trailing_zeros(),
            buckets => {
                return Err(BuildError::bad_value(format!(
                    "hrw: `buckets` must be 0 or a power of two from 2, not {buckets}: try {}",
                    buckets.next_power_of_two().max(2)
                )));
            }
        };
        let salts: Vec<u64> = (0..config.cores as u64).map(salt).collect();
        let rendezvous = config.rendezvous;
        let winner = CoreId::from_index((rendezvous.highest)(0, &salts));
        let recent = vec![Recent { key: 0, winner }; RECENT].into_boxed_slice().try_into();
        Ok(Self { salts, shift, rendezvous, recent: recent.expect("it has this length") })
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
        let key = packet.key >> self.shift;
        if view.eligible.len() == self.salts.len() {
            return Target::Core(self.winner_of_all(key));
        }
        let bid = |core: CoreId| score(key, self.salts[core.index()]);
        let (&first, others) = view.eligible.split_first().expect("at least one core is eligible");
        let (winner, _) = others.iter().fold((first, bid(first)), |(winner, highest), &core| {
            let bid = bid(core);
            if bid > highest { (core, bid) } else { (winner, highest) }
        });
        Target::Core(winner)
    }

    fn explain(&self, packet: &Packet, view: &View<'_>) -> Option<String> {
        let key = packet.key >> self.shift;
        let mut bids: Vec<(u64, CoreId)> =
            view.eligible.iter().map(|&core| (score(key, self.salts[core.index()]), core)).collect();
        bids.sort_unstable_by(|a, b| b.cmp(a));
        let shown = bids.iter().take(BIDS_SHOWN).map(|&(bid, core)| format!("core {core} {:.4}", unit_score(bid)));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let rest = if bids.len() > BIDS_SHOWN { ", ..." } else { "" };
        Some(format!("its connection's hash with each core, from 0 to 1, the highest first: {shown}{rest}"))
    }
}

/// The number of bids in an explanation.
const BIDS_SHOWN: usize = 4;

impl Hrw {
    /// Returns the core that wins this key among all cores.
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
    use alloc::string::ToString;

    use super::*;
    use crate::steer::testing::{cores_of, keys, moved, targets, targets_among};

    fn among(cores: usize, keys: &[u64]) -> Vec<CoreId> {
        targets::<Hrw>(&HrwParams::default(), cores, keys)
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

    /// Keys with the same place in the cache displace each other, and still get the same winners.
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
            let after = targets_among::<Hrw>(&HrwParams::default(), &left, &keys);
            assert!(all.iter().zip(&after).all(|(before, now)| before == now || *before == CoreId(gone)));
        }
    }

    /// A bucket is the leading bits of the key. All its connections go to the same core while cores
    /// come and go.
    #[test]
    fn connections_of_a_bucket_stay_together() {
        const BUCKETS: u64 = 4096;
        let params = HrwParams { buckets: BUCKETS };
        let keys = keys(200_000);
        let bucket = |key: u64| key / (u64::MAX / BUCKETS + 1);
        for eligible in [8, 7] {
            let found = targets::<Hrw>(&params, eligible, &keys);
            let of_buckets = among(eligible, &(0..BUCKETS).collect::<Vec<u64>>());
            assert!(keys.iter().zip(&found).all(|(&key, &core)| core == of_buckets[bucket(key) as usize]));
        }
        let left: Vec<CoreId> = (1..8).map(CoreId).collect();
        let (all, after) = (targets::<Hrw>(&params, 8, &keys), targets_among::<Hrw>(&params, &left, &keys));
        assert!(all.iter().zip(&after).all(|(before, now)| before == now || *before == CoreId(0)));
    }

    /// With fewer buckets, the largest share is farther from an even share.
    #[test]
    fn few_buckets_spread_unevenly() {
        let keys = keys(200_000);
        let largest = |buckets| {
            let found = targets::<Hrw>(&HrwParams { buckets }, 8, &keys);
            let count = |core| found.iter().filter(|&&target| target == CoreId(core)).count();
            (0..8).map(count).max().unwrap() as f64 * 8.0 / keys.len() as f64
        };
        // Each bucket is a random draw: a core has an eighth of 4096, within 4 % (one standard deviation).
        assert!(largest(0) < 1.02 && (1.01..1.17).contains(&largest(4096)), "{} {}", largest(0), largest(4096));
        assert!(largest(16) > 1.3, "{}", largest(16));
    }

    #[test]
    fn buckets_are_a_power_of_two() {
        let made = |buckets| Hrw::new(&HrwParams { buckets }, &SchedulerConfig::default()).map(drop);
        assert!([0, 2, 4096, 65536].map(made).iter().all(Result::is_ok));
        let said = made(100).unwrap_err().to_string();
        assert!(said.contains("must be 0 or a power of two from 2, not 100: try 128"), "{said}");
        assert!(made(1).unwrap_err().to_string().contains("try 2"));
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
