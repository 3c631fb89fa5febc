//! Group ratio round robin for several cores: one run queue, and for each core the clients that it
//! owes service.
//!
//! **Idea.** Cores draw the next client from one run queue, that of `gr3`. If another core is
//! serving the drawn client, that core records the slot (its *frontlog*), and the draw is repeated.
//! A core serves its frontlog before it draws. A new client gets a part of all frontlogs by its
//! weight, at the core with the least. A client entitled to more than a core gets a weight that
//! makes it one core, so frontlogs do not grow.
//!
//! **Source.** Caprita, Chan, Nieh, Stein, Zheng. Group ratio round-robin: O(1) proportional share
//! scheduling for uniprocessor and multiprocessor systems. USENIX ATC 2005. PROPORTIONAL_SHARE
//! section 4; packets of any length: section 3.5.
//!
//! **Promises.** Work conserving. On one core it decides as `gr3` does. No bound is proved for
//! several cores. With packets of one quantum, P cores and clients that stay, measured errors are
//! from −3.6 to 6.4 quanta.
//!
//! **Cost.** O(1) amortised. O(P log P + g) when a client comes or goes (g groups, at most 32); O(P
//! g) if clients are entitled to more than a core.
//!
//! **Invariants.** While its head is on offer, a client has a *bond* with at most one core: it
//! waits in the core's frontlog, or was served there last. Other clients are free. `held` counts
//! the bonds. A core's frontlog is the work in the banks of its clients. Exactly the clients in the
//! run queue are members of `feasible`.
//!
//! **Departures.**
//! - The estimate is charged at dispatch and corrected at completion. The frontlog is work, not quanta.
//! - Debts and turns are those of `gr3`. So is the limit of a client's frontlog, four slots per
//!   core: if cores differ in speed, no weight is feasible for long.
//! - A core for which no client is free serves one that has a bond with another core; the paper
//!   leaves it idle. Of several idle cores, the policy chooses one that has a bond. So a client may
//!   be on two cores at once only if its packets need not keep their order.
//! - A core that did not ask when it could have is considered gone until it asks again. Its clients
//!   are free, and weights are feasible on the cores that are left.
//! - Feasible weights are rounded up, by less than 2^-16 for up to 8,000 clients.

use alloc::boxed::Box;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::storage::{IdCircles, IdSet};
use humpyard_core::unit::{Time, Weight, Work};

use super::feasible::{FeasibleWeights, Ratio};
use super::group_ratio::{Draw, RunQueue};
use super::slot::{BANK_SLOTS, quantum};

params! {
    /// Parameters of group ratio round robin for several cores.
    pub struct Gr3mpParams {
        /// Work of one slot; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
    }
}

/// The reason why only one core should serve the head of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bond {
    /// None: any core may serve it.
    Free,
    /// This core, and no other since, served the client last.
    Last,
    /// The client is in the core's frontlog.
    Frontlog,
}

/// The core of a client.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The core that served it last, or that received its frontlog.
    core: CoreId,
    /// Its bond with that core.
    bond: Bond,
}

#[derive(Clone, Copy, Debug)]
struct Core {
    /// The client that it serves or served last; C(p) of the paper.
    last: Option<ClientId>,
    /// The client of its frontlog that it serves next.
    first: Option<ClientId>,
    /// The work in the banks of its clients.
    frontlog: i64,
    /// The number of clients that have a bond with it.
    bonds: u32,
    /// The number of packets in service.
    in_service: u32,
    /// The times at which its last packet and the one before were done.
    done: [Time; 2],
    /// The time when it last asked or completed a packet.
    seen: Time,
    /// Whether it takes packets from this queue.
    present: bool,
}

/// Group ratio round robin for several cores.
#[derive(Debug)]
pub struct Gr3mp {
    run: Box<RunQueue>,
    feasible: FeasibleWeights,
    /// The number of fraction bits of weights in the run queue.
    fraction: u32,
    places: IdVec<ClientId, Place>,
    /// The clients in the frontlog of each core.
    queues: IdCircles<ClientId>,
    cores: IdVec<CoreId, Core>,
    /// The number of cores that take packets from this queue.
    present: usize,
    /// The number of clients that have a bond.
    held: u32,
    /// The work in all banks.
    frontlog: i64,
    /// The time since which heads have been on offer without a break.
    offered_since: Time,
    /// The time until which every present core was seen.
    complete: Time,
    /// See [`Gr3mp::draws_max`].
    draws_max: u32,
}

impl Build for Gr3mp {
    type Params = Gr3mpParams;
    const INFO: Info = Info {
        name: "gr3mp",
        family: Family::Share,
        summary: "gr3 for several cores: who is due while in service is served there next",
        source: "Caprita, Chan, Nieh, Stein, Zheng. Group ratio round-robin. USENIX ATC 2005",
        promises: &[Promise::WorkConserving],
        complexity: "O(1) amortised",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000"];

    fn new(params: &Gr3mpParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = quantum(Self::INFO.name, params.quantum, config)?;
        let bank_limit = BANK_SLOTS * config.cores as i64 * quantum;
        // The sum of all weights stays below 2^62.
        let fraction = 30u32.saturating_sub(config.clients.max(1).ilog2() + 1).min(16);
        let weight = |id| config.weight(id).get();
        let core = Core {
            last: None,
            first: None,
            frontlog: 0,
            bonds: 0,
            in_service: 0,
            done: [Time::ZERO; 2],
            seen: Time::ZERO,
            present: true,
        };
        Ok(Self {
            run: RunQueue::new(quantum, bank_limit, config.clients, |id| u64::from(weight(id)) << fraction),
            feasible: FeasibleWeights::new(config.cores, config.clients, weight),
            fraction,
            places: IdVec::from_fn(config.clients, |_| Place { core: CoreId(0), bond: Bond::Free }),
            queues: IdCircles::new(config.clients),
            cores: IdVec::from_fn(config.cores, |_| core),
            present: config.cores,
            held: 0,
            frontlog: 0,
            offered_since: Time::MAX,
            complete: Time::ZERO,
            draws_max: 0,
        })
    }
}

impl Policy for Gr3mp {
    fn check(&self) {
        self.run.check();
        self.feasible.check();
        for id in self.places.ids() {
            let Place { core, bond } = self.places[id];
            assert_eq!(bond, self.bond_of(id), "bond of client {id}");
            let queued = self.cores[core].first.is_some_and(|first| self.queues.iter(first).any(|queued| queued == id));
            assert_eq!(queued, bond == Bond::Frontlog, "client {id} in the frontlog of core {core}");
        }
        for id in self.cores.ids() {
            let (core, places) =
                (&self.cores[id], || self.places.ids().filter(|&client| self.places[client].core == id));
            assert_eq!(
                places().map(|client| self.run.bank(client)).sum::<i64>(),
                core.frontlog,
                "frontlog of core {id}"
            );
            let bonds = places().filter(|&client| self.places[client].bond != Bond::Free).count();
            assert_eq!(bonds, core.bonds as usize, "bonds of core {id}");
            assert!(core.present || core.in_service == 0 && core.bonds == 0, "core {id} has left");
        }
        assert_eq!(self.cores.iter().map(|core| core.bonds).sum::<u32>(), self.held, "all bonds");
        assert_eq!(self.cores.iter().map(|core| core.frontlog).sum::<i64>(), self.frontlog, "all frontlogs");
        assert_eq!(self.cores.iter().filter(|core| core.present).count(), self.present, "cores that are here");
    }
}

impl Share for Gr3mp {
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
        self.run.add_waiting(id);
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        if self.run.is_member(id) {
            self.run.wake(id);
        } else {
            self.feasible.join(id);
            self.readjust();
            self.run.wake(id);
            self.give_share(id);
        }
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, now: Time, id: ClientId, head: &Packet) {
        if self.run.offered() == 0 {
            self.offered_since = now;
        }
        self.run.offer(id, head);
        if self.run.is_banked(id) && !self.cores[self.places[id].core].present {
            self.place_at(id, self.least_frontlog());
        }
        self.bind(id);
    }

    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
        if self.run.offered() == 0 {
            return None;
        }
        self.meet(now, core);
        if let Some(id) = self.cores[core].first {
            return Some(id);
        }
        if !self.has_free(core) {
            return Some(self.bound_elsewhere(core));
        }
        let mut draws = 1;
        loop {
            let places = &self.places;
            match self.run.draw(|id| places[id].bond == Bond::Free || places[id].core == core) {
                Draw::Served(id) => {
                    self.draws_max = self.draws_max.max(draws);
                    return Some(id);
                }
                Draw::Banked(id, work) => {
                    draws += 1;
                    self.add_frontlog(id, work);
                    self.bind(id);
                }
                Draw::Left(id, bank) => self.forget(id, bank),
            }
        }
    }

    fn place(&mut self, _: Time, idle: &IdSet<CoreId>) -> CoreId {
        let first = idle.first().expect("a core is idle");
        let with_bond = || idle.iter().find(|&core| self.cores[core].bonds > 0);
        if self.has_free(first) { first } else { with_bond().unwrap_or(first) }
    }

    fn on_dispatch(&mut self, _: Time, id: CoreId, client: ClientId, sent: &Packet) {
        self.unbind(client);
        let paid = self.run.dispatch(client, sent.estimate);
        if paid > 0 {
            self.add_frontlog(client, -paid);
        }
        self.place_at(client, id);
        let core = &mut self.cores[id];
        core.in_service += 1;
        if let Some(before) = core.last.replace(client).filter(|&before| before != client) {
            self.bind(before);
        }
    }

    fn on_completion(&mut self, now: Time, id: CoreId, client: ClientId, sent: &Packet, used: Work) {
        self.run.settle(client, used, sent.estimate);
        let core = &mut self.cores[id];
        core.in_service -= 1;
        core.seen = now;
        if core.done[0] < now {
            core.done = [now, core.done[0]];
        }
    }

    fn on_push_out(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
        self.run.set_waiting(id, waiting);
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.run.block(id);
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        let is_member = self.run.is_member(id);
        let bank = self.run.end(id);
        if is_member {
            self.forget(id, bank);
        }
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let is_member = self.run.is_member(id);
        let was_heavy = self.feasible.is_heavy(id);
        self.feasible.set_weight(id, weight.get(), is_member);
        self.readjust();
        if !was_heavy && !self.feasible.is_heavy(id) {
            self.run.readjust(id, u64::from(weight.get()) << self.fraction);
        }
    }
}

impl Gr3mp {
    /// Returns the most draws from the run queue that one pick has taken so far (figure 11 of the paper).
    pub fn draws_max(&self) -> u32 {
        self.draws_max
    }

    /// Records that a core asks. It also asked after the packet before its last, and with it all
    /// other cores that were idle. If heads have been on offer since then, the cores that are still
    /// idle have left.
    fn meet(&mut self, now: Time, id: CoreId) {
        let core = &mut self.cores[id];
        core.seen = now;
        let since = core.done[1];
        if !core.present {
            core.present = true;
            self.present += 1;
            self.readjust();
        }
        if self.offered_since <= since && self.complete < since {
            self.complete = since;
            self.dismiss_absent(since, id);
        }
    }

    /// Marks as gone the idle cores that were not seen since `since`. The core `heir` takes over
    /// their frontlogs.
    fn dismiss_absent(&mut self, since: Time, heir: CoreId) {
        let present = self.present;
        for id in self.cores.ids() {
            let core = &mut self.cores[id];
            if !core.present || core.in_service > 0 || core.seen >= since {
                continue;
            }
            core.present = false;
            self.present -= 1;
            while let Some(client) = self.cores[id].first {
                self.place_at(client, heir);
            }
            if let Some(last) = self.cores[id].last.take() {
                self.bind(last);
            }
        }
        if self.present < present {
            self.readjust();
        }
    }

    /// Whether a head is on offer that the core may serve and that has no bond with another core.
    fn has_free(&self, core: CoreId) -> bool {
        self.run.offered() > self.held - self.cores[core].bonds
    }

    /// Returns a client that has a bond with another core; there is one. Prefers the frontlog of
    /// the first such core.
    fn bound_elsewhere(&self, core: CoreId) -> ClientId {
        let others = || self.cores.ids().filter(|&other| other != core).map(|other| &self.cores[other]);
        let queued = others().find_map(|other| other.first);
        let last = || others().find(|other| other.bonds > 0).and_then(|other| other.last);
        queued.or_else(last).expect("every head on offer has a bond")
    }

    /// Returns the bond that the client should have.
    fn bond_of(&self, id: ClientId) -> Bond {
        let core = &self.cores[self.places[id].core];
        if !core.present || !self.run.is_offered(id) {
            Bond::Free
        } else if self.run.is_banked(id) {
            Bond::Frontlog
        } else if core.last == Some(id) {
            Bond::Last
        } else {
            Bond::Free
        }
    }

    /// Gives the client the bond that it should have.
    fn bind(&mut self, id: ClientId) {
        let bond = self.bond_of(id);
        let place = self.places[id];
        if bond == place.bond {
            return;
        }
        self.unbind(id);
        if bond == Bond::Free {
            return;
        }
        let core = &mut self.cores[place.core];
        self.places[id].bond = bond;
        core.bonds += 1;
        self.held += 1;
        self.run.hold(id, true);
        if bond == Bond::Frontlog {
            match core.first {
                None => core.first = Some(id),
                Some(first) => self.queues.insert_before(first, id),
            }
        }
    }

    /// Removes the client's bond.
    fn unbind(&mut self, id: ClientId) {
        let Place { core, bond } = self.places[id];
        if bond == Bond::Free {
            return;
        }
        let core = &mut self.cores[core];
        self.places[id].bond = Bond::Free;
        core.bonds -= 1;
        self.held -= 1;
        self.run.hold(id, false);
        if bond == Bond::Frontlog {
            if core.first == Some(id) {
                core.first = Some(self.queues.next(id)).filter(|&next| next != id);
            }
            self.queues.remove(id);
        }
    }

    /// Moves the client, with the work in its bank, to this core.
    fn place_at(&mut self, id: ClientId, to: CoreId) {
        let from = self.places[id].core;
        if from == to {
            return;
        }
        self.unbind(id);
        let bank = self.run.bank(id);
        self.cores[from].frontlog -= bank;
        self.cores[to].frontlog += bank;
        if self.cores[from].last == Some(id) {
            self.cores[from].last = None;
        }
        self.places[id].core = to;
        self.bind(id);
    }

    /// Adds work to the frontlog of the client's core.
    fn add_frontlog(&mut self, id: ClientId, work: i64) {
        self.cores[self.places[id].core].frontlog += work;
        self.frontlog += work;
    }

    /// Gives a new client a part of all frontlogs by its weight, in whole slots.
    fn give_share(&mut self, id: ClientId) {
        let quantum = self.run.quantum();
        let (weight, all) = self.run.weights(id);
        let slots = i128::from(self.frontlog) * i128::from(weight) / (i128::from(all) * i128::from(quantum));
        if slots > 0 {
            self.place_at(id, self.least_frontlog());
            let work = (slots as i64 * quantum).min(self.run.bank_limit());
            self.run.give(id, work);
            self.add_frontlog(id, work);
        }
    }

    /// Returns the first core with the least frontlog, of the present cores.
    fn least_frontlog(&self) -> CoreId {
        let present = self.cores.ids().filter(|&core| self.cores[core].present);
        present.min_by_key(|&core| self.cores[core].frontlog).unwrap_or(CoreId(0))
    }

    /// Records that the client has left the run queue with this work in its bank.
    fn forget(&mut self, id: ClientId, bank: i64) {
        self.add_frontlog(id, -bank);
        let core = &mut self.cores[self.places[id].core];
        if core.last == Some(id) {
            core.last = None;
        }
        self.feasible.leave(id);
        self.run.readjust(id, u64::from(self.feasible.weight(id)) << self.fraction);
        self.readjust();
    }

    /// Makes the weights of the clients in the run queue feasible.
    fn readjust(&mut self) {
        let (run, fraction) = (&mut self.run, self.fraction);
        self.feasible.readjust(self.present.max(1), |id, weight| run.readjust(id, fixed(weight, fraction)));
    }
}

/// Returns a weight with `fraction` fraction bits, rounded up to 32 significant bits.
fn fixed(weight: Ratio, fraction: u32) -> u64 {
    let exact = (u128::from(weight.0) << fraction).div_ceil(u128::from(weight.1));
    let beyond = (u128::BITS - exact.leading_zeros()).saturating_sub(u32::BITS);
    (exact.div_ceil(1 << beyond) << beyond) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{random_weights, weights_of};
    use crate::testing::config;
    use alloc::collections::VecDeque;
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;
    use humpyard_core::mechanism::{AlwaysReady, Served};

    const GR3MP: Gr3mpParams = Gr3mpParams { quantum: Auto::Auto };
    const NOW: Time = Time::ZERO;

    /// Returns the clients that the cores serve at each tick, as numbers from 1. Clients arrive in
    /// the given order.
    fn ticks(cores: usize, weights: &[u32], order: &[u32], count: usize) -> Vec<String> {
        let weights = weights_of(weights);
        let config = SchedulerConfig { longest: 1, ..config(cores, weights.len(), &weights) };
        let order = order.iter().map(|&number| ClientId(number - 1));
        let mut ready = AlwaysReady::new(&config, order, |_, _| 1, || Gr3mp::new(&GR3MP, &config)).expect("valid");
        let name = |served: Option<Served>| {
            served.map_or('-', |served| char::from_digit(served.client.0 + 1, 36).expect("few clients"))
        };
        (0..count).map(|_| ready.step().map(name).collect()).collect()
    }

    /// PROPORTIONAL_SHARE section 4.1: the six ticks of the paper's example. Client 2 is first in its group.
    #[test]
    fn six_ticks_of_the_specification() {
        assert_eq!(ticks(2, &[3, 2, 1], &[2, 1, 3], 6), ["21", "21", "31", "21", "21", "31"]);
        assert_eq!(ticks(2, &[3, 2, 1], &[1, 2, 3], 6), ["12", "12", "13", "12", "12", "13"]);
    }

    #[test]
    fn one_core_is_served_as_by_gr3() {
        let served: String = ticks(1, &[12, 3, 3, 2, 2, 2], &[1, 2, 3, 4, 5, 6], 24).concat();
        assert_eq!(served, "213141516121213131415161");
    }

    #[test]
    fn no_more_clients_than_cores_keep_theirs() {
        assert_eq!(ticks(3, &[9, 1, 1], &[1, 2, 3], 3), ["123", "123", "123"]);
        assert_eq!(ticks(4, &[9, 1], &[1, 2], 3), ["12--", "12--", "12--"]);
    }

    #[test]
    fn a_client_too_heavy_for_a_core_has_one_to_itself() {
        let served = ticks(2, &[100, 1, 1], &[1, 2, 3], 100);
        assert!(served.iter().all(|tick| tick.contains('1')), "{served:?}");
        let of_second = served.iter().filter(|tick| tick.contains('2')).count();
        assert!((49..=51).contains(&of_second), "{of_second} of 100");
    }

    /// A policy driven by hand, with packets of one quantum.
    struct Bench {
        policy: Gr3mp,
        now: u64,
        quantum: u64,
        /// The slots used for each packet of the last tick.
        draws: Vec<i64>,
    }

    impl Bench {
        fn new(cores: usize, weights: &[u32], quantum: u64) -> Self {
            let weights = weights_of(weights);
            let config = SchedulerConfig { longest: quantum, ..config(cores, weights.len(), &weights) };
            Self { policy: Gr3mp::new(&GR3MP, &config).expect("valid"), now: 0, quantum, draws: Vec::new() }
        }

        /// Creates a bench with all clients awake, in order.
        fn awake(cores: usize, weights: &[u32]) -> Self {
            let mut bench = Self::new(cores, weights, 1);
            (0..weights.len()).for_each(|client| bench.wake(ClientId::from_index(client)));
            bench
        }

        fn now(&self) -> Time {
            Time::from_ns(self.now)
        }

        fn head(&self, client: ClientId) -> Packet {
            Packet { client, estimate: self.quantum, ..Packet::default() }
        }

        fn wake(&mut self, client: ClientId) {
            let head = self.head(client);
            self.policy.on_arrival(self.now(), client, &head, 0);
            self.policy.on_wake(self.now(), client, &head);
            self.policy.check();
        }

        /// Lets the core serve a packet of a client that has another packet behind it.
        fn start(&mut self, core: usize) -> ClientId {
            let core = CoreId::from_index(core);
            let client = self.policy.pick(self.now(), core).expect("work conserving");
            assert_eq!(self.policy.pick(self.now(), core), Some(client), "asked again");
            let head = self.head(client);
            self.policy.on_arrival(self.now(), client, &head, 1);
            self.policy.on_dispatch(self.now(), core, client, &head);
            self.policy.check();
            client
        }

        fn finish(&mut self, core: usize, client: ClientId) {
            let head = self.head(client);
            self.policy.on_completion(self.now(), CoreId::from_index(core), client, &head, self.quantum);
            self.policy.on_head(self.now(), client, &head);
            self.policy.check();
        }

        /// Lets the first `cores` cores start a packet each; the packets are done at the next
        /// instant. No client is on two cores.
        fn tick(&mut self, cores: usize) -> Vec<ClientId> {
            self.draws.clear();
            let mut served = Vec::new();
            for core in 0..cores {
                let before = self.slots();
                let client = self.start(core);
                assert!(!served.contains(&client), "client {client} is on two cores");
                served.push(client);
                self.draws.push(self.slots() - before);
            }
            self.now += 1;
            served.iter().enumerate().for_each(|(core, &client)| self.finish(core, client));
            served
        }

        fn slots(&self) -> i64 {
            self.policy.run.state().iter().map(|group| group.2).sum()
        }
    }

    /// PROPORTIONAL_SHARE section 4.1: six slots are owed, and the new client has weight 5 of 15.
    #[test]
    fn a_newcomer_gets_its_share_of_frontlogs() {
        for quantum in [1, 10] {
            let mut bench = Bench::new(3, &[3, 3, 2, 2, 5], quantum);
            (0..4).for_each(|client| bench.wake(ClientId(client)));
            for (client, core) in [(0, 0), (1, 1), (2, 0)] {
                bench.policy.place_at(ClientId(client), CoreId(core));
                bench.policy.run.give(ClientId(client), 2 * quantum as i64);
                bench.policy.add_frontlog(ClientId(client), 2 * quantum as i64);
                bench.policy.bind(ClientId(client));
            }
            bench.policy.check();
            bench.wake(ClientId(4));
            assert_eq!(bench.policy.run.bank(ClientId(4)), 2 * quantum as i64);
            assert_eq!(bench.policy.places[ClientId(4)].core, CoreId(2), "the core with the least");
            assert_eq!(bench.start(2), ClientId(4), "and it is served there first");
        }
    }

    /// Returns the weights in the run queue.
    fn weights_in(policy: &Gr3mp, clients: usize) -> Vec<i64> {
        (0..clients).map(|client| policy.run.weights(ClientId::from_index(client)).0).collect()
    }

    /// The rule of PROPORTIONAL_SHARE section 4.1 for quanta of equal length and clients that stay.
    struct Twin {
        groups: Vec<TwinGroup>,
        weights: Vec<i64>,
        rests: Vec<i64>,
        turn: usize,
        last: Vec<Option<usize>>,
        frontlogs: Vec<VecDeque<usize>>,
        owed: Vec<u32>,
    }

    struct TwinGroup {
        order: u8,
        weight: i64,
        used: i64,
        ring: Vec<usize>,
        cursor: usize,
        left: i64,
    }

    impl Twin {
        /// Copies the groups and weights of a policy that has not served a client yet.
        fn of(policy: &Gr3mp, cores: usize, clients: usize) -> Self {
            let group = |(order, weight, used, ring): (u8, i64, i64, Vec<u32>)| {
                let ring: Vec<usize> = ring.iter().map(|&number| number as usize - 1).collect();
                let cursor = ring.len() - 1;
                TwinGroup { order, weight, used, ring, cursor, left: 0 }
            };
            Self {
                groups: policy.run.state().into_iter().map(group).collect(),
                weights: weights_in(policy, clients),
                rests: vec![0; clients],
                turn: 0,
                last: vec![None; cores],
                frontlogs: vec![VecDeque::new(); cores],
                owed: vec![0; clients],
            }
        }

        fn used(&self) -> i64 {
            self.groups.iter().map(|group| group.used).sum()
        }

        fn draw(&mut self) -> usize {
            let group = &mut self.groups[self.turn];
            if group.left == 0 {
                group.cursor = (group.cursor + 1) % group.ring.len();
                let client = group.ring[group.cursor];
                let rest = &mut self.rests[client];
                *rest += self.weights[client];
                group.left = *rest >> group.order;
                *rest &= (1 << group.order) - 1;
            }
            group.left -= 1;
            group.used += 1;
            let client = group.ring[group.cursor];
            let product = |used: i64, weight: i64| i128::from(used + 1) * i128::from(weight);
            let is_ahead =
                |here: &TwinGroup, next: &TwinGroup| product(here.used, next.weight) > product(next.used, here.weight);
            let next = self.turn + 1;
            let goes_on = next < self.groups.len() && is_ahead(&self.groups[self.turn], &self.groups[next]);
            self.turn = if goes_on { next } else { 0 };
            client
        }

        fn serve(&mut self, core: usize) -> usize {
            let owed = self.frontlogs[core].pop_front();
            if let Some(client) = owed {
                self.owed[client] -= 1;
                if self.owed[client] > 0 {
                    self.frontlogs[core].push_back(client);
                }
                self.last[core] = Some(client);
                return client;
            }
            loop {
                let client = self.draw();
                let is_there = |&other: &usize| {
                    other != core && (self.last[other] == Some(client) || self.frontlogs[other].contains(&client))
                };
                let Some(there) = (0..self.last.len()).find(is_there) else {
                    self.last[core] = Some(client);
                    return client;
                };
                self.owed[client] += 1;
                if !self.frontlogs[there].contains(&client) {
                    self.frontlogs[there].push_back(client);
                }
            }
        }
    }

    /// Returns sets of more clients than cores.
    fn mixes(name: &str, cores: usize, sets: u64) -> impl Iterator<Item = Vec<u32>> {
        random_weights(name, sets, 40, 300).filter(move |weights| weights.len() > cores)
    }

    #[test]
    fn packets_of_one_quantum_are_served_by_the_rule() {
        for cores in 2..=6 {
            for weights in mixes("gr3mp/twin", cores, 60) {
                let mut bench = Bench::awake(cores, &weights);
                let mut twin = Twin::of(&bench.policy, cores, weights.len());
                for tick in 0..300 {
                    let served: Vec<usize> = bench.tick(cores).iter().map(|client| client.index()).collect();
                    let expected: Vec<usize> = (0..cores).map(|core| twin.serve(core)).collect();
                    assert_eq!(served, expected, "tick {tick} of {weights:?}");
                    assert_eq!(bench.slots(), twin.used(), "tick {tick} of {weights:?}");
                }
            }
        }
    }

    /// PROPORTIONAL_SHARE section 4.2 measured these values: errors at ticks, slots drawn for one
    /// pick, and slots owed to one client.
    #[test]
    fn errors_draws_and_frontlogs_stay_within_what_was_measured() {
        for (cores, draws_max) in [(2, 4), (4, 14), (8, 22)] {
            let (mut picks, mut draws) = (0, 0);
            for weights in mixes("gr3mp/errors", cores, 60) {
                let mut bench = Bench::awake(cores, &weights);
                let feasible = weights_in(&bench.policy, weights.len());
                let total: i64 = feasible.iter().sum();
                let mut served = vec![0; weights.len()];
                for tick in 1..=400 {
                    for client in bench.tick(cores) {
                        served[client.index()] += 1;
                    }
                    draws += bench.draws.iter().sum::<i64>();
                    picks += cores as i64;
                    assert!(bench.draws.iter().all(|&draws| draws <= draws_max), "{:?}: {weights:?}", bench.draws);
                    for (client, (&served, &weight)) in served.iter().zip(&feasible).enumerate() {
                        let error = (served * total - tick * cores as i64 * weight) as f64 / total as f64;
                        assert!((-3.6..=6.4).contains(&error), "{error} of client {client}: {weights:?}");
                        assert!(bench.policy.run.bank(ClientId::from_index(client)) <= 15, "client {client} is owed");
                    }
                }
            }
            assert!(1000 * draws <= 1001 * picks, "{draws} slots drawn for {picks} picks");
        }
    }

    /// Only one of four cores takes packets from the queue: weights need to be feasible on that core only.
    #[test]
    fn cores_that_never_ask_do_not_count() {
        let mut bench = Bench::awake(4, &[3, 1]);
        let served: Vec<u32> = (0..402).map(|_| bench.tick(1)[0].0).collect();
        let of_first = served[2..].iter().filter(|&&client| client == 0).count();
        assert_eq!((bench.policy.present, of_first), (1, 300));
    }

    /// A core that leaves with work owed leaves its clients to the others.
    #[test]
    fn a_core_that_leaves_keeps_nobody() {
        let mut bench = Bench::awake(2, &[5, 4, 3, 2]);
        let mut served = [0; 4];
        bench.tick(2);
        (0..140).for_each(|_| served[bench.tick(1)[0].index()] += 1);
        assert_eq!(bench.policy.present, 1);
        assert!(served.iter().zip([50, 40, 30, 20]).all(|(&served, due)| i32::abs(served - due) <= 3), "{served:?}");
        bench.tick(2);
        assert_eq!(bench.policy.present, 2);
    }

    /// Of several idle cores, the core whose client is ready is placed first.
    #[test]
    fn a_client_goes_back_to_its_core() {
        let mut bench = Bench::awake(3, &[1, 1]);
        let served = [bench.start(1), bench.start(2)];
        served.iter().zip([1, 2]).for_each(|(&client, core)| bench.finish(core, client));
        let mut idle = IdSet::new(3);
        (0..3).for_each(|core| idle.insert(CoreId(core)));
        assert_eq!(bench.policy.place(NOW, &idle), CoreId(1));
        assert_eq!(bench.start(1), served[0]);
    }

    #[test]
    fn weights_are_rounded_up_to_32_bits() {
        assert_eq!(fixed((12, 2), 16), 6 << 16);
        assert_eq!(fixed((10, 3), 4), 54);
        assert_eq!(fixed((u64::from(u32::MAX), 1), 16), u64::from(u32::MAX) << 16);
        assert_eq!(fixed((0x1_0000_0000, 3), 16), 0xaaaa_aaab << 15);
    }
}
