//! Any number of circles of ids, each id in exactly one of them.

use crate::id::{Id, IdVec};

#[derive(Clone, Copy, Debug)]
struct Link<I> {
    previous: I,
    next: I,
}

/// Circles without beginning or end over the ids below a limit. Each id is in exactly one circle;
/// at first it is alone in its own. Every operation is O(1); none allocates.
///
/// Any number of rings can share these links; the owner of a ring remembers where it begins.
#[derive(Clone, Debug)]
pub struct IdCircles<I> {
    links: IdVec<I, Link<I>>,
}

impl<I: Id> IdCircles<I> {
    /// Ids below `limit`, each alone.
    pub fn new(limit: usize) -> Self {
        Self { links: IdVec::from_fn(limit, |id| Link { previous: id, next: id }) }
    }

    /// Whether there is no other id in its circle.
    #[inline]
    pub fn is_alone(&self, id: I) -> bool {
        self.links[id].next == id
    }

    /// Returns the id after this one; `id` itself if it is alone.
    #[inline]
    pub fn next(&self, id: I) -> I {
        self.links[id].next
    }

    /// Returns the id before this one; `id` itself if it is alone.
    #[inline]
    pub fn previous(&self, id: I) -> I {
        self.links[id].previous
    }

    /// Inserts `id` into the circle of `next`, just before it.
    ///
    /// # Panics
    /// If `id` is not alone.
    #[inline]
    pub fn insert_before(&mut self, next: I, id: I) {
        assert!(self.is_alone(id), "{id:?} is in a circle already");
        if id != next {
            let previous = self.links[next].previous;
            self.links[id] = Link { previous, next };
            self.links[previous].next = id;
            self.links[next].previous = id;
        }
    }

    /// Removes `id` from its circle; it is then alone.
    #[inline]
    pub fn remove(&mut self, id: I) {
        let Link { previous, next } = self.links[id];
        self.links[previous].next = next;
        self.links[next].previous = previous;
        self.links[id] = Link { previous: id, next: id };
    }

    /// Returns the ids of the circle, from `id` on.
    pub fn iter(&self, id: I) -> impl Iterator<Item = I> + '_ {
        let mut next = Some(id);
        core::iter::from_fn(move || {
            let member = next?;
            next = Some(self.next(member)).filter(|&after| after != id);
            Some(member)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ClientId;
    use crate::random::Seed;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn behaves_like_vectors() {
        let mut circles = IdCircles::new(8);
        let mut model: Vec<Vec<ClientId>> = (0..8).map(|id| vec![ClientId(id)]).collect();
        let mut random = Seed(7).stream("test");
        for _ in 0..10_000 {
            let id = ClientId(random.below(8) as u32);
            let next = ClientId(random.below(8) as u32);
            if circles.is_alone(id) && id != next {
                circles.insert_before(next, id);
                model.retain(|circle| *circle != [id]);
                let circle = model.iter_mut().find(|circle| circle.contains(&next)).expect("each is in one");
                let at = circle.iter().position(|&member| member == next).expect("found there");
                circle.insert(at, id);
            } else {
                circles.remove(id);
                model.iter_mut().for_each(|circle| circle.retain(|&member| member != id));
                model.retain(|circle| !circle.is_empty());
                model.push(vec![id]);
            }
            for circle in &model {
                assert!(circles.iter(circle[0]).eq(circle.iter().copied()));
                assert_eq!(circles.previous(circle[0]), circle[circle.len() - 1]);
                assert_eq!(circles.is_alone(circle[0]), circle.len() == 1);
            }
        }
    }
}
