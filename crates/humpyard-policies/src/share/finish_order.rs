//! The order of finish tags: of the clients whose head may be served, the one that would finish
//! first in virtual time is first.

use alloc::format;
use alloc::string::String;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, IdVec};
use humpyard_core::unit::{Weight, Work};

use super::ready_queue::ReadyQueue;
use super::tag::{FRACTION, Tag};
use super::tagged::Tagged;

/// Clients by the estimated finish tag of their head: S + estimate / w, S = max(V at its arrival, F
/// of the packet before). The policy decides how virtual time V grows.
///
/// Only the tag stores the estimate of a head. When the tag must change, the estimate is computed from it.
#[derive(Debug)]
pub(super) struct FinishOrder<R> {
    /// The clients whose head may be served, by finish tag.
    ready: R,
    clients: IdVec<ClientId, Tagged>,
    /// The greatest finish tag of all.
    finish_max: Tag,
}

/// The handlers that all policies of finish tags share, for their `impl Share`. The policies need
/// the fields `order` and `virtual_time`.
macro_rules! finish_handlers {
    () => {
        fn on_arrival(&mut self, now: Time, id: ClientId, _: &Packet, waiting: u32) {
            if waiting == 0 {
                self.virtual_time.elapse(now);
                self.order.arrive(id, self.virtual_time.tag());
            }
        }

        fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
            self.virtual_time.join(now, self.order.weight(id));
            self.order.wake(id, head.estimate);
        }

        fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
            self.order.offer(id, head.estimate);
        }

        fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
            self.order.first()
        }

        fn on_dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
            self.virtual_time.dispatch(now, core, sent.estimate);
            self.order.dispatch(id, sent.estimate);
        }

        fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
            self.virtual_time.complete(used, sent.estimate);
            self.order.complete(id, used, sent.estimate);
        }

        fn on_client_end(&mut self, _: Time, id: ClientId) {
            self.order.end(id);
        }

        fn explain(&self, id: ClientId) -> Option<alloc::string::String> {
            Some(self.order.explained(id, self.virtual_time.last()))
        }
    };
}
pub(super) use finish_handlers;

impl<R: ReadyQueue> FinishOrder<R> {
    /// Creates the order; all clients are idle.
    pub(super) fn new(config: &SchedulerConfig) -> Self {
        Self {
            ready: R::new(config.clients, config.ties),
            clients: IdVec::from_fn(config.clients, |id| Tagged::new(config.weight(id))),
            finish_max: 0,
        }
    }

    /// Panics if a tag is wrong, or the weights of the clients that are not idle do not sum to `busy`.
    pub(super) fn check(&self, busy: u64) {
        let mut weight = 0;
        for id in self.clients.ids() {
            let client = &self.clients[id];
            weight += if client.is_busy() { u64::from(client.weight().get()) } else { 0 };
            if let Some(finish) = self.ready.tag(id) {
                assert!(client.is_busy(), "client {id} is idle and ready");
                assert_eq!(client.finish_after(client.work_until(finish)), finish, "finish tag of client {id}");
            }
        }
        assert_eq!(weight, busy, "weights of the clients that are not idle");
    }

    /// Explains to a reader where a client stands in virtual time.
    pub(super) fn explained(&self, id: ClientId, virtual_time: Tag) -> String {
        let start = self.clients[id].explained(virtual_time);
        match self.ready.tag(id) {
            Some(finish) => format!("{start}, and its finish tag {}", finish >> FRACTION),
            None => start,
        }
    }

    /// Returns the greatest finish tag of all.
    pub(super) fn finish_max(&self) -> Tag {
        self.finish_max
    }

    /// Returns the weight of a client.
    pub(super) fn weight(&self, id: ClientId) -> Weight {
        self.clients[id].weight()
    }

    /// Whether a client has packets.
    pub(super) fn is_busy(&self, id: ClientId) -> bool {
        self.clients[id].is_busy()
    }

    /// Records that a packet arrives to an empty queue at this virtual time.
    #[inline]
    pub(super) fn arrive(&mut self, id: ClientId, now: Tag) {
        self.clients[id].arrive(now);
    }

    /// Wakes a client that was idle and has a head of this estimate.
    #[inline]
    pub(super) fn wake(&mut self, id: ClientId, estimate: Work) {
        self.clients[id].wake();
        self.offer(id, estimate);
    }

    /// Records that the client has a head of this estimate, which may be served.
    #[inline]
    pub(super) fn offer(&mut self, id: ClientId, estimate: Work) {
        self.ready.set(id, self.clients[id].finish_after(estimate));
    }

    /// Returns the client whose head would finish first.
    #[inline]
    pub(super) fn first(&mut self) -> Option<ClientId> {
        self.ready.first().map(|(_, id)| id)
    }

    /// Records that the client's head goes to a core.
    #[inline]
    pub(super) fn dispatch(&mut self, id: ClientId, estimate: Work) {
        let client = &mut self.clients[id];
        client.dispatch(estimate);
        self.finish_max = self.finish_max.max(client.finish());
        self.ready.remove(id);
    }

    /// Records that a packet of the client is done.
    #[inline]
    pub(super) fn complete(&mut self, id: ClientId, used: Work, estimate: Work) {
        if used == estimate {
            self.clients[id].complete(used, estimate);
        } else {
            self.change(id, |client| client.complete(used, estimate));
        }
    }

    /// Records that the client has no packets.
    #[inline]
    pub(super) fn idle(&mut self, id: ClientId) {
        self.clients[id].idle();
    }

    /// Records that the client is gone.
    pub(super) fn end(&mut self, id: ClientId) {
        self.clients[id].end();
    }

    /// Sets the weight of the client.
    pub(super) fn set_weight(&mut self, id: ClientId, weight: Weight) {
        self.change(id, |client| client.set_weight(weight));
    }

    /// Returns the finish tag of the head of a client.
    #[cfg(test)]
    pub(super) fn finish_of(&self, id: ClientId) -> Tag {
        self.ready.tag(id).expect("its head may be served")
    }

    /// Changes the inputs of the finish tag of a head.
    fn change(&mut self, id: ClientId, change: impl FnOnce(&mut Tagged)) {
        let client = &mut self.clients[id];
        let head = self.ready.tag(id).map(|finish| client.work_until(finish));
        change(client);
        self.finish_max = self.finish_max.max(client.finish());
        if let Some(estimate) = head {
            self.offer(id, estimate);
        }
    }
}
