//! Connections in the order of their keys, with the amount that each holds and the sum of those before it.
//!
//! The structure is a search tree whose nodes store the sum of their subtree. It stays shallow
//! because every node has a random rank, and no parent ranks below its child (a treap: Seidel,
//! Aragon. Randomized search trees. Algorithmica 16, 1996). Ranks are hashes of flow ids, so the
//! same connections make the same tree in any order of arrival.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::hash::mix;
use humpyard_core::id::{FlowId, IdVec, ServiceId};

/// Stands for no node.
const NONE: u32 = u32::MAX;

/// A connection in the tree of a service.
#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    /// The amount that it holds.
    held: u64,
    /// The sum of its subtree, itself included.
    sum: u64,
    left: u32,
    right: u32,
    parent: u32,
    service: ServiceId,
    is_member: bool,
}

impl Node {
    const ABSENT: Self = Self {
        key: 0,
        held: 0,
        sum: 0,
        left: NONE,
        right: NONE,
        parent: NONE,
        service: ServiceId(0),
        is_member: false,
    };
}

/// A tree of connections for each service, in memory that is allocated once: 48 bytes for each flow.
///
/// Unless stated otherwise, operations take O(log n) on average in the connections of the service.
#[derive(Debug)]
pub(super) struct PrefixTree {
    nodes: IdVec<FlowId, Node>,
    roots: IdVec<ServiceId, u32>,
}

impl PrefixTree {
    /// Creates empty trees for these numbers of flows and services.
    pub(super) fn new(flows: usize, services: usize) -> Self {
        Self {
            nodes: vec![Node::ABSENT; flows].into_iter().collect(),
            roots: vec![NONE; services].into_iter().collect(),
        }
    }

    /// Returns the amount that all connections of a service hold. O(1).
    #[inline]
    pub(super) fn total(&self, service: ServiceId) -> u64 {
        self.sum(self.roots[service])
    }

    /// Returns the amount that a connection holds. O(1).
    #[inline]
    pub(super) fn held(&self, flow: FlowId) -> u64 {
        self.nodes[flow].held
    }

    /// Returns the sum that the connections before this one hold.
    #[inline]
    pub(super) fn before(&self, flow: FlowId) -> u64 {
        let mut at = &self.nodes[flow];
        let (mut below, mut before) = (flow.0, self.sum(at.left));
        while at.parent != NONE {
            let parent = &self.nodes[FlowId(at.parent)];
            if parent.right == below {
                before += parent.held + self.sum(parent.left);
            }
            (below, at) = (at.parent, parent);
        }
        before
    }

    /// Adds a connection, with the amount that it holds, to the tree of this service.
    pub(super) fn enter(&mut self, flow: FlowId, service: ServiceId, key: u64) {
        let node = &self.nodes[flow];
        if node.is_member && node.service == service && node.key == key {
            return;
        }
        let held = node.held;
        self.remove(flow);
        self.nodes[flow] = Node { key, service, is_member: true, ..Node::ABSENT };
        self.insert(flow, service);
        self.change(flow, |count| *count += held);
    }

    /// Removes a connection, with the amount that it holds.
    pub(super) fn remove(&mut self, flow: FlowId) {
        let Node { held, is_member, .. } = self.nodes[flow];
        if !is_member {
            return;
        }
        self.change(flow, |count| *count -= held);
        while let Some(child) = self.higher_child(flow) {
            self.rotate_up(child);
        }
        let Node { parent, service, .. } = self.nodes[flow];
        self.replace_child(parent, service, flow.0, NONE);
        self.nodes[flow] = Node::ABSENT;
    }

    /// Increases the amount that a connection holds.
    #[inline]
    pub(super) fn add(&mut self, flow: FlowId, amount: u64) {
        self.change(flow, |count| *count += amount);
    }

    /// Decreases the amount that a connection holds.
    #[inline]
    pub(super) fn subtract(&mut self, flow: FlowId, amount: u64) {
        self.change(flow, |count| *count -= amount);
    }

    /// Changes the amount that a connection holds, and the sums above it.
    #[inline]
    fn change(&mut self, flow: FlowId, change: impl Fn(&mut u64)) {
        change(&mut self.nodes[flow].held);
        let mut at = flow.0;
        while at != NONE {
            let node = &mut self.nodes[FlowId(at)];
            change(&mut node.sum);
            at = node.parent;
        }
    }

    #[inline]
    fn sum(&self, at: u32) -> u64 {
        if at == NONE { 0 } else { self.nodes[FlowId(at)].sum }
    }

    /// Attaches a connection that holds nothing below a leaf, then lifts it to its rank.
    fn insert(&mut self, flow: FlowId, service: ServiceId) {
        let place = (self.nodes[flow].key, flow.0);
        let (mut above, mut at) = (NONE, self.roots[service]);
        while at != NONE {
            let node = &self.nodes[FlowId(at)];
            (above, at) = (at, if place < (node.key, at) { node.left } else { node.right });
        }
        self.nodes[flow].parent = above;
        if above == NONE {
            self.roots[service] = flow.0;
            return;
        }
        let parent = &mut self.nodes[FlowId(above)];
        if place < (parent.key, above) {
            parent.left = flow.0;
        } else {
            parent.right = flow.0;
        }
        while self.nodes[flow].parent != NONE && rank(flow.0) > rank(self.nodes[flow].parent) {
            self.rotate_up(flow);
        }
    }

    /// Returns the child of a node that ranks higher. `None`: the node has no child.
    fn higher_child(&self, flow: FlowId) -> Option<FlowId> {
        let Node { left, right, .. } = self.nodes[flow];
        match (left, right) {
            (NONE, NONE) => None,
            (child, NONE) | (NONE, child) => Some(FlowId(child)),
            _ => Some(FlowId(if rank(left) > rank(right) { left } else { right })),
        }
    }

    /// Puts a node in the place of its parent, which becomes its child.
    fn rotate_up(&mut self, flow: FlowId) {
        let parent = FlowId(self.nodes[flow].parent);
        let Node { parent: above, service, left, sum, .. } = self.nodes[parent];
        let inner = if left == flow.0 {
            let inner = self.nodes[flow].right;
            self.nodes[flow].right = parent.0;
            self.nodes[parent].left = inner;
            inner
        } else {
            let inner = self.nodes[flow].left;
            self.nodes[flow].left = parent.0;
            self.nodes[parent].right = inner;
            inner
        };
        if inner != NONE {
            self.nodes[FlowId(inner)].parent = parent.0;
        }
        self.replace_child(above, service, parent.0, flow.0);
        self.nodes[flow].parent = above;
        self.nodes[parent].parent = flow.0;
        self.nodes[flow].sum = sum;
        let Node { held, left, right, .. } = self.nodes[parent];
        self.nodes[parent].sum = held + self.sum(left) + self.sum(right);
    }

    /// Replaces a child of `above`, or the root, by another node or by [`NONE`].
    fn replace_child(&mut self, above: u32, service: ServiceId, old: u32, new: u32) {
        if above == NONE {
            self.roots[service] = new;
            return;
        }
        let above = &mut self.nodes[FlowId(above)];
        if above.left == old {
            above.left = new;
        } else {
            above.right = new;
        }
    }

    /// Returns the members of a service's tree, in order. Slow: for checks.
    fn in_order(&self, service: ServiceId) -> Vec<FlowId> {
        let (mut order, mut open, mut at) = (Vec::new(), Vec::new(), self.roots[service]);
        while at != NONE || !open.is_empty() {
            while at != NONE {
                open.push(at);
                at = self.nodes[FlowId(at)].left;
            }
            let next = open.pop().expect("a node is open");
            order.push(FlowId(next));
            at = self.nodes[FlowId(next)].right;
        }
        order
    }

    /// Panics unless every tree is ordered by key and by rank, and its sums are right.
    pub(super) fn check(&self) {
        let mut members = 0;
        for service in self.roots.ids() {
            let order = self.in_order(service);
            members += order.len();
            assert!(order.is_sorted_by_key(|&flow| (self.nodes[flow].key, flow)), "connections of service {service}");
            for &flow in &order {
                let node = &self.nodes[flow];
                assert!(node.is_member && node.service == service, "connection {flow} of service {service}");
                assert_eq!(node.sum, node.held + self.sum(node.left) + self.sum(node.right), "the sum of {flow}");
                for child in [node.left, node.right].into_iter().filter(|&child| child != NONE) {
                    let below = &self.nodes[FlowId(child)];
                    assert!(below.parent == flow.0 && rank(child) < rank(flow.0), "{child} below {flow}");
                }
            }
        }
        assert_eq!(members, self.nodes.iter().filter(|node| node.is_member).count(), "connections in trees");
    }
}

/// Returns a rank that is as good as random for any keys.
#[inline]
fn rank(flow: u32) -> (u64, u32) {
    (mix(u64::from(flow) ^ 0x5EED_0F7A_11E5_0000), flow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use humpyard_core::random::Seed;

    const SERVICE: ServiceId = ServiceId(0);

    #[test]
    fn sums_before_are_those_of_a_list_whatever_happens() {
        let mut random = Seed(4).stream("test");
        let mut tree = PrefixTree::new(64, 2);
        let mut list: BTreeMap<FlowId, (ServiceId, u64, u64)> = BTreeMap::new();
        for _ in 0..4000 {
            let flow = FlowId(random.below(64) as u32);
            match random.below(5) {
                0 => {
                    tree.remove(flow);
                    list.remove(&flow);
                }
                1 | 2 => {
                    let (service, key) = (ServiceId(random.below(2) as u16), random.below(40));
                    tree.enter(flow, service, key);
                    let held = list.get(&flow).map_or(0, |&(_, _, held)| held);
                    list.insert(flow, (service, key, held));
                }
                _ => {
                    let amount = random.below(1500);
                    if let Some((_, _, held)) = list.get_mut(&flow) {
                        let less = amount.min(*held);
                        tree.add(flow, amount);
                        tree.subtract(flow, less);
                        *held = *held + amount - less;
                    }
                }
            }
            tree.check();
            for (&flow, &(service, key, held)) in &list {
                let is_before = |other: &(&FlowId, &(ServiceId, u64, u64))| {
                    other.1.0 == service && (other.1.1, other.0) < (key, &flow)
                };
                let before: u64 = list.iter().filter(is_before).map(|(_, &(_, _, held))| held).sum();
                assert_eq!((tree.before(flow), tree.held(flow)), (before, held), "connection {flow}");
            }
            for service in [ServiceId(0), ServiceId(1)] {
                let total: u64 = list.values().filter(|entry| entry.0 == service).map(|entry| entry.2).sum();
                assert_eq!(tree.total(service), total);
            }
        }
    }

    #[test]
    fn keys_in_order_or_all_alike_leave_it_shallow() {
        let depth = |tree: &PrefixTree, flow: FlowId| {
            core::iter::successors(Some(flow.0), |&at| Some(tree.nodes[FlowId(at)].parent).filter(|&up| up != NONE))
                .count()
        };
        let keys: [fn(u32) -> u64; 3] = [u64::from, |_| 7, |flow| mix(u64::from(flow))];
        for key in keys {
            let mut tree = PrefixTree::new(1 << 14, 1);
            (0..1 << 14).for_each(|flow| tree.enter(FlowId(flow), SERVICE, key(flow)));
            let deepest = (0..1 << 14).map(|flow| depth(&tree, FlowId(flow))).max().unwrap();
            assert!(deepest < 4 * 14, "{deepest} nodes from the root");
        }
    }
}
