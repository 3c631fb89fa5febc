//! Worst-case fair weighted fair queueing: serves, of the clients that are due, the one whose
//! packet would finish first.
//!
//! **Idea.** Virtual time grows with the service of all, and each client's tag with its own
//! service. A client is due while its tag is not ahead of virtual time: it has had no more than its
//! share. Of the due clients, the one whose packet would finish first is served, by its estimate.
//! So no client runs ahead, as heavy clients do with plain fair queueing, and none falls behind.
//!
//! **Source.** Bennett, Zhang. Hierarchical packet fair queueing algorithms. SIGCOMM 1996;
//! worst-case fairness: WF2Q, INFOCOM 1996. PROPORTIONAL_SHARE section 2.8.
//!
//! **Promises.** Work conserving. With packets of one unit and clients that stay, a client is less
//! than one unit behind or ahead of its share of the service.
//!
//! **Cost.** O(log n) in the clients; a pick moves the clients that have become due, each once per packet.
//!
//! **Invariants.** A client whose head may be served is in `heads`: early, by start tag, or due, by
//! finish tag. Tags keep their remainders, so equal shares give equal tags.
//!
//! **Departures.** Virtual time grows by work over the weights of the clients that are not idle.
//! The estimate is charged at dispatch and corrected at completion, for the client and for virtual
//! time, which may go back by as much. A client that was due remains due. When all clients become
//! idle, all debts and credits are cleared. A new weight holds for the packets in service too. In
//! the order of finish tags, and when packets in service are charged again, work of 2^32 or more
//! counts as 2^32 - 1.

use alloc::format;
use alloc::string::String;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::eligible::{Eligible, Standing};
use super::tag::{Divisor, ExactTag, FRACTION, PackedTag, TAG_MAX, Tag, TotalTag};

params! {
    /// Parameters of worst-case fair weighted fair queueing: none.
    pub struct Wf2qPlusParams {}
}

/// The state of one client.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
struct Client {
    /// Finish tag of its last packet.
    finish: ExactTag,
    /// Estimated work of its packets in service, saturated.
    in_service: u32,
    /// The earliest start of its head: the virtual time when it arrived to an empty queue, else 0; the greatest
    /// tag while the client is idle.
    earliest: PackedTag,
    weight: Weight,
}

impl Client {
    /// Returns the start tag of its head: S = max(V at its arrival, F of the packet before).
    #[inline]
    fn start(&self) -> ExactTag {
        let earliest = { self.earliest }.tag();
        let finish = self.finish;
        if earliest > finish.tag() { ExactTag::at(earliest) } else { finish }
    }

    /// Whether it has no packets.
    fn is_idle(&self) -> bool {
        { self.earliest }.tag() == TAG_MAX
    }

    /// Returns the finish tag of its head if the head has this work.
    #[inline]
    fn finish_of(&self, head: Work) -> ExactTag {
        let mut finish = self.start();
        finish.add(head, self.weight);
        finish
    }
}

/// Returns work as clients store it, saturated.
#[inline]
fn fitted(work: Work) -> u32 {
    u32::try_from(work).unwrap_or(u32::MAX)
}

/// Worst-case fair weighted fair queueing.
#[derive(Debug)]
pub struct Wf2qPlus {
    /// The service so far, divided by the weights of the clients that shared it.
    virtual_time: TotalTag,
    /// The sum of the weights of the clients that are not idle, at least 1.
    among: Divisor,
    /// Sum of the weights of the clients that are not idle.
    weight: u64,
    /// The greatest finish tag of all.
    finish_max: Tag,
    /// The clients whose head may be served: early, by start tag, or due, by finish tag. The number
    /// of a client is the estimated work of its head.
    heads: Eligible<ClientId>,
    clients: IdVec<ClientId, Client>,
}

impl Build for Wf2qPlus {
    type Params = Wf2qPlusParams;
    const INFO: Info = Info {
        name: "wf2q+",
        family: Family::Share,
        summary: "of the clients not ahead of their share, the one whose packet would finish first",
        source: "Bennett, Zhang. Hierarchical packet fair queueing algorithms. SIGCOMM 1996",
        promises: &[Promise::WorkConserving, Promise::Fair("unit packets: -1 < error < 1")],
        complexity: "O(log n)",
    };

    fn new(_: &Wf2qPlusParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let clients = IdVec::from_fn(config.clients, |id| Client {
            finish: ExactTag::default(),
            in_service: 0,
            earliest: PackedTag::new(TAG_MAX),
            weight: config.weight(id),
        });
        Ok(Self {
            virtual_time: TotalTag::default(),
            among: Divisor::new(1),
            weight: 0,
            finish_max: 0,
            heads: Eligible::new(config.clients, config.ties),
            clients,
        })
    }
}

impl Policy for Wf2qPlus {
    fn check(&self) {
        let mut weight = 0;
        for id in self.clients.ids() {
            let client = &self.clients[id];
            weight += if client.is_idle() { 0 } else { u64::from(client.weight.get()) };
            match self.heads.standing(id) {
                None => {}
                Some(Standing::Early(start)) => assert_eq!(start, client.start().tag(), "start tag of client {id}"),
                Some(Standing::Due(finish)) => {
                    let head = self.heads.number(id).into();
                    assert_eq!(finish, client.finish_of(head).tag(), "finish tag of client {id}");
                }
            }
        }
        assert_eq!(weight, self.weight, "weights of the clients that are not idle");
    }
}

impl Share for Wf2qPlus {
    #[inline]
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
        let client = &mut self.clients[id];
        if waiting == 0 && !client.is_idle() {
            client.earliest = PackedTag::new(self.virtual_time.tag);
        }
    }

    #[inline]
    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        let client = &mut self.clients[id];
        client.earliest = PackedTag::new(self.virtual_time.tag);
        let weight = client.weight.get();
        self.share_among(self.weight + u64::from(weight));
        self.on_head(now, id, head);
    }

    #[inline]
    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.file(id, fitted(head.estimate));
    }

    #[inline]
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        if self.heads.first_due().is_none() {
            let (start, _) = self.heads.first_early()?;
            if start > self.virtual_time.tag {
                self.virtual_time = TotalTag::at(start);
            }
        }
        let clients = &self.clients;
        self.heads.choose(self.virtual_time.tag, |id, head| clients[id].finish_of(head.into()).tag())
    }

    #[inline]
    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id];
        let finish = client.finish_of(sent.estimate);
        client.finish = finish;
        client.earliest = PackedTag::default();
        client.in_service = client.in_service.saturating_add(fitted(sent.estimate));
        self.finish_max = self.finish_max.max(finish.tag());
        self.virtual_time.advance(sent.estimate, &self.among);
        self.heads.leave(id);
    }

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        let client = &mut self.clients[id];
        client.in_service = client.in_service.saturating_sub(fitted(sent.estimate));
        if used != sent.estimate {
            let mut finish = client.finish;
            finish.settle(used, sent.estimate, client.weight);
            client.finish = finish;
            self.finish_max = self.finish_max.max(finish.tag());
            self.virtual_time.correct(used, sent.estimate, &self.among);
            self.file_again(id);
        }
    }

    #[inline]
    fn on_idle(&mut self, _: Time, id: ClientId) {
        let client = &mut self.clients[id];
        client.earliest = PackedTag::new(TAG_MAX);
        let weight = client.weight.get();
        self.share_among(self.weight - u64::from(weight));
        if self.weight == 0 && self.finish_max > self.virtual_time.tag {
            self.virtual_time = TotalTag::at(self.finish_max);
        }
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id].finish = ExactTag::default();
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let client = &mut self.clients[id];
        let before = client.weight;
        let mut finish = client.finish;
        finish.reweigh(client.in_service.into(), before, weight);
        (client.finish, client.weight) = (finish, weight);
        self.finish_max = self.finish_max.max(finish.tag());
        if !client.is_idle() {
            self.share_among(self.weight - u64::from(before.get()) + u64::from(weight.get()));
        }
        self.file_again(id);
    }

    fn explain(&self, id: ClientId) -> Option<String> {
        let [start, now] = [self.clients[id].start().tag(), self.virtual_time.tag].map(|tag| tag >> FRACTION);
        let due = if start > now { "is ahead of its share" } else { "is due" };
        Some(format!("its start tag is {start} at the virtual time {now}, in work per weight, so it {due}"))
    }
}

impl Wf2qPlus {
    /// Files a client whose head may be served and has the work `head`.
    #[inline]
    fn file(&mut self, id: ClientId, head: u32) {
        let client = &self.clients[id];
        let start = client.start().tag();
        if start > self.virtual_time.tag {
            self.heads.enter_early(id, start, head);
        } else {
            self.heads.enter_due(id, client.finish_of(head.into()).tag(), head);
        }
    }

    /// Files a client whose tag has changed, if its head may be served.
    fn file_again(&mut self, id: ClientId) {
        if self.heads.contains(id) {
            let head = self.heads.number(id);
            self.heads.leave(id);
            self.file(id, head);
        }
    }

    /// Sets the sum of the weights by which virtual time grows.
    fn share_among(&mut self, weight: u64) {
        self.virtual_time.rebase(self.weight, weight);
        self.weight = weight;
        self.among = Divisor::new(weight.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        A, B, V, after_ten_alone, assert_ties_may_go_to_the_higher, assert_wrong_estimates_are_corrected, churn_errors,
        random_weights, sequence, unit_errors, unit_sequence, v_work,
    };

    const WF2Q_PLUS: Wf2qPlusParams = Wf2qPlusParams {};

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Wf2qPlus>(&WF2Q_PLUS, &A, 12), "121213121213");
        assert_eq!(unit_sequence::<Wf2qPlus>(&WF2Q_PLUS, &B, 48), "121314151612131412131516".repeat(2));
        assert_eq!(sequence::<Wf2qPlus>(&WF2Q_PLUS, &V, 14, 10, v_work), "12131212113121");
    }

    /// PROPORTIONAL_SHARE sections 2.8 and 8.
    #[test]
    fn unit_errors_are_below_one() {
        for weights in random_weights("wf2q+/few", 300, 12, 3000).chain(random_weights("wf2q+/many", 100, 200, 60)) {
            let total: u32 = weights.iter().sum();
            let (least, greatest) = unit_errors::<Wf2qPlus>(&WF2Q_PLUS, &weights, 2 * total as usize);
            let total = i128::from(total);
            assert!(-total < least && greatest < total, "{least} to {greatest} of {total}: {weights:?}");
        }
    }

    /// The bounds are at most twice those of PROPORTIONAL_SHARE section 5.5.
    #[test]
    fn errors_of_clients_that_come_and_go() {
        for seed in 0..10 {
            let (least, greatest) = churn_errors::<Wf2qPlus>(&WF2Q_PLUS, seed, 20_000);
            assert!(least > -3.0 && greatest < 1.8, "seed {seed}: {least} to {greatest}");
        }
    }

    /// PROPORTIONAL_SHARE section 2.5: a client that was alone for ten quanta does not wait for a
    /// client that comes then.
    #[test]
    fn use_of_idle_capacity_is_forgiven() {
        assert_eq!(after_ten_alone::<Wf2qPlus>(&WF2Q_PLUS, 6), "121212");
    }

    /// On one core, the estimate charged at dispatch and its correction add up to the work used.
    #[test]
    fn wrong_estimates_are_corrected() {
        assert_wrong_estimates_are_corrected::<Wf2qPlus>(&WF2Q_PLUS, 20);
    }

    #[test]
    fn ties_may_go_to_the_higher() {
        assert_ties_may_go_to_the_higher::<Wf2qPlus>(&WF2Q_PLUS);
    }
}
