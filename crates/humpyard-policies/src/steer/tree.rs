//! A tree of cores, for `h-cahrw` and `ps-hrw`. Every step down is a rendezvous among the children
//! of a node.
//!
//! **Algorithm.** c is the key of a connection and h a hash from 0 to 1. Of node x, L(x) is the number
//! of packets on its eligible cores plus one for each of these cores (`lengths`), and n(x) is the
//! number of these cores (`counts`).
//!
//! ```text
//! which core for a packet of c?                          choose
//!     x := the root
//!     while x is no core:                                descend
//!         each child y with an eligible core bids h(c, y) / (L(y) · cost)  winner
//!             cost := that of leaving home, if home is below x and not below y, else 1
//!         x := the child with the highest bid
//!
//! home of c: the same way, with L(y) := n(y) and cost := 1  find_home
//! ```
//!
//! If the children have unequal numbers of eligible cores, y bids -n(y)² / (L(y) · cost · ln h)
//! (`by_logarithm`): chances are then proportional to n(y).
//!
//! **State.** Two sockets of two cores. Core 1 has three packets, core 3 is not eligible.
//!
//! ```text
//!                     root            counts 3   lengths 6
//!                   ╱      ╲
//!          socket 0          socket 1     2 | 1      5 | 1
//!          ╱     ╲           ╱     ╲
//!      core 0   core 1   core 2   core 3  1 1 1 0    1 4 1 0
//! ```
//!
//! Each packet that comes or goes changes `lengths` from its core up to the root, so a descent
//! reads the children on its way and nothing else.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use humpyard_core::choice;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{salt, score};
use humpyard_core::id::{CoreId, FlowId, Id, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{BuildError, Topology};
use humpyard_core::rendezvous::{Home, Rendezvous};

use super::bid::{Cost, highest};

choice! {
    /// The levels at which leaving home has a cost.
    pub enum Distance {
        /// At every level of the tree.
        Levels = "levels",
        /// Among the cores of a group alone, as in the paper.
        Cores = "cores",
    }
}

/// The greatest cost of leaving a group, in thousandths of the cost to stay. With it, bids stay
/// below 2^128 when they are compared.
const COST_PERMILLE_MAX: u32 = 1_000_000;

/// A node: a group of consecutive cores.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    /// The cost to come here from a sibling, in thousandths of the cost to stay; the same for all siblings.
    cost_permille: u32,
    parent: u32,
    /// Its children among the nodes; empty for a core.
    children: Range<u32>,
    /// The indices of its cores.
    cores: Range<u32>,
}

impl Node {
    #[inline]
    fn children(&self) -> Range<usize> {
        self.children.start as usize..self.children.end as usize
    }
}

/// The eligible cores of a tree.
#[derive(Debug)]
struct EligibleCores {
    /// The cores that may be chosen unless they are taken out, ascending.
    cores: Vec<CoreId>,
    /// The number of eligible cores below each node.
    counts: Vec<u64>,
    /// The number of packets, waiting and in service, on the eligible cores of each node. Each core
    /// counts one more, for the packet that would come.
    lengths: Vec<u64>,
    /// Whether all children of each node have equal numbers of these cores.
    is_even: bool,
    /// The number of cores that are taken out.
    out: u32,
    /// The number of this build, unique over all sets and times.
    built: u32,
}

/// The home that was found for a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Remembered {
    /// The connection's key.
    key: u64,
    /// The build of the set for which it was found; 0: no home was found yet.
    built: u32,
    core: CoreId,
}

impl Remembered {
    const UNKNOWN: Self = Self { key: 0, built: 0, core: CoreId(0) };
}

/// The id of the set for one set of eligible cores; valid until another set is requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EligibleSetId(usize);

/// The tree, and for every set of eligible cores the counts that a descent needs.
///
/// The counts are updated with each packet, in O(depth), so that a descent examines only the
/// children on its way. There is one set for all cores together, and one for each service that
/// has only some of them.
#[derive(Debug)]
pub(super) struct Forest {
    /// By level, the root first; within a level by core.
    nodes: Vec<Node>,
    /// The salt with which each node bids among its siblings.
    salts: Vec<u64>,
    rendezvous: Rendezvous,
    /// The node of core 0; the others follow.
    first_leaf: usize,
    /// Packets on each core, waiting and in service.
    packets: IdVec<CoreId, u32>,
    /// The set of all cores, then one for each service.
    sets: Vec<EligibleCores>,
    /// The home of each flow, as of the last request.
    homes: IdVec<FlowId, Remembered>,
    /// The number of builds so far.
    builds: u32,
}

impl Forest {
    /// Builds the tree of the topology, or a flat one.
    ///
    /// # Errors
    /// Rejects a topology with too great a cost.
    pub(super) fn new(config: &SchedulerConfig, distance: Distance) -> Result<Self, BuildError> {
        let (nodes, salts) = match &config.topology {
            Some(topology) => nodes(topology, distance)?,
            None => nodes(&Topology::flat(config.cores), distance)?,
        };
        let count = nodes.len();
        let none = || EligibleCores {
            cores: Vec::with_capacity(config.cores),
            counts: vec![0; count],
            lengths: vec![0; count],
            is_even: false,
            out: 0,
            built: 0,
        };
        let mut forest = Self {
            first_leaf: nodes.len() - config.cores,
            nodes,
            salts,
            rendezvous: config.rendezvous,
            packets: IdVec::from_fn(config.cores, |_| 0),
            sets: (0..=config.services.len()).map(|_| none()).collect(),
            homes: vec![Remembered::UNKNOWN; config.flows].into_iter().collect(),
            builds: 0,
        };
        let all: Vec<CoreId> = forest.packets.ids().collect();
        forest.rebuild(0, &all);
        Ok(forest)
    }

    /// Returns the core of the connection's next packet: a long queue lowers a node's bid, and so
    /// does distance from home.
    ///
    /// As long as home wins, the path is known before the bids are computed.
    #[inline]
    pub(super) fn choose(&self, set: EligibleSetId, key: u64, home: CoreId) -> CoreId {
        let set = &self.sets[set.0];
        let leaf = self.first_leaf + home.index();
        let mut at = 0;
        while at < self.first_leaf {
            let child = child_above(&self.nodes, at, leaf);
            let winner = self.winner(set, &set.lengths, key, at, self.seen_from(child));
            if winner != child {
                return self.descend(set, &set.lengths, key, winner);
            }
            at = child;
        }
        home
    }

    /// Descends from a node to a core, at every node to the child with the highest bid; the home is
    /// outside this node.
    #[inline]
    fn descend(&self, set: &EligibleCores, lengths: &[u64], key: u64, from: usize) -> CoreId {
        let mut at = from;
        while at < self.first_leaf {
            at = self.winner(set, lengths, key, at, Home::ANYWHERE);
        }
        CoreId::from_index(at - self.first_leaf)
    }

    /// Returns the child of a node with the highest bid.
    #[inline]
    fn winner(&self, set: &EligibleCores, lengths: &[u64], key: u64, at: usize, home: Home) -> usize {
        let children = self.nodes[at].children();
        match self.siblings(set, at) {
            Siblings::Only(child) => child,
            Siblings::Even => {
                let (salts, lengths) = (&self.salts[children.clone()], &lengths[children.clone()]);
                children.start + (self.rendezvous.highest_bid)(key, salts, lengths, home)
            }
            Siblings::Uneven => self.by_logarithm(set, lengths, key, home, children),
        }
    }

    /// Returns the home that a child and its siblings use for their bids if the child contains it.
    #[inline]
    fn seen_from(&self, child: usize) -> Home {
        let node = &self.nodes[child];
        Home {
            place: child - self.nodes[node.parent as usize].children.start as usize,
            away_permille: node.cost_permille,
        }
    }

    /// Returns how the eligible cores of a node, at least one, are spread over its children.
    #[inline]
    fn siblings(&self, set: &EligibleCores, at: usize) -> Siblings {
        let children = self.nodes[at].children();
        if set.is_even && set.out == 0 || children.start >= self.first_leaf {
            return Siblings::Even;
        }
        let counts = &set.counts;
        let first = children.clone().find(|&child| counts[child] > 0).expect("a node on the way has a core");
        let each = counts[first];
        if each == counts[at] {
            Siblings::Only(first)
        } else if counts[first..children.end].iter().all(|&count| count == 0 || count == each) {
            Siblings::Even
        } else {
            Siblings::Uneven
        }
    }

    /// Returns the child with the highest bid if chances are to be proportional to numbers of cores.
    fn by_logarithm(
        &self,
        set: &EligibleCores,
        lengths: &[u64],
        key: u64,
        home: Home,
        children: Range<usize>,
    ) -> usize {
        let bid = |(place, child): (usize, usize)| {
            let (cores, length) = (set.counts[child] as f64, lengths[child] * u64::from(home.permille(place)));
            (child, Cost::log(score(key, self.salts[child]), cores * cores, length as f64))
        };
        let bids = children.enumerate().filter(|&(_, child)| set.counts[child] > 0).map(bid);
        highest(bids).expect("a node on the way has a core")
    }

    /// Returns the home: the core of the packet's connection if all cores are idle. It depends only
    /// on the connection and on the set, so it is remembered for each flow. No core of the set
    /// may be taken out.
    #[inline]
    pub(super) fn home(&mut self, set: EligibleSetId, packet: &Packet) -> CoreId {
        let built = self.sets[set.0].built;
        let home = self.homes[packet.flow];
        if home.key == packet.key && home.built == built {
            return home.core;
        }
        let core = self.find_home(set, packet.key);
        self.homes[packet.flow] = Remembered { key: packet.key, built, core };
        core
    }

    #[inline(never)]
    fn find_home(&self, set: EligibleSetId, key: u64) -> CoreId {
        let set = &self.sets[set.0];
        self.descend(set, &set.counts, key, 0)
    }

    /// Records that a packet has joined a core.
    #[inline]
    pub(super) fn on_enqueue(&mut self, core: CoreId) {
        self.packets[core] += 1;
        self.count(core, |length| *length += 1);
    }

    /// Records that a packet has left a core.
    #[inline]
    pub(super) fn on_completion(&mut self, core: CoreId) {
        self.packets[core] -= 1;
        self.count(core, |length| *length -= 1);
    }

    /// Changes the length of every node above a core, in every set that has the core.
    #[inline]
    fn count(&mut self, core: CoreId, change: impl Fn(&mut u64)) {
        let leaf = self.first_leaf + core.index();
        for set in self.sets.iter_mut().filter(|set| set.counts[leaf] > 0) {
            climb(&self.nodes, leaf, |node| change(&mut set.lengths[node]));
        }
    }

    /// Returns the set of a service with these eligible cores, ascending.
    #[inline]
    pub(super) fn eligible_set(&mut self, service: ServiceId, eligible: &[CoreId]) -> EligibleSetId {
        if eligible.len() == self.packets.len() {
            return EligibleSetId(0);
        }
        let set = 1 + service.index();
        if !same(&self.sets[set].cores, eligible) {
            self.rebuild(set, eligible);
        }
        EligibleSetId(set)
    }

    /// Rebuilds a set with these cores.
    fn rebuild(&mut self, set: usize, cores: &[CoreId]) {
        if self.builds == u32::MAX {
            self.builds = self.sets.len() as u32;
            self.sets.iter_mut().zip(1..).for_each(|(set, built)| set.built = built);
            self.homes.iter_mut().for_each(|home| *home = Remembered::UNKNOWN);
        }
        self.builds += 1;
        let new = &mut self.sets[set];
        new.built = self.builds;
        new.cores.clear();
        new.cores.extend_from_slice(cores);
        new.counts.fill(0);
        new.lengths.fill(0);
        for &core in cores {
            self.put_in(set, core);
        }
        let set = &mut self.sets[set];
        let is_even = |node: &Node| set.counts[node.children()].windows(2).all(|pair| pair[0] == pair[1]);
        set.is_even = self.nodes.iter().all(is_even);
    }

    /// Counts a core among those that may be chosen.
    fn put_in(&mut self, set: usize, core: CoreId) {
        let length = 1 + u64::from(self.packets[core]);
        let set = &mut self.sets[set];
        climb(&self.nodes, self.first_leaf + core.index(), |node| {
            set.counts[node] += 1;
            set.lengths[node] += length;
        });
    }

    /// Excludes a core from choices. It must be put back before the next event.
    pub(super) fn take_out(&mut self, set: EligibleSetId, core: CoreId) {
        let length = 1 + u64::from(self.packets[core]);
        let set = &mut self.sets[set.0];
        set.out += 1;
        climb(&self.nodes, self.first_leaf + core.index(), |node| {
            set.counts[node] -= 1;
            set.lengths[node] -= length;
        });
    }

    /// Makes a core that was taken out eligible again.
    pub(super) fn put_back(&mut self, set: EligibleSetId, core: CoreId) {
        self.sets[set.0].out -= 1;
        self.put_in(set.0, core);
    }

    /// Panics if a count is not the sum of those below it.
    pub(super) fn check(&self) {
        for set in &self.sets {
            let (mut counts, mut lengths) = (vec![0; self.nodes.len()], vec![0; self.nodes.len()]);
            for &core in &set.cores {
                climb(&self.nodes, self.first_leaf + core.index(), |node| {
                    counts[node] += 1;
                    lengths[node] += 1 + u64::from(self.packets[core]);
                });
            }
            assert_eq!(set.counts, counts, "counts of the tree of cores {:?}", set.cores);
            assert_eq!(set.lengths, lengths, "lengths of the tree of cores {:?}", set.cores);
        }
    }
}

/// The distribution of the eligible cores over the children of a node.
enum Siblings {
    /// All under this child.
    Only(usize),
    /// Equally many under each child that has any.
    Even,
    /// Some children have more.
    Uneven,
}

/// Visits a node and all its ancestors.
#[inline]
fn climb(nodes: &[Node], from: usize, mut visit: impl FnMut(usize)) {
    let mut node = from;
    visit(node);
    while node != 0 {
        node = nodes[node].parent as usize;
        visit(node);
    }
}

/// Returns the child of `above` that contains `below`.
#[inline]
fn child_above(nodes: &[Node], above: usize, below: usize) -> usize {
    let mut node = below;
    while nodes[node].parent as usize != above {
        node = nodes[node].parent as usize;
    }
    node
}

/// Whether two sets of cores are the same. Without a branch for each core, so it is fast.
#[inline]
pub(super) fn same(a: &[CoreId], b: &[CoreId]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a.0 ^ b.0)) == 0
}

/// Returns the nodes of a topology, level by level, and their salts.
fn nodes(topology: &Topology, distance: Distance) -> Result<(Vec<Node>, Vec<u64>), BuildError> {
    let cores = topology.cores();
    let stride = cores.next_power_of_two().max(1000);
    let mut nodes: Vec<Node> = Vec::new();
    let mut salts = Vec::new();
    let mut above = 0;
    for level in 0..=topology.depth() {
        let costs = level > 0 && (distance == Distance::Levels || level == topology.depth());
        let cost_permille = if costs { topology.cost_permille(level) } else { 1000 };
        if cost_permille > COST_PERMILLE_MAX {
            return Err(BuildError::set_up(format!(
                "leaving a group costs at most {COST_PERMILLE_MAX} thousandths of staying, not {cost_permille}"
            )));
        }
        let first = nodes.len();
        for (core, group) in (0..cores).map(|core| (core, topology.group(level, CoreId::from_index(core)))) {
            let begins = core == 0 || group != topology.group(level, CoreId::from_index(core - 1));
            if begins {
                salts.push(salt((stride * level + core) as u64));
                let parent = match level {
                    0 => 0,
                    _ => above + topology.group(level - 1, CoreId::from_index(core)),
                };
                let (core, parent) = (core as u32, parent as u32);
                nodes.push(Node { cost_permille, parent, children: 0..0, cores: core..core });
            }
            nodes.last_mut().expect("the first core begins a group").cores.end = core as u32 + 1;
        }
        above = first;
    }
    for node in 1..nodes.len() {
        let parent = nodes[node].parent as usize;
        let children = &mut nodes[parent].children;
        *children = if children.end == 0 { node as u32 } else { children.start }..node as u32 + 1;
    }
    Ok((nodes, salts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{keys, shares};
    use crate::testing::config;
    use alloc::string::ToString;
    use humpyard_core::hash::unit_score;
    use humpyard_core::random::Seed;

    /// Two sockets of two caches of two cores: the machine of the paper, with the costs of the specification.
    fn e5355() -> Topology {
        Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap()
    }

    fn forest(topology: Option<&Topology>, cores: usize) -> Forest {
        Forest::new(&SchedulerConfig { topology: topology.cloned(), ..config(cores, 1, &[]) }, Distance::Levels)
            .unwrap()
    }

    fn load(forest: &mut Forest, lengths: &[u32]) {
        for (core, &length) in lengths.iter().enumerate() {
            (0..length).for_each(|_| forest.on_enqueue(CoreId::from_index(core)));
        }
    }

    /// Returns the bids of the children of a node.
    fn bids(forest: &Forest, set: EligibleSetId, node: usize, key: u64, home: CoreId) -> Vec<f64> {
        let set = &forest.sets[set.0];
        let home = match &forest.nodes[node] {
            parent if parent.cores.contains(&u32::from(home.0)) => {
                forest.seen_from(child_above(&forest.nodes, node, forest.first_leaf + home.index()))
            }
            _ => Home::ANYWHERE,
        };
        let bid = |(place, child): (usize, usize)| {
            let length = (set.lengths[child] * u64::from(home.permille(place))) as f64;
            unit_score(score(key, forest.salts[child])) * set.counts[child] as f64 * 1000.0 / length
        };
        forest.nodes[node].children().enumerate().map(bid).collect()
    }

    fn homes(forest: &mut Forest, eligible: &[CoreId], keys: &[u64]) -> Vec<CoreId> {
        let set = forest.eligible_set(ServiceId(0), eligible);
        keys.iter().map(|&key| forest.find_home(set, key)).collect()
    }

    fn without(cores: u16, gone: &[u16]) -> Vec<CoreId> {
        (0..cores).filter(|core| !gone.contains(core)).map(CoreId).collect()
    }

    #[test]
    fn a_topology_becomes_nodes() {
        let (nodes, salts) = nodes(&e5355(), Distance::Levels).unwrap();
        assert_eq!(nodes.len(), 1 + 2 + 4 + 8);
        assert_eq!(
            (nodes[0].children.clone(), nodes[2].children.clone(), nodes[6].children.clone()),
            (1..3, 5..7, 13..15)
        );
        assert_eq!((nodes[2].cores.clone(), nodes[5].cores.clone(), nodes[13].cores.clone()), (4..8, 4..6, 6..7));
        assert_eq!([2, 6, 13].map(|node| nodes[node].parent), [0, 2, 6]);
        assert_eq!([2, 6, 13].map(|node| nodes[node].cost_permille), [2000, 1400, 1100]);
        assert_eq!([2, 6, 13].map(|node| salts[node]), [1004, 2006, 3006].map(salt));
    }

    #[test]
    fn example_of_the_specification() {
        let tree = e5355();
        let mut forest = forest(Some(&tree), 8);
        load(&mut forest, &[2, 0, 1, 3, 0, 0, 4, 1]);
        let set = EligibleSetId(0);
        let ways = [
            (12345, 3, 2, [(0, [0.3514, 0.1061]), (1, [0.0173, 0.0458]), (4, [0.1110, 0.0869])]),
            (1, 7, 7, [(0, [0.0253, 0.3125]), (2, [0.1019, 0.1666]), (6, [0.0455, 0.4901])]),
        ];
        for (key, home, core, levels) in ways {
            let home = CoreId(home);
            assert_eq!(forest.find_home(set, key), home);
            for (node, expected) in levels {
                for (found, expected) in bids(&forest, set, node, key, home).iter().zip(expected) {
                    assert!((found - expected).abs() < 5.1e-5, "key {key}, node {node}: {found}, not {expected}");
                }
            }
            assert_eq!(forest.choose(set, key, home), CoreId(core));
        }
        let chosen = [2, 3].map(|key| forest.choose(set, key, forest.find_home(set, key)));
        assert_eq!(chosen, [CoreId(5), CoreId(4)]);
        assert_eq!([12345, 1, 2, 3].map(|key| forest.find_home(set, key)), [3, 7, 5, 4].map(CoreId));
    }

    /// A direct implementation of the specification: floats, no counts, every mean computed again.
    fn naive(tree: &Topology, lengths: &[u32], eligible: &[CoreId], key: u64, home: Option<CoreId>) -> CoreId {
        let mut group: Vec<CoreId> = eligible.to_vec();
        for level in 1..=tree.depth() {
            let all: Vec<CoreId> = (0..tree.cores()).map(CoreId::from_index).collect();
            let above = tree.group(level - 1, group[0]);
            let mut children: Vec<usize> = group.iter().map(|&core| tree.group(level, core)).collect();
            children.dedup();
            let members = |child: usize| -> Vec<CoreId> {
                group.iter().copied().filter(|&core| tree.group(level, core) == child).collect()
            };
            let even = children.iter().all(|&child| members(child).len() == members(children[0]).len());
            let bid = |child: usize| {
                let first_leaf = all.iter().position(|&core| tree.group(level, core) == child).unwrap();
                let g = unit_score(score(key, salt((1000 * level + first_leaf) as u64)));
                let members = members(child);
                let count = members.len() as f64;
                let sum: f64 = members.iter().map(|&core| f64::from(lengths[core.index()]) + 1.0).sum();
                let far =
                    home.is_some_and(|home| tree.group(level - 1, home) == above && tree.group(level, home) != child);
                let cost = if far { f64::from(tree.cost_permille(level)) / 1000.0 } else { 1.0 };
                let mean = if home.is_some() { sum / count } else { 1.0 };
                if even { g / (cost * mean) } else { -count / libm::log(g) / (cost * mean) }
            };
            let bids: Vec<f64> = children.iter().map(|&child| bid(child)).collect();
            let best = (0..children.len()).fold(0, |best, i| if bids[i] > bids[best] { i } else { best });
            group = members(children[best]);
        }
        group[0]
    }

    #[test]
    fn counts_and_exact_bids_decide_as_means_and_floats() {
        let shapes: [&[(usize, u32)]; 5] = [
            &[(8, 1300)],
            &[(2, 2000), (2, 1400), (2, 1100)],
            &[(3, 1700), (4, 1000)],
            &[(1, 1500), (5, 1200)],
            &[(2, 1000); 4],
        ];
        let mut random = Seed(9).stream("test");
        for shape in shapes {
            let tree = Topology::regular(shape).unwrap();
            let mut forest = forest(Some(&tree), tree.cores());
            let lengths: Vec<u32> = (0..tree.cores()).map(|_| random.below(7) as u32).collect();
            load(&mut forest, &lengths);
            for key in keys(500) {
                let mut eligible: Vec<CoreId> = forest.packets.ids().filter(|_| random.below(3) > 0).collect();
                if eligible.is_empty() || random.below(4) == 0 {
                    eligible = forest.packets.ids().collect();
                }
                let set = forest.eligible_set(ServiceId(0), &eligible);
                let home = forest.find_home(set, key);
                assert_eq!(home, naive(&tree, &lengths, &eligible, key, None));
                assert_eq!(forest.choose(set, key, home), naive(&tree, &lengths, &eligible, key, Some(home)));
                forest.check();
            }
        }
    }

    #[test]
    fn idle_cores_leave_connections_at_home() {
        let tree = e5355();
        let mut forest = forest(Some(&tree), 8);
        for gone in [[].as_slice(), &[3], &[0, 1, 6], &[0, 2, 3, 4, 5, 6, 7]] {
            let eligible = without(8, gone);
            let set = forest.eligible_set(ServiceId(0), &eligible);
            for key in keys(2000) {
                let home = forest.find_home(set, key);
                assert!(eligible.contains(&home));
                assert_eq!(forest.choose(set, key, home), home);
            }
        }
    }

    #[test]
    fn every_eligible_core_is_home_to_as_many() {
        let tree = e5355();
        let mut forest = forest(Some(&tree), 8);
        for gone in [[].as_slice(), &[7], &[0, 1, 6]] {
            let eligible = without(8, gone);
            let found = shares(&homes(&mut forest, &eligible, &keys(100_000)), 8);
            for &core in &eligible {
                let (share, expected) = (found[core.index()], 1.0 / eligible.len() as f64);
                assert!((share - expected).abs() < 5e-3, "core {core} without {gone:?}: {share}, not {expected}");
            }
        }
    }

    /// A group that loses a core bids less, and no other bid changes: connections leave only the
    /// groups of the removed core.
    #[test]
    fn without_a_core_connections_leave_its_groups_alone() {
        let tree = e5355();
        let mut forest = forest(Some(&tree), 8);
        let keys = keys(100_000);
        let before = homes(&mut forest, &without(8, &[]), &keys);
        let after = homes(&mut forest, &without(8, &[7]), &keys);
        for (&before, &after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
            let level = (1..=3).find(|&level| tree.group(level, before) != tree.group(level, after)).unwrap();
            assert_eq!(tree.group(level, before), tree.group(level, CoreId(7)), "{before} to {after}");
        }
        let left = |level| {
            let other = |&&(before, after): &&(CoreId, CoreId)| tree.group(level, before) != tree.group(level, after);
            let pairs: Vec<(CoreId, CoreId)> = before.iter().copied().zip(after.iter().copied()).collect();
            pairs.iter().filter(other).count() as f64 / keys.len() as f64
        };
        assert!((left(1) - (1.0 / 2.0 - 3.0 / 7.0)).abs() < 3e-3, "{} changed socket", left(1));
    }

    #[test]
    fn a_core_taken_out_is_not_chosen_until_it_is_put_back() {
        let tree = e5355();
        let mut forest = forest(Some(&tree), 8);
        load(&mut forest, &[2, 0, 1, 3, 0, 0, 4, 1]);
        let set = forest.eligible_set(ServiceId(0), &without(8, &[5]));
        let mut order = Vec::new();
        for _ in 0..7 {
            let core = forest.choose(set, 12345, CoreId(3));
            assert!(!order.contains(&core) && core != CoreId(5));
            forest.take_out(set, core);
            order.push(core);
        }
        order.iter().for_each(|&core| forest.put_back(set, core));
        forest.check();
        assert_eq!(forest.choose(set, 12345, CoreId(3)), order[0]);
    }

    #[test]
    fn a_cost_beyond_measure_is_refused() {
        let tree = Topology::regular(&[(2, 1_000_001)]).unwrap();
        let error =
            Forest::new(&SchedulerConfig { topology: Some(tree.clone()), ..config(2, 1, &[]) }, Distance::Levels)
                .unwrap_err();
        assert_eq!(error.to_string(), "leaving a group costs at most 1000000 thousandths of staying, not 1000001");
    }
}
