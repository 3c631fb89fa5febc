//! Replacement: a scheduler with other cores, families of policies or weights takes the place of
//! this one.
//!
//! A hot swap (`swap.rs`) keeps queues and cores, and works while packets are in service. A
//! replacement rebuilds everything, so it must wait until no packet is in service. Otherwise a
//! packet could be overtaken: its core may not exist in the new layout, or its flow may go
//! elsewhere.

use alloc::format;
use alloc::vec::Vec;
use core::mem;

use super::scheduler::Scheduler;
use super::slab::NONE;
use crate::id::Slot;
use crate::policy::{Allocate, BuildError, Share, Steer, Target};
use crate::unit::Time;

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Returns the number of cores that the scheduler was made for.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Whether no packet is in service, so that [`Scheduler::replace`] may be called. O(cores).
    pub fn is_quiet(&self) -> bool {
        self.cores.iter().all(|core| core.in_service == 0)
    }

    /// Replaces this scheduler with `fresh`, which has had no packet. Returns the old scheduler;
    /// drop it off the hot path, because freeing its memory takes time.
    ///
    /// * Packets keep their slots. They are steered and queued again in the order in which they
    ///   came in, so flows keep their order.
    /// * The account, the order at the exit, the split flows and changed weights continue.
    /// * Switches already reported to a driver become void.
    /// * Limits of queues and clients apply only to later packets.
    ///
    /// O(n log n) in the packets waiting.
    ///
    /// # Errors
    /// `fresh` was made for other numbers of packets, flows or clients, or for other chains; then
    /// nothing has changed.
    ///
    /// # Panics
    /// If a packet is in service, if the driver has not fetched all dropped packets, or if there is
    /// a journal, which has no record for a replacement.
    /// word for this.
    pub fn replace(&mut self, now: Time, mut fresh: Self) -> Result<Self, BuildError> {
        self.advance(now);
        assert!(self.is_quiet(), "packets are in service");
        assert!(self.dropped.is_empty(), "packets dropped have not been asked for");
        assert!(self.journal.is_none() && fresh.journal.is_none(), "a journal has no word for a replacement");
        self.check_alike(&fresh)?;
        let waiting = self.waiting_by_sequence();
        mem::swap(&mut self.slab, &mut fresh.slab);
        fresh.exit = self.exit.take();
        fresh.waiting_out = self.waiting_out;
        fresh.split = self.split.take();
        if fresh.turns.is_some() && self.turns.is_some() {
            mem::swap(&mut self.turns, &mut fresh.turns);
        }
        fresh.is_plain = fresh.finds_plain();
        fresh.timekeepers = fresh.finds_timekeepers();
        fresh.is_pending = self.is_pending;
        fresh.account = self.account;
        (fresh.accepted, fresh.now) = (self.accepted, self.now);
        for id in self.reweighed.ids() {
            if let Some(weight) = self.reweighed[id] {
                fresh.set_weight(now, id, weight);
            }
        }
        let before = mem::replace(self, fresh);
        waiting.into_iter().for_each(|(_, slot)| self.queue_anew(now, slot));
        Ok(before)
    }

    /// Rejects another scheduler whose packets, flows or clients differ from this one's.
    fn check_alike(&self, fresh: &Self) -> Result<(), BuildError> {
        let alike = [
            ("packets", self.plan.packets_max == fresh.plan.packets_max && self.plan.push_out == fresh.plan.push_out),
            ("flows", self.plan.flows == fresh.plan.flows),
            ("clients", self.plan.clients == fresh.plan.clients),
            ("services", self.eligible.len() == fresh.eligible.len()),
            ("chains", self.plan.chains.iter().eq(fresh.plan.chains.iter())),
        ];
        match alike.into_iter().find(|&(_, alike)| !alike) {
            Some((what, _)) => {
                Err(BuildError::combination(format!("it was made for other {what}, which only another run can have")))
            }
            None => Ok(()),
        }
    }

    /// Returns the waiting packets, including those held back, in the order in which they came in,
    /// with their sequence numbers.
    fn waiting_by_sequence(&self) -> Vec<(u64, Slot)> {
        let queued = self.queues.iter().flat_map(|queue| queue.waiting_slots(&self.slab));
        let held = self.steer.as_ref().and_then(|steer| steer.held.front());
        let held = core::iter::successors(held, |&slot| {
            let next = self.slab.get(slot).next;
            (next != NONE).then_some(next)
        });
        let of_slot = |slot| (self.slab.get(slot).packet.sequence, slot);
        let mut waiting: Vec<_> = queued.chain(held).map(of_slot).collect();
        // Each queue is in order already, so this sort merges sorted runs.
        waiting.sort_by_key(|&(sequence, _)| sequence);
        waiting
    }

    /// Steers and queues a packet that already has its slot.
    fn queue_anew(&mut self, now: Time, slot: Slot) {
        let packet = self.slab.get(slot).packet;
        match self.steer::<false>(now, &packet, true) {
            Some(Target::Hold) => {
                let steer = self.steer.as_mut().expect("who holds back packets steers");
                steer.held.push(slot, &mut self.slab);
            }
            target => self.join::<false>(now, slot, target, self.queue_of(target, packet.service)),
        }
    }
}
