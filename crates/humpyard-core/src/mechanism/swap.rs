//! Hot swap: another policy takes over while packets wait and are in service.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::allocation::Allocation;
use super::journal::Event;
use super::layout::{Core, Layout};
use super::preemption::Turns;
use super::scheduler::Scheduler;
use crate::id::{CoreId, Id, IdVec, QueueId, ServiceId, Slot};
use crate::policy::{Allocate, BuildError, Cause, Share, Steer, Target};
use crate::unit::Time;

/// A policy that takes over at an instant of a run: for drivers.
pub struct PlannedSwap<'a, S, Q, A> {
    /// When, since the start.
    pub at: Time,
    /// Its name.
    pub policy: Arc<str>,
    /// Makes it take over, now.
    pub take_over: TakeOver<'a, S, Q, A>,
}

/// A policy that took over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakenOver {
    /// When, since the start.
    pub at: Time,
    /// Its name.
    pub policy: Arc<str>,
}

/// The function that makes another policy take over.
pub type TakeOver<'a, S, Q, A> = Box<dyn FnOnce(Time, &mut Scheduler<S, Q, A>) -> Result<(), BuildError> + 'a>;

/// A swap builds everything before it changes anything, so a failed swap leaves the scheduler
/// unchanged. The time for the change itself grows with the packets held.
impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Replaces the sharing policies, one for each queue; `name` is for the journal. The new
    /// policies learn of waiting packets in the order in which these joined their queue. Where
    /// clients keep their order, they learn of a client with packets in service when these are
    /// done.
    ///
    /// # Errors
    /// The error of `share`; then nothing has changed.
    pub fn swap_share(
        &mut self,
        now: Time,
        name: &str,
        share: impl FnMut() -> Result<Q, BuildError>,
    ) -> Result<(), BuildError> {
        self.advance(now);
        // Cores that have moved may still serve packets of their old queue, even if the present
        // allocation moves no cores.
        let moves = self.plan.layout == Layout::PerService;
        let shares = self.shares(share)?;
        self.rebuild_queues(now, moves, shares);
        self.timekeepers = self.finds_timekeepers();
        self.note(|| Event::Swap(name.into()));
        Ok(())
    }

    /// Replaces the steering policy; `share` makes the sharing policies of queues that only the new
    /// policy needs. Packets stay in their queues. With `keep_order`, a flow with packets held
    /// keeps its core until it has none there. So no flow is reordered if both policies keep flows
    /// in order.
    ///
    /// # Errors
    /// The error of `share`; then nothing has changed.
    ///
    /// # Panics
    /// If there is no steering policy to take over from.
    pub fn swap_steer(
        &mut self,
        now: Time,
        name: &str,
        steer: S,
        keep_order: bool,
        mut share: impl FnMut() -> Result<Q, BuildError>,
    ) -> Result<(), BuildError> {
        self.advance(now);
        assert!(self.steer.is_some(), "there is no steering policy to take over from");
        self.add_wider_queues(steer.reach(), &mut share)?;
        let held = self.queued_by_sequence();
        let flows = self.plan.flows;
        self.is_plain = false;
        let steering = self.steer.as_mut().expect("just seen");
        steering.take_over(steer, flows);
        self.timekeepers = self.finds_timekeepers();
        for (slot, target) in held {
            let packet = self.slab.get(slot).packet;
            let steering = self.steer.as_mut().expect("just seen");
            steering.policy.on_enqueue(now, target, &packet);
            if let Some(core) = target.core().filter(|_| keep_order) {
                steering.pin(packet.flow, core);
            }
        }
        self.release_held(now);
        self.note(|| Event::Swap(name.into()));
        Ok(())
    }

    /// Replaces the allocation; `share` makes new sharing policies for the services' queues. As few
    /// cores as possible move, until each service has as many as the new policy gives it at the
    /// start. If the policy itself moves no cores, cores that are switching move again after they
    /// arrive.
    ///
    /// # Errors
    /// The error of `share`, or an allocation that moves cores where packets are steered; then
    /// nothing has changed.
    ///
    /// # Panics
    /// If there is no allocation to take over from.
    pub fn swap_allocate(
        &mut self,
        now: Time,
        name: &str,
        allocate: A,
        share: impl FnMut() -> Result<Q, BuildError>,
    ) -> Result<(), BuildError> {
        self.advance(now);
        assert!(self.allocation.is_some(), "there is no allocation to take over from");
        if allocate.moves() && self.steer.is_some() {
            return Err(BuildError::combination(
                "an allocation that moves cores needs one queue per service: it cannot take over where packets are steered",
            ));
        }
        let shares = if self.plan.layout == Layout::PerService { self.shares(share)? } else { Vec::new() };
        self.plan.by_age = self.plan.layout == Layout::PerService && allocate.heeds_oldest();
        let cores = &self.cores;
        let allocation = self.allocation.as_mut().expect("just seen");
        let moved = allocation.take_over(allocate, |core| cores[core].in_service == 0);
        allocation.end_settling();
        self.is_pending |= !allocation.is_settled();
        if self.plan.layout == Layout::PerService {
            for (core, from) in moved {
                self.queues[QueueId(from.0)].withdraw_core(core);
            }
            // Cores that have left may still serve packets of their old queue.
            self.rebuild_queues(now, true, shares);
        }
        self.eligible = self.cores_by_service();
        self.timekeepers = self.finds_timekeepers();
        // The new policy may read fields that the old one did not.
        self.queues.ids().for_each(|queue| self.tell_waiting(queue));
        self.tell_of_waiting(now);
        self.note(|| Event::Swap(name.into()));
        Ok(())
    }

    /// Reports the waiting packets to the new allocation, as if they arrived now.
    fn tell_of_waiting(&mut self, now: Time) {
        if self.plan.layout != Layout::PerService {
            return;
        }
        for queue in self.queues.ids() {
            let service = ServiceId(queue.0);
            for _ in 0..self.queues[queue].waiting {
                let allocation = self.allocation.as_mut().expect("it took over");
                allocation.policy.on_arrival(now, service);
                self.reassign(now, Cause::Arrival(service));
            }
        }
    }

    /// A sharing policy for each queue.
    fn shares(&self, share: impl FnMut() -> Result<Q, BuildError>) -> Result<Vec<Q>, BuildError> {
        core::iter::repeat_with(share).take(self.queues.len()).collect()
    }

    /// Makes these sharing policies take over, one for each queue; `moves` says whether cores will go from queue to queue.
    fn rebuild_queues(&mut self, now: Time, moves: bool, shares: Vec<Q>) {
        self.is_plain = false;
        if self.turns.is_none() {
            self.turns = shares.first().and_then(|share| Turns::of(share, self.slots()));
        }
        let mut in_service: Vec<Vec<Slot>> = self.queues.ids().map(|_| Vec::new()).collect();
        for slot in self.slab.in_service() {
            in_service[self.slab.get(slot).queue.index()].push(slot);
        }
        for ((queue, share), in_service) in self.queues.ids().zip(shares).zip(in_service) {
            let fresh = self.queue(share, self.pulling_from(queue, moves));
            self.queues[queue].take_over(now, fresh, &in_service, &mut self.slab);
            self.changed(queue);
        }
    }

    /// Returns the number of cores that pull from a queue, or will when their switch is over.
    fn pulling_from(&self, queue: QueueId, moves: bool) -> usize {
        if moves {
            return self.cores.len();
        }
        let pulls = |core: &Core| core.queues().any(|pulled| pulled == queue);
        let pulling = self.cores.iter().filter(|core| pulls(core)).count();
        let coming = self.allocation.as_ref().filter(|_| self.plan.layout == Layout::PerService);
        pulling.max(coming.map_or(0, |allocation| allocation.cores_coming_to(ServiceId(queue.0))))
    }

    /// Returns the packets in queues and in service, in the order in which they came in, each with
    /// its place.
    pub(super) fn queued_by_sequence(&self) -> Vec<(Slot, Target)> {
        let waiting = self.queues.ids().flat_map(|queue| {
            let target = self.plan.target_of(queue);
            self.queues[queue].waiting_slots(&self.slab).map(move |slot| (slot, target))
        });
        let in_service = self.slab.in_service().map(|slot| {
            let core = self.slab.get(slot).core.expect("it is in service");
            (slot, Target::Core(core))
        });
        let mut held: Vec<(Slot, Target)> = waiting.chain(in_service).collect();
        held.sort_by_key(|&(slot, _)| self.slab.get(slot).packet.sequence);
        held
    }

    fn cores_by_service(&self) -> IdVec<ServiceId, Vec<CoreId>> {
        let allocation: &Allocation<A> = self.allocation.as_ref().expect("cores belong to services");
        self.eligible.ids().map(|service| allocation.cores_of(service).collect()).collect()
    }
}
