//! The order of flows, by humpyard's own measurements.

use humpyard_core::id::{ClientId, CoreId, FlowId, Id};
use humpyard_core::measure::Measurements;
use humpyard_core::mechanism::{Account, Completed, Dispatch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::{Time, Weight};

use crate::history::History;
use crate::observer::Observer;

/// Counts packets that were complete after a later packet of their flow.
#[derive(Debug)]
pub struct FlowWatch {
    measurements: Measurements,
    flows_per_client: usize,
}

impl FlowWatch {
    /// For the flows of this history.
    pub fn new(history: &History) -> Self {
        let flows_per_client = history.flows / history.weights.len();
        Self { measurements: Measurements::new(&history.setup(), history.flows), flows_per_client }
    }

    /// Packets out of order so far.
    pub fn out_of_order(&self) -> u64 {
        self.measurements.summary(&Account::default()).order.out_of_order
    }
}

impl Observer for FlowWatch {
    fn on_accept(&mut self, now: Time, packet: &Packet) {
        self.measurements.on_accept(now, packet.client, packet.service);
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, dispatch: &Dispatch, _: u64) {
        self.measurements.on_dispatch(core, dispatch);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, completed: &Completed, busy: Time) {
        self.measurements.on_completion(core, completed, now, busy);
    }

    fn on_weight(&mut self, _: Time, client: ClientId, weight: Weight) {
        self.measurements.set_weight(client, weight);
    }

    fn on_client_end(&mut self, _: Time, client: ClientId) {
        let first = client.index() * self.flows_per_client;
        for flow in first..first + self.flows_per_client {
            self.measurements.on_flow_end(FlowId::from_index(flow));
        }
        self.measurements.on_client_end(client);
    }
}
