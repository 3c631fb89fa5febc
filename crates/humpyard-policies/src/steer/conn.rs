//! Connection locality: a connection stays on one core, found by hash.
//!
//! **Idea.** The policy does what a network card does with receive-side scaling: it hashes the
//! connection and looks the core up in a table.
//!
//! **Source.** STEERING section 2 (CONN, "SM"). Microsoft. Receive Side Scaling: the hash and its test vectors.
//!
//! **Promises.** Flow order while the cores stay the same; both directions of a connection on one
//! core. With the table, minimal disruption: when a core goes, only the connections of its buckets
//! move; when a core comes, connections move only to it. `hash=mix` has no such promise: when eight
//! cores become seven, it moves seven eighths.
//!
//! **Cost.** O(1), no state per connection; O(N) for each bucket when cores come or go.
//!
//! **Invariants.** `table[b] = b mod N`, of all N cores, if that core may serve the service.
//!
//! **Departures.** The hash is over the sorted endpoints, so both directions agree; a card hashes
//! source, then destination. An administrator writes a card's table. Here, a bucket whose core may
//! not serve it goes to a core found by highest random weight, and returns later.

use alloc::format;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::mix;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

use super::buckets::Buckets;

choice! {
    /// How a connection finds its core.
    pub enum Hash {
        /// The Toeplitz hash, and a table of buckets.
        Toeplitz = "toeplitz",
        /// The connection's key, mixed, modulo the number of cores.
        Mix = "mix",
    }
}

params! {
    /// Parameters of connection locality.
    pub struct ConnParams {
        /// How a connection finds its core: the card's hash and a table, or a mixing hash modulo the cores.
        hash: Hash = Hash::Toeplitz;
        /// Entries of the table; a power of two.
        buckets: u64 = 128, in 1..=65536;
    }
}

/// Connection locality.
#[derive(Debug)]
pub struct Conn {
    hash: Hash,
    /// The core of each bucket.
    buckets: Buckets,
}

impl Build for Conn {
    type Params = ConnParams;
    const INFO: Info = Info {
        name: "conn",
        family: Family::Steer,
        summary: "each connection on one core, as receive-side scaling does it",
        source: "Microsoft. Receive Side Scaling; CONN or SM in Guo, Bhuyan. PS-HRW",
        promises: &[Promise::FlowOrder],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["hash=mix"];

    fn new(params: &ConnParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        if !params.buckets.is_power_of_two() {
            return Err(BuildError::bad_value(format!(
                "conn: `buckets` must be a power of two, not {}: try {}",
                params.buckets,
                params.buckets.next_power_of_two()
            )));
        }
        let buckets = if params.hash == Hash::Toeplitz { params.buckets as usize } else { 1 };
        Ok(Self { hash: params.hash, buckets: Buckets::new(buckets, config) })
    }
}

impl Policy for Conn {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for Conn {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        Target::Core(match self.hash {
            Hash::Toeplitz => {
                let owners = self.buckets.owners(packet.service, view.eligible);
                owners[packet.rss as usize & (owners.len() - 1)]
            }
            Hash::Mix => view.eligible[(mix(packet.key) % view.eligible.len() as u64) as usize],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, keys, moved, shares, targets, views};
    use crate::testing::config;
    use alloc::string::ToString;
    use alloc::vec::Vec;
    use humpyard_core::id::CoreId;

    const MIX: ConnParams = ConnParams { hash: Hash::Mix, buckets: 128 };

    #[test]
    fn the_table_repeats_the_cores() {
        let hashes = [0, 1, 2, 3, 127, 128, 0x51cc_c178];
        assert_eq!(
            targets::<Conn>(&ConnParams::default(), 3, &hashes),
            cores_of([0, 1, 2, 0, 1, 0, (0x51cc_c178 % 128 % 3) as u16])
        );
    }

    #[test]
    fn a_connection_stays() {
        let twice: Vec<u64> = keys(100).iter().flat_map(|&key| [key, key]).collect();
        for params in [ConnParams::default(), MIX] {
            let found = targets::<Conn>(&params, 5, &twice);
            assert!(found.chunks(2).all(|pair| pair[0] == pair[1]));
        }
    }

    #[test]
    fn modulo_moves_seven_eighths_when_the_eighth_core_goes() {
        let keys = keys(100_000);
        let fraction = moved(&targets::<Conn>(&MIX, 8, &keys), &targets::<Conn>(&MIX, 7, &keys));
        assert!((fraction - 0.875).abs() < 0.01, "{fraction}");
    }

    /// 16 of 128 buckets move: 1/8 of the connections, which is the minimum.
    #[test]
    fn with_the_table_no_more_move_than_must_when_the_eighth_core_goes() {
        let keys = keys(100_000);
        let (eight, all) = (targets::<Conn>(&ConnParams::default(), 8, &keys), ConnParams::default());
        let mut seven = Conn::new(&all, &config(8, 1, &[])).unwrap();
        let (views, left) = (views(&[0; 8]), (0..7).map(CoreId).collect::<Vec<_>>());
        let view = View { as_of: Time::ZERO, cores: &views, eligible: &left };
        let steered = |&key: &u64| {
            let packet = Packet { key, rss: key as u32, ..Packet::default() };
            seven.steer(Time::ZERO, &packet, &view).core().expect("a core")
        };
        let seven: Vec<CoreId> = keys.iter().map(steered).collect();
        assert!(eight.iter().zip(&seven).all(|(&before, &after)| before == after || before == CoreId(7)));
        assert!((moved(&eight, &seven) - 0.125).abs() < 0.004);
        assert!(shares(&seven, 7).into_iter().all(|share| (0.125..0.22).contains(&share)), "{:?}", shares(&seven, 7));
    }

    #[test]
    fn buckets_must_be_a_power_of_two() {
        let params = ConnParams { buckets: 100, ..ConnParams::default() };
        let error = Conn::new(&params, &config(2, 1, &[])).unwrap_err();
        assert_eq!(error.to_string(), "conn: `buckets` must be a power of two, not 100: try 128");
    }
}
