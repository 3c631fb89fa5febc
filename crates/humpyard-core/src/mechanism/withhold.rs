//! Clients that are withheld from sharing policies for a while.

use super::journal::Event;
use super::scheduler::Scheduler;
use crate::id::ClientId;
use crate::policy::{Allocate, Share, Steer};
use crate::unit::Time;

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Stops offering packets of this client to the sharing policies until
    /// [`Scheduler::end_withholding`]; for example, because too many wait at the link behind the
    /// cores. A head that was already offered may still be served, and packets in service are
    /// completed. To the policies it looks like a client that sends no more, and wakes when it is
    /// released.
    ///
    /// Its packets stay in their queues and count there. Queues whose policy treats all clients as
    /// one ignore this. O(queues, and packets of the client).
    pub fn withhold(&mut self, now: Time, client: ClientId) {
        self.advance(now);
        self.is_plain = false;
        for queue in self.queues.ids() {
            self.queues[queue].withhold(now, client, &self.slab);
        }
        self.note(|| Event::Withhold(client));
    }

    /// Ends the withholding of the client. O(queues, and packets of the client).
    pub fn end_withholding(&mut self, now: Time, client: ClientId) {
        self.advance(now);
        for queue in self.queues.ids() {
            self.queues[queue].release(now, client, &self.slab);
            self.changed(queue);
        }
        self.note(|| Event::EndWithholding(client));
    }
}
