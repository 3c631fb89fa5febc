//! Table: the work that the configuration states for a packet; it never learns.
//!
//! **Idea.** A straight line in the length for each service.
//!
//! **Source.** Table 1 of the EFQ and LAP paper, as a calibration produces it.
//!
//! **Cost.** O(1).

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::LinearCost;
use humpyard_core::id::{IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Estimate, Family, Info, Policy};
use humpyard_core::unit::Work;

params! {
    /// Parameters of the table: none.
    pub struct TableParams {}
}

/// The estimates of the configuration.
#[derive(Clone, Debug)]
pub struct Table {
    lines: IdVec<ServiceId, LinearCost>,
}

impl Build for Table {
    type Params = TableParams;
    const INFO: Info = Info {
        name: "table",
        family: Family::Estimate,
        summary: "a fixed straight line in the length, per service",
        source: "EFQ and LAP paper, table 1",
        promises: &[],
        complexity: "O(1)",
    };

    fn new(_: &TableParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { lines: config.estimates.iter().copied().collect() })
    }
}

impl Policy for Table {}

impl Estimate for Table {
    #[inline]
    fn estimate(&self, packet: &Packet) -> Work {
        self.lines[packet.service].work(packet.length)
    }
}
