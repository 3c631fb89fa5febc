//! Deficit round robin: turns in a ring, each worth a quantum, what is left over kept for the next.
//!
//! **Idea.** A client whose turn comes is given `quantum * weight` of credit and served while its head costs no more
//! than the credit. A head too large waits for the next turn, and the credit with it.
//!
//! **Source.** Shreedhar, Varghese. Efficient fair queuing using deficit round robin. SIGCOMM 1995.
//! PROPORTIONAL_SHARE section 2.2. Surplus round robin (Adiseshu, Parulkar, Varghese 1996): `surplus=true`.
//!
//! **Promises.** Work conserving. |W_i/w_i − W_j/w_j| ≤ quantum + 2 longest, while both are backlogged.
//!
//! **Cost.** O(1) when quantum ≥ longest packet, which is asked for; on several cores that keep the order of clients, a pick
//! may pass over the clients in service.
//!
//! **Invariants.** `ring` holds exactly the clients that are not idle, `open` those of them whose turn has begun and whose
//! head may be served.
//!
//! **Departures.** Charged the estimate at dispatch and corrected at completion, so a deficit may be negative: it is paid off
//! over turns. On several cores each may have a turn open. A client takes its next place when its turn begins, not when it
//! ends, or long turns would come round late; a newcomer goes before the turn begun last, so that on one core the order is
//! that of the paper. The promise is for one core; on several it holds for packets as they start, with one quantum more, if
//! clients may be served by several at once.

use alloc::format;

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

/// What is known of one client: half a line of the cache.
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

/// Deficit round robin.
#[derive(Debug)]
pub struct Drr {
    quantum: Work,
    surplus: bool,
    /// The first in the ring: the clients that are not idle, in the order of their next turns.
    front: Option<ClientId>,
    /// The first client whose turn has begun and whose head may be served, unless it is in `open`.
    first_open: Option<ClientId>,
    /// The others, in the order in which that became so: empty while one core alone takes packets.
    open: IdRing<ClientId>,
    /// Whose turn began last.
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
        Ok(Self { quantum, surplus: params.surplus, front: None, first_open: None, open, latest: ClientId(0), clients })
    }
}

impl Policy for Drr {
    fn check(&self) {
        for id in self.first_open.into_iter().chain(self.open.iter()) {
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
        let latest = self.latest;
        self.insert(id, self.clients[latest].in_turn.then_some(latest));
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
            let id = match self.first_open.or_else(|| self.open.front()) {
                Some(id) => id,
                None => self.begin_turn()?,
            };
            let client = &mut self.clients[id];
            let enough = if self.surplus { client.deficit > 0 } else { client.deficit >= client.head as i64 };
            if enough {
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
}

impl Drr {
    /// Begins the turn of the first client in the ring that has none and whose head may be served.
    #[inline]
    fn begin_turn(&mut self) -> Option<ClientId> {
        let front = self.front?;
        let mut id = front;
        while self.clients[id].head == 0 || self.clients[id].in_turn {
            id = self.clients[id].next;
            if id == front {
                return None;
            }
        }
        let client = &mut self.clients[id];
        client.in_turn = true;
        client.deficit += credit(self.quantum, client.weight);
        if id == front {
            // Goes to the end of the ring.
            self.front = Some(client.next);
        } else {
            self.remove(id);
            self.insert(id, None);
        }
        self.open(id);
        self.latest = id;
        Some(id)
    }

    /// Puts a client, which is not in the ring, before another, or at the end.
    #[inline]
    fn insert(&mut self, id: ClientId, before: Option<ClientId>) {
        debug_assert!(!self.clients[id].in_ring, "client {id} is in the ring already");
        let Some(next) = before.or(self.front) else {
            let client = &mut self.clients[id];
            (client.previous, client.next, client.in_ring) = (id, id, true);
            self.front = Some(id);
            return;
        };
        let previous = core::mem::replace(&mut self.clients[next].previous, id);
        self.clients[previous].next = id;
        let client = &mut self.clients[id];
        (client.previous, client.next, client.in_ring) = (previous, next, true);
        if before.is_some() && before == self.front {
            self.front = Some(id);
        }
    }

    /// Takes a client out of the ring; nothing happens if it is not there.
    #[inline]
    fn remove(&mut self, id: ClientId) {
        let Client { previous, next, in_ring, .. } = self.clients[id];
        if !in_ring {
            return;
        }
        self.clients[id].in_ring = false;
        if next == id {
            self.front = None;
            return;
        }
        self.clients[previous].next = next;
        self.clients[next].previous = previous;
        if self.front == Some(id) {
            self.front = Some(next);
        }
    }

    /// The client, whose turn has begun, may be served.
    #[inline]
    fn open(&mut self, id: ClientId) {
        if self.first_open.is_none() && self.open.is_empty() {
            self.first_open = Some(id);
        } else {
            self.open.push_back(id);
        }
    }

    /// The client may not be served, or has no turn; nothing happens if that was so.
    #[inline]
    fn close(&mut self, id: ClientId) {
        if self.first_open == Some(id) {
            self.first_open = None;
        } else if !self.open.is_empty() {
            self.open.remove(id);
        }
    }
}

fn credit(quantum: Work, weight: Weight) -> i64 {
    (quantum * u64::from(weight.get())) as i64
}

/// Times the greatest weight, this fits a deficit.
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
