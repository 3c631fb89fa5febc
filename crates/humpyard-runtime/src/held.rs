//! The frames of the packets held, each in the slot that its packet has in the scheduler.

use humpyard_core::frame::Frame;
use humpyard_core::id::{Id, IdVec, Slot};

/// The frames of the packets held, by slot.
///
/// A frame stays in its slot until its packet leaves, so it is never copied or moved on its way.
/// Only a worker on another thread takes it out and puts it back. A slot without a packet keeps a
/// buffer for the next.
pub(crate) type HeldFrames = IdVec<Slot, HeldFrame>;

/// The frame of a packet held.
#[derive(Debug, Default)]
pub(crate) struct HeldFrame {
    /// Number of the packet among those that came in, from 1.
    pub(crate) number: u64,
    /// The frame; empty while a worker on another thread has it.
    pub(crate) frame: Frame,
}

/// Buffer space for an Ethernet frame and what services add to it, in bytes.
const FRAME_BYTES: usize = 2_048;
/// Most memory that is made ready for frames, in bytes.
const READY_BYTES: usize = 64 << 20;

/// Returns the slots of this many packets, with buffers whose memory is already mapped.
///
/// The kernel maps memory when it is first written, which takes longer than forwarding a packet.
/// Otherwise the first packets of a run would wait for that, and at a high rate later packets would
/// find the buffer full.
pub(crate) fn ready_frames(packets: usize) -> HeldFrames {
    HeldFrames::from_fn(packets, |slot| {
        let mut held = HeldFrame::default();
        if slot.index() < READY_BYTES / FRAME_BYTES {
            // Not 0: the allocator returns zeroed memory without writing it.
            held.frame.data.resize(FRAME_BYTES, u8::MAX);
            held.frame.data.clear();
        }
        held
    })
}
