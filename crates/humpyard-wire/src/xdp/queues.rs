//! How many queues an interface has.

use std::os::fd::AsRawFd;

use crate::interface::{Interface, named_request};
use crate::system::{checked, socket};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GET_CHANNELS: u32 = 0x3c;

/// What a driver says of its channels (`struct ethtool_channels`).
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    /// The most there can be: of receiving, sending, other and combined ones.
    most: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

/// The queues of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueueCounts {
    pub(super) receive: u32,
    pub(super) send: u32,
}

impl QueueCounts {
    /// Asks the driver; none if it does not tell.
    pub(super) fn of(interface: &Interface) -> Option<Self> {
        let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
        let mut request = named_request(&interface.name).ok()?;
        request.ifr_ifru.ifru_data = (&raw mut channels).cast();
        let asking = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok()?;
        // SAFETY: the request has a name that ends with a zero and points to what the driver fills in; both outlive the call.
        checked(unsafe { libc::ioctl(asking.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) }).ok()?;
        let counts = Self { receive: channels.receive + channels.combined, send: channels.send + channels.combined };
        (counts.receive > 0 && counts.send > 0).then_some(counts)
    }
}
