//! The shorter of two queues: each connection has two cores, and each packet joins the one with fewer packets.
//!
//! **Idea.** Two choices balance nearly as well as all, and two queues cost the same to examine on
//! any machine. Both cores follow from the connection, so its packets, its state and its reordering
//! stay on two cores.
//!
//! **Source.** Mitzenmacher. The power of two choices in randomized load balancing. IEEE TPDS 12, 2001.
//! STEERING section 2 (P2C).
//!
//! **Promises.** While the cores stay the same, a connection uses two of them, and a packet joins
//! the shorter queue of both. With `pair=packet` the two cores are drawn for every packet, so a
//! single connection uses all cores. No order.
//!
//! **Cost.** O(1), no state per connection.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{mix, salt};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

choice! {
    /// The input of the hash that selects the two cores.
    pub enum Pair {
        /// The connection.
        Connection = "connection",
        /// The connection and a count of all packets.
        Packet = "packet",
    }
}

params! {
    /// Parameters of the shorter of two queues.
    pub struct Jsq2Params {
        /// Whether a pair of cores belongs to a connection or to a single packet.
        pair: Pair = Pair::Connection;
    }
}

/// The shorter of two queues.
#[derive(Debug)]
pub struct Jsq2 {
    pair: Pair,
    /// Packets steered so far.
    steered: u64,
}

impl Build for Jsq2 {
    type Params = Jsq2Params;
    const INFO: Info = Info {
        name: "jsq2",
        family: Family::Steer,
        summary: "each packet to the shorter queue of two cores, which its connection names",
        source: "Mitzenmacher. The power of two choices in randomized load balancing. IEEE TPDS 12, 2001",
        promises: &[Promise::Fair("a connection has two cores, and a packet finds no shorter queue on the other")],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["pair=packet"];

    fn new(params: &Jsq2Params, _: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { pair: params.pair, steered: 0 })
    }
}

impl Policy for Jsq2 {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for Jsq2 {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let key = match self.pair {
            Pair::Connection => packet.key,
            Pair::Packet => packet.key ^ salt(self.steered),
        };
        self.steered += 1;
        let (first, second) = pair(key, view.eligible.len());
        let (first, second) = (view.eligible[first], view.eligible[second]);
        let is_shorter = view.cores[second].packets < view.cores[first].packets;
        Target::Core(if is_shorter { second } else { first })
    }
}

/// Returns two places below `count`, different unless there is only one.
#[inline]
fn pair(key: u64, count: usize) -> (usize, usize) {
    let hash = mix(key);
    let first = below(hash as u32, count);
    if count == 1 {
        return (first, first);
    }
    let after = first + 1 + below((hash >> 32) as u32, count - 1);
    (first, if after < count { after } else { after - count })
}

/// Returns a number below `count`, in proportion to a hash.
#[inline]
fn below(hash: u32, count: usize) -> usize {
    ((u64::from(hash) * count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, keys, shares, targets, targets_among, targets_behind};
    use alloc::vec::Vec;
    use humpyard_core::id::{CoreId, Id};

    const CONNECTION: Jsq2Params = Jsq2Params { pair: Pair::Connection };
    const PACKET: Jsq2Params = Jsq2Params { pair: Pair::Packet };

    #[test]
    fn the_two_cores_differ_and_every_pair_is_as_likely() {
        let mut count = [[0_u32; 5]; 5];
        for key in keys(200_000) {
            let (first, second) = pair(key, 5);
            count[first][second] += 1;
        }
        for (first, row) in count.iter().enumerate() {
            for (second, &found) in row.iter().enumerate() {
                let expected = if first == second { 0 } else { 10_000 };
                assert!(u32::abs_diff(found, expected) < 500, "{found} times {first} and {second}");
            }
        }
    }

    #[test]
    fn a_packet_joins_the_shorter_queue_of_its_connections_two() {
        let lengths = [3, 9, 0, 4, 1, 7, 2, 8];
        for key in keys(2000) {
            let (first, second) = pair(key, 8);
            let expected = if lengths[second] < lengths[first] { second } else { first };
            assert_eq!(targets_behind::<Jsq2>(&CONNECTION, &lengths, &[key, key]), [CoreId::from_index(expected); 2]);
        }
    }

    #[test]
    fn of_equal_queues_the_first_of_the_pair_has_it() {
        let found = targets::<Jsq2>(&CONNECTION, 8, &keys(1000));
        assert!(found.iter().zip(keys(1000)).all(|(core, key)| core.index() == pair(key, 8).0));
    }

    #[test]
    fn only_eligible_cores_are_looked_at() {
        let found = targets_among::<Jsq2>(&CONNECTION, &cores_of([2, 5, 6]), &keys(1000));
        assert!(found.iter().all(|core| [2, 5, 6].contains(&core.0)));
        assert_eq!(targets::<Jsq2>(&CONNECTION, 1, &[1, 2]), cores_of([0, 0]));
    }

    #[test]
    fn pairs_of_packets_give_one_connection_all_cores() {
        let one = [12345; 8000];
        for share in shares(&targets::<Jsq2>(&PACKET, 8, &one), 8) {
            assert!((share - 0.125).abs() < 0.02, "{share}");
        }
        let used: Vec<CoreId> = targets::<Jsq2>(&CONNECTION, 8, &one);
        assert!(used.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
