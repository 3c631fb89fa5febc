//! Keeps the way of each packet of a run, from its journal.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, ExitSlot, FlowId, Id, ServiceId, Slot};
use humpyard_core::mechanism::{Arrival, DropReason, Event, Record, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_policies::spec::PolicySpec;

use crate::follow::Follow;

/// No packet, no visit, no flow.
pub(super) const NOTHING: u32 = u32::MAX;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is still there: the journal ends before it left.
    Held,
    /// It left.
    Left,
    /// It ended at its service, which consumed or dropped it.
    Ended,
    /// It was dropped.
    Dropped(DropReason),
}

/// The way of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    /// When it was to arrive, in ns since the start of the run, as all times here.
    pub(super) arrival: u64,
    /// When it was gone.
    pub(super) gone: u64,
    /// Its flow, by number in [`History::flows`].
    pub(super) flow: u32,
    pub(super) client: u32,
    pub(super) length: u32,
    pub(super) service: u16,
    pub(super) fate: Fate,
    /// Its last visit to a core, or [`NOTHING`].
    last: u32,
}

impl Passage {
    /// Returns the delay of a packet that left.
    pub(super) fn delay(&self) -> Option<u64> {
        (self.fate == Fate::Left).then(|| self.gone - self.arrival)
    }
}

/// One packet on one core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) packet: u32,
    /// The visit of the same packet before it, or [`NOTHING`].
    before: u32,
    pub(super) core: u16,
    pub(super) service: u16,
    pub(super) cold: bool,
    /// When the packet joined the queue.
    pub(super) joined: u64,
    /// When the core was given the packet.
    pub(super) given: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// When the dispatcher heard of the end: in virtual time at once.
    pub(super) heard: u64,
    /// How long the core was busy with it.
    busy: u64,
}

/// What a core did for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// It served the packet of this visit.
    Serving(u32),
    /// It went over to this service.
    Switching(u16),
}

/// A while of a core. Those of one core follow each other without overlap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) doing: Doing,
}

/// A packet that is held.
#[derive(Clone, Copy, Debug)]
struct Holding {
    packet: u32,
    visit: u32,
    joined: u64,
    service: u16,
}

const EMPTY: Holding = Holding { packet: NOTHING, visit: NOTHING, joined: 0, service: 0 };

/// The ways of all packets of a run.
#[derive(Default)]
pub(super) struct History {
    /// The policies of the run, as its journal names them.
    pub(super) policy: Option<PolicySpec>,
    /// Policies that took over, with their times.
    pub(super) swaps: Vec<(u64, String)>,
    pub(super) config: SchedulerConfig,
    /// The names of flows, each for one life of the flow.
    pub(super) flows: Vec<String>,
    pub(super) passages: Vec<Passage>,
    pub(super) visits: Vec<Visit>,
    /// By core, in order, once [`History::finish`] is done.
    pub(super) cores: Vec<Vec<Stretch>>,
    /// By flow id, the number of the flow that has it now.
    named: Vec<u32>,
    slots: Vec<Holding>,
    exits: Vec<u32>,
    switches: Vec<(u16, Stretch)>,
}

impl Follow for History {
    fn on_begin(&mut self, policy: &PolicySpec, config: &SchedulerConfig) {
        *self = Self { policy: Some(policy.clone()), config: config.clone(), ..Self::default() };
    }

    fn on_flow(&mut self, flow: FlowId, name: String) {
        self.flows.push(name);
        *place(&mut self.named, flow.index(), NOTHING) = (self.flows.len() - 1) as u32;
    }

    fn on_record(&mut self, record: &Record) {
        let now = record.now.as_ns();
        match &record.event {
            Event::Arrival { packet, answer } => self.on_arrival(now, packet, *answer),
            Event::Next { core, answer: Some(given) } => self.on_dispatch(now, *core, given.slot, given.cold),
            Event::Completion { slot, busy, ends, onward, exit, .. } => {
                self.on_completion(now, *slot, *busy);
                self.on_done(now, *slot, *ends, *onward, *exit);
            }
            Event::Preemption { slot, served, saving } => {
                self.on_completion(now, *slot, *served + *saving);
                self.on_put_back(now, *slot);
            }
            Event::Exit(place) => {
                let packet = self.exits.get(place.index()).copied().unwrap_or(NOTHING);
                self.on_gone(now, packet, Fate::Left);
            }
            Event::Dropped(slot, reason) => {
                let packet = self.holding(*slot).packet;
                self.on_gone(now, packet, Fate::Dropped(*reason));
            }
            Event::Switch(Switch { core, to, cost }) => {
                let stretch = Stretch { begin: now, end: now + cost.as_ns(), doing: Doing::Switching(to.0) };
                self.switches.push((core.0, stretch));
            }
            Event::Switched(core) => {
                let under_way = self.switches.iter_mut().rev().find(|(of, _)| *of == core.0);
                under_way.into_iter().for_each(|(_, stretch)| stretch.end = now);
            }
            Event::Swap(policy) => self.swaps.push((now, policy.clone())),
            _ => {}
        }
    }
}

impl History {
    fn on_arrival(&mut self, now: u64, packet: &Packet, answer: Arrival) {
        let number = self.passages.len() as u32;
        let flow = self.number_of(packet.flow);
        let fate = match answer {
            Arrival::Queued(slot) => {
                let holding = Holding { packet: number, visit: NOTHING, joined: now, service: packet.service.0 };
                *place(&mut self.slots, slot.index(), EMPTY) = holding;
                Fate::Held
            }
            Arrival::Dropped(reason) => Fate::Dropped(reason),
        };
        self.passages.push(Passage {
            arrival: packet.arrival.as_ns().min(now),
            gone: now,
            flow,
            client: packet.client.0,
            length: packet.length,
            service: packet.service.0,
            fate,
            last: NOTHING,
        });
    }

    /// Returns the number of the flow that has this id now; one without a name is called by its id.
    fn number_of(&mut self, flow: FlowId) -> u32 {
        let number = *place(&mut self.named, flow.index(), NOTHING);
        if number != NOTHING {
            return number;
        }
        self.on_flow(flow, format!("flow {flow}"));
        self.named[flow.index()]
    }

    fn holding(&self, slot: Slot) -> Holding {
        self.slots.get(slot.index()).copied().unwrap_or(EMPTY)
    }

    fn on_dispatch(&mut self, now: u64, core: CoreId, slot: Slot, cold: bool) {
        let Holding { packet, joined, service, .. } = self.holding(slot);
        let Some(passage) = self.passages.get_mut(packet as usize) else { return };
        let visit = self.visits.len() as u32;
        self.visits.push(Visit {
            packet,
            before: passage.last,
            core: core.0,
            service,
            cold,
            joined,
            given: now,
            begin: now,
            end: now,
            heard: u64::MAX,
            busy: 0,
        });
        passage.last = visit;
        self.slots[slot.index()].visit = visit;
    }

    fn on_completion(&mut self, now: u64, slot: Slot, busy: Time) {
        let visit = self.holding(slot).visit;
        if let Some(visit) = self.visits.get_mut(visit as usize) {
            (visit.heard, visit.busy) = (now, busy.as_ns());
        }
    }

    /// The packet waits again for the same service.
    fn on_put_back(&mut self, now: u64, slot: Slot) {
        let holding = self.holding(slot);
        *place(&mut self.slots, slot.index(), EMPTY) = Holding { visit: NOTHING, joined: now, ..holding };
    }

    /// The packet goes on to the next service, or out, or to the exit, where it waits for earlier packets of its flow.
    fn on_done(&mut self, now: u64, slot: Slot, ends: bool, onward: Option<ServiceId>, exit: Option<ExitSlot>) {
        let holding = self.holding(slot);
        match (onward, exit) {
            (Some(service), _) => {
                *place(&mut self.slots, slot.index(), EMPTY) =
                    Holding { visit: NOTHING, joined: now, service: service.0, ..holding };
            }
            (None, Some(exit)) => *place(&mut self.exits, exit.index(), NOTHING) = holding.packet,
            (None, None) if ends => self.on_gone(now, holding.packet, Fate::Ended),
            (None, None) => self.on_gone(now, holding.packet, Fate::Left),
        }
    }

    fn on_gone(&mut self, now: u64, packet: u32, fate: Fate) {
        if let Some(passage) = self.passages.get_mut(packet as usize) {
            (passage.gone, passage.fate) = (now, fate);
        }
    }

    /// Finds out when each packet was served, once the run is over.
    ///
    /// A journal of a live run says when the dispatcher heard of each end. A core serves in order, so a packet ended
    /// before the next one on its core began: each is put as late as that allows.
    pub(super) fn finish(&mut self) {
        let last = self.visits.iter().map(|visit| usize::from(visit.core) + 1);
        let cores = last.chain([self.config.cores]).max().unwrap_or(0);
        self.cores = vec![Vec::new(); cores];
        let mut next_begin = vec![u64::MAX; cores];
        for (at, visit) in self.visits.iter_mut().enumerate().rev() {
            if visit.heard == u64::MAX {
                continue;
            }
            let core = usize::from(visit.core);
            visit.end = visit.heard.min(next_begin[core]).max(visit.given);
            visit.begin = visit.end.saturating_sub(visit.busy).max(visit.given);
            next_begin[core] = visit.begin;
            let (begin, end) = (visit.begin, visit.end);
            self.cores[core].push(Stretch { begin, end, doing: Doing::Serving(at as u32) });
        }
        for &(core, stretch) in &self.switches {
            if let Some(core) = self.cores.get_mut(usize::from(core)) {
                core.push(stretch);
            }
        }
        for core in &mut self.cores {
            core.sort_by_key(|stretch| (stretch.begin, stretch.end));
            let mut until = 0;
            for stretch in core {
                stretch.begin = stretch.begin.max(until);
                stretch.end = stretch.end.max(stretch.begin);
                until = stretch.end;
            }
        }
        (self.slots, self.exits, self.named, self.switches) = Default::default();
    }

    /// Returns the visits of a packet to cores, in order.
    pub(super) fn visits_of(&self, packet: u32) -> Vec<Visit> {
        let mut found = Vec::new();
        let mut at = self.passages[packet as usize].last;
        while let Some(visit) = self.visits.get(at as usize) {
            found.push(*visit);
            at = visit.before;
        }
        found.reverse();
        found
    }

    /// Returns the name of the flow of a packet.
    pub(super) fn flow_name(&self, packet: u32) -> &str {
        &self.flows[self.passages[packet as usize].flow as usize]
    }

    /// Returns the name of a service.
    pub(super) fn service_name(&self, service: u16) -> String {
        let known = self.config.services.get(usize::from(service));
        known.map_or_else(|| format!("service {service}"), |service| service.name.clone())
    }
}

/// Returns the place of this index in a list, which grows to have it.
fn place<T: Copy>(list: &mut Vec<T>, index: usize, empty: T) -> &mut T {
    if list.len() <= index {
        list.resize(index + 1, empty);
    }
    &mut list[index]
}
