//! Which core gets a packet next.

use super::journal::Event;
use super::layout::{Core, Layout};
use super::scheduler::Scheduler;
use crate::id::{CoreId, IdVec, QueueId, ServiceId};
use crate::policy::{Allocate, Share, Steer};
use crate::storage::IdSet;
use crate::unit::Time;

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Returns a core that has room and may have a packet waiting for it. `None`: there is no such core. Call
    /// [`Scheduler::next`] for the core, and repeat until `None`: then no core can take more packets.
    ///
    /// Cores come by ascending queue. Within a queue those with the fewest packets in service come first, and among
    /// these the allocation, or else the sharing policy, chooses. O(1) if a core is handed one packet at a time, else
    /// O(cores of the queue).
    #[inline(always)]
    pub fn next_core(&mut self, now: Time) -> Option<CoreId> {
        let (_, core) = self.find_core(now)?;
        self.note(|| Event::Core(core));
        Some(core)
    }

    /// Returns the core for [`Scheduler::next_core`], and the queue in which packets wait for it.
    #[inline(always)]
    pub(super) fn find_core(&mut self, now: Time) -> Option<(QueueId, CoreId)> {
        while let Some(id) = self.candidates.first() {
            let queue = &mut self.queues[id];
            if queue.waiting == 0 || queue.free.is_empty() {
                self.candidates.remove(id);
                continue;
            }
            let core = match (queue.free.only(), self.allocation.as_mut()) {
                (Some(core), _) => core,
                (None, Some(allocation)) if self.plan.chooses_idle_by_service => {
                    allocation.place(ServiceId(id.0), &queue.free)
                }
                _ if self.plan.in_flight == 1 => queue.share.place(now, &queue.free),
                _ => self.choose_least_busy(now, id),
            };
            return Some((id, core));
        }
        None
    }

    /// Returns which of several cores with room is asked first. A packet that is handed to a core stays there, so it
    /// goes to a core that has others before it only if no core has fewer.
    #[cold]
    #[inline(never)]
    fn choose_least_busy(&mut self, now: Time, id: QueueId) -> CoreId {
        let queue = &mut self.queues[id];
        find_least_busy(&self.cores, &queue.free, &mut self.least_busy);
        let cores = &self.least_busy;
        let core = match self.allocation.as_mut() {
            Some(allocation) if self.plan.layout == Layout::PerService => allocation.place(ServiceId(id.0), cores),
            _ => queue.share.place(now, cores),
        };
        debug_assert!(cores.contains(core), "core {core} is not one of those to choose from");
        core
    }
}

/// Finds those of the cores with room that have the fewest packets in service.
fn find_least_busy(cores: &IdVec<CoreId, Core>, with_room: &IdSet<CoreId>, least_busy: &mut IdSet<CoreId>) {
    let mut fewest = u32::MAX;
    for core in with_room.iter() {
        let in_service = cores[core].in_service;
        if in_service < fewest {
            least_busy.clear();
            fewest = in_service;
        }
        if in_service == fewest {
            least_busy.insert(core);
        }
    }
}
