//! One queue: a sharing policy, and first-in-first-out packets per client.

use super::slab::{Entry, NONE, Slab};
use crate::id::{ClientId, CoreId, IdVec, Slot};
use crate::packet::Packet;
use crate::policy::Share;
use crate::storage::IdSet;
use crate::unit::{Time, Weight, Work};

#[derive(Clone, Copy, Debug)]
struct Backlog {
    head: Slot,
    tail: Slot,
    waiting: u32,
    in_service: u32,
}

/// The clients of one queue, in the order that `share` gives them.
#[derive(Debug)]
pub(super) struct Queue<Q> {
    pub(super) share: Q,
    backlogs: IdVec<ClientId, Backlog>,
    /// Packets waiting.
    pub(super) waiting: u32,
    /// The waiting packets that arrived first and last.
    oldest: Slot,
    newest: Slot,
    /// The cores that pull from this queue and have room for a packet.
    pub(super) free: IdSet<CoreId>,
    merged: bool,
    /// Whether a client's next head is offered only when the packet before it is complete.
    one_at_a_time: bool,
}

impl<Q: Share> Queue<Q> {
    pub(super) fn new(share: Q, clients: usize, cores: usize, keep_order: bool) -> Self {
        let merged = share.merges_clients();
        let clients = if merged { 1 } else { clients };
        let empty = Backlog { head: NONE, tail: NONE, waiting: 0, in_service: 0 };
        Self {
            share,
            backlogs: IdVec::from_fn(clients, |_| empty),
            waiting: 0,
            oldest: NONE,
            newest: NONE,
            free: IdSet::new(cores),
            merged,
            one_at_a_time: keep_order && !merged,
        }
    }

    /// The client that the sharing policy charges for a packet of `client`.
    pub(super) fn charged(&self, client: ClientId) -> ClientId {
        if self.merged { ClientId(0) } else { client }
    }

    /// Packets of this client waiting.
    pub(super) fn waiting_of(&self, charged: ClientId) -> u32 {
        self.backlogs[charged].waiting
    }

    /// When the packet arrived that has waited longest.
    pub(super) fn oldest(&self, slab: &Slab) -> Option<Time> {
        (self.oldest != NONE).then(|| slab.get(self.oldest).packet.arrival)
    }

    fn link(&mut self, slot: Slot, slab: &mut Slab) {
        slab.get_mut(slot).older = self.newest;
        match self.newest {
            NONE => self.oldest = slot,
            newest => slab.get_mut(newest).newer = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: Slot, slab: &mut Slab) {
        let Entry { older, newer, .. } = *slab.get(slot);
        match older {
            NONE => self.oldest = newer,
            older => slab.get_mut(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => slab.get_mut(newer).older = older,
        }
    }

    pub(super) fn enqueue(&mut self, now: Time, slot: Slot, slab: &mut Slab) {
        self.link(slot, slab);
        let client = slab.get(slot).charged;
        let backlog = &mut self.backlogs[client];
        self.share.on_arrival(now, client, &slab.get(slot).packet, backlog.waiting);
        if backlog.waiting == 0 {
            backlog.head = slot;
        } else {
            slab.get_mut(backlog.tail).next = slot;
        }
        backlog.tail = slot;
        backlog.waiting += 1;
        self.waiting += 1;
        if backlog.waiting == 1 {
            let head = &slab.get(slot).packet;
            if backlog.in_service == 0 {
                self.share.on_wake(now, client, head);
            } else if !self.one_at_a_time {
                self.share.on_head(now, client, head);
            }
        }
    }

    /// Which of the free cores, of which there are several, is asked first.
    pub(super) fn place(&mut self, now: Time) -> CoreId {
        let core = self.share.place(now, &self.free);
        debug_assert!(self.free.contains(core), "core {core} is not free");
        core
    }

    /// Takes the packet that `core` should serve now.
    pub(super) fn dispatch(&mut self, now: Time, core: CoreId, slab: &mut Slab) -> Option<Slot> {
        let client = self.share.pick(now, core)?;
        let backlog = &mut self.backlogs[client];
        assert!(backlog.waiting > 0, "client {client} was picked with nothing waiting");
        assert!(
            !self.one_at_a_time || backlog.in_service == 0,
            "client {client} was picked before its head was offered"
        );
        let slot = backlog.head;
        backlog.head = slab.get(slot).next;
        backlog.waiting -= 1;
        backlog.in_service += 1;
        self.waiting -= 1;
        self.unlink(slot, slab);
        let backlog = &self.backlogs[client];
        self.share.on_dispatch(now, core, client, &slab.get(slot).packet);
        if backlog.waiting > 0 && !self.one_at_a_time {
            self.share.on_head(now, client, &slab.get(backlog.head).packet);
        }
        Some(slot)
    }

    pub(super) fn complete(
        &mut self,
        now: Time,
        core: CoreId,
        client: ClientId,
        sent: &Packet,
        used: Work,
        slab: &Slab,
    ) {
        let backlog = &mut self.backlogs[client];
        backlog.in_service -= 1;
        self.share.on_completion(now, core, client, sent, used);
        if backlog.waiting == 0 {
            if backlog.in_service == 0 {
                self.share.on_idle(now, client);
            }
        } else if self.one_at_a_time {
            self.share.on_head(now, client, &slab.get(backlog.head).packet);
        }
    }

    pub(super) fn end_client(&mut self, now: Time, client: ClientId) {
        if self.merged {
            return;
        }
        let backlog = &self.backlogs[client];
        assert!(backlog.waiting == 0 && backlog.in_service == 0, "client {client} ended while it had packets");
        self.share.on_client_end(now, client);
    }

    /// Merged clients have no weights of their own.
    pub(super) fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        if !self.merged {
            self.share.set_weight(now, client, weight);
        }
    }

    /// Panics unless the counts agree with the packets.
    pub(super) fn check(&self, slab: &Slab) {
        let mut waiting = 0;
        for backlog in &self.backlogs {
            let mut slot = backlog.head;
            for _ in 0..backlog.waiting {
                assert!(slab.get(slot).core.is_none(), "a waiting packet is in service");
                slot = slab.get(slot).next;
            }
            waiting += backlog.waiting;
        }
        assert_eq!(waiting, self.waiting, "packets waiting in a queue");
        let mut slot = self.oldest;
        for _ in 0..waiting {
            let Entry { packet, newer, .. } = slab.get(slot);
            assert!(*newer == NONE || slab.get(*newer).packet.sequence > packet.sequence, "waiting packets by arrival");
            slot = *newer;
        }
        assert_eq!(slot, NONE, "more packets linked than wait");
        self.share.check();
    }
}
