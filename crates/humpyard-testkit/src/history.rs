//! A history: everything that happens to a scheduler from outside.

use core::fmt;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::LinearCost;
use humpyard_core::id::{ClientId, FlowId, Id, ServiceId};
use humpyard_core::mechanism::{ExitOrder, FlowOrder, Limits, Split};
use humpyard_core::packet::Packet;
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight, Work, WorkUnit};

/// Something that happens to a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A packet arrives; it will keep a core busy for `busy`.
    Arrive {
        /// The packet, as the driver hands it over.
        packet: Packet,
        /// How long its service takes.
        busy: Time,
    },
    /// A client gets another weight.
    SetWeight(ClientId, Weight),
    /// A client ends if it is idle; later arrivals use its id again.
    EndClient(ClientId),
}

/// A run as seen from outside: the configuration, and the events with their times. Completions
/// follow from the decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// Number of cores.
    pub cores: usize,
    /// Contexts of each element.
    pub contexts: usize,
    /// Most packets that a core is handed before it has finished the first.
    pub in_flight: usize,
    /// The weight of every client at the start.
    pub weights: Vec<Weight>,
    /// The estimated cost of a packet, by service.
    pub estimates: Vec<LinearCost>,
    /// Estimated work of the longest packet.
    pub longest: Work,
    /// Most packets held.
    pub packets: usize,
    /// Limits of queues and clients.
    pub limits: Limits,
    /// The services of each chain. Empty: there are no chains.
    pub chains: Vec<Vec<ServiceId>>,
    /// Whether packets are put back in order when they leave.
    pub exit: Option<ExitOrder>,
    /// Whether flows that are too much for one core go to several.
    pub split: Option<Split>,
    /// Whether clients keep their order on several cores.
    pub flow_order: FlowOrder,
    /// The unit of work.
    pub unit: WorkUnit,
    /// Number of flow ids.
    pub flows: usize,
    /// The seed of random policies.
    pub seed: Seed,
    /// The events, by ascending time.
    pub events: Vec<(Time, Event)>,
    pub(crate) services: Vec<ServiceConfig>,
}

impl History {
    /// Returns the configuration of the run.
    pub fn config(&self) -> SchedulerConfig {
        SchedulerConfig {
            cores: self.cores,
            contexts: self.contexts,
            flows: self.flows,
            clients: self.weights.len(),
            packets: self.packets,
            unit: self.unit,
            longest: self.longest,
            in_flight: self.in_flight as u32,
            weights: self.weights.clone(),
            estimates: self.estimates.clone(),
            services: self.services.clone(),
            seed: self.seed,
            limits: self.limits,
            flow_order: self.flow_order,
            chains: self.chains.clone(),
            exit: self.exit,
            split: self.split,
            ..SchedulerConfig::default()
        }
    }

    /// Returns the flows of a client; all clients have the same number, in order.
    pub fn flows_of(&self, client: ClientId) -> impl Iterator<Item = FlowId> + use<> {
        let each = self.flows / self.weights.len();
        (client.index() * each..(client.index() + 1) * each).map(FlowId::from_index)
    }

    /// Number of packets that arrive.
    pub fn arrivals(&self) -> usize {
        self.events.iter().filter(|(_, event)| matches!(event, Event::Arrive { .. })).count()
    }

    /// The same history with every weight replaced.
    #[must_use]
    pub fn with_weights(mut self, mut replace: impl FnMut(Weight) -> Weight) -> Self {
        self.weights.iter_mut().for_each(|weight| *weight = replace(*weight));
        for (_, event) in &mut self.events {
            if let Event::SetWeight(_, weight) = event {
                *weight = replace(*weight);
            }
        }
        self
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} cores, {} in flight, weights {:?}, {:?}", self.cores, self.in_flight, self.weights, self.unit)?;
        writeln!(f, "{} contexts, chains {:?}, exit {:?}", self.contexts, self.chains, self.exit)?;
        if let Some(split) = self.split {
            writeln!(f, "{split:?}")?;
        }
        writeln!(
            f,
            "{} packets, {:?}, order {:?}, longest {}",
            self.packets, self.limits, self.flow_order, self.longest
        )?;
        for (service, estimate) in self.estimates.iter().enumerate() {
            writeln!(f, "service {service}: {} + {}/1000 per byte", estimate.fixed, estimate.per_byte_milli)?;
        }
        for (number, (time, event)) in self.events.iter().enumerate() {
            write!(f, "{number:4} {:>9} ", time.as_ns())?;
            match event {
                Event::Arrive { packet, busy } => writeln!(
                    f,
                    "client {} flow {} service {}: {} bytes, busy {}",
                    packet.client,
                    packet.flow,
                    packet.service,
                    packet.length,
                    busy.as_ns()
                )?,
                Event::SetWeight(client, weight) => writeln!(f, "client {client}: weight {weight:?}")?,
                Event::EndClient(client) => writeln!(f, "client {client}: ends if idle")?,
            }
        }
        Ok(())
    }
}
