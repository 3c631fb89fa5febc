//! Slots: a policy that orders quanta of equal length uses them to serve packets of any length.
//!
//! A slot is a quantum of work. A client keeps the unused part of a slot, and owes what it uses beyond. So
//! slots hold in the long run for packets of any cost. PROPORTIONAL_SHARE section 0, the slot adapter.

use alloc::format;
use core::ops::{Index, IndexMut};

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, IdVec};
use humpyard_core::policy::{Auto, BuildError};
use humpyard_core::unit::Work;

/// The longest quantum: multiplied by a weight and its rounding to a power of two, it fits 62 bits.
const QUANTUM_MAX: Work = 1 << 29;

/// The most slots per core that a client in service may receive in advance.
pub(super) const BANK_SLOTS: i64 = 4;

/// Returns the work of one slot, as the parameter gives it.
///
/// # Errors
/// Rejects a quantum that is shorter than the longest packet, or too long for the arithmetic.
pub(super) fn quantum(owner: &str, given: Auto, config: &SchedulerConfig) -> Result<i64, BuildError> {
    let quantum = match given {
        Auto::Auto => config.longest.max(1),
        Auto::Given(quantum) if quantum < config.longest => {
            return Err(BuildError::bad_value(format!(
                "{owner}: `quantum` must be at least the longest packet ({} {}), not {quantum}",
                config.longest,
                config.unit.name()
            )));
        }
        Auto::Given(quantum) => quantum,
    };
    if quantum > QUANTUM_MAX {
        return Err(BuildError::bad_value(format!("{owner}: `quantum` must be at most {QUANTUM_MAX}, not {quantum}")));
    }
    Ok(quantum as i64)
}

/// Returns work as a signed number.
pub(super) fn signed(work: Work) -> i64 {
    i64::try_from(work).unwrap_or(i64::MAX)
}

/// A policy that gives slots one after the other, and serves a client that holds one.
pub(super) trait GivesSlots {
    /// The policy's state of a client, besides its slots.
    type Client;

    /// The slots that clients hold.
    fn slots(&mut self) -> &mut Slots<Self::Client>;

    /// Gives one slot or several. Some head may be served, but no client with such a head holds a slot.
    fn give(&mut self);

    /// Returns the client to serve. `None`: no head may be served. A second call without an event
    /// in between returns the same.
    #[inline]
    fn holder(&mut self) -> Option<ClientId> {
        loop {
            if let Some(id) = self.slots().holder() {
                return Some(id);
            }
            if self.slots().is_empty() {
                return None;
            }
            self.give();
        }
    }
}

/// The handlers that all policies with slots share, for their `impl Share`. Their field `slots`
/// holds the clients.
macro_rules! slot_handlers {
    () => {
        #[inline]
        fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
            self.slots.arrive(id);
        }

        #[inline]
        fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
            self.holder()
        }

        #[inline]
        fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
            self.slots.dispatch(id, sent.estimate);
        }

        #[inline]
        fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
            self.slots.settle(id, used, sent.estimate);
        }

        fn on_push_out(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
            self.slots.push_out(id, waiting);
        }
    };
}
pub(super) use slot_handlers;

/// The value of `behind` for a client that is not in the line.
const NOT_IN_LINE: u32 = u32::MAX;

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client<T> {
    /// The work left of its slots; negative is debt.
    balance: i64,
    /// The number of its waiting packets.
    waiting: u32,
    /// The client behind it in the line: the client itself if it is the last.
    behind: u32,
    /// Whether its head may be served.
    offered: bool,
    /// The policy's state of the client, stored here so that a decision reads one place.
    own: T,
}

impl<T> Client<T> {
    /// Whether it holds a slot and its head may be served.
    #[inline]
    fn is_open(&self) -> bool {
        self.offered && self.balance > 0
    }
}

/// The slots that clients hold, with the policy's state `T` of each client. A client *holds* a slot
/// while its balance is positive.
#[derive(Debug)]
pub(super) struct Slots<T> {
    /// Work of one slot.
    quantum: i64,
    /// The limit of work in advance: a client whose head may not be served receives no slot if it
    /// has this much work left.
    bank_limit: i64,
    /// The line: every client that holds a slot and whose head may be served, in the order in which this began.
    /// It also has clients for which this is over; they are dropped when they reach the front.
    front: Option<ClientId>,
    /// The last client of the line, if the line is not empty.
    back: ClientId,
    /// The number of clients whose head may be served.
    offered: usize,
    clients: IdVec<ClientId, Client<T>>,
}

impl<T> Slots<T> {
    /// Creates slots of this work; no client holds one.
    pub(super) fn new(quantum: i64, config: &SchedulerConfig, mut own: impl FnMut(ClientId) -> T) -> Self {
        let client = |id| Client { balance: 0, waiting: 0, behind: NOT_IN_LINE, offered: false, own: own(id) };
        Self {
            quantum,
            bank_limit: BANK_SLOTS * config.cores as i64 * quantum,
            front: None,
            back: ClientId(0),
            offered: 0,
            clients: IdVec::from_fn(config.clients, client),
        }
    }

    /// Panics unless the clients that hold a slot and whose head may be served are in the line.
    pub(super) fn check(&self) {
        let mut in_line = 0;
        let mut next = self.front;
        while let Some(id) = next {
            in_line += 1;
            let behind = self.clients[id].behind;
            assert_ne!(behind, NOT_IN_LINE, "client {id} is in the line");
            assert!(in_line <= self.clients.len(), "the line ends");
            next = (behind != id.0).then_some(ClientId(behind));
            assert!(next.is_some() || id == self.back, "the line ends with its last");
        }
        assert_eq!(self.clients.iter().filter(|client| client.offered).count(), self.offered, "heads on offer");
        assert_eq!(self.clients.iter().filter(|client| client.behind != NOT_IN_LINE).count(), in_line, "one line");
        for id in self.clients.ids() {
            let client = &self.clients[id];
            assert!(!client.is_open() || client.behind != NOT_IN_LINE, "client {id} waits in the line");
            assert!(client.balance <= i64::MAX / 2, "balance of client {id}");
        }
    }

    /// Panics unless the client holds nothing and has no packets.
    pub(super) fn check_idle(&self, id: ClientId) {
        let client = &self.clients[id];
        assert!(client.balance <= 0 && !client.offered && client.waiting == 0, "client {id} is idle");
    }

    /// Returns all clients.
    pub(super) fn ids(&self) -> impl Iterator<Item = ClientId> + use<T> {
        self.clients.ids()
    }

    /// Whether no head may be served.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.offered == 0
    }

    /// Returns the client to serve: one that holds a slot and whose head may be served.
    #[inline]
    pub(super) fn holder(&mut self) -> Option<ClientId> {
        loop {
            let id = self.front?;
            let client = &mut self.clients[id];
            if client.is_open() {
                return Some(id);
            }
            self.front = (client.behind != id.0).then_some(ClientId(client.behind));
            client.behind = NOT_IN_LINE;
        }
    }

    /// Whether the head of this client may be served.
    #[inline]
    pub(super) fn is_offered(&self, id: ClientId) -> bool {
        self.clients[id].offered
    }

    /// Whether the client holds a slot.
    #[inline]
    pub(super) fn is_holder(&self, id: ClientId) -> bool {
        self.clients[id].balance > 0
    }

    /// Whether the client may be given a slot: to be served, or in advance, if it has packets
    /// waiting and little work left.
    #[inline]
    pub(super) fn is_able(&self, id: ClientId) -> bool {
        let client = &self.clients[id];
        client.offered || client.waiting > 0 && client.balance < self.bank_limit
    }

    /// Gives the client `slots` slots.
    #[inline]
    pub(super) fn grant(&mut self, id: ClientId, slots: u32) {
        self.add(id, self.quantum * i64::from(slots));
    }

    /// Records that a packet of the client has arrived.
    #[inline]
    pub(super) fn arrive(&mut self, id: ClientId) {
        self.clients[id].waiting += 1;
    }

    /// Records that a waiting packet of the client was dropped; `waiting` are left.
    pub(super) fn push_out(&mut self, id: ClientId, waiting: u32) {
        self.clients[id].waiting = waiting;
    }

    /// Records that the client's head may be served.
    #[inline]
    pub(super) fn offer(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.waiting = client.waiting.max(1);
        client.offered = true;
        self.offered += 1;
        self.line_up(id);
    }

    /// Records that the client's head goes to a core.
    #[inline]
    pub(super) fn dispatch(&mut self, id: ClientId, estimate: Work) {
        let client = &mut self.clients[id];
        client.balance = client.balance.saturating_sub(signed(estimate));
        client.waiting -= 1;
        client.offered = false;
        self.offered -= 1;
    }

    /// Corrects the charge of a packet by the difference between its actual work and its estimate.
    #[inline]
    pub(super) fn settle(&mut self, id: ClientId, used: Work, estimate: Work) {
        if used != estimate {
            self.add(id, signed(estimate).saturating_sub(signed(used)));
        }
    }

    /// Records that the client is idle: it keeps its debt, and loses the rest of its slots.
    pub(super) fn block(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.balance = client.balance.min(0);
    }

    /// Clears the client's debt and its slots.
    pub(super) fn forgive(&mut self, id: ClientId) {
        self.clients[id].balance = 0;
    }

    #[inline]
    fn add(&mut self, id: ClientId, work: i64) {
        let client = &mut self.clients[id];
        client.balance = client.balance.saturating_add(work);
        self.line_up(id);
    }

    /// Adds the client to the line if it holds a slot and its head may be served.
    #[inline]
    fn line_up(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        if client.behind != NOT_IN_LINE || !client.is_open() {
            return;
        }
        client.behind = id.0;
        match self.front {
            Some(_) => self.clients[self.back].behind = id.0,
            None => self.front = Some(id),
        }
        self.back = id;
    }
}

impl<T> Index<ClientId> for Slots<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: ClientId) -> &T {
        &self.clients[id].own
    }
}

impl<T> IndexMut<ClientId> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, id: ClientId) -> &mut T {
        &mut self.clients[id].own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;
    use alloc::string::ToString;

    const CLIENT: ClientId = ClientId(0);

    /// Creates slots of work 10 for `clients` clients.
    fn slots(clients: usize) -> Slots<()> {
        Slots::new(10, &config(1, clients, &[]), |_| ())
    }

    #[test]
    fn a_slot_is_used_up_and_overdrawn() {
        let mut slots = slots(2);
        slots.offer(CLIENT);
        assert_eq!(slots.holder(), None);
        slots.grant(CLIENT, 1);
        for balance in [4, -2] {
            assert_eq!(slots.holder(), Some(CLIENT));
            slots.dispatch(CLIENT, 6);
            slots.check();
            slots.offer(CLIENT);
            assert_eq!(slots.clients[CLIENT].balance, balance);
        }
        assert_eq!(slots.holder(), None);
        slots.check();
    }

    #[test]
    fn costs_are_settled_while_the_next_head_is_offered() {
        let mut slots = slots(1);
        slots.offer(CLIENT);
        slots.grant(CLIENT, 1);
        slots.dispatch(CLIENT, 10);
        slots.offer(CLIENT);
        for (used, holder) in [(9, Some(CLIENT)), (11, None)] {
            slots.settle(CLIENT, used, 10);
            assert_eq!(slots.holder(), holder);
            slots.check();
        }
    }

    #[test]
    fn who_is_idle_keeps_debts_only_and_who_is_gone_nothing() {
        let mut slots = slots(1);
        slots.grant(CLIENT, 2);
        slots.block(CLIENT);
        assert_eq!(slots.clients[CLIENT].balance, 0);
        slots.settle(CLIENT, 7, 0);
        slots.block(CLIENT);
        assert_eq!(slots.clients[CLIENT].balance, -7);
        slots.forgive(CLIENT);
        assert_eq!(slots.clients[CLIENT].balance, 0);
    }

    /// A client in service receives up to four slots in advance.
    #[test]
    fn who_cannot_be_served_saves_a_few_slots() {
        let mut slots = slots(1);
        (0..2).for_each(|_| slots.arrive(CLIENT));
        slots.offer(CLIENT);
        slots.grant(CLIENT, 1);
        slots.dispatch(CLIENT, 10);
        let saved = (0..9).take_while(|_| slots.is_able(CLIENT).then(|| slots.grant(CLIENT, 1)).is_some()).count();
        assert_eq!((saved, slots.holder()), (4, None));
        slots.offer(CLIENT);
        assert_eq!((slots.is_able(CLIENT), slots.holder()), (true, Some(CLIENT)));
        slots.dispatch(CLIENT, 10);
        assert!(!slots.is_able(CLIENT), "nothing is waiting");
        slots.check();
    }

    #[test]
    fn holders_are_served_in_the_order_in_which_they_came_to_be_so() {
        let mut slots = slots(4);
        (0..4).map(ClientId).for_each(|id| slots.offer(id));
        [2, 0, 3, 1].map(ClientId).into_iter().for_each(|id| slots.grant(id, 1));
        // Client 0 loses its slots before its turn.
        slots.settle(ClientId(0), 20, 10);
        let mut served = [2, 3].map(|expected| {
            let id = slots.holder().expect("open slots");
            assert_eq!(id, ClientId(expected));
            slots.dispatch(id, 5);
            slots.check();
            id
        });
        served.reverse();
        served.into_iter().for_each(|id| slots.offer(id));
        let rest: alloc::vec::Vec<u32> =
            core::iter::from_fn(|| slots.holder().inspect(|&id| slots.dispatch(id, 9))).map(|id| id.0).collect();
        assert_eq!(rest, [3, 1, 2]);
    }

    #[test]
    fn debts_without_bound_are_still_debts() {
        let mut slots = slots(1);
        slots.settle(CLIENT, u64::MAX, 0);
        slots.settle(CLIENT, u64::MAX, 0);
        assert_eq!(slots.clients[CLIENT].balance, i64::MIN);
    }

    #[test]
    fn quanta_are_refused_that_cannot_work() {
        let config = config(1, 1, &[]);
        assert_eq!(quantum("x", Auto::Auto, &config), Ok(10));
        assert_eq!(quantum("x", Auto::Given(11), &config), Ok(11));
        let refused = |given| quantum("x", Auto::Given(given), &config).unwrap_err().to_string();
        assert_eq!(refused(9), "x: `quantum` must be at least the longest packet (10 bytes), not 9");
        assert_eq!(refused(1 << 30), "x: `quantum` must be at most 536870912, not 1073741824");
    }
}
