//! The packets held, each in a slot from arrival to completion.

use super::account::DropReason;
use crate::id::{ClientId, CoreId, Id, IdVec, QueueId, Slot};
use crate::packet::Packet;

/// No slot.
pub(super) const NONE: Slot = Slot(u32::MAX);

/// One packet held. It takes two cache lines, and indexing is a shift.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    pub(super) packet: Packet,
    /// The next slot in the client's queue, in the line of packets without a queue, or in the free
    /// list.
    pub(super) next: Slot,
    /// The slot before it in the same client's queue.
    pub(super) previous: Slot,
    /// The packets that joined the same queue just before and just after, while all wait. Only
    /// queues that must know the longest-waiting packet set them.
    pub(super) older: Slot,
    pub(super) newer: Slot,
    /// Its number among the packets that joined its queue.
    pub(super) joined: u64,
    pub(super) queue: QueueId,
    /// The client that the sharing policy charges: the packet's client, or 0 where clients are
    /// merged.
    pub(super) charged: ClientId,
    /// Its place in the order of its flow.
    pub(super) stamp: u32,
    /// The core that serves it, once dispatched.
    pub(super) core: Option<CoreId>,
    /// Whether that core's previous packet had another service.
    pub(super) cold: bool,
    /// Why it was dropped, once it is.
    pub(super) reason: DropReason,
    /// Whether an earlier sharing policy dispatched it.
    pub(super) foreign: bool,
}

impl Entry {
    const EMPTY: Self = Self {
        packet: Packet::EMPTY,
        next: NONE,
        previous: NONE,
        older: NONE,
        newer: NONE,
        joined: 0,
        queue: QueueId(0),
        charged: ClientId(0),
        stamp: 0,
        core: None,
        cold: false,
        reason: DropReason::BufferFull,
        foreign: false,
    };
}

/// A fixed number of slots. Taking and giving back are O(1).
#[derive(Debug)]
pub(super) struct Slab {
    entries: IdVec<Slot, Entry>,
    free: Slot,
    used: usize,
}

impl Slab {
    pub(super) fn new(slots: usize) -> Self {
        let next = |slot: Slot| if slot.index() + 1 < slots { Slot(slot.0 + 1) } else { NONE };
        let entries = IdVec::from_fn(slots, |slot| Entry { next: next(slot), ..Entry::EMPTY });
        Self { entries, free: if slots > 0 { Slot(0) } else { NONE }, used: 0 }
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Takes a free slot for a packet that arrived, with the fields that the mechanism sets and its
    /// place in the order of its flow. A slot must be free. No core serves the packet. The other
    /// fields keep the previous packet's values until the packet joins a queue.
    #[inline]
    pub(super) fn insert(&mut self, arrived: &Packet, packet: &Packet, stamp: u32) -> Slot {
        let slot = self.free;
        let entry = &mut self.entries[slot];
        self.free = entry.next;
        // A copy of all, then of some, takes fewer steps than one field by field.
        let Packet { entered, sequence, estimate, service, hop, .. } = *packet;
        entry.packet = *arrived;
        let kept = &mut entry.packet;
        (kept.entered, kept.sequence, kept.estimate) = (entered, sequence, estimate);
        (kept.service, kept.hop, entry.stamp) = (service, hop, stamp);
        self.used += 1;
        slot
    }

    /// Gives a slot back. Returns the place that its packet had in the order of its flow.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) -> u32 {
        let entry = &mut self.entries[slot];
        entry.core = None;
        entry.next = self.free;
        self.free = slot;
        self.used -= 1;
        entry.stamp
    }

    #[inline]
    pub(super) fn get(&self, slot: Slot) -> &Entry {
        &self.entries[slot]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot]
    }

    /// Every slot with a packet in service, ascending.
    pub(super) fn in_service(&self) -> impl Iterator<Item = Slot> + '_ {
        self.entries.ids().filter(|&slot| self.entries[slot].core.is_some())
    }
}

/// A line of packets that are in no queue, linked through their slots.
#[derive(Debug)]
pub(super) struct Line {
    head: Slot,
    tail: Slot,
    length: u32,
}

impl Line {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE, length: 0 };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn length(&self) -> u32 {
        self.length
    }

    pub(super) fn front(&self) -> Option<Slot> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn push(&mut self, slot: Slot, slab: &mut Slab) {
        slab.get_mut(slot).next = NONE;
        match self.tail {
            NONE => self.head = slot,
            tail => slab.get_mut(tail).next = slot,
        }
        self.tail = slot;
        self.length += 1;
    }

    pub(super) fn pop(&mut self, slab: &Slab) -> Option<Slot> {
        let slot = self.front()?;
        self.head = slab.get(slot).next;
        if self.head == NONE {
            self.tail = NONE;
        }
        self.length -= 1;
        Some(slot)
    }
}
