//! Sockets of the family AF_XDP: their options, their rings, and what they are bound to.

use core::time::Duration;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;

use super::ring::{Consumer, Entry, Layout, Producer};
use super::umem::Umem;
use crate::interface::Interface;
use crate::system::{self, Mapping, Plain, checked, option, set_option};

const PREFER_BUSY_POLL: libc::c_int = 69;
const BUSY_POLL: libc::c_int = 46;
const BUSY_POLL_BUDGET: libc::c_int = 70;
/// How long the kernel looks at a card when it is asked to, in us.
const BUSY_POLL_US: libc::c_int = 20;
/// How many frames one call sends at most where frames are copied; an option since Linux 6.17.
const SEND_BUDGET: libc::c_int = 9;

/// How often a queue is asked for that another socket has, and how long to wait in between: the kernel frees the queues of a
/// socket some time after it was closed.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

// SAFETY: the kernel only notes the address, and looks there for as long as a socket lives that belongs to it: see `set_umem`.
unsafe impl Plain for libc::xdp_umem_reg {}
// SAFETY: numbers only.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: numbers only.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: numbers only.
unsafe impl Plain for libc::xdp_options {}

/// The four rings.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Frames that arrived.
    Receive,
    /// Frames that are to leave.
    Transmit,
    /// Empty chunks for what arrives.
    Fill,
    /// Chunks of frames that have left.
    Completion,
}

impl Kind {
    const fn option(self) -> libc::c_int {
        match self {
            Self::Receive => libc::XDP_RX_RING,
            Self::Transmit => libc::XDP_TX_RING,
            Self::Fill => libc::XDP_UMEM_FILL_RING,
            Self::Completion => libc::XDP_UMEM_COMPLETION_RING,
        }
    }

    const fn page_offset(self) -> i64 {
        match self {
            Self::Receive => libc::XDP_PGOFF_RX_RING,
            Self::Transmit => libc::XDP_PGOFF_TX_RING,
            Self::Fill => libc::XDP_UMEM_PGOFF_FILL_RING as i64,
            Self::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64,
        }
    }

    const fn of(self, offsets: &libc::xdp_mmap_offsets) -> &libc::xdp_ring_offset {
        match self {
            Self::Receive => &offsets.rx,
            Self::Transmit => &offsets.tx,
            Self::Fill => &offsets.fr,
            Self::Completion => &offsets.cr,
        }
    }
}

/// A socket that is bound to nothing yet.
pub(super) fn open() -> io::Result<OwnedFd> {
    system::socket(libc::AF_XDP, libc::SOCK_RAW, 0)
}

/// Registers the memory of the frames. It must live as long as the socket is used; the kernel holds its pages itself, so that
/// nothing is written to what belongs to others even if it does not.
pub(super) fn set_umem(socket: &OwnedFd, umem: &Umem) -> io::Result<()> {
    set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &umem.registration())
}

/// Makes a ring into which this program puts entries.
pub(super) fn producer<E: Entry>(socket: &OwnedFd, kind: Kind, count: u32) -> io::Result<Producer<E>> {
    let (memory, layout) = ring::<E>(socket, kind, count)?;
    Producer::new(memory, layout)
}

/// Makes a ring of which this program takes entries.
pub(super) fn consumer<E: Entry>(socket: &OwnedFd, kind: Kind, count: u32) -> io::Result<Consumer<E>> {
    let (memory, layout) = ring::<E>(socket, kind, count)?;
    Consumer::new(memory, layout)
}

fn ring<E>(socket: &OwnedFd, kind: Kind, count: u32) -> io::Result<(Mapping, Layout)> {
    set_option(socket, libc::SOL_XDP, kind.option(), &(count as libc::c_int))?;
    let offsets: libc::xdp_mmap_offsets = option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
    let layout = Layout::of(kind.of(&offsets), count);
    Ok((Mapping::shared(socket, layout.bytes::<E>(), kind.page_offset())?, layout))
}

/// To what a socket is bound, and how.
#[derive(Clone, Copy)]
pub(super) struct Binding<'a> {
    pub(super) interface: &'a Interface,
    pub(super) queue: u32,
    /// How frames are copied, whether they can have parts: `XDP_COPY` and others.
    pub(super) flags: u16,
    /// The socket whose memory this one uses, and whose flags.
    pub(super) shares: Option<&'a OwnedFd>,
}

/// Binds a socket.
pub(super) fn bind(socket: &OwnedFd, binding: Binding<'_>) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: if binding.shares.is_some() { libc::XDP_SHARED_UMEM } else { binding.flags },
        sxdp_ifindex: binding.interface.index as u32,
        sxdp_queue_id: binding.queue,
        sxdp_shared_umem_fd: binding.shares.map_or(0, |shares| shares.as_raw_fd() as u32),
    };
    let bytes = size_of_val(&address) as libc::socklen_t;
    for _ in 1..TRIES {
        // SAFETY: pointer and length are those of a whole address that outlives the call.
        match checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) }) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => thread::sleep(PAUSE),
            other => return other.map(|_| ()),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Whether the card reads and writes the frames' memory itself.
pub(super) fn is_zero_copy(socket: &OwnedFd) -> io::Result<bool> {
    let options: libc::xdp_options = option(socket, libc::SOL_XDP, libc::XDP_OPTIONS)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// What the kernel has counted since the socket was made.
pub(super) fn statistics(socket: &OwnedFd) -> io::Result<libc::xdp_statistics> {
    option(socket, libc::SOL_XDP, libc::XDP_STATISTICS)
}

/// Lets the kernel hold `bytes` of copies under way, and send `frames` with one call, if it can.
pub(super) fn widen(socket: &OwnedFd, bytes: usize, frames: u32) {
    let bytes = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
    // Without them, more calls are needed; nothing else.
    if set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
    let _ = set_option(socket, libc::SOL_XDP, SEND_BUDGET, &(frames as libc::c_int));
}

/// Lets the kernel look at the card when this socket asks, for at most `budget` frames, rather than by interrupts.
pub(super) fn prefer_busy_poll(socket: &OwnedFd, budget: u64) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, PREFER_BUSY_POLL, &1)?;
    set_option(socket, libc::SOL_SOCKET, BUSY_POLL, &BUSY_POLL_US)?;
    set_option(socket, libc::SOL_SOCKET, BUSY_POLL_BUDGET, &(budget as libc::c_int))
}

/// Asks the kernel to go on with what is in the transmit ring.
pub(super) fn wake_transmit(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: sends no bytes, from nowhere, to nobody.
    let sent =
        unsafe { libc::sendto(socket.as_raw_fd(), core::ptr::null(), 0, libc::MSG_DONTWAIT, core::ptr::null(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks the kernel to go on with what is in the fill ring, or to look at the card. If it cannot, there is nothing to be had.
pub(super) fn wake_receive(socket: &OwnedFd) {
    // SAFETY: takes no bytes, and asks for no address.
    unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            core::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            core::ptr::null_mut(),
            core::ptr::null_mut(),
        )
    };
}
