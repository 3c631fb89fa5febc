//! The ring of blocks that the kernel fills with frames, and this program empties.

use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::OwnedFd;

use crate::offload;
use crate::system::{Mapping, set_option};

/// Bytes of a block: a frame of 64 KiB and more, as they come from virtual interfaces.
const BLOCK_BYTES: usize = 128 << 10;
/// What the kernel wants a frame's size to be; with blocks it only bounds their number.
const FRAME_BYTES: usize = 2048;

const OUTSIDE: &str = "the kernel speaks of a place outside of the ring";

/// Blocks of frames, shared with the kernel.
pub(super) struct Ring {
    memory: Mapping,
    blocks: usize,
    /// The block to be looked at next.
    block: usize,
    /// What is left of it; none while it is the kernel's.
    left: Option<Left>,
    /// Blocks before that which were taken, and not yet given back.
    spent: usize,
    /// Frames of the block that was taken last.
    in_block: u32,
    /// The number of frames that are to wait at most, about.
    hold: Option<u64>,
    /// Frames that were passed over, because enough newer ones waited.
    passed_over: u64,
}

/// What is left of a block that is ours.
#[derive(Clone, Copy)]
struct Left {
    frames: u32,
    /// Where the next frame begins, in bytes from the start of the memory.
    offset: usize,
}

/// A frame in the ring.
pub(super) struct Received<'a> {
    /// The header that says what was left undone.
    pub(super) offload: &'a [u8; offload::HEADER_BYTES],
    /// Its bytes, from the Ethernet header on.
    pub(super) data: &'a [u8],
    /// How many there were: more where the kernel cut it.
    pub(super) wire_length: u32,
    /// When it came, in ns since the Unix epoch.
    pub(super) time_ns: u64,
    /// The VLAN tag that the kernel has taken out: protocol and tag.
    pub(super) vlan: Option<(u16, u16)>,
}

impl Ring {
    /// Makes the ring of a socket, of at least `bytes`. A block that is not full is ours after
    /// `timeout_ms`.
    pub(super) fn new(socket: &OwnedFd, bytes: usize, timeout_ms: u32) -> io::Result<Self> {
        let blocks = bytes.div_ceil(BLOCK_BYTES).max(2);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (blocks * (BLOCK_BYTES / FRAME_BYTES)) as u32,
            tp_retire_blk_tov: timeout_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let memory = Mapping::shared(socket, blocks * BLOCK_BYTES, 0)?;
        Ok(Self { memory, blocks, block: 0, left: None, spent: 0, in_block: 0, hold: None, passed_over: 0 })
    }

    /// The next frame; none while the kernel has all blocks. Blocks whose frames were all taken go
    /// back to it.
    pub(super) fn next(&mut self) -> Option<Received<'_>> {
        let left = match self.left {
            Some(left) if left.frames > 0 => left,
            Some(_) => {
                self.give_back();
                self.take()?
            }
            None => self.take()?,
        };
        // SAFETY: the kernel has written a frame's header there, within a block that is ours until
        // `give_back`, and the frame that is handed out borrows the ring, so that it cannot be
        // given back meanwhile.
        let header = unsafe { self.at::<libc::tpacket3_hdr>(left.offset).as_ref() };
        let next = left.offset + header.tp_next_offset as usize;
        self.left = Some(Left { frames: left.frames - 1, offset: next });
        let begin = left.offset + usize::from(header.tp_mac);
        let bytes = header.tp_snaplen as usize;
        assert!(begin + bytes <= self.memory.bytes(), "{OUTSIDE}");
        // SAFETY: as above: the kernel wrote `tp_snaplen` bytes at `tp_mac`, and right before them
        // the header of what it left undone, which this socket asked for.
        let (offload, data) = unsafe {
            (
                self.at::<[u8; offload::HEADER_BYTES]>(begin - offload::HEADER_BYTES).as_ref(),
                slice::from_raw_parts(self.at::<u8>(begin).as_ptr(), bytes),
            )
        };
        let has_vlan = header.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
        let protocol =
            if header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { header.hv1.tp_vlan_tpid } else { 0x8100 };
        Some(Received {
            offload,
            data,
            wire_length: header.tp_len,
            time_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            vlan: has_vlan.then_some((protocol, header.hv1.tp_vlan_tci as u16)),
        })
    }

    /// Takes the next block, if the kernel has given it away. One behind which enough frames wait
    /// is passed over: so the ring that was all the kernel's while little came holds no more than
    /// it is to as soon as much does.
    fn take(&mut self) -> Option<Left> {
        if let Some(most) = self.hold {
            let mut waiting = self.waiting();
            while self.is_ours(0) && self.is_ours(1) {
                let frames = self.frames_in(self.block);
                // What has come since it was looked is not among them.
                waiting = waiting.saturating_sub(frames);
                if waiting < most {
                    break;
                }
                self.passed_over += frames;
                self.in_block = frames as u32;
                self.give_back();
            }
        }
        if !self.is_ours(0) {
            // As long as the kernel lacks blocks it says that there is something to read.
            self.give_back_but(0);
            return None;
        }
        let start = self.block * BLOCK_BYTES;
        // SAFETY: a block begins with its description, and what the status gives to us the kernel
        // does not write.
        let header = unsafe { &self.at::<libc::tpacket_block_desc>(start).as_ref().hdr.bh1 };
        let left = Left { frames: header.num_pkts, offset: start + header.offset_to_first_pkt as usize };
        self.left = Some(left);
        self.in_block = left.frames;
        // The kernel closes a block on time only if there is something in it.
        (left.frames > 0).then_some(left)
    }

    /// Frames that were passed over so far.
    pub(super) const fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Lets the kernel have no more blocks than about `frames` fill, so that it drops what
    /// comes beyond that: before it has copied it, and in memory that stays in the caches.
    pub(super) const fn hold(&mut self, frames: u64) {
        self.hold = Some(frames);
    }

    /// The block is done with, and goes back to the kernel, or one does that was done with before.
    fn give_back(&mut self) {
        self.block = (self.block + 1) % self.blocks;
        self.left = None;
        self.spent += 1;
        // As many as are to be in use, and one more that is being filled.
        let used = self.hold.map_or(self.blocks, |frames| (frames / u64::from(self.in_block.max(1))) as usize + 1);
        self.give_back_but(self.blocks.saturating_sub(used.max(2)));
    }

    /// Gives blocks back that were done with, all but the last `kept`.
    fn give_back_but(&mut self, kept: usize) {
        while self.spent > kept {
            let oldest = (self.block + self.blocks - self.spent) % self.blocks;
            self.status(oldest * BLOCK_BYTES).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.spent -= 1;
        }
    }

    /// Frames of blocks that are ours, and not yet taken.
    pub(super) fn waiting(&self) -> u64 {
        let current = self.left.map_or(0, |left| u64::from(left.frames));
        let from = usize::from(self.left.is_some());
        let ours = (from..self.blocks - self.spent).take_while(|&step| self.is_ours(step));
        current + ours.map(|step| self.frames_in((self.block + step) % self.blocks)).sum::<u64>()
    }

    /// Whether the block `step` after that which is looked at next is ours.
    fn is_ours(&self, step: usize) -> bool {
        let start = (self.block + step) % self.blocks * BLOCK_BYTES;
        self.status(start).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Frames of a block that is ours.
    fn frames_in(&self, block: usize) -> u64 {
        // SAFETY: a block begins with its description, and what the status gives to us the kernel
        // does not write.
        u64::from(unsafe { self.at::<libc::tpacket_block_desc>(block * BLOCK_BYTES).as_ref().hdr.bh1.num_pkts })
    }

    /// The word by which a block is handed over.
    fn status(&self, start: usize) -> &AtomicU32 {
        let status = core::mem::offset_of!(libc::tpacket_block_desc, hdr);
        // SAFETY: the description begins with version and offset, then comes the union whose first
        // word is the status: aligned, within the mapping, and written by the kernel and by us as a
        // whole word only.
        unsafe { self.at::<AtomicU32>(start + status).as_ref() }
    }

    /// A place in the ring, which must lie in it.
    fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset + size_of::<T>() <= self.memory.bytes(), "{OUTSIDE}");
        // SAFETY: within the mapping, as was just seen.
        unsafe { self.memory.start().add(offset).cast() }
    }
}
