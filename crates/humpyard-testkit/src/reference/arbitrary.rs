//! An arbitrary sharing policy.

use alloc::collections::BTreeSet;

use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::unit::{Time, Weight, Work};

/// Serves a random client whose head was offered: the promises of the mechanism must hold even
/// then.
#[derive(Clone, Debug)]
pub struct Arbitrary {
    offered: BTreeSet<ClientId>,
    /// Changes with every event, and only then.
    chance: u64,
    merged: bool,
}

impl Arbitrary {
    /// A policy that draws from this seed.
    pub fn new(seed: u64) -> Self {
        Self { offered: BTreeSet::new(), chance: mix(seed), merged: false }
    }

    /// A policy that takes all clients as one, so that packets leave in order of arrival.
    pub fn merging() -> Self {
        Self { merged: true, ..Self::new(0) }
    }

    fn event(&mut self) {
        self.chance = mix(self.chance);
    }
}

impl Policy for Arbitrary {}

impl Share for Arbitrary {
    fn merges_clients(&self) -> bool {
        self.merged
    }
    fn on_arrival(&mut self, _: Time, _: ClientId, _: &Packet, _: u32) {
        self.event();
    }
    fn on_wake(&mut self, _: Time, client: ClientId, _: &Packet) {
        self.event();
        self.offered.insert(client);
    }
    fn on_head(&mut self, _: Time, client: ClientId, _: &Packet) {
        self.event();
        self.offered.insert(client);
    }
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        let place = self.chance.checked_rem(self.offered.len() as u64)?;
        self.offered.iter().nth(place as usize).copied()
    }
    fn on_dispatch(&mut self, _: Time, _: CoreId, client: ClientId, _: &Packet) {
        self.event();
        self.offered.remove(&client);
    }
    fn on_completion(&mut self, _: Time, _: CoreId, _: ClientId, _: &Packet, _: Work) {
        self.event();
    }
    fn on_idle(&mut self, _: Time, _: ClientId) {
        self.event();
    }
    fn on_client_end(&mut self, _: Time, _: ClientId) {
        self.event();
    }
    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {
        self.event();
    }
}
