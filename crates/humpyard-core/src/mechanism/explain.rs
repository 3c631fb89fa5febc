//! Explanations of decisions, for people. These calls change nothing.

use alloc::string::String;

use super::scheduler::Scheduler;
use crate::id::{CoreId, Id, IdVec, ServiceId, Slot};
use crate::packet::Packet;
use crate::policy::{Allocate, CoreView, Share, Steer, Target, View};

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Returns the packets and the estimated work of each core, as a steering policy sees them now. `None`: no
    /// policy steers.
    pub fn core_views(&self) -> Option<&IdVec<CoreId, CoreView>> {
        self.steer.is_some().then_some(&self.views)
    }

    /// Returns the target to which the packet in this slot was steered. `None`: no policy steers, or it holds packets
    /// back.
    pub fn target(&self, slot: Slot) -> Option<Target> {
        let steers = self.steer.is_some() && !self.holds_back();
        steers.then(|| self.plan.target_of(self.slab.get(slot).queue))
    }

    /// Returns the service that a core works for. `None`: cores are not allocated to services.
    pub fn service_of(&self, core: CoreId) -> Option<ServiceId> {
        self.allocation.as_ref().map(|allocation| allocation.service_of(core))
    }

    /// Returns the cores of an allocation, each with its service; empty where cores are not allocated.
    pub fn services_of_cores(&self) -> impl Iterator<Item = (CoreId, ServiceId)> + '_ {
        self.cores.ids().filter_map(|core| Some((core, self.service_of(core)?)))
    }

    /// Returns the words of the steering policy about a packet that arrives now: [`Steer::explain`].
    pub fn explain_steering(&self, packet: &Packet) -> Option<String> {
        let eligible = self.eligible.get(packet.service)?;
        let view = View { as_of: self.now, cores: &self.views, eligible };
        self.steer.as_ref()?.policy.explain(packet, &view)
    }

    /// Returns the words of the sharing policy about the client of the packet in this slot, which waits:
    /// [`Share::explain`].
    pub fn explain_sharing(&self, slot: Slot) -> Option<String> {
        let entry = self.slab.get(slot);
        if self.holds_back() || entry.queue.index() >= self.queues.len() {
            return None;
        }
        self.queues[entry.queue].share.explain(entry.charged)
    }
}
