//! The same scheduler, with policies of other types.

use super::scheduler::Scheduler;
use crate::id::QueueId;

impl<S, Q, A> Scheduler<S, Q, A> {
    /// Returns the steering policy, the sharing policy of the first queue, and the allocation policy.
    pub fn policies(&self) -> (Option<&S>, &Q, Option<&A>) {
        let steer = self.steer.as_ref().map(|steering| &steering.policy);
        let allocate = self.allocation.as_ref().map(|allocation| &allocation.policy);
        (steer, &self.queues[QueueId(0)].share, allocate)
    }

    /// Converts the type of each policy; everything else stays the same. So a host that knows its
    /// policies can run a scheduler compiled for these alone. O(queues).
    pub fn retype<S2, Q2, A2>(
        self,
        steer: impl FnOnce(S) -> S2,
        mut share: impl FnMut(Q) -> Q2,
        allocate: impl FnOnce(A) -> A2,
    ) -> Scheduler<S2, Q2, A2> {
        let queues = self.queues.into_iter().map(|queue| queue.retype(&mut share));
        Scheduler {
            plan: self.plan,
            now: self.now,
            steer: self.steer.map(|steering| steering.retype(steer)),
            allocation: self.allocation.map(|allocation| allocation.retype(allocate)),
            estimate: self.estimate,
            timekeepers: self.timekeepers,
            slab: self.slab,
            queues: queues.collect(),
            candidates: self.candidates,
            dropped: self.dropped,
            is_pending: self.is_pending,
            reweighed: self.reweighed,
            cores: self.cores,
            least_busy: self.least_busy,
            views: self.views,
            eligible: self.eligible,
            exit: self.exit,
            split: self.split,
            turns: self.turns,
            journal: self.journal,
            is_plain: self.is_plain,
            account: self.account,
            accepted: self.accepted,
            waiting_out: self.waiting_out,
        }
    }
}
