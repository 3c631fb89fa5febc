//! Generalised processor sharing by highest random weight: the number of a connection's cores
//! follows its part of all bytes held; its cores are those with the highest hashes.
//!
//! **Idea.** As `ps-hrw`, but queues and the machine's topology do not decide which cores a
//! connection has. With g = N φ/Φ, it has the ⌊g⌋ cores that score highest, and one more with the
//! rest as weight. So its set grows and shrinks at the end, and a connection with a constant part
//! never moves. Its packets go to the core of its set with the highest hash over queue length.
//!
//! **Source.** Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications
//! (GPS-HRW). STEERING sections 7 and 8.
//!
//! **Promises.** A connection has min(⌊Nφ/Φ⌋, N) whole cores, and one core at least, as of when its
//! set was built. A smaller set of a connection is a subset of a greater one, except for the core
//! for the rest. No order.
//!
//! **Cost.** O(1) for a connection of one core, else O(g + N/64). A rebuilt set costs O(N), after each change
//! by β. 56 bytes for each flow; if N is above 64, N/8 bytes more for each set, 16 MiB in all.
//!
//! **Invariants.** Those of `ps-hrw`.
//!
//! **Departures.** ⌊g⌋ whole cores, as in `ps-hrw`. The core for the rest is the paper's
//! (`residual=literal`): the highest bidder of all cores, by separate hashes, with the multipliers
//! of theorem 1. There is none if the connection already has that core. With `capacity`, it is the
//! next core in the order of scores. Within a set queues count; otherwise a connection would use
//! only one core of it.

use alloc::vec::Vec;

use humpyard_core::choice;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{salt, score, unit_score};
use humpyard_core::id::{CoreId, FlowId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::{Time, Work};

use super::bid::{Cost, Exact, highest};
use super::connections::{Connections, Draft, Rules};
pub use super::connections::{Multiplier, Weight};
use super::core_sets::SetId;
use super::parts::Part;
use super::ps_hrw::step_3_weights;

choice! {
    /// The core that gets the rest of a connection's part.
    pub enum Residual {
        /// The highest bidder of all cores, weighted by theorem 1; none if the connection already has it.
        Literal = "literal",
        /// The next in the order of scores.
        Capacity = "capacity",
    }
}

params! {
    /// Parameters of generalised processor sharing by highest random weight.
    pub struct GpsHrwParams {
        /// The part by which a connection's bytes change before its set is rebuilt; with the
        /// greatest value it never is.
        beta: f64 = 0.16, in 0.0..=1e10;
        /// The core that gets the rest of a connection's part: the paper's, by theorem 1 among all
        /// cores, or the next by score.
        residual: Residual = Residual::Literal;
        /// How weights enter a hash: as factors, or such that shares are proportional to weight over length.
        multiplier: Multiplier = Multiplier::Carp;
        /// What a connection's part is a part of: the bytes held, the weights of the clients that
        /// hold packets, or the work held.
        weight: Weight = Weight::Backlog;
        /// Whether all sets are rebuilt when a connection comes or goes, each at its next packet.
        eager: bool = false;
    }
}

/// Generalised processor sharing by highest random weight.
#[derive(Debug)]
pub struct GpsHrw {
    residual: Residual,
    connections: Connections,
    /// By core: the salt of its bids for a rest.
    rest_salts: Vec<u64>,
    /// The eligible cores with their scores, for the connection whose set is being built.
    order: Vec<(u64, CoreId)>,
}

impl Build for GpsHrw {
    type Params = GpsHrwParams;
    const INFO: Info = Info {
        name: "gps-hrw",
        family: Family::Steer,
        summary: "each connection on as many cores as its part of all bytes held, those with the highest hashes",
        source: "Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications (GPS-HRW)",
        promises: &[Promise::Fair(
            "a connection with part p of the bytes held: min(floor(p N), N) cores and one in part",
        )],
        complexity: "O(1); a new set O(N)",
    };
    const VARIANTS: &'static [&'static str] =
        &["beta=0", "residual=capacity,multiplier=log", "multiplier=log", "weight=class,eager=true", "weight=work"];

    fn new(params: &GpsHrwParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let &GpsHrwParams { beta, multiplier, weight, eager, residual } = params;
        let stride = config.cores.next_power_of_two().max(1000);
        Ok(Self {
            residual,
            connections: Connections::new(Rules { beta, multiplier, weight, eager }, config)?,
            rest_salts: (0..config.cores).map(|core| salt((core + stride) as u64)).collect(),
            order: Vec::with_capacity(config.cores),
        })
    }
}

impl Policy for GpsHrw {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        self.connections.check();
    }
}

impl Steer for GpsHrw {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        if self.connections.is_stale(packet) {
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
    }

    fn on_push_out(&mut self, _: Time, _: Target, packet: &Packet) {
        self.connections.leave(packet);
    }

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, packet: &Packet, _: Work) {
        self.connections.leave(packet);
    }

    fn on_flow_end(&mut self, _: Time, flow: FlowId) {
        self.connections.on_flow_end(flow);
    }
}

impl GpsHrw {
    /// Returns the number of sets built since the start.
    pub fn built(&self) -> u64 {
        self.connections.built()
    }

    /// Returns the number of these sets that have one core because there was no memory for more.
    pub fn crowded_out(&self) -> u64 {
        self.connections.crowded_out()
    }

    /// Rebuilds the set of the packet's connection, as if the packet had already joined.
    #[inline(never)]
    fn rebuild(&mut self, packet: &Packet, view: &View<'_>) {
        let mut draft = self.connections.begin(packet, view.eligible.len());
        let core = match draft.set {
            Some(set) => self.fill(set, &mut draft, packet, view),
            None if draft.part.whole == 0 && draft.part.rest > 0 && self.residual == Residual::Literal => {
                self.literal(draft.part, |_| false, packet, view)
            }
            None => self.highest(packet, view),
        };
        self.connections.finish(packet.flow, draft, core);
    }

    /// Returns the eligible core with the highest score: the core of `hrw` for this connection.
    fn highest(&self, packet: &Packet, view: &View<'_>) -> CoreId {
        let salts = &self.connections.salts;
        let bid = |core: CoreId| Exact::new(score(packet.key, salts[core.index()]), 1);
        highest(view.eligible.iter().map(|&core| (core, bid(core)))).expect("at least one core is eligible")
    }

    /// Adds the whole cores and the core for the rest to a set. Returns the core for the rest, or
    /// any core if there is none.
    fn fill(&mut self, set: SetId, draft: &mut Draft, packet: &Packet, view: &View<'_>) -> CoreId {
        let salts = &self.connections.salts;
        let scored = |&core: &CoreId| (score(packet.key, salts[core.index()]), core);
        self.order.clear();
        self.order.extend(view.eligible.iter().map(scored));
        let whole = draft.part.whole;
        if whole < self.order.len() {
            self.order.select_nth_unstable_by_key(whole, |&(score, core)| (core::cmp::Reverse(score), core));
        }
        for &(_, core) in &self.order[..whole] {
            self.connections.sets.insert(set, core);
        }
        let rest = match self.residual {
            _ if draft.part.rest == 0 => None,
            Residual::Capacity => Some(self.order[whole].1),
            Residual::Literal => {
                let has = |core| self.connections.sets.contains(set, core);
                Some(self.literal(draft.part, has, packet, view)).filter(|&core| !has(core))
            }
        };
        match rest {
            Some(core) => self.connections.sets.insert(set, core),
            None => draft.part.rest = 0,
        }
        rest.unwrap_or(self.order[0].1)
    }

    /// The paper's step 3 over all eligible cores: p = 1/N' for cores that the connection `has`, p
    /// = f/N' for the others.
    fn literal(&self, part: Part, has: impl Fn(CoreId) -> bool, packet: &Packet, view: &View<'_>) -> CoreId {
        let multiplier = self.connections.multiplier();
        let (low, high) = step_3_weights(multiplier, part, view.eligible.len());
        let bids = view.eligible.iter().map(|&core| {
            let score = score(packet.key, self.rest_salts[core.index()]);
            let weight = if has(core) { high } else { low };
            let bid = match multiplier {
                Multiplier::Log => Cost::log(score, weight, 1.0),
                Multiplier::Carp => Cost::product(unit_score(score), weight, 1.0),
            };
            (core, bid)
        });
        highest(bids).expect("at least one core is eligible")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::hrw::{Hrw, HrwParams};
    use crate::steer::testing::{Cores, keys, targets};
    use alloc::vec;
    use humpyard_core::hash::mix;
    use humpyard_core::random::Seed;

    fn run(params: &GpsHrwParams, flows: usize) -> Cores<GpsHrw> {
        Cores::new(params, 8, flows)
    }

    const RESIDUALS: [Residual; 2] = [Residual::Literal, Residual::Capacity];

    /// Returns the eight cores by descending score.
    fn order(key: u64) -> Vec<CoreId> {
        let mut order: Vec<CoreId> = (0..8).map(CoreId).collect();
        order.sort_by_key(|core| core::cmp::Reverse(score(key, salt(u64::from(core.0)))));
        order
    }

    /// φ = (6000, 3000, 1000) on eight cores: g = 4.8, 2.4 and 0.8.
    #[test]
    fn example_of_the_specification() {
        for residual in RESIDUALS {
            for (flow, bytes, whole, rest) in [(0, 6000, 4, 799), (1, 3000, 2, 399), (2, 1000, 0, 799)] {
                let mut run = run(&GpsHrwParams { residual, ..GpsHrwParams::default() }, 3);
                for other in (0..3).filter(|&other| other != flow) {
                    run.join(CoreId(0), other, [6000, 3000, 1000][other as usize]);
                }
                run.arrive(flow, bytes);
                let (mut set, weight) = run.policy.connections.cores_of(FlowId(flow));
                let connection = run.policy.connections.of(FlowId(flow));
                assert_eq!(usize::from(connection.whole), whole, "connection {flow}");
                if connection.rest > 0 {
                    assert_eq!(weight, rest, "connection {flow}");
                    set.retain(|&core| core != connection.core);
                }
                let mut highest = order(run.key_of(flow))[..whole].to_vec();
                highest.sort_unstable();
                assert_eq!(set, highest, "connection {flow}");
                if residual == Residual::Capacity {
                    assert_eq!(connection.core, order(run.key_of(flow))[whole]);
                }
            }
        }
    }

    /// The literal step adds a core with probability (N - n) f / N': 4 · 0.8 / 7.2 for four whole cores of eight.
    #[test]
    fn the_literal_step_adds_a_core_as_often_as_the_specification_says() {
        for multiplier in [Multiplier::Carp, Multiplier::Log] {
            let mut added = 0;
            for seed in 0..4000 {
                let mut run = run(&GpsHrwParams { multiplier, ..GpsHrwParams::default() }, 2);
                run.seed = mix(seed);
                run.join(CoreId(0), 1, 4000);
                run.dropped(0, 6000);
                added += run.policy.connections.cores_of(FlowId(0)).0.len() - 4;
            }
            let share = added as f64 / 4000.0;
            assert!((share - 0.444).abs() < 0.025, "{share} got another core, not 0.444");
        }
    }

    /// While no connection has a whole core, this is `hrw`, with separate hashes for the rest.
    #[test]
    fn small_connections_are_spread_by_hash_whatever_the_queues() {
        for residual in RESIDUALS {
            let mut run = run(&GpsHrwParams { residual, beta: 0.0, ..GpsHrwParams::default() }, 400);
            for flow in 0..400 {
                let core = run.arrive(flow, 100);
                let key = run.key_of(flow);
                let rest = (0..8).map(CoreId).max_by_key(|core| score(key, salt(1000 + u64::from(core.0)))).unwrap();
                let hrw = targets::<Hrw>(&HrwParams::default(), 8, &[key])[0];
                if flow > 8 {
                    assert_eq!(core, if residual == Residual::Literal { rest } else { hrw });
                }
            }
        }
    }

    /// A greater part adds cores in the order of scores and removes none.
    #[test]
    fn sets_are_one_within_the_other() {
        for key in keys(50) {
            let mut last: Vec<CoreId> = Vec::new();
            for bytes in [500, 1200, 2500, 4000, 6000, 9000, 20_000, 100_000] {
                let params = GpsHrwParams { residual: Residual::Capacity, ..GpsHrwParams::default() };
                let mut run = run(&params, 2);
                run.seed = key;
                run.join(CoreId(0), 1, 10_000);
                run.dropped(0, bytes);
                let (set, _) = run.policy.connections.cores_of(FlowId(0));
                assert!(last.iter().all(|core| set.contains(core)), "{last:?}, then {set:?}");
                last = set;
            }
            assert!(last.len() > 6);
        }
    }

    #[test]
    fn whole_cores_are_what_the_part_says_whatever_happened() {
        for residual in RESIDUALS {
            for weight in [Weight::Backlog, Weight::Work] {
                for seed in 0..10 {
                    let params = GpsHrwParams { residual, weight, ..GpsHrwParams::default() };
                    let mut run = run(&params, 6);
                    let mut random = Seed(seed).stream("test");
                    run.random(&mut random, 600, |run, flow| {
                        let connection = run.policy.connections.of(FlowId(flow));
                        let (set, _) = run.policy.connections.cores_of(FlowId(flow));
                        let expected = usize::from(connection.whole) + usize::from(connection.rest > 0);
                        assert_eq!(set.len(), expected.max(1));
                        assert!(set.contains(&run.last_core()), "a packet left its set");
                    });
                }
            }
        }
    }

    /// Each class keeps its part while another floods: with weights 3 to 1, six and two of eight cores.
    #[test]
    fn a_class_has_its_part_while_another_floods() {
        let params = GpsHrwParams { weight: Weight::Class, beta: 0.0, ..GpsHrwParams::default() };
        let mut run = Cores::<GpsHrw>::with_clients(&params, 8, 2, &[3, 1]);
        run.arrive(0, 1000);
        assert_eq!(run.policy.connections.of(FlowId(0)).whole, 8, "nobody else has any");
        for _ in 0..50 {
            run.arrive(1, 1500);
        }
        run.arrive(0, 1000);
        run.arrive(1, 1500);
        let whole = [0, 1].map(|flow| run.policy.connections.of(FlowId(flow)).whole);
        assert_eq!(whole, [6, 2]);
        let backlog = GpsHrwParams { beta: 0.0, ..GpsHrwParams::default() };
        let mut run = Cores::<GpsHrw>::with_clients(&backlog, 8, 2, &[3, 1]);
        for _ in 0..50 {
            run.arrive(1, 1500);
        }
        run.arrive(0, 1000);
        assert_eq!(run.policy.connections.of(FlowId(0)).whole, 0, "by bytes the flood has nearly all");
    }

    #[test]
    fn packets_without_bytes_make_no_class_active() {
        let params = GpsHrwParams { weight: Weight::Class, ..GpsHrwParams::default() };
        for lengths in [[0, 100], [100, 0]] {
            let mut run = Cores::<GpsHrw>::with_clients(&params, 8, 2, &[3, 1]);
            for length in lengths {
                run.arrive(0, length);
            }
            lengths.iter().for_each(|_| run.complete(0));
            run.arrive(1, 1000);
            assert_eq!(run.policy.connections.of(FlowId(1)).whole, 8, "nobody else has any");
        }
    }

    #[test]
    fn eager_sets_know_of_every_connection() {
        for (eager, expected) in [(false, vec![8, 0]), (true, vec![4, 4])] {
            let mut run = run(&GpsHrwParams { eager, beta: 2.0, ..GpsHrwParams::default() }, 2);
            run.arrive(0, 1000);
            run.join(CoreId(0), 1, 1000);
            run.arrive(1, 10);
            run.arrive(0, 10);
            let whole = [0, 1].map(|flow| run.policy.connections.of(FlowId(flow)).whole);
            assert_eq!(whole[0], expected[0], "connection 1 has come meanwhile");
        }
    }
}
