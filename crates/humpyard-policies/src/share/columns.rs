//! Clients by the bits of their weights, in the order in which smoothed round robin visits them.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::id::{ClientId, Id, IdVec};
use humpyard_core::steps;
use humpyard_core::storage::IdSet;

/// The number of columns: the bits of a weight.
const COLUMNS: usize = u32::BITS as usize;

/// Stands for no place.
const NOWHERE: u32 = u32::MAX;

/// The number of places that the sweep examines for each new client. While a sweep passes over t
/// places and those given meanwhile, t / 3 clients come. At its end there are at most t / 3 more
/// places than clients. So t is at most 3/2 of the clients, and twice as many places as clients, up
/// to rounding, are enough.
const SWEPT: usize = 4;

/// The place of a client in the order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place(u32);

impl Id for Place {
    fn from_index(index: usize) -> Self {
        Self(index as u32)
    }
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A matrix with a row for each client, in order of arrival. A row has the bits of the client's
/// weight: column b contains the clients whose weight has bit b. One column is visited at a time.
///
/// A client has one place in all its columns, and each column is a set of places. This takes 18
/// bytes per client, where links in every column would take 256. Places are given in order of
/// arrival and are not reused directly. So that they never run out, a sweep moves clients, in the
/// same order, to the places of clients that have gone: a few for every new client. Every operation
/// is O(bits of the weight), apart from the levels of the sets, and does not allocate.
#[derive(Debug)]
pub(super) struct Columns {
    columns: Vec<IdSet<Place>>,
    /// The columns that have clients.
    filled: u32,
    places: IdVec<ClientId, u32>,
    /// The client at each place, or the last one there.
    clients: Vec<ClientId>,
    /// The first place that was never given, or that is to be given again.
    end: usize,
    /// The next place that the sweep examines. The places between `swept_to` and this one are free.
    swept: usize,
    /// The new place of the next client that the sweep finds.
    swept_to: usize,
    /// The column being visited. `None`: no visit has begun.
    visited: Option<usize>,
    /// The first place of the column that was not visited yet.
    next: usize,
    /// The first place given since the visit began. Such places do not belong to the visit.
    until: usize,
}

impl Columns {
    /// Creates columns for `clients` clients, all empty and none visited.
    pub(super) fn new(clients: usize) -> Self {
        let places = 2 * clients + SWEPT;
        Self {
            columns: (0..COLUMNS).map(|_| IdSet::new(places)).collect(),
            filled: 0,
            places: IdVec::from_fn(clients, |_| NOWHERE),
            clients: vec![ClientId(0); places],
            end: 0,
            swept: 0,
            swept_to: 0,
            visited: None,
            next: 0,
            until: 0,
        }
    }

    /// Returns the number of columns up to the highest that has clients: the bits of the greatest weight.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        u32::BITS - self.filled.leading_zeros()
    }

    /// Whether the client has a place.
    pub(super) fn contains(&self, id: ClientId) -> bool {
        self.places[id] != NOWHERE
    }

    /// Gives the last place to a client that has none. The client is in no column.
    pub(super) fn insert(&mut self, id: ClientId) {
        (0..SWEPT).for_each(|_| self.sweep());
        self.places[id] = self.end as u32;
        self.clients[self.end] = id;
        self.end += 1;
    }

    /// Frees the place of a client that is in no column.
    pub(super) fn remove(&mut self, id: ClientId) {
        self.places[id] = NOWHERE;
    }

    /// Adds a client to the columns of its weight. It has a place and is in no column.
    pub(super) fn show(&mut self, id: ClientId, weight: u32) {
        let place = Place(self.places[id]);
        for column in bits(weight) {
            self.columns[column].insert(place);
        }
        self.filled |= weight;
    }

    /// Removes a client from the columns of its weight, in which it was.
    pub(super) fn hide(&mut self, id: ClientId, weight: u32) {
        let place = Place(self.places[id]);
        for column in bits(weight) {
            self.columns[column].remove(place);
            if self.columns[column].is_empty() {
                self.filled &= !(1 << column);
            }
        }
    }

    /// Begins the visit to a column.
    #[inline]
    pub(super) fn visit(&mut self, column: u32) {
        self.visited = Some(column as usize);
        (self.next, self.until) = (0, self.end);
    }

    /// Returns the next client of the column being visited, of those that were there when the visit
    /// began. `None`: the visit is over.
    #[inline]
    pub(super) fn next(&mut self) -> Option<ClientId> {
        let place = self.columns[self.visited?].at_or_after(Place::from_index(self.next))?.index();
        if place >= self.until {
            return None;
        }
        steps::taken(1);
        self.next = place + 1;
        Some(self.clients[place])
    }

    /// Examines a place, and moves its client to the first free place; begins again at the end.
    fn sweep(&mut self) {
        if self.swept == self.end {
            self.end = self.swept_to;
            (self.next, self.until) = (self.next.min(self.end), self.until.min(self.end));
            (self.swept, self.swept_to) = (0, 0);
            return;
        }
        let (from, to) = (Place::from_index(self.swept), Place::from_index(self.swept_to));
        self.swept += 1;
        let id = self.clients[from.index()];
        if self.places[id] != from.0 {
            return;
        }
        self.swept_to += 1;
        if from == to {
            return;
        }
        for column in &mut self.columns {
            if column.contains(from) {
                column.remove(from);
                column.insert(to);
            }
        }
        self.places[id] = to.0;
        self.clients[to.index()] = id;
        // The places in between are free, so the next client stays the same, and so do those that
        // came since the visit began.
        for mark in [&mut self.next, &mut self.until] {
            if (to.index() + 1..=from.index()).contains(mark) {
                *mark = to.index();
            }
        }
    }

    /// Panics unless exactly the shown clients are in the columns of their weights. `shown` returns
    /// `None` for all others.
    pub(super) fn check(&self, shown: impl Fn(ClientId) -> Option<u32>) {
        for id in self.places.ids() {
            let weight = shown(id).unwrap_or(0);
            if !self.contains(id) {
                assert_eq!(weight, 0, "client {id} has no place");
                continue;
            }
            let place = Place(self.places[id]);
            let (at, is_swept) = (place.index(), (self.swept_to..self.swept).contains(&place.index()));
            assert!(at < self.end && !is_swept && self.clients[at] == id, "client {id} stands at {at}");
            let is_right = |bit: usize| self.columns[bit].contains(place) == (weight >> bit & 1 == 1);
            assert!((0..COLUMNS).all(is_right), "client {id} is in the columns of {weight}");
        }
        let weights = || self.places.ids().filter_map(&shown);
        assert_eq!(weights().fold(0, |all, weight| all | weight), self.filled, "columns that have clients");
        let members: usize = self.columns.iter().map(IdSet::len).sum();
        assert_eq!(weights().map(|weight| weight.count_ones() as usize).sum::<usize>(), members, "nobody else");
    }
}

/// Returns the bits of a weight that are 1.
fn bits(mut weight: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (weight != 0).then(|| weight.trailing_zeros() as usize)?;
        weight &= weight - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::random::Seed;

    /// Clients in order of arrival, with their weights, and the clients that the visit to a column
    /// has not reached.
    #[derive(Default)]
    struct Lists {
        clients: Vec<(ClientId, u32)>,
        column: u32,
        to_come: Vec<ClientId>,
    }

    impl Lists {
        fn next(&mut self) -> Option<ClientId> {
            let weight = |id| self.clients.iter().find(|member| member.0 == id).map_or(0, |member| member.1);
            let at = self.to_come.iter().position(|&id| weight(id) >> self.column & 1 == 1)?;
            let id = self.to_come[at];
            self.to_come.drain(..=at);
            Some(id)
        }
    }

    #[test]
    fn behave_like_lists() {
        for clients in [1, 3, 20, 200] {
            let mut columns = Columns::new(clients as usize);
            columns.visit(0);
            let mut lists = Lists::default();
            let mut hidden: IdVec<ClientId, Option<u32>> = IdVec::from_fn(clients as usize, |_| None);
            let mut random = Seed(clients).stream("test");
            for _ in 0..20_000 {
                let id = ClientId(random.below(clients) as u32);
                let present = lists.clients.iter().position(|member| member.0 == id);
                match random.below(8) {
                    0 => {
                        let column = random.below(8) as u32;
                        columns.visit(column);
                        lists.column = column;
                        lists.to_come = lists.clients.iter().map(|member| member.0).collect();
                    }
                    1..=4 => assert_eq!(columns.next(), lists.next()),
                    5 if present.is_some() => {
                        // The client keeps its place.
                        let member = &mut lists.clients[present.expect("just seen")];
                        match hidden[id].take() {
                            Some(weight) => {
                                columns.show(id, weight);
                                member.1 = weight;
                            }
                            None => {
                                columns.hide(id, member.1);
                                hidden[id] = Some(member.1);
                                member.1 = 0;
                            }
                        }
                    }
                    _ => match present {
                        Some(at) => {
                            let weight = lists.clients.remove(at).1;
                            lists.to_come.retain(|&member| member != id);
                            if hidden[id].take().is_none() {
                                columns.hide(id, weight);
                            }
                            columns.remove(id);
                        }
                        None => {
                            let weight = 1 + random.below(255) as u32;
                            columns.insert(id);
                            columns.show(id, weight);
                            lists.clients.push((id, weight));
                        }
                    },
                }
                let shown = |id| lists.clients.iter().find(|member| member.0 == id).map(|member| member.1);
                columns.check(|id| shown(id).filter(|_| hidden[id].is_none()));
            }
        }
    }
}
