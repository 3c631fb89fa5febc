//! A list of ids without duplicates: both ends and every member are reached in O(1).

use crate::id::{Id, IdVec};

#[derive(Clone, Copy, Debug)]
struct Link<I> {
    previous: I,
    next: I,
    linked: bool,
}

/// An intrusive doubly linked ring over the ids below a limit. Every operation is O(1); none allocates.
#[derive(Clone, Debug)]
pub struct IdRing<I> {
    links: IdVec<I, Link<I>>,
    front: Option<I>,
    len: usize,
}

impl<I: Id> IdRing<I> {
    /// An empty ring for ids below `limit`.
    pub fn new(limit: usize) -> Self {
        let links = IdVec::from_fn(limit, |id| Link { previous: id, next: id, linked: false });
        Self { links, front: None, len: 0 }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    /// Whether `id` is a member.
    pub fn contains(&self, id: I) -> bool {
        self.links[id].linked
    }

    /// The first member.
    #[inline]
    pub fn front(&self) -> Option<I> {
        self.front
    }

    /// The last member.
    #[inline]
    pub fn back(&self) -> Option<I> {
        self.front.map(|front| self.links[front].previous)
    }

    /// Returns the member after the member `id`. `None`: that is the last.
    ///
    /// # Panics
    /// If `id` is no member.
    #[inline]
    pub fn next(&self, id: I) -> Option<I> {
        assert!(self.links[id].linked, "{id:?} is not in the ring");
        Some(self.links[id].next).filter(|&next| self.front != Some(next))
    }

    /// Returns the member before the member `id`. `None`: that is the first.
    ///
    /// # Panics
    /// If `id` is no member.
    #[inline]
    pub fn previous(&self, id: I) -> Option<I> {
        assert!(self.links[id].linked, "{id:?} is not in the ring");
        Some(self.links[id].previous).filter(|_| self.front != Some(id))
    }

    /// Adds `id` as the last member.
    ///
    /// # Panics
    /// If it is a member already.
    pub fn push_back(&mut self, id: I) {
        let (previous, next) = match self.front {
            None => {
                self.front = Some(id);
                (id, id)
            }
            Some(front) => {
                let back = core::mem::replace(&mut self.links[front].previous, id);
                self.links[back].next = id;
                (back, front)
            }
        };
        self.link(id, previous, next);
    }

    /// Makes `id` a member between these two. Their own links to it must be set already.
    #[inline]
    fn link(&mut self, id: I, previous: I, next: I) {
        let link = &mut self.links[id];
        assert!(!link.linked, "{id:?} is in the ring already");
        *link = Link { previous, next, linked: true };
        self.len += 1;
    }

    /// Adds `id` as the first member.
    ///
    /// # Panics
    /// If it is a member already.
    pub fn push_front(&mut self, id: I) {
        self.push_back(id);
        self.front = Some(id);
    }

    /// Adds `id` just before the member `next`; `id` becomes the first if `next` was the first.
    ///
    /// # Panics
    /// If `id` is a member already, or `next` is not a member.
    pub fn insert_before(&mut self, next: I, id: I) {
        let after = &mut self.links[next];
        assert!(after.linked, "{id:?} before {next:?}, which is not in the ring");
        let previous = core::mem::replace(&mut after.previous, id);
        self.links[previous].next = id;
        self.link(id, previous, next);
        if self.front == Some(next) {
            self.front = Some(id);
        }
    }

    /// Makes the first member the last.
    #[inline]
    pub fn rotate(&mut self) {
        if let Some(front) = self.front {
            self.front = Some(self.links[front].next);
        }
    }

    /// Removes `id`; does nothing if it is not a member.
    pub fn remove(&mut self, id: I) {
        let link = &mut self.links[id];
        let Link { previous, next, linked } = *link;
        if !linked {
            return;
        }
        link.linked = false;
        self.links[previous].next = next;
        self.links[next].previous = previous;
        self.len -= 1;
        if self.front == Some(id) {
            self.front = (self.len > 0).then_some(next);
        }
    }

    /// The members from the front.
    pub fn iter(&self) -> impl Iterator<Item = I> + '_ {
        let mut next = self.front;
        (0..self.len).map_while(move |_| {
            let id = next?;
            next = Some(self.links[id].next);
            Some(id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ClientId;
    use crate::random::Seed;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    #[test]
    fn behaves_like_a_deque() {
        let mut ring = IdRing::new(8);
        let mut model: VecDeque<ClientId> = VecDeque::new();
        let mut random = Seed(7).stream("test");
        for _ in 0..10_000 {
            let id = ClientId(random.below(8) as u32);
            match random.below(5) {
                0 if !model.contains(&id) => {
                    ring.push_back(id);
                    model.push_back(id);
                }
                1 if !model.contains(&id) => {
                    ring.push_front(id);
                    model.push_front(id);
                }
                2 if !model.contains(&id) && !model.is_empty() => {
                    let at = random.below(model.len() as u64) as usize;
                    ring.insert_before(model[at], id);
                    model.insert(at, id);
                }
                3 => {
                    ring.remove(id);
                    model.retain(|&member| member != id);
                }
                _ => {
                    ring.rotate();
                    if !model.is_empty() {
                        model.rotate_left(1);
                    }
                }
            }
            assert_eq!(ring.front(), model.front().copied());
            assert_eq!(ring.back(), model.back().copied());
            for (at, &member) in model.iter().enumerate() {
                assert_eq!(ring.next(member), model.get(at + 1).copied());
                assert_eq!(ring.previous(member), at.checked_sub(1).map(|before| model[before]));
            }
            assert_eq!(ring.contains(id), model.contains(&id));
            assert!(ring.iter().eq(model.iter().copied()), "{:?}", ring.iter().collect::<Vec<_>>());
        }
    }
}
