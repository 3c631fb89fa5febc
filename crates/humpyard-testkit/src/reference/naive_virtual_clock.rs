//! Virtual clock in exact fractions.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::unit::{Time, Weight, Work};

/// Tags count this fraction of a unit of work: a multiple of every power of two up to it.
const DENOMINATOR: i128 = 1 << 20;

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    weight: i128,
    /// The client's clock.
    clock: i128,
    /// Real time when its head arrived, if its queue was empty; else 0.
    arrived: i128,
    /// Estimated work of its head, if that may be served.
    head: Option<i128>,
}

impl Client {
    /// Returns its clock when it begins its head.
    fn start(&self) -> i128 {
        self.clock.max(self.arrived)
    }
}

/// Virtual clock, as in PROPORTIONAL_SHARE section 2.5. Clocks are exact fractions, and a pick
/// checks every client. Real time is the work done; weights and their reserved sum are powers of
/// two, and never change.
#[derive(Clone, Debug)]
pub struct NaiveVirtualClock {
    now: i128,
    total: i128,
    clients: Vec<Client>,
}

impl NaiveVirtualClock {
    /// Returns clients with these weights, and the reserved sum.
    ///
    /// # Panics
    /// If a weight or the sum is no power of two, or above 2^20.
    pub fn new(weights: &[Weight], total: u64) -> Self {
        let clients = weights.iter().map(|weight| {
            let weight = i128::from(weight.get());
            assert_eq!(DENOMINATOR % weight, 0, "weight {weight} does not divide {DENOMINATOR}");
            Client { weight, clock: 0, arrived: 0, head: None }
        });
        let total = i128::from(total);
        assert_eq!(DENOMINATOR % total, 0, "the sum {total} does not divide {DENOMINATOR}");
        Self { now: 0, total, clients: clients.collect() }
    }

    fn charge(&mut self, id: ClientId, work: i128) {
        let client = &mut self.clients[id.index()];
        client.clock += work * (DENOMINATOR / client.weight);
        self.now += work * (DENOMINATOR / self.total);
    }
}

impl Policy for NaiveVirtualClock {}

impl Share for NaiveVirtualClock {
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, waiting: u32) {
        if waiting == 0 {
            self.clients[id.index()].arrived = self.now;
        }
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.clients[id.index()].head = Some(head.estimate.into());
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        let shows = |client: &Client| Some(client.start() + client.head? * (DENOMINATOR / client.weight));
        let clocks = self.clients.iter().enumerate().filter_map(|(id, client)| Some((shows(client)?, id)));
        clocks.min().map(|(_, id)| ClientId::from_index(id))
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id.index()];
        client.head = None;
        client.clock = client.start();
        client.arrived = 0;
        self.charge(id, sent.estimate.into());
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.charge(id, i128::from(used) - i128::from(sent.estimate));
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id.index()].clock = 0;
    }

    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {
        unreachable!("the model's weights never change");
    }
}
