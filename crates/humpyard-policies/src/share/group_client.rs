//! A client of group ratio round robin, and the rings of the clients of a group.

use humpyard_core::id::{ClientId, IdVec};

/// The number of fraction bits of balances, and of weights over the least of their order.
pub(super) const FRACTION: u32 = 31;

/// The client is in its group's ring.
pub(super) const MEMBER: u8 = 1;
/// The client is in the ring and idle: it leaves when the ring reaches it.
pub(super) const IDLE: u8 = 1 << 1;
/// The client's head may be served.
pub(super) const OFFERED: u8 = 1 << 2;
/// Only one core may serve the client's head.
pub(super) const HELD: u8 = 1 << 3;
/// The client's bank holds work.
pub(super) const BANKED: u8 = 1 << 4;
/// The client's bank is full.
pub(super) const FULL: u8 = 1 << 5;
/// The client may be given a slot: to be served, or for its bank.
pub(super) const ABLE: u8 = 1 << 6;

/// The state of one client. Two fit a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Client {
    /// Its remaining credit, times 2^31; negative is debt, of at most 2^32.
    pub(super) balance: i64,
    /// Estimated work of its head, at most a slot.
    pub(super) head: u32,
    /// Its weight over the least of its order, times 2^31.
    pub(super) quota: u32,
    /// The number of its waiting packets.
    pub(super) waiting: u32,
    /// Its neighbours in its group's ring: the client itself if it is in no ring.
    pub(super) next: ClientId,
    pub(super) previous: ClientId,
    /// The order of its group.
    pub(super) order: u8,
    /// One bit for each of the constants above.
    pub(super) flags: u8,
}

impl Client {
    /// Creates an idle client of this weight that is in no ring.
    pub(super) fn new(id: ClientId, weight: u64) -> Self {
        let mut client = Self { balance: 0, head: 0, quota: 0, waiting: 0, next: id, previous: id, order: 0, flags: 0 };
        client.set_weight(weight);
        client
    }

    #[inline]
    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(super) fn set(&mut self, flag: u8, on: bool) {
        self.flags = self.flags & !flag | if on { flag } else { 0 };
    }

    /// Returns the value that `ABLE` must have.
    #[inline]
    pub(super) fn is_able(&self) -> bool {
        let awake = self.flags & (MEMBER | IDLE) == MEMBER;
        awake && (self.flags & (OFFERED | HELD) == OFFERED || self.waiting > 0 && !self.is(FULL))
    }

    pub(super) fn weight(&self) -> i64 {
        let (quota, order) = (i64::from(self.quota), u32::from(self.order));
        if order < FRACTION { quota >> (FRACTION - order) } else { quota << (order - FRACTION) }
    }

    pub(super) fn set_weight(&mut self, weight: u64) {
        let order = weight.ilog2();
        let quota = if order < FRACTION { weight << (FRACTION - order) } else { weight >> (order - FRACTION) };
        self.quota = quota as u32;
        self.order = order as u8;
    }
}

/// Inserts a client that is in no ring just before `next`.
#[inline]
pub(super) fn link(clients: &mut IdVec<ClientId, Client>, id: ClientId, next: ClientId) {
    let previous = core::mem::replace(&mut clients[next].previous, id);
    clients[previous].next = id;
    let client = &mut clients[id];
    (client.previous, client.next) = (previous, next);
}

/// Removes a client from its ring.
#[inline]
pub(super) fn unlink(clients: &mut IdVec<ClientId, Client>, id: ClientId) {
    let client = &mut clients[id];
    let (previous, next) = (client.previous, client.next);
    (client.previous, client.next) = (id, id);
    clients[previous].next = next;
    clients[next].previous = previous;
}

/// Returns the ring of a client, beginning with it.
pub(super) fn ring(clients: &IdVec<ClientId, Client>, id: ClientId) -> impl Iterator<Item = ClientId> + '_ {
    core::iter::successors(Some(id), move |&member| Some(clients[member].next).filter(|&next| next != id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_small() {
        assert_eq!(size_of::<Client>(), 32);
        let bank = size_of::<i64>();
        // The policy has another ring.
        let ring = size_of::<(ClientId, ClientId, bool)>();
        assert!(size_of::<Client>() + bank + ring <= 64);
    }
}
