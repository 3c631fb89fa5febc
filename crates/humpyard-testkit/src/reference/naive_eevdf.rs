//! Earliest eligible virtual deadline first in exact fractions.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::unit::{Time, Weight, Work};
use num_rational::BigRational;

/// The state of one client.
#[derive(Clone, Debug)]
struct Client {
    weight: BigRational,
    /// How far it has been served, while it is not idle.
    eligible: BigRational,
    /// The service it was owed when it became idle.
    lag: BigRational,
    /// Whether its head may be served.
    offered: bool,
    idle: bool,
}

/// Earliest eligible virtual deadline first, as in PROPORTIONAL_SHARE section 2.8. Times are
/// fractions of integers of any length, so nothing is ever rounded. A pick checks every client.
#[derive(Clone, Debug)]
pub struct NaiveEevdf {
    slice: BigRational,
    virtual_time: BigRational,
    /// Sum of the weights of the clients that are not idle.
    total: BigRational,
    clients: Vec<Client>,
}

fn whole(number: impl Into<i128>) -> BigRational {
    BigRational::from_integer(number.into().into())
}

impl NaiveEevdf {
    /// Returns clients with these weights, which request slices of `slice` work.
    pub fn new(weights: &[Weight], slice: Work) -> Self {
        let clients = weights.iter().map(|weight| Client {
            weight: whole(weight.get()),
            eligible: whole(0),
            lag: whole(0),
            offered: false,
            idle: true,
        });
        Self { slice: whole(slice), virtual_time: whole(0), total: whole(0), clients: clients.collect() }
    }

    /// Whether this client may be picked, if times may be wrong by 2^-20.
    pub fn may_pick(&self, id: ClientId) -> bool {
        let tolerance = BigRational::new(1.into(), (1 << 20).into());
        let (own, latest) = (&self.clients[id.index()], &self.virtual_time + &tolerance);
        let surely_due = || self.offered().filter(|client| &client.eligible + &tolerance <= self.virtual_time);
        let by_deadline = |client| self.deadline(own) <= self.deadline(client) + &tolerance;
        let by_time = |client: &Client| own.eligible <= &client.eligible + &tolerance;
        let is_due = own.eligible <= latest && surely_due().all(by_deadline);
        own.offered && (is_due || surely_due().next().is_none() && self.offered().all(by_time))
    }

    fn offered(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(|client| client.offered)
    }

    fn deadline(&self, client: &Client) -> BigRational {
        &client.eligible + &self.slice / &client.weight
    }

    fn charge(&mut self, id: ClientId, work: i128) {
        let client = &mut self.clients[id.index()];
        client.eligible += whole(work) / &client.weight;
        self.virtual_time += whole(work) / &self.total;
    }

    fn lag(&self, client: &Client) -> BigRational {
        &client.weight * (&self.virtual_time - &client.eligible)
    }
}

impl Policy for NaiveEevdf {
    fn check(&self) {
        let present = self.clients.iter().filter(|client| !client.idle);
        let owed: BigRational = present.map(|client| self.lag(client)).sum();
        assert_eq!(owed, whole(0), "the sum of lags");
    }
}

impl Share for NaiveEevdf {
    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        let client = &mut self.clients[id.index()];
        client.idle = false;
        client.eligible = &self.virtual_time - &client.lag / &client.weight;
        self.total += &client.weight;
        self.virtual_time -= &client.lag / &self.total;
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.clients[id.index()].offered = true;
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        let ids = || (0..self.clients.len()).map(ClientId::from_index).filter(|id| self.clients[id.index()].offered);
        let due = ids().filter(|id| self.clients[id.index()].eligible <= self.virtual_time);
        let first_due = due.min_by_key(|id| self.deadline(&self.clients[id.index()]));
        first_due.or_else(|| ids().min_by_key(|id| self.clients[id.index()].eligible.clone()))
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        self.clients[id.index()].offered = false;
        self.charge(id, sent.estimate.into());
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.charge(id, i128::from(used) - i128::from(sent.estimate));
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        let lag = self.lag(&self.clients[id.index()]);
        let client = &mut self.clients[id.index()];
        client.idle = true;
        self.total -= &client.weight;
        if self.total > whole(0) {
            self.virtual_time += &lag / &self.total;
        }
        client.lag = lag;
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id.index()].lag = whole(0);
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let lag = self.lag(&self.clients[id.index()]);
        let client = &mut self.clients[id.index()];
        let before = core::mem::replace(&mut client.weight, whole(weight.get()));
        if !client.idle {
            client.eligible = &self.virtual_time - lag / &client.weight;
            self.total += &client.weight - before;
        }
    }
}
