//! Packet sockets: frames from and to any Ethernet interface, beside the kernel's own stack.
//!
//! Frames come through a ring of blocks that the kernel fills (TPACKET_V3); they go out many to a
//! call, past the kernel's queueing disciplines. The kernel's stack sees the frames too: give the
//! interface no address, or the kernel answers.
//!
//! # Source
//! packet(7), and `Documentation/networking/packet_mmap.rst` of the kernel.

mod fan_out;
mod receive;
mod ring;
mod transmit;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use humpyard_core::params;

pub(crate) use self::fan_out::FanOut;
pub use self::fan_out::{BUCKETS, FanOutTable};
pub(crate) use self::receive::PacketSource;
pub(crate) use self::transmit::PacketSink;
use crate::interface::Interface;
use crate::system::{checked, set_option};

params! {
    /// Parameters of a packet socket.
    pub(crate) struct PacketSocketParams {
        /// Bytes of the ring that the kernel fills: what can arrive before somebody looks.
        ring: u64 = 16_777_216, in 1_048_576..=1_073_741_824, unit "bytes";
        /// After how long the kernel gives away a block that is not full: the longest that a packet
        /// waits for others.
        timeout: u64 = 1, in 1..=1_000, unit "ms";
        /// Whether to take frames that are addressed to others: a data plane wants all.
        promiscuous: bool = true;
    }
}

/// Takes frames that are addressed to others, as long as the socket is open.
pub(crate) fn listen_to_all(socket: &OwnedFd, interface: &Interface) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: interface.index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Binds a packet socket to an interface; it hears of frames of this protocol, and of none if that
/// is 0.
fn bind(socket: &OwnedFd, interface: &Interface, protocol: u16) -> io::Result<()> {
    // SAFETY: an address is numbers, of which all may be zero.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface.index;
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: pointer and length are those of a whole address that outlives the call.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) })?;
    Ok(())
}
