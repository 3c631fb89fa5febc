//! Measurements of the packets of a run, in one pass and in bounded memory.
//!
//! Measurements are separate from the mechanism. A driver reports arrivals, dispatches and
//! completions to [`Measurements`], and gets a [`Summary`] at the end. Equal events give an equal
//! summary, to the last bit.

mod elements;
mod fairness;
mod histogram;
mod measured;
mod moves;
mod observer;
mod offered;
mod order;
mod several;
mod summary;
mod tally;

pub use elements::ElementsSummary;
pub use fairness::Fairness;
pub use histogram::Histogram;
pub use measured::{FlowPackets, Measured};
pub use moves::Moves;
pub use observer::Observer;
pub use offered::Offered;
pub use order::Order;
pub use several::SameClient;
pub use summary::{
    CacheSummary, CoreSummary, Delay, DelayOffered, FairnessSummary, Late, LostOutside, MoveSummary, OrderSummary,
    ServiceSummary, Summary, WarmUp,
};
pub use tally::{CoreTally, DelayTally, ServiceTally, Tally};

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::config::SchedulerConfig;
use crate::id::{ChainId, ClientId, CoreId, FlowId, IdVec, ServiceId};
use crate::mechanism::{Account, Completed, Done};
use crate::packet::Packet;
use crate::policy::{CoreDistance, Topology};
use crate::unit::{Time, Weight, Work};

use elements::Elements;
use offered::OfferedCosts;

#[derive(Debug)]
struct Service {
    name: String,
    tolerance: Time,
    delay: Histogram,
    /// Packets done that were late.
    late: u64,
    /// Packets dropped before the service was done with them.
    lost: u64,
    packets: u64,
    bytes: u64,
    waiting: u32,
    waiting_max: u32,
}

impl Service {
    /// One more packet waits.
    #[inline(always)]
    fn on_wait(&mut self) {
        self.waiting += 1;
        self.waiting_max = self.waiting_max.max(self.waiting);
    }

    /// A packet is done.
    #[inline(always)]
    fn on_service(&mut self, packet: &Packet, finished: Time, measured: bool) {
        if measured {
            let delay = finished.since(packet.arrival);
            self.delay.record(delay.as_ns());
            self.late += u64::from(delay > self.tolerance);
        }
        self.packets += 1;
        self.bytes += u64::from(packet.length);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    busy: Time,
    packets: u64,
    cold: u64,
    switches: u64,
}

/// Delays of packets from coming in to leaving.
#[derive(Debug)]
struct Whole {
    delay: Histogram,
    /// Packets that left, late.
    late: u64,
}

/// Packets lost that are measured.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    /// Before they left.
    before: u64,
    /// Behind the cores, at the link.
    behind: u64,
    /// Packets lost behind the cores that had left them in time.
    behind_in_time: u64,
}

impl Lost {
    fn add(&mut self, other: Self) {
        self.before += other.before;
        self.behind += other.behind;
        self.behind_in_time += other.behind_in_time;
    }

    /// Returns the lost packets that were not late already.
    fn late(self) -> u64 {
        self.before + self.behind_in_time
    }
}

/// The measurements so far.
#[derive(Debug)]
pub struct Measurements {
    services: IdVec<ServiceId, Service>,
    /// The longest tolerable delay of each chain of services; empty without chains.
    chains: IdVec<ChainId, Time>,
    /// `None`: so far every packet left as soon as its only service completed it. Then the delays
    /// are those of the services.
    whole: Option<Whole>,
    lost: Lost,
    bytes: u64,
    cores: IdVec<CoreId, Core>,
    /// Present if elements have several contexts.
    elements: Option<Elements>,
    order: Order,
    /// `None`: the run has no topology.
    moves: Option<Moves>,
    /// Number of flow ids.
    flows: usize,
    fairness: Fairness,
    offered: Offered,
    /// `None`: the offered work is unknown.
    costs: Option<OfferedCosts>,
    first_arrival: Option<Time>,
    last_departure: Time,
    warm_up: Time,
    /// Packets that came in from then on are measured.
    measured_from: Time,
    /// Whether no packet after the warm-up has come yet.
    warming: bool,
    /// Packets done that are not measured.
    warm_up_packets: u64,
    /// Packets held that are not measured.
    warm_up_held: u64,
    /// Number of times that a core gave back a packet that it had not finished.
    preemptions: u64,
}

impl Measurements {
    /// Returns measurements of a run with this configuration. All memory is allocated here.
    pub fn new(config: &SchedulerConfig) -> Self {
        let services = config.services.iter().map(|service| Service {
            name: service.name.to_string(),
            tolerance: service.tolerance,
            delay: Histogram::new(),
            late: 0,
            lost: 0,
            packets: 0,
            bytes: 0,
            waiting: 0,
            waiting_max: 0,
        });
        Self {
            services: services.collect(),
            chains: IdVec::new(),
            whole: None,
            lost: Lost::default(),
            bytes: 0,
            cores: IdVec::from_fn(config.cores, |_| Core::default()),
            elements: (config.contexts > 1).then(|| Elements::new(config.contexts, config.cores)),
            order: Order::new(config.flows),
            moves: config.topology.as_ref().map(|topology| Moves::new(topology.clone(), config.flows)),
            flows: config.flows,
            fairness: Fairness::new(config.clients, |client| config.weight(client)),
            offered: Offered::default(),
            costs: None,
            first_arrival: None,
            last_departure: Time::ZERO,
            warm_up: Time::ZERO,
            measured_from: Time::ZERO,
            warming: false,
            warm_up_packets: 0,
            warm_up_held: 0,
            preemptions: 0,
        }
    }

    /// Sets a warm-up: packets that come in within this time after the first are served and
    /// counted, but are in no figure of delay, lateness, order or fairness.
    #[must_use]
    pub fn with_warm_up(mut self, warm_up: Time) -> Self {
        self.warm_up = warm_up;
        self.warming = warm_up > Time::ZERO;
        self
    }

    /// Sets the chains of services. A packet is late if it takes longer in its whole chain than all
    /// services of the chain together tolerate.
    #[must_use]
    pub fn with_chains(mut self, chains: &[Vec<ServiceId>]) -> Self {
        let tolerance = |chain: &Vec<ServiceId>| {
            let tolerances = chain.iter().map(|&service| self.services[service].tolerance);
            tolerances.fold(Time::ZERO, |sum, tolerance| sum + tolerance)
        };
        self.chains = chains.iter().map(tolerance).collect();
        if !chains.is_empty() {
            self.tell_apart();
        }
        self
    }

    /// From now on counts the delays of packets separately from those of services.
    #[cold]
    fn tell_apart(&mut self) {
        if self.whole.is_none() {
            let mut delay = Histogram::new();
            self.add_delays(&mut delay);
            self.whole = Some(Whole { delay, late: self.late() });
        }
    }

    /// Adds the delays from coming in to leaving.
    fn add_delays(&self, sum: &mut Histogram) {
        match &self.whole {
            Some(whole) => sum.add(&whole.delay),
            None => self.services.iter().for_each(|service| sum.add(&service.delay)),
        }
    }

    /// Packets that left, late.
    fn late(&self) -> u64 {
        match &self.whole {
            Some(whole) => whole.late,
            None => self.services.iter().map(|service| service.late).sum(),
        }
    }

    /// Records that a packet of this client was accepted and waits for this service.
    #[inline]
    pub fn on_accept(&mut self, now: Time, client: ClientId, service: ServiceId) {
        if self.warming {
            self.warm(now);
            self.warm_up_held += u64::from(self.warming);
        }
        self.on_plain_accept(now, client, service);
    }

    /// As [`Measurements::on_accept`], where [`Measurements::is_plain`] holds.
    #[inline(always)]
    pub(super) fn on_plain_accept(&mut self, now: Time, client: ClientId, service: ServiceId) {
        self.first_arrival.get_or_insert(now);
        self.services[service].on_wait();
        self.fairness.on_arrival(client);
    }

    /// A packet for this service that arrived was dropped at once.
    pub fn on_refuse(&mut self, now: Time, service: ServiceId) {
        if self.warming {
            self.warm(now);
        }
        if now >= self.measured_from {
            self.lose(service);
        }
    }

    /// Counts a measured packet that was dropped before this service was done with it.
    fn lose(&mut self, service: ServiceId) {
        self.lost.before += 1;
        self.services[service].lost += 1;
    }

    /// Records that a packet went to a core, cold or not. Returns the distance from the core that
    /// served the flow's previous packet. `None`: it is the same core, there was none, or the run
    /// has no topology.
    #[inline]
    pub fn on_dispatch(&mut self, now: Time, core: CoreId, packet: &Packet, cold: bool) -> Option<CoreDistance> {
        if packet.hop == 0 {
            self.order.on_dispatch(packet.sequence, self.is_measured(packet));
        }
        self.cores[core].cold += u64::from(cold);
        self.on_turn(now, core, packet)
    }

    /// As [`Measurements::on_dispatch`], for a packet that has had a turn before: its order and its cold start
    /// are counted already.
    #[inline]
    pub fn on_turn(&mut self, now: Time, core: CoreId, packet: &Packet) -> Option<CoreDistance> {
        if let Some(elements) = &mut self.elements {
            elements.on_dispatch(now, core);
        }
        self.services[packet.service].waiting -= 1;
        self.moves.as_mut().and_then(|moves| moves.on_dispatch(core, packet))
    }

    /// As [`Measurements::on_dispatch`], if [`Measurements::is_plain`] holds and packets have one
    /// hop. A cold start is counted when the packet is done.
    #[inline(always)]
    pub(super) fn on_plain_dispatch(&mut self, packet: &Packet) {
        self.services[packet.service].waiting -= 1;
        self.order.on_dispatch(packet.sequence, true);
    }

    /// Ends the warm-up with the first packet after it.
    #[cold]
    fn warm(&mut self, now: Time) {
        let first = self.first_arrival.unwrap_or(now);
        self.measured_from = Time::from_ns(first.as_ns().saturating_add(self.warm_up.as_ns()));
        if now >= self.measured_from {
            self.warming = false;
            self.fairness.restart();
        }
    }

    /// Whether the run has no contexts (whose stalls are counted), no topology, and no packet of the warm-up any more.
    pub(super) fn is_plain(&self) -> bool {
        !self.warming && self.warm_up_held == 0 && self.becomes_plain()
    }

    /// Whether [`Measurements::is_plain`] holds once the packets of the warm-up are gone.
    pub(super) fn becomes_plain(&self) -> bool {
        self.elements.is_none() && self.moves.is_none()
    }

    /// A cold start that was counted at the dispatch will be counted when the packet is done.
    pub(super) fn on_cold_in_service(&mut self, core: CoreId) {
        self.cores[core].cold -= 1;
    }

    /// Returns the time from which packets that come in are measured. `None`: the warm-up is not
    /// over.
    pub fn measured_from(&self) -> Option<Time> {
        (!self.warming).then_some(self.measured_from)
    }

    /// Whether the packet came in after the warm-up.
    pub(crate) fn is_measured(&self, packet: &Packet) -> bool {
        packet.entered >= self.measured_from
    }

    /// Records that `core` gave back a packet, unfinished: it was busy with its turn for `busy`, of which it did `used`
    /// work of the packet. The packet waits again.
    pub fn on_preemption(&mut self, core: CoreId, packet: &Packet, used: Work, busy: Time) {
        self.preemptions += 1;
        self.cores[core].busy += busy;
        self.services[packet.service].on_wait();
        self.fairness.on_arrival(packet.client);
        self.fairness.on_service(packet.client, used, self.is_measured(packet));
    }

    /// Records that a packet was done at `finished`, after `core` had been busy with it for `busy`.
    #[inline]
    pub fn on_completion(&mut self, core: CoreId, completed: &Completed, finished: Time, busy: Time) {
        let &Completed { ref packet, used, onward, ends, exit } = completed;
        // A cold start was counted at the dispatch.
        self.record::<false>(core, packet, Done { used, onward, ends, exit, cold: false }, finished, busy);
    }

    /// As [`Measurements::on_completion`]. `PLAIN`: [`Measurements::is_plain`] holds.
    #[inline(always)]
    pub(super) fn record<const PLAIN: bool>(
        &mut self,
        core: CoreId,
        packet: &Packet,
        done: Done,
        finished: Time,
        busy: Time,
    ) {
        if !PLAIN && let Some(elements) = &mut self.elements {
            elements.on_completion(finished, core, packet, busy);
        }
        let measured = PLAIN || self.is_measured(packet);
        if done.exit.is_some() {
            self.tell_apart();
        }
        self.services[packet.service].on_service(packet, finished, measured);
        let served = &mut self.cores[core];
        served.busy += busy;
        served.packets += 1;
        if PLAIN {
            served.cold += u64::from(done.cold);
        }
        if let Some(service) = done.onward {
            self.services[service].on_wait();
            self.fairness.on_arrival(packet.client);
        } else if done.ends {
            self.on_processed(packet, finished, measured);
        } else if done.exit.is_none() {
            self.note_departure(packet, finished, measured);
        }
        self.fairness.on_service(packet.client, done.used, measured);
    }

    /// Whether these measurements count how long packets are held back.
    #[inline]
    pub(super) fn counts_holds(&self) -> bool {
        self.elements.is_some()
    }

    /// Records whether the steering policy holds packets back from now on. Counted if elements have
    /// several contexts.
    #[inline]
    pub fn on_hold(&mut self, now: Time, holds: bool) {
        if let Some(elements) = &mut self.elements {
            elements.on_hold(now, holds);
        }
    }

    /// Records that a packet leaves: when it is done, or after it has waited for earlier ones.
    #[inline]
    pub fn on_departure(&mut self, packet: &Packet, now: Time) {
        self.note_departure(packet, now, self.is_measured(packet));
    }

    #[inline(always)]
    fn note_departure(&mut self, packet: &Packet, now: Time, measured: bool) {
        self.on_processed(packet, now, measured);
        if measured {
            self.order.on_departure(packet.flow, packet.sequence, now);
        }
    }

    #[inline(always)]
    fn on_processed(&mut self, packet: &Packet, now: Time, measured: bool) {
        if !measured {
            self.leave_warm_up();
            self.warm_up_packets += 1;
        } else if self.whole.is_some() {
            // A copy, so that other runs can keep their packet in registers.
            let packet = *packet;
            self.record_whole(&packet, now);
        }
        self.bytes += u64::from(packet.length);
        self.last_departure = self.last_departure.max(now);
    }

    #[inline(never)]
    fn record_whole(&mut self, packet: &Packet, now: Time) {
        let (delay, tolerance) = (now.since(packet.entered), self.tolerance(packet));
        if let Some(whole) = &mut self.whole {
            whole.delay.record(delay.as_ns());
            whole.late += u64::from(delay > tolerance);
        }
    }

    /// The longest delay that is tolerated for a packet, in all services of its chain.
    fn tolerance(&self, packet: &Packet) -> Time {
        self.chains.get(packet.chain).copied().unwrap_or(self.services[packet.service].tolerance)
    }

    /// A packet that had been accepted was dropped.
    pub fn on_drop(&mut self, packet: &Packet) {
        self.services[packet.service].waiting -= 1;
        self.fairness.on_drop(packet.client);
        if self.is_measured(packet) {
            self.lose(packet.service);
        } else {
            self.leave_warm_up();
        }
    }

    /// A packet of the warm-up is no longer held. One whose arrival is earlier than that of a packet before it may have
    /// come after the warm-up, and was not counted.
    fn leave_warm_up(&mut self) {
        self.warm_up_held = self.warm_up_held.saturating_sub(1);
    }

    /// A packet that left at this time was lost behind the cores.
    pub fn on_loss_behind(&mut self, packet: &Packet, left: Time) {
        if self.is_measured(packet) {
            self.lost.behind += 1;
            // It counts as late once.
            self.lost.behind_in_time += u64::from(left.since(packet.entered) <= self.tolerance(packet));
        }
    }

    /// Returns the total busy time of the cores so far.
    pub fn busy(&self) -> Time {
        self.cores.iter().fold(Time::ZERO, |sum, core| sum + core.busy)
    }

    /// Records that a core began to switch to another service.
    pub fn on_switch(&mut self, core: CoreId) {
        self.cores[core].switches += 1;
    }

    /// Raises the number of cores to `cores`, if there are fewer.
    pub fn add_cores(&mut self, cores: usize) {
        while self.cores.len() < cores {
            self.cores.push(Core::default());
        }
        if let Some(elements) = &mut self.elements {
            elements.add_cores(cores);
        }
    }

    /// Changes the topology: no flow counts as served by a new core. Without a topology, moves are
    /// not counted.
    pub fn change_topology(&mut self, topology: Option<&Topology>) {
        match (&mut self.moves, topology) {
            (Some(moves), topology) => moves.change(topology),
            (None, Some(topology)) => self.moves = Some(Moves::new(topology.clone(), self.flows)),
            (None, None) => {}
        }
    }

    /// Ends a flow; its id may be used again.
    pub fn on_flow_end(&mut self, flow: FlowId) {
        self.order.on_flow_end(flow);
        if let Some(moves) = &mut self.moves {
            moves.on_flow_end(flow);
        }
    }

    /// Ends a client; its id may be used again.
    pub fn on_client_end(&mut self, client: ClientId) {
        self.fairness.on_client_end(client);
    }

    /// Changes the weight of a client.
    pub fn set_weight(&mut self, client: ClientId, weight: Weight) {
        self.fairness.set_weight(client, weight);
    }

    /// Packets of this flow that left after the warm-up, since the flow began.
    pub fn departures(&self, flow: FlowId) -> u64 {
        self.order.departures(flow)
    }

    /// Returns the counts so far, while the run continues. O(cores and services), whatever the
    /// number of flows and clients.
    pub fn tally(&self) -> Tally {
        let mut delay = Histogram::new();
        self.add_delays(&mut delay);
        Tally {
            bytes: self.bytes,
            delay: DelayTally::of(&delay),
            late: self.late() + self.lost.late(),
            lost: self.lost.before,
            out_of_order: self.order.out_of_order(),
            cores: self.cores.iter().map(core_tally).collect(),
            services: self.services.iter().map(service_tally).collect(),
        }
    }

    /// Everything, once the run is over.
    pub fn summary(&self, account: &Account) -> Summary {
        Self::summary_of(&[self], account, SameClient::Never, LostOutside::default())
    }
}

fn core_tally(core: &Core) -> CoreTally {
    CoreTally { busy: core.busy, packets: core.packets, switches: core.switches, cold: core.cold }
}

fn service_tally(service: &Service) -> ServiceTally {
    ServiceTally {
        name: service.name.clone(),
        packets: service.packets,
        bytes: service.bytes,
        delay: DelayTally::of(&service.delay),
        tolerance: service.tolerance,
        late: service.late + service.lost,
        lost: service.lost,
        waiting: service.waiting,
    }
}
