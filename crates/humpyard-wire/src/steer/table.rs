//! The table that has a core for each bucket.

use core::time::Duration;
use std::io;

use super::Hashing;
use super::buckets::Placed;
use super::counters::number;
use crate::bpf::{Map, MapShape};

/// The type of maps that are arrays.
const ARRAY: u32 = 2;
const CORE_BYTES: usize = size_of::<u32>();
/// Bytes of a core, how many frames were numbered, and a time.
const STATE_BYTES: usize = 16;

/// The core that each bucket is to go to, and what the program made of it.
#[derive(Debug)]
pub(super) struct CoreTable {
    wanted: Map,
    state: Map,
    buckets: usize,
}

/// The core that a bucket goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BucketState {
    pub(super) core: u32,
    /// Whether it has had a frame.
    pub(super) is_used: bool,
}

impl CoreTable {
    /// The shapes of its maps.
    pub(super) const fn shapes(hashing: Hashing) -> [MapShape; 2] {
        let wanted = MapShape {
            name: "humpyard_wanted",
            map_type: ARRAY,
            key_bytes: 4,
            value_bytes: CORE_BYTES as u32,
            entries: hashing.buckets() as u32,
        };
        [wanted, MapShape { name: "humpyard_state", value_bytes: STATE_BYTES as u32, ..wanted }]
    }

    /// A table of these maps.
    pub(super) fn of(hashing: Hashing, [wanted, state]: [Map; 2]) -> Self {
        Self { wanted, state, buckets: hashing.buckets() }
    }

    /// A table with a core for each bucket.
    pub(super) fn new(hashing: Hashing, cores: &[u32]) -> io::Result<Self> {
        let [wanted, state] = Self::shapes(hashing);
        let table = Self::of(hashing, [Map::shaped(wanted)?, Map::shaped(state)?]);
        table.set(cores)?;
        for (bucket, core) in (0..).zip(cores) {
            let mut entry = [0; STATE_BYTES];
            entry[..CORE_BYTES].copy_from_slice(&core.to_ne_bytes());
            table.state.set(bucket, &entry)?;
        }
        Ok(table)
    }

    /// By which a program knows it. A bucket moves once it has had no frame for `guard`.
    pub(super) fn described(&self, guard: Duration) -> Placed {
        Placed { wanted: self.wanted.descriptor(), state: self.state.descriptor(), guard: guard_ns(guard) }
    }

    /// Sets the core that each bucket is to go to.
    pub(super) fn set(&self, cores: &[u32]) -> io::Result<()> {
        (0..).zip(cores).try_for_each(|(bucket, core)| self.wanted.set(bucket, &core.to_ne_bytes()))
    }

    /// Returns the core that each bucket is to go to.
    pub(super) fn wanted(&self) -> io::Result<Vec<u32>> {
        let values = self.wanted.read_array(self.buckets, CORE_BYTES)?;
        Ok(values.chunks_exact(CORE_BYTES).map(|core| number(core) as u32).collect())
    }

    /// Returns how many frames of each bucket were numbered, of 32 bits.
    pub(super) fn numbered(&self) -> io::Result<Vec<u32>> {
        let values = self.state.read_array(self.buckets, STATE_BYTES)?;
        Ok(values.chunks_exact(STATE_BYTES).map(|entry| number(&entry[CORE_BYTES..8]) as u32).collect())
    }

    /// Returns the core that each bucket goes to.
    pub(super) fn states(&self) -> io::Result<Vec<BucketState>> {
        let values = self.state.read_array(self.buckets, STATE_BYTES)?;
        let state = |entry: &[u8]| BucketState {
            core: number(&entry[..CORE_BYTES]) as u32,
            is_used: number(&entry[8..STATE_BYTES]) != 0,
        };
        Ok(values.chunks_exact(STATE_BYTES).map(state).collect())
    }
}

/// A guard time as programs compare with it, in ns.
pub(super) fn guard_ns(guard: Duration) -> i32 {
    i32::try_from(guard.as_nanos()).unwrap_or(i32::MAX)
}
