//! Proportional share highest random weight: the number of a connection's cores follows its part of
//! all bytes held.
//!
//! **Idea.** A connection that holds φ of the Φ bytes in the system has g = N φ/Φ cores: ⌊g⌋ whole
//! cores, and one more with the rest as weight. Its packets go to these cores alone, each to the
//! one with the highest hash over queue length. When φ has changed by more than β, the set is
//! rebuilt, core by core, as `h-cahrw` would choose.
//!
//! **Algorithm.** The symbols are the paper's. φ(i) is what connection i holds, Φ the sum of all φ, N
//! the number of cores, c(i) the connection's key, Q(k) the packets on core k, and h a hash from 0
//! to 1. The set of i has whole cores of weight u = 1, and at most one core of weight u = f.
//!
//! ```text
//! a packet of i arrives                                  steer
//!     if i is new, or φ(i) with this packet differs from φ(i) at the last build by more than β
//!             times the latter (`eager`: or connections came or went)    is_stale
//!             and `guard` does not forbid it             is_guarded
//!             or no core of the set is eligible: build
//!     the packet goes to the core k of the set with the greatest u(k) h(c(i), k) / (Q(k) + 1)
//!                                                        connections.rs: choose
//!     φ(i) += its bytes;  Φ += its bytes                 on_enqueue
//!
//! a packet of i is done                                  on_completion
//!     φ(i) -= its bytes;  Φ -= its bytes
//!
//! build                                                  rebuild, fill
//!     g := N φ(i)/Φ, both with this packet;  n := ⌊g⌋;  f := g - n   connections.rs: begin
//!     n times: add the core that h-cahrw chooses for c(i) among those not in the set
//!                                                        tree.rs: choose, take_out
//!     if f > 0, or n = 0: add one more, with weight f    `residual=literal`: literal
//! ```
//!
//! **State.** The example of the specification: 8 cores, and connections that hold 6,000, 3,000 and
//! 1,000 bytes. So g is 4.8, 2.4 and 0.8. The cores are those of some hashes.
//!
//! ```text
//!   connections    φ       when built   n   f     set (core_sets.rs)
//!        0         6,000   6,000        4   .8    cores 1 2 4 7, and 5 with weight .8
//!        1         3,000   3,000        2   .4    cores 0 5,     and 3 with weight .4
//!        2         1,000   1,000        0   .8    core 6 alone: no set is needed
//!   Φ             10,000
//! ```
//!
//! **Source.** Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications. STEERING
//! sections 6, 7 and 12.
//!
//! **Promises.** A connection has min(⌊Nφ/Φ⌋, N) whole cores, and one core at least, as of when its
//! set was built. No order: a new set moves a connection; with `guard=true` fewer connections move.
//!
//! **Cost.** O(1) for a connection of one core, else O(g + N/64). A rebuilt set costs O(g log N) in
//! a tree and O(g N) without one, after each change by β. 72 bytes for each flow; if N is above 64,
//! N/8 bytes more for each set, 16 MiB in all.
//!
//! **Invariants.** The φ of all connections sum to Φ. A set of more than one core has a place in
//! the pool, and each place of the pool has at most one owner.
//!
//! **Departures.**
//! - ⌊g⌋ whole cores: the paper's table gives ⌈g⌉.
//! - The core for the rest is chosen like the others (`residual=capacity`). The paper chooses it among all
//!   cores by theorem 1 and often selects one that the connection already has (`literal`). If the connection
//!   has no whole core, all multipliers are 1, and the tree's choice is used.
//! - A set is built when a packet of its connection arrives. The paper also rebuilds other sets
//!   when connections come and go. `eager=true` does so, each set at its next packet.
//! - Φ and N are those of the packet's service and its eligible cores.
//! - φ may be estimated work instead of bytes, or the weight of the connection's client, divided
//!   among its connections by bytes held.
//! - φ counts accepted packets; the packet being steered counts towards its own set.
//! - A set keeps its cores that are still eligible; a set without any is rebuilt.
//! - A connection that finds no place among the sets has one core.

use humpyard_core::choice;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{score, unit_score};
use humpyard_core::id::{CoreId, FlowId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::{Time, Work};

use super::bid::{Cost, highest, length};
use super::connections::{Connections, Draft, Rules};
pub use super::connections::{Multiplier, Weight};
use super::core_sets::SetId;
use super::parts::{ONE, Part};
use super::theorem1::two_classes;
use super::tree::{Distance, EligibleSetId, Forest};

choice! {
    /// The core that gets the rest of a connection's part.
    pub enum Residual {
        /// The next core that the tree chooses.
        Capacity = "capacity",
        /// The highest bidder of all cores, weighted by theorem 1; none if the connection already has it.
        Literal = "literal",
    }
}

params! {
    /// Parameters of proportional share highest random weight.
    pub struct PsHrwParams {
        /// The part by which a connection's bytes change before its set is rebuilt; with the
        /// greatest value it never is.
        beta: f64 = 0.16, in 0.0..=1e10;
        /// The core that gets the rest of a connection's part: the next of the tree, or the
        /// paper's, by theorem 1 among all cores.
        residual: Residual = Residual::Capacity;
        /// How weights enter a hash: as factors, or such that shares are proportional to weight over length.
        multiplier: Multiplier = Multiplier::Carp;
        /// What a connection's part is a part of: the bytes held, the weights of the clients that
        /// hold packets, or the work held.
        weight: Weight = Weight::Backlog;
        /// Whether a connection keeps its set while its last packet is in flight, if the queue of
        /// that core is at most four times the shortest queue. The next packet counts.
        guard: bool = false;
        /// Whether all sets are rebuilt when a connection comes or goes, each at its next packet.
        eager: bool = false;
    }
}

/// Proportional share highest random weight.
#[derive(Debug)]
pub struct PsHrw {
    residual: Residual,
    guard: bool,
    forest: Forest,
    connections: Connections,
}

impl Build for PsHrw {
    type Params = PsHrwParams;
    const INFO: Info = Info {
        name: "ps-hrw",
        family: Family::Steer,
        summary: "each connection on as many cores as its part of all bytes held, chosen as h-cahrw does",
        source: "Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications (PS-HRW)",
        promises: &[Promise::Fair(
            "a connection with part p of the bytes held: min(floor(p N), N) cores and one in part",
        )],
        complexity: "O(1); a new set O(g log N) in a tree, O(g N) without one",
    };
    const VARIANTS: &'static [&'static str] = &[
        "beta=0",
        "residual=literal,guard=true",
        "residual=literal,multiplier=log",
        "multiplier=log,beta=0.5",
        "weight=class",
        "weight=work,eager=true",
    ];

    fn new(params: &PsHrwParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let &PsHrwParams { beta, multiplier, weight, eager, .. } = params;
        Ok(Self {
            residual: params.residual,
            guard: params.guard,
            forest: Forest::new(config, Distance::Levels)?,
            connections: Connections::new(Rules { beta, multiplier, weight, eager }, config)?,
        })
    }
}

impl Policy for PsHrw {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        self.forest.check();
        self.connections.check();
    }
}

impl Steer for PsHrw {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        if self.connections.is_stale(packet) && !self.is_guarded(packet.flow, view) {
            self.rebuild(packet, view);
        }
        let core = self.connections.choose(packet, view).unwrap_or_else(|| {
            self.rebuild(packet, view);
            self.connections.choose(packet, view).expect("a new set has eligible cores")
        });
        Target::Core(core)
    }

    #[inline]
    fn on_enqueue(&mut self, _: Time, target: Target, packet: &Packet) {
        self.connections.on_enqueue(target, packet);
        if let Some(core) = target.core() {
            self.forest.on_enqueue(core);
        }
    }

    fn on_push_out(&mut self, _: Time, target: Target, packet: &Packet) {
        self.connections.leave(packet);
        if let Some(core) = target.core() {
            self.forest.on_completion(core);
        }
    }

    /// Another policy may have let a packet wait for several cores; it joins one only now.
    fn on_dispatch(&mut self, _: Time, core: CoreId, target: Target, _: &Packet) {
        if target.core().is_none() {
            self.forest.on_enqueue(core);
        }
    }

    #[inline]
    fn on_completion(&mut self, _: Time, core: CoreId, packet: &Packet, _: Work) {
        self.connections.leave(packet);
        self.forest.on_completion(core);
    }

    fn on_flow_end(&mut self, _: Time, flow: FlowId) {
        self.connections.on_flow_end(flow);
    }
}

impl PsHrw {
    /// Returns the number of sets built since the start.
    pub fn built(&self) -> u64 {
        self.connections.built()
    }

    /// Returns the number of these sets that have one core because there was no memory for more.
    pub fn crowded_out(&self) -> u64 {
        self.connections.crowded_out()
    }

    /// Whether moving the connection would reorder packets and is not necessary either.
    fn is_guarded(&self, flow: FlowId, view: &View<'_>) -> bool {
        let last = self.connections.of(flow).last_core().filter(|_| self.guard && !self.connections.of(flow).is_new());
        last.is_some_and(|last| {
            let shortest = view.eligible.iter().map(|&core| length(view, core)).min();
            length(view, last) <= 4 * shortest.expect("at least one core is eligible")
        })
    }

    /// Rebuilds the set of the packet's connection, as if the packet had already joined.
    #[inline(never)]
    fn rebuild(&mut self, packet: &Packet, view: &View<'_>) {
        let mut draft = self.connections.begin(packet, view.eligible.len());
        let eligible = self.forest.eligible_set(packet.service, view.eligible);
        let core = match draft.set {
            Some(set) => self.fill(set, eligible, &mut draft, packet, view),
            None => {
                let home = self.forest.home(eligible, packet);
                self.forest.choose(eligible, packet.key, home)
            }
        };
        self.connections.finish(packet.flow, draft, core);
    }

    /// Adds the whole cores and the core for the rest to a set. Returns the core for the rest.
    fn fill(
        &mut self,
        set: SetId,
        eligible: EligibleSetId,
        draft: &mut Draft,
        packet: &Packet,
        view: &View<'_>,
    ) -> CoreId {
        let home = self.forest.home(eligible, packet);
        for _ in 0..draft.part.whole {
            let core = self.forest.choose(eligible, packet.key, home);
            self.connections.sets.insert(set, core);
            self.forest.take_out(eligible, core);
        }
        let rest = match self.residual {
            _ if draft.part.rest == 0 => None,
            Residual::Capacity => Some(self.forest.choose(eligible, packet.key, home)),
            Residual::Literal => {
                let has = |core| self.connections.sets.contains(set, core);
                Some(self.literal(draft.part, has, packet, view)).filter(|&core| !has(core))
            }
        };
        for core in self.connections.sets.iter(set) {
            self.forest.put_back(eligible, core);
        }
        match rest {
            Some(core) => self.connections.sets.insert(set, core),
            None => draft.part.rest = 0,
        }
        rest.unwrap_or(home)
    }

    /// The paper's step 3 over all eligible cores: p = 1/N' for cores that the connection `has`, p
    /// = f/N' for the others.
    fn literal(&self, part: Part, has: impl Fn(CoreId) -> bool, packet: &Packet, view: &View<'_>) -> CoreId {
        let multiplier = self.connections.multiplier();
        let (low, high) = step_3_weights(multiplier, part, view.eligible.len());
        let weight = |core| if has(core) { high } else { low };
        let bids = view.eligible.iter().map(|&core| {
            let score = score(packet.key, self.connections.salts[core.index()]);
            let length = length(view, core) as f64;
            let bid = match multiplier {
                Multiplier::Log => Cost::log(score, weight(core), length),
                Multiplier::Carp => Cost::product(unit_score(score), weight(core), length),
            };
            (core, bid)
        });
        highest(bids).expect("at least one core is eligible")
    }
}

/// Returns the weights in the paper's step 3 of a core that the connection does not have, and of
/// one that it has.
pub(super) fn step_3_weights(multiplier: Multiplier, part: Part, cores: usize) -> (f64, f64) {
    let rest = f64::from(part.rest) / ONE as f64;
    match multiplier {
        Multiplier::Log => (rest, 1.0),
        Multiplier::Carp if part.whole == 0 => (1.0, 1.0),
        Multiplier::Carp => two_classes(cores, part.whole, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::core_sets::CoreSets;
    use crate::steer::h_cahrw::{HCahrw, HCahrwParams};
    use crate::steer::testing::{Cores, keys, views};
    use crate::testing::config;
    use alloc::vec::Vec;
    use humpyard_core::id::ServiceId;
    use humpyard_core::policy::Topology;
    use humpyard_core::random::Seed;

    fn tree() -> Topology {
        Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap()
    }

    /// A policy on eight cores of a tree, and the packets that it has steered.
    type Run = Cores<PsHrw>;

    fn run_of(params: &PsHrwParams, flows: usize) -> Run {
        let topology = tree();
        let config = SchedulerConfig { flows, topology: Some(topology.clone()), ..config(8, 1, &[]) };
        Cores::of(PsHrw::new(params, &config).unwrap(), 8)
    }

    fn set_of(run: &Run, flow: u32) -> (Vec<CoreId>, u64) {
        run.policy.connections.cores_of(FlowId(flow))
    }

    fn params(residual: Residual, multiplier: Multiplier) -> PsHrwParams {
        PsHrwParams { residual, multiplier, ..PsHrwParams::default() }
    }

    const ALL: [(Residual, Multiplier); 4] = [
        (Residual::Capacity, Multiplier::Carp),
        (Residual::Capacity, Multiplier::Log),
        (Residual::Literal, Multiplier::Carp),
        (Residual::Literal, Multiplier::Log),
    ];

    /// φ = (6000, 3000, 1000) on eight cores: connection 0 has four whole cores and part of another.
    #[test]
    fn example_of_the_specification() {
        for (flow, cores, rest) in [(0, 5, 799), (1, 3, 399), (2, 1, 799)] {
            let mut run = run_of(&PsHrwParams::default(), 3);
            for other in (0..3).filter(|&other| other != flow) {
                run.join(CoreId(0), other, 6000 / [1, 2, 6][other as usize]);
            }
            run.arrive(flow, 6000 / [1, 2, 6][flow as usize]);
            let (set, weight) = set_of(&run, flow);
            assert_eq!((set.len(), weight), (cores, rest), "connection {flow}");
        }
    }

    #[test]
    fn a_set_is_what_the_tree_chooses_one_after_the_other() {
        let mut run = run_of(&PsHrwParams::default(), 2);
        run.join(CoreId(3), 1, 4000);
        let topology = tree();
        let mut forest =
            Forest::new(&SchedulerConfig { topology: Some(topology.clone()), ..config(8, 1, &[]) }, Distance::Levels)
                .unwrap();
        forest.on_enqueue(CoreId(3));
        let eligible = forest.eligible_set(ServiceId(0), &run.eligible);
        let home = forest.home(eligible, &run.packet(0, 6000));
        let mut expected = Vec::new();
        for _ in 0..5 {
            expected.push(forest.choose(eligible, run.key_of(0), home));
            forest.take_out(eligible, expected[expected.len() - 1]);
        }
        run.arrive(0, 6000);
        assert_eq!(run.policy.connections.of(FlowId(0)).core, expected[4], "the last is the one for the rest");
        expected.sort_unstable();
        assert_eq!(set_of(&run, 0).0, expected);
    }

    /// While no connection has a whole core, this is `h-cahrw`, which is asked when sets are built:
    /// here for every packet.
    #[test]
    fn small_connections_are_steered_as_by_the_tree() {
        let topology = tree();
        let config = SchedulerConfig { flows: 400, topology: Some(topology.clone()), ..config(8, 1, &[]) };
        for (residual, multiplier) in ALL {
            let mut tree = HCahrw::new(&HCahrwParams::default(), &config).unwrap();
            let mut run = run_of(&PsHrwParams { beta: 0.0, ..params(residual, multiplier) }, 400);
            let mut random = Seed(5).stream("test");
            for flow in 0..400 {
                let view = View { as_of: Time::ZERO, cores: &run.views, eligible: &run.eligible };
                let expected = tree.steer(Time::ZERO, &run.packet(flow, 100), &view).core().expect("a core");
                let core = run.arrive(flow, 100);
                if flow > 8 {
                    assert_eq!(core, expected, "{residual:?} {multiplier:?}");
                }
                tree.on_enqueue(Time::ZERO, Target::Core(core), &Packet::default());
                if random.below(8) == 0 {
                    let place = random.below(run.held.len() as u64) as usize;
                    tree.on_completion(Time::ZERO, run.held[place].0, &Packet::default(), 1);
                    run.complete(place);
                }
            }
        }
    }

    /// Arrivals, drops, completions and ends of connections while cores come and go.
    fn random_run(params: &PsHrwParams, seed: u64, mut watch: impl FnMut(&Run, u32, u64)) -> Run {
        let mut run = run_of(params, 6);
        let mut random = Seed(seed).stream("test");
        for _ in 0..600 {
            let flow = random.below(6) as u32;
            match random.below(16) {
                0 => drop(run.dropped(flow, 1 + random.below(1500) as u32)),
                1 => run.change_cores(&mut random),
                2 => run.eligible = (0..8).map(CoreId).collect(),
                3..9 if !run.held.is_empty() => run.complete(random.below(run.held.len() as u64) as usize),
                9 if run.held.iter().all(|(_, packet)| packet.flow != FlowId(flow)) => {
                    run.policy.on_flow_end(Time::ZERO, FlowId(flow));
                }
                _ => {
                    let built = run.policy.built();
                    run.arrive(flow, 1 + random.below(1500) as u32);
                    watch(&run, flow, run.policy.built() - built);
                }
            }
            run.policy.check();
        }
        run
    }

    #[test]
    fn whole_cores_are_what_the_part_says_whatever_happened() {
        for (residual, multiplier) in ALL {
            for seed in 0..20 {
                random_run(&params(residual, multiplier), seed, |run, flow, built| {
                    let connection = run.policy.connections.of(FlowId(flow));
                    if built > 0 {
                        let part = {
                            let held = run.policy.connections.held(FlowId(flow));
                            let total = run.policy.connections.total(ServiceId(0));
                            Part::of(u128::from(held), u128::from(total), run.eligible.len())
                        };
                        assert_eq!(usize::from(connection.whole), part.whole);
                        assert!(set_of(run, flow).0.iter().all(|core| run.eligible.contains(core)));
                        assert!(
                            residual == Residual::Literal
                                || connection.rest == part.rest.max(u32::from(part.whole == 0))
                        );
                    }
                    assert!(set_of(run, flow).0.contains(&run.held[run.held.len() - 1].0), "a packet left its set");
                });
            }
        }
    }

    #[test]
    fn without_a_limit_of_change_a_set_is_built_once() {
        for beta in [f64::INFINITY, 1e10] {
            let mut run = run_of(&PsHrwParams { beta, ..PsHrwParams::default() }, 6);
            let mut random = Seed(1).stream("test");
            for _ in 0..500 {
                run.arrive(random.below(6) as u32, 1 + random.below(100_000) as u32);
                if random.below(3) > 0 {
                    run.complete(random.below(run.held.len() as u64) as usize);
                }
            }
            assert_eq!(run.policy.built(), 6);
        }
    }

    #[test]
    fn a_change_of_more_than_beta_builds_the_set_anew() {
        let mut run = run_of(&PsHrwParams { beta: 0.5, ..PsHrwParams::default() }, 1);
        run.arrive(0, 1000);
        run.arrive(0, 500);
        assert_eq!(run.policy.built(), 1, "half more is not more than half");
        run.arrive(0, 1);
        assert_eq!(run.policy.built(), 2);
        run.complete(0);
        assert_eq!(run.policy.built(), 2, "a completion builds nothing");
        run.complete(0);
        run.arrive(0, 700);
        assert_eq!(run.policy.built(), 3, "701 are less than half of 1501");
    }

    #[test]
    fn what_is_dropped_holds_nothing() {
        let mut run = run_of(&PsHrwParams::default(), 2);
        run.dropped(0, 1000);
        assert_eq!(run.policy.connections.total(ServiceId(0)), 0);
        run.arrive(1, 1000);
        assert_eq!(set_of(&run, 1).0.len(), 8, "all bytes are its own");
    }

    #[test]
    fn a_connection_that_ends_leaves_nothing_behind() {
        let mut run = run_of(&PsHrwParams::default(), 2);
        run.arrive(0, 1000);
        assert_eq!(run.policy.connections.sets.used(), 1);
        run.complete(0);
        run.policy.on_flow_end(Time::ZERO, FlowId(0));
        assert_eq!(run.policy.connections.sets.used(), 0);
        assert!(run.policy.connections.of(FlowId(0)).is_new());
        run.policy.check();
    }

    #[test]
    fn a_set_loses_the_cores_that_are_not_eligible_and_is_built_anew_without_any() {
        let mut run = run_of(&PsHrwParams { beta: 1e10, ..PsHrwParams::default() }, 2);
        run.join(CoreId(0), 1, 5000);
        run.arrive(0, 5000);
        let (set, _) = set_of(&run, 0);
        assert_eq!(set.len(), 4);
        run.eligible = set[..1].to_vec();
        assert_eq!(run.arrive(0, 1), set[0]);
        assert_eq!(run.policy.built(), 1);
        run.eligible = (0..8).map(CoreId).filter(|core| !set.contains(core)).collect();
        run.arrive(0, 1);
        assert_eq!(run.policy.built(), 2);
    }

    #[test]
    fn without_room_for_a_set_a_connection_has_one_core() {
        let mut run = run_of(&PsHrwParams::default(), 2);
        run.policy.connections.sets = CoreSets::new(8, 1);
        run.arrive(0, 1000);
        run.arrive(1, 4000);
        assert_eq!((set_of(&run, 0).0.len(), set_of(&run, 1).0.len(), run.policy.crowded_out()), (8, 1, 1));
    }

    #[test]
    fn the_guard_keeps_a_connection_where_its_last_packet_is() {
        let mut run = run_of(&PsHrwParams { beta: 0.0, guard: true, ..PsHrwParams::default() }, 2);
        run.join(CoreId(0), 1, 100_000);
        run.arrive(0, 1000);
        run.arrive(0, 1000);
        run.arrive(0, 1000);
        assert_eq!(run.policy.built(), 1, "three packets are at most four times none and one");
        run.arrive(0, 1000);
        run.arrive(0, 1000);
        assert_eq!(run.policy.built(), 2, "a queue of 4 + 1 is more than 4 * (0 + 1)");
        while run.held.len() > 1 {
            run.complete(1);
        }
        let built = run.policy.built();
        run.arrive(0, 1000);
        assert_eq!(run.policy.built(), built + 1, "nothing is in flight");
    }

    #[test]
    fn the_guard_moves_less() {
        let built = |guard| {
            let runs =
                (0..20).map(|seed| random_run(&PsHrwParams { guard, ..PsHrwParams::default() }, seed, |_, _, _| ()));
            runs.map(|run| run.policy.built()).sum::<u64>()
        };
        assert!(built(true) < built(false) * 9 / 10);
    }

    /// The paper's step 3 adds a core with probability (N - n) f / N', not f.
    #[test]
    fn the_literal_step_adds_a_core_as_often_as_the_specification_says() {
        for (held, others, whole, expected) in [(6000, 4000, 4, 0.444), (1375, 8625, 1, 0.41)] {
            for multiplier in [Multiplier::Carp, Multiplier::Log] {
                let mut added = 0;
                for seed in keys(4000) {
                    let mut run = run_of(&params(Residual::Literal, multiplier), 2);
                    run.join(CoreId(0), 1, others);
                    run.views = views(&[0; 8]);
                    let packet = Packet { key: seed, ..run.packet(0, held) };
                    let view = View { as_of: Time::ZERO, cores: &run.views, eligible: &run.eligible };
                    run.policy.steer(Time::ZERO, &packet, &view);
                    assert_eq!(run.policy.connections.of(FlowId(0)).whole, whole);
                    added += set_of(&run, 0).0.len() - usize::from(whole);
                }
                let share = added as f64 / 4000.0;
                assert!((share - expected).abs() < 0.025, "{share} got another core, not {expected}");
            }
        }
    }

    /// In a set of idle cores, logarithms give the core for the rest a share equal to its weight.
    #[test]
    fn logarithms_give_the_rest_its_share() {
        let on_rest = |multiplier| {
            let mut run = run_of(&PsHrwParams { beta: 1e10, ..params(Residual::Capacity, multiplier) }, 2);
            run.join(CoreId(0), 1, 8125);
            run.views = views(&[0; 8]);
            run.dropped(0, 1875);
            let rest = run.policy.connections.of(FlowId(0)).core;
            assert_eq!((set_of(&run, 0).0.len(), set_of(&run, 0).1), (2, 500));
            let steered = keys(20_000).into_iter().filter(|&key| {
                let packet = Packet { key, ..run.packet(0, 1) };
                let view = View { as_of: Time::ZERO, cores: &run.views, eligible: &run.eligible };
                run.policy.steer(Time::ZERO, &packet, &view) == Target::Core(rest)
            });
            steered.count() as f64 / 20_000.0
        };
        assert!((on_rest(Multiplier::Carp) - 0.25).abs() < 0.02);
        assert!((on_rest(Multiplier::Log) - 1.0 / 3.0).abs() < 0.02);
    }
}
