//! What one packet carries, and where in its connection that belongs.

use humpyard_core::frame::Frame;

use super::table::Transport;
use crate::ip::{IpPacket, protocol};
use crate::segment::flag::{ACK, FIN, RST, SYN};

/// What one packet carries, and where it belongs.
pub(super) struct Segment<'a> {
    pub(super) transport: Transport,
    /// Of a transport without ports the number of its protocol, twice.
    pub(super) ports: (u16, u16),
    /// As far as it was captured.
    pub(super) payload: &'a [u8],
    /// How much there was on the wire.
    pub(super) length: u32,
    /// Of TCP: the side that sends it, and the sequence number of its first byte.
    pub(super) side: usize,
    pub(super) number: u32,
    /// Whether that begins a stream.
    pub(super) begins: bool,
    /// Whether it asks for a connection.
    pub(super) opens: bool,
    /// Whether it ends one.
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
                // What comes with a reset is said of the connection, and not in it.
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
