//! IPv4 addresses embedded in IPv6 addresses (RFC 6052).

use core::net::{Ipv4Addr, Ipv6Addr};

use humpyard_core::policy::ParameterValue;
use ipnet::Ipv6Net;

/// A prefix of 32, 40, 48, 56, 64 or 96 bits, followed by an IPv4 address. Except in the last kind, bits 64 to
/// 71 are zero, and the address skips them (section 2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub struct Prefix {
    octets: [u8; 16],
    /// Its length in bytes.
    bytes: usize,
}

/// The byte that addresses skip.
const SKIPPED: usize = 8;

impl Prefix {
    /// 64:ff9b::/96.
    pub const WELL_KNOWN: Self = Self { octets: [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], bytes: 12 };

    /// Returns the offsets of an IPv4 address's bytes.
    #[inline]
    fn places(self) -> impl Iterator<Item = usize> {
        (self.bytes..16).filter(|&at| at != SKIPPED).take(4)
    }

    /// Returns the IPv6 address that represents an IPv4 address.
    #[inline]
    #[must_use]
    pub fn embed(self, address: Ipv4Addr) -> Ipv6Addr {
        let mut octets = self.octets;
        self.places().zip(address.octets()).for_each(|(at, byte)| octets[at] = byte);
        octets.into()
    }

    /// Returns whether an address starts with this prefix.
    #[inline]
    pub fn covers(self, address: Ipv6Addr) -> bool {
        address.octets()[..self.bytes] == self.octets[..self.bytes]
    }

    /// Returns the IPv4 address in an IPv6 address with this prefix. Ignores the bits behind it (section 2.3).
    #[inline]
    pub fn extract(self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        if !self.covers(address) {
            return None;
        }
        let (from, mut octets) = (address.octets(), [0; 4]);
        self.places().zip(&mut octets).for_each(|(at, byte)| *byte = from[at]);
        Some(octets.into())
    }
}

impl ParameterValue for Prefix {
    const ACCEPTS: &'static str = "an IPv6 prefix of length 32, 40, 48, 56, 64 or 96, with bits 64 to 71 zero";

    fn parse(text: &str) -> Option<Self> {
        let net: Ipv6Net = text.parse().ok()?;
        let octets = net.network().octets();
        let good =
            matches!(net.prefix_len(), 32 | 40 | 48 | 56 | 64 | 96) && octets[SKIPPED] == 0 && net == net.trunc();
        good.then_some(Self { octets, bytes: usize::from(net.prefix_len()) / 8 })
    }

    fn show(&self) -> String {
        format!("{}/{}", Ipv6Addr::from(self.octets), self.bytes * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of RFC 6052, section 2.4.
    #[test]
    fn examples_of_rfc_6052() {
        let v4 = Ipv4Addr::new(192, 0, 2, 33);
        for (prefix, expected) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
        ] {
            let prefix = Prefix::parse(prefix).unwrap();
            let v6: Ipv6Addr = expected.parse().unwrap();
            assert_eq!((prefix.embed(v4), prefix.extract(v6)), (v6, Some(v4)));
        }
        assert_eq!(Prefix::WELL_KNOWN, Prefix::parse("64:ff9b::/96").unwrap());
        assert_eq!(Prefix::WELL_KNOWN.extract("64:ff9c::1".parse().unwrap()), None);
    }
}
