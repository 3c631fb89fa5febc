//! The packets held, each in a slot from arrival to completion.

use crate::id::{ClientId, CoreId, Id, IdVec, QueueId, Slot};
use crate::packet::Packet;

/// No slot.
pub(super) const NONE: Slot = Slot(u32::MAX);

/// One packet held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) packet: Packet,
    /// The next slot of the same client's queue, or of the free list.
    pub(super) next: Slot,
    /// The packets of the same queue that arrived just before and just after, while all wait.
    pub(super) older: Slot,
    pub(super) newer: Slot,
    pub(super) queue: QueueId,
    /// Whom the sharing policy charges: the packet's client, or 0 where clients are merged.
    pub(super) charged: ClientId,
    /// The core that serves it, once dispatched.
    pub(super) core: Option<CoreId>,
    /// Whether that core's previous packet had another service.
    pub(super) cold: bool,
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
        let entries = IdVec::from_fn(slots, |slot: Slot| Entry {
            packet: Packet::default(),
            next: if slot.index() + 1 < slots { Slot(slot.0 + 1) } else { NONE },
            older: NONE,
            newer: NONE,
            queue: QueueId(0),
            charged: ClientId(0),
            core: None,
            cold: false,
        });
        Self { entries, free: if slots > 0 { Slot(0) } else { NONE }, used: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free == NONE
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Takes a slot; there must be one.
    pub(super) fn insert(&mut self, packet: Packet, queue: QueueId, charged: ClientId) -> Slot {
        let slot = self.free;
        let entry = &mut self.entries[slot];
        self.free = entry.next;
        *entry = Entry { packet, next: NONE, older: NONE, newer: NONE, queue, charged, core: None, cold: false };
        self.used += 1;
        slot
    }

    /// Gives a slot back.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.entries[slot].core = None;
        self.entries[slot].next = self.free;
        self.free = slot;
        self.used -= 1;
    }

    #[inline]
    pub(super) fn get(&self, slot: Slot) -> &Entry {
        &self.entries[slot]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot]
    }
}
