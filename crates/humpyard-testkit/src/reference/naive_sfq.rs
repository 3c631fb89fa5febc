//! Start-time fair queueing in exact fractions.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::unit::{Time, Weight, Work};

/// Tags count this fraction of a unit of work: a multiple of every number up to 16.
const DENOMINATOR: i128 = 720_720;

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    weight: i128,
    /// Finish tag of its last packet.
    finish: i128,
    /// Virtual time when its head arrived, if its queue was empty; else 0.
    arrived: i128,
    /// Start tag of its head, if that may be served.
    start: Option<i128>,
    idle: bool,
}

/// Start-time fair queueing, as in PROPORTIONAL_SHARE section 2.7. Tags are exact fractions, and a
/// pick checks every client. Weights are divisors of 720720, so any up to 16, and never change.
#[derive(Clone, Debug)]
pub struct NaiveSfq {
    virtual_time: i128,
    clients: Vec<Client>,
}

impl NaiveSfq {
    /// Returns clients with these weights.
    ///
    /// # Panics
    /// If a weight does not divide 720720.
    pub fn new(weights: &[Weight]) -> Self {
        let clients = weights.iter().map(|weight| {
            let weight = i128::from(weight.get());
            assert_eq!(DENOMINATOR % weight, 0, "weight {weight} does not divide {DENOMINATOR}");
            Client { weight, finish: 0, arrived: 0, start: None, idle: true }
        });
        Self { virtual_time: 0, clients: clients.collect() }
    }

    fn offer(&mut self, id: ClientId) {
        let client = &mut self.clients[id.index()];
        client.start = Some(client.finish.max(client.arrived));
        client.idle = false;
    }

    fn charge(&mut self, id: ClientId, work: i128) {
        let client = &mut self.clients[id.index()];
        client.finish += work * (DENOMINATOR / client.weight);
    }
}

impl Policy for NaiveSfq {}

impl Share for NaiveSfq {
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
        if waiting == 0 {
            self.clients[id.index()].arrived = self.virtual_time;
        }
    }

    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.offer(id);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.offer(id);
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        let starts = self.clients.iter().enumerate().filter_map(|(id, client)| Some((client.start?, id)));
        starts.min().map(|(_, id)| ClientId::from_index(id))
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id.index()];
        let start = client.start.take().expect("a head was offered");
        client.finish = start;
        client.arrived = 0;
        self.virtual_time = self.virtual_time.max(start);
        self.charge(id, i128::from(sent.estimate));
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        let correction = i128::from(used) - i128::from(sent.estimate);
        self.charge(id, correction);
        if self.clients[id.index()].start.is_some() {
            self.offer(id);
        }
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
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
