//! What was counted so far, for someone who looks at a run while it goes on. Counts only ever rise.

use alloc::string::String;
use alloc::vec::Vec;

use super::Histogram;
use crate::unit::Time;

/// Everything that is counted at no cost beyond the measurements.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Bytes processed.
    pub bytes: u64,
    /// From coming in to leaving.
    pub delay: DelayTally,
    /// Packets later than their service, or their chain of services, tolerates.
    pub late: u64,
    /// Packets that left after a later packet of their flow.
    pub out_of_order: u64,
    /// By core.
    pub cores: Vec<CoreTally>,
    /// By service.
    pub services: Vec<ServiceTally>,
}

/// Delays so far, without those of the warm-up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DelayTally {
    /// Their sum, in ns.
    pub sum: u128,
    /// The greatest delay that each bucket in use may hold, in ns, rising, and how many it holds ([`Histogram::buckets`]).
    pub buckets: Vec<(u64, u64)>,
}

impl DelayTally {
    /// The values of this histogram, in ns.
    pub fn of(histogram: &Histogram) -> Self {
        Self { sum: histogram.sum(), buckets: histogram.buckets() }
    }
}

/// One core so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreTally {
    /// Time busy with packets that are done.
    pub busy: Time,
    /// Packets served.
    pub packets: u64,
    /// Times it went to another service.
    pub switches: u64,
    /// Packets whose predecessor had another service.
    pub cold: u64,
}

/// One service so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServiceTally {
    /// Its name.
    pub name: String,
    /// Packets processed.
    pub packets: u64,
    /// Bytes processed.
    pub bytes: u64,
    /// From arrival to completion.
    pub delay: DelayTally,
    /// The delay beyond which a packet is late.
    pub tolerance: Time,
    /// Packets later than that.
    pub late: u64,
    /// Packets waiting now.
    pub waiting: u32,
}
