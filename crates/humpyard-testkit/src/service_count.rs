//! Service received, per client.

use humpyard_core::id::{CoreId, Id};
use humpyard_core::mechanism::Completed;
use humpyard_core::unit::{Time, Work};

use crate::observer::Observer;

/// Adds up the service of each client, counted at completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCount {
    served: Vec<Work>,
}

impl ServiceCount {
    /// Returns counts for `clients` clients.
    pub fn new(clients: usize) -> Self {
        Self { served: vec![0; clients] }
    }

    /// Work done, by client.
    pub fn served(&self) -> &[Work] {
        &self.served
    }

    /// The share of all work that each client had, in the order of the clients.
    pub fn shares(&self) -> impl Iterator<Item = f64> + '_ {
        let total: Work = self.served.iter().sum();
        self.served.iter().map(move |&work| work as f64 / total as f64)
    }
}

impl Observer for ServiceCount {
    fn on_completion(&mut self, _: Time, _: CoreId, completed: &Completed, _: Time) {
        self.served[completed.packet.client.index()] += completed.used;
    }
}
