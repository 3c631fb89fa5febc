//! Estimation-based fair queueing in exact fractions.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::unit::{Time, Weight, Work};

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    weight: i128,
    /// Finish tag of its last packet.
    finish: i128,
    /// Virtual time when its head arrived, if that was to an empty queue.
    arrived: Option<i128>,
    /// Estimated work of its head, if that may be served.
    head: Option<i128>,
    idle: bool,
}

impl Client {
    fn start(&self) -> i128 {
        self.arrived.map_or(self.finish, |arrived| arrived.max(self.finish))
    }
}

/// Estimation-based fair queueing, as in PREDICTIVE section 4. Shares have a fixed total, and
/// virtual time runs at the rate of the cores that were ever served. Tags are whole numbers, and a
/// pick checks every client. Weights divide the total, and never change.
#[derive(Clone, Debug)]
pub struct NaiveEfq {
    total: i128,
    virtual_time: i128,
    as_of: Time,
    served: Vec<CoreId>,
    clients: Vec<Client>,
}

impl NaiveEfq {
    /// Returns clients with these weights, of this total.
    ///
    /// # Panics
    /// If a weight does not divide the total.
    pub fn new(weights: &[Weight], total: u64) -> Self {
        let total = i128::from(total);
        let clients = weights.iter().map(|weight| {
            let weight = i128::from(weight.get());
            assert_eq!(total % weight, 0, "weight {weight} does not divide {total}");
            Client { weight, finish: 0, arrived: None, head: None, idle: true }
        });
        Self { total, virtual_time: 0, as_of: Time::ZERO, served: Vec::new(), clients: clients.collect() }
    }

    /// Tags are seconds of all cores over shares: virtual time has the rate of the cores.
    fn advance(&mut self, now: Time) {
        if self.clients.iter().any(|client| !client.idle) {
            self.virtual_time += i128::from(now.since(self.as_of).as_ns()) * self.served.len() as i128;
        }
        self.as_of = now;
    }

    fn over_share(&self, id: ClientId, work: i128) -> i128 {
        work * (self.total / self.clients[id.index()].weight)
    }
}

impl Policy for NaiveEfq {}

impl Share for NaiveEfq {
    fn on_arrival(&mut self, now: Time, id: ClientId, _: &Packet, waiting: u32) {
        self.advance(now);
        if waiting == 0 {
            self.clients[id.index()].arrived = Some(self.virtual_time);
        }
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.advance(now);
        self.clients[id.index()].idle = false;
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.clients[id.index()].head = Some(i128::from(head.estimate));
    }

    fn pick(&mut self, now: Time, _: CoreId) -> Option<ClientId> {
        self.advance(now);
        let ids = || (0..self.clients.len()).map(ClientId::from_index);
        let waiting = || ids().filter(|id| self.clients[id.index()].head.is_some());
        let start = |id: &ClientId| self.clients[id.index()].start();
        self.virtual_time = self.virtual_time.max(waiting().map(|id| start(&id)).min()?);
        let finish = |id: &ClientId| {
            let head = self.clients[id.index()].head.expect("it waits");
            start(id) + self.over_share(*id, head)
        };
        waiting().filter(|id| start(id) <= self.virtual_time).min_by_key(finish)
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, id: ClientId, sent: &Packet) {
        if !self.served.contains(&core) {
            self.served.push(core);
        }
        let provisional = self.clients[id.index()].start() + self.over_share(id, sent.estimate.into());
        let client = &mut self.clients[id.index()];
        (client.finish, client.arrived, client.head) = (provisional, None, None);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        let correction = self.over_share(id, i128::from(used) - i128::from(sent.estimate));
        self.clients[id.index()].finish += correction;
    }

    fn on_idle(&mut self, now: Time, id: ClientId) {
        self.advance(now);
        self.clients[id.index()].idle = true;
        if self.clients.iter().all(|client| client.idle) {
            let latest = self.clients.iter().map(|client| client.finish).max().expect("there are clients");
            self.virtual_time = self.virtual_time.max(latest);
        }
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id.index()].finish = 0;
    }

    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {
        unreachable!("the model's weights never change");
    }
}
