//! Connections, what each holds, and the cores that are its own: what `ps-hrw` and `gps-hrw` share.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::choice;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{salt, score};
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{BuildError, Target, View};

use super::bid::{Cost, Exact, highest, length};
use super::core_sets::{CoreSets, SetId};
use super::parts::{Beta, ONE, Part};

choice! {
    /// How weights enter a hash.
    pub enum Multiplier {
        /// They multiply it; those of theorem 1 where a core is chosen among all.
        Carp = "carp",
        /// -weight / (length · ln hash): shares are exactly proportional to weight / length.
        Log = "log",
    }
}

choice! {
    /// What a connection's part is taken of.
    pub enum Weight {
        /// The bytes held.
        Backlog = "backlog",
        /// The weights of the clients that hold any; of its client's part, by bytes.
        Class = "class",
        /// The estimated work held.
        Work = "work",
    }
}

/// Most counts of clients and services together: 128 MiB.
const CLASSES_MAX: usize = 1 << 24;

/// No packet: sequence numbers do not come so far.
const NONE: u64 = u64::MAX;

/// What is known of one connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// φ: what it has waiting and in service.
    held: u64,
    /// φ when its set was built.
    held_when_built: u64,
    /// The number of its last packet while that is there, else [`NONE`].
    last_packet: u64,
    /// The set of its cores, if they are more than one.
    pub(super) set: Option<SetId>,
    /// Weight of `core` in 1/2^32; 0 if there is no rest. Neither whole cores nor a rest: no set was ever built.
    pub(super) rest: u32,
    /// Comings and goings of connections that its set knows of.
    seen: u32,
    /// Its core for the rest, or its only core.
    pub(super) core: CoreId,
    /// Number of its whole cores.
    pub(super) whole: u16,
    /// Where its last packet went.
    last_core: CoreId,
}

impl Connection {
    const NEW: Self = Self {
        held: 0,
        held_when_built: 0,
        last_packet: NONE,
        set: None,
        rest: 0,
        seen: 0,
        core: CoreId(0),
        whole: 0,
        last_core: CoreId(0),
    };

    pub(super) fn is_new(&self) -> bool {
        self.whole == 0 && self.rest == 0
    }

    /// Where its last packet is; none if that is done.
    #[inline]
    pub(super) fn last_core(&self) -> Option<CoreId> {
        (self.last_packet != NONE).then_some(self.last_core)
    }

    /// What a core of its set weighs, in 1/2^32.
    #[inline]
    pub(super) fn weight(&self, core: CoreId) -> u64 {
        if self.rest > 0 && core == self.core { u64::from(self.rest) } else { ONE }
    }
}

/// A set that is being built.
#[derive(Debug)]
pub(super) struct Draft {
    /// What the connection should have.
    pub(super) part: Part,
    /// The set, still empty; none if the connection has one core.
    pub(super) set: Option<SetId>,
}

/// What decides when sets are built, and what for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// By what part a connection changes before its set is built anew.
    pub(super) beta: f64,
    pub(super) multiplier: Multiplier,
    pub(super) weight: Weight,
    /// Whether a connection that comes or goes has all sets built anew.
    pub(super) eager: bool,
}

/// What clients hold, for parts that follow from their weights.
#[derive(Debug)]
struct Classes {
    clients: usize,
    /// By client.
    weights: Vec<u32>,
    /// Bytes by service, then by client.
    held: Vec<u64>,
    /// By service: the weights of the clients that hold any, together.
    active: IdVec<ServiceId, u64>,
}

impl Classes {
    fn new(config: &SchedulerConfig) -> Result<Self, BuildError> {
        let (clients, services) = (config.clients, config.services.len());
        if clients.saturating_mul(services) > CLASSES_MAX {
            return Err(BuildError::too_large(format!(
                "`weight=class` takes {CLASSES_MAX} clients and services at most, multiplied, not {clients} and {services}: \
                 have fewer, or `weight=backlog`"
            )));
        }
        Ok(Self {
            clients,
            weights: (0..clients).map(|client| config.weight(ClientId::from_index(client)).get()).collect(),
            held: vec![0; clients * services],
            active: vec![0; services].into_iter().collect(),
        })
    }

    fn held(&mut self, packet: &Packet) -> &mut u64 {
        &mut self.held[packet.service.index() * self.clients + packet.client.index()]
    }

    fn join(&mut self, packet: &Packet) {
        let weight = self.weights[packet.client.index()];
        let held = self.held(packet);
        // A packet without bytes neither makes a client active nor ends that.
        let begins = *held == 0 && packet.length > 0;
        *held += u64::from(packet.length);
        if begins {
            self.active[packet.service] += u64::from(weight);
        }
    }

    fn leave(&mut self, packet: &Packet) {
        let weight = self.weights[packet.client.index()];
        let held = self.held(packet);
        *held -= u64::from(packet.length);
        if *held == 0 && packet.length > 0 {
            self.active[packet.service] -= u64::from(weight);
        }
    }

    /// The part of a connection that holds so much with this packet: its client's by weight, its own of that by bytes.
    fn part(&mut self, packet: &Packet, held: u64, cores: usize) -> Part {
        let weight = self.weights[packet.client.index()];
        let of_client = *self.held(packet);
        let begins = if of_client == 0 { weight } else { 0 };
        let active = u128::from(self.active[packet.service] + u64::from(begins));
        let whole = u128::from(of_client + u64::from(packet.length));
        Part::of(u128::from(weight) * u128::from(held), active * whole, cores)
    }
}

/// Connections, what each holds, and the cores that are its own.
#[derive(Debug)]
pub(super) struct Connections {
    multiplier: Multiplier,
    weight: Weight,
    eager: bool,
    beta: Beta,
    /// By core.
    pub(super) salts: Vec<u64>,
    connections: IdVec<FlowId, Connection>,
    pub(super) sets: CoreSets,
    /// Φ: what waits and is in service, by service.
    totals: IdVec<ServiceId, u64>,
    /// Where the weights of clients count.
    classes: Option<Classes>,
    /// Connections that have come and gone, where that matters.
    changes: u32,
    /// Sets built since the start.
    built: u64,
    /// Sets of one core because the pool was full.
    crowded_out: u64,
}

impl Connections {
    /// # Errors
    /// Too many clients and services for `weight=class`.
    pub(super) fn new(rules: Rules, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self {
            multiplier: rules.multiplier,
            weight: rules.weight,
            eager: rules.eager,
            beta: Beta::new(rules.beta),
            salts: (0..config.cores as u64).map(salt).collect(),
            connections: vec![Connection::NEW; config.flows].into_iter().collect(),
            sets: CoreSets::new(config.cores, config.flows),
            totals: vec![0; config.services.len()].into_iter().collect(),
            classes: if rules.weight == Weight::Class { Some(Classes::new(config)?) } else { None },
            changes: 0,
            built: 0,
            crowded_out: 0,
        })
    }

    /// How weights enter a hash.
    pub(super) fn multiplier(&self) -> Multiplier {
        self.multiplier
    }

    #[inline]
    pub(super) fn of(&self, flow: FlowId) -> &Connection {
        &self.connections[flow]
    }

    /// How many sets were built.
    pub(super) fn built(&self) -> u64 {
        self.built
    }

    /// How many of these had one core because there was no memory for more.
    pub(super) fn crowded_out(&self) -> u64 {
        self.crowded_out
    }

    /// What a packet adds to what its connection holds.
    #[inline]
    fn amount(&self, packet: &Packet) -> u64 {
        if self.weight == Weight::Work { packet.estimate } else { u64::from(packet.length) }
    }

    /// The packet has joined a queue: that of `target`.
    #[inline]
    pub(super) fn on_enqueue(&mut self, target: Target, packet: &Packet) {
        let amount = self.amount(packet);
        let connection = &mut self.connections[packet.flow];
        connection.held += amount;
        if let Some(core) = target.core() {
            connection.last_core = core;
            connection.last_packet = packet.sequence;
        }
        self.totals[packet.service] += amount;
        if let Some(classes) = &mut self.classes {
            classes.join(packet);
        }
    }

    /// The packet is gone.
    #[inline]
    pub(super) fn leave(&mut self, packet: &Packet) {
        let amount = self.amount(packet);
        let connection = &mut self.connections[packet.flow];
        connection.held -= amount;
        if connection.last_packet == packet.sequence {
            connection.last_packet = NONE;
        }
        self.totals[packet.service] -= amount;
        if let Some(classes) = &mut self.classes {
            classes.leave(packet);
        }
    }

    pub(super) fn on_flow_end(&mut self, flow: FlowId) {
        let connection = &mut self.connections[flow];
        debug_assert_eq!(connection.held, 0, "flow {flow} ends and holds something");
        if let Some(set) = connection.set.take() {
            self.sets.free(set);
        }
        if !connection.is_new() && self.eager {
            self.changes = self.changes.wrapping_add(1);
        }
        *connection = Connection::NEW;
    }

    /// Whether the packet changes φ so much that a new set is due, or others have come or gone and that counts.
    #[inline]
    pub(super) fn is_stale(&self, packet: &Packet) -> bool {
        let connection = &self.connections[packet.flow];
        connection.is_new()
            || self.beta.is_exceeded(connection.held_when_built, connection.held + self.amount(packet))
            || connection.seen != self.changes
    }

    /// The core of the connection's set to which this packet goes; none if none of them is eligible.
    #[inline]
    pub(super) fn choose(&self, packet: &Packet, view: &View<'_>) -> Option<CoreId> {
        let connection = &self.connections[packet.flow];
        let Some(set) = connection.set else {
            return Some(connection.core).filter(|&core| view.is_eligible(core));
        };
        let cores = self.sets.iter(set);
        if view.eligible.len() == view.cores.len() {
            return self.highest(connection, packet.key, cores, view);
        }
        self.highest(connection, packet.key, cores.filter(|&core| view.is_eligible(core)), view)
    }

    /// The core of these, of the connection's set, that bids highest.
    #[inline]
    fn highest(
        &self,
        connection: &Connection,
        key: u64,
        cores: impl Iterator<Item = CoreId>,
        view: &View<'_>,
    ) -> Option<CoreId> {
        let score = |core: CoreId| score(key, self.salts[core.index()]);
        match self.multiplier {
            Multiplier::Carp if connection.rest == 0 => {
                highest(cores.map(|core| (core, Exact::new(score(core), length(view, core)))))
            }
            Multiplier::Carp => highest(
                cores.map(|core| (core, Exact::weighted(score(core), connection.weight(core), length(view, core)))),
            ),
            Multiplier::Log => {
                highest(cores.map(|core| {
                    (core, Cost::log(score(core), connection.weight(core) as f64, length(view, core) as f64))
                }))
            }
        }
    }

    /// Begins a new set for the packet's connection, as if the packet had joined already.
    pub(super) fn begin(&mut self, packet: &Packet, cores: usize) -> Draft {
        let amount = self.amount(packet);
        let connection = &mut self.connections[packet.flow];
        if let Some(set) = connection.set.take() {
            self.sets.free(set);
        }
        if connection.is_new() && self.eager {
            self.changes = self.changes.wrapping_add(1);
        }
        let held = connection.held + amount;
        connection.held_when_built = held;
        let mut part = match &mut self.classes {
            Some(classes) => classes.part(packet, held, cores),
            None => Part::of(u128::from(held), u128::from(self.totals[packet.service] + amount), cores),
        };
        let set = if part.is_several() { self.sets.take() } else { None };
        if part.is_several() && set.is_none() {
            self.crowded_out += 1;
            part = Part { whole: 1, rest: 0 };
        }
        Draft { part, set }
    }

    /// The set is built: `core` is the core for the rest, or the only one.
    pub(super) fn finish(&mut self, flow: FlowId, draft: Draft, core: CoreId) {
        let Draft { part: Part { whole, mut rest }, set } = draft;
        if whole == 0 {
            rest = rest.max(1);
        }
        let connection = &mut self.connections[flow];
        connection.set = set;
        connection.core = core;
        connection.whole = whole as u16;
        connection.rest = rest;
        connection.seen = self.changes;
        self.built += 1;
    }

    /// Panics unless the φ of all connections sum to Φ, and every set has one owner and the cores that it should.
    pub(super) fn check(&self) {
        let held: u64 = self.connections.iter().map(|connection| connection.held).sum();
        assert_eq!(held, self.totals.iter().sum::<u64>(), "what connections hold, and all");
        if let Some(classes) = &self.classes {
            assert_eq!(held, classes.held.iter().sum::<u64>(), "what connections hold, and clients");
        }
        let owned = self.connections.iter().filter(|connection| connection.set.is_some()).count();
        assert_eq!(owned, self.sets.used(), "sets with an owner, and in use");
        for flow in self.connections.ids() {
            let connection = &self.connections[flow];
            let Some(set) = connection.set else {
                assert!(connection.whole <= 1, "connection {flow} has {} cores and no set", connection.whole);
                continue;
            };
            let cores = self.sets.iter(set).count();
            let rest = usize::from(connection.rest > 0);
            assert_eq!(cores, usize::from(connection.whole) + rest, "cores of connection {flow}");
            assert!(
                rest == 0 || self.sets.contains(set, connection.core),
                "the core for the rest of connection {flow}"
            );
        }
    }

    /// What a connection holds, and all of a service: for tests.
    #[cfg(test)]
    pub(super) fn held(&self, flow: FlowId) -> u64 {
        self.connections[flow].held
    }

    #[cfg(test)]
    pub(super) fn total(&self, service: ServiceId) -> u64 {
        self.totals[service]
    }

    /// The cores of a connection, and the weight of the last in a thousand: 1000 if there is no rest.
    #[cfg(test)]
    pub(super) fn cores_of(&self, flow: FlowId) -> (Vec<CoreId>, u64) {
        let connection = &self.connections[flow];
        let cores = match connection.set {
            Some(set) => self.sets.iter(set).collect(),
            None => vec![connection.core],
        };
        (cores, connection.weight(connection.core) * 1000 / ONE)
    }
}
