//! The central queue of `jbsq`, `ps`, `shinjuku` and `concord`: packets wait in one line, and then at a core.
//!
//! One *place* stands for each packet that waits. A place names the packet's client, because a sharing policy picks
//! clients. Places are in one of several lines:
//!
//! ```text
//! arrival -> central line:  c4 c7 c4 c2        at the end of an instant the first place goes to the core
//!                              |               with the fewest packets, if that has fewer than `room`
//!            core 0:  c1 c5    v     serving 1 packet, 3 in all
//!            core 1:  c3             serving 1 packet, 2 in all
//! preemption -> the tail of the central line, or of the core's own (`keeps_core`)
//! ```
//!
//! The packets of a client exchange places so that they start in their order.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use humpyard_core::choice;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, Id, IdVec, QueueId, Slot};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{BuildError, Policy, Share};
use humpyard_core::storage::{IdRings, IdSet};
use humpyard_core::unit::{Time, Weight, Work};

choice! {
    /// What a core does with a packet that has had its quantum if no other packet waits for the core.
    pub enum WhenNoneWaits {
        /// It serves the packet on.
        Stay = "stay",
        /// It gives the packet back, as if one waited.
        Yield = "yield",
    }
}

/// The rules in which the policies with a central queue differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueRules {
    /// Most packets at a core, the one in service included.
    pub(super) room: usize,
    /// `None`: packets are served to their end.
    pub(super) quantum: Option<Time>,
    /// Whether a packet that is not done goes to the tail of its core's line, and not of the central one.
    pub(super) keeps_core: bool,
    /// Whether, of cores with as many packets, the one whose packets have had most quanta comes first.
    pub(super) counts_quanta: bool,
    /// Whether a core keeps a packet after its quantum while no other waits.
    pub(super) stays: bool,
}

impl QueueRules {
    /// Each core has up to `room` packets and serves them to their end.
    pub(super) const fn bounded(room: usize) -> Self {
        Self { room, quantum: None, keeps_core: false, counts_quanta: false, stays: false }
    }
}

/// One packet that waits.
#[derive(Clone, Copy, Debug)]
struct WaitingPlace {
    client: ClientId,
    line: QueueId,
    /// Its number among the places that were taken.
    number: u64,
    /// Quanta that its packet has had, where they are counted.
    quanta: u64,
}

/// The packets of one core.
#[derive(Clone, Copy, Debug, Default)]
struct CoreLine {
    waiting: usize,
    serving: usize,
    /// Quanta that its packets have had, those in service included.
    quanta: u64,
    /// Quanta that its packet in service had before.
    serving_quanta: u64,
}

impl CoreLine {
    fn packets(self) -> usize {
        self.waiting + self.serving
    }
}

/// The central line, and that of each core.
#[derive(Debug)]
pub(super) struct CentralQueue {
    rules: QueueRules,
    places: IdVec<Slot, WaitingPlace>,
    /// The free places, the central line, and the line of each core.
    lines: IdRings<QueueId, Slot>,
    /// The places of each client, in the order of its packets.
    of_client: IdRings<ClientId, Slot>,
    /// The clients whose head may be served.
    offered: IdSet<ClientId>,
    /// Number of clients.
    clients: usize,
    loads: IdVec<CoreId, CoreLine>,
    /// The cores that have asked so far: a queue need not have all cores.
    asking: IdSet<CoreId>,
    /// Number of places taken so far.
    taken: u64,
    /// The instant of the last event. The central line is dealt once its events are over.
    now: Time,
}

const FREE: QueueId = QueueId(0);
const CENTRAL: QueueId = QueueId(1);
/// Cores whose lines have a number, besides those two lines.
const CORES_MAX: usize = u16::MAX as usize - 1;

fn line_of(core: CoreId) -> QueueId {
    QueueId(core.0 + 2)
}

impl CentralQueue {
    /// Returns an empty queue with a place for each packet of the configuration.
    ///
    /// # Errors
    /// There are more cores than lines can be numbered.
    pub(super) fn new(rules: QueueRules, config: &SchedulerConfig) -> Result<Self, BuildError> {
        if config.cores > CORES_MAX {
            let message = format!("a central queue has at most {CORES_MAX} cores, not {}", config.cores);
            return Err(BuildError::too_large(message));
        }
        // One more, for a packet that is pushed out and not yet fetched.
        let places = config.packets + 1;
        let mut lines = IdRings::new(config.cores + 2, places);
        (0..places).for_each(|place| lines.push_back(FREE, Slot::from_index(place)));
        Ok(Self {
            rules,
            places: IdVec::from_fn(places, |_| WaitingPlace { client: ClientId(0), line: FREE, number: 0, quanta: 0 }),
            lines,
            of_client: IdRings::new(config.clients, places),
            offered: IdSet::new(config.clients),
            clients: config.clients,
            loads: IdVec::from_fn(config.cores, |_| CoreLine::default()),
            asking: IdSet::new(config.cores),
            taken: 0,
            now: Time::ZERO,
        })
    }

    /// Deals the central line as it was at the end of the last instant, if that is over.
    fn begin_event(&mut self, now: Time) {
        if now > self.now {
            self.deal();
            self.now = now;
        }
    }

    /// Gives the first places of the central line to cores with room: each to the core with the fewest packets; of
    /// several, to the one whose packets have had most quanta, then to the lowest.
    fn deal(&mut self) {
        while let Some(place) = self.lines.front(CENTRAL) {
            let load = |core: &CoreId| (self.loads[*core].packets(), Reverse(self.loads[*core].quanta), *core);
            let Some(core) = self.asking.iter().min_by_key(load) else { return };
            if self.loads[core].packets() >= self.rules.room {
                return;
            }
            self.move_to(place, line_of(core));
            let load = &mut self.loads[core];
            load.waiting += 1;
            load.quanta += self.places[place].quanta;
        }
    }

    /// Adds a core that asks for the first time. What waits at other cores is dealt again, because the core may
    /// have had a part of it.
    #[cold]
    fn admit(&mut self, core: CoreId) {
        self.asking.insert(core);
        for other in self.loads.ids() {
            while let Some(place) = self.lines.front(line_of(other)) {
                self.take_back(place, other);
            }
        }
    }

    /// Moves a place that was dealt back to the central line, where it was.
    fn take_back(&mut self, place: Slot, core: CoreId) {
        self.lines.remove(line_of(core), place);
        let places = &self.places;
        self.lines.insert_by(CENTRAL, place, |place| places[place].number);
        self.places[place].line = CENTRAL;
        let load = &mut self.loads[core];
        load.waiting -= 1;
        load.quanta -= self.places[place].quanta;
    }

    /// Moves a place to the end of a line.
    fn move_to(&mut self, place: Slot, line: QueueId) {
        self.lines.remove(self.places[place].line, place);
        self.lines.push_back(line, place);
        self.places[place].line = line;
    }

    /// Takes a free place for a packet that waits, at the end of a line.
    fn add(&mut self, client: ClientId, line: QueueId, quanta: u64) -> Slot {
        let place = self.lines.front(FREE).expect("there is a place for each packet");
        self.move_to(place, line);
        self.taken += 1;
        self.places[place] = WaitingPlace { client, line, number: self.taken, quanta };
        place
    }

    /// Frees the place of a packet that waits no more.
    fn remove(&mut self, place: Slot) -> WaitingPlace {
        let removed = self.places[place];
        self.move_to(place, FREE);
        self.of_client.remove(removed.client, place);
        if let Some(core) = removed.line.0.checked_sub(2).map(CoreId) {
            let load = &mut self.loads[core];
            load.waiting -= 1;
            load.quanta -= removed.quanta;
        }
        removed
    }

    /// Ends the turn of a packet at a core. Returns the quanta that it had before.
    fn end_turn(&mut self, core: CoreId) -> u64 {
        let load = &mut self.loads[core];
        load.serving -= 1;
        // With several packets in flight there is no preemption, so no packet has had a quantum.
        let had = core::mem::take(&mut load.serving_quanta);
        load.quanta -= had;
        had
    }

    /// Returns the first place of a line whose client's head may be served.
    fn first_in(&self, line: QueueId) -> Option<Slot> {
        self.lines.iter(line).find(|&place| self.offered.contains(self.places[place].client))
    }

    /// Returns the place that the core serves next: of its own line, or of the central one, or of a core that has
    /// gone. Such a core has places, but serves none.
    fn find(&self, core: CoreId) -> Option<Slot> {
        let of_gone = || {
            let has_gone = |&other: &CoreId| other != core && self.loads[other].serving == 0;
            self.asking.iter().filter(has_gone).find_map(|other| self.first_in(line_of(other)))
        };
        self.first_in(line_of(core)).or_else(|| self.first_in(CENTRAL)).or_else(of_gone)
    }
}

impl Policy for CentralQueue {
    fn check(&self) {
        for core in self.loads.ids() {
            let CoreLine { waiting, quanta, serving_quanta, .. } = self.loads[core];
            let places: Vec<Slot> = self.lines.iter(line_of(core)).collect();
            assert_eq!(places.len(), waiting, "packets that wait at core {core}");
            let had: u64 = places.iter().map(|&place| self.places[place].quanta).sum();
            assert_eq!(had + serving_quanta, quanta, "quanta at core {core}");
        }
        // A slice counts its steps at once. Counting thousands of places one by one made property tests twice as long.
        let used = self.places.as_slice().iter().filter(|place| place.line != FREE).count();
        let clients = (0..self.clients).map(ClientId::from_index);
        let of_clients: usize = clients.map(|client| self.of_client.iter(client).count()).sum();
        assert_eq!(used, of_clients, "places of clients");
    }
}

impl Share for CentralQueue {
    fn prefers_cores(&self) -> bool {
        true
    }

    fn quantum(&self) -> Option<Time> {
        self.rules.quantum
    }

    fn yields(&mut self, _: Time, core: CoreId) -> bool {
        !self.stays(core)
    }

    fn stays(&self, core: CoreId) -> bool {
        self.rules.stays && [CENTRAL, line_of(core)].iter().all(|&line| self.lines.front(line).is_none())
    }

    fn on_arrival(&mut self, now: Time, client: ClientId, _: &Packet, _: u32) {
        self.begin_event(now);
        let place = self.add(client, CENTRAL, 0);
        self.of_client.push_back(client, place);
    }

    fn on_wake(&mut self, now: Time, client: ClientId, _: &Packet) {
        self.begin_event(now);
        self.offered.insert(client);
    }

    fn on_head(&mut self, now: Time, client: ClientId, _: &Packet) {
        self.begin_event(now);
        self.offered.insert(client);
    }

    fn place(&mut self, _: Time, idle: &IdSet<CoreId>) -> CoreId {
        for core in idle.iter() {
            if !self.asking.contains(core) {
                self.admit(core);
            }
        }
        self.deal();
        let has_own = |&core: &CoreId| self.first_in(line_of(core)).is_some();
        idle.iter().find(has_own).or_else(|| idle.first()).expect("a core is idle")
    }

    fn pick(&mut self, _: Time, core: CoreId) -> Option<ClientId> {
        if !self.asking.contains(core) {
            self.admit(core);
        }
        self.deal();
        self.find(core).map(|place| self.places[place].client)
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, client: ClientId, _: &Packet) {
        self.begin_event(now);
        let place = self.find(core).expect("the core has picked a client");
        let WaitingPlace { quanta, .. } = self.remove(place);
        self.offered.remove(client);
        let load = &mut self.loads[core];
        load.serving += 1;
        load.serving_quanta += quanta;
        load.quanta += quanta;
    }

    fn on_completion(&mut self, now: Time, core: CoreId, _: ClientId, _: &Packet, _: Work) {
        self.begin_event(now);
        self.end_turn(core);
    }

    fn on_preemption(&mut self, now: Time, core: CoreId, client: ClientId, _: &Packet, _: Work) {
        self.begin_event(now);
        let quanta = self.end_turn(core) + u64::from(self.rules.counts_quanta);
        let line = if self.rules.keeps_core { line_of(core) } else { CENTRAL };
        let place = self.add(client, line, quanta);
        self.of_client.push_front(client, place);
        self.offered.insert(client);
        if self.rules.keeps_core {
            let load = &mut self.loads[core];
            load.waiting += 1;
            load.quanta += quanta;
        }
    }

    fn on_push_out(&mut self, now: Time, client: ClientId, _: &Packet, waiting: u32) {
        self.begin_event(now);
        let place = self.of_client.back(client).expect("a packet of the client waits");
        self.remove(place);
        if waiting == 0 {
            self.offered.remove(client);
        }
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, _: ClientId) {}

    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}

    fn explain(&self, client: ClientId) -> Option<String> {
        let first = self.of_client.front(client)?;
        let before = |line: QueueId| self.lines.iter(line).take_while(|&place| place != first).count();
        Some(match self.places[first].line {
            CENTRAL => format!("in the central queue, behind {}", before(CENTRAL)),
            line => format!("at core {}, behind {}", line.0 - 2, before(line)),
        })
    }
}
