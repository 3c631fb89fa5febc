//! Cores that come and go while packets are steered. The policies stay and keep their state.

use alloc::format;
use alloc::vec::Vec;

use super::journal::Event;
use super::scheduler::Scheduler;
use crate::id::{CoreId, Id, IdVec, ServiceId};
use crate::policy::{Allocate, BuildError, Share, Steer};
use crate::unit::Time;

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Steers packets from now on only to these cores, in ascending order; a service has those of
    /// them that belong to it. The steering policy learns of the change from the view of the next
    /// packet.
    ///
    /// Packets stay in their queues, and a core that goes serves the packets it has. With
    /// `keep_order`, a flow with packets held keeps its core until it has none there. So no flow is
    /// reordered if the policy keeps flows in order. O(n log n) in the packets held.
    ///
    /// # Errors
    /// A core does not exist, the cores do not ascend, or a service would have no core; then
    /// nothing has changed.
    ///
    /// # Panics
    /// If there is no steering policy.
    pub fn steer_among(&mut self, now: Time, cores: &[CoreId], keep_order: bool) -> Result<(), BuildError> {
        self.advance(now);
        assert!(self.steer.is_some(), "there is no steering policy");
        self.eligible = self.eligible_of(cores)?;
        let held = if keep_order { self.queued_by_sequence() } else { Vec::new() };
        let flows = self.plan.flows;
        self.is_plain = false;
        let steering = self.steer.as_mut().expect("just seen");
        steering.unpin(flows);
        for (slot, target) in held {
            if let Some(core) = target.core() {
                steering.pin(self.slab.get(slot).packet.flow, core);
            }
        }
        self.release_held(now);
        self.note(|| Event::Swap(format!("cores {cores:?}")));
        Ok(())
    }

    /// Returns the cores of each service among these cores.
    fn eligible_of(&self, cores: &[CoreId]) -> Result<IdVec<ServiceId, Vec<CoreId>>, BuildError> {
        if !cores.is_sorted_by(|a, b| a < b) || cores.last().is_some_and(|last| last.index() >= self.cores.len()) {
            return Err(BuildError::set_up(format!(
                "packets are steered to cores that ascend, below {}, not to {cores:?}",
                self.cores.len()
            )));
        }
        let of_service = |service: ServiceId| -> Vec<CoreId> {
            let belongs = |core: &CoreId| {
                self.allocation.as_ref().is_none_or(|allocation| allocation.service_of(*core) == service)
            };
            cores.iter().copied().filter(belongs).collect()
        };
        let eligible: IdVec<ServiceId, Vec<CoreId>> = self.eligible.ids().map(of_service).collect();
        match eligible.ids().find(|&service| eligible[service].is_empty()) {
            Some(service) => Err(BuildError::set_up(format!("service {service} has none of the cores {cores:?}"))),
            None => Ok(eligible),
        }
    }
}
