//! Deficit round robin: turns in a ring, each worth a quantum; the unused rest is kept for the next turn.
//!
//! **Idea.** A client receives `quantum * weight` of credit when its turn begins. It is served
//! while its head costs no more than the credit. A head that is too large waits for the next turn,
//! and the credit is kept.
//!
//! **Source.** Shreedhar, Varghese. Efficient fair queuing using deficit round robin. SIGCOMM 1995.
//! PROPORTIONAL_SHARE section 2.2. Surplus round robin (Adiseshu, Parulkar, Varghese 1996): `surplus=true`.
//!
//! **Promises.** Work conserving. |W_i/w_i − W_j/w_j| ≤ quantum + 2 longest, while both are backlogged.
//!
//! **Cost.** O(1) if quantum ≥ longest packet, which is checked. On several cores that keep the
//! order of clients, a pick may pass over the clients in service.
//!
//! **Invariants.** `ring` holds exactly the clients that are not idle. `open` holds those of them
//! whose turn has begun and whose head may be served.
//!
//! **Departures.** The estimate is charged at dispatch and corrected at completion, so a deficit
//! may be negative: it is paid off over turns. On several cores each may have a turn open. A client
//! takes its next place when its turn begins, because long turns would otherwise come round late. A
//! new client goes before the client whose turn began last, so on one core the order is that of the
//! paper. The promise is for one core. On several cores it holds at the start of packets, with one
//! quantum more if several cores may serve a client at once.

use alloc::format;
use alloc::string::String;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::storage::IdRing;
use humpyard_core::unit::{Time, Weight, Work};

params! {
    /// Parameters of deficit round robin.
    pub struct DrrParams {
        /// Work that a client of weight 1 may be served in a turn; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
        /// Serve while any credit is left and carry the debt (surplus round robin), for costs unknown before service.
        surplus: bool = false;
    }
}

/// The state of one client: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Client {
    /// Credit left; negative is debt.
    deficit: i64,
    /// Estimated work of its head; 0 while it may not be served.
    head: Work,
    weight: Weight,
    /// Its neighbours in the ring.
    previous: ClientId,
    next: ClientId,
    /// Whether its turn has begun and is not over.
    in_turn: bool,
    /// Whether it is in the ring.
    in_ring: bool,
}

/// Stands for no client.
const NONE: ClientId = ClientId(u32::MAX);

impl Client {
    /// Whether its credit is enough for its head; with `surplus`, whether any is left.
    #[inline(always)]
    fn has_credit(&self, surplus: bool) -> bool {
        if surplus { self.deficit > 0 } else { self.deficit >= self.head as i64 }
    }
}

/// Deficit round robin.
#[derive(Debug)]
pub struct Drr {
    quantum: Work,
    surplus: bool,
    /// The first in the ring: the clients that are not idle, in the order of their next turns. [`NONE`]: all are idle.
    front: ClientId,
    /// The first client whose turn has begun and whose head may be served, unless it is in `open`. [`NONE`]: no
    /// such client.
    first_open: ClientId,
    /// The other such clients, in the order in which they became open; empty while only one core
    /// takes packets.
    open: IdRing<ClientId>,
    /// The client whose turn began last.
    latest: ClientId,
    clients: IdVec<ClientId, Client>,
}

impl Build for Drr {
    type Params = DrrParams;
    const INFO: Info = Info {
        name: "drr",
        family: Family::Share,
        summary: "turns in a ring, each worth a quantum per weight; what is left over is kept",
        source: "Shreedhar, Varghese. Efficient fair queuing using deficit round robin. SIGCOMM 1995",
        promises: &[Promise::WorkConserving, Promise::Fair("|W_i/w_i - W_j/w_j| <= quantum + 2 longest")],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["surplus=true", "quantum=20000"];

    fn new(params: &DrrParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = match params.quantum {
            Auto::Auto => config.longest,
            Auto::Given(quantum) if quantum < config.longest => {
                return Err(BuildError::bad_value(format!(
                    "drr: `quantum` must be at least the longest packet ({} {}), not {quantum}, or a turn may serve nothing",
                    config.longest,
                    config.unit.name()
                )));
            }
            Auto::Given(quantum) if quantum > QUANTUM_MAX => {
                return Err(BuildError::bad_value(format!(
                    "drr: `quantum` must be at most {QUANTUM_MAX}, not {quantum}"
                )));
            }
            Auto::Given(quantum) => quantum,
        };
        let clients = IdVec::from_fn(config.clients, |id| Client {
            deficit: 0,
            head: 0,
            weight: config.weight(id),
            previous: id,
            next: id,
            in_turn: false,
            in_ring: false,
        });
        let open = IdRing::new(config.clients);
        Ok(Self { quantum, surplus: params.surplus, front: NONE, first_open: NONE, open, latest: ClientId(0), clients })
    }
}

impl Policy for Drr {
    fn check(&self) {
        let first_open = Some(self.first_open).filter(|&id| id != NONE);
        for id in first_open.into_iter().chain(self.open.iter()) {
            let client = &self.clients[id];
            assert!(client.in_turn && client.head > 0 && client.in_ring, "client {id} has no open turn");
        }
        for (id, client) in self.clients.ids().zip(self.clients.iter()) {
            if client.in_ring {
                assert_eq!(self.clients[client.next].previous, id, "neighbours");
                continue;
            }
            assert!(!client.in_turn && client.head == 0 && client.deficit == 0, "client {id} is idle");
        }
    }
}

impl Share for Drr {
    #[inline]
    fn on_wake(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.clients[id].head = head.estimate;
        // A new client goes before the client whose turn began last, if that turn is not over.
        let is_over = !self.clients[self.latest].in_turn;
        self.insert(id, if is_over { NONE } else { self.latest });
    }

    #[inline]
    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        let client = &mut self.clients[id];
        client.head = head.estimate;
        if client.in_turn {
            self.open(id);
        }
    }

    #[inline]
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        loop {
            let Some(id) = self.next_open() else { return self.begin_turn() };
            let client = &mut self.clients[id];
            if client.has_credit(self.surplus) {
                return Some(id);
            }
            client.in_turn = false;
            self.close(id);
        }
    }

    #[inline]
    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        self.close(id);
        let client = &mut self.clients[id];
        client.deficit -= sent.estimate as i64;
        client.head = 0;
    }

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        if used != sent.estimate {
            self.clients[id].deficit -= used as i64 - sent.estimate as i64;
        }
    }

    #[inline]
    fn on_idle(&mut self, _: Time, id: ClientId) {
        let client = &mut self.clients[id];
        (client.deficit, client.in_turn) = (0, false);
        self.remove(id);
    }

    fn on_client_end(&mut self, _: Time, _: ClientId) {}

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        self.clients[id].weight = weight;
    }

    fn explain(&self, id: ClientId) -> Option<String> {
        let Client { deficit, head, weight, in_turn, .. } = self.clients[id];
        let turn = if in_turn { "its turn has begun" } else { "it waits for its turn" };
        let credit = credit(self.quantum, weight);
        Some(format!("{turn}; its credit is {deficit}, its next packet costs {head}, and a turn is worth {credit}"))
    }
}

impl Drr {
    /// Returns the first client whose turn has begun and whose head may be served.
    #[inline(always)]
    fn next_open(&self) -> Option<ClientId> {
        if self.first_open == NONE { self.open.front() } else { Some(self.first_open) }
    }

    /// Begins the turns of ring clients whose turn has not begun and whose heads may be served,
    /// until one has enough credit.
    #[inline]
    fn begin_turn(&mut self) -> Option<ClientId> {
        if self.front == NONE {
            return None;
        }
        loop {
            let id = self.next_without_turn()?;
            let client = &mut self.clients[id];
            client.deficit += credit(self.quantum, client.weight);
            let is_open = client.has_credit(self.surplus);
            client.in_turn = is_open;
            if id == self.front {
                // The client goes to the end of the ring.
                self.front = client.next;
            } else {
                self.remove(id);
                self.insert(id, NONE);
            }
            self.latest = id;
            if is_open {
                self.open(id);
                return Some(id);
            }
        }
    }

    /// Returns the first client in the ring whose turn has not begun and whose head may be served.
    /// There is one.
    #[inline(always)]
    fn next_without_turn(&self) -> Option<ClientId> {
        let mut id = self.front;
        loop {
            let client = &self.clients[id];
            if client.head > 0 && !client.in_turn {
                return Some(id);
            }
            id = client.next;
            if id == self.front {
                return None;
            }
        }
    }

    /// Inserts a client that is not in the ring before another. [`NONE`]: at the end.
    #[inline]
    fn insert(&mut self, id: ClientId, before: ClientId) {
        debug_assert!(!self.clients[id].in_ring, "client {id} is in the ring already");
        let front = self.front;
        if front == NONE {
            let client = &mut self.clients[id];
            (client.previous, client.next, client.in_ring) = (id, id, true);
            self.front = id;
            return;
        }
        let next = if before == NONE { front } else { before };
        let previous = core::mem::replace(&mut self.clients[next].previous, id);
        self.clients[previous].next = id;
        let client = &mut self.clients[id];
        (client.previous, client.next, client.in_ring) = (previous, next, true);
        if before == front {
            self.front = id;
        }
    }

    /// Removes a client from the ring. Does nothing if it is not in the ring.
    #[inline]
    fn remove(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        let Client { previous, next, in_ring, .. } = *client;
        if !in_ring {
            return;
        }
        client.in_ring = false;
        if next == id {
            self.front = NONE;
            return;
        }
        self.clients[previous].next = next;
        self.clients[next].previous = previous;
        if self.front == id {
            self.front = next;
        }
    }

    /// Opens a client whose turn has begun: it may be served.
    #[inline]
    fn open(&mut self, id: ClientId) {
        if self.first_open == NONE && self.open.is_empty() {
            self.first_open = id;
        } else {
            self.open.push_back(id);
        }
    }

    /// Closes a client that may not be served or whose turn is over. Does nothing if it is not open.
    #[inline]
    fn close(&mut self, id: ClientId) {
        if self.first_open == id {
            self.first_open = NONE;
        } else if !self.open.is_empty() {
            self.open.remove(id);
        }
    }
}

fn credit(quantum: Work, weight: Weight) -> i64 {
    (quantum * u64::from(weight.get())) as i64
}

/// The greatest quantum: multiplied by the greatest weight, it fits a deficit.
const QUANTUM_MAX: Work = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, B, V, sequence, unit_sequence, v_work};
    use crate::testing::config;
    use alloc::string::ToString;

    const SURPLUS: DrrParams = DrrParams { quantum: Auto::Auto, surplus: true };

    #[test]
    fn vectors_of_the_specification() {
        let drr = DrrParams::default();
        assert_eq!(unit_sequence::<Drr>(&drr, &A, 12), "111223111223");
        assert_eq!(unit_sequence::<Drr>(&drr, &B, 24), "111111111111222333445566");
        assert_eq!(sequence::<Drr>(&drr, &V, 14, 10, v_work), "11112231111223");
    }

    #[test]
    fn surplus_vectors_of_the_specification() {
        assert_eq!(unit_sequence::<Drr>(&SURPLUS, &A, 12), "111223111223");
        assert_eq!(unit_sequence::<Drr>(&SURPLUS, &B, 24), "111111111111222333445566");
        assert_eq!(sequence::<Drr>(&SURPLUS, &V, 14, 10, v_work), "11112223111122");
    }

    #[test]
    fn a_quantum_below_the_longest_packet_is_refused() {
        let params = DrrParams { quantum: Auto::Given(9), surplus: false };
        let error = Drr::new(&params, &config(1, 1, &[])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "drr: `quantum` must be at least the longest packet (10 bytes), not 9, or a turn may serve nothing"
        );
    }
}
