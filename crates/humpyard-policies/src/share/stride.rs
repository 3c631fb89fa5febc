//! Stride scheduling: serves the client with the least pass; each packet advances the pass by its
//! work over the client's weight.
//!
//! **Idea.** The greater a client's weight, the shorter its strides; the client that is least far
//! ahead is served next. The global pass shows the progress of all. A client that blocks keeps its
//! distance from the global pass, and has it again when it wakes. So blocking neither gains nor
//! costs anything.
//!
//! **Source.** Waldspurger, Weihl. Stride scheduling. MIT LCS TM-528 (1995). PROPORTIONAL_SHARE section 2.4.
//!
//! **Promises.** Work conserving. With packets of one unit and clients that stay, each of two
//! clients has its share of their joint service, within one unit. Relative to all clients, a client
//! may be ahead in proportion to its share, by up to the number of clients.
//!
//! **Cost.** `pick` and the events O(log n) in the ready clients.
//!
//! **Invariants.** Exactly the clients whose head may be served are ready, by pass. Passes keep
//! their remainders.
//!
//! **Departures.** The estimate is charged at dispatch and corrected at completion, for the client
//! and for the global pass. No pass is below 0.

use alloc::format;
use alloc::string::String;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::slot::quantum;
use super::tag::{ExactTag, FRACTION, PackedTag};
use super::tournament::Tournament;
use super::virtual_time::{Clock, VirtualTime};

params! {
    /// Parameters of stride scheduling.
    pub struct StrideParams {
        /// Work of a newcomer's first stride; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
        /// The source of the global pass: `wall` is time at the rate of the cores, `work` is the
        /// work that they do, `auto` is `wall` if the unit of work is time.
        clock: Clock = Clock::Work;
    }
}

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// The virtual time of its next packet.
    pass: ExactTag,
    /// The global pass when it became idle; its lead was `pass` less this. 0 for a new client.
    since: PackedTag,
    weight: Weight,
    /// Whether it has packets.
    busy: bool,
}

impl Client {
    /// Creates a client that was never served; its lead is one stride.
    fn newcomer(weight: Weight, quantum: Work) -> Self {
        let mut pass = ExactTag::default();
        pass.add(quantum, weight);
        Self { pass, since: PackedTag::default(), weight, busy: false }
    }
}

/// Stride scheduling.
#[derive(Debug)]
pub struct Stride {
    /// The global pass.
    global: VirtualTime,
    /// The work of a new client's first stride.
    quantum: Work,
    /// The clients whose head may be served, by pass.
    ready: Tournament<ClientId>,
    clients: IdVec<ClientId, Client>,
}

impl Build for Stride {
    type Params = StrideParams;
    const INFO: Info = Info {
        name: "stride",
        family: Family::Share,
        summary: "the client with the least pass, which work over weight moves on; who blocks keeps its lead or its lag",
        source: "Waldspurger, Weihl. Stride scheduling. MIT LCS TM-528, 1995",
        promises: &[Promise::WorkConserving, Promise::Fair("unit packets: of two, each within 1 of its share of both")],
        complexity: "O(log n)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000,clock=auto"];

    fn new(params: &StrideParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = quantum(Self::INFO.name, params.quantum, config)? as Work;
        Ok(Self {
            global: VirtualTime::new(Self::INFO.name, params.clock, None, config)?,
            quantum,
            ready: Tournament::new(config.clients, config.ties),
            clients: IdVec::from_fn(config.clients, |id| Client::newcomer(config.weight(id), quantum)),
        })
    }
}

impl Policy for Stride {
    fn check(&self) {
        self.global.check();
        let mut weight = 0;
        for id in self.clients.ids() {
            let client = &self.clients[id];
            weight += if client.busy { u64::from(client.weight.get()) } else { 0 };
            if let Some(pass) = self.ready.tag(id) {
                assert!(client.busy, "client {id} is idle and ready");
                assert_eq!(pass, client.pass.tag(), "pass of client {id}");
            }
        }
        assert_eq!(weight, self.global.busy(), "weights of the clients that are not idle");
    }
}

impl Share for Stride {
    fn on_wake(&mut self, now: Time, id: ClientId, _: &Packet) {
        let client = &mut self.clients[id];
        client.busy = true;
        self.global.join(now, client.weight);
        client.pass.carry(client.since.tag(), self.global.tag());
        self.make_ready(id);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.make_ready(id);
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.ready.first().map(|(_, id)| id)
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id];
        client.pass.add(sent.estimate, client.weight);
        self.global.dispatch(now, core, sent.estimate);
        self.ready.remove(id);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        if used != sent.estimate {
            let client = &mut self.clients[id];
            client.pass.settle(used, sent.estimate, client.weight);
            self.global.complete(used, sent.estimate);
            self.make_ready_again(id);
        }
    }

    fn on_idle(&mut self, now: Time, id: ClientId) {
        let client = &mut self.clients[id];
        client.busy = false;
        self.global.leave(now, client.weight);
        client.since = PackedTag::new(self.global.tag());
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id] = Client::newcomer(self.clients[id].weight, self.quantum);
    }

    fn set_weight(&mut self, now: Time, id: ClientId, weight: Weight) {
        let client = &mut self.clients[id];
        self.global.elapse(now);
        let origin = if client.busy { self.global.tag() } else { client.since.tag() };
        client.pass.rescale(origin, client.weight, weight);
        let before = core::mem::replace(&mut client.weight, weight);
        if client.busy {
            self.global.reweigh(now, before, weight);
        }
        self.make_ready_again(id);
    }

    fn explain(&self, id: ClientId) -> Option<String> {
        let [pass, global] = [self.clients[id].pass.tag(), self.global.last()].map(|tag| tag >> FRACTION);
        Some(format!("its pass is {pass}, and the global pass {global}, in work per weight; the least goes first"))
    }
}

impl Stride {
    /// Files a client whose head may be served.
    fn make_ready(&mut self, id: ClientId) {
        self.ready.set(id, self.clients[id].pass.tag());
    }

    /// Files a client whose pass has changed, if its head may be served.
    fn make_ready_again(&mut self, id: ClientId) {
        if self.ready.contains(id) {
            self.make_ready(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        A, B, Desk, V, after_ten_alone, assert_ties_may_go_to_the_higher, assert_wrong_estimates_are_corrected,
        churn_errors, random_weights, sequence, unit_errors, unit_sequence, v_work,
    };
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;

    const STRIDE: StrideParams = StrideParams { quantum: Auto::Auto, clock: Clock::Work };

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Stride>(&STRIDE, &A, 12), "121123121123");
        assert_eq!(unit_sequence::<Stride>(&STRIDE, &B, 48), "111123114561123111123456".repeat(2));
        assert_eq!(unit_errors::<Stride>(&STRIDE, &B, 24), (-22, 60), "-11/12 to 5/2 of 24");
        assert_eq!(sequence::<Stride>(&STRIDE, &V, 14, 10, v_work), "11123112211311");
    }

    /// PROPORTIONAL_SHARE section 2.4: of the joint service of any two clients, each has its share
    /// within one quantum.
    #[test]
    fn pairs_stray_by_at_most_one() {
        for weights in random_weights("stride", 200, 12, 300) {
            let total: u32 = weights.iter().sum();
            let mut desk = Desk::<Stride>::new(&STRIDE, &weights);
            desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
            let mut served = vec![0i64; weights.len()];
            for _ in 0..2 * total {
                let i = desk.step().0.index();
                served[i] += 1;
                for j in 0..weights.len() {
                    let (a, b) = (i64::from(weights[i]), i64::from(weights[j]));
                    let strayed = served[i] * b - served[j] * a;
                    assert!(strayed.abs() <= a + b, "{strayed} of {} in {weights:?}", a + b);
                }
            }
        }
    }

    /// PROPORTIONAL_SHARE section 2.5: a client that was alone for ten quanta does not wait for a
    /// client that comes then.
    #[test]
    fn use_of_idle_capacity_is_forgiven() {
        assert_eq!(after_ten_alone::<Stride>(&STRIDE, 6), "121212");
    }

    /// PROPORTIONAL_SHARE section 5.5: [-1.7, 1.2]; twice that is accepted.
    #[test]
    fn clients_that_come_and_go() {
        let (least, greatest) = churn_errors::<Stride>(&STRIDE, 1, 100_000);
        assert!(-3.4 <= least && greatest <= 2.4, "{least} to {greatest}");
    }

    /// Returns the lead of a client over the global pass, in sixths; negative if it is behind.
    fn remain(stride: &mut Stride, client: u32) -> i128 {
        let global = stride.global.tag();
        let client = &stride.clients[ClientId(client - 1)];
        let origin = if client.busy { global } else { client.since.tag() };
        let ahead = client.pass.tag() as i128 - origin as i128;
        (ahead * 6 + (1 << 31)) >> 32
    }

    /// Weights 3, 2, 1: passes begin at 1/3, 1/2 and 1. `121` leaves 1 and the global pass 1/2, of
    /// which a third counts for the two clients that stay.
    #[test]
    fn what_remains_at_a_block_is_there_at_the_wake() {
        let mut desk = Desk::<Stride>::new(&STRIDE, &A);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(3), "121");
        assert_eq!([1, 2, 3].map(|client| remain(desk.policy(), client)), [3, 3, 3]);
        desk.block(1);
        assert_eq!(desk.serve(4), "2322");
        assert_eq!(remain(desk.policy(), 1), 3);
        desk.wake(&[1]);
        assert_eq!(remain(desk.policy(), 1), 3);
    }

    /// The lead is an amount of work at any weight: 1/2 at weight 2 is 1 at weight 1.
    #[test]
    fn what_remains_follows_the_weight() {
        let mut desk = Desk::<Stride>::new(&STRIDE, &A);
        desk.wake(&[1, 2]);
        assert_eq!(remain(desk.policy(), 2), 3);
        desk.set_weight(2, 1);
        assert_eq!(remain(desk.policy(), 2), 6);
        desk.set_weight(3, 2);
        assert_eq!(remain(desk.policy(), 3), 3);
        desk.wake(&[3]);
        assert_eq!(desk.serve(12), "131123131123");
    }

    #[test]
    fn a_client_that_is_gone_leaves_nothing() {
        let mut desk = Desk::<Stride>::new(&STRIDE, &[1, 1]);
        desk.wake(&[1, 2]);
        assert_eq!(desk.serve(1), "1");
        desk.block(1);
        assert_eq!(remain(desk.policy(), 1), 9);
        desk.policy().on_client_end(Time::ZERO, ClientId(0));
        assert_eq!(remain(desk.policy(), 1), 6);
    }

    /// On one core, the estimate charged at dispatch and its correction add up to the work used.
    #[test]
    fn wrong_estimates_are_corrected() {
        assert_wrong_estimates_are_corrected::<Stride>(&STRIDE, 20);
    }

    #[test]
    fn ties_may_go_to_the_higher() {
        assert_ties_may_go_to_the_higher::<Stride>(&STRIDE);
    }
}
