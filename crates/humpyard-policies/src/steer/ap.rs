//! Adaptive partitioning: connections in the order of their keys divide the line of cores by the bytes they hold.
//!
//! **Idea.** Imagine the cores as a line, and the connections beside it, each as long as its part
//! of all bytes held. A connection may use the cores that it overlaps, each in proportion to the
//! overlap. It gives them its packets by smooth weighted round robin. When the bytes that it holds
//! have changed by more than β, the policy looks up its place again.
//!
//! **Source.** Guo, Bhuyan. Load balancing in a cluster-based web server for multimedia
//! applications. TPDS 2006, as described in Guo, Bhuyan (PS-HRW). STEERING section 8.
//!
//! **Promises.** Assume that all places were looked up at one moment. Then the overlaps of a connection would
//! sum to N φ/Φ, and those of a core to one: all cores would have equal parts. While a connection keeps its
//! place, it gives each core its share of packets, within two packets. No order.
//!
//! **Cost.** O(log n) in the connections for a packet that joins or leaves, and for a new place;
//! O(g) to choose among g cores. 112 bytes for each flow. Of these, 32 bytes (at most 16 MiB in
//! all) serve connections with several cores.
//!
//! **Invariants.** The φ of all connections sum to Φ. A connection with several cores has a credit
//! for each; its credits sum to zero.
//!
//! **Departures.** The line orders connections by key. In order of arrival, all new connections
//! would be on the last core. Φ and N are those of the packet's service and its eligible cores. A
//! connection counts with all its bytes in the service of its last packet. Credits outlast a new
//! place; the credits of cores that a connection leaves go to their neighbours. A connection for
//! which there is no memory has one core, that of its middle.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::{Time, Work};

use super::parts::Beta;
use super::prefix_tree::PrefixTree;

params! {
    /// Parameters of adaptive partitioning.
    pub struct ApParams {
        /// The part by which a connection's bytes change before its place is looked up again; with
        /// the greatest value it never is.
        beta: f64 = 0.16, in 0.0..=1e10;
    }
}

/// One whole core, in the fixed point of overlaps.
const WHOLE: u32 = 1 << 31;

/// The most credits of all connections together: 16 MiB.
const CREDITS_MAX: usize = 1 << 20;

/// The number of connections that can have all cores, in addition to two credits for each connection.
const WIDE: usize = 64;

/// No credit.
const NONE: u32 = u32::MAX;

/// The place of a connection on the line of cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    /// The first core, counted from the start of the line.
    first: usize,
    /// The last core.
    last: usize,
    /// The core that contains its middle.
    middle: usize,
    /// Its overlap with the first core, in units of which each core has Φ.
    on_first: u128,
    /// Its overlap with the last core.
    on_last: u128,
}

impl Span {
    /// Returns the place of a connection that follows `before` and holds `held` of `total`, on
    /// `cores` cores.
    fn of(before: u64, held: u64, total: u64, cores: usize) -> Self {
        let (whole, cores) = (u128::from(total.max(1)), cores as u128);
        let start = (u128::from(before) * cores).min(whole * cores - 1);
        let end = (start + u128::from(held.max(1)) * cores).min(whole * cores);
        let (first, last) = (start / whole, (end - 1) / whole);
        Self {
            first: first as usize,
            last: last as usize,
            middle: ((start + end) / 2 / whole) as usize,
            on_first: end.min((first + 1) * whole) - start,
            on_last: end - (last * whole).max(start),
        }
    }

    fn cores(&self) -> usize {
        self.last - self.first + 1
    }
}

/// The credit of a connection at one of its cores.
#[derive(Clone, Copy, Debug)]
struct Credit {
    /// The credit, in 1/2^31 of a packet.
    owed: i64,
    /// The credit of the connection's next core, or the next free credit.
    next: u32,
    core: CoreId,
}

/// The state of one connection.
#[derive(Clone, Debug)]
struct Connection {
    /// φ when its place was looked up.
    held_when_placed: u64,
    /// The credit of its first core, if it has several.
    credits: u32,
    /// Its overlap with its first core, in 1/2^31.
    on_first: u32,
    /// Its overlap with its last core.
    on_last: u32,
    /// Its core, if it has only one.
    core: CoreId,
    is_placed: bool,
}

impl Connection {
    const NEW: Self =
        Self { held_when_placed: 0, credits: NONE, on_first: WHOLE, on_last: WHOLE, core: CoreId(0), is_placed: false };
}

/// Adaptive partitioning.
#[derive(Debug)]
pub struct Ap {
    beta: Beta,
    tree: PrefixTree,
    connections: IdVec<FlowId, Connection>,
    /// The credits of all connections, and the free ones.
    credits: Vec<Credit>,
    /// The first free credit.
    free: u32,
    /// The number of free credits.
    free_count: usize,
    /// The old credits of the connection whose place is being looked up.
    before: Vec<(CoreId, i64)>,
    /// Places looked up since the start.
    placed: u64,
    /// Places reduced to one core because there was no memory for more.
    crowded_out: u64,
}

impl Build for Ap {
    type Params = ApParams;
    const INFO: Info = Info {
        name: "ap",
        family: Family::Steer,
        summary: "each connection on the cores that its part of all bytes held covers, in the order of keys",
        source: "Guo, Bhuyan. Load balancing in a cluster-based web server for multimedia applications. TPDS 2006",
        promises: &[Promise::Fair(
            "a connection with part p of the bytes held: p N cores, in turn; none has two of a core",
        )],
        complexity: "O(log n)",
    };
    const VARIANTS: &'static [&'static str] = &["beta=0", "beta=0.5"];

    fn new(params: &ApParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let (flows, cores) = (config.flows, config.cores);
        let count = flows.saturating_mul(cores).min(2 * flows + WIDE * cores).min(CREDITS_MAX);
        let credit = |next: usize| Credit { owed: 0, next: next as u32, core: CoreId(0) };
        let mut credits: Vec<Credit> = (1..=count).map(credit).collect();
        if let Some(last) = credits.last_mut() {
            last.next = NONE;
        }
        Ok(Self {
            beta: Beta::new(params.beta),
            tree: PrefixTree::new(config.flows, config.services.len()),
            connections: vec![Connection::NEW; config.flows].into_iter().collect(),
            free: if count > 0 { 0 } else { NONE },
            free_count: count,
            credits,
            before: Vec::with_capacity(config.cores),
            placed: 0,
            crowded_out: 0,
        })
    }
}

impl Policy for Ap {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        self.tree.check();
        let mut owned = 0;
        for flow in self.connections.ids() {
            let credits = || self.credits_of(&self.connections[flow]);
            owned += credits().count();
            assert_eq!(credits().map(|credit| credit.owed).sum::<i64>(), 0, "what cores of connection {flow} are owed");
            let cores: Vec<CoreId> = credits().map(|credit| credit.core).collect();
            assert!(cores.is_sorted_by(|a, b| a < b), "cores of connection {flow}: {cores:?}");
        }
        assert_eq!(owned + self.free_count, self.credits.len(), "credits");
    }
}

impl Steer for Ap {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        self.tree.enter(packet.flow, packet.service, packet.key);
        let connection = &self.connections[packet.flow];
        let held = self.tree.held(packet.flow) + u64::from(packet.length);
        if !connection.is_placed || self.beta.is_exceeded(connection.held_when_placed, held) {
            self.place(packet, view);
        }
        let core = self.choose(packet.flow, view).unwrap_or_else(|| {
            self.place(packet, view);
            self.choose(packet.flow, view).expect("a new place has eligible cores")
        });
        Target::Core(core)
    }

    #[inline]
    fn on_enqueue(&mut self, _: Time, _: Target, packet: &Packet) {
        self.tree.enter(packet.flow, packet.service, packet.key);
        self.tree.add(packet.flow, u64::from(packet.length));
    }

    fn on_push_out(&mut self, _: Time, _: Target, packet: &Packet) {
        self.tree.subtract(packet.flow, u64::from(packet.length));
    }

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, packet: &Packet, _: Work) {
        self.tree.subtract(packet.flow, u64::from(packet.length));
    }

    fn on_flow_end(&mut self, _: Time, flow: FlowId) {
        self.tree.remove(flow);
        self.give_up_credits(flow);
        self.connections[flow] = Connection::NEW;
    }
}

impl Ap {
    /// Returns the number of places looked up since the start.
    pub fn placed(&self) -> u64 {
        self.placed
    }

    /// Returns the number of these places that have one core because there was no memory for more.
    pub fn crowded_out(&self) -> u64 {
        self.crowded_out
    }

    /// Returns the core of the connection whose turn it is. `None`: none of its cores is eligible.
    #[inline]
    fn choose(&mut self, flow: FlowId, view: &View<'_>) -> Option<CoreId> {
        let Connection { credits, on_first, on_last, core, .. } = self.connections[flow];
        if credits == NONE {
            return Some(core).filter(|&core| view.is_eligible(core));
        }
        let (mut at, mut sum, mut chosen) = (credits, 0, None);
        while at != NONE {
            let credit = &mut self.credits[at as usize];
            let weight = match (at == credits, credit.next == NONE) {
                (true, _) => on_first,
                (_, true) => on_last,
                _ => WHOLE,
            };
            if view.is_eligible(credit.core) {
                sum += i64::from(weight);
                credit.owed += i64::from(weight);
                if chosen.is_none_or(|(_, owed)| credit.owed > owed) {
                    chosen = Some((at, credit.owed));
                }
            }
            at = credit.next;
        }
        let (at, _) = chosen?;
        let credit = &mut self.credits[at as usize];
        credit.owed -= sum;
        Some(credit.core)
    }

    /// Looks up the place of the packet's connection, as if the packet had already joined.
    #[inline(never)]
    fn place(&mut self, packet: &Packet, view: &View<'_>) {
        let (flow, length) = (packet.flow, u64::from(packet.length));
        let held = self.tree.held(flow) + length;
        let total = self.tree.total(packet.service) + length;
        let span = Span::of(self.tree.before(flow), held, total, view.eligible.len());
        let in_part = |overlap: u128| (((overlap << 31) / u128::from(total.max(1))) as u32).max(1);
        self.give_up_credits(flow);
        let core = view.eligible[span.middle];
        let credits = if span.cores() == 1 { NONE } else { self.take_credits(&view.eligible[span.first..=span.last]) };
        self.connections[flow] = Connection {
            held_when_placed: held,
            credits,
            on_first: in_part(span.on_first),
            on_last: in_part(span.on_last),
            core,
            is_placed: true,
        };
        self.placed += 1;
    }

    fn credits_of(&self, connection: &Connection) -> impl Iterator<Item = &Credit> {
        let credit = |at: u32| self.credits.get(at as usize);
        core::iter::successors(credit(connection.credits), move |last| credit(last.next))
    }

    /// Frees the credits of a connection, and saves them in `before`.
    fn give_up_credits(&mut self, flow: FlowId) {
        self.before.clear();
        let mut at = core::mem::replace(&mut self.connections[flow].credits, NONE);
        while at != NONE {
            let credit = &mut self.credits[at as usize];
            let next = core::mem::replace(&mut credit.next, self.free);
            self.before.push((credit.core, credit.owed));
            (self.free, at) = (at, next);
            self.free_count += 1;
        }
    }

    /// Takes credits for these cores and returns the first. A core keeps the credit saved in
    /// `before`; the credit of a core no longer used goes to the next of these cores, or to the
    /// last. [`NONE`]: there is no memory.
    fn take_credits(&mut self, cores: &[CoreId]) -> u32 {
        if cores.len() > self.free_count {
            self.crowded_out += 1;
            return NONE;
        }
        self.free_count -= cores.len();
        let stays = self.before.iter().any(|(core, _)| cores.binary_search(core).is_ok());
        let first = self.free;
        let mut before = self.before.iter().filter(|_| stays).peekable();
        let mut last = NONE;
        for (place, &core) in cores.iter().enumerate() {
            let is_last = place + 1 == cores.len();
            let mut owed = 0;
            while let Some(&(_, of_old)) = before.next_if(|&&(old, _)| is_last || old <= core) {
                owed += of_old;
            }
            last = self.free;
            let credit = &mut self.credits[last as usize];
            self.free = credit.next;
            (credit.core, credit.owed) = (core, owed);
        }
        self.credits[last as usize].next = NONE;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::Cores;
    use humpyard_core::hash::mix;
    use humpyard_core::id::{Id, ServiceId};
    use humpyard_core::random::Seed;
    use proptest::prelude::*;

    const NEVER: ApParams = ApParams { beta: 1e10 };

    /// Returns the overlaps of connections that hold these bytes with each core, in the order of
    /// the line. The unit is that of [`Span`]: a core has Φ.
    fn overlaps(held: &[u64], cores: usize) -> Vec<Vec<u128>> {
        let total: u64 = held.iter().sum();
        let mut before = 0;
        let overlap = |&held: &u64| {
            let span = Span::of(before, held, total, cores);
            before += held;
            let mut row = vec![0; cores];
            row[span.first..=span.last].fill(u128::from(total));
            row[span.last] = span.on_last;
            row[span.first] = span.on_first;
            row
        };
        held.iter().map(overlap).collect()
    }

    /// Returns a policy with connections that hold these bytes in the order of their keys, and their flows.
    fn laid_out(params: &ApParams, held: &[u32]) -> (Cores<Ap>, Vec<u32>) {
        let mut run = Cores::<Ap>::new(params, 8, held.len());
        let mut flows: Vec<u32> = (0..held.len() as u32).collect();
        flows.sort_by_key(|&flow| run.key_of(flow));
        for (&flow, &held) in flows.iter().zip(held) {
            run.join(CoreId(0), flow, held);
        }
        (run, flows)
    }

    /// φ = (6000, 3000, 1000), N = 8: A has cores 0 to 3 and .8 of 4; B has .2 of 4, 5, 6 and .2 of
    /// 7; C has .8 of 7.
    #[test]
    fn example_of_the_specification() {
        let (w, p, q) = (10_000, 8000, 2000);
        assert_eq!(
            overlaps(&[6000, 3000, 1000], 8),
            [vec![w, w, w, w, p, 0, 0, 0], vec![0, 0, 0, 0, q, w, w, q], vec![0, 0, 0, 0, 0, 0, 0, p]]
        );
        let (mut run, flows) = laid_out(&NEVER, &[5999, 2999, 999]);
        let cores = [vec![0, 1, 2, 3, 4], vec![4, 5, 6, 7], vec![7]];
        for (&flow, expected) in flows.iter().zip(cores) {
            let mut found: Vec<u16> = (0..60).map(|_| run.dropped(flow, 1).0).collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found, expected);
        }
    }

    /// Weights 1, 1, 1, 1, .8: of 24 packets each whole core gets 5 and the last core 4. No core
    /// gets two before all others have one.
    #[test]
    fn packets_go_round_smoothly() {
        let (mut run, flows) = laid_out(&NEVER, &[5999, 4001]);
        let found: Vec<u16> = (0..48).map(|_| run.dropped(flows[0], 1).0).collect();
        assert_eq!(found[..10], [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        for period in found.chunks(24) {
            let count = [0, 1, 2, 3, 4].map(|core| period.iter().filter(|&&found| found == core).count());
            assert_eq!(count, [5, 5, 5, 5, 4]);
        }
    }

    proptest! {
        #[test]
        fn overlaps_of_a_core_sum_to_one_and_of_a_connection_to_its_part(
            held in prop::collection::vec(1..100_000_u64, 1..40),
            cores in 1..70_usize,
        ) {
            let total = u128::from(held.iter().sum::<u64>());
            let rows = overlaps(&held, cores);
            for core in 0..cores {
                prop_assert_eq!(rows.iter().map(|row| row[core]).sum::<u128>(), total);
            }
            for (row, &held) in rows.iter().zip(&held) {
                prop_assert_eq!(row.iter().sum::<u128>(), u128::from(held) * cores as u128);
            }
        }

        #[test]
        fn a_core_has_as_many_packets_as_its_overlap_says(
            held in prop::collection::vec(2..5000_u32, 2..12),
            packets in 1..300_usize,
        ) {
            let (mut run, flows) = laid_out(&NEVER, &held);
            for (at, &flow) in flows.iter().enumerate() {
                // The packet being steered, of one byte, counts.
                let mut held: Vec<u64> = held.iter().copied().map(u64::from).collect();
                held[at] += 1;
                let row = &overlaps(&held, 8)[at];
                let part = held[at] as f64 * 8.0;
                let mut count = [0_u32; 8];
                (0..packets).for_each(|_| count[run.dropped(flow, 1).index()] += 1);
                for (core, &count) in count.iter().enumerate() {
                    let expected = packets as f64 * row[core] as f64 / part;
                    let slack = 2.0 + packets as f64 * 0.01;
                    prop_assert!((f64::from(count) - expected).abs() < slack, "core {}: {}, not {}", core, count, expected);
                }
            }
        }
    }

    #[test]
    fn a_change_of_more_than_beta_looks_the_place_up() {
        let mut run = Cores::<Ap>::new(&ApParams { beta: 0.5 }, 8, 2);
        run.arrive(0, 1000);
        run.arrive(0, 500);
        assert_eq!(run.policy.placed(), 1, "half more is not more than half");
        run.arrive(0, 1);
        assert_eq!(run.policy.placed(), 2);
        let mut never = Cores::<Ap>::new(&NEVER, 8, 2);
        for length in 1..200 {
            never.arrive(0, length);
        }
        assert_eq!(never.policy.placed(), 1);
    }

    #[test]
    fn whatever_happens_packets_go_where_their_connection_lies() {
        for beta in [0.0, 0.16, 1.0] {
            for seed in 0..20 {
                let mut run = Cores::<Ap>::new(&ApParams { beta }, 8, 6);
                let mut random = Seed(seed).stream("test");
                run.random(&mut random, 500, |run, flow| {
                    let connection = &run.policy.connections[FlowId(flow)];
                    let cores: Vec<CoreId> = run.policy.credits_of(connection).map(|credit| credit.core).collect();
                    let expected = if cores.is_empty() { vec![connection.core] } else { cores };
                    assert!(expected.contains(&run.last_core()));
                    let held: u64 = run.held.iter().map(|(_, packet)| u64::from(packet.length)).sum();
                    assert_eq!(run.policy.tree.total(ServiceId(0)), held);
                });
            }
        }
    }

    /// New connections are spread over all cores. In order of arrival they would all be on the last core.
    #[test]
    fn connections_that_come_are_spread() {
        let mut run = Cores::<Ap>::new(&ApParams::default(), 8, 800);
        let mut count = [0_u32; 8];
        for flow in 0..800 {
            count[run.arrive(flow, 1000).index()] += 1;
        }
        assert!(count.iter().all(|&count| (60..150).contains(&count)), "{count:?}");
    }

    #[test]
    fn what_a_core_is_owed_outlasts_a_new_place() {
        let mut run = Cores::<Ap>::new(&ApParams { beta: 0.0 }, 8, 1);
        let mut count = [0_u32; 8];
        for length in 0..800 {
            count[run.dropped(0, 1000 + (mix(length) % 500) as u32).index()] += 1;
        }
        assert_eq!(count, [100; 8], "every packet looks the place up");
    }

    #[test]
    fn without_memory_a_connection_has_the_core_of_its_middle() {
        let (mut run, flows) = laid_out(&NEVER, &[6000, 4000]);
        run.policy.credits.clear();
        (run.policy.free, run.policy.free_count) = (NONE, 0);
        assert_eq!([run.dropped(flows[0], 1), run.dropped(flows[1], 1)], [CoreId(2), CoreId(6)]);
        assert_eq!(run.policy.crowded_out(), 2);
    }
}
