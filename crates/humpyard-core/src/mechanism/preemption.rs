//! Preemption: a core gives a packet back after a quantum, before the packet is done.

use super::journal::Event;
use super::layout::{Layout, Plan};
use super::scheduler::Scheduler;
use crate::id::{IdVec, Slot};
use crate::policy::{Allocate, BuildError, Share, Steer};
use crate::unit::{Time, Work, WorkUnit};

/// The turns of packets at cores: a packet has several if one is not enough.
#[derive(Debug)]
pub(super) struct Turns {
    /// The longest turn.
    quantum: Time,
    /// The earlier turns of the packet in each slot.
    earlier: IdVec<Slot, Earlier>,
}

/// The earlier turns of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Earlier {
    turns: u64,
    work: Work,
}

impl Turns {
    /// Rejects a quantum where another policy takes over.
    ///
    /// # Errors
    /// One of the two has a quantum.
    pub(super) fn check_take_over(before: bool, share: &impl Share) -> Result<(), BuildError> {
        if before || share.quantum().is_some() {
            return Err(BuildError::combination(
                "no policy can take over from or for one with a quantum: packets that were put back keep their turns",
            ));
        }
        Ok(())
    }

    /// Returns the turns of a sharing policy. `None`: it serves each packet to its end.
    ///
    /// # Errors
    /// The composition cannot preempt.
    pub(super) fn new(share: &impl Share, plan: &Plan) -> Result<Option<Self>, BuildError> {
        let Some(quantum) = share.quantum() else { return Ok(None) };
        if plan.layout != Layout::Shared {
            return Err(BuildError::combination(
                "a policy with a quantum needs one queue for all cores: it cannot be combined with a steering or an \
                 allocation policy",
            ));
        }
        if plan.contexts > 1 {
            return Err(BuildError::combination("a core that gives packets back has one context: use contexts=1"));
        }
        if plan.in_flight > 1 {
            return Err(BuildError::combination(
                "a core that gives packets back is handed one at a time: a policy with a quantum needs in-flight 1, and no \
                 hand-over",
            ));
        }
        let slots = plan.packets_max as usize + usize::from(plan.push_out);
        Ok(Some(Self { quantum, earlier: IdVec::from_fn(slots, |_| Earlier::default()) }))
    }

    /// Adds a turn of `used` work.
    fn add(&mut self, slot: Slot, used: Work) {
        let earlier = &mut self.earlier[slot];
        earlier.turns += 1;
        earlier.work = earlier.work.saturating_add(used);
    }

    /// Forgets the turns of a packet, which is done. Returns their work.
    pub(super) fn take(&mut self, slot: Slot) -> Work {
        core::mem::take(&mut self.earlier[slot]).work
    }
}

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Returns the time after which a core gives back a packet that it has not finished. `None`: cores serve each packet
    /// to its end.
    #[inline]
    pub fn quantum(&self) -> Option<Time> {
        self.turns.as_ref().map(|turns| turns.quantum)
    }

    /// Whether the packet in this slot has had a turn at a core before, and did not finish.
    #[inline]
    pub(crate) fn had_turn(&self, slot: Slot) -> bool {
        self.turns.as_ref().is_some_and(|turns| turns.earlier[slot].turns > 0)
    }

    /// Whether the core of the packet in `slot`, which has had a quantum, gives it back. If so, the driver calls
    /// [`Scheduler::on_preemption`] when the core has saved its state. If not, the packet has another quantum.
    ///
    /// # Panics
    /// If the packet was not in service.
    pub fn yields(&self, now: Time, slot: Slot) -> bool {
        let entry = self.slab.get(slot);
        let core = entry.core.expect("a packet must be in service to yield");
        self.queues[entry.queue].share.yields(now, core)
    }

    /// Puts back the packet in `slot`, which its core has served for `served` and not finished; then the core was busy for `saving`
    /// with the packet's state. The packet waits again, before
    /// the other packets of its client, and keeps its slot. Returns the work of this turn. Nothing follows: there is no
    /// effect to fetch. O(1), beside the policy.
    ///
    /// # Panics
    /// If the packet was not in service, or the sharing policy has no quantum.
    #[inline(never)]
    pub fn on_preemption(&mut self, now: Time, slot: Slot, served: Time, saving: Time) -> Work {
        self.expect_settled();
        self.advance(now);
        let used = match self.plan.unit {
            WorkUnit::Nanoseconds => served.as_ns(),
            // Bytes and packets count when the packet is done.
            WorkUnit::Bytes | WorkUnit::Packets => 0,
        };
        self.turns.as_mut().expect("the sharing policy has a quantum").add(slot, used);
        let entry = self.slab.get_mut(slot);
        let core = entry.core.take().expect("a packet must be in service to be put back");
        entry.packet.estimate = entry.packet.estimate.saturating_sub(used).max(1);
        let queue = entry.queue;
        self.queues[queue].put_back(now, core, slot, used, &mut self.slab);
        self.cores[core].in_service -= 1;
        self.queues[queue].offer_core(core);
        self.changed(queue);
        self.note(|| Event::Preemption { slot, served, saving });
        used
    }
}
