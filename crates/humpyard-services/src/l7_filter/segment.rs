//! The payload of one packet, and its place in its connection.

use humpyard_core::frame::Frame;

use super::table::Transport;
use crate::ip::{IpPacket, protocol};
use crate::segment::flag::{ACK, FIN, RST, SYN};

/// The payload of one packet, and its place in its connection.
pub(super) struct Segment<'a> {
    pub(super) transport: Transport,
    /// The two ports. For a transport without ports, the protocol number, twice.
    pub(super) ports: (u16, u16),
    /// The payload, as far as it was captured.
    pub(super) payload: &'a [u8],
    /// The length of the payload on the wire, in bytes.
    pub(super) length: u32,
    /// For TCP: the sending side, and the sequence number of the first byte.
    pub(super) side: usize,
    pub(super) number: u32,
    /// Whether it begins a stream.
    pub(super) begins: bool,
    /// Whether it opens a connection.
    pub(super) opens: bool,
    /// Whether it ends a connection.
    pub(super) closes: bool,
}

impl<'a> Segment<'a> {
    pub(super) fn of(frame: &'a Frame) -> Option<Self> {
        let packet = IpPacket::find(frame).ok()?;
        let upper = packet.upper(frame)?;
        let whole = frame.data.get(upper.start..upper.end)?;
        let segment = |transport, ports, payload: &'a [u8]| Self {
            transport,
            ports,
            payload,
            length: payload.len() as u32,
            side: 0,
            number: 0,
            begins: false,
            opens: false,
            closes: false,
        };
        Some(match upper.protocol {
            protocol::TCP => {
                let ports = upper.ports(frame)?;
                let header = whole.first_chunk::<20>()?;
                let (from, to) = packet.addresses(frame);
                let flags = header[13];
                // A reset's payload describes the connection, and is not part of it.
                let payload = if flags & RST != 0 { &[] } else { upper.payload(frame) };
                let begins = flags & SYN != 0;
                let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                let missing = if payload.is_empty() { 0 } else { packet.missing(frame) };
                Self {
                    length: (payload.len() + missing) as u32,
                    side: usize::from((from, ports.0) > (to, ports.1)),
                    number: number.wrapping_add(u32::from(begins)),
                    begins,
                    opens: flags & (SYN | ACK) == SYN,
                    closes: flags & (FIN | RST) != 0,
                    ..segment(Transport::Tcp, ports, payload)
                }
            }
            protocol::UDP => segment(Transport::Udp, upper.ports(frame)?, upper.payload(frame)),
            other if upper.first => segment(Transport::Ip, (u16::from(other), u16::from(other)), whole),
            _ => return None,
        })
    }
}
