//! The state of the machine that a policy may know.

use crate::id::{CoreId, IdVec};
use crate::unit::{Time, Work};

/// The state of one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreView {
    /// Packets in the core's own queue and in service there.
    pub packets: u32,
    /// Estimated work of those packets.
    pub backlog: Work,
}

/// All a policy may know of the machine, as of an instant that may lie before `now`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time at which the view was true.
    pub as_of: Time,
    /// Every core.
    pub cores: &'a IdVec<CoreId, CoreView>,
    /// The cores that may serve the packet in question, ascending, never empty: the cores of its
    /// service. A policy learns only from this field that cores have come or gone.
    pub eligible: &'a [CoreId],
}

impl View<'_> {
    /// Whether this core may serve the packet in question. O(log N), or O(1) if all cores may.
    #[inline]
    pub fn is_eligible(&self, core: CoreId) -> bool {
        self.eligible.len() == self.cores.len() || self.eligible.binary_search(&core).is_ok()
    }
}
