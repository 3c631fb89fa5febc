//! Cores that come and go while packets are steered: the policies stay, and so does what they know.

use alloc::format;
use alloc::vec::Vec;

use super::journal::Event;
use super::scheduler::Scheduler;
use crate::id::{CoreId, Id, IdVec, ServiceId};
use crate::policy::{Allocate, BuildError, Share, Steer};
use crate::unit::Time;

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// From now on packets are steered to these cores, ascending, and to no others: a service's are those of them that belong to
    /// it. The steering policy learns of it by the view of the next packet. Packets stay in the queues where they are, and a core
    /// that goes serves what it has. With `keep_order` a flow with packets held keeps its core until it has none there: so no
    /// flow is reordered where the policy keeps flows in order. O(n log n) in the packets held.
    ///
    /// # Errors
    /// A core that there is not, cores that do not ascend, and a service that would have none; then nothing has changed.
    ///
    /// # Panics
    /// Where there is no steering policy.
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

    /// The cores of each service, of these.
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
