//! The order of flows, by humpyard's own measurements.

use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::measure::Measurements;
use humpyard_core::mechanism::{Account, Completed, Dispatch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::{Time, Weight};

use crate::history::History;
use crate::observer::Observer;

/// Counts packets that were complete after a later packet of their flow.
#[derive(Debug)]
pub struct FlowWatch<'h> {
    measurements: Measurements,
    history: &'h History,
}

impl<'h> FlowWatch<'h> {
    /// Returns a watch for the flows of this history.
    pub fn new(history: &'h History) -> Self {
        Self { measurements: Measurements::new(&history.config()), history }
    }

    /// Packets out of order so far.
    pub fn out_of_order(&self) -> u64 {
        self.measurements.summary(&Account::default()).order.out_of_order
    }
}

impl Observer for FlowWatch<'_> {
    fn on_cores(&mut self, cores: usize) {
        self.measurements.add_cores(cores);
    }
    fn on_accept(&mut self, now: Time, packet: &Packet) {
        self.measurements.on_accept(now, packet.client, packet.service);
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, dispatch: &Dispatch, _: u64) {
        self.measurements.on_dispatch(now, core, &dispatch.packet, dispatch.cold);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, completed: &Completed, busy: Time) {
        self.measurements.on_completion(core, completed, now, busy);
    }

    fn on_drop(&mut self, _: Time, packet: &Packet) {
        self.measurements.on_drop(packet);
    }

    fn on_exit(&mut self, now: Time, packet: &Packet) {
        self.measurements.on_departure(packet, now);
    }

    fn on_weight(&mut self, _: Time, client: ClientId, weight: Weight) {
        self.measurements.set_weight(client, weight);
    }

    fn on_client_end(&mut self, _: Time, client: ClientId) {
        for flow in self.history.flows_of(client) {
            self.measurements.on_flow_end(flow);
        }
        self.measurements.on_client_end(client);
    }
}
