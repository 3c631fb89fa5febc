//! Connections, the amount that each holds, and its own cores: shared by `ps-hrw` and `gps-hrw`. The
//! algorithm and a picture of the state are in `ps_hrw.rs`.

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
        /// They multiply it. If a core is chosen among all, they are those of theorem 1.
        Carp = "carp",
        /// -weight / (length · ln hash): shares are exactly proportional to weight / length.
        Log = "log",
    }
}

choice! {
    /// The quantity that determines a connection's part.
    pub enum Weight {
        /// The bytes held.
        Backlog = "backlog",
        /// The weights of the clients that hold bytes; bytes divide a client's part among its connections.
        Class = "class",
        /// The estimated work held.
        Work = "work",
    }
}

/// The most counts of clients and services together: 128 MiB.
const CLASSES_MAX: usize = 1 << 24;

/// Stands for no packet; sequence numbers never reach this value.
const NONE: u64 = u64::MAX;

/// The state of one connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// φ: the amount of its waiting packets and of those in service.
    held: u64,
    /// φ when its set was built.
    held_when_built: u64,
    /// The sequence number of its last packet while that packet waits or is in service, else [`NONE`].
    last_packet: u64,
    /// The set of its cores. `None`: it has one core at most.
    pub(super) set: Option<SetId>,
    /// The weight of `core` in 1/2^32; 0: there is no rest. With neither whole cores nor a rest, no
    /// set was built yet.
    pub(super) rest: u32,
    /// The value of `changes` when its set was built.
    seen: u32,
    /// Its core for the rest, or its only core.
    pub(super) core: CoreId,
    /// Number of its whole cores.
    pub(super) whole: u16,
    /// The core of its last packet.
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

    /// Returns the core of its last packet. `None`: that packet is done.
    #[inline]
    pub(super) fn last_core(&self) -> Option<CoreId> {
        (self.last_packet != NONE).then_some(self.last_core)
    }

    /// Returns the weight of a core of its set, in 1/2^32.
    #[inline]
    pub(super) fn weight(&self, core: CoreId) -> u64 {
        if self.rest > 0 && core == self.core { u64::from(self.rest) } else { ONE }
    }
}

/// A set that is being built.
#[derive(Debug)]
pub(super) struct Draft {
    /// The part that the connection should have.
    pub(super) part: Part,
    /// The set, still empty. `None`: the connection has one core.
    pub(super) set: Option<SetId>,
}

/// The rules for when sets are built and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The relative change of a connection after which its set is rebuilt.
    pub(super) beta: f64,
    pub(super) multiplier: Multiplier,
    pub(super) weight: Weight,
    /// Whether a new or ended connection causes all sets to be rebuilt.
    pub(super) eager: bool,
}

/// The amounts that clients hold, for parts by weight.
#[derive(Debug)]
struct Classes {
    clients: usize,
    /// The weight of each client.
    weights: Vec<u32>,
    /// Bytes by service, then by client.
    held: Vec<u64>,
    /// By service: the sum of the weights of the clients that hold bytes.
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
        // A packet without bytes does not change whether a client is active.
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

    /// Returns the part of a connection that holds `held` with this packet. Its client's part is by
    /// weight; its part of that is by bytes.
    fn part(&mut self, packet: &Packet, held: u64, cores: usize) -> Part {
        let weight = self.weights[packet.client.index()];
        let of_client = *self.held(packet);
        let begins = if of_client == 0 { weight } else { 0 };
        let active = u128::from(self.active[packet.service] + u64::from(begins));
        let whole = u128::from(of_client + u64::from(packet.length));
        Part::of(u128::from(weight) * u128::from(held), active * whole, cores)
    }
}

/// Connections, the amount that each holds, and its own cores.
#[derive(Debug)]
pub(super) struct Connections {
    multiplier: Multiplier,
    weight: Weight,
    eager: bool,
    beta: Beta,
    /// The salt of each core.
    pub(super) salts: Vec<u64>,
    connections: IdVec<FlowId, Connection>,
    pub(super) sets: CoreSets,
    /// Φ: the amount that waits and is in service, by service.
    totals: IdVec<ServiceId, u64>,
    /// The amounts by client. `None`: client weights do not count.
    classes: Option<Classes>,
    /// The number of connections that came or went, if that matters.
    changes: u32,
    /// Sets built since the start.
    built: u64,
    /// Sets reduced to one core because the pool was full.
    crowded_out: u64,
}

impl Connections {
    /// # Errors
    /// Rejects too many clients and services for `weight=class`.
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

    /// Returns the amount that a packet adds to its connection.
    #[inline]
    fn amount(&self, packet: &Packet) -> u64 {
        if self.weight == Weight::Work { packet.estimate } else { u64::from(packet.length) }
    }

    /// Whether a new set is due: the connection is new, or φ with this packet differs by more than β
    /// from φ at the last build. With `eager`, also if connections came or went.
    #[inline]
    pub(super) fn is_stale(&self, packet: &Packet) -> bool {
        let connection = &self.connections[packet.flow];
        connection.is_new()
            || self.beta.is_exceeded(connection.held_when_built, connection.held + self.amount(packet))
            || connection.seen != self.changes
    }

    /// Returns the core of the connection's set for this packet. `None`: none of its cores is eligible.
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

    /// Returns the highest bidder of these cores, which belong to the connection's set.
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

    /// Begins a new set for the packet's connection, as if the packet had already joined.
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

    /// Completes the set: `core` is the core for the rest, or the only one.
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

    /// Records that the packet has joined the queue of `target`.
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

    /// Records that the packet is gone.
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

    /// Returns how weights enter a hash.
    pub(super) fn multiplier(&self) -> Multiplier {
        self.multiplier
    }

    #[inline]
    pub(super) fn of(&self, flow: FlowId) -> &Connection {
        &self.connections[flow]
    }

    /// Returns the number of sets built.
    pub(super) fn built(&self) -> u64 {
        self.built
    }

    /// Returns the number of these sets that have one core because there was no memory for more.
    pub(super) fn crowded_out(&self) -> u64 {
        self.crowded_out
    }

    /// Panics unless the φ of all connections sum to Φ, and every set has one owner and the right
    /// number of cores.
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

    /// Returns the amount that a connection holds: for tests.
    #[cfg(test)]
    pub(super) fn held(&self, flow: FlowId) -> u64 {
        self.connections[flow].held
    }

    #[cfg(test)]
    pub(super) fn total(&self, service: ServiceId) -> u64 {
        self.totals[service]
    }

    /// Returns the cores of a connection, and the weight of the last in thousandths: 1000 if there is no rest.
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
