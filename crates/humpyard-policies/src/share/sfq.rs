//! Start-time fair queueing: serve the client whose next packet starts earliest in virtual time.
//!
//! **Idea.** Each packet has a start tag: the virtual time at which its client has been served all before it, or the
//! virtual time of its arrival if that is later. Virtual time is the start tag in service. No cost need be
//! known before service.
//!
//! **Source.** Goyal, Vin, Cheng. Start-time fair queueing. SIGCOMM 1996. PROPORTIONAL_SHARE section 2.7.
//!
//! **Promises.** Work conserving. |W_i/w_i − W_j/w_j| ≤ longest_i/w_i + longest_j/w_j while both are backlogged.
//!
//! **Cost.** `pick` O(1), the events O(log n) in the ready clients.
//!
//! **Invariants.** `ready` holds exactly the clients whose head may be served, by start tag. `virtual_time` never decreases.
//!
//! **Departures.** Tags for the head alone. Charged the estimate at dispatch and corrected at completion. With k packets in
//! service at once the bound grows by those packets. A new weight holds for the packets in service too: their estimates
//! are charged anew, so that what is settled at completion is what was charged.

use humpyard_core::id::{ClientId, CoreId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Setup, Share, Ties};
use humpyard_core::storage::IndexedHeap;
use humpyard_core::unit::{Time, Weight, Work};

use super::tag::{ExactTag, PackedTag, Tag};

params! {
    /// Parameters of start-time fair queueing: none.
    pub struct SfqParams {}
}

/// What is known of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// Finish tag of its last packet.
    finish: ExactTag,
    /// The earliest start of its head: the virtual time when it arrived to an empty queue, else 0.
    earliest: PackedTag,
    /// Estimated work of its packets in service.
    in_service: Work,
    weight: Weight,
}

impl Client {
    /// Start tag of its head: S = max(v at arrival, F of the packet before).
    #[inline]
    fn start(&self) -> ExactTag {
        let earliest = self.earliest.tag();
        if earliest > self.finish.tag() { ExactTag::at(earliest) } else { self.finish }
    }
}

/// Start-time fair queueing.
#[derive(Debug)]
pub struct Sfq {
    /// Start tag of the latest dispatch; the greatest finish tag when all are idle.
    virtual_time: Tag,
    /// The greatest finish tag of all.
    finish_max: Tag,
    /// Clients that are not idle.
    busy: usize,
    /// The clients whose head may be served, by start tag; equal tags as `ties` says.
    ready: IndexedHeap<ClientId, (Tag, u32)>,
    clients: IdVec<ClientId, Client>,
    ties: Ties,
}

impl Build for Sfq {
    type Params = SfqParams;
    const INFO: Info = Info {
        name: "sfq",
        family: Family::Share,
        summary: "the client whose next packet starts earliest in virtual time; blind to costs",
        source: "Goyal, Vin, Cheng. Start-time fair queueing. SIGCOMM 1996",
        promises: &[Promise::WorkConserving, Promise::Fair("|W_i/w_i - W_j/w_j| <= longest_i/w_i + longest_j/w_j")],
        complexity: "O(log n)",
    };

    fn new(_: &SfqParams, setup: &Setup<'_>) -> Result<Self, BuildError> {
        let clients = IdVec::from_fn(setup.clients, |id| Client {
            finish: ExactTag::default(),
            earliest: PackedTag::default(),
            in_service: 0,
            weight: setup.weight(id),
        });
        let ready = IndexedHeap::new(setup.clients);
        Ok(Self { virtual_time: 0, finish_max: 0, busy: 0, ready, clients, ties: setup.ties })
    }
}

impl Policy for Sfq {
    fn check(&self) {
        assert!(self.ready.len() <= self.busy, "more clients are ready than are not idle");
        for id in self.clients.ids() {
            if let Some((start, _)) = self.ready.key(id) {
                let client = &self.clients[id];
                assert_eq!(start, client.start().tag(), "start tag of client {id}");
            }
        }
    }
}

impl Share for Sfq {
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
        if waiting == 0 {
            self.clients[id].earliest = PackedTag::new(self.virtual_time);
        }
    }

    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.busy += 1;
        self.make_ready(id);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.make_ready(id);
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.ready.peek().map(|(_, id)| id)
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id];
        client.finish = client.start();
        self.virtual_time = self.virtual_time.max(client.finish.tag());
        client.finish.add(sent.estimate, client.weight);
        client.in_service += sent.estimate;
        client.earliest = PackedTag::default();
        self.finish_max = self.finish_max.max(client.finish.tag());
        self.ready.remove(id);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        let client = &mut self.clients[id];
        client.finish.settle(used, sent.estimate, client.weight);
        client.in_service -= sent.estimate;
        self.finish_max = self.finish_max.max(client.finish.tag());
        if self.ready.contains(id) {
            self.make_ready(id);
        }
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {
        self.busy -= 1;
        if self.busy == 0 {
            self.virtual_time = self.virtual_time.max(self.finish_max);
        }
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id].finish = ExactTag::default();
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let client = &mut self.clients[id];
        client.finish.reweigh(client.in_service, client.weight, weight);
        client.weight = weight;
        self.finish_max = self.finish_max.max(client.finish.tag());
        if self.ready.contains(id) {
            self.make_ready(id);
        }
    }
}

impl Sfq {
    /// Files a client under the start tag of its head.
    fn make_ready(&mut self, id: ClientId) {
        let start = self.clients[id].start().tag();
        let tie = match self.ties {
            Ties::Lowest => id.index() as u32,
            Ties::Highest => !(id.index() as u32),
        };
        self.ready.set(id, (start, tie));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, V, sequence, unit_sequence, v_work};

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Sfq>(&SfqParams {}, &A, 12), "123121123121");
        assert_eq!(unit_sequence::<Sfq>(&SfqParams {}, &B, 24), "123456111123114561123111");
    }

    /// PROPORTIONAL_SHARE section 1 prints 12312212131121, which no tie rule yields: its first six picks leave client 2 with
    /// start tag 15, and the eighth takes it before client 3 with start tag 10. The fifth digit must be 1: client 1 and
    /// client 2 both start at 5 then, and the lower id goes first.
    #[test]
    fn variable_costs() {
        assert_eq!(sequence::<Sfq>(&SfqParams {}, &V, 14, 10, v_work), "12311212131121");
    }
}
