//! The scheduler: packets in, decisions out.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::account::{Account, DropReason};
use super::allocation::{Allocation, Switch};
use super::estimator::Estimator;
use super::exit::{Exit, ExitAccount, ExitBuffer, ExitOrder};
use super::journal::{Event, Given, Journal, Record};
use super::limits::{Limits, WhenFull};
use super::queue::Queue;
use super::slab::{Line, Slab};
use super::steering::Steering;
use crate::id::{ChainId, ClientId, CoreId, ElementId, ExitSlot, FlowId, Id, IdVec, QueueId, ServiceId, Slot};
use crate::packet::Packet;
use crate::policy::{
    Allocate, BuildError, Cause, CoreView, Estimate, Policy, Reach, Setup, Share, Steer, Target, View,
};
use crate::storage::IdSet;
use crate::unit::{Time, Weight, Work, WorkUnit};

/// Stands for the policy of a family that a composition does without.
#[derive(Clone, Copy, Debug)]
pub enum Never {}

impl Policy for Never {}

impl Steer for Never {
    fn steer(&mut self, _: Time, _: &Packet, _: &View<'_>) -> Target {
        match *self {}
    }
}

impl Allocate for Never {
    fn initial(&mut self, _: &mut IdVec<CoreId, ServiceId>) {
        match *self {}
    }
}

/// Whether the packets of one client may be in service on several cores at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlowOrder {
    /// No: its next packet waits until the one before it is complete. Order is kept.
    #[default]
    Keep,
    /// Yes: more cores for one client, and packets may overtake.
    Free,
}

/// What the mechanism is told beside the policies' [`Setup`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Limits of queues and clients.
    pub limits: Limits,
    /// Whether clients keep their order where several cores pull from one queue.
    pub flow_order: FlowOrder,
    /// The services that packets go through, by chain; none: each packet's own service is all.
    pub chains: Vec<Vec<ServiceId>>,
    /// Whether packets are put back in the order of their flow when they leave.
    pub exit: Option<ExitOrder>,
}

/// What became of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// It waits in this slot.
    Queued(Slot),
    /// It is gone.
    Dropped(DropReason),
}

/// A packet to be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// Its slot, to be named at completion.
    pub slot: Slot,
    /// The packet.
    pub packet: Packet,
    /// Whether the core's previous packet had another service, or there was none.
    pub cold: bool,
}

/// A packet that was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// The packet.
    pub packet: Packet,
    /// What it was charged in the end, in the unit of the run.
    pub used: Work,
    /// The next service of its chain, to which it goes on in the same slot; none if this was the last, or it ends here.
    pub onward: Option<ServiceId>,
    /// Whether it ends here: it does not leave.
    pub ends: bool,
    /// Where it waits for earlier packets of its flow; none if it leaves now, or does not leave now.
    pub exit: Option<ExitSlot>,
}

/// A packet that had a slot, and is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// Its slot until now.
    pub slot: Slot,
    /// The packet.
    pub packet: Packet,
    /// Why.
    pub reason: DropReason,
}

/// Which queue a core pulls from, and a packet joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// One queue for all.
    Shared,
    /// One for each core, and as the steering policy reaches further, for each element and for all: there is a steering
    /// policy.
    PerCore,
    /// One for each service: cores are allocated to services.
    PerService,
}

/// Queues that a core pulls from, at most.
const PULLS_MAX: usize = 3;

#[derive(Debug)]
pub(super) struct Core {
    /// Where it takes its packets from, first to last; where it took them from last while it switches.
    queues: [QueueId; PULLS_MAX],
    /// How many of them there are.
    pulls: u8,
    last_service: Option<ServiceId>,
    pub(super) in_service: u32,
}

impl Core {
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueId> + use<> {
        self.queues.into_iter().take(usize::from(self.pulls))
    }

    pub(super) fn pull_from(&mut self, queue: QueueId) {
        self.queues[usize::from(self.pulls)] = queue;
        self.pulls += 1;
    }
}

/// What queues are made by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) cores: usize,
    pub(super) contexts: usize,
    pub(super) clients: usize,
    pub(super) flows: usize,
    flow_order: FlowOrder,
    push_out: bool,
}

impl Plan {
    /// A queue from which so many cores pull.
    pub(super) fn queue<Q: Share>(&self, share: Q, pulling: usize) -> Queue<Q> {
        let keep_order = self.flow_order == FlowOrder::Keep && pulling > 1;
        Queue::new(share, self.clients, self.cores, keep_order, self.push_out)
    }

    /// The target whose queue this is, where there is a steering policy.
    pub(super) fn target_of(&self, queue: QueueId) -> Target {
        let elements = self.cores.div_ceil(self.contexts);
        match queue.index() {
            core if core < self.cores => Target::Core(CoreId::from_index(core)),
            element if element < self.cores + elements => Target::Element(ElementId::from_index(element - self.cores)),
            _ => Target::Shared,
        }
    }
}

/// The packets, their queues, and the policies that order them.
///
/// Which policies are there lays out the queues: with a steering policy one for each core, else with an allocation one
/// for each service, else one for all. Each queue has a sharing policy of its own.
///
/// After every call that tells it something, a driver asks [`Scheduler::next_dropped`], [`Scheduler::next_switch`] and, where
/// packets are put back in order, [`Scheduler::next_exit`], each until there is none.
#[derive(Debug)]
pub struct Scheduler<S, Q, A> {
    pub(super) steer: Option<Steering<S>>,
    pub(super) layout: Layout,
    pub(super) queues: IdVec<QueueId, Queue<Q>>,
    pub(super) cores: IdVec<CoreId, Core>,
    views: IdVec<CoreId, CoreView>,
    /// The cores that may serve each service.
    pub(super) eligible: IdVec<ServiceId, Vec<CoreId>>,
    pub(super) allocation: Option<Allocation<A>>,
    estimate: Estimator,
    chains: IdVec<ChainId, Vec<ServiceId>>,
    exit: Option<ExitBuffer>,
    pub(super) slab: Slab,
    /// Packets that were dropped after they had a slot, until the driver has asked for them.
    dropped: Line,
    packets_max: u64,
    /// Queues in which something may have changed since they were last found to have nothing for a core.
    candidates: IdSet<QueueId>,
    in_flight: u32,
    limits: Limits,
    unit: WorkUnit,
    pub(super) plan: Plan,
    account: Account,
    accepted: u64,
    now: Time,
    journal: Option<Box<dyn Journal + Send>>,
}

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// A scheduler for this run; `share` makes the sharing policy of each queue. All memory is allocated here.
    ///
    /// # Errors
    /// What `share` gives, and limits that cannot be.
    pub fn new(
        setup: &Setup<'_>,
        options: Options,
        steer: Option<S>,
        allocate: Option<A>,
        mut share: impl FnMut() -> Result<Q, BuildError>,
    ) -> Result<Self, BuildError> {
        check_setup(setup, &options)?;
        let moves = allocate.as_ref().is_some_and(Allocate::moves);
        if moves && steer.is_some() {
            return Err(BuildError::new(
                "an allocation that moves cores needs one queue per service: it cannot be combined with a steering policy",
            ));
        }
        let allocation = allocate.map(|policy| Allocation::new(policy, setup));
        let layout = match (&steer, &allocation) {
            (Some(_), _) => Layout::PerCore,
            (None, Some(_)) => Layout::PerService,
            (None, None) => Layout::Shared,
        };
        let own_queue = |core: CoreId| match (layout, &allocation) {
            (Layout::Shared, _) => QueueId(0),
            (Layout::PerService, Some(allocation)) => QueueId(allocation.service_of(core).0),
            _ => QueueId(core.0),
        };
        let core = |core| Core { queues: [own_queue(core); PULLS_MAX], pulls: 1, last_service: None, in_service: 0 };
        let cores: IdVec<CoreId, Core> = IdVec::from_fn(setup.cores, core);
        let queue_count = match layout {
            Layout::Shared => 1,
            Layout::PerCore => setup.cores,
            Layout::PerService => setup.services.len(),
        };
        let plan = Plan {
            cores: setup.cores,
            contexts: setup.contexts,
            clients: setup.clients,
            flows: setup.flows,
            flow_order: options.flow_order,
            push_out: options.limits.when_full == WhenFull::LongestQueue,
        };
        let mut queues = IdVec::new();
        for queue in (0..queue_count).map(QueueId::from_index) {
            let share = share()?;
            check_memory(&share, queue_count, setup.clients)?;
            let pulling = cores.iter().filter(|core| core.queues[0] == queue).count();
            queues.push(plan.queue(share, if moves { setup.cores } else { pulling }));
        }
        for core in cores.ids() {
            queues[cores[core].queues[0]].offer_core(core);
        }
        let eligible = IdVec::from_fn(setup.services.len(), |service| match &allocation {
            Some(allocation) => allocation.cores_of(service).collect(),
            None => cores.ids().collect(),
        });
        let mut scheduler = Self {
            steer: steer.map(Steering::new),
            layout,
            queues,
            cores,
            views: IdVec::from_fn(setup.cores, |_| CoreView::default()),
            eligible,
            allocation,
            estimate: Estimator::Table(setup.estimates.iter().copied().collect()),
            chains: options.chains.into_iter().collect(),
            exit: options.exit.map(|order| ExitBuffer::new(order, setup.flows)),
            // One more, for a packet that is pushed out and not yet asked for.
            slab: Slab::new(setup.packets + usize::from(plan.push_out)),
            dropped: Line::EMPTY,
            packets_max: setup.packets as u64,
            candidates: IdSet::new(0),
            in_flight: 1,
            limits: options.limits,
            unit: setup.unit,
            plan,
            account: Account::default(),
            accepted: 0,
            now: Time::ZERO,
            journal: None,
        };
        let reach = scheduler.steer.as_ref().map_or(Reach::Core, |steer| steer.policy.reach());
        scheduler.add_wider_queues(reach, &mut share)?;
        scheduler.candidates = IdSet::new(scheduler.queues.len());
        Ok(scheduler)
    }

    /// With room for so many packets at a time on each core, from 1, which is what it is without this: see
    /// [`Scheduler::next_core`].
    #[must_use]
    pub fn with_in_flight(mut self, packets: u32) -> Self {
        self.in_flight = packets.max(1);
        self
    }

    /// With this estimator instead of the table of the set-up.
    #[must_use]
    pub fn with_estimate(mut self, estimate: Box<dyn Estimate + Send>) -> Self {
        self.estimate = Estimator::Other(estimate);
        self
    }

    /// With a journal of every call from now on.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal + Send>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// A packet arrives: it is steered and queued, or dropped for a named reason.
    pub fn on_arrival(&mut self, now: Time, packet: Packet) -> Arrival {
        self.advance(now);
        let answer = self.accept(now, packet);
        self.note(|| Event::Arrival { packet, answer });
        answer
    }

    /// A core that has room, and for which something may wait; none if there is none. Ask it with [`Scheduler::next`], and
    /// then this again, until there is none: then every core has what it can have.
    ///
    /// Cores come by ascending queue, and within a queue as the allocation, else the sharing policy, places packets.
    pub fn next_core(&mut self, now: Time) -> Option<CoreId> {
        while let Some(id) = self.candidates.first() {
            let queue = &mut self.queues[id];
            let core = match (queue.waiting, queue.free.len(), &mut self.allocation) {
                (0, ..) | (_, 0, _) => {
                    self.candidates.remove(id);
                    continue;
                }
                (_, 1, _) => queue.free.first()?,
                (_, _, Some(allocation)) if self.layout == Layout::PerService => {
                    allocation.place(ServiceId(id.0), &queue.free)
                }
                _ => queue.place(now),
            };
            self.note(|| Event::Core(core));
            return Some(core);
        }
        None
    }

    /// The packet that `core` serves next; none if nothing waits that it may serve.
    ///
    /// A driver may ask again before the first packet is complete, and so hand a core several in a row.
    pub fn next(&mut self, now: Time, core: CoreId) -> Option<Dispatch> {
        self.advance(now);
        let dispatch = self.dispatch(now, core);
        self.note(|| Event::Next { core, answer: dispatch.map(|given| Given { slot: given.slot, cold: given.cold }) });
        dispatch
    }

    /// The packet in `slot` is done; its core was busy with it for `busy`. It goes on to the next service of its chain, if
    /// there is one.
    ///
    /// # Panics
    /// If it was not in service.
    pub fn on_completion(&mut self, now: Time, slot: Slot, busy: Time) -> Completed {
        self.complete(now, slot, busy, false)
    }

    /// The packet in `slot` is done, and ends here, though there may be more services in its chain: its service has consumed
    /// or dropped it.
    ///
    /// # Panics
    /// If it was not in service.
    pub fn on_end(&mut self, now: Time, slot: Slot, busy: Time) -> Completed {
        self.complete(now, slot, busy, true)
    }

    /// A packet that was dropped after it had been given a slot, which is free from now on: pushed out, or no room was left
    /// where it went after it was held back, or after a hop.
    pub fn next_dropped(&mut self) -> Option<Dropped> {
        let slot = self.dropped.pop(&self.slab)?;
        let entry = self.slab.get(slot);
        let dropped = Dropped { slot, packet: entry.packet, reason: entry.reason };
        self.slab.remove(slot);
        self.note(|| Event::Dropped(slot, dropped.reason));
        Some(dropped)
    }

    /// A packet that waited at the exit for earlier ones of its flow, and leaves now.
    pub fn next_exit(&mut self) -> Option<Exit> {
        let exit = self.exit.as_mut()?.next_exit()?;
        self.note(|| Event::Exit(exit.place));
        Some(exit)
    }

    /// A core that begins to go over to another service; asked again until there is none, after every other call. The driver
    /// calls [`Scheduler::on_switched`] when the switch is over.
    pub fn next_switch(&mut self) -> Option<Switch> {
        let switch = self.allocation.as_mut()?.next_switch()?;
        self.note(|| Event::Switch(switch));
        Some(switch)
    }

    /// The core has gone over to its new service, and is ready.
    ///
    /// # Panics
    /// If it was not switching.
    pub fn on_switched(&mut self, now: Time, core: CoreId) {
        self.advance(now);
        let allocation = self.allocation.as_mut().expect("only an allocation moves cores");
        allocation.on_switched(now, core);
        let queue = QueueId(allocation.service_of(core).0);
        self.cores[core].queues[0] = queue;
        self.queues[queue].offer_core(core);
        self.candidates.insert(queue);
        if self.queues[queue].waiting == 0 {
            self.reassign(now, Cause::Idle(core));
        }
        self.note(|| Event::Switched(core));
    }

    /// When a policy, or a packet at the exit, wants to be told of the time; none is never. To be asked after every event.
    pub fn next_timeout(&self) -> Option<Time> {
        let steer = self.steer.as_ref().and_then(|steer| steer.policy.next_timeout());
        let allocate = self.allocation.as_ref().and_then(|allocation| allocation.policy.next_timeout());
        let exit = self.exit.as_ref().and_then(ExitBuffer::next_timeout);
        [steer, allocate, exit].into_iter().flatten().min()
    }

    /// The time that [`Scheduler::next_timeout`] named has come.
    pub fn on_timeout(&mut self, now: Time) {
        self.advance(now);
        if let Some(exit) = &mut self.exit {
            exit.on_timeout(now);
        }
        if let Some(steer) = &mut self.steer {
            steer.policy.on_timeout(now);
        }
        if let Some(allocation) = &mut self.allocation {
            allocation.policy.on_timeout(now);
        }
        self.release_held(now);
        self.reassign(now, Cause::Timeout);
        self.note(|| Event::Timeout);
    }

    /// The client is gone; it must be idle. Its id may be used for another.
    pub fn on_client_end(&mut self, now: Time, client: ClientId) {
        self.advance(now);
        for queue in self.queues.iter_mut() {
            queue.end_client(now, client);
        }
        self.note(|| Event::ClientEnd(client));
    }

    /// The flow is over; none of its packets is held, nor waits at the exit. Its id may be used for another.
    pub fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        self.advance(now);
        if let Some(steer) = &mut self.steer {
            steer.policy.on_flow_end(now, flow);
        }
        self.note(|| Event::FlowEnd(flow));
    }

    /// Gives a client another weight, in every queue.
    pub fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        self.advance(now);
        for queue in self.queues.ids() {
            self.queues[queue].set_weight(now, client, weight);
            self.changed(queue);
        }
        self.note(|| Event::Weight(client, weight));
    }

    /// Packets that a core may be handed at a time: see [`Scheduler::with_in_flight`].
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// What became of every packet so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// What became of packets at the exit; all zero where packets leave as they are done.
    pub fn exit_account(&self) -> ExitAccount {
        self.exit.as_ref().map(ExitBuffer::account).unwrap_or_default()
    }

    /// Whether as many packets are held as the run allows.
    pub fn is_full(&self) -> bool {
        self.account.held >= self.packets_max
    }

    /// Packets in service on `core`.
    pub fn in_service(&self, core: CoreId) -> u32 {
        self.cores[core].in_service
    }

    /// Whether the packet of this slot is in service.
    pub(super) fn is_in_service(&self, slot: Slot) -> bool {
        self.slab.get(slot).core.is_some()
    }

    /// Panics if a count, a queue or a policy contradicts itself. Slow: for tests.
    pub fn check(&self) {
        assert!(self.account.balances(), "the account does not balance: {:?}", self.account);
        assert_eq!(self.slab.used() as u64, self.account.held + u64::from(self.dropped.length()), "packets held");
        let waiting: u32 = self.queues.iter().map(|queue| queue.waiting).sum();
        let in_service: u32 = self.cores.iter().map(|core| core.in_service).sum();
        let held_back = self.steer.as_ref().map_or(0, |steer| steer.held.length());
        assert_eq!(
            u64::from(waiting + in_service + held_back),
            self.account.held,
            "packets waiting, in service and held back"
        );
        for queue in &self.queues {
            queue.check(&self.slab);
        }
        if let Some(steer) = &self.steer {
            steer.policy.check();
        }
        if let Some(allocation) = &self.allocation {
            allocation.check();
        }
        if let Some(exit) = &self.exit {
            exit.check();
        }
        self.estimate.check();
    }

    /// Makes the queues that a steering policy of this reach needs beside those there are.
    pub(super) fn add_wider_queues(
        &mut self,
        reach: Reach,
        share: &mut impl FnMut() -> Result<Q, BuildError>,
    ) -> Result<(), BuildError> {
        let Plan { cores, contexts, clients, .. } = self.plan;
        let elements = cores.div_ceil(contexts);
        let wanted = match reach {
            Reach::Core => return Ok(()),
            Reach::Element => cores + elements,
            Reach::Shared => cores + elements + 1,
        };
        if wanted > usize::from(u16::MAX) {
            return Err(BuildError::new(format!("{wanted} queues are too many for {cores} cores: have fewer")));
        }
        let shares: Result<Vec<Q>, BuildError> = (self.queues.len()..wanted).map(|_| share()).collect();
        for (id, share) in (self.queues.len()..).zip(shares?) {
            check_memory(&share, wanted, clients)?;
            let shared = id == cores + elements;
            let queue = self.queues.push(self.plan.queue(share, if shared { cores } else { contexts }));
            let first = if shared { 0 } else { (id - cores) * contexts };
            let pulling = if shared { cores } else { contexts };
            for core in (first..first + pulling).map(CoreId::from_index) {
                self.cores[core].pull_from(queue);
                if self.cores[core].in_service < self.in_flight {
                    self.queues[queue].offer_core(core);
                }
            }
        }
        let mut candidates = IdSet::new(self.queues.len());
        self.queues.ids().for_each(|queue| candidates.insert(queue));
        self.candidates = candidates;
        Ok(())
    }

    fn accept(&mut self, now: Time, mut packet: Packet) -> Arrival {
        self.account.arrived += 1;
        if self.is_full() && !self.plan.push_out {
            return self.drop_arriving(DropReason::BufferFull);
        }
        (packet.entered, packet.hop) = (packet.arrival, 0);
        if let Some(chain) = self.chains.get(packet.chain) {
            packet.service = chain[0];
        }
        packet.estimate = self.estimate.of(&packet);
        let target = self.steer(now, &packet, true);
        if target == Some(Target::Hold) {
            if self.is_full() {
                return self.drop_arriving(DropReason::BufferFull);
            }
            let slot = self.admit(packet);
            let steer = self.steer.as_mut().expect("who holds back packets steers");
            steer.held.push(slot, &mut self.slab);
            return Arrival::Queued(slot);
        }
        let queue = self.queue_of(target, packet.service);
        if let Some(reason) = self.make_room(now, queue, packet.client, self.is_full()) {
            if let (Some(steer), Some(target)) = (&mut self.steer, target) {
                steer.policy.on_drop(now, target, &packet);
            }
            return self.drop_arriving(reason);
        }
        let slot = self.admit(packet);
        self.join(now, slot, target, queue);
        Arrival::Queued(slot)
    }

    /// Gives an accepted packet its slot.
    #[inline]
    fn admit(&mut self, mut packet: Packet) -> Slot {
        packet.sequence = self.accepted;
        self.accepted += 1;
        self.account.held += 1;
        let slot = self.slab.insert(packet);
        if let Some(exit) = &mut self.exit {
            self.slab.get_mut(slot).stamp = exit.on_enter(packet.flow);
        }
        slot
    }

    /// Puts a packet into a queue, and tells everybody.
    #[inline]
    fn join(&mut self, now: Time, slot: Slot, target: Option<Target>, queue: QueueId) {
        let entry = self.slab.get_mut(slot);
        (entry.queue, entry.foreign) = (queue, false);
        entry.charged = self.queues[queue].charged(entry.packet.client);
        let packet = entry.packet;
        self.queues[queue].enqueue(now, slot, &mut self.slab);
        self.changed(queue);
        if let (Some(steer), Some(target)) = (&mut self.steer, target) {
            if let Target::Core(core) = target {
                self.views[core].packets += 1;
                self.views[core].backlog += packet.estimate;
            }
            steer.policy.on_enqueue(now, target, &packet);
            steer.on_enqueue(packet.flow);
        }
        self.tell_waiting(queue);
        if let Some(allocation) = &mut self.allocation {
            allocation.policy.on_arrival(now, packet.service);
        }
        self.reassign(now, Cause::Arrival(packet.service));
    }

    fn dispatch(&mut self, now: Time, core: CoreId) -> Option<Dispatch> {
        if !self.allocation.as_ref().is_none_or(|allocation| allocation.is_movable(core)) {
            return None;
        }
        let pulled = self.cores[core].queues().find_map(|queue| {
            let slot = self.queues[queue].dispatch(now, core, &mut self.slab);
            Some((queue, slot?))
        });
        let Some((id, slot)) = pulled else {
            self.refuse(now, core);
            return None;
        };
        let state = &mut self.cores[core];
        let entry = self.slab.get_mut(slot);
        entry.core = Some(core);
        let packet = entry.packet;
        let cold = state.last_service != Some(packet.service);
        entry.cold = cold;
        state.last_service = Some(packet.service);
        state.in_service += 1;
        if state.in_service >= self.in_flight {
            state.queues().for_each(|queue| self.queues[queue].withdraw_core(core));
        }
        if self.layout != Layout::PerCore || id.0 != core.0 {
            self.views[core].packets += 1;
            self.views[core].backlog += packet.estimate;
        }
        if let Some(steer) = &mut self.steer {
            steer.policy.on_dispatch(now, core, self.plan.target_of(id), &packet);
        }
        if let Some(allocation) = &mut self.allocation {
            allocation.on_dispatch(now, core);
        }
        self.tell_waiting(id);
        Some(Dispatch { slot, packet, cold })
    }

    /// Nothing waits that this core may serve: it is not asked again before something has changed.
    fn refuse(&mut self, now: Time, core: CoreId) {
        for id in self.cores[core].queues() {
            if self.queues[id].share.prefers_cores() {
                self.queues[id].refuse_core(core);
            } else {
                self.candidates.remove(id);
            }
        }
        if let Some(allocation) = self.allocation.as_mut().filter(|_| self.cores[core].in_service == 0) {
            allocation.on_idle(now, core);
        }
    }

    fn complete(&mut self, now: Time, slot: Slot, busy: Time, ends: bool) -> Completed {
        self.advance(now);
        let entry = *self.slab.get(slot);
        let core = entry.core.expect("a packet must be in service to complete");
        let packet = entry.packet;
        let used = match self.unit {
            WorkUnit::Nanoseconds => busy.as_ns(),
            WorkUnit::Bytes => u64::from(packet.length),
            WorkUnit::Packets => 1,
        };
        let onward = if ends { None } else { self.next_service(&packet) };
        self.estimate.on_completion(&packet, used, entry.cold);
        self.queues[entry.queue].complete(now, core, &entry, used, &self.slab);
        self.cores[core].in_service -= 1;
        self.changed(entry.queue);
        self.views[core].packets -= 1;
        self.views[core].backlog -= packet.estimate;
        if let Some(steer) = &mut self.steer {
            steer.policy.on_completion(now, core, &packet, used);
            steer.on_gone(packet.flow);
        }
        let exit = if onward.is_some() {
            self.slab.get_mut(slot).core = None;
            None
        } else {
            self.leave(now, slot, &packet, ends)
        };
        self.release(now, core, packet.service, now.since(packet.arrival));
        if let Some(service) = onward {
            self.go_on(now, slot, service);
        }
        self.release_held(now);
        self.note(|| Event::Completion { slot, busy, ends, used, onward, exit });
        Completed { packet, used, onward, ends, exit }
    }

    /// The packet has gone through all its services, or ends. Where it waits for earlier ones, if it must.
    fn leave(&mut self, now: Time, slot: Slot, packet: &Packet, ends: bool) -> Option<ExitSlot> {
        let stamp = self.slab.get(slot).stamp;
        self.slab.remove(slot);
        self.account.processed += 1;
        self.account.held -= 1;
        let exit = self.exit.as_mut()?;
        if ends {
            exit.on_gone(now, packet, stamp);
            return None;
        }
        exit.on_done(now, packet, stamp)
    }

    /// The packet goes on to the next service of its chain, as if it arrived there.
    fn go_on(&mut self, now: Time, slot: Slot, service: ServiceId) {
        let before = self.slab.get(slot).packet;
        let mut packet = Packet { hop: before.hop + 1, arrival: now, service, estimate: 0, ..before };
        packet.estimate = self.estimate.of(&packet);
        self.slab.get_mut(slot).packet = packet;
        match self.steer(now, &packet, true) {
            Some(Target::Hold) => {
                let steer = self.steer.as_mut().expect("who holds back packets steers");
                steer.held.push(slot, &mut self.slab);
            }
            target => self.join_or_drop(now, slot, target),
        }
    }

    /// Asks again about the packets held back, in their order, until one must wait.
    pub(super) fn release_held(&mut self, now: Time) {
        while let Some(slot) = self.steer.as_ref().and_then(|steer| steer.held.front()) {
            let packet = self.slab.get(slot).packet;
            let target = self.steer(now, &packet, false);
            if target == Some(Target::Hold) {
                return;
            }
            self.steer.as_mut().expect("it holds back a packet").held.pop(&self.slab);
            self.join_or_drop(now, slot, target);
        }
    }

    /// Puts a packet that has a slot into the queue of its target, if there is room.
    fn join_or_drop(&mut self, now: Time, slot: Slot, target: Option<Target>) {
        let packet = self.slab.get(slot).packet;
        let queue = self.queue_of(target, packet.service);
        match self.make_room(now, queue, packet.client, false) {
            None => self.join(now, slot, target, queue),
            Some(reason) => {
                if let (Some(steer), Some(target)) = (&mut self.steer, target) {
                    steer.policy.on_drop(now, target, &packet);
                }
                self.drop_held(now, slot, reason);
            }
        }
    }

    /// A core is done with a packet: it has room again, and if it has nothing at all it goes, or is idle.
    fn release(&mut self, now: Time, core: CoreId, service: ServiceId, delay: Time) {
        let Core { in_service, .. } = self.cores[core];
        let Some(allocation) = &mut self.allocation else {
            return self.offer(core);
        };
        allocation.policy.on_completion(now, core, service, delay);
        if in_service == 0 && allocation.on_empty(core) {
            return;
        }
        if allocation.is_movable(core) {
            self.offer(core);
        }
        self.reassign(now, Cause::Completion(core));
        let allocation = self.allocation.as_mut().expect("there is one");
        if in_service == 0 && allocation.is_movable(core) && self.queues[self.cores[core].queues[0]].waiting == 0 {
            allocation.on_idle(now, core);
            self.reassign(now, Cause::Idle(core));
        }
    }

    /// The core has room.
    #[inline]
    fn offer(&mut self, core: CoreId) {
        for queue in self.cores[core].queues() {
            self.queues[queue].offer_core(core);
            self.candidates.insert(queue);
        }
    }

    /// Makes the moves of the allocation policy for this cause.
    #[inline]
    fn reassign(&mut self, now: Time, cause: Cause) {
        let Some(allocation) = &mut self.allocation else { return };
        for _ in 0..=self.cores.len() {
            let cores = &self.cores;
            let Some(core) = allocation.reassign(now, cause, |core| cores[core].in_service == 0) else { return };
            self.queues[self.cores[core].queues[0]].withdraw_core(core);
        }
        panic!("the allocation policy moves cores without end");
    }

    /// Tells the allocation of a service's queue.
    #[inline]
    pub(super) fn tell_waiting(&mut self, queue: QueueId) {
        if let Some(allocation) = self.allocation.as_mut().filter(|_| self.layout == Layout::PerService) {
            let state = &self.queues[queue];
            allocation.set_waiting(ServiceId(queue.0), state.waiting, state.oldest(&self.slab));
        }
    }

    /// Something has changed in a queue: cores may find there what they did not before.
    #[inline]
    pub(super) fn changed(&mut self, queue: QueueId) {
        self.candidates.insert(queue);
        self.queues[queue].forgive_cores();
    }

    pub(super) fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
    }

    /// Writes a line of the journal, if there is one.
    #[inline]
    pub(super) fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(journal) = &mut self.journal {
            journal.record(Record { now: self.now, event: event() });
        }
    }

    /// Where the packet goes; none where nothing steers. A packet that comes in, or to its next service, waits behind those
    /// held back.
    #[inline]
    fn steer(&mut self, now: Time, packet: &Packet, behind: bool) -> Option<Target> {
        let steer = self.steer.as_mut()?;
        if behind && !steer.held.is_empty() {
            return Some(Target::Hold);
        }
        let view = View { as_of: self.now, cores: &self.views, eligible: &self.eligible[packet.service] };
        Some(steer.ask(now, packet, &view))
    }

    #[inline]
    fn queue_of(&self, target: Option<Target>, service: ServiceId) -> QueueId {
        match (target, self.layout) {
            (Some(Target::Core(core)), _) => QueueId(core.0),
            (Some(Target::Element(element)), _) => QueueId::from_index(self.plan.cores + element.index()),
            (Some(Target::Shared), _) => QueueId::from_index(self.queues.len() - 1),
            (Some(Target::Hold), _) => unreachable!("a packet that is held back joins no queue"),
            (None, Layout::PerService) => QueueId(service.0),
            (None, _) => QueueId(0),
        }
    }

    /// The service that a packet goes through after this one.
    fn next_service(&self, packet: &Packet) -> Option<ServiceId> {
        self.chains.get(packet.chain)?.get(usize::from(packet.hop) + 1).copied()
    }

    /// Finds room for a packet of this client in this queue, by pushing out another where that is how it is done; `full` says
    /// whether the run has no room for it either. Why there is none, if there is none.
    #[inline]
    fn make_room(&mut self, now: Time, queue: QueueId, client: ClientId, full: bool) -> Option<DropReason> {
        let state = &self.queues[queue];
        let charged = state.charged(client);
        if self.limits.client != u32::MAX && state.waiting_of(charged) >= self.limits.client {
            return Some(DropReason::ClientFull);
        }
        if state.waiting >= self.limits.queue {
            let own = state.waiting_of(charged);
            let victim = state.longest().filter(|&(_, length)| length > own.max(1));
            let Some((victim, _)) = victim else { return Some(DropReason::QueueFull) };
            self.push_out(now, queue, victim);
        } else if full {
            let own = state.waiting_of(charged);
            let longest = |id: QueueId| self.queues[id].longest().map(|(client, length)| (length, id, client));
            let victim = self.queues.ids().rev().filter_map(longest).max_by_key(|&(length, ..)| length);
            let victim = victim.filter(|&(length, ..)| length > own.max(1));
            let Some((_, id, victim)) = victim else { return Some(DropReason::BufferFull) };
            self.push_out(now, id, victim);
        }
        None
    }

    /// Drops the newest packet of a client.
    fn push_out(&mut self, now: Time, queue: QueueId, client: ClientId) {
        let slot = self.queues[queue].push_out(now, client, &mut self.slab);
        let packet = self.slab.get(slot).packet;
        if let Some(steer) = &mut self.steer {
            let target = self.plan.target_of(queue);
            if let Target::Core(core) = target {
                self.views[core].packets -= 1;
                self.views[core].backlog -= packet.estimate;
            }
            steer.policy.on_push_out(now, target, &packet);
            steer.on_gone(packet.flow);
        }
        self.tell_waiting(queue);
        self.drop_held(now, slot, DropReason::PushedOut);
    }

    /// Drops a packet that has a slot, and is in no queue.
    fn drop_held(&mut self, now: Time, slot: Slot, reason: DropReason) {
        let entry = self.slab.get_mut(slot);
        entry.reason = reason;
        let (packet, stamp) = (entry.packet, entry.stamp);
        self.account.on_drop(reason);
        self.account.held -= 1;
        if let Some(exit) = &mut self.exit {
            exit.on_gone(now, &packet, stamp);
        }
        self.dropped.push(slot, &mut self.slab);
    }

    fn drop_arriving(&mut self, reason: DropReason) -> Arrival {
        self.account.on_drop(reason);
        Arrival::Dropped(reason)
    }
}

/// Queues that tell clients apart have a place for each.
fn check_memory(share: &impl Share, queues: usize, clients: usize) -> Result<(), BuildError> {
    if !share.merges_clients() && queues.saturating_mul(clients) > PLACES_MAX {
        return Err(BuildError::new(format!(
            "{queues} queues with places for {clients} clients each need too much memory: have fewer clients or cores, or \
             share by `fcfs`"
        )));
    }
    Ok(())
}

/// About two gigabytes with the policies' own memory.
const PLACES_MAX: usize = 1 << 25;

fn check_setup(setup: &Setup<'_>, options: &Options) -> Result<(), BuildError> {
    let refuse = |message| Err(BuildError::new(message));
    if setup.cores == 0 || setup.cores > usize::from(u16::MAX) {
        return refuse(format!("there must be 1 to {} cores, not {}", u16::MAX, setup.cores));
    }
    if setup.contexts == 0 || !setup.cores.is_multiple_of(setup.contexts) {
        return refuse(format!("{} cores are no elements of {} contexts each", setup.cores, setup.contexts));
    }
    if let Some(topology) = setup.topology.filter(|topology| topology.cores() != setup.cores) {
        return refuse(format!("the topology has {} cores, the run {}", topology.cores(), setup.cores));
    }
    if setup.packets == 0 || setup.packets >= u32::MAX as usize - 1 {
        return refuse(format!("there must be room for 1 to {} packets, not {}", u32::MAX - 2, setup.packets));
    }
    if setup.services.is_empty() || setup.services.len() != setup.estimates.len() {
        return refuse(format!("{} services with {} estimates", setup.services.len(), setup.estimates.len()));
    }
    let services = setup.services.len();
    if options.chains.iter().any(|chain| chain.is_empty() || chain.len() > usize::from(u8::MAX)) {
        return refuse(format!("a chain has 1 to {} services", u8::MAX));
    }
    if let Some(service) = options.chains.iter().flatten().find(|service| service.index() >= services) {
        return refuse(format!("a chain names service {service}, and there are {services}, from 0"));
    }
    if options.exit.is_some_and(|exit| exit.packets == 0 || exit.packets >= u32::MAX - 1) {
        return refuse(format!("1 to {} packets may wait at the exit", u32::MAX - 2));
    }
    Ok(())
}
