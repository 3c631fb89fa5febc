//! Surplus fair scheduling: on several cores, serves the client that is least ahead of virtual
//! time, multiplied by its weight.
//!
//! **Idea.** On several cores the start tags of start-time fair queueing may drift apart: a client
//! can be entitled to more than a core, and cannot receive it. So weights are first made feasible.
//! Virtual time is the least start tag of the clients that are not idle. The *surplus* of a client
//! is its service beyond that point: its weight times the distance. An idle core serves the client
//! with the least surplus.
//!
//! **Source.** Chandra, Adler, Goyal, Shenoy. Surplus fair scheduling: a proportional-share CPU
//! scheduling algorithm for symmetric multiprocessors. OSDI 2000. PROPORTIONAL_SHARE section 2.13;
//! feasible weights: section 4.3.
//!
//! **Promises.** Work conserving. No bound is proven.
//!
//! **Cost.** O(log n) in all clients for an event. Changes of the order of surpluses as virtual
//! time advances add O(log² n) per event, amortised. O(P log P) for P cores when a client comes,
//! goes or changes weight. The paper sorts again, which is O(n), or examines the first few clients
//! of three queues, which is not exact.
//!
//! **Invariants.** Exactly the clients that are not idle are members of `feasible`. The tree
//! chooses as a scan of all clients would.
//!
//! **Departures.** A start tag counts complete packets; the estimates of packets in service are
//! surplus too. So another core also serves a client in service if its packets need not keep their
//! order and no other client has less surplus. Of equal surpluses, the earlier start tag goes
//! first, then the lower id. When all clients are idle, virtual time is the greatest tag.

use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share, Ties};
use humpyard_core::unit::{Time, Weight, Work};

use super::feasible::{FeasibleWeights, Ratio};
use super::surplus_tree::{Surplus, SurplusTree};
use super::tag::{ExactTag, FRACTION, Tag};

params! {
    /// Parameters of surplus fair scheduling: none.
    pub struct SfsParams {}
}

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// The virtual time up to which it was served: the finish tag of its last complete packet, or
    /// virtual time when it woke.
    start: ExactTag,
    /// Estimated work of its packets in service.
    in_service: Work,
    /// Whether it has packets.
    awake: bool,
    /// Whether its head may be served.
    offered: bool,
    /// Whether its weight is too much for one core.
    heavy: bool,
}

/// The clients and their weights.
#[derive(Debug)]
struct Clients {
    all: IdVec<ClientId, Client>,
    feasible: FeasibleWeights,
    /// The weight of clients that are too heavy.
    ceiling: Ratio,
    ties: Ties,
}

/// Surplus fair scheduling.
#[derive(Debug)]
pub struct Sfs {
    clients: Clients,
    tree: SurplusTree,
    cores: usize,
    /// The number of clients that are not idle.
    awake: usize,
    /// The greatest tag of all.
    greatest: Tag,
    /// The clients whose weight was readjusted last, with their weights.
    readjusted: Vec<(ClientId, Ratio)>,
}

impl Build for Sfs {
    type Params = SfsParams;
    const INFO: Info = Info {
        name: "sfs",
        family: Family::Share,
        summary: "for several cores: the client that is least ahead of virtual time, times its feasible weight",
        source: "Chandra, Adler, Goyal, Shenoy. Surplus fair scheduling. OSDI 2000",
        promises: &[Promise::WorkConserving],
        complexity: "O(log^2 n) amortised",
    };

    fn new(_: &SfsParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let client = Client { start: ExactTag::default(), in_service: 0, awake: false, offered: false, heavy: false };
        Ok(Self {
            clients: Clients {
                all: IdVec::from_fn(config.clients, |_| client),
                feasible: FeasibleWeights::new(config.cores, config.clients, |id| config.weight(id).get()),
                ceiling: (1, 1),
                ties: config.ties,
            },
            tree: SurplusTree::new(config.clients),
            cores: config.cores,
            awake: 0,
            greatest: 0,
            readjusted: Vec::with_capacity(2 * config.cores),
        })
    }
}

impl Surplus for Clients {
    type Client = ClientId;

    #[inline]
    fn is_offered(&self, id: ClientId) -> bool {
        self.all[id].offered
    }

    #[inline]
    fn is_awake(&self, id: ClientId) -> bool {
        self.all[id].awake
    }

    #[inline]
    fn start(&self, id: ClientId) -> Tag {
        self.all[id].start.tag()
    }

    /// Returns the weight, multiplied by the denominator of the ceiling.
    #[inline]
    fn slope(&self, id: ClientId) -> u64 {
        let (above, below) = self.ceiling;
        if self.all[id].heavy { above } else { u64::from(self.feasible.weight(id)) * below }
    }

    /// Returns the surplus. It includes the remainder of the tag, so that equal surpluses compare as equal.
    #[inline]
    fn surplus(&self, id: ClientId, virtual_time: Tag) -> u128 {
        let (client, below) = (&self.all[id], u128::from(self.ceiling.1));
        let remainder = u128::from(client.start.remainder()) * if client.heavy { 1 } else { below };
        let in_service = (u128::from(client.in_service) << FRACTION).saturating_mul(below);
        let ahead = client.start.tag() - virtual_time;
        ahead.saturating_mul(self.slope(id).into()).saturating_add(remainder).saturating_add(in_service)
    }

    #[inline]
    fn precedes(&self, id: ClientId, other: ClientId) -> bool {
        match self.ties {
            Ties::Lowest => id < other,
            Ties::Highest => id > other,
        }
    }
}

impl Policy for Sfs {
    fn check(&self) {
        self.clients.feasible.check();
        self.tree.check(&self.clients, self.clients.all.ids());
        let awake = self.clients.all.iter().filter(|client| client.awake).count();
        assert_eq!(awake, self.awake, "clients that are not idle");
        for id in self.clients.all.ids() {
            let client = &self.clients.all[id];
            assert!(client.awake || !client.offered && !client.heavy, "client {id} is idle");
            assert_eq!(
                client.heavy,
                client.awake && self.clients.feasible.is_heavy(id),
                "whether client {id} is heavy"
            );
        }
    }
}

impl Share for Sfs {
    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        let now = self.tree.virtual_time(&self.clients);
        let client = &mut self.clients.all[id];
        if client.start.tag() < now {
            client.start = ExactTag::at(now);
        }
        (client.awake, client.offered) = (true, true);
        self.awake += 1;
        self.clients.feasible.join(id);
        self.tree.change(id, &self.clients);
        self.readjust();
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.tree.change(id, &self.clients);
        self.clients.all[id].offered = true;
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.tree.least(&self.clients)
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        self.tree.change(id, &self.clients);
        let client = &mut self.clients.all[id];
        client.in_service = client.in_service.saturating_add(sent.estimate);
        client.offered = false;
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.tree.change(id, &self.clients);
        self.clients.charge(id, used);
        let client = &mut self.clients.all[id];
        client.in_service = client.in_service.saturating_sub(sent.estimate);
        self.greatest = self.greatest.max(client.start.tag());
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.tree.change(id, &self.clients);
        self.clients.all[id].awake = false;
        self.awake -= 1;
        self.clients.set_heavy(id, false);
        self.clients.feasible.leave(id);
        self.readjust();
        if self.awake == 0 {
            self.tree.skip(self.greatest, &self.clients);
        }
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.tree.change(id, &self.clients);
        self.clients.all[id].start = ExactTag::default();
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        self.tree.change(id, &self.clients);
        let client = &mut self.clients.all[id];
        // The remainder is relative to the old weight.
        client.start = ExactTag::at(client.start.tag());
        let awake = client.awake;
        self.clients.feasible.set_weight(id, weight.get(), awake);
        self.readjust();
    }
}

impl Sfs {
    /// Makes weights feasible.
    fn readjust(&mut self) {
        self.readjusted.clear();
        let readjusted = &mut self.readjusted;
        self.clients.feasible.readjust(self.cores, |id, weight| readjusted.push((id, weight)));
        let mut readjusted = core::mem::take(&mut self.readjusted);
        for &(id, _) in &readjusted {
            // The old weights must settle the earlier change: the ceiling must not change before that.
            self.tree.change(id, &self.clients);
        }
        for (id, weight) in readjusted.drain(..) {
            let heavy = self.clients.feasible.is_heavy(id);
            if heavy {
                self.clients.ceiling = weight;
            }
            self.clients.set_heavy(id, heavy);
            self.tree.change(id, &self.clients);
        }
        self.readjusted = readjusted;
    }
}

impl Clients {
    /// Charges the work `used` to the client.
    fn charge(&mut self, id: ClientId, used: Work) {
        let client = &mut self.all[id];
        if !client.heavy {
            let weight = Weight::new(self.feasible.weight(id)).unwrap_or(Weight::ONE);
            return client.start.add(used, weight);
        }
        // A ceiling that does not fit a weight is rounded to 32 bits, with an error below 2^-31.
        let (above, below) = self.ceiling;
        let short = u64::BITS.saturating_sub(above.leading_zeros()).saturating_sub(u32::BITS);
        let weight = Weight::new((above >> short) as u32).unwrap_or(Weight::ONE);
        client.start.add(used.saturating_mul(below) >> short, weight);
    }

    /// Sets whether the client is too heavy. The remainder of its tag is relative to its old
    /// weight, so it is dropped.
    fn set_heavy(&mut self, id: ClientId, heavy: bool) {
        let client = &mut self.all[id];
        client.start = ExactTag::at(client.start.tag());
        client.heavy = heavy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, unit_errors, weights_of};
    use crate::testing::config;
    use alloc::string::String;
    use humpyard_core::id::Id;
    use humpyard_core::mechanism::AlwaysReady;

    /// Returns the clients that the cores serve, tick by tick, in ascending order.
    fn ticks(cores: usize, weights: &[u32], ticks: usize) -> Vec<String> {
        let weights = weights_of(weights);
        let config = SchedulerConfig { longest: 1, ..config(cores, weights.len(), &weights) };
        let clients = (0..weights.len()).map(ClientId::from_index);
        let mut ready =
            AlwaysReady::new(&config, clients, |_, _| 1, || Sfs::new(&SfsParams {}, &config)).expect("it fits");
        let tick = |_| {
            let mut served: Vec<u32> = ready.step().flatten().map(|served| served.client.0 + 1).collect();
            served.sort_unstable();
            served.into_iter().filter_map(|client| char::from_digit(client, 36)).collect()
        };
        (0..ticks).map(tick).collect()
    }

    /// PROPORTIONAL_SHARE section 2.13.
    #[test]
    fn ticks_of_the_specification() {
        assert_eq!(ticks(2, &A, 6), ["12", "13", "12", "12", "13", "12"]);
        assert_eq!(ticks(2, &[10, 1, 1], 6), ["12", "13", "12", "13", "12", "13"]);
    }

    #[test]
    fn more_cores_than_clients_serve_everybody() {
        assert_eq!(ticks(4, &A, 2), ["123", "123"]);
    }

    /// No bound is proven, but on one core errors are small.
    #[test]
    fn errors_on_one_core() {
        let (least, greatest) = unit_errors::<Sfs>(&SfsParams {}, &B, 48);
        assert!(-48 <= least && greatest <= 48, "{least} to {greatest} of 24");
    }
}
