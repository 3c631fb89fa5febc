//! How many queues an interface has.

use crate::ethtool::ask_driver;
use crate::interface::Interface;
use crate::system::socket;

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
        let asking = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok()?;
        ask_driver(&asking, &interface.name, &mut channels).ok()?;
        let counts = Self { receive: channels.receive + channels.combined, send: channels.send + channels.combined };
        (counts.receive > 0 && counts.send > 0).then_some(counts)
    }
}
