//! Lottery: the next slot is drawn at random, and each client has as many tickets as weight.
//!
//! **Idea.** The policy does not record past service: the client that holds the drawn ticket has
//! the next slot. So chances are proportional to the weights, immediately after every change. The
//! price is randomness: shares are right only on average.
//!
//! **Source.** Waldspurger, Weihl. Lottery scheduling: flexible proportional-share resource management. OSDI 1994.
//! PROPORTIONAL_SHARE sections 2.3 and 0 (slots).
//!
//! **Promises.** Work conserving. There is no bound: after n draws a client of share p has won n p
//! times on average, with a standard deviation of sqrt(n p (1 - p)).
//!
//! **Cost.** `pick`, and a client that comes or goes, O(log n): a tree of ticket sums. On several
//! cores a pick may draw clients in service, and gives them slots in advance. A client with enough
//! of these is drawn only once more before it is offered again. 48 bytes per client.
//!
//! **Invariants.** A client has tickets unless it is idle, or was drawn and could receive no slot;
//! then it has tickets from its next head on. A drawn client holds a slot until it is dispatched,
//! so it is served next on any core that asks.
//!
//! **Departures.** With `compensation` a slot is one packet. A client whose last packet used a
//! fraction f of a quantum has 1/f times its tickets until its next dispatch, at most 256 times.
//! The number is rounded to fractions of a ticket, as fine as the number of clients permits. A
//! packet that used more than a quantum counts likewise: the client has fewer tickets.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::random::Random;
use humpyard_core::unit::{Time, Weight, Work};

use super::fenwick::Fenwick;
use super::slot::{GivesSlots, Slots, quantum};

params! {
    /// Parameters of the lottery.
    pub struct LotteryParams {
        /// Work of one slot; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
        /// Whether a slot is one packet. A client that used less than a quantum then has more
        /// tickets for the next, instead of the rest of the quantum.
        compensation: bool = false;
    }
}

/// The binary logarithm of the greatest factor by which tickets grow to compensate for short packets.
const COMPENSATION_BITS: u32 = 8;

/// The most fraction bits of a ticket.
const FRACTION_BITS_MAX: u32 = 16;

/// The state of one client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// The tickets that take part in draws; 0 if the client does not take part.
    drawn: u64,
    weight: u32,
}

/// Lottery scheduling.
#[derive(Debug)]
pub struct Lottery {
    tickets: Fenwick,
    random: Random,
    /// The compensation. `None`: there is none.
    compensation: Option<Compensation>,
    slots: Slots<Client>,
}

/// The compensation for packets that are shorter than a quantum.
#[derive(Debug)]
struct Compensation {
    quantum: u64,
    /// The number of fraction bits of tickets.
    fraction_bits: u32,
    /// The work that the last packet of each client used; a whole quantum at first.
    used: IdVec<ClientId, u32>,
}

impl Compensation {
    fn new(quantum: u64, clients: usize) -> Self {
        let room = u64::BITS - 1 - u32::BITS - COMPENSATION_BITS;
        let client_bits = usize::BITS - clients.leading_zeros();
        let used = IdVec::from_fn(clients, |_| quantum as u32);
        Self { quantum, fraction_bits: room.saturating_sub(client_bits).min(FRACTION_BITS_MAX), used }
    }

    /// Returns the tickets of a client of this weight.
    fn tickets(&self, id: ClientId, weight: u32) -> u64 {
        let most = u64::from(weight) << (self.fraction_bits + COMPENSATION_BITS);
        let whole = u128::from(weight) << self.fraction_bits;
        let tickets = whole * u128::from(self.quantum) / u128::from(self.used[id]);
        (tickets.min(most.into()) as u64).max(1)
    }
}

impl Build for Lottery {
    type Params = LotteryParams;
    const INFO: Info = Info {
        name: "lottery",
        family: Family::Share,
        summary: "the next slot is drawn, each client has as many tickets as weight",
        source: "Waldspurger, Weihl. Lottery scheduling. OSDI 1994",
        promises: &[Promise::WorkConserving],
        complexity: "O(log n)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000", "compensation=true"];

    fn new(params: &LotteryParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = quantum(Self::INFO.name, params.quantum, config)?;
        let client = |id| Client { drawn: 0, weight: config.weight(id).get() };
        Ok(Self {
            tickets: Fenwick::new(config.clients),
            random: config.seed.stream("share/lottery"),
            compensation: params.compensation.then(|| Compensation::new(quantum as u64, config.clients)),
            slots: Slots::new(quantum, config, client),
        })
    }
}

impl Policy for Lottery {
    fn check(&self) {
        self.slots.check();
        let drawn = self.slots.ids().map(|id| self.slots[id].drawn);
        assert_eq!(drawn.sum::<u64>(), self.tickets.total(), "all tickets");
        for id in self.slots.ids() {
            let drawn = self.slots[id].drawn;
            assert!(drawn > 0 || !self.slots.is_offered(id), "client {id} has tickets");
            assert!(drawn == 0 || drawn == self.tickets_of(id), "tickets of client {id}");
        }
    }
}

impl Share for Lottery {
    #[inline]
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
        self.slots.arrive(id);
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.on_head(now, id, head);
    }

    #[inline]
    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.set_tickets(id, self.tickets_of(id));
        self.slots.offer(id);
    }

    #[inline]
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.holder()
    }

    #[inline]
    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        self.slots.dispatch(id, sent.estimate);
        self.compensate(id, sent.estimate);
    }

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        if self.compensation.is_none() {
            self.slots.settle(id, used, sent.estimate);
        } else if used != sent.estimate && !self.slots.is_holder(id) {
            self.compensate(id, used);
        }
    }

    fn on_push_out(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
        self.slots.push_out(id, waiting);
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.slots.block(id);
        self.set_tickets(id, 0);
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.slots.forgive(id);
        if let Some(compensation) = &mut self.compensation {
            compensation.used[id] = compensation.quantum as u32;
        }
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        self.slots[id].weight = weight.get();
        if self.slots[id].drawn > 0 {
            self.set_tickets(id, self.tickets_of(id));
        }
    }
}

impl GivesSlots for Lottery {
    type Client = Client;

    #[inline]
    fn slots(&mut self) -> &mut Slots<Client> {
        &mut self.slots
    }

    fn give(&mut self) {
        loop {
            let ticket = self.random.below(self.tickets.total());
            let winner = self.tickets.find(ticket);
            if self.may_win(winner) {
                return self.slots.grant(winner, 1);
            }
            self.set_tickets(winner, 0);
        }
    }
}

impl Lottery {
    /// Whether the client may be given a slot. It may get one in advance only if it keeps the rest
    /// of its slots.
    fn may_win(&self, id: ClientId) -> bool {
        if self.compensation.is_some() { self.slots.is_offered(id) } else { self.slots.is_able(id) }
    }

    /// Returns the tickets of a client that takes part in draws.
    fn tickets_of(&self, id: ClientId) -> u64 {
        let weight = self.slots[id].weight;
        self.compensation.as_ref().map_or(weight.into(), |compensation| compensation.tickets(id, weight))
    }

    fn set_tickets(&mut self, id: ClientId, tickets: u64) {
        let client = &mut self.slots[id];
        if client.drawn != tickets {
            self.tickets.change(id, client.drawn, tickets);
            client.drawn = tickets;
        }
    }

    /// With compensation, ends the slot of a client that used this work.
    fn compensate(&mut self, id: ClientId, used: Work) {
        let Some(compensation) = &mut self.compensation else { return };
        compensation.used[id] = used.clamp(1, u32::MAX.into()) as u32;
        self.slots.forgive(id);
        if self.slots[id].drawn > 0 {
            self.set_tickets(id, self.tickets_of(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, Desk, random_weights};
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;

    const LOTTERY: LotteryParams = LotteryParams { quantum: Auto::Auto, compensation: false };
    const COMPENSATED: LotteryParams = LotteryParams { quantum: Auto::Auto, compensation: true };

    /// Returns a desk with all clients of a set awake.
    fn desk(params: &LotteryParams, weights: &[u32]) -> Desk<Lottery> {
        let mut desk = Desk::new(params, weights);
        desk.wake(&(1..=weights.len() as u32).collect::<Vec<_>>());
        desk
    }

    fn served(desk: &mut Desk<Lottery>, clients: usize, packets: usize) -> Vec<f64> {
        let mut served = vec![0.0; clients];
        (0..packets).for_each(|_| served[desk.step().0.index()] += 1.0);
        served
    }

    /// PROPORTIONAL_SHARE section 2.3.
    #[test]
    fn tickets_of_the_specification() {
        let mut desk = desk(&LOTTERY, &A);
        let tickets = &desk.policy().tickets;
        assert_eq!(tickets.total(), 6);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|ticket| tickets.find(ticket).0 + 1), [1, 1, 1, 2, 2, 3]);
    }

    /// With two degrees of freedom, a thousandth of all streams exceed this value.
    #[test]
    fn draws_are_in_proportion() {
        for params in [&LOTTERY, &COMPENSATED] {
            let served = served(&mut desk(params, &A), 3, 60_000);
            let expected = A.map(|weight| 10_000.0 * f64::from(weight));
            let chi2: f64 = served.iter().zip(&expected).map(|(&n, &mean)| (n - mean) * (n - mean) / mean).sum();
            assert!(chi2 < 13.8, "chi-squared {chi2}");
        }
    }

    /// The limit is five standard deviations: one client in two million exceeds it.
    #[test]
    fn wins_are_within_five_standard_deviations() {
        for weights in random_weights("lottery", 100, 20, 1000) {
            let draws = 5000;
            let served = served(&mut desk(&LOTTERY, &weights), weights.len(), draws);
            let total: u32 = weights.iter().sum();
            for (&won, &weight) in served.iter().zip(&weights) {
                let (n, p) = (draws as f64, f64::from(weight) / f64::from(total));
                assert!((won - n * p).powi(2) <= 25.0 * n * p * (1.0 - p), "{weights:?}: {won} of {}", n * p);
            }
        }
    }

    /// Packets of whole, half and tenth quanta at equal weights get equal work, with and without compensation.
    #[test]
    fn short_packets_are_made_up_for() {
        for params in [&LOTTERY, &COMPENSATED] {
            let mut desk = Desk::<Lottery>::with_work(params, &[1, 1, 1], 100, |client, _| {
                let work = [100, 50, 10][client.index()];
                (work, work)
            });
            desk.wake(&[1, 2, 3]);
            let mut work = [0.0; 3];
            for _ in 0..100_000 {
                let (client, used) = desk.step();
                work[client.index()] += used as f64;
            }
            let total: f64 = work.iter().sum();
            assert!(work.iter().all(|&own| (own / total - 1.0 / 3.0).abs() < 0.01), "{work:?}");
        }
    }

    #[test]
    fn who_used_half_of_a_quantum_has_twice_the_tickets() {
        let mut desk = Desk::<Lottery>::with_work(&COMPENSATED, &[3], 10, |_, _| (10, 5));
        desk.wake(&[1]);
        let whole = desk.policy().tickets.total();
        desk.step();
        assert_eq!(desk.policy().tickets.total(), 2 * whole);
        desk.policy().on_idle(Time::ZERO, ClientId(0));
        desk.policy().on_client_end(Time::ZERO, ClientId(0));
        assert_eq!(desk.policy().tickets_of(ClientId(0)), whole);
    }

    /// A draw changes the state: its result holds until the client is dispatched.
    #[test]
    fn asked_again_it_answers_the_same() {
        let mut desk = desk(&LOTTERY, &[1; 20]);
        let policy = desk.policy();
        let first = policy.pick(Time::ZERO, CoreId(0));
        assert!((0..100).all(|core| policy.pick(Time::ZERO, CoreId(core % 4)) == first));
    }

    #[test]
    fn sums_fit_whatever_the_weights() {
        for clients in [1, 1000, 1 << 22] {
            let compensation = Compensation { used: Default::default(), ..Compensation::new(1514, clients) };
            let most = u128::from(u32::MAX) << (compensation.fraction_bits + COMPENSATION_BITS);
            assert!(most * (clients as u128) < 1 << 63);
        }
    }
}
