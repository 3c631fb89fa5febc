//! A window: the oldest waiting packets, up to a size, are visible. Others become visible as those leave.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::id::{ClientId, IdVec};
use humpyard_core::unit::Work;

/// Stands for no packet.
const NONE: u32 = u32::MAX;

/// A hidden packet, linked to all others by arrival, and to those of its client.
#[derive(Clone, Copy, Debug)]
struct Hidden {
    client: ClientId,
    work: Work,
    before: u32,
    after: u32,
    older: u32,
    newer: u32,
}

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// The number of its visible packets, and their work.
    visible: u32,
    work: Work,
    /// Its oldest and its newest hidden packet. They are newer than all its visible ones.
    oldest: u32,
    newest: u32,
}

/// The visible and hidden packets. Every operation is O(1) and does not allocate.
#[derive(Debug)]
pub(super) struct Window {
    /// The most visible packets.
    size: u64,
    /// The number of visible packets, and their work.
    visible: u64,
    work: Work,
    /// Places for hidden packets; unused places are linked by `after` from `vacant`.
    places: Vec<Hidden>,
    vacant: u32,
    /// The first hidden packet, which becomes visible next, and the last one.
    first: u32,
    last: u32,
    clients: IdVec<ClientId, Client>,
}

impl Window {
    /// Creates a window of `size` visible packets, of at most `packets`; 0 makes all visible.
    pub(super) fn new(size: u64, packets: usize, clients: usize) -> Self {
        let packets = if size == 0 { 0 } else { packets };
        let place = |after: u32| Hidden { client: ClientId(0), work: 0, before: NONE, after, older: NONE, newer: NONE };
        let next = |at: usize| if at + 1 < packets { at as u32 + 1 } else { NONE };
        Self {
            size: if size == 0 { u64::MAX } else { size },
            visible: 0,
            work: 0,
            places: (0..packets).map(|at| place(next(at))).collect(),
            vacant: if packets > 0 { 0 } else { NONE },
            first: NONE,
            last: NONE,
            clients: IdVec::from_fn(clients, |_| Client { visible: 0, work: 0, oldest: NONE, newest: NONE }),
        }
    }

    /// Returns the work of all visible packets.
    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// Returns the work of the visible packets of a client: 0 if and only if it has none.
    pub(super) fn work_of(&self, id: ClientId) -> Work {
        self.clients[id].work
    }

    /// Returns all clients.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> + use<> {
        self.clients.ids()
    }

    /// Adds a packet of this work, at least 1, behind all others.
    pub(super) fn arrive(&mut self, id: ClientId, work: Work) {
        if self.visible < self.size {
            self.show(id, work);
            return;
        }
        let at = self.vacant;
        self.vacant = self.places[at as usize].after;
        let newest = core::mem::replace(&mut self.clients[id].newest, at);
        self.places[at as usize] =
            Hidden { client: id, work, before: self.last, after: NONE, older: newest, newer: NONE };
        match newest {
            NONE => self.clients[id].oldest = at,
            newest => self.places[newest as usize].newer = at,
        }
        match self.last {
            NONE => self.first = at,
            last => self.places[last as usize].after = at,
        }
        self.last = at;
    }

    /// Removes the client's oldest waiting packet, which has this work. Returns the client whose
    /// packet becomes visible. `None`: no packet does.
    pub(super) fn leave(&mut self, id: ClientId, work: Work) -> Option<ClientId> {
        if self.clients[id].visible == 0 {
            self.take(self.clients[id].oldest);
            return None;
        }
        self.hide(id, work)
    }

    /// As [`Window::leave`], for the newest packet.
    pub(super) fn push_out(&mut self, id: ClientId, work: Work) -> Option<ClientId> {
        if self.clients[id].newest != NONE {
            self.take(self.clients[id].newest);
            return None;
        }
        self.hide(id, work)
    }

    fn show(&mut self, id: ClientId, work: Work) {
        self.visible += 1;
        self.work += work;
        self.clients[id].visible += 1;
        self.clients[id].work += work;
    }

    /// Removes a visible packet, and makes the next one visible.
    fn hide(&mut self, id: ClientId, work: Work) -> Option<ClientId> {
        self.visible -= 1;
        self.work -= work;
        self.clients[id].visible -= 1;
        self.clients[id].work -= work;
        if self.first == NONE {
            return None;
        }
        let Hidden { client, work, .. } = self.take(self.first);
        self.show(client, work);
        Some(client)
    }

    /// Removes a packet that is the oldest or the newest hidden one of its client.
    fn take(&mut self, at: u32) -> Hidden {
        let taken = self.places[at as usize];
        match taken.before {
            NONE => self.first = taken.after,
            before => self.places[before as usize].after = taken.after,
        }
        match taken.after {
            NONE => self.last = taken.before,
            after => self.places[after as usize].before = taken.before,
        }
        match taken.older {
            NONE => self.clients[taken.client].oldest = taken.newer,
            older => self.places[older as usize].newer = taken.newer,
        }
        match taken.newer {
            NONE => self.clients[taken.client].newest = taken.older,
            newer => self.places[newer as usize].older = taken.older,
        }
        self.places[at as usize].after = core::mem::replace(&mut self.vacant, at);
        taken
    }

    /// Panics unless the sums agree.
    pub(super) fn check(&self) {
        assert_eq!(self.clients.iter().map(|client| client.work).sum::<Work>(), self.work, "visible work");
        assert_eq!(self.clients.iter().map(|client| u64::from(client.visible)).sum::<u64>(), self.visible);
        assert!(self.visible <= self.size && (self.first == NONE || self.visible == self.size), "the window is full");
        for client in &self.clients {
            assert_eq!(client.work == 0, client.visible == 0, "work of no packets, or packets of no work");
        }
        let mut links = vec![(self.first, NONE)];
        while let Some((at, before)) = links.pop().filter(|link| link.0 != NONE) {
            assert_eq!(self.places[at as usize].before, before, "links of a packet out of sight");
            links.push((self.places[at as usize].after, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::random::Seed;

    /// Compares with sums over all packets in order.
    fn behaves_like_a_list(size: u64) {
        const CLIENTS: usize = 4;
        let mut window = Window::new(size, 30, CLIENTS);
        let mut model: Vec<(ClientId, Work)> = vec![];
        let mut random = Seed(7).stream("test");
        for _ in 0..20_000 {
            let id = ClientId(random.below(CLIENTS as u64) as u32);
            let oldest = model.iter().position(|packet| packet.0 == id);
            let newest = model.iter().rposition(|packet| packet.0 == id);
            match random.below(5) {
                0 | 1 if oldest.is_some() => drop(window.leave(id, model.remove(oldest.unwrap()).1)),
                2 if newest.is_some() => drop(window.push_out(id, model.remove(newest.unwrap()).1)),
                _ if model.len() < 30 => {
                    model.push((id, 1 + random.below(9)));
                    window.arrive(id, model.last().unwrap().1);
                }
                _ => {}
            }
            window.check();
            let visible = || model.iter().take(if size == 0 { usize::MAX } else { size as usize });
            assert_eq!(window.work(), visible().map(|packet| packet.1).sum::<Work>());
            for id in (0..CLIENTS as u32).map(ClientId) {
                let work = visible().filter(|packet| packet.0 == id).map(|packet| packet.1).sum::<Work>();
                assert_eq!(window.work_of(id), work);
            }
        }
    }

    #[test]
    fn of_any_size() {
        for size in [0, 1, 2, 7, 29, 30, 31] {
            behaves_like_a_list(size);
        }
    }
}
