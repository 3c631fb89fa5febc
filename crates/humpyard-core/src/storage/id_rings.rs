//! Several rings of ids; each id is in at most one of them.

use super::IdCircles;
use crate::id::{Id, IdVec};

/// One ring for each id of `R`, over the ids of `I` below a limit. The ends of every ring and each
/// member are reached in O(1); no operation allocates. The owner remembers which ring each id is
/// in.
#[derive(Clone, Debug)]
pub struct IdRings<R, I> {
    circles: IdCircles<I>,
    fronts: IdVec<R, Option<I>>,
}

impl<R: Id, I: Id> IdRings<R, I> {
    /// Returns `rings` empty rings for ids below `limit`.
    pub fn new(rings: usize, limit: usize) -> Self {
        Self { circles: IdCircles::new(limit), fronts: IdVec::from_fn(rings, |_| None) }
    }

    /// The first member of a ring.
    #[inline]
    pub fn front(&self, ring: R) -> Option<I> {
        self.fronts[ring]
    }

    /// The last member of a ring.
    #[inline]
    pub fn back(&self, ring: R) -> Option<I> {
        self.fronts[ring].map(|front| self.circles.previous(front))
    }

    /// Adds `id`, which is in no ring, as the last member.
    #[inline]
    pub fn push_back(&mut self, ring: R, id: I) {
        match self.fronts[ring] {
            Some(front) => self.circles.insert_before(front, id),
            None => self.fronts[ring] = Some(id),
        }
    }

    /// Adds `id`, which is in no ring, as the first member.
    #[inline]
    pub fn push_front(&mut self, ring: R, id: I) {
        self.push_back(ring, id);
        self.fronts[ring] = Some(id);
    }

    /// Adds `id`, which is in no ring, to a ring sorted by this key, after members with the same
    /// key. O(1) if `id` comes last, plus one step for each member after it.
    #[inline]
    pub fn insert_by<K: Ord>(&mut self, ring: R, id: I, key: impl Fn(I) -> K) {
        let Some(front) = self.fronts[ring] else {
            self.fronts[ring] = Some(id);
            return;
        };
        let own = key(id);
        let mut next = front;
        let mut previous = self.circles.previous(front);
        while key(previous) > own {
            next = previous;
            if next == front {
                self.fronts[ring] = Some(id);
                break;
            }
            previous = self.circles.previous(next);
        }
        self.circles.insert_before(next, id);
    }

    /// Makes the first member of a ring the last.
    #[inline]
    pub fn rotate(&mut self, ring: R) {
        if let Some(front) = &mut self.fronts[ring] {
            *front = self.circles.next(*front);
        }
    }

    /// Removes `id` from this ring, which must be its own.
    #[inline]
    pub fn remove(&mut self, ring: R, id: I) {
        if self.fronts[ring] == Some(id) {
            self.fronts[ring] = Some(self.circles.next(id)).filter(|&next| next != id);
        }
        self.circles.remove(id);
    }

    /// Returns the member before `id` in its ring; before the first comes the last.
    #[inline]
    pub fn previous(&self, id: I) -> I {
        self.circles.previous(id)
    }

    /// The members of a ring from the front.
    #[inline]
    pub fn iter(&self, ring: R) -> impl Iterator<Item = I> + '_ {
        walk(self.fronts[ring], |id| self.circles.next(id))
    }

    /// The members of a ring from the back.
    #[inline]
    pub fn iter_back(&self, ring: R) -> impl Iterator<Item = I> + '_ {
        walk(self.back(ring), |id| self.circles.previous(id))
    }
}

/// Returns the members of a ring from `first` on. It steps only when the next member is asked for,
/// because many callers need the first alone.
#[inline]
fn walk<I: Id>(first: Option<I>, step: impl Fn(I) -> I) -> impl Iterator<Item = I> {
    let mut last = None;
    core::iter::from_fn(move || {
        let next = last.map(&step);
        if next.is_some() && next == first {
            return None;
        }
        last = next.or(first);
        last
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CoreId, ServiceId};
    use crate::random::Seed;
    use alloc::vec::Vec;

    #[test]
    fn behave_like_vectors() {
        let mut rings: IdRings<ServiceId, CoreId> = IdRings::new(3, 8);
        let mut model: [Vec<CoreId>; 3] = Default::default();
        let mut random = Seed(7).stream("test");
        // Keys repeat, so that equal keys occur.
        let key = |id: CoreId| id.0 / 2;
        for _ in 0..10_000 {
            let (id, at) = (CoreId(random.below(8) as u16), random.below(3) as usize);
            let ring = ServiceId::from_index(at);
            match model.iter().position(|members| members.contains(&id)) {
                Some(at) if random.below(3) == 0 => {
                    rings.rotate(ServiceId::from_index(at));
                    model[at].rotate_left(1);
                    // Only a sorted ring takes members by key.
                    if at > 0 {
                        let members = core::mem::take(&mut model[at]);
                        members.into_iter().for_each(|id| rings.remove(ServiceId::from_index(at), id));
                    }
                }
                Some(at) => {
                    rings.remove(ServiceId::from_index(at), id);
                    model[at].retain(|&member| member != id);
                }
                None if at == 0 && random.below(2) == 0 => {
                    rings.push_front(ring, id);
                    model[at].insert(0, id);
                }
                None if at == 0 => {
                    rings.push_back(ring, id);
                    model[at].push(id);
                }
                None => {
                    rings.insert_by(ring, id, key);
                    let place = model[at].iter().position(|&member| key(member) > key(id));
                    model[at].insert(place.unwrap_or(model[at].len()), id);
                }
            }
            for (at, members) in model.iter().enumerate() {
                let ring = ServiceId::from_index(at);
                assert!(rings.iter(ring).eq(members.iter().copied()));
                assert!(rings.iter_back(ring).eq(members.iter().rev().copied()));
                assert_eq!((rings.front(ring), rings.back(ring)), (members.first().copied(), members.last().copied()));
            }
        }
    }
}
