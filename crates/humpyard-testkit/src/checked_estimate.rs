//! An estimator under watch.

use humpyard_core::packet::Packet;
use humpyard_core::policy::{Estimate, Policy};
use humpyard_core::unit::{Time, Work};

/// An estimator whose contract is asserted at every call: an estimate is at least 1, and stays the
/// same until the next completion.
#[derive(Debug)]
pub struct CheckedEstimate<E>(E);

impl<E: Estimate> CheckedEstimate<E> {
    /// An estimator under watch.
    pub fn new(estimate: E) -> Self {
        Self(estimate)
    }
}

impl<E: Estimate> Policy for CheckedEstimate<E> {
    fn next_timeout(&self) -> Option<Time> {
        self.0.next_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.0.on_timeout(now);
    }

    fn check(&self) {
        self.0.check();
    }
}

impl<E: Estimate> Estimate for CheckedEstimate<E> {
    fn estimate(&self, packet: &Packet) -> Work {
        let work = self.0.estimate(packet);
        assert!(work > 0, "a packet is estimated to be no work");
        assert_eq!(self.0.estimate(packet), work, "asked again, the estimator answers otherwise");
        work
    }

    fn on_completion(&mut self, packet: &Packet, used: Work, cold: bool) {
        self.0.on_completion(packet, used, cold);
    }
}
