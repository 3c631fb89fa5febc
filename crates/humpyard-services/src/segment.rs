//! TCP segments for detectors: addresses, destination port, and flags.

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

/// Offset of the flags in a TCP header, in bytes.
const FLAGS_AT: usize = 13;

/// A TCP segment whose flags were captured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    packet: IpPacket,
    /// Its destination port.
    pub(crate) port: u16,
    /// Its TCP flags: bits of [`flag`].
    pub(crate) flags: u8,
}

impl Segment {
    /// Returns the segment of a frame, if there is one. Later parts of a packet have no headers.
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

    /// Returns whether it has any of these flags.
    #[inline]
    pub(crate) const fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Returns the source and the destination address.
    #[inline]
    pub(crate) fn addresses(&self, frame: &Frame) -> (IpAddr, IpAddr) {
        self.packet.addresses(frame)
    }
}

/// Returns whether the capture cut a frame off before the TCP flags, or before its protocol was known.
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

/// Returns the counter of packets that the capture cut off before the bytes that a service needs. `None`: there
/// were none.
pub(crate) fn cut_packets(count: u64) -> Option<Counter> {
    (count > 0).then(|| Counter::new("cut_packets", count))
}

/// Returns a hash of an address.
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
