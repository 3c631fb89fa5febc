//! Path and processing node by one metric: the shortest path in a graph that is there twice.
//!
//! **Idea.** A flow is either not yet processed or processed. So every node is there twice, once for each, and every link too;
//! to be processed at a node is one more link, from its first self to its second. A path from where the flow comes in, not yet
//! processed, to where it leaves, processed, is a path and a processing node, and the shortest is the best (Dijkstra).
//!
//! **Source.** The EFQ and LAP paper, section 3.3.3, which leaves the details to another.
//!
//! A path may take a link twice, before and after it is processed. Where there is room for one of the two alone, both paths are
//! looked at that do without the other, so that the answer is still the best.

use petgraph::algo::astar;
use petgraph::graph::{DiGraph, NodeIndex};

/// What a path costs a flow, in ns. `None`: the flow may not take it.
pub(super) struct Ways<'a> {
    /// From which node to which each link goes.
    pub(super) ends: &'a [(usize, usize)],
    /// What each link costs, before and after the flow is processed.
    pub(super) links: &'a [[Option<f64>; 2]],
    /// Whether a link may be taken both before and after.
    pub(super) twice: &'a [bool],
    /// What it costs to be processed at each node.
    pub(super) nodes: &'a [Option<f64>],
}

/// A path with a processing node.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Route {
    /// Where the flow is processed.
    pub(super) node: usize,
    /// The links before and after that, in order.
    pub(super) links: [Vec<usize>; 2],
    /// What it costs in all.
    pub(super) cost: f64,
}

/// A link at a layer that must not be taken.
type Ban = (usize, usize);

/// The best route from one node to another; none if there is none.
pub(super) fn best(ways: &Ways<'_>, from: usize, to: usize) -> Option<Route> {
    search(ways, from, to, &mut Vec::new())
}

fn search(ways: &Ways<'_>, from: usize, to: usize, bans: &mut Vec<Ban>) -> Option<Route> {
    let route = shortest(ways, from, to, bans)?;
    let [before, after] = &route.links;
    let Some(&link) = before.iter().find(|link| after.contains(link) && !ways.twice[**link]) else {
        return Some(route);
    };
    let without = [0, 1].map(|layer| {
        bans.push((link, layer));
        let route = search(ways, from, to, bans);
        bans.pop();
        route
    });
    without.into_iter().flatten().min_by(|a, b| a.cost.total_cmp(&b.cost))
}

/// A step of a path.
#[derive(Clone, Copy)]
enum Step {
    Link(usize),
    Process(usize),
}

fn shortest(ways: &Ways<'_>, from: usize, to: usize, bans: &[Ban]) -> Option<Route> {
    let count = ways.nodes.len();
    let mut graph: DiGraph<(), (Step, f64)> = DiGraph::new();
    let at: Vec<NodeIndex> = (0..2 * count).map(|_| graph.add_node(())).collect();
    for (node, cost) in ways.nodes.iter().enumerate() {
        if let Some(cost) = *cost {
            graph.add_edge(at[node], at[count + node], (Step::Process(node), cost));
        }
    }
    for (link, (&(from, to), costs)) in ways.ends.iter().zip(ways.links).enumerate() {
        for (layer, cost) in costs.iter().enumerate() {
            if let Some(cost) = cost.filter(|_| !bans.contains(&(link, layer))) {
                graph.add_edge(at[layer * count + from], at[layer * count + to], (Step::Link(link), cost));
            }
        }
    }
    let goal = at[count + to];
    let (cost, path) = astar(&graph, at[from], |node| node == goal, |edge| edge.weight().1, |_| 0.0)?;
    let mut route = Route { node: from, links: [Vec::new(), Vec::new()], cost };
    let mut layer = 0;
    for pair in path.windows(2) {
        let edges = graph.edges_connecting(pair[0], pair[1]);
        let edge = edges.min_by(|a, b| a.weight().1.total_cmp(&b.weight().1))?;
        match edge.weight().0 {
            Step::Link(link) => route.links[layer].push(link),
            Step::Process(node) => (route.node, layer) = (node, 1),
        }
    }
    Some(route)
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::random::{Random, Seed};

    /// A network of chance, with what its ways cost.
    struct Drawn {
        ends: Vec<(usize, usize)>,
        links: Vec<[Option<f64>; 2]>,
        twice: Vec<bool>,
        nodes: Vec<Option<f64>>,
    }

    impl Drawn {
        /// Any network; or a ring one way with one engine, where links are taken twice.
        fn new(random: &mut Random) -> Self {
            if random.below(3) == 0 {
                let more = Self::any(3, random);
                let cost = |random: &mut Random| Some(random.below(20) as f64);
                let ring = (0..3).map(|_| [cost(random), cost(random)]);
                let (links, ends) =
                    (ring.chain(more.links).collect(), [(0, 1), (1, 2), (2, 0)].into_iter().chain(more.ends));
                let twice = (0..3).map(|_| random.below(4) > 0).chain(more.twice).collect();
                let nodes = vec![None, None, Some(random.below(20) as f64)];
                return Self { ends: ends.collect(), links, twice, nodes };
            }
            let count = 1 + random.below(5) as usize;
            Self::any(count, random)
        }

        fn any(count: usize, random: &mut Random) -> Self {
            let cost = |random: &mut Random| (random.below(4) > 0).then(|| random.below(20) as f64);
            let nodes = (0..count).map(|_| cost(random)).collect();
            let links = if count == 1 { 0 } else { random.below(9) as usize };
            let end = |random: &mut Random| {
                let from = random.below(count as u64) as usize;
                (from, (from + 1 + random.below(count as u64 - 1) as usize) % count)
            };
            let ends = (0..links).map(|_| end(random)).collect();
            let costs: Vec<[Option<f64>; 2]> = (0..links).map(|_| [cost(random), cost(random)]).collect();
            let twice = (0..links).map(|_| random.below(3) == 0).collect();
            Self { ends, links: costs, twice, nodes }
        }

        fn ways(&self) -> Ways<'_> {
            Ways { ends: &self.ends, links: &self.links, twice: &self.twice, nodes: &self.nodes }
        }

        /// Every path without a loop from here on, layer by layer; the least cost of those that are allowed.
        fn brute_force(
            &self,
            at: usize,
            layer: usize,
            to: usize,
            taken: &mut [Vec<usize>; 2],
            been: &mut Vec<(usize, usize)>,
        ) -> Option<f64> {
            let mut least = (layer == 1 && at == to).then_some(0.0);
            let mut take = |cost: Option<f64>| {
                if let Some(cost) = cost
                    && least.is_none_or(|least| cost < least)
                {
                    least = Some(cost);
                }
            };
            if layer == 0
                && let Some(cost) = self.nodes[at]
            {
                been.push((at, 1));
                take(self.brute_force(at, 1, to, taken, been).map(|rest| cost + rest));
                been.pop();
            }
            for (link, &(from, next)) in self.ends.iter().enumerate() {
                let again = layer == 1 && taken[0].contains(&link) && !self.twice[link];
                if from != at || again || been.contains(&(next, layer)) {
                    continue;
                }
                if let Some(cost) = self.links[link][layer] {
                    been.push((next, layer));
                    taken[layer].push(link);
                    take(self.brute_force(next, layer, to, taken, been).map(|rest| cost + rest));
                    taken[layer].pop();
                    been.pop();
                }
            }
            least
        }
    }

    #[test]
    fn routes_are_as_good_as_the_best_of_all_paths() {
        let (mut found, mut links_twice, mut without) = (0, 0, 0);
        for seed in 0..4_000 {
            let mut random = Seed(seed).stream("routes");
            let drawn = Drawn::new(&mut random);
            let (from, to) = (0, random.below(drawn.nodes.len() as u64) as usize);
            let route = best(&drawn.ways(), from, to);
            let brute = drawn.brute_force(from, 0, to, &mut [Vec::new(), Vec::new()], &mut vec![(from, 0)]);
            assert_eq!(route.as_ref().map(|route| route.cost), brute, "seed {seed}");
            let Some(route) = route else { continue };
            found += 1;
            links_twice += usize::from(route.links[0].iter().any(|link| route.links[1].contains(link)));
            let free = vec![true; drawn.twice.len()];
            let unbound =
                best(&Ways { twice: &free, ..drawn.ways() }, from, to).expect("what is allowed is allowed then");
            without += usize::from(unbound.cost < route.cost);
            check(&drawn, &route, from, to);
        }
        assert!(found > 1_500, "{found} routes");
        assert!(links_twice > 20 && without > 20, "{links_twice} take a link twice, {without} may not");
    }

    /// The route is one: its links join, and its cost is theirs.
    fn check(drawn: &Drawn, route: &Route, from: usize, to: usize) {
        let mut at = from;
        let mut cost = drawn.nodes[route.node].expect("an engine");
        for layer in 0..2 {
            for &link in &route.links[layer] {
                assert_eq!(drawn.ends[link].0, at);
                at = drawn.ends[link].1;
                cost += drawn.links[link][layer].expect("room");
                assert!(drawn.twice[link] || layer == 0 || !route.links[0].contains(&link));
            }
            assert_eq!(at, if layer == 0 { route.node } else { to });
        }
        assert_eq!(cost, route.cost);
    }
}
