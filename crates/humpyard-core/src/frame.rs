//! A frame: the bytes of one packet as they were on the wire, with the metadata of the capture.

use alloc::vec::Vec;

use crate::unit::Time;

/// The header that the bytes of a frame start with.
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
    /// A link type that humpyard does not parse, by its number. All its packets count as one flow.
    Other(u16),
}

/// One packet's bytes. A frame is a buffer that is filled again and again: clear it, do not drop it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// When it was captured, in ns since the Unix epoch; a generator counts from 0.
    pub time: Time,
    /// Length on the wire, in bytes; greater than the length of `data` if the capture truncated the
    /// packet.
    pub wire_length: u32,
    /// The header that `data` starts with.
    pub link: LinkType,
    /// The interface that the packet came by, counted from 0 in the order of the inputs. 0 if there
    /// is one input, or if inputs are captures.
    pub port: u16,
    /// Whether the frame answers a frame that came by `port`, and leaves by that port.
    pub answer: bool,
    /// The packet's number in a kernel queue that holds it until its verdict. `None`: the packet
    /// waits in no queue.
    pub queued: Option<u32>,
    /// The mark that the packet leaves with, if its port can mark packets. `None`: the mark stays
    /// as it is.
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
