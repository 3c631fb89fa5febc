//! A frame: the bytes of one packet as they were on the wire, with what the capture says of them.

use alloc::vec::Vec;

use crate::unit::Time;

/// What the bytes of a frame start with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum LinkType {
    /// An Ethernet header (capture link type 1).
    #[default]
    Ethernet,
    /// A Linux cooked header, first version (113).
    LinuxCooked,
    /// A Linux cooked header, second version (276).
    LinuxCooked2,
    /// An IPv4 or IPv6 header (101; 12 and 14 on some systems; 228 and 229 for one version alone).
    RawIp,
    /// A BSD loopback header: the address family in the byte order of the capturing machine (0).
    Loopback,
    /// Something humpyard does not look into, by its number: counted as one flow per link type.
    Other(u16),
}

/// One packet's bytes. A frame is a buffer that is filled again and again: clear it, do not drop it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// When it was captured, in ns since the Unix epoch; a generator counts from 0.
    pub time: Time,
    /// Length on the wire, in bytes; more than `data` holds where the capture cut the packet short.
    pub wire_length: u32,
    /// What `data` starts with.
    pub link: LinkType,
    /// Which of several interfaces it came by, counted from 0 in the order of the inputs; 0 where there is one input, and
    /// where inputs are captures.
    pub port: u16,
    /// Whether it is an answer to a frame that came by `port`, and leaves where that came from.
    pub answer: bool,
    /// Where a queue of the kernel holds the packet until there is a verdict on it: its number there, as its port gave it. None
    /// for packets that nobody waits for.
    pub queued: Option<u32>,
    /// The mark that the packet is to leave with, where its port can mark packets; none leaves the mark as it came.
    pub mark: Option<u32>,
    /// The captured bytes.
    pub data: Vec<u8>,
}

impl Frame {
    /// An empty frame that takes `capacity` bytes without allocating.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { data: Vec::with_capacity(capacity), ..Self::default() }
    }
}
