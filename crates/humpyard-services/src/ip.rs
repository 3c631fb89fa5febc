//! IP packets in frames: the places of header, payload and end, and the protocol behind extension headers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use humpyard_core::frame::Frame;

use crate::checksum;
use crate::link::{IpVersion, Network};
use crate::service::DropReason;

/// The shortest IPv4 header, in bytes.
pub(crate) const IPV4_BYTES: usize = 20;
/// The IPv6 header, in bytes.
pub(crate) const IPV6_BYTES: usize = 40;
/// The longest IPv4 packet, and the longest payload of an IPv6 header, in bytes.
pub(crate) const LENGTH_MAX: usize = 65_535;

/// Numbers of protocols, as IP headers name them.
pub(crate) mod protocol {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const IPV4: u8 = 4;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const IPV6: u8 = 41;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const ESP: u8 = 50;
    pub(crate) const AH: u8 = 51;
    pub(crate) const ICMPV6: u8 = 58;
    pub(crate) const DESTINATION_OPTIONS: u8 = 60;
    pub(crate) const IPCOMP: u8 = 108;
    pub(crate) const EXPERIMENT: u8 = 253;
}

/// Most extension headers to skip; real packets have three or four at most.
const EXTENSIONS_MAX: usize = 8;

/// The IP packet of a frame, as far as it was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IpPacket {
    pub(crate) version: IpVersion,
    /// Where the IP header starts, in bytes from the start of the frame.
    pub(crate) start: usize,
    /// Where its payload starts: behind IPv4 options; in IPv6, behind the fixed header.
    pub(crate) payload: usize,
    /// Where it ends, or where the captured bytes end.
    pub(crate) end: usize,
    /// The protocol field of the IP header.
    pub(crate) protocol: u8,
    /// Whether all bytes counted by the header were captured.
    pub(crate) whole: bool,
    /// Whether it is an IPv4 fragment.
    pub(crate) fragment: bool,
}

impl IpPacket {
    /// Finds the IP packet of a frame.
    ///
    /// # Errors
    /// Those of [`Network::find`]; or if the header was cut off, or contradicts itself.
    #[inline]
    pub(crate) fn find(frame: &Frame) -> Result<Self, DropReason> {
        let network = Network::find(frame)?;
        let packet = &frame.data[network.offset..];
        match network.version {
            IpVersion::V4 => Self::of_v4(packet, network.offset),
            IpVersion::V6 => Self::of_v6(packet, network.offset),
        }
    }

    #[inline]
    fn of_v4(packet: &[u8], start: usize) -> Result<Self, DropReason> {
        let header = packet.first_chunk::<IPV4_BYTES>().ok_or(DropReason::Truncated)?;
        if header[0] >> 4 != 4 {
            return Err(DropReason::BadVersion);
        }
        let header_bytes = usize::from(header[0] & 15) * 4;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header_bytes < IPV4_BYTES {
            return Err(DropReason::BadHeaderLength);
        }
        if length < header_bytes {
            return Err(DropReason::BadTotalLength);
        }
        if packet.len() < header_bytes {
            return Err(DropReason::Truncated);
        }
        // The bit for more fragments, and the offset: everything but "do not fragment" and the reserved bit.
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        Ok(Self {
            version: IpVersion::V4,
            start,
            payload: start + header_bytes,
            end: start + length.min(packet.len()),
            protocol: header[9],
            whole: length <= packet.len(),
            fragment,
        })
    }

    #[inline]
    fn of_v6(packet: &[u8], start: usize) -> Result<Self, DropReason> {
        let header = packet.first_chunk::<IPV6_BYTES>().ok_or(DropReason::Truncated)?;
        if header[0] >> 4 != 6 {
            return Err(DropReason::BadVersion);
        }
        let length = IPV6_BYTES + usize::from(u16::from_be_bytes([header[4], header[5]]));
        Ok(Self {
            version: IpVersion::V6,
            start,
            payload: start + IPV6_BYTES,
            end: start + length.min(packet.len()),
            protocol: header[6],
            whole: length <= packet.len(),
            fragment: false,
        })
    }

    /// Returns the number of bytes that the header counts and the capture lacks.
    #[inline]
    pub(crate) fn missing(&self, frame: &Frame) -> usize {
        if self.whole {
            return 0;
        }
        let header = &frame.data[self.start..self.end];
        let told = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
        let length = if self.version == IpVersion::V4 { told(2) } else { IPV6_BYTES + told(4) };
        length.saturating_sub(self.end - self.start)
    }

    /// Returns the source and the destination address.
    #[inline]
    pub(crate) fn addresses(&self, frame: &Frame) -> (IpAddr, IpAddr) {
        let header = &frame.data[self.start..];
        match self.version {
            IpVersion::V4 => {
                let address =
                    |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
                (address(12), address(16))
            }
            IpVersion::V6 => {
                let address = |at: usize| {
                    let bytes = header[at..].first_chunk::<16>().copied().unwrap_or_default();
                    IpAddr::V6(Ipv6Addr::from(bytes))
                };
                (address(8), address(24))
            }
        }
    }

    /// Returns the part behind the IPv4 header, or behind the extension headers of IPv6. `None`: it was cut
    /// off, or cannot be read.
    #[inline]
    pub(crate) fn upper(&self, frame: &Frame) -> Option<Upper> {
        let mut upper = Upper { protocol: self.protocol, start: self.payload, end: self.end, first: true };
        if self.version == IpVersion::V4 {
            let offset = u16::from_be_bytes([frame.data[self.start + 6], frame.data[self.start + 7]]) & 0x1fff;
            upper.first = offset == 0;
            return Some(upper);
        }
        for _ in 0..EXTENSIONS_MAX {
            let bytes = match upper.protocol {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS | protocol::FRAGMENT => 8,
                protocol::AH => 4,
                _ => return Some(upper),
            };
            let header = frame.data[upper.start..upper.end].first_chunk::<8>()?;
            if upper.protocol == protocol::FRAGMENT {
                upper.first &= u16::from_be_bytes([header[2], header[3]]) & 0xfff8 == 0;
                upper.start += 8;
            } else {
                upper.start += 8 + usize::from(header[1]) * bytes;
            }
            upper.protocol = header[0];
            if upper.start > upper.end || !upper.first {
                return Some(Upper { start: upper.start.min(upper.end), ..upper });
            }
        }
        None
    }

    /// Returns whether the IPv4 header checksum is exactly the one computed from the header.
    #[inline]
    pub(crate) fn has_the_checksum(&self, frame: &Frame) -> bool {
        if self.version == IpVersion::V6 {
            return true;
        }
        let header = &frame.data[self.start..self.payload];
        let sum = checksum::Sum::default().with(&header[..10]).with(&header[12..]).checksum();
        header[10..12] == sum.to_be_bytes()
    }

    /// Sets the protocol and the payload length, in bytes, and recomputes the header checksum.
    ///
    /// The length must fit.
    #[inline]
    pub(crate) fn rewrite(&self, frame: &mut Frame, protocol: u8, payload_bytes: usize) {
        let header = &mut frame.data[self.start..self.payload];
        match self.version {
            IpVersion::V4 => {
                let length = (header.len() + payload_bytes) as u16;
                header[2..4].copy_from_slice(&length.to_be_bytes());
                header[9] = protocol;
                header[10..12].fill(0);
                let sum = checksum::checksum(header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            IpVersion::V6 => {
                header[4..6].copy_from_slice(&(payload_bytes as u16).to_be_bytes());
                header[6] = protocol;
            }
        }
    }

    /// Returns the longest payload that its header can express, in bytes.
    #[inline]
    pub(crate) const fn payload_max(&self) -> usize {
        match self.version {
            IpVersion::V4 => LENGTH_MAX - (self.payload - self.start),
            IpVersion::V6 => LENGTH_MAX,
        }
    }
}

/// The payload of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Upper {
    /// Its protocol.
    pub(crate) protocol: u8,
    /// Where it starts, in bytes from the start of the frame.
    pub(crate) start: usize,
    /// Where it ends, or where the captured bytes end.
    pub(crate) end: usize,
    /// Whether it starts with its protocol's header: false in all fragments but the first.
    pub(crate) first: bool,
}

impl Upper {
    /// Returns the source and the destination port of TCP or UDP, if they were captured.
    #[inline]
    pub(crate) fn ports(&self, frame: &Frame) -> Option<(u16, u16)> {
        if !self.first || !matches!(self.protocol, protocol::TCP | protocol::UDP) {
            return None;
        }
        let ports = frame.data[self.start..self.end].first_chunk::<4>()?;
        Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
    }

    /// Returns the captured payload of TCP or UDP; empty for other protocols.
    #[inline]
    pub(crate) fn payload<'a>(&self, frame: &'a Frame) -> &'a [u8] {
        let bytes = &frame.data[self.start..self.end];
        let header = match self.protocol {
            _ if !self.first => return &[],
            protocol::UDP => 8,
            protocol::TCP => bytes.get(12).map_or(usize::MAX, |offset| usize::from(offset >> 4) * 4),
            _ => return &[],
        };
        bytes.get(header..).unwrap_or_default()
    }
}

/// Returns whether the capture has all bytes of a frame.
pub(crate) const fn is_complete(frame: &Frame) -> bool {
    frame.data.len() >= frame.wire_length as usize
}

#[cfg(test)]
mod tests {
    use humpyard_core::frame::LinkType;

    use super::*;

    fn raw(data: &[u8]) -> Frame {
        Frame { link: LinkType::RawIp, wire_length: data.len() as u32, data: data.to_vec(), ..Frame::default() }
    }

    fn v6(next: u8, payload: &[u8]) -> Frame {
        let mut data = vec![0; IPV6_BYTES];
        data[0] = 0x60;
        data[5] = payload.len() as u8;
        data[6] = next;
        data.extend_from_slice(payload);
        raw(&data)
    }

    #[test]
    fn what_is_behind_extension_headers() {
        // Hop-by-hop options of 16 bytes, a routing header of 8, then UDP from port 1 to 2 with one byte.
        let mut payload = vec![43, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0];
        payload.extend([0, 1, 0, 2, 0, 9, 0, 0, 77]);
        let frame = v6(0, &payload);
        let upper = IpPacket::find(&frame).unwrap().upper(&frame).unwrap();
        assert_eq!((upper.protocol, upper.first), (17, true));
        assert_eq!(upper.ports(&frame), Some((1, 2)));
        assert_eq!(upper.payload(&frame), [77]);
        // A second fragment: it does not start with a header.
        let frame = v6(44, &[17, 0, 0, 8, 0, 0, 0, 1, 9, 9, 9, 9]);
        let upper = IpPacket::find(&frame).unwrap().upper(&frame).unwrap();
        assert_eq!((upper.protocol, upper.first, upper.ports(&frame)), (17, false, None));
        assert!(upper.payload(&frame).is_empty());
    }

    #[test]
    fn chains_without_an_end_are_given_up() {
        let frame = v6(60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(9));
        assert_eq!(IpPacket::find(&frame).unwrap().upper(&frame), None);
        // A header whose length exceeds the packet.
        let frame = v6(60, &[17, 255, 0, 0, 0, 0, 0, 0]);
        let upper = IpPacket::find(&frame).unwrap().upper(&frame).unwrap();
        assert_eq!(upper.start, upper.end);
    }

    #[test]
    fn a_rewritten_header_sums_right() {
        let mut frame =
            raw(&[0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7]);
        let packet = IpPacket::find(&frame).unwrap();
        assert!(!packet.whole && packet.has_the_checksum(&frame));
        assert_eq!(packet.missing(&frame), 0x73 - 20);
        let before = frame.clone();
        packet.rewrite(&mut frame, 108, 9);
        assert!(packet.has_the_checksum(&frame));
        assert_eq!((frame.data[3], frame.data[9]), (29, 108));
        packet.rewrite(&mut frame, 17, 0x73 - 20);
        assert_eq!(frame, before);
    }
}
