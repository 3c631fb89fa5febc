//! DARC: cores are reserved for short packets, so that they never wait behind long ones.
//!
//! **Idea.** Each client is a kind of packets. Clients are grouped by their mean service times.
//! Each group has cores in proportion to its work. It may also use the cores of longer groups, but
//! not those of shorter ones, which stay idle rather than serve long packets. Of the clients that a
//! core may serve, it takes the one with the shortest packets.
//!
//! **Source.** Demoulin, Fried, Pedisich, Kogias, Loo, Phan, Zhang. When idling is ideal:
//! optimizing tail-latency for heavy-tailed datacenter workloads with Perséphone. SOSP 2021.
//! MODERN.
//!
//! **Promises.** A client with waiting packets is served eventually, if shorter ones pause. Not
//! work conserving, on purpose.
//!
//! **Cost.** O(log n) to the base 64, to find the shortest; O(n log n) when cores are reserved
//! again, at most once in a window of completions.
//!
//! **Invariants.** Every client has a rank, by mean service time; groups are ranges of ranks. The
//! last group has a core.
//!
//! **Departures.**
//! - Until the first window is over there is one group, because nothing is known of the clients.
//! - Cores that rounding leaves over go to the longest group, and all clients may use them.
//! - There are at most as many groups as cores: the last group takes all longer clients.
//! - The cores are those that have asked so far, because a queue need not have all cores. So with an allocation
//!   that moves cores, a client may wait for a core that has gone until a window is over.

use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work, WorkUnit};

params! {
    /// Parameters of DARC.
    pub struct DarcParams {
        /// The longest service time of a group over its shortest, at most (delta).
        spread: f64 = 2.0, in 1.0..=1e6;
        /// Cores are reserved anew only if a packet has waited this many times its service time.
        slowdown: f64 = 10.0, in 0.0..=1e6;
        /// Cores are reserved anew only if the demand of a group has changed by this part of it,
        /// too.
        drift: f64 = 0.1, in 0.0..=1e6;
        /// The number of completions before cores may be reserved anew; `auto` is four for each
        /// client, and at least 1000.
        window: Auto = Auto::Auto, unit "packets";
    }
}

/// The state of one client.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// Mean work of a packet (S), in sixteenths of a unit.
    mean: u64,
    /// Packets done in this window, plus those of earlier windows, halved for each window since (R).
    done: u64,
    /// Its rank among all clients, by mean work.
    rank: usize,
}

impl Client {
    /// S·R.
    fn demand(&self) -> u128 {
        u128::from(self.mean) * u128::from(self.done)
    }
}

/// Clients of consecutive ranks.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The rank after its last.
    end: usize,
    /// The index after its last core, among the cores that ask.
    cores: usize,
    /// Its fraction of all work when cores were reserved, in millionths.
    demand: u64,
    /// Its work (S·R) as of the last sum.
    work: u128,
}

/// DARC.
#[derive(Debug)]
pub struct Darc {
    /// The parameter, in thousandths.
    spread: u64,
    slowdown: u64,
    drift: u64,
    /// Completions per window, and completions in this window.
    window: u64,
    completions: u64,
    /// Whether a packet of this window has waited for too long; always true if work is not time.
    is_slow: bool,
    unit: WorkUnit,
    clients: IdVec<ClientId, Client>,
    /// The clients by rank.
    ranked: Vec<ClientId>,
    /// The ranks of the clients whose head may be served.
    ready: IdSet<ClientId>,
    /// The groups, the shortest first.
    groups: Vec<Group>,
    /// The cores that have asked, and the place of each among them.
    asking: IdSet<CoreId>,
    places: IdVec<CoreId, usize>,
}

impl Build for Darc {
    type Params = DarcParams;
    const INFO: Info = Info {
        name: "darc",
        family: Family::Share,
        summary: "cores reserved for clients with short packets, which may use the others, too",
        source: "Demoulin et al. When idling is ideal (Persephone). SOSP 2021",
        promises: &[Promise::Served],
        complexity: "O(log n) to the base 64; O(n log n) when cores are reserved anew",
    };
    const VARIANTS: &'static [&'static str] = &["window=20,slowdown=0,drift=0", "spread=1"];

    fn new(params: &DarcParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let window = match params.window {
            Auto::Auto => (4 * config.clients as u64).max(1000),
            Auto::Given(window) => window,
        };
        let mut groups = Vec::with_capacity(config.cores.max(1));
        groups.push(Group { end: config.clients, cores: 0, demand: 0, work: 0 });
        Ok(Self {
            spread: thousandths(params.spread),
            slowdown: thousandths(params.slowdown),
            drift: thousandths(params.drift),
            window,
            completions: 0,
            is_slow: true,
            unit: config.unit,
            clients: (0..config.clients).map(|rank| Client { rank, ..Client::default() }).collect(),
            ranked: (0..config.clients).map(ClientId::from_index).collect(),
            ready: IdSet::new(config.clients),
            groups,
            asking: IdSet::new(config.cores),
            places: IdVec::from_fn(config.cores, |_| 0),
        })
    }
}

fn thousandths(factor: f64) -> u64 {
    (factor * 1e3) as u64
}

impl Policy for Darc {
    fn check(&self) {
        assert!(self.ranked.iter().enumerate().all(|(rank, &id)| self.clients[id].rank == rank), "ranks of clients");
        assert!(self.groups.is_sorted_by(|a, b| a.end < b.end && a.cores <= b.cores), "groups: {:?}", self.groups);
        let last = self.groups.last().expect("there is one");
        assert_eq!((last.end, last.cores), (self.ranked.len(), self.asking.len()), "the last group");
    }
}

impl Share for Darc {
    fn prefers_cores(&self) -> bool {
        true
    }

    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.make_ready(id);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.make_ready(id);
    }

    fn pick(&mut self, _: Time, core: CoreId) -> Option<ClientId> {
        if !self.asking.contains(core) {
            self.admit(core);
        }
        let rank = self.ready.first()?.index();
        (rank < self.end_of(core)).then(|| self.ranked[rank])
    }

    fn on_dispatch(&mut self, now: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let Client { rank, mean, .. } = self.clients[id];
        self.ready.remove(ClientId::from_index(rank));
        let waited = u128::from(now.since(sent.arrival).as_ns()) * 16_000;
        self.is_slow |= self.unit == WorkUnit::Nanoseconds && waited > u128::from(mean) * u128::from(self.slowdown);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, _: &Packet, used: Work) {
        let client = &mut self.clients[id];
        client.mean = if client.mean == 0 { used.saturating_mul(16) } else { client.mean - client.mean / 16 + used };
        client.done += 1;
        self.completions += 1;
        if self.completions >= self.window {
            self.on_window();
        }
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        let client = &mut self.clients[id];
        *client = Client { rank: client.rank, ..Client::default() };
    }

    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
}

impl Darc {
    fn make_ready(&mut self, id: ClientId) {
        self.ready.insert(ClientId::from_index(self.clients[id].rank));
    }

    /// Returns the rank after the last that a core may serve: the core may serve its group and all
    /// shorter ones.
    fn end_of(&self, core: CoreId) -> usize {
        let place = self.places[core];
        let group = self.groups.partition_point(|group| group.cores <= place);
        self.groups.get(group).map_or(self.ranked.len(), |group| group.end)
    }

    /// Adds a core that asks for the first time, and shares the cores again.
    #[cold]
    fn admit(&mut self, core: CoreId) {
        self.asking.insert(core);
        self.place_cores();
        if self.groups.len() > 1 {
            self.reserve();
        } else {
            self.groups[0].cores = self.asking.len();
        }
    }

    fn place_cores(&mut self) {
        for (place, core) in self.asking.iter().enumerate() {
            self.places[core] = place;
        }
    }

    /// Ends a window.
    fn on_window(&mut self) {
        if self.is_slow && self.has_moved() {
            self.reserve();
        }
        self.completions = 0;
        self.is_slow = self.unit != WorkUnit::Nanoseconds;
        self.clients.iter_mut().for_each(|client| client.done /= 2);
    }

    fn work(&self, ranks: core::ops::Range<usize>) -> u128 {
        self.ranked[ranks].iter().map(|&id| self.clients[id].demand()).sum()
    }

    /// Adds up the work of each group, and returns the work of all groups, at least 1.
    fn sum_up(&mut self) -> u128 {
        let mut begin = 0;
        for at in 0..self.groups.len() {
            let end = self.groups[at].end;
            self.groups[at].work = self.work(core::mem::replace(&mut begin, end)..end);
        }
        self.groups.iter().map(|group| group.work).sum::<u128>().max(1)
    }

    /// Whether the demand of a group differs from its demand when cores were reserved.
    fn has_moved(&mut self) -> bool {
        let all = self.sum_up();
        self.groups.iter().any(|group| {
            let demand = group.work * 1_000_000 / all;
            u128::from(group.demand).abs_diff(demand) * 1000 > u128::from(group.demand) * u128::from(self.drift)
        })
    }

    /// Ranks clients, groups them, and reserves cores for groups.
    fn reserve(&mut self) {
        self.rank();
        self.group();
        let (all, cores) = (self.sum_up(), self.asking.len());
        for group in &mut self.groups {
            // Rounded to the nearest number, at least one.
            group.cores = ((2 * group.work * cores as u128 + all) / (2 * all)).max(1) as usize;
            group.demand = (group.work * 1_000_000 / all) as u64;
        }
        self.trim(cores);
        let mut sum = 0;
        for group in &mut self.groups {
            sum += group.cores;
            group.cores = sum;
        }
    }

    /// Ranks clients by mean work. Unknown clients rank as long, so that they do not use what is
    /// reserved for short ones.
    fn rank(&mut self) {
        let ready = &mut self.ready;
        let clients = &mut self.clients;
        // The ranks of ready clients change with them.
        for id in self.ranked.iter_mut() {
            let client = &mut clients[*id];
            let rank = ClientId::from_index(client.rank);
            client.rank = usize::from(ready.contains(rank));
            ready.remove(rank);
        }
        self.ranked.sort_unstable_by_key(|&id| (clients[id].mean.wrapping_sub(1), id));
        for (rank, &id) in self.ranked.iter().enumerate() {
            let client = &mut clients[id];
            if client.rank == 1 {
                ready.insert(ClientId::from_index(rank));
            }
            client.rank = rank;
        }
    }

    /// Groups clients with adjacent mean work: no client of a group takes more than `spread` times
    /// as long as its first.
    fn group(&mut self) {
        self.groups.clear();
        let mean = |rank: usize| u128::from(self.clients[self.ranked[rank]].mean);
        let mut shortest = if self.ranked.is_empty() { 0 } else { mean(0) };
        for rank in 1..=self.ranked.len() {
            let next = if rank < self.ranked.len() { Some(mean(rank)) } else { None };
            let goes_on = next.is_some_and(|next| next == 0 || next * 1000 <= shortest * u128::from(self.spread));
            let is_last = self.groups.len() + 1 >= self.asking.len();
            if rank == self.ranked.len() || !goes_on && !is_last {
                self.groups.push(Group { end: rank, cores: 0, demand: 0, work: 0 });
                shortest = next.unwrap_or_default();
            }
        }
    }

    /// Makes the reserved cores equal to the existing ones: the longest groups lose excess cores,
    /// and the longest group gets spare ones.
    fn trim(&mut self, cores: usize) {
        let reserved = |groups: &[Group]| groups.iter().map(|group| group.cores).sum::<usize>();
        while reserved(&self.groups) > cores {
            let longest = self.groups.iter_mut().rev().find(|group| group.cores > 1);
            longest.expect("no more groups than cores").cores -= 1;
        }
        let left = cores - reserved(&self.groups);
        self.groups.last_mut().expect("there is one").cores += left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    const SHORT: ClientId = ClientId(0);
    const LONG: ClientId = ClientId(1);

    /// Returns a policy in a known state: packets of the two clients take 1 and 100 us, 99 of 100
    /// are short, and ten cores have asked.
    fn profiled(params: &DarcParams) -> Darc {
        let config = SchedulerConfig { unit: WorkUnit::Nanoseconds, ..config(10, 2, &[]) };
        let mut policy = Darc::new(params, &config).unwrap();
        (0..10).for_each(|core| assert_eq!(policy.pick(Time::ZERO, CoreId(core)), None));
        let packet = Packet::default();
        for number in 0..1000 {
            let (id, used) = if number % 100 == 0 { (LONG, 100_000) } else { (SHORT, 1_000) };
            policy.on_wake(Time::ZERO, id, &packet);
            policy.on_dispatch(Time::ZERO, CoreId(0), id, &packet);
            policy.on_completion(Time::ZERO, CoreId(0), id, &packet, used);
        }
        policy
    }

    fn may(policy: &mut Darc, id: ClientId) -> Vec<u16> {
        policy.on_wake(Time::ZERO, id, &Packet::default());
        let cores = (0..10).filter(|&core| policy.pick(Time::ZERO, CoreId(core)) == Some(id)).collect();
        policy.on_dispatch(Time::ZERO, CoreId(9), id, &Packet::default());
        policy.check();
        cores
    }

    /// S = (1, 100), R = (.99, .01), N = 10: d = (4.97, 5.03), P = (5, 5).
    #[test]
    fn the_vector_of_the_specification() {
        let mut policy = profiled(&DarcParams::default());
        assert_eq!(policy.groups.iter().map(|group| group.demand).collect::<Vec<_>>(), [497_487, 502_512]);
        assert_eq!(may(&mut policy, SHORT), (0..10).collect::<Vec<_>>(), "its own, and those it may steal");
        assert_eq!(may(&mut policy, LONG), [5, 6, 7, 8, 9], "never a short one's, even idle");
    }

    #[test]
    fn the_shortest_goes_first() {
        let mut policy = profiled(&DarcParams::default());
        for id in [LONG, SHORT] {
            policy.on_wake(Time::ZERO, id, &Packet::default());
        }
        assert_eq!(policy.pick(Time::ZERO, CoreId(7)), Some(SHORT));
        policy.on_dispatch(Time::ZERO, CoreId(7), SHORT, &Packet::default());
        assert_eq!([6, 2].map(|core| policy.pick(Time::ZERO, CoreId(core))), [Some(LONG), None]);
    }

    #[test]
    fn what_takes_as_long_is_one_group() {
        let mut policy = profiled(&DarcParams { spread: 100.0, ..DarcParams::default() });
        assert_eq!(policy.groups.len(), 1);
        assert_eq!(may(&mut policy, LONG), (0..10).collect::<Vec<_>>());
    }

    /// Cores are reserved again only if a packet has waited for ten times its service time and the
    /// demand has changed. There are four times as many long packets. Half of the window before
    /// counts too, so 45 of 1500 packets are long: 7.6 of 10 cores.
    #[test]
    fn cores_are_reserved_anew_when_they_must_be() {
        for (waited_ns, long_every, reserved) in [(2_000, 25, 5), (2_000_000, 25, 8), (2_000_000, 100, 5)] {
            let mut policy = profiled(&DarcParams::default());
            let now = Time::from_ns(waited_ns);
            for number in 0..1000 {
                let (id, used) = if number % long_every == 0 { (LONG, 100_000) } else { (SHORT, 1_000) };
                policy.on_wake(now, id, &Packet::default());
                policy.on_dispatch(now, CoreId(0), id, &Packet::default());
                policy.on_completion(now, CoreId(0), id, &Packet::default(), used);
            }
            assert_eq!(may(&mut policy, LONG).len(), reserved, "{waited_ns} ns, one of {long_every}");
        }
    }

    #[test]
    fn more_groups_than_cores_share_the_last() {
        let config = SchedulerConfig { unit: WorkUnit::Nanoseconds, ..config(2, 4, &[]) };
        let mut policy = Darc::new(&DarcParams { window: Auto::Given(40), ..DarcParams::default() }, &config).unwrap();
        (0..2).for_each(|core| assert_eq!(policy.pick(Time::ZERO, CoreId(core)), None));
        for number in 0..40 {
            let id = ClientId(number % 4);
            policy.on_wake(Time::ZERO, id, &Packet::default());
            policy.on_dispatch(Time::ZERO, CoreId(0), id, &Packet::default());
            policy.on_completion(Time::ZERO, CoreId(0), id, &Packet::default(), 10_u64.pow(3 + number % 4));
        }
        policy.check();
        assert_eq!(policy.groups.len(), 2);
        assert_eq!([0, 1].map(|core| policy.end_of(CoreId(core))), [1, 4]);
    }
}
