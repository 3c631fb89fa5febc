//! Fairness: service against weight.

use super::SameClient;
use super::summary::FairnessSummary;
use crate::id::{ClientId, IdVec};
use crate::unit::{Weight, Work};

#[derive(Clone, Copy, Debug)]
struct Client {
    weight: Weight,
    /// Packets waiting or in service.
    packets: u32,
    /// All service since the id is in use.
    total: Work,
    /// Service since it last woke: a whole number, exact up to 2^53.
    service: f64,
    /// The fluid share per weight when it last woke.
    woke_at: f64,
}

/// Compares the service of each client with its fluid share. The fluid share is what it would have
/// if, at each instant, the work done were divided among the clients with packets in proportion to
/// their weights.
///
/// The service error of a client is its service minus its fluid share, both since it last woke, in
/// the unit of work. It is least just before a service and greatest just after one, so it is
/// measured then.
#[derive(Debug)]
pub struct Fairness {
    clients: IdVec<ClientId, Client>,
    /// Work done per weight of the clients that had packets.
    fluid: f64,
    /// The sum of weights of the clients with packets: a whole number.
    weight_active: f64,
    error_min: f64,
    error_max: f64,
    ended: Jain,
}

/// The sums of Jain's index.
#[derive(Clone, Copy, Debug, Default)]
struct Jain {
    n: u64,
    sum: f64,
    sum_squared: f64,
}

impl Fairness {
    /// Returns measurements for client ids below `clients` with these weights.
    pub fn new(clients: usize, mut weight: impl FnMut(ClientId) -> Weight) -> Self {
        let clients = IdVec::from_fn(clients, |id| Client {
            weight: weight(id),
            packets: 0,
            total: 0,
            service: 0.0,
            woke_at: 0.0,
        });
        Self { clients, fluid: 0.0, weight_active: 0.0, error_min: 0.0, error_max: 0.0, ended: Jain::default() }
    }

    /// A packet of the client was accepted.
    #[inline(always)]
    pub fn on_arrival(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.packets += 1;
        if client.packets == 1 {
            client.service = 0.0;
            client.woke_at = self.fluid;
            self.weight_active += client.weight();
        }
    }

    /// Records the work `used` of a completed packet of the client. If the packet is not
    /// `measured`, its work still counts as service.
    #[inline(always)]
    pub fn on_service(&mut self, id: ClientId, used: Work, measured: bool) {
        let client = &mut self.clients[id];
        if measured {
            let error = client.error(self.fluid);
            if error < self.error_min {
                self.error_min = error;
            }
            client.total += used;
        }
        let work = real(used);
        self.fluid += work / self.weight_active;
        client.service += work;
        if measured {
            let error = client.error(self.fluid);
            if error > self.error_max {
                self.error_max = error;
            }
        }
        client.packets -= 1;
        if client.packets == 0 {
            self.weight_active -= client.weight();
        }
    }

    /// An accepted packet of the client was dropped.
    pub fn on_drop(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        client.packets -= 1;
        if client.packets == 0 {
            self.weight_active -= client.weight();
        }
    }

    /// Discards the measurements so far: every client's error starts again at 0. O(clients).
    pub fn restart(&mut self) {
        for client in self.clients.iter_mut() {
            client.total = 0;
            client.service = 0.0;
            client.woke_at = self.fluid;
        }
        (self.error_min, self.error_max, self.ended) = (0.0, 0.0, Jain::default());
    }

    /// The client, idle, is gone.
    pub fn on_client_end(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        self.ended.add(client);
        client.total = 0;
    }

    /// Changes the weight of the client; its error starts again at 0.
    pub fn set_weight(&mut self, id: ClientId, weight: Weight) {
        let client = &mut self.clients[id];
        if client.packets > 0 {
            self.weight_active = self.weight_active - client.weight() + f64::from(weight.get());
        }
        client.weight = weight;
        client.service = 0.0;
        client.woke_at = self.fluid;
    }

    /// Returns the service of all clients at all dispatchers, and the extreme errors at any of
    /// them.
    pub(super) fn summary_of<'a>(several: impl Iterator<Item = &'a Self> + Clone, same: SameClient) -> FairnessSummary {
        let all = || several.clone();
        let mut jain = Jain::default();
        all().for_each(|one| jain.merge(one.ended));
        match same {
            SameClient::Never => all().flat_map(|one| one.clients.iter()).for_each(|client| jain.add(client)),
            SameClient::Always => {
                let clients = all().map(|one| one.clients.len()).max().unwrap_or(0);
                for at in 0..clients {
                    let known = || all().filter_map(|one| one.clients.iter().nth(at));
                    let total = known().map(|client| client.total).sum();
                    known().next().into_iter().for_each(|client| jain.add(&Client { total, ..*client }));
                }
            }
        }
        FairnessSummary {
            jain: jain.index(),
            service_error_min: all().fold(0.0, |least, one| one.error_min.min(least)),
            service_error_max: all().fold(0.0, |most, one| one.error_max.max(most)),
            clients: jain.n,
        }
    }
}

impl Client {
    #[inline(always)]
    fn weight(&self) -> f64 {
        f64::from(self.weight.get())
    }

    #[inline(always)]
    fn error(&self, fluid: f64) -> f64 {
        self.service - self.weight() * (fluid - self.woke_at)
    }
}

/// Converts to a real number. The processor converts signed numbers with a third of the instructions.
#[inline]
fn real(number: u64) -> f64 {
    let signed = number as i64;
    if signed >= 0 { signed as f64 } else { number as f64 }
}

impl Jain {
    fn add(&mut self, client: &Client) {
        if client.total > 0 {
            let share = client.total as f64 / f64::from(client.weight.get());
            self.n += 1;
            self.sum += share;
            self.sum_squared += share * share;
        }
    }

    fn merge(&mut self, other: Self) {
        self.n += other.n;
        self.sum += other.sum;
        self.sum_squared += other.sum_squared;
    }

    fn index(&self) -> f64 {
        if self.n == 0 { 1.0 } else { self.sum * self.sum / (self.n as f64 * self.sum_squared) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(value: u32) -> Weight {
        Weight::new(value).expect("positive")
    }

    fn summary(fairness: &Fairness) -> FairnessSummary {
        Fairness::summary_of(core::iter::once(fairness), SameClient::Never)
    }

    /// Set B of PROPORTIONAL_SHARE under weighted round robin: errors within [-15/8, 6], all zero at the end.
    #[test]
    fn errors_of_weighted_round_robin() {
        let weights = [12, 3, 3, 2, 2, 2];
        let mut fairness = Fairness::new(6, |id| weight(weights[id.0 as usize]));
        (0..6).for_each(|id| fairness.on_arrival(ClientId(id)));
        for id in (0..6).flat_map(|id| core::iter::repeat_n(ClientId(id), weights[id as usize] as usize)) {
            fairness.on_arrival(id);
            fairness.on_service(id, 1, true);
        }
        let summary = summary(&fairness);
        assert!((summary.service_error_min + 15.0 / 8.0).abs() < 1e-9, "{summary:?}");
        assert!((summary.service_error_max - 6.0).abs() < 1e-9, "{summary:?}");
        assert!((summary.jain - 1.0).abs() < 1e-9, "{summary:?}");
    }

    #[test]
    fn jain_counts_ended_clients_and_leaves_out_the_unserved() {
        let mut fairness = Fairness::new(3, |_| weight(1));
        for (id, work) in [(0, 30), (1, 10)] {
            fairness.on_arrival(ClientId(id));
            fairness.on_service(ClientId(id), work, true);
        }
        let expected = 40.0 * 40.0 / (2.0 * 1000.0);
        assert!((summary(&fairness).jain - expected).abs() < 1e-12);
        fairness.on_client_end(ClientId(0));
        assert!((summary(&fairness).jain - expected).abs() < 1e-12);
    }

    #[test]
    fn a_client_of_two_dispatchers_is_one_where_ids_are_given_beforehand() {
        let served = |work| {
            let mut fairness = Fairness::new(2, |_| weight(1));
            fairness.on_arrival(ClientId(0));
            fairness.on_service(ClientId(0), work, true);
            fairness
        };
        let dispatchers = [served(30), served(10)];
        let summary = |same| Fairness::summary_of(dispatchers.iter(), same);
        assert_eq!((summary(SameClient::Always).clients, summary(SameClient::Always).jain), (1, 1.0));
        assert_eq!((summary(SameClient::Never).clients, summary(SameClient::Never).jain), (2, 0.8));
    }
}
