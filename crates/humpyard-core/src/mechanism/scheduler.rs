//! The scheduler: packets in, decisions out.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::account::{Account, DropReason};
use super::allocation::{Allocation, Switch};
use super::queue::Queue;
use super::slab::Slab;
use crate::cost::LinearCost;
use crate::id::{ClientId, CoreId, FlowId, Id, IdVec, QueueId, ServiceId, Slot};
use crate::packet::Packet;
use crate::policy::{Allocate, BuildError, Cause, CoreView, Estimate, Policy, Setup, Share, Steer, Target, View};
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

/// How many packets may be held, beyond the [`Setup::packets`] of the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most packets waiting in one queue.
    pub queue: u32,
    /// Most packets waiting of one client in one queue.
    pub client: u32,
}

impl Default for Limits {
    /// No limit but that of the run.
    fn default() -> Self {
        Self { queue: u32::MAX, client: u32::MAX }
    }
}

/// What the mechanism is told beside the policies' [`Setup`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Limits of queues and clients.
    pub limits: Limits,
    /// Whether clients keep their order where several cores pull from one queue.
    pub flow_order: FlowOrder,
}

/// What became of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
}

/// Whom the mechanism asks what a packet costs.
#[derive(Debug)]
enum Estimator {
    /// The table of the set-up, without a detour.
    Table(IdVec<ServiceId, LinearCost>),
    Other(Box<dyn Estimate + Send>),
}

impl Estimator {
    #[inline]
    fn of(&self, packet: &Packet) -> Work {
        match self {
            Self::Table(lines) => lines[packet.service].work(packet.length),
            Self::Other(estimate) => estimate.estimate(packet),
        }
    }

    #[inline]
    fn on_completion(&mut self, packet: &Packet, used: Work, cold: bool) {
        if let Self::Other(estimate) = self {
            estimate.on_completion(packet, used, cold);
        }
    }
}

/// Which queue a core pulls from, and a packet joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// One queue for all.
    Shared,
    /// One for each core: there is a steering policy.
    PerCore,
    /// One for each service: cores are allocated to services.
    PerService,
}

#[derive(Debug)]
struct Core {
    /// Where it takes its packets from; where it took them from last while it switches.
    queue: QueueId,
    last_service: Option<ServiceId>,
    in_service: u32,
}

/// The packets, their queues, and the policies that order them.
///
/// Which policies are there lays out the queues: with a steering policy one for each core, else with an allocation one
/// for each service, else one for all. Each queue has a sharing policy of its own.
#[derive(Debug)]
pub struct Scheduler<S, Q, A> {
    steer: Option<S>,
    layout: Layout,
    queues: IdVec<QueueId, Queue<Q>>,
    cores: IdVec<CoreId, Core>,
    views: IdVec<CoreId, CoreView>,
    /// The cores that may serve each service.
    eligible: IdVec<ServiceId, Vec<CoreId>>,
    allocation: Option<Allocation<A>>,
    estimate: Estimator,
    slab: Slab,
    /// Queues in which something may have changed since they were last found to have nothing for a core.
    candidates: IdSet<QueueId>,
    in_flight: u32,
    limits: Limits,
    unit: WorkUnit,
    account: Account,
    accepted: u64,
    now: Time,
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
        check_setup(setup)?;
        let moves = allocate.as_ref().is_some_and(Allocate::moves);
        if moves && steer.is_some() {
            return Err(BuildError::new(
                "an allocation that moves cores needs one queue per service: it cannot be combined with a steering policy",
            ));
        }
        let allocation = allocate.map(|policy| Allocation::new(policy, setup));
        let service_of = |core| allocation.as_ref().map_or(ServiceId(0), |allocation| allocation.service_of(core));
        let layout = match (&steer, &allocation) {
            (Some(_), _) => Layout::PerCore,
            (None, Some(_)) => Layout::PerService,
            (None, None) => Layout::Shared,
        };
        let queue_of = |core: CoreId| match layout {
            Layout::Shared => QueueId(0),
            Layout::PerCore => QueueId(core.0),
            Layout::PerService => QueueId(service_of(core).0),
        };
        let queue_count = match layout {
            Layout::Shared => 1,
            Layout::PerCore => setup.cores,
            Layout::PerService => setup.services.len(),
        };
        let cores =
            IdVec::from_fn(setup.cores, |core| Core { queue: queue_of(core), last_service: None, in_service: 0 });
        let mut queues = IdVec::new();
        for queue in (0..queue_count).map(QueueId::from_index) {
            let share = share()?;
            check_memory(&share, queue_count, setup.clients)?;
            let pulling = if moves { setup.cores } else { cores.iter().filter(|core| core.queue == queue).count() };
            let keep_order = options.flow_order == FlowOrder::Keep && pulling > 1;
            queues.push(Queue::new(share, setup.clients, setup.cores, keep_order));
        }
        for core in cores.ids() {
            queues[cores[core].queue].free.insert(core);
        }
        let eligible = IdVec::from_fn(setup.services.len(), |service| match &allocation {
            Some(allocation) => allocation.cores_of(service).collect(),
            None => cores.ids().collect(),
        });
        Ok(Self {
            steer,
            layout,
            queues,
            cores,
            views: IdVec::from_fn(setup.cores, |_| CoreView::default()),
            eligible,
            allocation,
            estimate: Estimator::Table(setup.estimates.iter().copied().collect()),
            slab: Slab::new(setup.packets),
            candidates: IdSet::new(queue_count),
            in_flight: 1,
            limits: options.limits,
            unit: setup.unit,
            account: Account::default(),
            accepted: 0,
            now: Time::ZERO,
        })
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

    /// A packet arrives: it is steered and queued, or dropped for a named reason.
    pub fn on_arrival(&mut self, now: Time, mut packet: Packet) -> Arrival {
        self.advance(now);
        self.account.arrived += 1;
        if self.slab.is_full() {
            return self.drop_packet(DropReason::BufferFull);
        }
        packet.estimate = self.estimate.of(&packet);
        let core = self.steer(&packet);
        let queue = match (core, self.layout) {
            (Some(core), _) => self.cores[core].queue,
            (None, Layout::PerService) => QueueId(packet.service.0),
            (None, _) => QueueId(0),
        };
        let charged = self.queues[queue].charged(packet.client);
        if let Some(reason) = self.refuse(queue, charged) {
            if let (Some(steer), Some(core)) = (&mut self.steer, core) {
                steer.on_drop(now, Target::Core(core), &packet);
            }
            return self.drop_packet(reason);
        }
        packet.sequence = self.accepted;
        packet.entered = packet.arrival;
        self.accepted += 1;
        self.account.held += 1;
        let slot = self.slab.insert(packet, queue, charged);
        self.queues[queue].enqueue(now, slot, &mut self.slab);
        self.candidates.insert(queue);
        if let (Some(steer), Some(core)) = (&mut self.steer, core) {
            self.views[core].packets += 1;
            self.views[core].backlog += packet.estimate;
            steer.on_enqueue(now, Target::Core(core), &packet);
        }
        self.tell_waiting(queue);
        if let Some(allocation) = &mut self.allocation {
            allocation.policy.on_arrival(now, packet.service);
        }
        self.reassign(now, Cause::Arrival(packet.service));
        Arrival::Queued(slot)
    }

    /// A core that has room, and for which something may wait; none if there is none. Ask it with [`Scheduler::next`], and
    /// then this again, until there is none: then every core has what it can have.
    ///
    /// Cores come by ascending queue, and within a queue as the allocation, else the sharing policy, places packets.
    pub fn next_core(&mut self, now: Time) -> Option<CoreId> {
        while let Some(id) = self.candidates.first() {
            let queue = &mut self.queues[id];
            match (queue.waiting, queue.free.len(), &mut self.allocation) {
                (0, ..) | (_, 0, _) => self.candidates.remove(id),
                (_, 1, _) => return queue.free.first(),
                (_, _, Some(allocation)) if self.layout == Layout::PerService => {
                    return Some(allocation.place(ServiceId(id.0), &queue.free));
                }
                _ => return Some(queue.place(now)),
            }
        }
        None
    }

    /// The packet that `core` serves next; none if nothing waits that it may serve.
    ///
    /// A driver may ask again before the first packet is complete, and so hand a core several in a row.
    pub fn next(&mut self, now: Time, core: CoreId) -> Option<Dispatch> {
        self.advance(now);
        if !self.allocation.as_ref().is_none_or(|allocation| allocation.is_movable(core)) {
            return None;
        }
        let state = &mut self.cores[core];
        let id = state.queue;
        let Some(slot) = self.queues[id].dispatch(now, core, &mut self.slab) else {
            self.candidates.remove(id);
            if let Some(allocation) = self.allocation.as_mut().filter(|_| state.in_service == 0) {
                allocation.on_idle(now, core);
            }
            return None;
        };
        let entry = self.slab.get_mut(slot);
        entry.core = Some(core);
        let packet = entry.packet;
        let cold = state.last_service != Some(packet.service);
        entry.cold = cold;
        state.last_service = Some(packet.service);
        state.in_service += 1;
        if state.in_service >= self.in_flight {
            self.queues[id].free.remove(core);
        }
        if self.layout != Layout::PerCore {
            self.views[core].packets += 1;
            self.views[core].backlog += packet.estimate;
        }
        if let Some(allocation) = &mut self.allocation {
            allocation.on_dispatch(now, core);
        }
        self.tell_waiting(id);
        Some(Dispatch { slot, packet, cold })
    }

    /// The packet in `slot` is done; its core was busy with it for `busy`.
    ///
    /// # Panics
    /// If it was not in service.
    pub fn on_completion(&mut self, now: Time, slot: Slot, busy: Time) -> Completed {
        self.advance(now);
        let entry = *self.slab.get(slot);
        let core = entry.core.expect("a packet must be in service to complete");
        let packet = entry.packet;
        let used = match self.unit {
            WorkUnit::Nanoseconds => busy.as_ns(),
            WorkUnit::Bytes => u64::from(packet.length),
            WorkUnit::Packets => 1,
        };
        self.slab.remove(slot);
        self.estimate.on_completion(&packet, used, entry.cold);
        self.queues[entry.queue].complete(now, core, entry.charged, &packet, used, &self.slab);
        self.cores[core].in_service -= 1;
        self.candidates.insert(entry.queue);
        self.views[core].packets -= 1;
        self.views[core].backlog -= packet.estimate;
        if let Some(steer) = &mut self.steer {
            steer.on_completion(now, core, &packet, used);
        }
        self.account.processed += 1;
        self.account.held -= 1;
        self.release(now, core, packet.service, now.since(packet.arrival));
        Completed { packet, used }
    }

    /// A core that begins to go over to another service; asked again until there is none, after every other call. The driver
    /// calls [`Scheduler::on_switched`] when the switch is over.
    pub fn next_switch(&mut self) -> Option<Switch> {
        self.allocation.as_mut()?.next_switch()
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
        self.cores[core].queue = queue;
        self.queues[queue].free.insert(core);
        self.candidates.insert(queue);
        if self.queues[queue].waiting == 0 {
            self.reassign(now, Cause::Idle(core));
        }
    }

    /// When a policy wants to be told of the time; none is never. To be asked after every event.
    pub fn next_timeout(&self) -> Option<Time> {
        let steer = self.steer.as_ref().and_then(Policy::next_timeout);
        let allocate = self.allocation.as_ref().and_then(|allocation| allocation.policy.next_timeout());
        [steer, allocate].into_iter().flatten().min()
    }

    /// The time that [`Scheduler::next_timeout`] named has come.
    pub fn on_timeout(&mut self, now: Time) {
        self.advance(now);
        if let Some(steer) = &mut self.steer {
            steer.on_timeout(now);
        }
        if let Some(allocation) = &mut self.allocation {
            allocation.policy.on_timeout(now);
        }
        self.reassign(now, Cause::Timeout);
    }

    /// The client is gone; it must be idle. Its id may be used for another.
    pub fn on_client_end(&mut self, now: Time, client: ClientId) {
        self.advance(now);
        for queue in self.queues.iter_mut() {
            queue.end_client(now, client);
        }
    }

    /// The flow is over; none of its packets is held. Its id may be used for another.
    pub fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        self.advance(now);
        if let Some(steer) = &mut self.steer {
            steer.on_flow_end(now, flow);
        }
    }

    /// Gives a client another weight, in every queue.
    pub fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        self.advance(now);
        for queue in self.queues.iter_mut() {
            queue.set_weight(now, client, weight);
        }
        self.queues.ids().for_each(|queue| self.candidates.insert(queue));
    }

    /// Packets that a core may be handed at a time: see [`Scheduler::with_in_flight`].
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// What became of every packet so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Whether as many packets are held as the run allows, so that the next would be dropped.
    pub fn is_full(&self) -> bool {
        self.slab.is_full()
    }

    /// Packets in service on `core`.
    pub fn in_service(&self, core: CoreId) -> u32 {
        self.cores[core].in_service
    }

    /// Panics if a count, a queue or a policy contradicts itself. Slow: for tests.
    pub fn check(&self) {
        assert!(self.account.balances(), "the account does not balance: {:?}", self.account);
        assert_eq!(self.slab.used() as u64, self.account.held, "packets held");
        let waiting: u32 = self.queues.iter().map(|queue| queue.waiting).sum();
        let in_service: u32 = self.cores.iter().map(|core| core.in_service).sum();
        assert_eq!(u64::from(waiting + in_service), self.account.held, "packets waiting and in service");
        for queue in &self.queues {
            queue.check(&self.slab);
        }
        if let Some(steer) = &self.steer {
            steer.check();
        }
        if let Some(allocation) = &self.allocation {
            allocation.check();
        }
    }

    /// A core is done with a packet: it has room again, and if it has nothing at all it goes, or is idle.
    fn release(&mut self, now: Time, core: CoreId, service: ServiceId, delay: Time) {
        let Core { queue, in_service, .. } = self.cores[core];
        let Some(allocation) = &mut self.allocation else {
            self.queues[queue].free.insert(core);
            return;
        };
        allocation.policy.on_completion(now, core, service, delay);
        if in_service == 0 && allocation.on_empty(core) {
            return;
        }
        if allocation.is_movable(core) {
            self.queues[queue].free.insert(core);
        }
        self.reassign(now, Cause::Completion(core));
        let allocation = self.allocation.as_mut().expect("there is one");
        if in_service == 0 && allocation.is_movable(core) && self.queues[queue].waiting == 0 {
            allocation.on_idle(now, core);
            self.reassign(now, Cause::Idle(core));
        }
    }

    /// Makes the moves of the allocation policy for this cause.
    fn reassign(&mut self, now: Time, cause: Cause) {
        let Some(allocation) = &mut self.allocation else { return };
        for _ in 0..=self.cores.len() {
            let cores = &self.cores;
            let Some(core) = allocation.reassign(now, cause, |core| cores[core].in_service == 0) else { return };
            self.queues[self.cores[core].queue].free.remove(core);
        }
        panic!("the allocation policy moves cores without end");
    }

    /// Tells the allocation of a service's queue.
    fn tell_waiting(&mut self, queue: QueueId) {
        if let Some(allocation) = self.allocation.as_mut().filter(|_| self.layout == Layout::PerService) {
            let state = &self.queues[queue];
            allocation.set_waiting(ServiceId(queue.0), state.waiting, state.oldest(&self.slab));
        }
    }

    fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
    }

    fn steer(&mut self, packet: &Packet) -> Option<CoreId> {
        let steer = self.steer.as_mut()?;
        let eligible = &self.eligible[packet.service];
        let view = View { as_of: self.now, cores: &self.views, eligible };
        let core = steer.steer(self.now, packet, &view).core().expect("a core");
        debug_assert!(eligible.contains(&core), "core {core} may not serve the packet");
        Some(core)
    }

    fn refuse(&self, queue: QueueId, charged: ClientId) -> Option<DropReason> {
        let queue = &self.queues[queue];
        if queue.waiting >= self.limits.queue {
            Some(DropReason::QueueFull)
        } else if self.limits.client != u32::MAX && queue.waiting_of(charged) >= self.limits.client {
            Some(DropReason::ClientFull)
        } else {
            None
        }
    }

    fn drop_packet(&mut self, reason: DropReason) -> Arrival {
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

fn check_setup(setup: &Setup<'_>) -> Result<(), BuildError> {
    let refuse = |message| Err(BuildError::new(message));
    if setup.cores == 0 || setup.cores > usize::from(u16::MAX) {
        return refuse(format!("there must be 1 to {} cores, not {}", u16::MAX, setup.cores));
    }
    if let Some(topology) = setup.topology.filter(|topology| topology.cores() != setup.cores) {
        return refuse(format!("the topology has {} cores, the run {}", topology.cores(), setup.cores));
    }
    if setup.contexts == 0 || !setup.cores.is_multiple_of(setup.contexts) {
        return refuse(format!("{} cores are no elements of {} contexts each", setup.cores, setup.contexts));
    }
    if setup.packets == 0 || setup.packets >= u32::MAX as usize {
        return refuse(format!("there must be room for 1 to {} packets, not {}", u32::MAX - 1, setup.packets));
    }
    if setup.services.is_empty() || setup.services.len() != setup.estimates.len() {
        return refuse(format!("{} services with {} estimates", setup.services.len(), setup.estimates.len()));
    }
    Ok(())
}
