//! The estimator that the mechanism uses.

use alloc::boxed::Box;

use super::scheduler::Scheduler;
use crate::cost::LinearCost;
use crate::id::{IdVec, ServiceId};
use crate::packet::Packet;
use crate::policy::Estimate;
use crate::unit::Work;

/// The estimator of a run.
#[derive(Debug)]
pub(super) enum Estimator {
    /// The table of the configuration, called without indirection.
    Table(IdVec<ServiceId, LinearCost>),
    Other(Box<dyn Estimate + Send>),
}

impl Estimator {
    /// Whether it may read the driver's value of the work.
    #[inline(always)]
    pub(super) fn heeds_driver(&self) -> bool {
        matches!(self, Self::Other(_))
    }

    /// Whether it is a table with exactly these entries.
    pub(super) fn is_table(&self, lines: &[LinearCost]) -> bool {
        matches!(self, Self::Table(table) if table.as_slice() == lines)
    }

    #[inline]
    pub(super) fn of(&self, packet: &Packet) -> Work {
        match self {
            Self::Table(lines) => lines[packet.service].work(packet.length),
            // A copy, so that other runs can keep their packet in registers.
            Self::Other(estimate) => estimate.estimate(&{ *packet }),
        }
    }

    #[inline]
    pub(super) fn on_completion(&mut self, packet: &Packet, used: Work, cold: bool) {
        if let Self::Other(estimate) = self {
            estimate.on_completion(packet, used, cold);
        }
    }

    pub(super) fn check(&self) {
        if let Self::Other(estimate) = self {
            estimate.check();
        }
    }
}

impl<S, Q, A> Scheduler<S, Q, A> {
    /// Whether the estimator or a journal may look at the work that a driver puts into a packet that arrives. If not,
    /// a driver need not find it out.
    #[inline(always)]
    pub fn heeds_work(&self) -> bool {
        self.estimate.heeds_driver() || self.journal.is_some()
    }

    /// Whether the estimator is a table with exactly these entries, one for each service.
    pub(crate) fn estimates_by(&self, lines: &[LinearCost]) -> bool {
        self.estimate.is_table(lines)
    }
}
