//! The least surplus while virtual time advances: a kinetic tournament.
//!
//! The surplus of a client, w (S − v), falls as virtual time v advances, and falls faster for a
//! greater weight w. So the order of clients changes without any event. Each node of a tree over
//! all clients stores the least surplus below it, and the time until which this choice holds. Only
//! nodes whose time has come are examined again.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::id::Id;
use humpyard_core::steps;

use super::tag::{PackedTag, TAG_MAX, Tag};

/// Stands for no client.
const NONE: u32 = u32::MAX;

/// The properties of clients that a tree compares.
pub(super) trait Surplus {
    /// The id of a client.
    type Client: Id;

    /// Whether the client may be chosen.
    fn is_offered(&self, id: Self::Client) -> bool;

    /// Whether the client's start tag counts for virtual time.
    fn is_awake(&self, id: Self::Client) -> bool;

    /// The client's start tag.
    fn start(&self, id: Self::Client) -> Tag;

    /// The decrease of the surplus when virtual time advances by 1.
    fn slope(&self, id: Self::Client) -> u64;

    /// The surplus at this virtual time, which is not after the start tag.
    fn surplus(&self, id: Self::Client, virtual_time: Tag) -> u128;

    /// Whether the first of two clients with equal surplus and start goes first.
    fn precedes(&self, id: Self::Client, other: Self::Client) -> bool;
}

/// The choice among the clients below a node.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The least virtual time at which any choice below may change.
    until: PackedTag,
    /// The offered client with the least surplus.
    least: u32,
    /// The awake client with the least start tag.
    earliest: u32,
}

/// The tree. A change is O(log n) in all clients. Changes that virtual time causes add O(log² n)
/// per change, amortised.
#[derive(Debug)]
pub(super) struct SurplusTree {
    /// The root is 1, the children of n are 2n and 2n + 1. From the number of clients on, nodes are
    /// the clients themselves.
    nodes: Vec<Node>,
    clients: usize,
    virtual_time: Tag,
    /// A client that changed since the last update of the nodes.
    changed: u32,
}

impl SurplusTree {
    /// Creates a tree for `clients` clients, none offered or awake.
    pub(super) fn new(clients: usize) -> Self {
        let empty = Node { until: PackedTag::new(TAG_MAX), least: NONE, earliest: NONE };
        Self { nodes: vec![empty; clients.max(2)], clients, virtual_time: 0, changed: NONE }
    }

    /// Returns virtual time: the least start tag of the awake clients so far; it never falls.
    pub(super) fn virtual_time(&mut self, of: &impl Surplus) -> Tag {
        self.settle(of);
        self.virtual_time
    }

    /// Advances virtual time to this tag, if it is not there yet. No client may be awake.
    pub(super) fn skip(&mut self, to: Tag, of: &impl Surplus) {
        self.settle(of);
        self.virtual_time = self.virtual_time.max(to);
    }

    /// Records that the client has changed.
    #[inline]
    pub(super) fn change<S: Surplus>(&mut self, id: S::Client, of: &S) {
        let id = id.index() as u32;
        if self.changed != id {
            self.settle(of);
            self.changed = id;
        }
    }

    /// Returns the offered client with the least surplus.
    #[inline]
    pub(super) fn least<S: Surplus>(&mut self, of: &S) -> Option<S::Client> {
        self.settle(of);
        let least = self.look(1, of).least;
        (least != NONE).then(|| S::Client::from_index(least as usize))
    }

    /// Brings the nodes up to date.
    fn settle(&mut self, of: &impl Surplus) {
        if self.changed == NONE {
            return;
        }
        let mut node = (self.clients + self.changed as usize) / 2;
        self.changed = NONE;
        while node > 0 {
            self.decide(node, of);
            node /= 2;
        }
        self.go_on(of);
    }

    /// Advances virtual time to the least start tag.
    fn go_on<S: Surplus>(&mut self, of: &S) {
        let earliest = self.look(1, of).earliest;
        if earliest == NONE {
            return;
        }
        let start = of.start(S::Client::from_index(earliest as usize));
        if start > self.virtual_time {
            self.virtual_time = start;
            self.renew(1, of);
        }
    }

    /// Decides again at and below a node whose time has come.
    fn renew(&mut self, node: usize, of: &impl Surplus) {
        if node >= self.clients || self.nodes[node].until.tag() > self.virtual_time {
            return;
        }
        steps::taken(1);
        self.renew(2 * node, of);
        self.renew(2 * node + 1, of);
        self.decide(node, of);
    }

    /// Returns the state of a node, which may be a client.
    #[inline]
    fn look<S: Surplus>(&self, node: usize, of: &S) -> Node {
        steps::taken(1);
        if node < self.clients {
            return self.nodes[node];
        }
        let Some(index) = node.checked_sub(self.clients).filter(|&index| index < self.clients) else {
            return Node { until: PackedTag::new(TAG_MAX), least: NONE, earliest: NONE };
        };
        let id = S::Client::from_index(index);
        Node {
            until: PackedTag::new(TAG_MAX),
            least: if of.is_offered(id) { index as u32 } else { NONE },
            earliest: if of.is_awake(id) { index as u32 } else { NONE },
        }
    }

    /// Decides between the two halves below a node.
    fn decide<S: Surplus>(&mut self, node: usize, of: &S) {
        let [left, right] = [2 * node, 2 * node + 1].map(|child| self.look(child, of));
        let (least, until) = self.choose(left.least, right.least, of);
        let until = until.min(left.until.tag()).min(right.until.tag());
        let start = |id: u32| if id == NONE { Tag::MAX } else { of.start(S::Client::from_index(id as usize)) };
        let earliest = if start(right.earliest) < start(left.earliest) { right.earliest } else { left.earliest };
        self.nodes[node] = Node { until: PackedTag::new(until), least, earliest };
    }

    /// Returns the client with less surplus, and the time until which this holds.
    fn choose<S: Surplus>(&self, a: u32, b: u32, of: &S) -> (u32, Tag) {
        if a == NONE || b == NONE {
            return (a.min(b), TAG_MAX);
        }
        let [a_id, b_id] = [a, b].map(|id| S::Client::from_index(id as usize));
        let [a_surplus, b_surplus] = [a_id, b_id].map(|id| of.surplus(id, self.virtual_time));
        let rank = |id: S::Client, other| (of.start(id), !of.precedes(id, other));
        let a_first = (a_surplus, rank(a_id, b_id)) < (b_surplus, rank(b_id, a_id));
        let (least, other) = if a_first { (a_id, b_id) } else { (b_id, a_id) };
        let lead = a_surplus.abs_diff(b_surplus);
        let closing = of.slope(other).saturating_sub(of.slope(least));
        if closing == 0 {
            return (least.index() as u32, TAG_MAX);
        }
        let (after, rest) = match u64::try_from(lead) {
            Ok(lead) => (Tag::from(lead / closing), Tag::from(lead % closing)),
            Err(_) => (lead / Tag::from(closing), lead % Tag::from(closing)),
        };
        // When the surpluses meet, the other client goes first if it wins the tie; else it goes
        // first at the next moment.
        let meets = rest == 0 && rank(other, least) < rank(least, other);
        let until = self.virtual_time.saturating_add(after).saturating_add(Tag::from(!meets));
        (least.index() as u32, until)
    }

    /// Panics unless the tree chooses as a scan of all clients does. O(n): for tests.
    pub(super) fn check<S: Surplus>(&self, of: &S, ids: impl Iterator<Item = S::Client>) {
        if self.changed != NONE {
            return;
        }
        let offered = ids.filter(|&id| of.is_offered(id));
        let least = offered.reduce(|a, b| {
            let rank = |id, other| (of.surplus(id, self.virtual_time), of.start(id), !of.precedes(id, other));
            if rank(b, a) < rank(a, b) { b } else { a }
        });
        let chosen = self.look(1, of).least;
        assert_eq!(least.map_or(NONE, |id| id.index() as u32), chosen, "the client of the least surplus");
    }
}
