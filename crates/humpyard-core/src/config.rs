//! The configuration of a scheduler: everything that a host decides before the first packet, as one
//! value.
//!
//! A [`SchedulerConfig`] owns all its parts, so programs can keep it, write it to a file and read
//! it back.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::cost::LinearCost;
use crate::id::{ClientId, CoreId, ElementId, Id, ServiceId};
use crate::mechanism::{ExitOrder, FlowOrder, Limits, Split};
use crate::policy::{BuildError, Ties, Topology};
use crate::random::Seed;
use crate::rendezvous::Rendezvous;
use crate::unit::{Time, Weight, Work, WorkUnit};

/// The configuration of a service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceConfig {
    /// Its name.
    pub name: String,
    /// Time that a typical packet takes a core (t), in ns.
    pub packet_time: Time,
    /// Time that a core takes to switch to this service (t_sw), in ns. The core serves nothing
    /// meanwhile.
    pub switch_cost: Time,
    /// The longest tolerable delay (D), in ns; a packet beyond it is late.
    pub tolerance: Time,
    /// The guaranteed share of the cores (G), in millionths. The shares of all services add up to
    /// at most a million.
    pub guarantee_millionths: u32,
}

impl Default for ServiceConfig {
    /// The only service of a run that configures none: no packet is late, and it has all cores.
    fn default() -> Self {
        Self {
            name: "service".to_owned(),
            packet_time: Time::ZERO,
            switch_cost: Time::ZERO,
            tolerance: Time::MAX,
            guarantee_millionths: 1_000_000,
        }
    }
}

/// The configuration of a run, for its scheduler and policies. It contains every limit, so nothing
/// is allocated later.
///
/// Fields that a file leaves out have their defaults.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// Number of cores, from 1 to 65,535.
    pub cores: usize,
    /// Contexts of each processing element, from 1; a divisor of the number of cores. Each group of
    /// this many consecutive cores is one element, and its cores take turns computing.
    pub contexts: usize,
    /// Speeds of the first cores, from 1, in thousandths of the speed that estimates assume; other
    /// cores have 1000.
    pub speeds: Vec<u32>,
    /// Which cores are near each other. `None`: all cores are equally near.
    pub topology: Option<Topology>,
    /// Number of flow ids, from 1.
    pub flows: usize,
    /// Number of client ids, from 1.
    pub clients: usize,
    /// Most packets held at once, waiting or in service, from 1 to 2^32 - 3.
    pub packets: usize,
    /// Most packets that a core is handed at a time, from 1.
    pub in_flight: u32,
    /// The unit of all work in this run.
    pub unit: WorkUnit,
    /// Estimated work of the longest packet, from 1, in the unit of the run.
    pub longest: Work,
    /// Weights of the first clients; other clients have [`Weight::ONE`].
    pub weights: Vec<Weight>,
    /// Estimated work of a packet of each service before any measurement, in the unit of the run.
    /// One entry for each service.
    pub estimates: Vec<LinearCost>,
    /// The services, from 1 to 65,535.
    pub services: Vec<ServiceConfig>,
    /// Services whose code a core keeps, from 1: a core returns to one of them in no time.
    pub services_per_core: usize,
    /// The order of two equals.
    pub ties: Ties,
    /// The seed of random policies.
    pub seed: Seed,
    /// Limits of queues and clients.
    pub limits: Limits,
    /// Whether a client may have only one packet in service where several cores pull from one
    /// queue.
    pub flow_order: FlowOrder,
    /// The services that packets go through, by chain, from 1 to 255 each. Empty: each packet has its own service
    /// alone.
    pub chains: Vec<Vec<ServiceId>>,
    /// The exit that puts packets back in the order of their flow. `None`: no exit. Packets that
    /// wait there count against [`SchedulerConfig::packets`]. So cores that continue while one is
    /// stuck cannot overrun the exit.
    pub exit: Option<ExitOrder>,
    /// Which flows are too much for one core and are split over several. `None`: no flow. Splitting
    /// needs a steering policy, work in ns, and order at the exit.
    pub split: Option<Split>,
    /// Time to hand a packet to its core, in ns, in addition to the work; used where work is time.
    /// Clients are charged for it, and estimates should include it.
    pub hand_over: Time,
    /// How this machine finds the winner of a rendezvous. Files leave it out: it never changes a decision.
    #[serde(skip)]
    pub rendezvous: Rendezvous,
}

impl Default for SchedulerConfig {
    /// The default: one core, one client, one service, 1024 packets of at most 1514 bytes, bytes as
    /// the unit of work, and no limits.
    fn default() -> Self {
        Self {
            cores: 1,
            contexts: 1,
            speeds: Vec::new(),
            topology: None,
            flows: 1,
            clients: 1,
            packets: 1024,
            in_flight: 1,
            unit: WorkUnit::Bytes,
            longest: Self::LONGEST_BYTES.into(),
            weights: Vec::new(),
            estimates: vec![LinearCost::BYTES],
            services: vec![ServiceConfig::default()],
            services_per_core: 1,
            ties: Ties::Lowest,
            seed: Seed(1),
            limits: Limits::default(),
            flow_order: FlowOrder::default(),
            chains: Vec::new(),
            exit: None,
            split: None,
            hand_over: Time::ZERO,
            rendezvous: Rendezvous::default(),
        }
    }
}

/// Setters for programs that must compile after fields are added. Crates of this workspace write
/// `..SchedulerConfig::default()`.
impl SchedulerConfig {
    /// Returns the configuration of a run on this many cores, with defaults otherwise.
    pub fn new(cores: usize) -> Self {
        Self { cores, ..Self::default() }
    }

    /// Sets the topology of the cores.
    #[must_use]
    pub fn with_topology(self, topology: Topology) -> Self {
        Self { topology: Some(topology), ..self }
    }

    /// Sets the number of flow ids.
    #[must_use]
    pub fn with_flows(self, flows: usize) -> Self {
        Self { flows, ..self }
    }

    /// Sets the clients: one id for each weight.
    #[must_use]
    pub fn with_clients(self, weights: Vec<Weight>) -> Self {
        Self { clients: weights.len(), weights, ..self }
    }

    /// Sets the most packets held at once.
    #[must_use]
    pub fn with_packets(self, packets: usize) -> Self {
        Self { packets, ..self }
    }

    /// Sets the most packets that a core is handed at a time.
    #[must_use]
    pub fn with_in_flight(self, in_flight: u32) -> Self {
        Self { in_flight, ..self }
    }

    /// Sets the unit of work, and the estimated work of the longest packet in it.
    #[must_use]
    pub fn with_unit(self, unit: WorkUnit, longest: Work) -> Self {
        Self { unit, longest, ..self }
    }

    /// Sets the services, and the estimated work of a packet of each.
    #[must_use]
    pub fn with_services(self, services: Vec<ServiceConfig>, estimates: Vec<LinearCost>) -> Self {
        Self { services, estimates, ..self }
    }

    /// Sets the seed of random policies.
    #[must_use]
    pub fn with_seed(self, seed: Seed) -> Self {
        Self { seed, ..self }
    }

    /// Sets the limits of queues and clients.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets whether a client is held to one packet in service.
    #[must_use]
    pub fn with_flow_order(self, flow_order: FlowOrder) -> Self {
        Self { flow_order, ..self }
    }

    /// Sets the services that packets go through, by chain.
    #[must_use]
    pub fn with_chains(self, chains: Vec<Vec<ServiceId>>) -> Self {
        Self { chains, ..self }
    }

    /// Sets whether packets leave in the order of their flow.
    #[must_use]
    pub fn with_exit(self, exit: impl Into<Option<ExitOrder>>) -> Self {
        Self { exit: exit.into(), ..self }
    }

    /// Sets whether flows that are too much for one core go to several.
    #[must_use]
    pub fn with_split(self, split: impl Into<Option<Split>>) -> Self {
        Self { split: split.into(), ..self }
    }

    /// Sets the time to hand a packet to its core.
    #[must_use]
    pub fn with_hand_over(self, hand_over: Time) -> Self {
        Self { hand_over, ..self }
    }

    /// Sets how this machine finds the winner of a rendezvous.
    #[must_use]
    pub fn with_rendezvous(self, rendezvous: Rendezvous) -> Self {
        Self { rendezvous, ..self }
    }
}

impl SchedulerConfig {
    /// Length of the longest packet unless a host says otherwise, in bytes: an Ethernet frame.
    pub const LONGEST_BYTES: u32 = 1514;

    /// Returns the weight of a client at the start.
    pub fn weight(&self, client: ClientId) -> Weight {
        self.weights.get(client.0 as usize).copied().unwrap_or_default()
    }

    /// Returns the speed of a core, in thousandths.
    pub fn speed(&self, core: CoreId) -> u32 {
        self.speeds.get(core.index()).copied().unwrap_or(1000)
    }

    /// Returns the number of processing elements.
    pub fn elements(&self) -> usize {
        self.cores.div_ceil(self.contexts)
    }

    /// Returns the element of a core.
    pub fn element(&self, core: CoreId) -> ElementId {
        ElementId::from_index(core.index() / self.contexts)
    }

    /// Returns the configuration of a service.
    pub fn service(&self, service: ServiceId) -> &ServiceConfig {
        &self.services[usize::from(service.0)]
    }
}

/// Checks.
impl SchedulerConfig {
    /// Rejects an invalid configuration. [`Scheduler::new`](crate::mechanism::Scheduler::new) calls
    /// this.
    ///
    /// # Errors
    /// A number is out of its range, or fields contradict each other; the message says which.
    pub fn check(&self) -> Result<(), BuildError> {
        let refuse = |message| Err(BuildError::set_up(message));
        if self.cores == 0 || self.cores > usize::from(u16::MAX) {
            return refuse(format!("there must be 1 to {} cores, not {}", u16::MAX, self.cores));
        }
        if self.contexts == 0 || !self.cores.is_multiple_of(self.contexts) {
            return refuse(format!("{} cores are no elements of {} contexts each", self.cores, self.contexts));
        }
        if let Some(topology) = self.topology.as_ref().filter(|topology| topology.cores() != self.cores) {
            return refuse(format!("the topology has {} cores, the run {}", topology.cores(), self.cores));
        }
        if self.packets == 0 || self.packets >= u32::MAX as usize - 1 {
            return refuse(format!("there must be room for 1 to {} packets, not {}", u32::MAX - 2, self.packets));
        }
        if self.in_flight == 0 {
            return refuse("a core is handed one packet or more at a time, not 0".to_owned());
        }
        if self.services_per_core == 0 {
            return refuse("a core keeps the code of one service or more, not of 0".to_owned());
        }
        if self.speeds.contains(&0) {
            return refuse("a speed is from 1, not 0".to_owned());
        }
        self.check_services()?;
        if self.exit.is_some_and(|exit| exit.packets == 0 || exit.packets >= u32::MAX - 1) {
            return refuse(format!("1 to {} packets may wait at the exit", u32::MAX - 2));
        }
        Ok(())
    }

    fn check_services(&self) -> Result<(), BuildError> {
        let refuse = |message| Err(BuildError::set_up(message));
        let services = self.services.len();
        if services == 0 || services != self.estimates.len() {
            return refuse(format!("{services} services with {} estimates", self.estimates.len()));
        }
        if self.chains.iter().any(|chain| chain.is_empty() || chain.len() > usize::from(u8::MAX)) {
            return refuse(format!("a chain has 1 to {} services", u8::MAX));
        }
        if let Some(service) = self.chains.iter().flatten().find(|service| service.index() >= services) {
            return refuse(format!("a chain names service {service}, and there are {services}, from 0"));
        }
        Ok(())
    }

    /// Rejects split flows unless there are a steering policy, work in ns and an exit.
    pub(crate) fn check_split(&self, steers: bool) -> Result<(), BuildError> {
        let Some(split) = self.split else { return Ok(()) };
        let refuse = |message: &str| Err(BuildError::combination(message));
        if !(2..=Split::CORES_MAX).contains(&split.cores) || split.window == Time::ZERO {
            return Err(BuildError::set_up(format!(
                "a flow is split over 2 to {} cores, by its work in some time, not over {} by that in {} ns",
                Split::CORES_MAX,
                split.cores,
                split.window.as_ns()
            )));
        }
        if !steers {
            return refuse(
                "flows are split where packets are steered to cores: name a steering policy, conn for example",
            );
        }
        if self.unit != WorkUnit::Nanoseconds {
            return refuse("a flow is split by its share of a core, which is a time: let the unit of work be ns");
        }
        if self.exit.is_none() {
            return refuse("flows that are split need order at the exit");
        }
        Ok(())
    }

    /// Also rejects, beyond [`SchedulerConfig::check`], what a host in another language may pass by
    /// mistake: more than `places_max` of anything that has a place in memory, more weights than
    /// clients, and numbers that overflow.
    ///
    /// # Errors
    /// As [`SchedulerConfig::check`].
    pub fn check_within(&self, places_max: usize) -> Result<(), BuildError> {
        for (what, count, most) in [
            ("cores", self.cores, usize::from(u16::MAX)),
            ("contexts", self.contexts, self.cores),
            ("clients", self.clients, places_max),
            ("flows", self.flows, places_max),
            ("packets", self.packets, places_max),
        ] {
            if !(1..=most).contains(&count) {
                return Err(BuildError::set_up(format!("there may be 1 to {most} {what}, not {count}")));
            }
        }
        let services = self.services.len();
        if services > usize::from(u16::MAX) || services.saturating_mul(self.cores) > places_max {
            return Err(BuildError::too_large(format!("{services} services on {} cores are too many", self.cores)));
        }
        for (what, count, whose, most) in [
            ("weights", self.weights.len(), "clients", self.clients),
            ("speeds", self.speeds.len(), "cores", self.cores),
        ] {
            if count > most {
                return Err(BuildError::set_up(format!("{count} {what} for {most} {whose}")));
            }
        }
        let too_dear = |cost: &&LinearCost| cost.fixed.max(cost.per_byte_milli).max(cost.cold) > u64::from(u32::MAX);
        if let Some(cost) = self.estimates.iter().find(too_dear) {
            return Err(BuildError::set_up(format!("the parts of an estimate are at most {}: {cost:?}", u32::MAX)));
        }
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[track_caller]
    fn refused(config: &SchedulerConfig, words: &str) {
        assert_eq!(config.check().unwrap_err().to_string(), words);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = SchedulerConfig::new(4);
        good.check().unwrap();
        refused(&SchedulerConfig { cores: 0, ..good.clone() }, "there must be 1 to 65535 cores, not 0");
        refused(&SchedulerConfig { contexts: 3, ..good.clone() }, "4 cores are no elements of 3 contexts each");
        refused(&good.clone().with_topology(Topology::flat(3)), "the topology has 3 cores, the run 4");
        refused(&good.clone().with_packets(0), "there must be room for 1 to 4294967293 packets, not 0");
        refused(&good.clone().with_in_flight(0), "a core is handed one packet or more at a time, not 0");
        refused(
            &SchedulerConfig { services_per_core: 0, ..good.clone() },
            "a core keeps the code of one service or more, not of 0",
        );
        refused(&SchedulerConfig { speeds: vec![1000, 0], ..good.clone() }, "a speed is from 1, not 0");
        refused(&good.clone().with_services(Vec::new(), Vec::new()), "0 services with 0 estimates");
        refused(&good.clone().with_chains(vec![Vec::new()]), "a chain has 1 to 255 services");
        refused(
            &good.clone().with_chains(vec![vec![ServiceId(1)]]),
            "a chain names service 1, and there are 1, from 0",
        );
        let exit = ExitOrder { packets: 0, timeout: Time::MAX };
        refused(&good.with_exit(exit), "1 to 4294967293 packets may wait at the exit");
    }

    #[test]
    fn hosts_may_ask_for_a_bounded_amount_of_memory() {
        let good = SchedulerConfig::new(4).with_flows(8);
        good.check_within(1024).unwrap();
        let words = good.clone().with_flows(1025).check_within(1024).unwrap_err().to_string();
        assert_eq!(words, "there may be 1 to 1024 flows, not 1025");
        let crowded = SchedulerConfig { weights: vec![Weight::ONE; 2], ..good };
        let words = crowded.check_within(1024).unwrap_err().to_string();
        assert_eq!(words, "2 weights for 1 clients");
    }
}
