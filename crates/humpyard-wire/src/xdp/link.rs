//! The sockets of queues, and the link by which the program that feeds them belongs to an interface for as long as this
//! process has it open.

use core::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::program;
use crate::bpf::{self, Map, ProgramKind};
use crate::btf;
use crate::interface::Interface;

const LINK_CREATE: c_int = 28;

const MAP_OF_XDP_SOCKETS: u32 = 17;
const PROGRAM_OF_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program can do with frames of more than one buffer.
pub(crate) const HAS_FRAGMENTS: u32 = 1 << 5;
/// The program runs in the driver of one interface, which it may ask about frames.
pub(crate) const BOUND_TO_DRIVER: u32 = 1 << 6;
/// Tells the VLAN tag that the driver has taken out of a frame.
const TAG_OF_FRAME: &str = "bpf_xdp_metadata_rx_vlan_tag";
/// What every program here is loaded as.
pub(crate) const XDP: ProgramKind =
    ProgramKind { program: PROGRAM_OF_XDP, attach: ATTACH_XDP, flags: 0, interface: 0, is_gpl: false };
const MODE_GENERIC: u32 = 1 << 1;
const MODE_NATIVE: u32 = 1 << 2;

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attachment {
    /// In the driver, before there is anything but bytes.
    Native,
    /// In the kernel's stack, on what the driver has made.
    Generic,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// The socket of each queue.
#[derive(Debug)]
pub(super) struct SocketMap(Map);

impl SocketMap {
    /// Makes a map for this number of queues.
    pub(super) fn new(queues: u32) -> io::Result<Self> {
        Ok(Self(Map::new(MAP_OF_XDP_SOCKETS, size_of::<c_int>(), queues)?))
    }

    /// From now on frames of this queue go to this socket.
    pub(super) fn insert(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        self.0.set(queue, &socket.as_raw_fd().to_ne_bytes())
    }
}

/// A program on an interface. When this is dropped, or the process ends however it ends, the interface is as before.
#[derive(Debug)]
pub(crate) struct Link(#[expect(dead_code, reason = "held open: the kernel does the rest")] OwnedFd);

impl Link {
    /// Puts the program on the interface by which the frames of its queues get to the sockets; `fragments`: also those
    /// of more than one buffer.
    pub(super) fn attach(
        sockets: &SocketMap,
        interface: &Interface,
        attachment: Attachment,
        fragments: bool,
    ) -> io::Result<Self> {
        let flags = if fragments { HAS_FRAGMENTS } else { 0 };
        let program = bpf::load(ProgramKind { flags, ..XDP }, &program::redirect(sockets.0.descriptor(), None))?;
        Self::put(&program, interface, attachment)
    }

    /// As [`Link::attach`] in the driver, with a program that puts the VLAN tags back that the driver took out.
    ///
    /// # Errors
    /// Also if the kernel has no such programs (it has from Linux 6.8 on), or the driver tells nothing of frames.
    pub(super) fn attach_with_tags(sockets: &SocketMap, interface: &Interface, fragments: bool) -> io::Result<Self> {
        let tag_of_frame = btf::function(TAG_OF_FRAME)?;
        let kind = ProgramKind {
            flags: BOUND_TO_DRIVER | if fragments { HAS_FRAGMENTS } else { 0 },
            interface: interface.index as u32,
            // The kernel's own functions are for such programs only.
            is_gpl: true,
            ..XDP
        };
        let program = bpf::load(kind, &program::redirect(sockets.0.descriptor(), Some(tag_of_frame)))?;
        Self::put(&program, interface, Attachment::Native)
    }

    /// Puts a program on an interface.
    pub(crate) fn put(program: &OwnedFd, interface: &Interface, attachment: Attachment) -> io::Result<Self> {
        let mut attributes = LinkCreate {
            program: program.as_raw_fd() as u32,
            interface: interface.index as u32,
            attach_type: ATTACH_XDP,
            flags: match attachment {
                Attachment::Native => MODE_NATIVE,
                Attachment::Generic => MODE_GENERIC,
            },
        };
        // SAFETY: these are the attributes of the command, without pointers.
        Ok(Self(bpf::owned(unsafe { bpf::call(LINK_CREATE, &mut attributes) }?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_laid_out_as_the_kernel_reads_them() {
        assert_eq!(size_of::<LinkCreate>(), 16);
    }
}
