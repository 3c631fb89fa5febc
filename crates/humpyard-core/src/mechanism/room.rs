//! Room for packets: which packet is dropped, and why.

use super::account::DropReason;
use super::answer::Arrival;
use super::scheduler::Scheduler;
use crate::id::{ClientId, QueueId, Slot};
use crate::packet::Packet;
use crate::policy::{Allocate, Share, Steer, Target};
use crate::unit::Time;

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Finds room for a packet that arrives, unless the sharing policy refuses it. Returns why it is dropped.
    /// `None`: it may come in.
    #[inline]
    pub(super) fn find_room(&mut self, now: Time, queue: QueueId, packet: &Packet, full: bool) -> Option<DropReason> {
        if !self.queues[queue].admits(now, packet) {
            return Some(DropReason::QueueFull);
        }
        self.make_room(now, queue, packet, full)
    }

    /// Finds room for this packet in this queue; where that is configured, it pushes
    /// out another packet. `full` says whether the whole run has no room. Returns why there is no
    /// room. `None`: there is room.
    #[inline]
    pub(super) fn make_room(&mut self, now: Time, queue: QueueId, packet: &Packet, full: bool) -> Option<DropReason> {
        let state = &self.queues[queue];
        let charged = state.charged::<false>(packet);
        if self.plan.limits.client != u32::MAX && state.waiting_of(charged) >= self.plan.limits.client {
            return Some(DropReason::ClientFull);
        }
        if state.waiting >= self.plan.limits.queue {
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
    pub(super) fn push_out(&mut self, now: Time, queue: QueueId, client: ClientId) {
        let slot = self.queues[queue].push_out(now, client, &mut self.slab);
        let packet = self.slab.get(slot).packet;
        if let Some(steer) = self.steer.as_mut() {
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

    /// Drops a packet that has a slot but is in no queue.
    pub(super) fn drop_held(&mut self, now: Time, slot: Slot, reason: DropReason) {
        let entry = self.slab.get_mut(slot);
        entry.reason = reason;
        let (packet, stamp) = (entry.packet, entry.stamp);
        self.account.on_drop(reason);
        self.account.held -= 1;
        self.account.wasted += u64::from(packet.hop > 0);
        if let Some(exit) = &mut self.exit {
            exit.on_gone(now, &packet, stamp);
            self.follow_exit();
        }
        self.dropped.push(slot, &mut self.slab);
        self.is_pending = true;
    }

    pub(super) fn drop_arriving(&mut self, reason: DropReason) -> Arrival {
        self.account.on_drop(reason);
        Arrival::Dropped(reason)
    }
}
