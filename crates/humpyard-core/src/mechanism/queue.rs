//! One queue: a sharing policy, and a first-in-first-out line of packets for each client.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::slab::{Entry, NONE, Slab};
use crate::id::{ClientId, CoreId, Id, IdVec, QueueId, Slot};
use crate::packet::Packet;
use crate::policy::Share;
use crate::storage::{IdSet, IndexedHeap};
use crate::unit::{Time, Weight, Work};

/// The packets of a client. The size makes indexing a shift.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Backlog {
    head: Slot,
    tail: Slot,
    waiting: u32,
    /// Packets in service that the sharing policy dispatched.
    in_service: u32,
    /// Packets in service that an earlier policy dispatched.
    foreign: u32,
    /// The newest waiting packets that the sharing policy does not know of.
    untold: u32,
    /// Whether it is withheld from the sharing policy.
    withheld: bool,
}

impl Backlog {
    const EMPTY: Self =
        Self { head: NONE, tail: NONE, waiting: 0, in_service: 0, foreign: 0, untold: 0, withheld: false };

    /// Whether the sharing policy must not know of the client, because it would serve its packets
    /// too early.
    #[inline]
    fn is_hidden(&self, one_at_a_time: bool) -> bool {
        self.withheld || (one_at_a_time && self.foreign > 0)
    }

    /// Returns the number of waiting packets that the sharing policy knows of; `PLAIN`: all of
    /// them.
    #[inline(always)]
    fn told<const PLAIN: bool>(&self) -> u32 {
        if PLAIN { self.waiting } else { self.waiting - self.untold }
    }
}

/// The options of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueKind {
    /// Whether clients keep their order on several cores.
    pub(super) keep_order: bool,
    /// Whether the longest line loses a packet when there is no room.
    pub(super) push_out: bool,
    /// Whether the user asks which packet has waited longest.
    pub(super) by_age: bool,
}

/// The clients of one queue, in the order that `share` gives them.
#[derive(Debug)]
pub(super) struct Queue<Q> {
    pub(super) share: Q,
    backlogs: IdVec<ClientId, Backlog>,
    /// Packets waiting.
    pub(super) waiting: u32,
    /// Packets that have joined so far.
    joined: u64,
    /// Whether the queue links its waiting packets in the order in which they joined. It does so if
    /// it distinguishes clients and its user asks which packet has waited longest.
    is_linked: bool,
    /// The first and last of the linked packets.
    oldest: Slot,
    newest: Slot,
    /// The cores that pull from this queue, have room for a packet, and may find one.
    pub(super) free: IdSet<CoreId>,
    /// The cores that have room and found nothing, since the queue last changed.
    refused: IdSet<CoreId>,
    merged: bool,
    /// Whether the clients are the services: [`Share::serves_services`].
    by_service: bool,
    /// Whether a client's next head is offered only when the packet before it is complete.
    one_at_a_time: bool,
    /// The clients by packets waiting, most first; kept if the longest line loses packets.
    longest: Option<IndexedHeap<ClientId, Reverse<u32>>>,
}

impl<Q> Queue<Q> {
    /// Converts the type of the policy.
    pub(super) fn retype<Q2>(self, share: impl FnOnce(Q) -> Q2) -> Queue<Q2> {
        Queue {
            share: share(self.share),
            backlogs: self.backlogs,
            waiting: self.waiting,
            joined: self.joined,
            is_linked: self.is_linked,
            oldest: self.oldest,
            newest: self.newest,
            free: self.free,
            refused: self.refused,
            merged: self.merged,
            by_service: self.by_service,
            one_at_a_time: self.one_at_a_time,
            longest: self.longest,
        }
    }
}

impl<Q: Share> Queue<Q> {
    /// `clients` and `services` are how many there can be.
    pub(super) fn new(share: Q, clients: usize, services: usize, cores: usize, kind: QueueKind) -> Self {
        let QueueKind { keep_order, push_out, by_age } = kind;
        let (merged, by_service) = (share.merges_clients(), share.serves_services());
        let clients = if merged {
            1
        } else if by_service {
            services
        } else {
            clients
        };
        Self {
            share,
            backlogs: IdVec::from_fn(clients, |_| Backlog::EMPTY),
            waiting: 0,
            joined: 0,
            is_linked: by_age && !merged,
            oldest: NONE,
            newest: NONE,
            free: IdSet::new(cores),
            refused: IdSet::new(cores),
            merged,
            by_service,
            one_at_a_time: keep_order && !merged,
            longest: push_out.then(|| IndexedHeap::new(clients)),
        }
    }

    /// Returns the client that the sharing policy charges for this packet. `PLAIN`: clients are not services.
    #[inline]
    pub(super) fn charged<const PLAIN: bool>(&self, packet: &Packet) -> ClientId {
        let client = if !PLAIN && self.by_service { ClientId(u32::from(packet.service.0)) } else { packet.client };
        if self.merged { ClientId(0) } else { client }
    }

    /// Whether clients are those of the configuration.
    fn has_own_clients(&self) -> bool {
        !self.merged && !self.by_service
    }

    /// Whether a packet that arrives may come in.
    pub(super) fn admits(&mut self, now: Time, packet: &Packet) -> bool {
        !self.by_service || self.share.admits(now, packet)
    }

    /// Packets of this client waiting.
    #[inline]
    pub(super) fn waiting_of(&self, charged: ClientId) -> u32 {
        self.backlogs[charged].waiting
    }

    /// Returns the client with the most packets waiting, and their number.
    pub(super) fn longest(&self) -> Option<(ClientId, u32)> {
        let (Reverse(waiting), client) = self.longest.as_ref()?.peek()?;
        Some((client, waiting))
    }

    /// Returns when the longest-waiting packet arrived. Only a queue with [`QueueKind::by_age`]
    /// knows.
    pub(super) fn oldest(&self, slab: &Slab) -> Option<Time> {
        let first = if self.merged { self.backlogs[ClientId(0)].head } else { self.oldest };
        (self.waiting > 0).then(|| slab.get(first).packet.arrival)
    }

    /// The packets waiting, client by client. O(clients, and packets waiting).
    pub(super) fn waiting_slots<'s>(&'s self, slab: &'s Slab) -> impl Iterator<Item = Slot> + 's {
        let next = |&slot: &Slot| Some(slab.get(slot).next);
        let of_client = move |backlog: &Backlog| {
            let head = (backlog.waiting > 0).then_some(backlog.head);
            core::iter::successors(head, next).take(backlog.waiting as usize)
        };
        self.backlogs.iter().flat_map(of_client)
    }

    /// Whether a core has found nothing since the queue last changed. `prefers_cores` is free if
    /// the policy's type answers it.
    #[inline(always)]
    fn has_refused(&self) -> bool {
        !self.refused.is_empty() && self.share.prefers_cores()
    }

    /// Records that this core has room.
    #[inline]
    pub(super) fn offer_core(&mut self, core: CoreId) {
        self.free.insert(core);
        if self.has_refused() {
            self.refused.remove(core);
        }
    }

    /// Records that this core has no room any more, or no longer pulls from here.
    #[inline]
    pub(super) fn withdraw_core(&mut self, core: CoreId) {
        self.free.remove(core);
        if self.has_refused() {
            self.refused.remove(core);
        }
    }

    /// Records that this core found nothing that it may serve: it is asked again after the queue
    /// changes.
    pub(super) fn refuse_core(&mut self, core: CoreId) {
        if self.free.contains(core) {
            self.free.remove(core);
            self.refused.insert(core);
        }
    }

    /// Handles a change: a core that found nothing may now find something.
    #[inline]
    pub(super) fn offer_refused_cores(&mut self) {
        if self.has_refused() {
            self.offer_all_refused();
        }
    }

    #[inline(never)]
    fn offer_all_refused(&mut self) {
        while let Some(core) = self.refused.first() {
            self.refused.remove(core);
            self.free.insert(core);
        }
    }

    /// Puts a packet at the end of its client's line in this queue, `id`, and tells the sharing
    /// policy. Returns the packet. `by_age`: the user may ask which packet has waited longest.
    #[inline(always)]
    pub(super) fn enqueue<'s, const PLAIN: bool>(
        &mut self,
        now: Time,
        slot: Slot,
        id: QueueId,
        by_age: bool,
        slab: &'s mut Slab,
    ) -> &'s Packet {
        if by_age && self.is_linked {
            self.link(slot, slab);
        }
        let entry = slab.get_mut(slot);
        let client = self.charged::<PLAIN>(&entry.packet);
        let backlog = &mut self.backlogs[client];
        (entry.queue, entry.foreign, entry.charged) = (id, false, client);
        entry.joined = self.joined;
        self.joined += 1;
        self.waiting += 1;
        let behind = backlog.waiting;
        backlog.waiting = behind + 1;
        let is_hidden = !PLAIN && backlog.is_hidden(self.one_at_a_time);
        backlog.untold += u32::from(is_hidden);
        if behind == 0 {
            backlog.head = slot;
        } else {
            entry.previous = backlog.tail;
            slab.get_mut(backlog.tail).next = slot;
        }
        backlog.tail = slot;
        let in_service = backlog.in_service;
        if !PLAIN {
            self.note_length(client);
        }
        let packet = &slab.get(slot).packet;
        if !is_hidden {
            self.share.on_arrival(now, client, packet, behind);
            if behind == 0 {
                self.offer_first(now, client, packet, in_service);
            }
        }
        packet
    }

    /// Offers the head of a client; the sharing policy knew of no packet of it that waits.
    #[inline(always)]
    fn offer_first(&mut self, now: Time, client: ClientId, head: &Packet, in_service: u32) {
        if in_service == 0 {
            self.share.on_wake(now, client, head);
        } else if !self.one_at_a_time {
            self.share.on_head(now, client, head);
        }
    }

    /// Stops reporting packets of this client to the sharing policy, and takes back the known ones,
    /// except a head that was offered. To the policy it looks like a client that sends no more.
    pub(super) fn withhold(&mut self, now: Time, client: ClientId, slab: &Slab) {
        if !self.has_own_clients() {
            return;
        }
        self.backlogs[client].withheld = true;
        let backlog = self.backlogs[client];
        let is_offered = backlog.told::<false>() > 0 && (backlog.in_service == 0 || !self.one_at_a_time);
        let mut slot = backlog.tail;
        for told in (u32::from(is_offered)..backlog.told::<false>()).rev() {
            let entry = slab.get(slot);
            self.backlogs[client].untold += 1;
            self.share.on_push_out(now, client, &entry.packet, told);
            slot = entry.previous;
        }
    }

    /// Ends the withholding of the client: its packets now arrive for the sharing policy.
    pub(super) fn release(&mut self, now: Time, client: ClientId, slab: &Slab) {
        if !self.has_own_clients() {
            return;
        }
        self.backlogs[client].withheld = false;
        self.tell_rest(now, client, slab);
    }

    /// Reports the packets that the sharing policy does not know of, if it may know of them.
    fn tell_rest(&mut self, now: Time, client: ClientId, slab: &Slab) {
        let backlog = self.backlogs[client];
        if backlog.is_hidden(self.one_at_a_time) {
            return;
        }
        self.backlogs[client].untold = 0;
        let mut slot = backlog.head;
        for waiting in 0..backlog.waiting {
            let packet = &slab.get(slot).packet;
            if waiting >= backlog.told::<false>() {
                self.share.on_arrival(now, client, packet, waiting);
            }
            if waiting == 0 && backlog.told::<false>() == 0 {
                self.offer_first(now, client, packet, backlog.in_service);
            }
            slot = slab.get(slot).next;
        }
    }

    /// Takes the packet that `core` should serve now.
    #[inline(always)]
    pub(super) fn dispatch<const PLAIN: bool>(
        &mut self,
        now: Time,
        core: CoreId,
        by_age: bool,
        slab: &mut Slab,
    ) -> Option<Slot> {
        let client = self.share.pick(now, core)?;
        let backlog = &mut self.backlogs[client];
        assert!(backlog.waiting > 0, "client {client} was picked with nothing waiting");
        assert!(
            !self.one_at_a_time || backlog.in_service + backlog.foreign == 0,
            "client {client} was picked before its head was offered"
        );
        let slot = backlog.head;
        let entry = slab.get(slot);
        let head = entry.next;
        backlog.head = head;
        backlog.waiting -= 1;
        backlog.in_service += 1;
        let told = backlog.told::<PLAIN>();
        self.waiting -= 1;
        self.share.on_dispatch(now, core, client, &entry.packet);
        if told > 0 && !self.one_at_a_time {
            self.share.on_head(now, client, &slab.get(head).packet);
        }
        if !PLAIN {
            self.note_length(client);
        }
        if by_age && self.is_linked {
            self.unlink(slot, slab);
        }
        Some(slot)
    }

    /// Completes a packet of this queue, `entry`, at `core`.
    #[inline(always)]
    pub(super) fn complete<const PLAIN: bool>(
        &mut self,
        now: Time,
        core: CoreId,
        entry: &Entry,
        used: Work,
        slab: &Slab,
    ) {
        let client = entry.charged;
        if !PLAIN && entry.foreign {
            return self.complete_foreign(now, core, entry, used, slab);
        }
        let backlog = &mut self.backlogs[client];
        backlog.in_service -= 1;
        let Backlog { in_service, head, .. } = *backlog;
        let told = backlog.told::<PLAIN>();
        self.share.on_completion(now, core, client, &entry.packet, used);
        if told == 0 {
            if in_service == 0 {
                self.share.on_idle(now, client);
            }
        } else if self.one_at_a_time {
            self.share.on_head(now, client, &slab.get(head).packet);
        }
    }

    /// Puts back a packet that `core` has not finished, before the other packets of its client.
    pub(super) fn put_back(&mut self, now: Time, core: CoreId, slot: Slot, used: Work, slab: &mut Slab) {
        let client = slab.get(slot).charged;
        let backlog = &mut self.backlogs[client];
        let behind = core::mem::replace(&mut backlog.head, slot);
        if backlog.waiting == 0 {
            backlog.tail = slot;
        } else {
            slab.get_mut(slot).next = behind;
            slab.get_mut(behind).previous = slot;
        }
        backlog.in_service -= 1;
        backlog.waiting += 1;
        self.waiting += 1;
        self.note_length(client);
        self.share.on_preemption(now, core, client, &slab.get(slot).packet, used);
    }

    #[cold]
    fn complete_foreign(&mut self, now: Time, core: CoreId, entry: &Entry, used: Work, slab: &Slab) {
        let client = entry.charged;
        self.backlogs[client].foreign -= 1;
        self.share.on_foreign_completion(now, core, client, &entry.packet, used);
        if self.one_at_a_time {
            self.tell_rest(now, client, slab);
        }
    }

    /// Takes the newest packet of a client, which has two or more waiting.
    pub(super) fn push_out(&mut self, now: Time, client: ClientId, slab: &mut Slab) -> Slot {
        let backlog = &mut self.backlogs[client];
        assert!(backlog.waiting > 1, "client {client} has no packet behind its head");
        let slot = backlog.tail;
        backlog.tail = slab.get(slot).previous;
        backlog.waiting -= 1;
        self.waiting -= 1;
        self.note_length(client);
        if self.is_linked {
            self.unlink(slot, slab);
        }
        let backlog = &mut self.backlogs[client];
        if backlog.untold > 0 {
            backlog.untold -= 1;
        } else {
            self.share.on_push_out(now, client, &slab.get(slot).packet, backlog.waiting);
        }
        slot
    }

    /// Replaces the sharing policy with a fresh queue's, which has its own order of clients. The
    /// new policy learns of waiting packets in the order in which they joined, and of packets in
    /// service when they are done.
    pub(super) fn take_over(&mut self, now: Time, mut fresh: Self, in_service: &[Slot], slab: &mut Slab) {
        core::mem::swap(&mut fresh.free, &mut self.free);
        core::mem::swap(&mut fresh.refused, &mut self.refused);
        let mut waiting: Vec<Slot> = self.waiting_slots(slab).collect();
        waiting.sort_unstable_by_key(|&slot| slab.get(slot).joined);
        if self.has_own_clients() && fresh.has_own_clients() {
            for client in self.backlogs.ids() {
                fresh.backlogs[client].withheld = self.backlogs[client].withheld;
            }
        }
        *self = fresh;
        for &slot in in_service {
            let entry = slab.get_mut(slot);
            entry.charged = self.charged::<false>(&entry.packet);
            entry.foreign = true;
            self.backlogs[entry.charged].foreign += 1;
        }
        for slot in waiting {
            let id = slab.get(slot).queue;
            self.enqueue::<false>(now, slot, id, true, slab);
        }
        // Cores that the earlier policy refused, even if this one refuses none.
        self.offer_all_refused();
    }

    pub(super) fn end_client(&mut self, now: Time, client: ClientId) {
        if !self.has_own_clients() {
            return;
        }
        let Backlog { waiting, in_service, foreign, .. } = self.backlogs[client];
        assert!(waiting + in_service + foreign == 0, "client {client} ended while it had packets");
        self.share.on_client_end(now, client);
    }

    /// Sets the weight of a client; merged clients have no weights of their own, and clients beyond the services none
    /// where clients are services.
    pub(super) fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        if !self.merged && client.index() < self.backlogs.len() {
            self.share.set_weight(now, client, weight);
        }
    }

    /// Panics unless the counts agree with the packets.
    pub(super) fn check(&self, slab: &Slab) {
        let mut waiting = 0;
        for backlog in &self.backlogs {
            assert!(backlog.untold <= backlog.waiting, "packets that the policy does not know of");
            assert!(
                backlog.untold == 0 || backlog.is_hidden(self.one_at_a_time),
                "a client is hidden without a reason"
            );
            let mut slot = backlog.head;
            for place in 0..backlog.waiting {
                assert!(slab.get(slot).core.is_none(), "a waiting packet is in service");
                assert_eq!(place + 1 == backlog.waiting, slot == backlog.tail, "the last packet of a client");
                slot = slab.get(slot).next;
            }
            waiting += backlog.waiting;
        }
        assert_eq!(waiting, self.waiting, "packets waiting in a queue");
        if self.is_linked {
            let newer = |&slot: &Slot| Some(slab.get(slot).newer).filter(|&slot| slot != NONE);
            let linked: Vec<Slot> = core::iter::successors((waiting > 0).then_some(self.oldest), newer).collect();
            assert_eq!(linked.len(), waiting as usize, "as many packets are linked as wait");
            assert!(linked.is_sorted_by_key(|&slot| slab.get(slot).joined), "a packet is linked out of order");
        }
        if let (Some(longest), Some((client, length))) = (&self.longest, self.longest()) {
            assert_eq!(length, self.backlogs.iter().map(|backlog| backlog.waiting).max().unwrap_or(0), "longest line");
            assert!(longest.contains(client) && length > 0, "a client without packets is no longest");
        }
        self.share.check();
    }

    /// Appends a packet to the line of all packets.
    fn link(&mut self, slot: Slot, slab: &mut Slab) {
        let entry = slab.get_mut(slot);
        (entry.older, entry.newer) = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = slot,
            newest => slab.get_mut(newest).newer = slot,
        }
        self.newest = slot;
    }

    /// Removes a packet from the line of all packets.
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

    #[inline]
    fn note_length(&mut self, client: ClientId) {
        let Some(longest) = &mut self.longest else { return };
        match self.backlogs[client].waiting {
            0 => longest.remove(client),
            waiting => longest.set(client, Reverse(waiting)),
        }
    }
}
