//! Slots: how a policy that orders quanta of equal length serves packets of any length.
//!
//! A slot is a quantum of work. What a client does not use of it, it keeps, and what it uses beyond, it owes, so that slots
//! hold in the long run whatever packets cost. PROPORTIONAL_SHARE section 0, the slot adapter.

use alloc::format;

use humpyard_core::id::{ClientId, IdVec};
use humpyard_core::policy::{Auto, BuildError, Setup};
use humpyard_core::storage::IdRing;
use humpyard_core::unit::Work;

/// The longest quantum: times a weight and the rounding of the weight to a power of two, it fits 62 bits.
const QUANTUM_MAX: Work = 1 << 29;

/// As many slots for each core a client may be given in advance while it is in service.
pub(super) const BANK_SLOTS: i64 = 4;

/// The work of one slot, as a parameter says it.
///
/// # Errors
/// A quantum that is shorter than the longest packet, or too long to count with.
pub(super) fn quantum(owner: &str, given: Auto, setup: &Setup<'_>) -> Result<i64, BuildError> {
    let quantum = match given {
        Auto::Auto => setup.longest.max(1),
        Auto::Given(quantum) if quantum < setup.longest => {
            return Err(BuildError::new(format!(
                "{owner}: `quantum` must be at least the longest packet ({} {}), not {quantum}",
                setup.longest,
                setup.unit.name()
            )));
        }
        Auto::Given(quantum) => quantum,
    };
    if quantum > QUANTUM_MAX {
        return Err(BuildError::new(format!("{owner}: `quantum` must be at most {QUANTUM_MAX}, not {quantum}")));
    }
    Ok(quantum as i64)
}

/// An amount of work with a sign.
pub(super) fn signed(work: Work) -> i64 {
    i64::try_from(work).unwrap_or(i64::MAX)
}

/// What is known of one client.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// Work left of its slots; negative is debt.
    balance: i64,
    /// Whether its head may be served.
    offered: bool,
}

/// The slots that clients hold. A client *holds* one while its balance is positive.
#[derive(Debug)]
pub(super) struct Slots {
    /// Work of one slot.
    quantum: i64,
    /// The clients that hold a slot and whose head may be served, in the order in which they came to be so.
    open: IdRing<ClientId>,
    /// Clients whose head may be served.
    offered: usize,
    clients: IdVec<ClientId, Client>,
}

impl Slots {
    /// Slots of this work; nobody holds one.
    pub(super) fn new(quantum: i64, clients: usize) -> Self {
        Self {
            quantum,
            open: IdRing::new(clients),
            offered: 0,
            clients: IdVec::from_fn(clients, |_| Client::default()),
        }
    }

    /// Panics unless the open clients are those that hold a slot and whose head may be served.
    pub(super) fn check(&self) {
        let offered = |client: &Client| client.offered;
        assert_eq!(self.clients.iter().filter(|client| offered(client)).count(), self.offered, "heads on offer");
        for id in self.clients.ids() {
            let client = &self.clients[id];
            let open = client.offered && client.balance > 0;
            assert_eq!(self.open.contains(id), open, "client {id} has an open slot");
            assert!(client.balance <= i64::MAX / 2, "balance of client {id}");
        }
    }

    /// Whether no head may be served.
    pub(super) fn is_empty(&self) -> bool {
        self.offered == 0
    }

    /// Whom to serve: a client that holds a slot.
    #[inline]
    pub(super) fn holder(&self) -> Option<ClientId> {
        self.open.front()
    }

    /// Whether the head of this client may be served.
    pub(super) fn is_offered(&self, id: ClientId) -> bool {
        self.clients[id].offered
    }

    /// Work left of the client's slots; negative is debt.
    pub(super) fn balance(&self, id: ClientId) -> i64 {
        self.clients[id].balance
    }

    /// Gives the client so many slots.
    pub(super) fn grant(&mut self, id: ClientId, slots: u32) {
        self.add(id, self.quantum * i64::from(slots));
    }

    /// The client's head may be served.
    pub(super) fn offer(&mut self, id: ClientId) {
        self.clients[id].offered = true;
        self.offered += 1;
        self.add(id, 0);
    }

    /// The client's head goes to a core.
    pub(super) fn dispatch(&mut self, id: ClientId, estimate: Work) {
        let client = &mut self.clients[id];
        client.balance = client.balance.saturating_sub(signed(estimate));
        client.offered = false;
        self.offered -= 1;
        self.open.remove(id);
    }

    /// A packet cost this instead of its estimate.
    pub(super) fn settle(&mut self, id: ClientId, used: Work, estimate: Work) {
        if used != estimate {
            self.add(id, signed(estimate).saturating_sub(signed(used)));
        }
    }

    /// The client is idle: it keeps its debt, and loses what is left of its slots.
    pub(super) fn block(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.balance = client.balance.min(0);
    }

    /// The client, idle, owes nothing any more.
    pub(super) fn forgive(&mut self, id: ClientId) {
        self.clients[id].balance = 0;
    }

    fn add(&mut self, id: ClientId, work: i64) {
        let client = &mut self.clients[id];
        client.balance = client.balance.saturating_add(work);
        if client.offered {
            let open = client.balance > 0;
            if open != self.open.contains(id) {
                if open { self.open.push_back(id) } else { self.open.remove(id) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::setup;
    use alloc::string::ToString;

    const CLIENT: ClientId = ClientId(0);

    #[test]
    fn a_slot_is_used_up_and_overdrawn() {
        let mut slots = Slots::new(10, 1);
        slots.offer(CLIENT);
        assert_eq!(slots.holder(), None);
        slots.grant(CLIENT, 1);
        for balance in [4, -2] {
            assert_eq!(slots.holder(), Some(CLIENT));
            slots.dispatch(CLIENT, 6);
            slots.check();
            slots.offer(CLIENT);
            assert_eq!(slots.balance(CLIENT), balance);
        }
        assert_eq!(slots.holder(), None);
        slots.check();
    }

    #[test]
    fn costs_are_settled_while_the_next_head_is_offered() {
        let mut slots = Slots::new(10, 1);
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
        let mut slots = Slots::new(10, 1);
        slots.grant(CLIENT, 2);
        slots.block(CLIENT);
        assert_eq!(slots.balance(CLIENT), 0);
        slots.settle(CLIENT, 7, 0);
        slots.block(CLIENT);
        assert_eq!(slots.balance(CLIENT), -7);
        slots.forgive(CLIENT);
        assert_eq!(slots.balance(CLIENT), 0);
    }

    #[test]
    fn debts_without_bound_are_still_debts() {
        let mut slots = Slots::new(10, 1);
        slots.settle(CLIENT, u64::MAX, 0);
        slots.settle(CLIENT, u64::MAX, 0);
        assert_eq!(slots.balance(CLIENT), i64::MIN);
    }

    #[test]
    fn quanta_are_refused_that_cannot_work() {
        let setup = setup(1, 1, &[]);
        assert_eq!(quantum("x", Auto::Auto, &setup), Ok(10));
        assert_eq!(quantum("x", Auto::Given(11), &setup), Ok(11));
        let refused = |given| quantum("x", Auto::Given(given), &setup).unwrap_err().to_string();
        assert_eq!(refused(9), "x: `quantum` must be at least the longest packet (10 bytes), not 9");
        assert_eq!(refused(1 << 30), "x: `quantum` must be at most 536870912, not 1073741824");
    }
}
