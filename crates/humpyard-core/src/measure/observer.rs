//! The interface of an observer of a run.

use core::fmt::Debug;

use crate::id::{CoreId, QueueId, Slot};
use crate::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use crate::packet::Packet;
use crate::unit::Time;

/// Receives the events of a run as they are measured: each method follows the call of
/// [`Measured`](super::Measured) of the same name. An observer that cannot keep up reports that at
/// its end, not here.
pub trait Observer: Debug {
    /// A packet arrived, and was accepted or dropped.
    fn on_arrival(&mut self, now: Time, packet: &Packet, arrival: Arrival);
    /// A packet, which is given to a core next, has waited in this queue.
    fn on_unqueue(&mut self, slot: Slot, queue: QueueId) {
        let _ = (slot, queue);
    }
    /// A packet was given to a core, which may still be busy with another.
    fn on_dispatch(&mut self, now: Time, core: CoreId, dispatch: &Dispatch);
    /// `core` was done with the packet in `slot` at `finished`, and had been busy with it for `busy`.
    fn on_completion(&mut self, core: CoreId, slot: Slot, completed: &Completed, finished: Time, busy: Time);
    /// `core` gave back this packet in `slot`, unfinished, after it had been busy with it for `busy`. It waits again.
    fn on_preemption(&mut self, now: Time, core: CoreId, slot: Slot, packet: &Packet, busy: Time) {
        let _ = (now, core, slot, packet, busy);
    }
    /// A packet that had waited for earlier packets of its flow left at `now`, as a consequence of
    /// the last call.
    fn on_departure(&mut self, now: Time, packet: &Packet) {
        let _ = (now, packet);
    }
    /// An accepted packet was dropped, as a consequence of the last call.
    fn on_drop(&mut self, dropped: &Dropped);
    /// A core begins to switch to another service, as a consequence of the last call.
    fn on_switch(&mut self, switch: &Switch);
    /// The core's switch is over.
    fn on_switched(&mut self, now: Time, core: CoreId);
}
