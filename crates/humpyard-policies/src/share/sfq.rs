//! Start-time fair queueing: serve the client whose next packet starts earliest in virtual time.
//!
//! **Idea.** Each packet has a start tag: the virtual time at which its client has received all
//! earlier service, or the virtual time of its arrival if that is later. Virtual time is the start
//! tag in service. No cost need be known before service.
//!
//! **Source.** Goyal, Vin, Cheng. Start-time fair queueing. SIGCOMM 1996. PROPORTIONAL_SHARE section 2.7.
//!
//! **Promises.** Work conserving. |W_i/w_i − W_j/w_j| ≤ longest_i/w_i + longest_j/w_j while both are backlogged.
//!
//! **Cost.** `pick` O(1), the events O(log n) in the ready clients.
//!
//! **Invariants.** `ready` holds exactly the clients whose head may be served, by start tag.
//! `virtual_time` never decreases.
//!
//! **Departures.** Only the head has a tag. The estimate is charged at dispatch and corrected at
//! completion. With k packets in service at once, the bound grows by those packets. A new weight
//! holds for the packets in service too: their estimates are charged again, so that completion
//! settles the amount that was charged.

use alloc::string::String;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::tag::Tag;
use super::tagged::Tagged;
use super::tournament::Tournament;

params! {
    /// Parameters of start-time fair queueing: none.
    pub struct SfqParams {}
}

/// Start-time fair queueing.
#[derive(Debug)]
pub struct Sfq {
    /// Start tag of the latest dispatch; the greatest finish tag when all are idle.
    virtual_time: Tag,
    /// The greatest finish tag of all.
    finish_max: Tag,
    /// The number of clients that are not idle.
    busy: usize,
    /// The clients whose head may be served, by start tag.
    ready: Tournament<ClientId>,
    clients: IdVec<ClientId, Tagged>,
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

    fn new(_: &SfqParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let clients = IdVec::from_fn(config.clients, |id| Tagged::new(config.weight(id)));
        let ready = Tournament::new(config.clients, config.ties);
        Ok(Self { virtual_time: 0, finish_max: 0, busy: 0, ready, clients })
    }
}

impl Policy for Sfq {
    fn check(&self) {
        let mut busy = 0;
        for id in self.clients.ids() {
            let client = &self.clients[id];
            busy += usize::from(client.is_busy());
            if let Some(start) = self.ready.tag(id) {
                assert!(client.is_busy(), "client {id} is idle and ready");
                assert_eq!(start, client.start().tag(), "start tag of client {id}");
            }
        }
        assert_eq!(busy, self.busy, "clients that are not idle");
    }
}

impl Share for Sfq {
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
        if waiting == 0 {
            self.clients[id].arrive(self.virtual_time);
        }
    }

    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.busy += 1;
        self.clients[id].wake();
        self.make_ready(id);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.make_ready(id);
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.ready.first().map(|(_, id)| id)
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id];
        self.virtual_time = self.virtual_time.max(client.start().tag());
        client.dispatch(sent.estimate);
        self.finish_max = self.finish_max.max(client.finish());
        self.ready.remove(id);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        let client = &mut self.clients[id];
        client.complete(used, sent.estimate);
        self.finish_max = self.finish_max.max(client.finish());
        if used != sent.estimate && self.ready.contains(id) {
            self.make_ready(id);
        }
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.busy -= 1;
        self.clients[id].idle();
        if self.busy == 0 {
            self.virtual_time = self.virtual_time.max(self.finish_max);
        }
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id].end();
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let client = &mut self.clients[id];
        client.set_weight(weight);
        self.finish_max = self.finish_max.max(client.finish());
        if self.ready.contains(id) {
            self.make_ready(id);
        }
    }

    fn explain(&self, id: ClientId) -> Option<String> {
        Some(self.clients[id].explained(self.virtual_time))
    }
}

impl Sfq {
    /// Returns the weight of a client.
    #[cfg(test)]
    pub(super) fn weight(&self, id: ClientId) -> u32 {
        self.clients[id].weight().get()
    }

    /// Files a client under the start tag of its head.
    fn make_ready(&mut self, id: ClientId) {
        self.ready.set(id, self.clients[id].start().tag());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, V, after_ten_alone, churn_errors, sequence, unit_errors, unit_sequence, v_work};
    use alloc::vec;

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Sfq>(&SfqParams {}, &A, 12), "123121123121");
        assert_eq!(unit_sequence::<Sfq>(&SfqParams {}, &B, 24), "123456111123114561123111");
        assert_eq!(unit_errors::<Sfq>(&SfqParams {}, &B, 24), (-48, 18), "-2 to 3/4 of 24");
    }

    /// PROPORTIONAL_SHARE section 1 prints 12312212131121, which no tie rule yields. Its first six picks leave
    /// client 2 with start tag 15, but the eighth takes it before client 3 with start tag 10. The fifth digit
    /// must be 1: clients 1 and 2 both start at 5 then, and the lower id goes first.
    #[test]
    fn variable_costs() {
        assert_eq!(sequence::<Sfq>(&SfqParams {}, &V, 14, 10, v_work), "12311212131121");
    }

    /// PROPORTIONAL_SHARE section 5.1: the mirror of weighted fair queueing. The heavy client of N,
    /// with share h, falls behind by h (N - 1) if it loses ties: 819.15 at N = 8192.
    #[test]
    fn the_heavy_wait_for_all_others() {
        let behind = |clients: usize, heavy_first: bool| {
            let light = 9 * 64;
            let heavy = light * (clients as u32 - 1) / 9;
            let mut weights = vec![light; clients - 1];
            weights.insert(if heavy_first { 0 } else { clients - 1 }, heavy);
            let total: u32 = weights.iter().sum();
            let (least, _) = unit_errors::<Sfq>(&SfqParams {}, &weights, total as usize / 64);
            -least as f64 / f64::from(total)
        };
        for clients in [64, 514] {
            let limit = 0.1 * clients as f64;
            let (first, last) = (behind(clients, true), behind(clients, false));
            assert!((limit - 1.2..=limit).contains(&last), "heavy last: {last} of {limit}");
            assert!(first < last - 0.8, "heavy first: {first}, heavy last: {last}");
        }
    }

    /// PROPORTIONAL_SHARE section 2.5: a client that was alone for ten quanta lets a client that
    /// comes then go first, once.
    #[test]
    fn use_of_idle_capacity_is_forgiven() {
        assert_eq!(after_ten_alone::<Sfq>(&SfqParams {}, 6), "212121");
    }

    /// PROPORTIONAL_SHARE section 5.5: [-5.0, 1.5]; twice that is accepted.
    #[test]
    fn clients_that_come_and_go() {
        let (least, greatest) = churn_errors::<Sfq>(&SfqParams {}, 1, 100_000);
        assert!(-10.0 <= least && greatest <= 3.0, "{least} to {greatest}");
    }
}
