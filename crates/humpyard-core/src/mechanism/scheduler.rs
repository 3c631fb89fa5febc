//! The scheduler: packets in, decisions out.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::account::Account;
use super::allocation::{Allocation, Switch};
use super::answer::{Arrival, Completed, Dispatch, Done, Dropped, Effect};
use super::estimator::Estimator;
use super::exit::{Exit, ExitAccount, ExitBuffer};
use super::family::Family;
use super::journal::{Event, Given, Journal, Record};
use super::layout::{Core, Layout, PULLS_MAX, Plan, check_memory};
use super::preemption::Turns;
use super::queue::Queue;
use super::slab::{Line, Slab};
use super::split::{SplitAccount, Splitter};
use super::steering::Steering;
use crate::config::SchedulerConfig;
use crate::id::{ClientId, CoreId, FlowId, Id, IdVec, QueueId, ServiceId, Slot};
use crate::packet::Packet;
use crate::policy::{Allocate, BuildError, Cause, CoreView, Estimate, Policy, Reach, Share, Steer, Target, View};
use crate::storage::IdSet;
use crate::unit::{Time, Weight};

/// Stands for the policy of a family that a composition does not use.
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

/// The packets, their queues, and the policies that order them.
///
/// The policies determine the queues, each of which has its own sharing policy:
/// * with steering, one queue for each core; with a wider reach also one for each element and one for all cores;
/// * without steering but with an allocation, one queue for each service;
/// * otherwise one queue for all.
///
/// After every call a driver calls [`Scheduler::next_effect`] until it returns `None`.
#[derive(Debug)]
pub struct Scheduler<S, Q, A> {
    pub(super) plan: Plan,
    pub(super) now: Time,

    // The policies, except the sharing policies, which are in the queues.
    pub(super) steer: Family<S, Steering<S>>,
    pub(super) allocation: Family<A, Allocation<A>>,
    pub(super) estimate: Estimator,
    /// Possible users of timers: the policies that keep time count as one, and each packet at the exit as one.
    pub(super) timekeepers: u64,

    // The packets.
    pub(super) slab: Slab,
    pub(super) queues: IdVec<QueueId, Queue<Q>>,
    /// Queues with waiting packets that may have changed since they last had nothing for a core.
    pub(super) candidates: IdSet<QueueId>,
    /// Packets that were dropped after they had a slot, until the driver has fetched them.
    pub(super) dropped: Line,
    /// Whether there may be such packets, packets that leave the exit, or cores that begin to switch. Cleared when
    /// the driver asks and there is none.
    pub(super) is_pending: bool,
    /// The weights that clients were given on the way, for sharing policies that come later.
    pub(super) reweighed: IdVec<ClientId, Option<Weight>>,

    // The cores.
    pub(super) cores: IdVec<CoreId, Core>,
    /// Of the cores among which a queue chooses, those with the fewest packets. Filled for each choice.
    pub(super) least_busy: IdSet<CoreId>,
    /// The cores as steering policies see them. Updated only with a steering policy.
    pub(super) views: IdVec<CoreId, CoreView>,
    /// The cores that may serve each service.
    pub(super) eligible: IdVec<ServiceId, Vec<CoreId>>,

    // Features that few runs have.
    pub(super) exit: Option<ExitBuffer>,
    pub(super) split: Option<Splitter>,
    /// `None`: cores serve each packet to its end.
    pub(super) turns: Option<Box<Turns>>,
    pub(super) journal: Option<Box<dyn Journal + Send>>,
    /// Whether the run has none of the rare features. These are chains, split flows, limits of queues or clients,
    /// cores with several queues, preemption, and a journal. Also, no policy has taken over, no core has come
    /// or gone, and no
    /// client has been withheld. Each call checks this flag once.
    pub(super) is_plain: bool,

    // The account.
    pub(super) account: Account,
    pub(super) accepted: u64,
    /// Places taken at the exit: [`ExitBuffer::waiting`].
    pub(super) waiting_out: u64,
}

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Returns a scheduler; `share` makes the sharing policy of each queue. All memory is allocated here.
    ///
    /// # Errors
    /// The error of `share`, an error of [`SchedulerConfig::check`], or policies that do not work together.
    pub fn new(
        config: &SchedulerConfig,
        steer: Option<S>,
        allocate: Option<A>,
        mut share: impl FnMut() -> Result<Q, BuildError>,
    ) -> Result<Self, BuildError> {
        config.check()?;
        config.check_split(steer.is_some())?;
        let moves = allocate.as_ref().is_some_and(Allocate::moves);
        if moves && steer.is_some() {
            return Err(BuildError::combination(
                "an allocation that moves cores needs one queue per service: it cannot be combined with a steering policy",
            ));
        }
        let allocation = allocate.map(|policy| Allocation::new(policy, config));
        let layout = match (&steer, &allocation) {
            (Some(_), _) => Layout::PerCore,
            (None, Some(_)) => Layout::PerService,
            (None, None) => Layout::Shared,
        };
        let by_age = allocation.as_ref().is_some_and(|allocation| allocation.policy.heeds_oldest());
        let plan = Plan { by_age: by_age && layout == Layout::PerService, ..Plan::new(config, layout) };
        let cores = cores_of(&plan, allocation.as_ref());
        let queues = queues_of(&plan, &cores, moves, config.services.len(), &mut share)?;
        let slots = config.packets + usize::from(plan.push_out);
        let turns = Turns::of(&queues[QueueId(0)].share, slots);
        let eligible = IdVec::from_fn(config.services.len(), |service| match &allocation {
            Some(allocation) => allocation.cores_of(service).collect(),
            None => cores.ids().collect(),
        });
        let mut scheduler = Self {
            now: Time::ZERO,
            steer: Family::new(steer.map(Steering::new)),
            allocation: Family::new(allocation),
            estimate: Estimator::Table(config.estimates.iter().copied().collect()),
            timekeepers: 0,
            // One extra slot, for a packet that is pushed out and not yet fetched.
            slab: Slab::new(slots),
            queues,
            candidates: IdSet::new(0),
            dropped: Line::EMPTY,
            is_pending: false,
            reweighed: IdVec::from_fn(config.clients, |_| None),
            cores,
            least_busy: IdSet::new(config.cores),
            views: IdVec::from_fn(config.cores, |_| CoreView::default()),
            eligible,
            exit: config.exit.map(|order| ExitBuffer::new(order, config.flows)),
            split: config.split.map(|split| Splitter::new(split, config.flows)),
            turns,
            journal: None,
            is_plain: false,
            account: Account::default(),
            accepted: 0,
            waiting_out: 0,
            plan,
        };
        let reach = scheduler.steer.as_ref().map_or(Reach::Core, |steer| steer.policy.reach());
        scheduler.add_wider_queues(reach, &mut share)?;
        scheduler.candidates = IdSet::new(scheduler.queues.len());
        scheduler.is_plain = scheduler.finds_plain();
        scheduler.timekeepers = scheduler.finds_timekeepers();
        Ok(scheduler)
    }

    /// Sets the estimator that replaces the table of the configuration.
    #[must_use]
    pub fn with_estimate(mut self, estimate: Box<dyn Estimate + Send>) -> Self {
        self.estimate = Estimator::Other(estimate);
        self
    }

    /// Writes a journal of every call from now on.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal + Send>) -> Self {
        self.journal = Some(journal);
        self.is_plain = false;
        self
    }

    /// Takes a packet that arrives: it is steered and queued, or dropped for a stated reason.
    #[inline(always)]
    pub fn on_arrival(&mut self, now: Time, packet: &Packet) -> Arrival {
        self.on_arrival_as::<false>(now, packet)
    }

    #[inline(never)]
    pub(super) fn accept_any(&mut self, now: Time, packet: &Packet) -> Arrival {
        let answer = self.accept::<false>(now, packet);
        self.note(|| Event::Arrival { packet: *packet, answer });
        answer
    }

    /// Returns the packet that `core` serves next. `None`: no packet waits that it may serve.
    ///
    /// A driver may call this again before the first packet is complete, to hand a core several packets in a row.
    #[inline]
    pub fn next(&mut self, now: Time, core: CoreId) -> Option<Dispatch> {
        let (slot, cold) = self.take(now, core)?;
        Some(Dispatch { slot, packet: *self.packet(slot), cold, moved: None })
    }

    /// As [`Scheduler::next`]: the slot of the packet, and whether the core's previous packet had another service.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: Time, core: CoreId) -> Option<(Slot, bool)> {
        self.expect_settled();
        self.advance(now);
        if !self.allocation.as_ref().is_none_or(|allocation| allocation.is_movable(core)) {
            self.note(|| Event::Next { core, answer: None });
            return None;
        }
        if self.is_plain {
            let queue = self.cores[core].queues[0];
            return self.dispatch::<true>(now, core, queue);
        }
        self.take_any(now, core)
    }

    #[inline(never)]
    fn take_any(&mut self, now: Time, core: CoreId) -> Option<(Slot, bool)> {
        let taken = self.dispatch::<false>(now, core, self.cores[core].queues[0]);
        self.note(|| Event::Next { core, answer: taken.map(|(slot, cold)| Given { slot, cold }) });
        taken
    }

    /// The packet in this slot.
    #[inline]
    pub(crate) fn packet(&self, slot: Slot) -> &Packet {
        &self.slab.get(slot).packet
    }

    /// Completes the packet in `slot`; its core was busy with it for `busy`. The packet goes on to the next service
    /// of its chain, if there is one.
    ///
    /// # Panics
    /// If it was not in service.
    #[inline(always)]
    pub fn on_completion(&mut self, now: Time, slot: Slot, busy: Time) -> Completed {
        self.finish(now, slot, busy, false)
    }

    /// Ends the packet in `slot`, even if its chain has more services: its service has consumed or dropped it.
    /// Without chains and an exit this equals [`Scheduler::on_completion`].
    ///
    /// # Panics
    /// If it was not in service.
    pub fn on_end(&mut self, now: Time, slot: Slot, busy: Time) -> Completed {
        self.finish(now, slot, busy, true)
    }

    #[inline]
    fn finish(&mut self, now: Time, slot: Slot, busy: Time, ends: bool) -> Completed {
        self.expect_settled();
        self.advance(now);
        let packet = *self.packet(slot);
        if self.is_plain {
            return self.complete::<true>(now, slot, busy, ends).of(packet);
        }
        self.finish_any(now, slot, busy, ends).of(packet)
    }

    #[inline(never)]
    fn finish_any(&mut self, now: Time, slot: Slot, busy: Time, ends: bool) -> Done {
        let done = self.complete::<false>(now, slot, busy, ends);
        let Done { used, onward, ends, exit, .. } = done;
        self.note(|| Event::Completion { slot, busy, ends, used, onward, exit });
        done
    }

    /// Returns the next effect of the last call: first packets that are dropped, then packets that leave, then cores
    /// that switch. Call it until it returns `None`, after every call that reports an event and after every packet
    /// handed out. A dispatch may leave other cores without packets.
    #[inline(always)]
    pub fn next_effect(&mut self) -> Option<Effect> {
        if self.is_pending { self.find_effect() } else { None }
    }

    #[inline(never)]
    fn find_effect(&mut self) -> Option<Effect> {
        if let Some(dropped) = self.next_dropped() {
            return Some(Effect::Dropped(dropped));
        }
        if let Some(exit) = self.next_exit() {
            return Some(Effect::Left(exit));
        }
        let switch = self.next_switch();
        self.is_pending = switch.is_some();
        switch.map(Effect::Switch)
    }

    /// Whether the last call has no effects, or the driver has fetched them all. O(1).
    fn is_settled(&self) -> bool {
        self.dropped.is_empty()
            && self.exit.as_ref().is_none_or(ExitBuffer::is_settled)
            && self.allocation.as_ref().is_none_or(Allocation::is_settled)
    }

    /// Checks, where assertions are on, that the driver has fetched all effects of its last call.
    #[inline(always)]
    pub(super) fn expect_settled(&self) {
        debug_assert!(self.is_settled(), "`next_effect` was not asked until there was none");
    }

    pub(super) fn next_dropped(&mut self) -> Option<Dropped> {
        let slot = self.dropped.pop(&self.slab)?;
        let entry = self.slab.get(slot);
        let dropped = Dropped { slot, packet: entry.packet, reason: entry.reason };
        self.slab.remove(slot);
        self.note(|| Event::Dropped(slot, dropped.reason));
        Some(dropped)
    }

    pub(super) fn next_exit(&mut self) -> Option<Exit> {
        let exit = self.exit.as_mut()?.next_exit()?;
        self.note(|| Event::Exit(exit.place));
        Some(exit)
    }

    pub(super) fn next_switch(&mut self) -> Option<Switch> {
        let switch = self.allocation.as_mut()?.next_switch()?;
        self.note(|| Event::Switch(switch));
        Some(switch)
    }

    /// Ends the core's switch to its new service; the core is ready.
    ///
    /// # Panics
    /// If it was not switching.
    pub fn on_switched(&mut self, now: Time, core: CoreId) {
        self.expect_settled();
        self.advance(now);
        let allocation = self.allocation.as_mut().expect("only an allocation moves cores");
        allocation.on_switched(now, core);
        let queue = QueueId(allocation.service_of(core).0);
        self.cores[core].queues[0] = queue;
        if allocation.settle(core, |_| true).is_some() {
            self.is_pending = true;
        } else {
            self.queues[queue].offer_core(core);
            self.candidates.insert(queue);
            if self.queues[queue].waiting == 0 {
                self.reassign(now, Cause::Idle(core));
            } else {
                self.allocation.as_mut().expect("it moves cores").on_hope(core);
            }
        }
        self.note(|| Event::Switched(core));
    }

    /// Returns when [`Scheduler::on_timeout`] is due. `None`: no timer is set. Call it after every event.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        if !self.keeps_time() {
            return None;
        }
        let steer = self.steer.as_ref().and_then(|steer| steer.policy.next_timeout());
        let allocate = self.allocation.as_ref().and_then(|allocation| allocation.policy.next_timeout());
        let exit = self.exit.as_ref().and_then(ExitBuffer::next_timeout);
        let next = Time::earlier(Time::earlier(steer, allocate), exit);
        if self.holds_back_heads() { Time::earlier(next, self.next_release()) } else { next }
    }

    /// Whether a timer may ever be set. If not, a driver need not call [`Scheduler::next_timeout`].
    #[inline]
    pub fn keeps_time(&self) -> bool {
        self.timekeepers > 0
    }

    /// Returns the value that [`Scheduler::timekeepers`] must have: asks the policies.
    pub(super) fn finds_timekeepers(&self) -> u64 {
        let steers = self.steer.as_ref().is_some_and(|steer| steer.policy.keeps_time());
        let allocates = self.allocation.as_ref().is_some_and(|allocation| allocation.policy.keeps_time());
        u64::from(steers || allocates || self.holds_back_heads()) + self.waiting_out
    }

    /// Handles that the time of [`Scheduler::next_timeout`] has come.
    pub fn on_timeout(&mut self, now: Time) {
        self.expect_settled();
        self.advance(now);
        if let Some(exit) = &mut self.exit {
            exit.on_timeout(now);
            self.follow_exit();
        }
        if let Some(steer) = self.steer.as_mut() {
            steer.policy.on_timeout(now);
        }
        if let Some(allocation) = self.allocation.as_mut() {
            allocation.policy.on_timeout(now);
        }
        if self.holds_back_heads() {
            self.release_heads(now);
        }
        self.release_held(now);
        self.reassign(now, Cause::Timeout);
        self.note(|| Event::Timeout);
    }

    /// Ends the client, which must be idle. Its id may be used again.
    pub fn on_client_end(&mut self, now: Time, client: ClientId) {
        self.advance(now);
        for queue in self.queues.iter_mut() {
            queue.end_client(now, client);
        }
        self.note(|| Event::ClientEnd(client));
    }

    /// Ends the flow. None of its packets may be held or wait at the exit. Its id may be used again.
    pub fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        self.advance(now);
        if let Some(steer) = self.steer.as_mut() {
            steer.policy.on_flow_end(now, flow);
        }
        if let Some(split) = &mut self.split {
            split.on_flow_end(flow);
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
        self.reweighed[client] = Some(weight);
        self.note(|| Event::Weight(client, weight));
    }

    /// Returns the most packets that a core may be handed at a time: [`SchedulerConfig::in_flight`].
    pub fn in_flight(&self) -> u32 {
        self.plan.in_flight
    }

    /// Returns the account of all packets so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the account of the exit; all zero if packets leave as soon as they are done.
    pub fn exit_account(&self) -> ExitAccount {
        self.exit.as_ref().map(ExitBuffer::account).unwrap_or_default()
    }

    /// Returns the account of split flows so far; all zero if no flow is split.
    pub fn split_account(&self) -> SplitAccount {
        self.split.as_ref().map(Splitter::account).unwrap_or_default()
    }

    /// Returns the packets of this flow that were split so far; 0 if the run splits no flows.
    pub fn split_packets(&self, flow: FlowId) -> u64 {
        self.split.as_ref().map_or(0, |split| split.packets(flow))
    }

    /// Whether the run holds its maximum number of packets, including those at the exit.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.account.held + self.waiting_out >= self.plan.packets_max
    }

    /// Returns how many more packets may be held.
    #[inline]
    pub fn room(&self) -> u64 {
        self.plan.packets_max.saturating_sub(self.account.held + self.waiting_out)
    }

    /// Whether a packet that arrives at a full run may push out another, so that its client matters.
    #[inline]
    pub fn pushes_out(&self) -> bool {
        self.plan.push_out
    }

    /// Whether no packet is held, nor waits at the exit.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.account.held == 0 && self.exit.as_ref().is_none_or(|exit| exit.account().held == 0)
    }

    /// Packets in service on `core`.
    pub fn in_service(&self, core: CoreId) -> u32 {
        self.cores[core].in_service
    }

    /// Returns the packets waiting in the queue of `core`, if each core has its own queue.
    pub fn waiting(&self, core: CoreId) -> Option<u32> {
        (self.plan.layout == Layout::PerCore).then(|| self.queues[self.cores[core].queues[0]].waiting)
    }

    /// Whether the steering policy holds packets back.
    #[inline]
    pub fn holds_back(&self) -> bool {
        self.steer.as_ref().is_some_and(|steer| !steer.held.is_empty())
    }

    /// Whether the packet of this slot is in service.
    #[inline]
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
        if let Some(steer) = self.steer.as_ref() {
            steer.policy.check();
        }
        if let Some(allocation) = self.allocation.as_ref() {
            allocation.check();
        }
        if let Some(exit) = &self.exit {
            exit.check();
            assert_eq!(exit.waiting(), self.waiting_out, "places taken at the exit");
        }
        assert_eq!(self.timekeepers, self.finds_timekeepers(), "who wants to be told of the time");
        assert!(self.is_settled() || self.is_pending, "something follows, and nobody knows");
        self.estimate.check();
    }

    /// Returns a queue with this sharing policy, which learns of all changed weights.
    pub(super) fn queue(&self, share: Q, pulling: usize) -> Queue<Q> {
        let mut queue = self.plan.queue(share, pulling);
        for id in self.reweighed.ids() {
            if let Some(weight) = self.reweighed[id] {
                queue.set_weight(self.now, id, weight);
            }
        }
        queue
    }

    /// Makes the additional queues that a steering policy of this reach needs.
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
            return Err(BuildError::too_large(format!("{wanted} queues are too many for {cores} cores: have fewer")));
        }
        let shares: Result<Vec<Q>, BuildError> = (self.queues.len()..wanted).map(|_| share()).collect();
        for (id, share) in (self.queues.len()..).zip(shares?) {
            check_memory(&share, wanted, clients)?;
            let shared = id == cores + elements;
            let queue = self.queue(share, if shared { cores } else { contexts });
            let queue = self.queues.push(queue);
            let first = if shared { 0 } else { (id - cores) * contexts };
            let pulling = if shared { cores } else { contexts };
            for core in (first..first + pulling).map(CoreId::from_index) {
                self.cores[core].pull_from(queue);
                if self.cores[core].in_service < self.plan.in_flight {
                    self.queues[queue].offer_core(core);
                }
            }
        }
        let mut candidates = IdSet::new(self.queues.len());
        self.queues.ids().for_each(|queue| candidates.insert(queue));
        self.candidates = candidates;
        self.is_plain = false;
        Ok(())
    }

    /// Reports the queue of a service to the allocation.
    #[inline]
    pub(super) fn tell_waiting(&mut self, queue: QueueId) {
        if self.plan.layout == Layout::PerService {
            self.tell_allocation(queue);
        }
    }

    #[inline]
    fn tell_allocation(&mut self, queue: QueueId) {
        if let Some(allocation) = self.allocation.as_mut() {
            let state = &self.queues[queue];
            let oldest = if allocation.policy.heeds_oldest() { state.oldest(&self.slab) } else { None };
            allocation.set_waiting(ServiceId(queue.0), state.waiting, oldest);
        }
    }

    /// Handles a change in a queue: cores may now find packets there that they did not find before.
    #[inline]
    pub(super) fn changed(&mut self, queue: QueueId) {
        self.candidates.insert(queue);
        self.queues[queue].offer_refused_cores();
    }

    #[inline(always)]
    pub(super) fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
    }

    /// Writes a record to the journal, if there is one.
    #[inline]
    pub(super) fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(journal) = &mut self.journal {
            record(&mut **journal, self.now, event);
        }
    }
}

/// Returns the cores of a plan, each with its queue.
fn cores_of<A: Allocate>(plan: &Plan, allocation: Option<&Allocation<A>>) -> IdVec<CoreId, Core> {
    let own_queue = |core: CoreId| match (plan.layout, allocation) {
        (Layout::Shared, _) => QueueId(0),
        (Layout::PerService, Some(allocation)) => QueueId(allocation.service_of(core).0),
        _ => QueueId(core.0),
    };
    let core = |core| Core { queues: [own_queue(core); PULLS_MAX], pulls: 1, last_service: None, in_service: 0 };
    IdVec::from_fn(plan.cores, core)
}

/// Returns the queues of a plan. Each knows how many cores pull from it; with `moves`, any core may come to.
fn queues_of<Q: Share>(
    plan: &Plan,
    cores: &IdVec<CoreId, Core>,
    moves: bool,
    services: usize,
    share: &mut impl FnMut() -> Result<Q, BuildError>,
) -> Result<IdVec<QueueId, Queue<Q>>, BuildError> {
    let count = plan.queues(services);
    let mut queues = IdVec::new();
    for queue in (0..count).map(QueueId::from_index) {
        let share = share()?;
        check_memory(&share, count, plan.clients)?;
        let pulling = cores.iter().filter(|core| core.queues[0] == queue).count();
        queues.push(plan.queue(share, if moves { plan.cores } else { pulling }));
    }
    for core in cores.ids() {
        queues[cores[core].queues[0]].offer_core(core);
    }
    Ok(queues)
}

/// Writes a record. A separate function, so that the recorded calls stay short.
#[cold]
#[inline(never)]
fn record(journal: &mut dyn Journal, now: Time, event: impl FnOnce() -> Event) {
    journal.record(Record { now, event: event() });
}
