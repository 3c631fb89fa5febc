//! TCP segments, as far as detectors look at them: who sends to whom, and the flags.

use core::net::IpAddr;

use humpyard_core::frame::Frame;
use humpyard_core::hash::mix;
use humpyard_core::packet::Part;

use crate::ip::{IpPacket, is_complete, protocol};
use crate::service::{Context, Counter, DropReason};

/// Flags of a TCP header (RFC 9293, section 3.1).
pub(crate) mod flag {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const ACK: u8 = 16;
}

/// Where the flags are in a TCP header, in bytes.
const FLAGS_AT: usize = 13;

/// A TCP segment of which at least the flags were captured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    packet: IpPacket,
    /// Its destination port.
    pub(crate) port: u16,
    /// What it says of its connection: bits of [`flag`].
    pub(crate) flags: u8,
}

impl Segment {
    /// The segment of a frame, if there is one. Later parts of a packet have no headers.
    #[inline]
    pub(crate) fn of(frame: &Frame, context: &Context) -> Option<Self> {
        if matches!(context.part, Part::Middle | Part::Last) {
            return None;
        }
        let packet = IpPacket::find(frame).ok()?;
        let upper = packet.upper(frame).filter(|upper| upper.first && upper.protocol == protocol::TCP)?;
        let header = frame.data[upper.start..upper.end].first_chunk::<{ FLAGS_AT + 1 }>()?;
        Some(Self { packet, port: u16::from_be_bytes([header[2], header[3]]), flags: header[FLAGS_AT] })
    }

    /// Whether it has any of these flags.
    #[inline]
    pub(crate) const fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Where it comes from and where it goes.
    #[inline]
    pub(crate) fn addresses(&self, frame: &Frame) -> (IpAddr, IpAddr) {
        self.packet.addresses(frame)
    }
}

/// Whether the capture cut a frame off before the flags of its TCP header, or before it was known to have one.
pub(crate) fn is_cut(frame: &Frame) -> bool {
    if is_complete(frame) {
        return false;
    }
    match IpPacket::find(frame) {
        Err(reason) => reason == DropReason::Truncated,
        Ok(packet) => packet
            .upper(frame)
            .is_none_or(|upper| upper.first && upper.protocol == protocol::TCP && upper.end - upper.start <= FLAGS_AT),
    }
}

/// The counter of packets of which a service could not read what it looks at, for the capture cut them off; none if there were none.
pub(crate) fn cut_packets(count: u64) -> Option<Counter> {
    (count > 0).then(|| Counter::new("cut_packets", count))
}

/// A hash of an address.
#[inline]
pub(crate) fn hash(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => mix(u64::from(address.to_bits())),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            mix(mix((bits >> 64) as u64) ^ bits as u64)
        }
    }
}
