//! What a policy is told of the run before it starts.

use super::Topology;
use crate::id::{ClientId, ServiceId};
use crate::random::Seed;
use crate::unit::{Time, Weight, Work, WorkUnit};

/// Which of two equals goes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ties {
    /// The lower id.
    #[default]
    Lowest,
    /// The higher id: for the experiments in which the heavy first client must lose ties.
    Highest,
}

/// What is known of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceSetup<'a> {
    /// Its name.
    pub name: &'a str,
    /// What a typical packet takes a core (t).
    pub packet_time: Time,
    /// What it takes a core to go over to this service (t_sw), during which it serves nothing.
    pub switch_cost: Time,
    /// The longest tolerable delay (D); a packet beyond it is late.
    pub tolerance: Time,
    /// The share of the cores it is guaranteed (G), in millionths; all together at most a million.
    pub guarantee_millionths: u32,
}

/// The run a policy is made for. Every limit is known here: nothing is allocated later.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Number of cores, at least 1.
    pub cores: usize,
    /// Which cores are near each other; none is all the same.
    pub topology: Option<&'a Topology>,
    /// Number of flow ids.
    pub flows: usize,
    /// Number of client ids.
    pub clients: usize,
    /// Most packets held at once, waiting or in service.
    pub packets: usize,
    /// The unit of all work in this run.
    pub unit: WorkUnit,
    /// Estimated work of the longest packet.
    pub longest: Work,
    /// Weights of the first clients; the others have [`Weight::ONE`].
    pub weights: &'a [Weight],
    /// The services, at least one.
    pub services: &'a [ServiceSetup<'a>],
    /// Which of two equals goes first.
    pub ties: Ties,
    /// Where random policies draw from.
    pub seed: Seed,
}

impl Setup<'_> {
    /// The weight of a client at the start.
    pub fn weight(&self, client: ClientId) -> Weight {
        self.weights.get(client.0 as usize).copied().unwrap_or_default()
    }

    /// What is known of a service.
    pub fn service(&self, service: ServiceId) -> &ServiceSetup<'_> {
        &self.services[usize::from(service.0)]
    }
}
