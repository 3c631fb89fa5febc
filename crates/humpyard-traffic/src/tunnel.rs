//! Tunnels: finds the packet inside a packet of GRE, VXLAN, GTP-U or IP in IP.

use core::fmt;
use core::str::FromStr;

use etherparse::{IpNumber, ip_number};
use humpyard_core::name::unknown;

use crate::error::TrafficError;

/// The tunnels to look into: a flow is then that of the innermost IP packet.
///
/// Packets of different tunnels with the same inner addresses belong to one flow: neither GRE keys nor network
/// and tunnel identifiers count. If the inner packet is not IP, or is cut or a fragment, the flow is that of
/// the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tunnels {
    /// GRE (RFC 2784) with key and sequence number (RFC 2890), carrying IP or Ethernet, as NVGRE does (RFC 7637).
    pub gre: bool,
    /// VXLAN (RFC 7348), at UDP ports 4789 and 8472.
    pub vxlan: bool,
    /// GTP-U (3GPP TS 29.281), at UDP port 2152, with its extension headers.
    pub gtp_u: bool,
    /// IPv4 or IPv6 in either (RFC 2003, RFC 2473, RFC 4213).
    pub ip_in_ip: bool,
}

impl Tunnels {
    /// Most nested tunnels to look into.
    pub const DEPTH_MAX: usize = 4;
    /// No tunnels.
    pub const NONE: Self = Self { gre: false, vxlan: false, gtp_u: false, ip_in_ip: false };

    const NAMES: [&'static str; 4] = ["gre", "vxlan", "gtp-u", "ip-in-ip"];

    fn flags(&mut self) -> [&mut bool; 4] {
        [&mut self.gre, &mut self.vxlan, &mut self.gtp_u, &mut self.ip_in_ip]
    }
}

impl FromStr for Tunnels {
    type Err = TrafficError;

    /// Reads names separated by commas, `all`, or `none`.
    fn from_str(text: &str) -> Result<Self, TrafficError> {
        let mut tunnels = Self::NONE;
        match text {
            "none" => {}
            "all" => tunnels.flags().into_iter().for_each(|flag| *flag = true),
            _ => {
                for name in text.split(',') {
                    let Some(at) = Self::NAMES.iter().position(|known| *known == name) else {
                        let said = match name {
                            "all" | "none" => {
                                format!("`{name}` stands alone, or name tunnels: {}", Self::NAMES.join(","))
                            }
                            _ => unknown("tunnel", name, Self::NAMES),
                        };
                        return Err(TrafficError::usage(said));
                    };
                    *tunnels.flags()[at] = true;
                }
            }
        }
        Ok(tunnels)
    }
}

impl fmt::Display for Tunnels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut copy = *self;
        let names: Vec<&str> =
            Self::NAMES.into_iter().zip(copy.flags()).filter(|(_, flag)| **flag).map(|(name, _)| name).collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(",") }.as_str())
    }
}

/// The protocol that a tunnel carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carried {
    Ip,
    Ethernet,
}

impl Tunnels {
    /// Returns the inner protocol of an IP packet with this protocol and destination port, and its offset in
    /// the payload.
    #[inline]
    pub(crate) fn inside(self, protocol: IpNumber, destination_port: u16, payload: &[u8]) -> Option<(Carried, usize)> {
        match (protocol, destination_port) {
            (ip_number::GRE, _) if self.gre => gre(payload),
            (ip_number::IPV4 | ip_number::IPV6, _) if self.ip_in_ip => Some((Carried::Ip, 0)),
            (ip_number::UDP, 4789 | 8472) if self.vxlan => vxlan(payload),
            (ip_number::UDP, 2152) if self.gtp_u => gtp_u(payload),
            _ => None,
        }
    }
}

/// Version 0, without the obsolete source routes.
fn gre(payload: &[u8]) -> Option<(Carried, usize)> {
    let &[flags, version, high, low] = payload.first_chunk()?;
    let (checksum, routing, key, sequence) =
        (flags & 0x80 != 0, flags & 0x40 != 0, flags & 0x20 != 0, flags & 0x10 != 0);
    if routing || version & 0x07 != 0 {
        return None;
    }
    let carried = match u16::from_be_bytes([high, low]) {
        0x0800 | 0x86dd => Carried::Ip,
        0x6558 => Carried::Ethernet,
        _ => return None,
    };
    Some((carried, 4 + 4 * (usize::from(checksum) + usize::from(key) + usize::from(sequence))))
}

/// Bytes of a UDP header.
const UDP_BYTES: usize = 8;

fn vxlan(payload: &[u8]) -> Option<(Carried, usize)> {
    let flags = payload.get(UDP_BYTES)?;
    // The bit means that there is a network identifier.
    (flags & 0x08 != 0).then_some((Carried::Ethernet, UDP_BYTES + 8))
}

fn gtp_u(payload: &[u8]) -> Option<(Carried, usize)> {
    let &[flags, kind] = payload.get(UDP_BYTES..)?.first_chunk()?;
    // Version 1, GTP and not GTP', a user's packet.
    if flags >> 4 != 0b0011 || kind != 0xff {
        return None;
    }
    let mut at = UDP_BYTES + 8;
    if flags & 0x07 != 0 {
        // Sequence number, N-PDU number, and the type of the first extension header, which counts if its flag
        // is set.
        at += 4;
        let mut next = if flags & 0x04 != 0 { *payload.get(at - 1)? } else { 0 };
        // Each has a length of at least 4 bytes, so the loop ends with the data.
        while next != 0 {
            let length = 4 * usize::from(*payload.get(at)?);
            if length == 0 {
                return None;
            }
            at += length;
            next = *payload.get(at - 1)?;
        }
    }
    Some((Carried::Ip, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for text in ["none", "gre", "gre,vxlan,gtp-u,ip-in-ip", "vxlan,ip-in-ip"] {
            assert_eq!(text.parse::<Tunnels>().unwrap().to_string(), text);
        }
        assert_eq!("all".parse::<Tunnels>().unwrap().to_string(), "gre,vxlan,gtp-u,ip-in-ip");
        assert!("gtp".parse::<Tunnels>().unwrap_err().to_string().contains("did you mean `gtp-u`?"));
    }

    #[test]
    fn gre_headers_have_the_length_their_flags_say() {
        for (flags, length) in [(0x00, 4), (0x80, 8), (0x20, 8), (0x10, 8), (0x30, 12), (0xb0, 16)] {
            assert_eq!(gre(&[flags, 0, 0x08, 0x00]), Some((Carried::Ip, length)), "{flags:#x}");
        }
        assert_eq!(gre(&[0x20, 0, 0x65, 0x58]), Some((Carried::Ethernet, 8)));
        // Source routes, PPTP, a protocol that is neither IP nor Ethernet, a cut header.
        for bytes in [&[0x40, 0, 8, 0][..], &[0x20, 1, 0x88, 0x0b], &[0, 0, 0x88, 0xbe], &[0, 0, 8]] {
            assert_eq!(gre(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn extension_headers_of_gtp_u_are_stepped_over() {
        let packet = |flags: u8, rest: &[u8]| [&[0; 8][..], &[flags, 0xff, 0, 0, 0, 0, 0, 1], rest].concat();
        assert_eq!(gtp_u(&packet(0x30, &[])), Some((Carried::Ip, 16)));
        assert_eq!(
            gtp_u(&packet(0x32, &[0, 9, 0, 0x85])),
            Some((Carried::Ip, 20)),
            "without its flag the kind is no kind"
        );
        let two = [0, 0, 0, 0x85, 1, 0x10, 0, 0xc0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(gtp_u(&packet(0x34, &two)), Some((Carried::Ip, 32)));
        for length in 0..12 {
            let cut = gtp_u(&packet(0x34, &two[..length]));
            assert_eq!(cut, None, "{length}");
        }
        assert_eq!(gtp_u(&packet(0x34, &[0, 0, 0, 0x85, 0, 0, 0, 0])), None, "an extension header without a length");
        assert_eq!(gtp_u(&[&[0; 8][..], &[0x30, 0x01]].concat()), None, "an echo request");
        assert_eq!(gtp_u(&[&[0; 8][..], &[0x48, 0xff]].concat()), None, "version 2");
    }
}
