//! A queue of clients by weight, the heaviest first.

use alloc::boxed::Box;
use alloc::vec;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Ties;
use humpyard_core::storage::{IdCircles, IdSet};

/// The bits after the first that define a class: its weights share the first `1 + FINE` bits.
const FINE: u32 = 5;

/// A class of weights that differ by less than 1/32, or not at all if they are below 64: 0 is the heaviest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Class(u16);

impl Class {
    const COUNT: usize = 32 << FINE;

    fn of(weight: u32) -> Self {
        let order = weight.ilog2();
        let fine = (u64::from(weight) << FINE >> order) as usize - (1 << FINE);
        Self::from_index(Self::COUNT - 1 - ((order as usize) << FINE) - fine)
    }
}

impl Id for Class {
    fn from_index(index: usize) -> Self {
        Self(index as u16)
    }
    fn index(self) -> usize {
        self.0.into()
    }
}

/// A queue of clients by weight, the heaviest first. Of equal weights the oldest is first, or the
/// newest if ties go to the higher.
///
/// Neighbours are found in O(1). A new client searches its place among the clients of its weight
/// class only, from the lightest on: O(1) if it is not heavier than those there.
#[derive(Debug)]
pub(super) struct ByWeight {
    circles: IdCircles<ClientId>,
    /// The heaviest.
    front: Option<ClientId>,
    /// The first and last of each class that has members.
    ends: Box<[(ClientId, ClientId)]>,
    /// The classes that have members.
    filled: IdSet<Class>,
    ties: Ties,
}

impl ByWeight {
    /// Creates an empty queue for `clients` clients.
    pub(super) fn new(clients: usize, ties: Ties) -> Self {
        Self {
            circles: IdCircles::new(clients),
            front: None,
            ends: vec![(ClientId(0), ClientId(0)); Class::COUNT].into(),
            filled: IdSet::new(Class::COUNT),
            ties,
        }
    }

    /// Returns the heaviest client.
    #[inline]
    pub(super) fn front(&self) -> Option<ClientId> {
        self.front
    }

    /// Returns the client after this one, which is in the queue.
    #[inline]
    pub(super) fn next(&self, id: ClientId) -> Option<ClientId> {
        Some(self.circles.next(id)).filter(|&next| self.front != Some(next))
    }

    /// Returns the client before this one, which is in the queue.
    pub(super) fn previous(&self, id: ClientId) -> Option<ClientId> {
        (self.front != Some(id)).then(|| self.circles.previous(id))
    }

    /// Returns the clients in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = ClientId> + '_ {
        core::iter::successors(self.front, |&id| self.next(id))
    }

    /// Inserts a client that is not in the queue.
    pub(super) fn insert(&mut self, id: ClientId, weight_of: impl Fn(ClientId) -> u32) {
        let weight = weight_of(id);
        let class = Class::of(weight);
        let next = match self.ties {
            Ties::Lowest => self.before_older(class, weight, &weight_of),
            Ties::Highest => self.before_newer(class, weight, &weight_of),
        };
        let ends = &mut self.ends[class.index()];
        if !self.filled.contains(class) {
            *ends = (id, id);
        } else if next == Some(ends.0) {
            ends.0 = id;
        } else if next.is_none_or(|next| Class::of(weight_of(next)) != class) {
            ends.1 = id;
        }
        self.filled.insert(class);
        let Some(front) = self.front else {
            self.front = Some(id);
            return;
        };
        self.circles.insert_before(next.unwrap_or(front), id);
        if next == Some(front) {
            self.front = Some(id);
        }
    }

    /// Removes a client of this weight, which is in the queue.
    pub(super) fn remove(&mut self, id: ClientId, weight: u32) {
        let class = Class::of(weight);
        let (first, last) = self.ends[class.index()];
        if first == last {
            self.filled.remove(class);
        } else if id == first {
            self.ends[class.index()].0 = self.circles.next(id);
        } else if id == last {
            self.ends[class.index()].1 = self.circles.previous(id);
        }
        if self.front == Some(id) {
            self.front = Some(self.circles.next(id)).filter(|&next| next != id);
        }
        self.circles.remove(id);
    }

    /// Returns the client before which a new client belongs that stands behind those of the same
    /// weight. `None`: it belongs at the end.
    fn before_older(&self, class: Class, weight: u32, weight_of: impl Fn(ClientId) -> u32) -> Option<ClientId> {
        let mut next = self.first_below(class);
        if self.filled.contains(class) {
            let (first, mut last) = self.ends[class.index()];
            while weight_of(last) < weight {
                next = Some(last);
                if last == first {
                    break;
                }
                last = self.circles.previous(last);
            }
        }
        next
    }

    /// Returns the client before which a new client belongs that stands before those of the same
    /// weight. `None`: it belongs at the end.
    fn before_newer(&self, class: Class, weight: u32, weight_of: impl Fn(ClientId) -> u32) -> Option<ClientId> {
        if self.filled.contains(class) {
            let (first, last) = self.ends[class.index()];
            let mut next = first;
            loop {
                if weight_of(next) <= weight {
                    return Some(next);
                }
                if next == last {
                    break;
                }
                next = self.circles.next(next);
            }
        }
        self.first_below(class)
    }

    /// Returns the first client of the lighter classes.
    fn first_below(&self, class: Class) -> Option<ClientId> {
        self.filled.after(class).map(|class| self.ends[class.index()].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use humpyard_core::random::Seed;

    #[test]
    fn classes_go_by_weight() {
        for weight in (1..10_000).chain(u32::MAX - 10_000..u32::MAX) {
            assert!(Class::of(weight) >= Class::of(weight + 1), "{weight}");
        }
        assert_eq!((Class::of(1).index(), Class::of(u32::MAX).index()), (Class::COUNT - 1, 0));
        assert!((1..64).all(|weight| Class::of(weight) != Class::of(weight + 1)));
    }

    #[test]
    fn behaves_like_a_sorted_vector() {
        for (ties, weight_max) in [(Ties::Lowest, 3), (Ties::Lowest, 5000), (Ties::Highest, 3), (Ties::Highest, 5000)] {
            let mut random = Seed(7).stream("test");
            let weights: Vec<u32> = (0..24).map(|_| 1 + random.below(weight_max) as u32 * 7).collect();
            let weight_of = |id: ClientId| weights[id.index()];
            let mut queue = ByWeight::new(weights.len(), ties);
            let mut model: Vec<ClientId> = Vec::new();
            for _ in 0..10_000 {
                let id = ClientId(random.below(24) as u32);
                if let Some(at) = model.iter().position(|&member| member == id) {
                    queue.remove(id, weight_of(id));
                    model.remove(at);
                } else {
                    queue.insert(id, weight_of);
                    let is_after = |&other: &ClientId| match ties {
                        Ties::Lowest => weight_of(other) < weight_of(id),
                        Ties::Highest => weight_of(other) <= weight_of(id),
                    };
                    model.insert(model.iter().position(is_after).unwrap_or(model.len()), id);
                }
                assert!(queue.iter().eq(model.iter().copied()));
                let previous = model.iter().position(|&member| member == id).filter(|&at| at > 0);
                if model.contains(&id) {
                    assert_eq!(queue.previous(id), previous.map(|at| model[at - 1]));
                }
            }
        }
    }
}
