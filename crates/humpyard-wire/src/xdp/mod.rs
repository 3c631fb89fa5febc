//! XDP sockets: frames from and to an interface past the kernel's stack, which hears nothing of them.
//!
//! A program that the kernel runs for each frame gives it to the socket of the queue by which it came, before the kernel's stack
//! sees it: natively in the driver, or generically behind it, where every interface can do it. Frames then lie in memory that
//! is shared with the kernel, divided into chunks whose addresses go round in rings: to the kernel empty, back with a frame.
//! Where the driver can, the card itself writes there (zero copy).
//!
//! Each queue has a socket that receives and one that sends, which share their memory with those of the other queues. They are
//! two so that each half of a port can be used without the other: a kernel that is asked whether there is something to read
//! would send what is in the same socket's transmit ring, too, and say nothing of what it lost.
//!
//! Between virtual interfaces (veth), found with Linux 6.18: what is sent goes the way of any frame of this machine, so that
//! the other end needs no program of its own, and has room for 256 frames only where it has one and the system lags behind.
//! What finds no room there is lost and counted as `full`. Natively a frame comes by the queue of the number by which it was
//! sent; generically all come by the first. There is no zero copy.
//!
//! # What the kernel leaves out
//! XDP does not tell what the system left for its card to do. Missing checksums are recognised and filled in. Generic XDP sees
//! TCP packets that the system has put together: they are cut into packets of the interface's MTU; other frames that are too
//! long count as malformed (`ethtool -K NAME gro off`, and at the other end of a virtual pair `gso off tso off`, keep them
//! away).
//!
//! A driver takes VLAN tags out of frames, and so does the other end of a virtual pair. A native program asks the
//! driver for the tag and puts it back, from Linux 6.8 on, where the driver tells it (`veth` does). Elsewhere
//! `rxvlan` of the interface is off while the port is open, so that tags stay in frames. Behind the driver a virtual
//! pair loses tags, which is said at the start (at the other end, `ethtool -K NAME txvlan off`).
//!
//! # Source
//! `Documentation/networking/af_xdp.rst` of the kernel, and bpf(2).

mod features;
mod link;
mod opening;
mod program;
mod queues;
mod receive;
mod ring;
mod socket;
mod tags;
mod transmit;
mod umem;

use std::os::fd::OwnedFd;

use humpyard_core::policy::ParameterValue;
use humpyard_core::{choice, params};

pub(crate) use self::link::{Attachment, BOUND_TO_DRIVER, HAS_FRAGMENTS, Link, XDP};
pub(crate) use self::opening::{XdpPort, open};
use self::tags::Tags;
pub(crate) use self::tags::is_virtual_cable;
use self::umem::Umem;

choice! {
    /// Where the program runs.
    pub(crate) enum Mode {
        /// In the driver where it can, behind it otherwise.
        Auto = "auto",
        /// In the driver.
        Native = "native",
        /// Behind the driver.
        Generic = "generic",
    }
}

choice! {
    /// How frames get into the memory and out of it.
    pub(crate) enum Copying {
        /// By the card where it can, by the kernel otherwise.
        Auto = "auto",
        /// By the kernel.
        Copy = "copy",
        /// By the card.
        Zero = "zero",
    }
}

choice! {
    /// What to do with checksums that the system left for its card.
    pub(crate) enum Checksum {
        /// Fill them in.
        Fill = "fill",
        /// Keep frames as they come.
        Keep = "keep",
    }
}

/// Which queues of an interface are used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) enum QueueChoice {
    /// All that there are.
    All,
    /// So many, from the first.
    First(u32),
}

impl ParameterValue for QueueChoice {
    const ACCEPTS: &'static str = "`all` or a whole number from 1 to 64";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "all" => Some(Self::All),
            _ => text.parse().ok().filter(|&count| (1..=QUEUES_MAX).contains(&count)).map(Self::First),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::First(count) => count.to_string(),
        }
    }
}

/// The most queues of one port.
const QUEUES_MAX: u32 = 64;

params! {
    /// Parameters of an XDP socket.
    pub(crate) struct XdpParams {
        /// Where the program runs that takes frames out: in the driver (native), or behind it (generic).
        mode: Mode = Mode::Auto;
        /// Whether the kernel copies frames, or the card writes and reads them (zero).
        copy: Copying = Copying::Auto;
        /// How many queues of the interface are used, from the first; what comes by others stays with the kernel.
        queues: QueueChoice = QueueChoice::All;
        /// Chunks of memory for each queue and each way: what can arrive before somebody looks.
        frames: u64 = 4096, in 256..=65_536, unit "chunks";
        /// Frames that the kernel fetches when asked, instead of by interrupts; 0 leaves it to interrupts.
        busy: u64 = 0, in 0..=1_024, unit "frames";
        /// What to do with checksums that the system left for its card: fill them in, or keep frames as they are.
        checksum: Checksum = Checksum::Fill;
        /// Whether to take frames that are addressed to others: a data plane wants all.
        promiscuous: bool = true;
    }
}

/// Bytes of an Ethernet header, and of a tag in it.
const ETHERNET_HEADER: usize = 14;
const TAG: usize = 4;

/// Bytes of the Ethernet header that a frame begins with, with up to two tags.
fn link_header_bytes(data: &[u8]) -> usize {
    let is_tag = |at: usize| matches!(data.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
    let first = ETHERNET_HEADER - 2;
    match (is_tag(first), is_tag(first + TAG)) {
        (true, true) => ETHERNET_HEADER + 2 * TAG,
        (true, false) => ETHERNET_HEADER + TAG,
        _ => ETHERNET_HEADER,
    }
}

/// What both halves of a port need, as long as one of them is there.
struct Opened {
    /// By queue.
    sockets: Vec<QueueSockets>,
    umem: Umem,
    /// Whether frames can have several chunks.
    has_parts: bool,
    /// Whether the card reads and writes the memory itself.
    is_zero_copy: bool,
    /// The program, as long as it is open.
    _link: Option<Link>,
    /// Leaves VLAN tags in frames as long as it is open, where the program does not put them back.
    _tags: Option<Tags>,
    /// Takes frames for others, as long as it is open.
    _promiscuous: Option<OwnedFd>,
}

/// The sockets of a queue.
struct QueueSockets {
    /// The one that receives. Where nothing is received it sends.
    first: OwnedFd,
    /// The one that sends, where there are two.
    second: Option<OwnedFd>,
}

impl QueueSockets {
    fn sender(&self) -> &OwnedFd {
        self.second.as_ref().unwrap_or(&self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_belong_to_the_header() {
        let header = |types: &[u8]| {
            let data = [&[0x81; 12], types, &[0; 46]].concat();
            link_header_bytes(&data)
        };
        assert_eq!(header(&[8, 0]), 14);
        assert_eq!(header(&[0x81, 0, 0, 5, 8, 0]), 18);
        assert_eq!(header(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0]), 22);
        assert_eq!(header(&[8, 0, 0, 5, 0x81, 0]), 14);
        assert_eq!(link_header_bytes(&[]), 14);
    }
}
