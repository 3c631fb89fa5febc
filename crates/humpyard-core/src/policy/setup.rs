//! What a policy is told of the run before it starts.

use serde::{Deserialize, Serialize};

use super::Topology;
use crate::cost::LinearCost;
use crate::id::{ClientId, CoreId, ElementId, Id, ServiceId};
use crate::random::Seed;
use crate::rendezvous::Rendezvous;
use crate::unit::{Time, Weight, Work, WorkUnit};

/// Which of two equals goes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl ServiceSetup<'_> {
    /// The only service of a run that says nothing of it: no packet is late, and all cores are its own.
    pub const ONLY: ServiceSetup<'static> = ServiceSetup {
        name: "service",
        packet_time: Time::ZERO,
        switch_cost: Time::ZERO,
        tolerance: Time::MAX,
        guarantee_millionths: 1_000_000,
    };
}

/// The run a policy is made for. Every limit is known here: nothing is allocated later.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Number of cores, at least 1.
    pub cores: usize,
    /// Contexts of each processing element, at least 1: so many consecutive cores are one element, and take turns computing.
    pub contexts: usize,
    /// Speed of the first cores, in thousandths of the speed that estimates hold for; the others have 1000.
    pub speeds: &'a [u32],
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
    /// What a packet of each service is believed to cost before anything was measured, in the unit of the run.
    pub estimates: &'a [LinearCost],
    /// The services, at least one.
    pub services: &'a [ServiceSetup<'a>],
    /// Of how many services a core keeps the code, at least 1: to go back to one of them takes it no time.
    pub services_per_core: usize,
    /// Which of two equals goes first.
    pub ties: Ties,
    /// Where random policies draw from.
    pub seed: Seed,
    /// How this machine finds the winner of a rendezvous.
    pub rendezvous: Rendezvous,
}

impl Default for Setup<'_> {
    /// One core, one client, one service, 1024 packets of at most 1514 bytes, and bytes as the unit of work.
    fn default() -> Self {
        Self {
            cores: 1,
            contexts: 1,
            speeds: &[],
            topology: None,
            flows: 1,
            clients: 1,
            packets: 1024,
            unit: WorkUnit::Bytes,
            longest: 1514,
            weights: &[],
            estimates: &[LinearCost::BYTES],
            services: &[ServiceSetup::ONLY],
            services_per_core: 1,
            ties: Ties::Lowest,
            seed: Seed(1),
            rendezvous: Rendezvous::default(),
        }
    }
}

/// Setters for programs that go on as fields are added; those of this workspace write `..Setup::default()`.
impl<'a> Setup<'a> {
    /// Returns the set-up of a run on this many cores; else as by default.
    pub fn new(cores: usize) -> Self {
        Self { cores, ..Self::default() }
    }

    /// Sets the topology of the cores.
    #[must_use]
    pub fn with_topology(self, topology: &'a Topology) -> Self {
        Self { topology: Some(topology), ..self }
    }

    /// Sets the number of flow ids.
    #[must_use]
    pub fn with_flows(self, flows: usize) -> Self {
        Self { flows, ..self }
    }

    /// Sets the clients: as many ids as weights.
    #[must_use]
    pub fn with_clients(self, weights: &'a [Weight]) -> Self {
        Self { clients: weights.len(), weights, ..self }
    }

    /// Sets the most packets held at once.
    #[must_use]
    pub fn with_packets(self, packets: usize) -> Self {
        Self { packets, ..self }
    }

    /// Sets the unit of work, and the estimated work of the longest packet in it.
    #[must_use]
    pub fn with_unit(self, unit: WorkUnit, longest: Work) -> Self {
        Self { unit, longest, ..self }
    }

    /// Sets the services, and what a packet of each is believed to cost.
    #[must_use]
    pub fn with_services(self, services: &'a [ServiceSetup<'a>], estimates: &'a [LinearCost]) -> Self {
        Self { services, estimates, ..self }
    }

    /// Sets where random policies draw from.
    #[must_use]
    pub fn with_seed(self, seed: Seed) -> Self {
        Self { seed, ..self }
    }
}

impl Setup<'_> {
    /// The weight of a client at the start.
    pub fn weight(&self, client: ClientId) -> Weight {
        self.weights.get(client.0 as usize).copied().unwrap_or_default()
    }

    /// The speed of a core, in thousandths.
    pub fn speed(&self, core: CoreId) -> u32 {
        self.speeds.get(core.index()).copied().unwrap_or(1000)
    }

    /// Number of processing elements.
    pub fn elements(&self) -> usize {
        self.cores.div_ceil(self.contexts)
    }

    /// The element of a core.
    pub fn element(&self, core: CoreId) -> ElementId {
        ElementId::from_index(core.index() / self.contexts)
    }

    /// What is known of a service.
    pub fn service(&self, service: ServiceId) -> &ServiceSetup<'_> {
        &self.services[usize::from(service.0)]
    }
}
