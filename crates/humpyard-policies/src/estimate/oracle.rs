//! Oracle: the actual work of a packet on a warm core, which only a driver with virtual time knows.
//!
//! **Idea.** It shows the greatest improvement that better estimates can bring.
//!
//! **Source.** The WF2Q+ with known costs to which the EFQ and LAP paper compares.
//!
//! **Cost.** O(1).
//!
//! **Departures.** If the driver does not know the work of a packet (live), the table estimates it.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Estimate, Family, Info, Policy};
use humpyard_core::unit::Work;

use super::table::{Table, TableParams};

params! {
    /// Parameters of the oracle: none.
    pub struct OracleParams {}
}

/// The estimator that returns the work given by the driver.
#[derive(Clone, Debug)]
pub struct Oracle {
    unknown: Table,
}

impl Build for Oracle {
    type Params = OracleParams;
    const INFO: Info = Info {
        name: "oracle",
        family: Family::Estimate,
        summary: "what the packet will cost, known beforehand: the simulator only",
        source: "EFQ and LAP paper",
        promises: &[],
        complexity: "O(1)",
    };

    fn new(_: &OracleParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { unknown: Table::new(&TableParams {}, config)? })
    }
}

impl Policy for Oracle {}

impl Estimate for Oracle {
    #[inline]
    fn estimate(&self, packet: &Packet) -> Work {
        if packet.estimate > 0 { packet.estimate } else { self.unknown.estimate(packet) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    #[test]
    fn believes_the_driver_and_falls_back_on_the_table() {
        let oracle = Oracle::new(&OracleParams {}, &config(1, 1, &[])).unwrap();
        let packet = Packet { length: 100, ..Packet::default() };
        assert_eq!(oracle.estimate(&packet), 100);
        assert_eq!(oracle.estimate(&Packet { estimate: 7, ..packet }), 7);
    }
}
