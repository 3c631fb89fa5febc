//! Kinds of packets that rules distinguish.

use core::str::FromStr;

use crate::error::{TrafficError, by_name};
use crate::header::{Headers, Kind};

/// A kind of packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Match {
    /// Every packet.
    Any,
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP over IPv4 or IPv6.
    Udp,
    /// ICMP over IPv4, ICMPv6 over IPv6.
    Icmp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// All packets other than TCP, UDP and ICMP, IP or not.
    Other,
}

impl Match {
    const NAMES: [(&'static str, Self); 7] = [
        ("any", Self::Any),
        ("tcp", Self::Tcp),
        ("udp", Self::Udp),
        ("icmp", Self::Icmp),
        ("ipv4", Self::Ipv4),
        ("ipv6", Self::Ipv6),
        ("other", Self::Other),
    ];

    /// Returns the name in a configuration.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }

    /// Returns whether a packet with these headers is of this kind.
    pub fn matches(self, headers: &Headers) -> bool {
        match self {
            Self::Any => true,
            Self::Tcp => headers.kind == Kind::Tcp,
            Self::Udp => headers.kind == Kind::Udp,
            Self::Icmp => headers.kind == Kind::Icmp,
            Self::Ipv4 => headers.version() == Some(4),
            Self::Ipv6 => headers.version() == Some(6),
            Self::Other => matches!(headers.kind, Kind::OtherIp | Kind::NonIp),
        }
    }
}

impl FromStr for Match {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Self, TrafficError> {
        by_name("kind of packet", text, &Self::NAMES)
    }
}
