//! The frames of the packets held, each in the slot that its packet has in the scheduler.

use humpyard_core::frame::Frame;
use humpyard_core::id::{IdVec, Slot};

/// The frames of the packets held, by slot.
///
/// A frame stays in its slot until its packet leaves, so no step on its way copies or moves it; only a worker on another
/// thread takes it out and puts it back. A slot that holds no packet keeps a buffer for the next.
pub(crate) type HeldFrames = IdVec<Slot, HeldFrame>;

/// The frame of a packet held.
#[derive(Debug, Default)]
pub(crate) struct HeldFrame {
    /// Its number among those that came in, from 1.
    pub(crate) number: u64,
    /// The frame; empty while a worker on another thread has it.
    pub(crate) frame: Frame,
}
