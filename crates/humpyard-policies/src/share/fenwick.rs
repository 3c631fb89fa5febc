//! Prefix sums of counts by id, kept in a tree.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::steps;

/// A count for each client below a limit, and the sum of all counts before it: Fenwick's binary
/// indexed tree. Changing a count and finding a client by the sum are O(log n), with one word per
/// client. Sums must fit 64 bits.
#[derive(Debug)]
pub(super) struct Fenwick {
    /// Node i, from 1, is the sum of n counts, up to that of the ith client; n is the lowest bit of i.
    nodes: Vec<u64>,
    total: u64,
}

impl Fenwick {
    /// Creates `clients` clients, each with a count of 0.
    pub(super) fn new(clients: usize) -> Self {
        Self { nodes: vec![0; clients + 1], total: 0 }
    }

    /// Returns the sum of all counts.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Changes the count of a client from `from` to `to`.
    pub(super) fn change(&mut self, id: ClientId, from: u64, to: u64) {
        let more = to.wrapping_sub(from);
        self.total = self.total.wrapping_add(more);
        let mut at = id.index() + 1;
        while let Some(node) = self.nodes.get_mut(at) {
            steps::taken(1);
            *node = node.wrapping_add(more);
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the client whose count, added to all before it, is the first sum above `below`.
    /// `below` must be less than the total.
    pub(super) fn find(&self, mut below: u64) -> ClientId {
        let mut found = 0;
        let mut step = 1 << (self.nodes.len() - 1).ilog2();
        while step > 0 {
            steps::taken(1);
            // The half that contains the client is not predictable.
            let node = self.nodes.get(found + step).copied().unwrap_or(u64::MAX);
            let beyond = node <= below;
            found += if beyond { step } else { 0 };
            below -= if beyond { node } else { 0 };
            step /= 2;
        }
        ClientId::from_index(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::random::Seed;

    #[test]
    fn behaves_like_a_vector() {
        for clients in [1usize, 2, 7, 8, 33] {
            let mut tree = Fenwick::new(clients);
            let mut model = vec![0u64; clients];
            let mut random = Seed(7).stream("test");
            for _ in 0..2000 {
                let at = random.below(clients as u64) as usize;
                let count = random.below(4) * random.below(1 << 40);
                tree.change(ClientId::from_index(at), model[at], count);
                model[at] = count;
                assert_eq!(tree.total(), model.iter().sum::<u64>());
                let edges = model.iter().scan(0, |sum, count| {
                    *sum += count;
                    Some(*sum)
                });
                for edge in edges.filter(|&edge| edge > 0) {
                    for below in [edge - 1, edge].into_iter().filter(|&below| below < tree.total()) {
                        let mut sum = 0;
                        let exceeds = |count: &u64| {
                            sum += count;
                            sum > below
                        };
                        let expected = model.iter().position(exceeds).expect("below the total");
                        assert_eq!(tree.find(below), ClientId::from_index(expected), "{model:?} {below}");
                    }
                }
            }
        }
    }
}
