//! A policy by the indirection table of a network card (RSS): each value of the card's hash has a receive queue.

use std::time::{Duration, Instant};

use humpyard_traffic::TrafficError;
use humpyard_traffic::steer_record::SteerSample;
use humpyard_wire::{BucketCounters, FlowCount, Hashing, IndirectionTable};

use super::observe::Look;
use super::target::SteeringTable;
use crate::LabError;

/// A table is for this long at least: drivers take their time to set one, and a change may put packets out of order.
const LASTS: Duration = Duration::from_secs(1);

/// The table of a card.
pub(super) struct CardTable {
    interface: String,
    counters: BucketCounters,
    table: IndirectionTable,
    /// As it was before.
    before: Vec<u32>,
    /// By bucket: the receive queue.
    queues: Vec<u32>,
    since: Instant,
}

impl CardTable {
    /// Begins with the table as it is.
    pub(super) fn begin(interface: &str, hashing: Hashing) -> Result<Self, LabError> {
        let table = IndirectionTable::open(interface)?;
        let counters = BucketCounters::observe_card(interface, hashing)?;
        let before = table.read()?;
        let (queues, interface) = (before.clone(), interface.to_owned());
        Ok(Self { interface, counters, table, before, queues, since: Instant::now() })
    }
}

impl Drop for CardTable {
    fn drop(&mut self) {
        // An interface that has gone has no table to restore.
        let _ = self.table.write(&self.before);
    }
}

impl SteeringTable for CardTable {
    fn look(&self) -> Result<Look, LabError> {
        Look::at(&self.counters)
    }

    fn set(&mut self, queues: &[u32], _: &SteerSample) -> Result<u64, TrafficError> {
        let moves = self.pending(queues)?;
        if moves == 0 || self.since.elapsed() < LASTS {
            return Ok(0);
        }
        self.table.write(queues)?;
        (self.queues, self.since) = (queues.to_vec(), Instant::now());
        Ok(moves)
    }

    fn pending(&self, queues: &[u32]) -> Result<u64, TrafficError> {
        Ok(self.queues.iter().zip(queues).filter(|(now, wanted)| now != wanted).count() as u64)
    }

    fn heavy_flows(&self, most: usize) -> Result<Vec<FlowCount>, TrafficError> {
        self.counters.heavy_flows(most)
    }

    fn is_native(&self) -> bool {
        self.counters.is_native()
    }

    fn processors(&self) -> usize {
        self.counters.processors()
    }

    fn is_by_bucket(&self) -> bool {
        // By queues, which are not processors.
        false
    }

    fn changed(&self) -> Vec<String> {
        vec![format!("{}: the indirection table of {} entries", self.interface, self.before.len())]
    }
}
