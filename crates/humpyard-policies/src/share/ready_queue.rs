//! A queue of the clients whose head may be served, by tag.

use humpyard_core::id::ClientId;
use humpyard_core::policy::Ties;

use super::sorted_list::SortedList;
use super::tag::Tag;
use super::tournament::Tournament;

/// Clients below a limit, some of which have a tag. All implementations give the same answers; ties
/// decide between equal tags.
pub trait ReadyQueue: Sized {
    /// Creates a queue for clients below `limit`, none of which has a tag.
    fn new(limit: usize, ties: Ties) -> Self;
    /// Returns the least tag, and the client that has it.
    fn first(&mut self) -> Option<(Tag, ClientId)>;
    /// Returns the tag of this client.
    fn tag(&self, client: ClientId) -> Option<Tag>;
    /// Sets the tag of the client.
    fn set(&mut self, client: ClientId, tag: Tag);
    /// Removes the tag of the client, if it has one.
    fn remove(&mut self, client: ClientId);
}

macro_rules! ready_queue {
    ($storage:ident) => {
        impl ReadyQueue for $storage<ClientId> {
            fn new(limit: usize, ties: Ties) -> Self {
                $storage::new(limit, ties)
            }
            #[inline]
            fn first(&mut self) -> Option<(Tag, ClientId)> {
                $storage::first(self)
            }
            fn tag(&self, client: ClientId) -> Option<Tag> {
                $storage::tag(self, client)
            }
            #[inline]
            fn set(&mut self, client: ClientId, tag: Tag) {
                $storage::set(self, client, tag);
            }
            #[inline]
            fn remove(&mut self, client: ClientId) {
                $storage::remove(self, client);
            }
        }
    };
}

ready_queue!(Tournament);
ready_queue!(SortedList);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use humpyard_core::id::Id;
    use humpyard_core::random::Seed;

    fn behaves_like_a_scan<Q: ReadyQueue>(limit: usize, ties: Ties) {
        let mut queue = Q::new(limit, ties);
        let mut model = vec![None; limit];
        let mut random = Seed(7).stream("test");
        for step in 0..20_000 {
            let at = random.below(limit as u64) as usize;
            let id = ClientId::from_index(at);
            // Few members at first, many later.
            model[at] = (random.below(20_000) < step).then(|| Tag::from(random.below(20)));
            match model[at] {
                Some(tag) => queue.set(id, tag),
                None => queue.remove(id),
            }
            assert_eq!(queue.tag(id), model[at]);
            if random.below(3) == 0 {
                let members = model.iter().enumerate().filter_map(|(id, tag)| Some(((*tag)?, id)));
                let rank = |id: usize| if ties == Ties::Lowest { id } else { limit - id };
                let least = members.min_by_key(|&(tag, id)| (tag, rank(id)));
                assert_eq!(queue.first(), least.map(|(tag, id)| (tag, ClientId::from_index(id))));
            }
        }
    }

    #[test]
    fn of_any_size() {
        for ties in [Ties::Lowest, Ties::Highest] {
            for limit in [1, 2, 3, 5, 8, 13, 64, 65, 100, 600] {
                behaves_like_a_scan::<Tournament<ClientId>>(limit, ties);
            }
            for limit in [1, 2, 3, 5, 8, 13, 100] {
                behaves_like_a_scan::<SortedList<ClientId>>(limit, ties);
            }
        }
    }
}
