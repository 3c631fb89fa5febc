//! No core is idle while a packet waits that it may serve.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::mechanism::{Completed, Dispatch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::{Time, Work};

use crate::history::History;
use crate::observer::Observer;

/// Asserts that work is conserved, for runs in which any core may serve any packet.
#[derive(Debug)]
pub struct IdleWatch {
    /// Whether packets of one client may be in service together.
    together: bool,
    /// The waiting packets and the packets in service of each client.
    clients: Vec<(u32, u32)>,
    cores: Vec<u32>,
}

impl IdleWatch {
    /// Returns a watch for this history. `together`: several packets of one client may be in
    /// service at once.
    pub fn new(history: &History, together: bool) -> Self {
        Self { together, clients: vec![(0, 0); history.weights.len()], cores: vec![0; history.cores] }
    }

    fn client(&mut self, id: ClientId) -> &mut (u32, u32) {
        &mut self.clients[id.index()]
    }
}

impl Observer for IdleWatch {
    fn on_accept(&mut self, _: Time, packet: &Packet) {
        self.client(packet.client).0 += 1;
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, dispatch: &Dispatch, _: Work) {
        let client = self.client(dispatch.packet.client);
        client.0 -= 1;
        client.1 += 1;
        self.cores[core.index()] += 1;
    }

    fn on_completion(&mut self, _: Time, core: CoreId, completed: &Completed, _: Time) {
        let client = self.client(completed.packet.client);
        client.0 += u32::from(completed.onward.is_some());
        client.1 -= 1;
        self.cores[core.index()] -= 1;
    }

    fn on_drop(&mut self, _: Time, packet: &Packet) {
        self.client(packet.client).0 -= 1;
    }

    fn on_settled(&mut self, now: Time) {
        let Some(idle) = self.cores.iter().position(|&packets| packets == 0) else { return };
        let ready = |&(waiting, in_service): &(u32, u32)| waiting > 0 && (self.together || in_service == 0);
        if let Some(client) = self.clients.iter().position(ready) {
            panic!("work is not conserved: core {idle} is idle at {now:?}, and a packet of client {client} waits");
        }
    }
}
