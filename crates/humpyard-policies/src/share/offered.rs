//! Offered heads: for each service, the client with the oldest head, of those whose head may be served.

use humpyard_core::id::{ClientId, IdVec, ServiceId};

/// Stands for no client.
const NONE: u32 = u32::MAX;

/// A client in the heap of a service.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The number of its head among the accepted packets.
    head: u64,
    /// The service of its heap, if `offered`.
    service: ServiceId,
    offered: bool,
    /// Its first child.
    child: u32,
    /// Its next sibling.
    next: u32,
    /// Its previous sibling; for a first child, the parent; for the top, [`NONE`].
    before: u32,
}

/// A pairing heap for each service, linked through the clients. Insertion is O(1), removal O(log n)
/// amortised, and nothing allocates.
#[derive(Debug)]
pub(super) struct Offered {
    nodes: IdVec<ClientId, Node>,
    /// The client with the oldest head of each service.
    top: IdVec<ServiceId, u32>,
}

impl Offered {
    /// Creates heaps for these numbers of services and clients; no client has a head.
    pub(super) fn new(services: usize, clients: usize) -> Self {
        let node = Node { head: 0, service: ServiceId(0), offered: false, child: NONE, next: NONE, before: NONE };
        Self { nodes: IdVec::from_fn(clients, |_| node), top: IdVec::from_fn(services, |_| NONE) }
    }

    /// Returns the client with the oldest head of this service.
    #[inline]
    pub(super) fn oldest(&self, service: ServiceId) -> Option<ClientId> {
        let top = self.top[service];
        (top != NONE).then_some(ClientId(top))
    }

    /// Returns the number of the oldest head of this service.
    #[inline]
    pub(super) fn oldest_head(&self, service: ServiceId) -> Option<u64> {
        self.oldest(service).map(|id| self.nodes[id].head)
    }

    /// Adds the head of a client that had none; it may be served.
    pub(super) fn offer(&mut self, id: ClientId, service: ServiceId, head: u64) {
        self.nodes[id] = Node { head, service, offered: true, child: NONE, next: NONE, before: NONE };
        self.top[service] = self.meld(self.top[service], id.0);
    }

    /// Removes the head of the client. Returns the service of the head.
    pub(super) fn take(&mut self, id: ClientId) -> ServiceId {
        let Node { service, child, next, before, .. } = self.nodes[id];
        self.nodes[id].offered = false;
        let below = self.meld_all(child);
        if self.top[service] == id.0 {
            self.top[service] = below;
            return service;
        }
        if next != NONE {
            self.node(next).before = before;
        }
        if self.node(before).child == id.0 {
            self.node(before).child = next;
        } else {
            self.node(before).next = next;
        }
        self.top[service] = self.meld(self.top[service], below);
        service
    }

    fn node(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[ClientId(at)]
    }

    /// Merges two heaps; their tops must have no siblings.
    fn meld(&mut self, one: u32, other: u32) -> u32 {
        if one == NONE || other == NONE {
            return if one == NONE { other } else { one };
        }
        let key = |at: u32| (self.nodes[ClientId(at)].head, at);
        let (above, below) = if key(one) <= key(other) { (one, other) } else { (other, one) };
        let first = core::mem::replace(&mut self.node(above).child, below);
        (self.node(below).next, self.node(below).before) = (first, above);
        if first != NONE {
            self.node(first).before = below;
        }
        above
    }

    /// Merges a list of sibling heaps: in pairs from the first to the last, then back.
    fn meld_all(&mut self, first: u32) -> u32 {
        let mut pairs = NONE;
        let mut rest = first;
        while rest != NONE {
            let one = rest;
            let other = self.detach(one);
            rest = if other == NONE { NONE } else { self.detach(other) };
            let pair = self.meld(one, other);
            self.node(pair).next = core::mem::replace(&mut pairs, pair);
        }
        let mut all = NONE;
        while pairs != NONE {
            let pair = pairs;
            pairs = self.detach(pair);
            all = self.meld(all, pair);
        }
        all
    }

    /// Detaches a heap from its list. Returns its next sibling.
    fn detach(&mut self, at: u32) -> u32 {
        let node = self.node(at);
        node.before = NONE;
        core::mem::replace(&mut node.next, NONE)
    }

    /// Panics unless the heaps hold exactly the clients that have a head, and no client is above
    /// one with an older head.
    pub(super) fn check(&self) {
        let mut found = 0;
        for service in self.top.ids() {
            if let Some(top) = self.oldest(service) {
                assert_eq!(self.nodes[top].before, NONE, "nobody is above client {top}");
                found += self.check_below(top.0, service);
            }
        }
        assert_eq!(found, self.nodes.iter().filter(|node| node.offered).count(), "clients in heaps");
    }

    fn check_below(&self, at: u32, service: ServiceId) -> usize {
        let node = &self.nodes[ClientId(at)];
        assert!(node.offered && node.service == service, "client {at} is not of service {service}");
        let mut found = 1;
        let (mut below, mut before) = (node.child, at);
        while below != NONE {
            let child = &self.nodes[ClientId(below)];
            assert!(child.before == before && child.head >= node.head, "client {below} below {at}");
            found += self.check_below(below, service);
            before = below;
            below = child.next;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::random::Seed;

    #[test]
    fn behaves_like_a_sorted_list() {
        const CLIENTS: u64 = 40;
        let mut offered = Offered::new(3, CLIENTS as usize);
        let mut model: alloc::vec::Vec<(u64, u32, u16)> = alloc::vec![];
        let mut random = Seed(3).stream("offered");
        for step in 0..20_000 {
            let id = random.below(CLIENTS) as u32;
            match model.iter().position(|entry| entry.1 == id) {
                Some(at) if random.below(3) > 0 => {
                    let (_, _, service) = model.remove(at);
                    assert_eq!(offered.take(ClientId(id)), ServiceId(service));
                }
                None => {
                    // Heads arrive in any order, and some are equally old.
                    let (head, service) = (random.below(200) + step / 2, random.below(3) as u16);
                    offered.offer(ClientId(id), ServiceId(service), head);
                    model.push((head, id, service));
                }
                Some(_) => {}
            }
            offered.check();
            for service in 0..3 {
                let expected = model.iter().filter(|entry| entry.2 == service).min();
                assert_eq!(offered.oldest(ServiceId(service)), expected.map(|entry| ClientId(entry.1)));
                assert_eq!(offered.oldest_head(ServiceId(service)), expected.map(|entry| entry.0));
            }
        }
    }
}
