//! Connection locality: a connection stays on one core, found by hash.
//!
//! **Idea.** What a network card does with receive-side scaling: hash the connection, look the core up in a table.
//!
//! **Source.** STEERING section 2 (CONN, "SM"). Microsoft. Receive Side Scaling, for the hash and its test vectors.
//!
//! **Promises.** Flow order while the number of cores is constant; both directions of a connection on one core.
//!
//! **Cost.** O(1).
//!
//! **Invariants.** `table[b] = b mod N` over the N cores there were at the start.
//!
//! **Departures.** The hash is over the sorted endpoints, so that both directions agree; a card hashes source, destination.

use alloc::format;
use alloc::vec::Vec;

use humpyard_core::hash::mix;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Setup, Steer, Target, View};
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

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
    /// For each bucket a core's place among all.
    table: Vec<u16>,
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

    fn new(params: &ConnParams, setup: &Setup<'_>) -> Result<Self, BuildError> {
        if !params.buckets.is_power_of_two() {
            return Err(BuildError::new(format!(
                "conn: `buckets` must be a power of two, not {}: try {}",
                params.buckets,
                params.buckets.next_power_of_two()
            )));
        }
        let table = (0..params.buckets as usize).map(|bucket| (bucket % setup.cores) as u16).collect();
        Ok(Self { hash: params.hash, table })
    }
}

impl Policy for Conn {}

impl Steer for Conn {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let cores = view.eligible.len();
        let place = match self.hash {
            Hash::Toeplitz => usize::from(self.table[packet.rss as usize & (self.table.len() - 1)]),
            Hash::Mix => (mix(packet.key) % cores as u64) as usize,
        };
        Target::Core(view.eligible[if place < cores { place } else { place % cores }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, keys, moved, targets};
    use crate::testing::setup;
    use alloc::string::ToString;

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

    #[test]
    fn buckets_must_be_a_power_of_two() {
        let params = ConnParams { buckets: 100, ..ConnParams::default() };
        let error = Conn::new(&params, &setup(2, 1, &[])).unwrap_err();
        assert_eq!(error.to_string(), "conn: `buckets` must be a power of two, not 100: try 128");
    }
}
