//! The parameters of forwarding, and their types.

use core::net::{Ipv4Addr, Ipv6Addr};

use humpyard_core::policy::ParameterValue;
use humpyard_core::{choice, params};

use super::{ipv4, ipv6};
use crate::link::Mac;

params! {
    /// Parameters of forwarding. The default addresses are of the blocks kept for documentation (RFC 5737, RFC 3849).
    pub struct ForwardParams {
        /// The route table; a destination that no route covers is unreachable.
        routes: Routes = Routes("0.0.0.0/0=out;::/0=out".into()), cost "always";
        /// The router's IPv4 address: packets to it are consumed, ICMP errors come from it.
        router_v4: Host<Ipv4Addr> = Host(Ipv4Addr::new(192, 0, 2, 1));
        /// The router's IPv6 address: packets to it are consumed, ICMPv6 errors come from it.
        router_v6: Host<Ipv6Addr> = Host(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        /// The router's MAC address: the source of frames that are sent to a MAC address.
        router_mac: Mac = Mac([2, 0, 0, 0, 0, 1]);
        /// Check the IPv4 header checksum as it is, or first fill in one that the sender left zero to its network card.
        checksum: Checksum = Checksum::Check;
        /// The longest packet that the next link takes, in bytes. A longer one is dropped, and its sender told this
        /// number, unless routers may fragment it. By default the MTU of the interface that packets leave by, and
        /// `any` where there is none.
        mtu: LinkMtu = LinkMtu(None);
        /// Packets after which one more ICMP error is allowed; 0 is without limit.
        icmp_interval: u64 = 16, in 0..=1_000_000_000, unit "packets";
        /// How many ICMP errors may be made in a row.
        icmp_burst: u64 = 64, in 0..=1_000_000_000, unit "errors";
    }
}

choice! {
    /// The treatment of the IPv4 header checksum.
    pub enum Checksum {
        /// A wrong checksum drops the packet.
        Check = "check",
        /// The same, but a checksum of zero is filled in before the check.
        Fill = "fill",
    }
}

/// The MTU of a link, in bytes, without the link header. `None`: no limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub struct LinkMtu(pub Option<u16>);

/// The MTU that every link supports (RFC 791), in bytes.
const MTU_MIN: u16 = 68;

impl ParameterValue for LinkMtu {
    const ACCEPTS: &'static str = "`any` or a whole number from 68 to 65535";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "any" => Some(Self(None)),
            _ => text.parse().ok().filter(|&bytes| bytes >= MTU_MIN).map(|bytes| Self(Some(bytes))),
        }
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| "any".to_owned(), |bytes| bytes.to_string())
    }
}

/// The text of a route table, which [`RouteTable::parse`](super::RouteTable::parse) reads.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct Routes(pub String);

/// Accepts every text; the table reports a wrong route more precisely.
impl ParameterValue for Routes {
    const ACCEPTS: &'static str = "PREFIX=NEXT, several separated by `;` or white space; \
         NEXT is out, a MAC address, local, discard or unreachable";

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.into()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// A valid source address: of one host, and not in a block that is never forwarded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub struct Host<A>(pub A);

impl ParameterValue for Host<Ipv4Addr> {
    const ACCEPTS: &'static str = "an IPv4 address of one host";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|&address| ipv4::source_fault(address).is_none()).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl ParameterValue for Host<Ipv6Addr> {
    const ACCEPTS: &'static str = "an IPv6 address of one host";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|&address| ipv6::source_fault(address).is_none()).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::policy::Params;

    use super::*;
    use crate::forward::RouteTable;

    #[test]
    fn the_default_routes_are_those_of_the_default_table() {
        let ForwardParams { routes: Routes(text), .. } = ForwardParams::default();
        let (table, default) = (RouteTable::parse(&text).unwrap(), RouteTable::default());
        assert_eq!(format!("{table:?}"), format!("{default:?}"));
    }

    #[test]
    fn links_take_68_bytes_or_any() {
        let mut params = ForwardParams::default();
        assert_eq!(params.mtu.show(), "any");
        for good in ["68", "65535", "any"] {
            params.set("forward", "mtu", good).unwrap();
            assert_eq!(params.mtu.show(), good);
        }
        for bad in ["67", "65536", "0", "-1", "none"] {
            params.set("forward", "mtu", bad).unwrap_err();
        }
    }

    #[test]
    fn router_addresses_are_of_one_host() {
        let mut params = ForwardParams::default();
        for (name, good, bad) in [
            ("router-v4", "10.0.0.1", "224.0.0.1"),
            ("router-v6", "fd00::1", "ff02::1"),
            ("router-mac", "02:00:00:00:00:07", "01:00:5e:00:00:01"),
        ] {
            params.set("forward", name, good).unwrap();
            params.set("forward", name, bad).unwrap_err();
        }
        assert_eq!(params.router_v6.show(), "fd00::1");
        assert_eq!(params.router_mac.show(), "02:00:00:00:00:07");
    }
}
