//! A policy by the sockets of a fan-out group (`PACKET_FANOUT`) of another program, such as Suricata.

use std::path::{Path, PathBuf};
use std::time::Duration;

use humpyard_traffic::TrafficError;
use humpyard_traffic::steer_record::SteerSample;
use humpyard_wire::{FlowCount, Hashing, PinnedTable};

use super::observe::Look;
use super::target::SteeringTable;
use crate::LabError;

/// The table that the group's program looks sockets up in.
pub(super) struct FanoutTable {
    object: PathBuf,
    maps: PathBuf,
    table: PinnedTable,
    /// By bucket, as it was last seen.
    sockets: Vec<u32>,
}

impl FanoutTable {
    /// Writes the object, or takes over the table of one that is in use; the table outlives this.
    pub(super) fn begin(
        object: &Path,
        maps: &Path,
        hashing: Hashing,
        sockets: &[u32],
        guard: Duration,
    ) -> Result<Self, LabError> {
        let mut table = PinnedTable::open(object, maps, hashing, guard)?;
        // Readers that run go on with it, and the next command finds it.
        table.leave_pinned();
        table.set(sockets)?;
        let sockets = table.cores()?;
        Ok(Self { object: object.to_owned(), maps: maps.to_owned(), table, sockets })
    }
}

impl SteeringTable for FanoutTable {
    fn look(&self) -> Result<Look, LabError> {
        Look::of(self.table.counts()?)
    }

    fn set(&mut self, sockets: &[u32], _: &SteerSample) -> Result<u64, TrafficError> {
        self.table.set(sockets)?;
        let now = self.table.cores()?;
        let moves = now.iter().zip(&self.sockets).filter(|(now, before)| now != before).count();
        self.sockets = now;
        Ok(moves as u64)
    }

    fn pending(&self, sockets: &[u32]) -> Result<u64, TrafficError> {
        Ok(self.table.cores()?.iter().zip(sockets).filter(|(now, wanted)| now != wanted).count() as u64)
    }

    fn heavy_flows(&self, most: usize) -> Result<Vec<FlowCount>, TrafficError> {
        self.table.heavy_flows(most)
    }

    fn is_native(&self) -> bool {
        false
    }

    fn processors(&self) -> usize {
        self.table.processors()
    }

    fn is_by_bucket(&self) -> bool {
        true
    }

    fn changed(&self) -> Vec<String> {
        let (object, directory) = (self.object.display(), self.maps.display());
        let table = match self.table.is_taken_over() {
            true => format!("{directory}/humpyard_*: the table there is used"),
            false => format!("{directory}/humpyard_*: a table, which stays (rm {directory}/humpyard_* removes it)"),
        };
        vec![format!("{object}: a program for a fan-out group"), table]
    }
}
