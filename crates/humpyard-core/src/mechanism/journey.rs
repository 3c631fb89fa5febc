//! The path of a packet: in, to a queue, to a core, on to the next service, out.

use super::account::DropReason;
use super::allocation::Allocation;
use super::answer::{Arrival, Done};
use super::layout::{Core, Layout};
use super::preemption::Turns;
use super::scheduler::Scheduler;
use crate::id::{CoreId, ExitSlot, FlowId, Id, QueueId, ServiceId, Slot};
use crate::packet::Packet;
use crate::policy::{Allocate, Cause, Share, Steer, Target, View};
use crate::unit::{Time, WorkUnit};

/// Every step of a packet has a constant parameter `PLAIN`. It is true if the run has none of the
/// rare features that `Scheduler::is_plain` lists; the compiler then omits their code.
impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    #[inline(always)]
    pub(super) fn accept<const PLAIN: bool>(&mut self, now: Time, packet: &Packet) -> Arrival {
        self.account.arrived += 1;
        let is_full = self.is_full();
        if is_full && (PLAIN || !self.plan.push_out) {
            return self.drop_arriving(DropReason::BufferFull);
        }
        let arrived = packet;
        let mut packet = Packet { entered: packet.arrival, hop: 0, sequence: self.accepted, ..*packet };
        if !PLAIN && let Some(chain) = self.plan.chains.get(packet.chain) {
            packet.service = chain[0];
        }
        packet.estimate = self.estimate.of(&packet);
        if !PLAIN && let Some(split) = &mut self.split {
            split.on_arrival(now, &packet);
        }
        let target = self.steer::<PLAIN>(now, &packet, true);
        if target == Some(Target::Hold) {
            if is_full {
                return self.drop_arriving(DropReason::BufferFull);
            }
            return Arrival::Queued(self.hold_back(packet));
        }
        let queue = self.queue_of(target, packet.service);
        if !PLAIN && let Some(reason) = self.find_room(now, queue, &packet, is_full) {
            if let (Some(steer), Some(target)) = (self.steer.as_mut(), target) {
                steer.policy.on_drop(now, target, &packet);
            }
            return self.drop_arriving(reason);
        }
        let slot = self.admit(arrived, &packet);
        self.join::<PLAIN>(now, slot, target, queue);
        Arrival::Queued(slot)
    }

    /// Keeps the packet without a queue until the steering policy decides. Returns its slot.
    #[inline(never)]
    fn hold_back(&mut self, packet: Packet) -> Slot {
        let slot = self.admit(&packet, &packet);
        let steer = self.steer.as_mut().expect("who holds back packets steers");
        steer.held.push(slot, &mut self.slab);
        slot
    }

    /// Accepts the packet that arrived as `packet`, which has the fields that the mechanism sets.
    /// Returns its slot.
    #[inline(always)]
    fn admit(&mut self, arrived: &Packet, packet: &Packet) -> Slot {
        self.accepted += 1;
        self.account.held += 1;
        let stamp = self.exit.as_mut().map_or(0, |exit| exit.on_enter(packet.flow));
        self.slab.insert(arrived, packet, stamp)
    }

    /// Puts a packet into a queue, and informs the policies.
    #[inline(always)]
    pub(super) fn join<const PLAIN: bool>(&mut self, now: Time, slot: Slot, target: Option<Target>, queue: QueueId) {
        let state = &mut self.queues[queue];
        let by_age = self.allocation.as_ref().is_some_and(|allocation| allocation.policy.heeds_oldest());
        let packet = state.enqueue::<PLAIN>(now, slot, queue, by_age, &mut self.slab);
        state.offer_refused_cores();
        if !state.free.is_empty() {
            self.candidates.insert(queue);
        }
        if let (Some(steer), Some(target)) = (self.steer.as_mut(), target) {
            if let Target::Core(core) = target {
                let view = &mut self.views[core];
                view.packets += 1;
                view.backlog += packet.estimate;
            }
            steer.policy.on_enqueue(now, target, packet);
            if !PLAIN {
                steer.on_enqueue(packet.flow);
            }
            if !PLAIN && let Some(split) = &mut self.split {
                split.on_enqueue(packet);
            }
        }
        if self.allocation.is_some() {
            let service = packet.service;
            self.tell_arrival(now, queue, service);
        }
    }

    /// Informs the allocation of a packet that joined a queue.
    #[inline(always)]
    fn tell_arrival(&mut self, now: Time, queue: QueueId, service: ServiceId) {
        self.tell_waiting(queue);
        if let Some(allocation) = self.allocation.as_mut() {
            allocation.policy.on_arrival(now, service);
        }
        self.reassign(now, Cause::Arrival(service));
    }

    /// Returns the packet that the core serves next, and whether it is cold. The core neither
    /// switches nor is about to switch; `first` is the first queue that it pulls from.
    #[inline(always)]
    pub(super) fn dispatch<const PLAIN: bool>(
        &mut self,
        now: Time,
        core: CoreId,
        first: QueueId,
    ) -> Option<(Slot, bool)> {
        let Some((id, slot)) = self.pull::<PLAIN>(now, core, first) else {
            self.refuse(now, core);
            return None;
        };
        let state = &mut self.cores[core];
        let entry = self.slab.get_mut(slot);
        entry.core = Some(core);
        let Packet { service, estimate, .. } = entry.packet;
        let cold = state.last_service != Some(service);
        entry.cold = cold;
        state.last_service = Some(service);
        state.in_service += 1;
        let is_occupied = state.in_service >= self.plan.in_flight;
        if !PLAIN && is_occupied {
            self.withdraw(core);
        }
        let queue = &mut self.queues[id];
        if !PLAIN {
            self.slab.get_mut(slot).packet.batched = queue.share.holds_back() && queue.share.continues(core);
        }
        if PLAIN && is_occupied {
            queue.withdraw_core(core);
        }
        if queue.waiting == 0 || queue.free.is_empty() {
            self.candidates.remove(id);
        }
        if let Some(steer) = self.steer.as_mut() {
            if id.0 != core.0 {
                let view = &mut self.views[core];
                view.packets += 1;
                view.backlog += estimate;
            }
            let target = if PLAIN { Target::Core(core) } else { self.plan.target_of(id) };
            steer.policy.on_dispatch(now, core, target, &self.slab.get(slot).packet);
        }
        if self.allocation.is_some() {
            self.tell_dispatch(now, core, id);
        }
        Some((slot, cold))
    }

    /// Informs the allocation of a packet that went from a queue to a core.
    #[inline(always)]
    fn tell_dispatch(&mut self, now: Time, core: CoreId, queue: QueueId) {
        if let Some(allocation) = self.allocation.as_mut() {
            allocation.on_dispatch(now, core);
        }
        self.tell_waiting(queue);
        if self.plan.layout == Layout::PerService && self.queues[queue].waiting == 0 {
            self.on_nothing_waiting(now, ServiceId(queue.0));
        }
    }

    /// Handles that nothing waits for this service any more: cores that were free for it are idle.
    #[inline(always)]
    fn on_nothing_waiting(&mut self, now: Time, service: ServiceId) {
        if self.allocation.as_ref().is_some_and(Allocation::has_awaiting) {
            self.make_waiting_cores_idle(now, service);
        }
    }

    #[inline(never)]
    fn make_waiting_cores_idle(&mut self, now: Time, service: ServiceId) {
        while let Some(core) =
            self.allocation.as_mut().and_then(|allocation| allocation.next_idle_after_waiting(now, service))
        {
            self.reassign(now, Cause::Idle(core));
        }
    }

    /// Returns the packet that the sharing policies give the core, and its queue. The core pulls
    /// from `first` first.
    #[inline(always)]
    fn pull<const PLAIN: bool>(&mut self, now: Time, core: CoreId, first: QueueId) -> Option<(QueueId, Slot)> {
        let by_age = self.allocation.as_ref().is_some_and(|allocation| allocation.policy.heeds_oldest());
        if PLAIN || self.cores[core].pulls == 1 {
            return Some((first, self.queues[first].dispatch::<PLAIN>(now, core, by_age, &mut self.slab)?));
        }
        self.cores[core].queues().find_map(|queue| {
            let slot = self.queues[queue].dispatch::<PLAIN>(now, core, by_age, &mut self.slab)?;
            Some((queue, slot))
        })
    }

    /// Records that nothing waits that this core may serve: it is not asked again before a change.
    pub(super) fn refuse(&mut self, now: Time, core: CoreId) {
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

    /// Completes the packet in this slot. If it has no further service, it can be read there until
    /// the next call.
    #[inline(always)]
    pub(super) fn complete<const PLAIN: bool>(&mut self, now: Time, slot: Slot, busy: Time, ends: bool) -> Done {
        let entry = self.slab.get(slot);
        let core = entry.core.expect("a packet must be in service to complete");
        let packet = &entry.packet;
        let Packet { flow, estimate, .. } = *packet;
        let cold = entry.cold;
        let used = match self.plan.unit {
            WorkUnit::Nanoseconds => (busy + self.plan.hand_over).as_ns(),
            WorkUnit::Bytes => u64::from(packet.length),
            WorkUnit::Packets => 1,
        };
        let ends = ends && (self.exit.is_some() || !self.plan.chains.is_empty());
        let onward = if PLAIN || ends { None } else { self.next_service(packet) };
        if PLAIN {
            self.estimate.on_completion(packet, used, cold);
        } else if self.estimate.heeds_driver() {
            let earlier = Turns::work(self.turns.as_deref(), slot, packet);
            self.estimate.on_completion(packet, used + earlier, cold);
        }
        let queue = entry.queue;
        let state = &mut self.queues[queue];
        state.complete::<PLAIN>(now, core, entry, used, &self.slab);
        state.offer_refused_cores();
        if state.waiting > 0 {
            self.candidates.insert(queue);
        }
        let server = &mut self.cores[core];
        server.in_service -= 1;
        let goes_on_here = self.allocation.is_none() && (PLAIN || server.pulls == 1) && (server.queues[0] == queue);
        if goes_on_here {
            state.offer_core(core);
        }
        if let Some(steer) = self.steer.as_mut() {
            steer.policy.on_completion(now, core, packet, used);
            if !PLAIN {
                steer.on_gone(flow);
            }
            let view = &mut self.views[core];
            view.packets -= 1;
            view.backlog -= estimate;
        }
        let (service, delay) = (packet.service, now.since(packet.arrival));
        let exit = if onward.is_some() {
            self.slab.get_mut(slot).core = None;
            None
        } else {
            self.leave(now, slot, flow, ends)
        };
        if !goes_on_here {
            self.release(now, core, service, delay);
        }
        if let Some(service) = onward {
            self.go_on(now, slot, service);
        }
        if self.holds_back() {
            self.release_held(now);
        }
        Done { used, onward, ends, exit, cold }
    }

    /// Takes a packet that has gone through all its services, or ends. Returns its place at the
    /// exit, if it must wait.
    #[inline(always)]
    fn leave(&mut self, now: Time, slot: Slot, flow: FlowId, ends: bool) -> Option<ExitSlot> {
        let stamp = self.slab.remove(slot);
        self.account.processed += 1;
        self.account.held -= 1;
        if self.exit.as_mut()?.passes(flow, stamp) { None } else { self.leave_in_order(now, slot, stamp, ends) }
    }

    /// Puts the packet that was in this slot in order with the other packets of its flow.
    #[inline(never)]
    fn leave_in_order(&mut self, now: Time, slot: Slot, stamp: u32, ends: bool) -> Option<ExitSlot> {
        let packet = &self.slab.get(slot).packet;
        let exit = self.exit.as_mut()?;
        let place = if ends {
            exit.on_gone(now, packet, stamp);
            None
        } else {
            exit.on_done(now, packet, stamp)
        };
        self.follow_exit();
        place
    }

    /// Updates what the scheduler knows of the exit.
    pub(super) fn follow_exit(&mut self) {
        let Some(exit) = &self.exit else { return };
        self.timekeepers = self.timekeepers - self.waiting_out + exit.waiting();
        self.waiting_out = exit.waiting();
        self.is_pending |= !exit.is_settled();
    }

    /// Sends the packet on to the next service of its chain, as if it arrived there.
    pub(super) fn go_on(&mut self, now: Time, slot: Slot, service: ServiceId) {
        let before = self.slab.get(slot).packet;
        let mut packet = Packet { hop: before.hop + 1, arrival: now, service, estimate: 0, ..before };
        packet.estimate = self.estimate.of(&packet);
        self.slab.get_mut(slot).packet = packet;
        match self.steer::<false>(now, &packet, true) {
            Some(Target::Hold) => {
                let steer = self.steer.as_mut().expect("who holds back packets steers");
                steer.held.push(slot, &mut self.slab);
            }
            target => self.join_or_drop(now, slot, target),
        }
    }

    /// Asks again about the packets that are held back, in order, until one must wait.
    #[inline]
    pub(super) fn release_held(&mut self, now: Time) {
        while let Some(slot) = self.steer.as_ref().and_then(|steer| steer.held.front()) {
            let packet = self.slab.get(slot).packet;
            let target = self.steer::<false>(now, &packet, false);
            if target == Some(Target::Hold) {
                return;
            }
            self.steer.as_mut().expect("it holds back a packet").held.pop(&self.slab);
            self.join_or_drop(now, slot, target);
        }
    }

    /// Puts a packet that has a slot into the queue of its target, if there is room.
    pub(super) fn join_or_drop(&mut self, now: Time, slot: Slot, target: Option<Target>) {
        let packet = self.slab.get(slot).packet;
        let queue = self.queue_of(target, packet.service);
        match self.make_room(now, queue, &packet, false) {
            None => self.join::<false>(now, slot, target, queue),
            Some(reason) => {
                if let (Some(steer), Some(target)) = (self.steer.as_mut(), target) {
                    steer.policy.on_drop(now, target, &packet);
                }
                self.drop_held(now, slot, reason);
            }
        }
    }

    /// Releases a core that is done with a packet. It has room again; if it has no packet at all,
    /// it leaves or is idle.
    #[inline]
    pub(super) fn release(&mut self, now: Time, core: CoreId, service: ServiceId, delay: Time) {
        if self.allocation.is_none() {
            return self.offer(core);
        }
        self.release_allocated(now, core, service, delay);
    }

    #[inline(always)]
    fn release_allocated(&mut self, now: Time, core: CoreId, service: ServiceId, delay: Time) {
        let Core { in_service, queues: [queue, ..], .. } = self.cores[core];
        let Some(allocation) = self.allocation.as_mut() else { return };
        allocation.policy.on_completion(now, core, service, delay);
        if in_service == 0 && allocation.on_empty(core) {
            self.is_pending = true;
            return;
        }
        let mut is_movable = allocation.is_movable(core);
        if is_movable {
            self.offer(core);
        }
        if self.reassign(now, Cause::Completion(core)) {
            is_movable = self.allocation.as_ref().is_some_and(|allocation| allocation.is_movable(core));
        }
        let Some(allocation) = self.allocation.as_mut().filter(|_| in_service == 0 && is_movable) else { return };
        if self.queues[queue].waiting > 0 {
            allocation.on_hope(core);
            return;
        }
        allocation.on_idle(now, core);
        self.reassign(now, Cause::Idle(core));
    }

    /// Records that the core has room.
    #[inline]
    pub(super) fn offer(&mut self, core: CoreId) {
        if let Some(queue) = self.cores[core].only_queue() {
            return self.offer_to(queue, core);
        }
        for queue in self.cores[core].queues() {
            self.offer_to(queue, core);
        }
    }

    #[inline]
    fn offer_to(&mut self, queue: QueueId, core: CoreId) {
        let state = &mut self.queues[queue];
        state.offer_core(core);
        if state.waiting > 0 {
            self.candidates.insert(queue);
        }
    }

    /// Records that the core has no room any more.
    #[inline]
    fn withdraw(&mut self, core: CoreId) {
        if let Some(queue) = self.cores[core].only_queue() {
            return self.queues[queue].withdraw_core(core);
        }
        for queue in self.cores[core].queues() {
            self.queues[queue].withdraw_core(core);
        }
    }

    /// Makes the moves of the allocation policy for this cause. Returns whether there are any.
    #[inline(always)]
    pub(super) fn reassign(&mut self, now: Time, cause: Cause) -> bool {
        let moved = self.reassign_core(now, cause);
        if let Some(core) = moved {
            self.is_pending = true;
            self.queues[self.cores[core].queues[0]].withdraw_core(core);
            self.reassign_more(now, cause);
        }
        moved.is_some()
    }

    /// Makes the next move of the allocation policy for this cause. Returns the core that begins to
    /// switch, or will.
    #[inline(always)]
    fn reassign_core(&mut self, now: Time, cause: Cause) -> Option<CoreId> {
        let cores = &self.cores;
        self.allocation.as_mut()?.reassign(now, cause, |core| cores[core].in_service == 0)
    }

    #[inline(never)]
    fn reassign_more(&mut self, now: Time, cause: Cause) {
        for _ in 0..self.cores.len() {
            let Some(core) = self.reassign_core(now, cause) else { return };
            self.queues[self.cores[core].queues[0]].withdraw_core(core);
        }
        panic!("the allocation policy moves cores without end");
    }

    /// Returns where the packet goes. `None`: nothing steers. A packet that comes in, or to its next
    /// service, waits behind those held back.
    #[inline(always)]
    pub(super) fn steer<const PLAIN: bool>(&mut self, now: Time, packet: &Packet, behind: bool) -> Option<Target> {
        let steer = self.steer.as_mut()?;
        if behind && !steer.held.is_empty() {
            return Some(Target::Hold);
        }
        let view = View { as_of: self.now, cores: &self.views, eligible: &self.eligible[packet.service] };
        if !PLAIN && let Some(core) = self.split.as_ref().and_then(|split| split.steer(packet, &view)) {
            return Some(Target::Core(core));
        }
        Some(steer.ask::<PLAIN>(now, packet, &view))
    }

    /// Returns the queue that the packet in this slot joined last.
    pub(crate) fn queue_of_slot(&self, slot: Slot) -> QueueId {
        self.slab.get(slot).queue
    }

    #[inline]
    pub(super) fn queue_of(&self, target: Option<Target>, service: ServiceId) -> QueueId {
        match (target, self.plan.layout) {
            (Some(Target::Core(core)), _) => QueueId(core.0),
            (Some(Target::Element(element)), _) => QueueId::from_index(self.plan.cores + element.index()),
            (Some(Target::Shared), _) => QueueId::from_index(self.queues.len() - 1),
            (Some(Target::Hold), _) => unreachable!("a packet that is held back joins no queue"),
            (None, Layout::PerService) => QueueId(service.0),
            (None, _) => QueueId(0),
        }
    }

    /// Returns the service after this one in the packet's chain.
    #[inline]
    pub(super) fn next_service(&self, packet: &Packet) -> Option<ServiceId> {
        self.plan.chains.get(packet.chain)?.get(usize::from(packet.hop) + 1).copied()
    }
}
