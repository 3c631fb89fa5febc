//! Weighted fair queueing: serves the client whose next packet would finish first in virtual time.
//!
//! **Idea.** A fluid server would serve all clients at once, each in proportion to its weight.
//! Virtual time is the progress of that server, in work per weight. Packets are served in the order
//! in which they would be done there. So no packet is done later than there by more than one
//! packet, but a heavy client may run ahead of all light ones.
//!
//! **Source.** Demers, Keshav, Shenker. Analysis and simulation of a fair queueing algorithm.
//! SIGCOMM 1989. Parekh, Gallager. A generalized processor sharing approach to flow control.
//! IEEE/ACM Trans. Networking 1 (1993). PROPORTIONAL_SHARE section 2.6.
//!
//! **Promises.** Work conserving. With packets of one unit and clients that stay, a client is less
//! than one unit behind its share of the service. It may be ahead in proportion to its share, by up
//! to the number of clients.
//!
//! **Cost.** `wfq`: O(log n) in the ready clients. `wfq-list`, which keeps them in a sorted list
//! and decides the same: O(n).
//!
//! **Invariants.** Exactly the clients whose head may be served are ready. Tags keep their
//! remainders, so equal shares give equal tags.
//!
//! **Departures.** Virtual time grows by work, or by time at the rate of the cores, over the
//! weights of the clients that are not idle. It is not the exact fluid clock. The estimate is
//! charged at dispatch and corrected at completion, for the client and for virtual time. When all
//! clients become idle, all debts and credits are cleared. A new weight holds for the head and for
//! the packets in service too.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::finish_order::{FinishOrder, finish_handlers};
use super::ready_queue::ReadyQueue;
use super::sorted_list::SortedList;
use super::tournament::Tournament;
use super::virtual_time::{Clock, VirtualTime};

params! {
    /// Parameters of weighted fair queueing.
    pub struct WfqParams {
        /// The source of virtual time: `wall` is time at the rate of the cores, `work` is the work
        /// that they do, `auto` is `wall` if the unit of work is time.
        clock: Clock = Clock::Work;
    }
}

/// Weighted fair queueing over any queue of the ready clients.
#[derive(Debug)]
pub struct Wfq<R> {
    virtual_time: VirtualTime,
    order: FinishOrder<R>,
}

/// The policy `wfq`: its queue finds a place in O(log n).
pub type WfqTree = Wfq<Tournament<ClientId>>;

/// The policy `wfq-list`: its queue finds a place in O(n).
pub type WfqList = Wfq<SortedList<ClientId>>;

/// Returns the description of a policy of this kind.
const fn info(name: &'static str, summary: &'static str, complexity: &'static str) -> Info {
    Info {
        name,
        family: Family::Share,
        summary,
        source: "Demers, Keshav, Shenker. Fair queueing. SIGCOMM 1989; Parekh, Gallager. Processor sharing. ToN 1993",
        promises: &[Promise::WorkConserving, Promise::Fair("unit packets: error > -1")],
        complexity,
    }
}

impl Build for WfqTree {
    type Params = WfqParams;
    const INFO: Info = info("wfq", "the client whose next packet would finish first in virtual time", "O(log n)");
    const VARIANTS: &'static [&'static str] = &["clock=auto"];

    fn new(params: &WfqParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Self::with_params(Self::INFO.name, params, config)
    }
}

impl Build for WfqList {
    type Params = WfqParams;
    const INFO: Info = info("wfq-list", "the same as `wfq`, over a sorted list: what a linear search costs", "O(n)");
    const VARIANTS: &'static [&'static str] = &["clock=auto"];

    fn new(params: &WfqParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Self::with_params(Self::INFO.name, params, config)
    }
}

impl<R: ReadyQueue> Wfq<R> {
    fn with_params(name: &str, params: &WfqParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { virtual_time: VirtualTime::new(name, params.clock, None, config)?, order: FinishOrder::new(config) })
    }
}

impl<R: ReadyQueue> Policy for Wfq<R> {
    fn check(&self) {
        self.virtual_time.check();
        self.order.check(self.virtual_time.busy());
    }
}

impl<R: ReadyQueue> Share for Wfq<R> {
    // Tags start at the virtual time of the arrival; heads are served by their finish tags.
    finish_handlers!();

    fn on_idle(&mut self, now: Time, id: ClientId) {
        self.virtual_time.leave(now, self.order.weight(id));
        self.order.idle(id);
        if self.virtual_time.busy() == 0 {
            self.virtual_time.begin_anew(self.order.finish_max());
        }
    }

    fn set_weight(&mut self, now: Time, id: ClientId, weight: Weight) {
        if self.order.is_busy(id) {
            self.virtual_time.reweigh(now, self.order.weight(id), weight);
        }
        self.order.set_weight(id, weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        A, B, Desk, V, after_ten_alone, assert_ties_may_go_to_the_higher, assert_wrong_estimates_are_corrected,
        churn_errors, random_weights, sequence, unit_errors, unit_sequence, v_work,
    };
    use crate::testing::config;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;
    use humpyard_core::unit::WorkUnit;

    const WFQ: WfqParams = WfqParams { clock: Clock::Work };

    fn vectors<R: ReadyQueue>()
    where
        Wfq<R>: Build<Params = WfqParams>,
    {
        assert_eq!(unit_sequence::<Wfq<R>>(&WFQ, &A, 12), "121123121123");
        assert_eq!(unit_sequence::<Wfq<R>>(&WFQ, &B, 48), "111123114561123111123456".repeat(2));
        assert_eq!(unit_errors::<Wfq<R>>(&WFQ, &B, 24), (-22, 60), "-11/12 to 5/2 of 24");
        assert_eq!(sequence::<Wfq<R>>(&WFQ, &V, 14, 10, v_work), "11212131121213");
    }

    #[test]
    fn vectors_of_the_specification() {
        vectors::<Tournament<ClientId>>();
        vectors::<SortedList<ClientId>>();
    }

    /// PROPORTIONAL_SHARE section 2.6.
    #[test]
    fn nobody_is_a_packet_behind() {
        for weights in random_weights("wfq/few", 300, 12, 3000).chain(random_weights("wfq/many", 100, 200, 60)) {
            let total: u32 = weights.iter().sum();
            let (least, _) = unit_errors::<WfqTree>(&WFQ, &weights, 2 * total as usize);
            assert!(-i128::from(total) < least, "{least} of {total}: {weights:?}");
        }
    }

    /// The same for packets of any length: no client is behind by the longest packet.
    #[test]
    fn nobody_is_the_longest_packet_behind() {
        for (seed, weights) in random_weights("wfq/lengths", 100, 12, 100).enumerate() {
            let mut desk = Desk::<WfqTree>::with_work(&WFQ, &weights, 40, |client, number| {
                let work = 1 + humpyard_core::hash::mix(number << 32 | u64::from(client.0)) % 40;
                (work, work)
            });
            desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
            let total: u64 = weights.iter().copied().map(u64::from).sum();
            let (mut served, mut all) = (vec![0; weights.len()], 0);
            for _ in 0..2000 {
                let (client, work) = desk.step();
                served[client.index()] += work;
                all += work;
                for (served, weight) in served.iter().zip(&weights) {
                    let behind = (all * u64::from(*weight)).saturating_sub(served * total);
                    assert!(behind < 40 * total, "set {seed}: {behind} of {total}");
                }
            }
        }
    }

    /// PROPORTIONAL_SHARE sections 2.6 and 5.1: the heavy client of N, with share h, gets ahead by
    /// h (N - O(1)). If ties go to it, the lead is h N, less a little because not all others have
    /// had their turn: 819.15 at N = 8192.
    #[test]
    fn the_heavy_run_ahead() {
        let ahead = |clients: usize, heavy_first: bool| {
            let light = 9 * 64;
            let heavy = light * (clients as u32 - 1) / 9;
            let mut weights = vec![light; clients - 1];
            weights.insert(if heavy_first { 0 } else { clients - 1 }, heavy);
            let total: u32 = weights.iter().sum();
            let (_, greatest) = unit_errors::<WfqTree>(&WFQ, &weights, total as usize / 64);
            greatest as f64 / f64::from(total)
        };
        for clients in [64, 514] {
            let limit = 0.1 * clients as f64;
            let (first, last) = (ahead(clients, true), ahead(clients, false));
            assert!((limit - 1.2..=limit).contains(&first), "heavy first: {first} of {limit}");
            assert!(last < first - 0.8, "heavy last: {last}, heavy first: {first}");
        }
    }

    /// PROPORTIONAL_SHARE section 2.5: a client that was alone for ten quanta does not wait for a
    /// client that comes then.
    #[test]
    fn use_of_idle_capacity_is_forgiven() {
        assert_eq!(after_ten_alone::<WfqTree>(&WFQ, 6), "121212");
    }

    /// PROPORTIONAL_SHARE section 5.5: [-1.9, 1.1]; twice that is accepted.
    #[test]
    fn clients_that_come_and_go() {
        let (least, greatest) = churn_errors::<WfqTree>(&WFQ, 1, 100_000);
        assert!(-3.8 <= least && greatest <= 2.2, "{least} to {greatest}");
    }

    /// The new weight determines the tags of the head and of later packets; the start of the head
    /// does not change.
    #[test]
    fn a_new_weight_holds_at_once() {
        let mut desk = Desk::<WfqTree>::new(&WFQ, &[1, 1, 1]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(3), "123");
        desk.set_weight(3, 4);
        assert_eq!(desk.serve(6), "333123");
        desk.set_weight(3, 1);
        assert_eq!(desk.serve(6), "123123");
    }

    /// On one core, the estimate charged at dispatch and its correction add up to the work used.
    #[test]
    fn wrong_estimates_are_corrected() {
        assert_wrong_estimates_are_corrected::<WfqTree>(&WFQ, 20);
    }

    #[test]
    fn ties_may_go_to_the_higher() {
        assert_ties_may_go_to_the_higher::<WfqTree>(&WFQ);
    }

    /// With the wall clock, a client that comes later starts later even if no work was done in between.
    #[test]
    fn virtual_time_may_be_time() {
        let packet = Packet { estimate: 100, ..Packet::default() };
        let start_of_second = |clock| {
            let config = SchedulerConfig { unit: WorkUnit::Nanoseconds, longest: 100, ..config(1, 2, &[]) };
            let mut policy = WfqTree::new(&WfqParams { clock }, &config).unwrap();
            for (at, id) in [(0, ClientId(0)), (60, ClientId(1))] {
                let now = Time::from_ns(at);
                policy.on_arrival(now, id, &packet, 0);
                policy.on_wake(now, id, &packet);
                let first = policy.pick(now, CoreId(0)).unwrap();
                if id == ClientId(0) {
                    policy.on_dispatch(now, CoreId(0), first, &packet);
                }
                policy.check();
            }
            policy.order.finish_of(ClientId(1)) >> 32
        };
        assert_eq!([Clock::Wall, Clock::Auto, Clock::Work].map(start_of_second), [160, 160, 200]);
        let error = WfqTree::new(&WfqParams { clock: Clock::Wall }, &config(1, 1, &[])).unwrap_err().to_string();
        assert!(error.starts_with("wfq: `clock=wall` needs work in ns"), "{error}");
    }
}
