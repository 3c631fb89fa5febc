//! Surplus fair scheduling, by its definition.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::unit::{Time, Weight, Work};

/// Fraction bits of a tag.
const FRACTION: u32 = 32;

#[derive(Clone, Copy, Debug)]
struct Client {
    weight: i128,
    /// The feasible weight as numerator and denominator, and whether it is less than the client's
    /// own weight.
    feasible: (i128, i128, bool),
    /// Virtual time up to which it was served, and the remainder of the last division.
    start: i128,
    remainder: i128,
    in_service: i128,
    awake: bool,
    offered: bool,
}

/// Surplus fair scheduling, as in PROPORTIONAL_SHARE section 2.13. Every pick checks every client,
/// and every change recomputes the feasible weights. Tags are rounded where those of the fast
/// version are, so both make the same decisions.
#[derive(Clone, Debug)]
pub struct NaiveSfs {
    cores: usize,
    virtual_time: i128,
    clients: Vec<Client>,
}

impl NaiveSfs {
    /// Returns clients with these weights on `cores` cores.
    pub fn new(weights: &[Weight], cores: usize) -> Self {
        let client = |weight: &Weight| Client {
            weight: weight.get().into(),
            feasible: (weight.get().into(), 1, false),
            start: 0,
            remainder: 0,
            in_service: 0,
            awake: false,
            offered: false,
        };
        Self { cores, virtual_time: 0, clients: weights.iter().map(client).collect() }
    }

    fn awake(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(|client| client.awake)
    }

    /// Sets virtual time to the least start of the clients that are not idle.
    fn advance(&mut self) {
        let least = self.awake().map(|client| client.start).min();
        self.virtual_time = self.virtual_time.max(least.unwrap_or(0));
    }

    /// Lowers the weights of the heaviest clients while they exceed the remaining weights over the
    /// remaining cores.
    fn readjust(&mut self) {
        let mut weights: Vec<i128> = self.awake().map(|client| client.weight).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let (mut rest, mut left) = (weights.iter().sum::<i128>(), self.cores as i128);
        let mut least_heavy = i128::MAX;
        for weight in weights {
            if weight * left <= rest {
                break;
            }
            (rest, left, least_heavy) = (rest - weight, left - 1, weight);
        }
        let ceiling = if rest > 0 { (rest, left, true) } else { (1, 1, true) };
        for client in self.clients.iter_mut().filter(|client| client.awake) {
            let feasible = if client.weight >= least_heavy { ceiling } else { (client.weight, 1, false) };
            if feasible != client.feasible {
                (client.feasible, client.remainder) = (feasible, 0);
            }
        }
    }

    /// Returns the weight times the client's lead over virtual time, times the denominator of every
    /// feasible weight.
    fn surplus(&self, client: &Client) -> i128 {
        let all = self.awake().find(|client| client.feasible.2).map_or(1, |client| client.feasible.1);
        let (weight, own, _) = client.feasible;
        let ahead = weight * (client.start - self.virtual_time) + client.remainder;
        ahead * (all / own) + (client.in_service << FRACTION) * all
    }
}

impl Policy for NaiveSfs {}

impl Share for NaiveSfs {
    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.advance();
        let client = &mut self.clients[id.index()];
        if client.start < self.virtual_time {
            (client.start, client.remainder) = (self.virtual_time, 0);
        }
        (client.awake, client.offered) = (true, true);
        self.readjust();
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.clients[id.index()].offered = true;
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.advance();
        let offered = (0..self.clients.len()).filter(|&at| self.clients[at].offered);
        let least = offered.min_by_key(|&at| (self.surplus(&self.clients[at]), self.clients[at].start, at));
        least.map(ClientId::from_index)
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id.index()];
        client.in_service += i128::from(sent.estimate);
        client.offered = false;
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        let client = &mut self.clients[id.index()];
        let (above, below, _) = client.feasible;
        let total = (i128::from(used) << FRACTION) * below + client.remainder;
        (client.start, client.remainder) = (client.start + total / above, total % above);
        client.in_service -= i128::from(sent.estimate);
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.advance();
        let client = &mut self.clients[id.index()];
        (client.awake, client.remainder, client.feasible) = (false, 0, (client.weight, 1, false));
        self.readjust();
        if self.awake().next().is_none() {
            let greatest = self.clients.iter().map(|client| client.start).max();
            self.virtual_time = self.virtual_time.max(greatest.unwrap_or(0));
        }
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id.index()].start = 0;
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let client = &mut self.clients[id.index()];
        (client.weight, client.remainder) = (weight.get().into(), 0);
        if client.awake {
            self.readjust();
        } else {
            client.feasible = (client.weight, 1, false);
        }
    }
}
