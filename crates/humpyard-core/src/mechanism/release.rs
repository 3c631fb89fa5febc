//! Sharing policies that hold back packets until a time.

use super::scheduler::Scheduler;
use crate::id::QueueId;
use crate::policy::{Allocate, Share, Steer};
use crate::unit::Time;

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Whether sharing policies hold back packets that wait.
    #[inline(always)]
    pub(super) fn holds_back_heads(&self) -> bool {
        self.queues[QueueId(0)].share.holds_back()
    }

    /// Returns when a sharing policy releases packets next. O(queues).
    #[inline(never)]
    pub(super) fn next_release(&self) -> Option<Time> {
        self.queues.iter().filter_map(|queue| queue.share.next_timeout()).min()
    }

    /// Lets sharing policies release packets.
    #[inline(never)]
    pub(super) fn release_heads(&mut self, now: Time) {
        for queue in self.queues.ids() {
            self.queues[queue].share.on_timeout(now);
            self.changed(queue);
        }
    }
}
