//! Tunnels: a whole frame, except its link header, becomes the payload of another IP packet.
//!
//! The outer header has the version, the addresses and the traffic class of the inner one. So the link header
//! stays as it is, and routing finds the same way. Everything behind the link header goes inside, to the last
//! byte. The tunnel's end also restores the bytes behind the inner packet (padding of short Ethernet frames, a
//! frame check sequence).

use core::ops::Range;

use humpyard_core::frame::Frame;

use crate::checksum;
use crate::ip::{IPV4_BYTES, IPV6_BYTES, IpPacket, LENGTH_MAX, is_complete, protocol};
use crate::link::{IpVersion, Network};
use crate::service::DropReason;

/// The hop limit of an outer header.
const HOPS: u8 = 64;

/// The layout of a frame that was just wrapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wrapped {
    /// The protocol number of the inner packet.
    pub(crate) inner_protocol: u8,
    /// Where the payload of the outer packet starts: the requested bytes before the inner packet, all zero.
    pub(crate) payload: usize,
    /// The length of the inner packet and the bytes behind it, in bytes.
    pub(crate) inner_bytes: usize,
}

/// Finds the IP header of a frame to wrap. The frame must be complete, and the fixed part of the header must be
/// there.
#[inline]
pub(crate) fn inner(frame: &Frame) -> Result<Network, DropReason> {
    let network = Network::find(frame)?;
    if !is_complete(frame) {
        return Err(DropReason::Incomplete);
    }
    let packet = &frame.data[network.offset..];
    if packet.len() < header_bytes(network.version) {
        return Err(DropReason::Truncated);
    }
    if packet[0] >> 4 != version_number(network.version) {
        return Err(DropReason::BadVersion);
    }
    Ok(network)
}

/// Moves everything behind the link header into a new IP packet, with `head` zero bytes before it and `tail`
/// after.
///
/// # Errors
/// Those of [`inner`], and if the packet would be too long; the frame then stays as it was.
#[inline]
pub(crate) fn wrap(frame: &mut Frame, protocol: u8, head: usize, tail: usize) -> Result<Wrapped, DropReason> {
    let Network { offset, version, .. } = inner(frame)?;
    let before = frame.data.len();
    let inner_bytes = before - offset;
    let outer = header_bytes(version);
    let payload_bytes = head + inner_bytes + tail;
    if payload_bytes > payload_max(version) {
        return Err(DropReason::TooLong);
    }
    frame.data.resize(before + outer + head + tail, 0);
    frame.data.copy_within(offset..before, offset + outer + head);
    let (front, inner) = frame.data[offset..].split_at_mut(outer + head);
    let (header, head) = front.split_at_mut(outer);
    head.fill(0);
    write_header(header, version, inner, protocol, payload_bytes);
    frame.wire_length = frame.data.len() as u32;
    Ok(Wrapped { inner_protocol: own_protocol(version), payload: offset + outer, inner_bytes })
}

/// The packet of a tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outer {
    pub(crate) version: IpVersion,
    /// Where the outer header starts, in bytes from the start of the frame.
    pub(crate) start: usize,
    /// The payload.
    pub(crate) payload: Range<usize>,
}

/// Finds the payload of a tunnel's packet, which must have this protocol.
///
/// # Errors
/// [`DropReason::NotEncapsulated`] if the protocol is another; or if the packet is cut off, or a fragment.
#[inline]
pub(crate) fn open(frame: &Frame, protocol: u8) -> Result<Outer, DropReason> {
    let packet = IpPacket::find(frame)?;
    if packet.protocol != protocol {
        return Err(DropReason::NotEncapsulated);
    }
    if packet.fragment {
        return Err(DropReason::Fragment);
    }
    if !packet.whole {
        return Err(if is_complete(frame) { DropReason::BadTotalLength } else { DropReason::Incomplete });
    }
    Ok(Outer { version: packet.version, start: packet.start, payload: packet.payload..packet.end })
}

/// Replaces the outer packet with the inner one, which ends the tunnel.
#[inline]
pub(crate) fn unwrap(frame: &mut Frame, outer: &Outer, inner: Range<usize>) {
    let bytes = inner.len();
    frame.data.copy_within(inner, outer.start);
    frame.data.truncate(outer.start + bytes);
    frame.wire_length = frame.data.len() as u32;
}

/// Returns the protocol number of a tunnelled packet of this version.
pub(crate) const fn own_protocol(version: IpVersion) -> u8 {
    match version {
        IpVersion::V4 => protocol::IPV4,
        IpVersion::V6 => protocol::IPV6,
    }
}

pub(crate) const fn header_bytes(version: IpVersion) -> usize {
    match version {
        IpVersion::V4 => IPV4_BYTES,
        IpVersion::V6 => IPV6_BYTES,
    }
}

const fn version_number(version: IpVersion) -> u8 {
    match version {
        IpVersion::V4 => 4,
        IpVersion::V6 => 6,
    }
}

/// Returns the longest payload of an outer packet of this version, in bytes.
pub(crate) const fn payload_max(version: IpVersion) -> usize {
    match version {
        IpVersion::V4 => LENGTH_MAX - IPV4_BYTES,
        IpVersion::V6 => LENGTH_MAX,
    }
}

/// Writes an outer header for this inner packet. An IPv4 packet has DF set, so it needs no identification (RFC
/// 6864).
pub(crate) fn write_header(header: &mut [u8], version: IpVersion, inner: &[u8], protocol: u8, payload_bytes: usize) {
    header.fill(0);
    match version {
        IpVersion::V4 => {
            (header[0], header[1], header[6], header[8], header[9]) = (0x45, inner[1], 0x40, HOPS, protocol);
            header[12..20].copy_from_slice(&inner[12..20]);
        }
        IpVersion::V6 => {
            header[..4].copy_from_slice(&inner[..4]);
            (header[6], header[7]) = (protocol, HOPS);
            header[8..40].copy_from_slice(&inner[8..40]);
        }
    }
    write_lengths(header, version, payload_bytes);
}

/// Writes the length and the checksum of an outer header.
fn write_lengths(header: &mut [u8], version: IpVersion, payload_bytes: usize) {
    match version {
        IpVersion::V4 => {
            header[2..4].copy_from_slice(&((IPV4_BYTES + payload_bytes) as u16).to_be_bytes());
            header[10..12].fill(0);
            let sum = checksum::checksum(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        IpVersion::V6 => header[4..6].copy_from_slice(&(payload_bytes as u16).to_be_bytes()),
    }
}
