//! Preemption: a core gives a packet back after a quantum, before the packet is done.

use alloc::boxed::Box;

use super::journal::Event;
use super::layout::{Layout, Plan};
use super::scheduler::Scheduler;
use crate::id::{IdVec, QueueId, Slot};
use crate::packet::Packet;
use crate::policy::{Allocate, BuildError, Share, Steer};
use crate::unit::{Time, Work, WorkUnit};

/// The turns of packets at cores: a packet has several if a quantum is not enough.
#[derive(Debug)]
pub(super) struct Turns {
    /// The earlier turns of the packet that had some last in each slot.
    earlier: IdVec<Slot, Earlier>,
}

/// The earlier turns of a packet at one hop of its chain.
#[derive(Clone, Copy, Debug, Default)]
struct Earlier {
    sequence: u64,
    hop: u8,
    turns: u64,
    work: Work,
}

impl Turns {
    /// Returns the turns of packets under this policy. `None`: it serves each packet to its end.
    pub(super) fn of(share: &impl Share, slots: usize) -> Option<Box<Self>> {
        share.quantum().map(|_| Box::new(Self { earlier: IdVec::from_fn(slots, |_| Earlier::default()) }))
    }

    /// Returns the earlier turns of the packet in this slot.
    fn earlier(&self, slot: Slot, packet: &Packet) -> Earlier {
        let Packet { sequence, hop, .. } = *packet;
        let earlier = self.earlier[slot];
        let is_same = earlier.sequence == sequence && earlier.hop == hop;
        if is_same { earlier } else { Earlier { sequence, hop, ..Earlier::default() } }
    }

    /// Returns the work of the earlier turns of the packet in this slot; 0 where packets have one turn.
    #[inline(never)]
    pub(super) fn work(turns: Option<&Self>, slot: Slot, packet: &Packet) -> Work {
        turns.map_or(0, |turns| turns.earlier(slot, packet).work)
    }

    /// Adds a turn of `used` work.
    fn add(&mut self, slot: Slot, packet: &Packet, used: Work) {
        let earlier = self.earlier(slot, packet);
        let (turns, work) = (earlier.turns + 1, earlier.work.saturating_add(used));
        self.earlier[slot] = Earlier { turns, work, ..earlier };
    }
}

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Returns the time after which a core gives back a packet that it has not finished. `None`: cores serve
    /// each packet to its end.
    #[inline]
    pub fn quantum(&self) -> Option<Time> {
        if self.turns.is_some() { self.queues[QueueId(0)].share.quantum() } else { None }
    }

    /// Checks that [`Scheduler::on_preemption`] may be called. A driver that never calls it need not check: cores then
    /// serve each packet to its end.
    ///
    /// # Errors
    /// The sharing policy has a quantum, and the composition cannot preempt.
    pub fn check_preemption(&self) -> Result<(), BuildError> {
        let Plan { layout, contexts, in_flight, .. } = self.plan;
        let refused = if self.quantum().is_none() {
            return Ok(());
        } else if layout != Layout::Shared {
            "a policy with a quantum needs one queue for all cores: it cannot be combined with a steering or an \
             allocation policy"
        } else if contexts > 1 {
            "a core that gives packets back has one context: use 1 context an element"
        } else if in_flight > 1 {
            "a core that gives packets back is handed one at a time: a quantum cannot be combined with a hand-over, nor \
             with several packets in flight"
        } else {
            return Ok(());
        };
        Err(BuildError::combination(refused))
    }

    /// Returns the number of slots: every [`Slot`] is below it.
    pub fn slots(&self) -> usize {
        self.plan.packets_max as usize + usize::from(self.plan.push_out)
    }

    /// Whether the packet in this slot has had a turn at a core before, and did not finish.
    #[inline]
    pub(crate) fn had_turn(&self, slot: Slot) -> bool {
        self.turns.as_ref().is_some_and(|turns| turns.earlier(slot, self.packet(slot)).turns > 0)
    }

    /// Whether the core of the packet in `slot`, which has had a quantum, gives it back. If so, the driver calls
    /// [`Scheduler::on_preemption`] when the core has saved its state. If not, the packet has another quantum.
    ///
    /// # Panics
    /// If the packet was not in service.
    pub fn yields(&mut self, now: Time, slot: Slot) -> bool {
        let entry = self.slab.get(slot);
        let core = entry.core.expect("a packet must be in service to yield");
        !entry.foreign && self.queues[entry.queue].share.yields(now, core)
    }

    /// Whether [`Scheduler::yields`] says no for the packet in `slot`, and changes nothing, however often it is asked
    /// before another method of the scheduler is called.
    ///
    /// # Panics
    /// If the packet was not in service.
    pub fn stays(&self, slot: Slot) -> bool {
        let entry = self.slab.get(slot);
        let core = entry.core.expect("a packet must be in service to stay");
        entry.foreign || self.queues[entry.queue].share.stays(core)
    }

    /// Puts back the packet in `slot`, which its core has served for `served` and not finished; then the core
    /// was busy for `saving` with the packet's state. The packet waits again, before the other packets of its
    /// client, and keeps its slot. Returns the work of this turn. Nothing follows: there is no effect to fetch.
    /// O(1), beside the policy.
    ///
    /// # Panics
    /// If the packet was not in service, or an earlier policy dispatched it; if the sharing policy has no quantum, or
    /// [`Scheduler::check_preemption`] has failed.
    #[inline(never)]
    pub fn on_preemption(&mut self, now: Time, slot: Slot, served: Time, saving: Time) -> Work {
        self.expect_settled();
        self.advance(now);
        let used = match self.plan.unit {
            WorkUnit::Nanoseconds => served.as_ns(),
            // Bytes and packets count when the packet is done.
            WorkUnit::Bytes | WorkUnit::Packets => 0,
        };
        assert!(self.plan.layout == Layout::Shared, "a core cannot give packets back to this queue");
        let entry = self.slab.get_mut(slot);
        assert!(!entry.foreign, "the packet is served to its end: an earlier policy dispatched it");
        self.turns.as_mut().expect("the sharing policy has a quantum").add(slot, &entry.packet, used);
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
