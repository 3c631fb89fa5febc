//! The parameters of translation, and their types.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

use humpyard_core::policy::ParameterValue;
use humpyard_core::{choice, params};
use ipnet::Ipv4Net;

use super::prefix::Prefix;
use crate::forward::Host;
use crate::link::Mac;

params! {
    /// Parameters of translation. The default addresses are of the blocks kept for documentation (RFC 5737, RFC 3849).
    pub struct Nat64Params {
        /// The IPv6 prefix in which IPv4 addresses are embedded.
        prefix: Prefix = Prefix::WELL_KNOWN;
        /// The IPv4 addresses that stand for IPv6 hosts.
        pool: Pool = Pool(vec![Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 2, 64), 28)]);
        /// The ports of these addresses, and identifiers of ICMP, that may be used.
        ports: Ports = Ports(1..=65_535);
        /// IPv6 hosts that one IPv4 address each always stands for, in both directions and without state.
        map: Map = Map(Vec::new());
        /// Who may answer what an IPv6 host has sent.
        filter: Filter = Filter::EndpointIndependent;
        /// Whether private IPv4 addresses may stand behind the well-known prefix 64:ff9b::/96.
        private: bool = true;
        /// Connections remembered at most.
        sessions: u64 = 65_536, in 16..=16_777_216;
        /// How long UDP is remembered.
        udp: u64 = 300, in 120..=1_000_000, unit "s";
        /// How long ICMP queries are remembered.
        icmp: u64 = 60, in 60..=1_000_000, unit "s";
        /// How long an open TCP connection is remembered.
        tcp: u64 = 7440, in 7440..=1_000_000, unit "s";
        /// How long a TCP connection is remembered that opens or closes.
        tcp_transitory: u64 = 240, in 240..=1_000_000, unit "s";
        /// Packets remembered of which more fragments are to come.
        fragments: u64 = 1024, in 4..=1_048_576;
        /// The longest IP packet that the links on either side take.
        mtu: u64 = 1500, in 1280..=65_535, unit "bytes";
        /// The longest IPv6 packet made of an IPv4 packet that may be fragmented; a longer one is.
        fragment_above: u64 = 1280, in 1280..=65_535, unit "bytes";
        /// The translator's IPv4 address: ICMP errors come from it.
        router_v4: Host<Ipv4Addr> = Host(Ipv4Addr::new(192, 0, 2, 1));
        /// The translator's IPv6 address: ICMPv6 errors come from it.
        router_v6: Host<Ipv6Addr> = Host(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        /// The translator's MAC address, for answers on links whose headers do not say it.
        router_mac: Mac = Mac([2, 0, 0, 0, 0, 1]);
        /// Packets after which one more ICMP error is allowed; 0 is without limit.
        icmp_interval: u64 = 16, in 0..=1_000_000_000, unit "packets";
        /// How many ICMP errors may be made in a row.
        icmp_burst: u64 = 64, in 0..=1_000_000_000, unit "errors";
    }
}

impl Nat64Params {
    /// Returns a contradiction between parameters, and how to resolve it. `None`: there is no contradiction.
    pub(super) fn contradiction(&self) -> Option<String> {
        let Self { prefix, pool, map, mtu, fragment_above, router_v4: Host(v4), router_v6: Host(v6), .. } = self;
        if let Some((one, other)) = pool.overlap() {
            return Some(format!("`pool`: {one} and {other} have addresses in common: name each once"));
        }
        if pool.has(*v4) {
            return Some(format!(
                "`router-v4`: {v4} is in the pool, whose addresses stand for IPv6 hosts: give another"
            ));
        }
        if prefix.covers(*v6) {
            return Some(format!(
                "`router-v6`: {v6} is behind the prefix {}, where it stands for an IPv4 host: give another",
                prefix.show()
            ));
        }
        for (of_v4, of_v6) in &map.0 {
            if pool.has(*of_v4) {
                return Some(format!("`map`: {of_v4} is in the pool, whose addresses stand for many"));
            }
            if prefix.covers(*of_v6) {
                return Some(format!(
                    "`map`: {of_v6} is behind the prefix {}, where it stands for an IPv4 host already",
                    prefix.show()
                ));
            }
            if of_v4 == v4 || of_v6 == v6 {
                return Some(format!(
                    "`map`: {of_v4}={of_v6} has an address of the translator itself: give it another"
                ));
            }
        }
        (mtu < fragment_above).then(|| {
            format!(
                "`mtu` is {mtu}, less than `fragment-above`, which is {fragment_above}: raise one or lower the other"
            )
        })
    }
}

choice! {
    /// The senders that may answer an IPv6 host (RFC 4787, section 5).
    pub enum Filter {
        /// Every sender that knows the translated address and port.
        EndpointIndependent = "endpoint-independent",
        /// Senders that the host has sent to, from any port.
        AddressDependent = "address-dependent",
    }
}

/// Most addresses of a pool.
const POOL_MAX: usize = 4096;

/// IPv4 prefixes. The pool contains all their addresses: at most 4,096.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct Pool(pub Vec<Ipv4Net>);

impl Pool {
    /// Returns every address once, in order.
    pub(super) fn addresses(&self) -> Box<[Ipv4Addr]> {
        let each = |net: &Ipv4Net| u32::from(net.network())..=u32::from(net.broadcast());
        let mut addresses: Vec<Ipv4Addr> = self.0.iter().flat_map(each).map(Ipv4Addr::from).collect();
        addresses.sort_unstable();
        addresses.into()
    }
}

impl Pool {
    /// Returns whether the pool contains this address.
    fn has(&self, address: Ipv4Addr) -> bool {
        self.0.iter().any(|net| net.contains(&address))
    }

    /// Returns two prefixes that overlap, if there are any.
    fn overlap(&self) -> Option<(Ipv4Net, Ipv4Net)> {
        let later = |at: usize| self.0[at + 1..].iter().map(move |other| (self.0[at], *other));
        (0..self.0.len()).flat_map(later).find(|(one, other)| one.contains(other) || other.contains(one))
    }
}

impl ParameterValue for Pool {
    const ACCEPTS: &'static str = "IPv4 prefixes or addresses of hosts separated by `;`, 4096 addresses at most";

    fn parse(text: &str) -> Option<Self> {
        let prefix = |text: &str| {
            let prefix: Ipv4Net = text.parse().or_else(|_| text.parse::<Ipv4Addr>().map(Ipv4Net::from)).ok()?;
            (prefix == prefix.trunc() && prefix.prefix_len() >= 20 && is_host(prefix.network())).then_some(prefix)
        };
        let prefixes: Vec<Ipv4Net> = text.split(';').map(str::trim).map(prefix).collect::<Option<_>>()?;
        let addresses: usize = prefixes.iter().map(|prefix| 1usize << (32 - prefix.prefix_len())).sum();
        (addresses <= POOL_MAX).then_some(Self(prefixes))
    }

    fn show(&self) -> String {
        self.0.iter().map(Ipv4Net::to_string).collect::<Vec<_>>().join(";")
    }
}

fn is_host(address: Ipv4Addr) -> bool {
    crate::forward::ipv4::source_fault(address).is_none()
}

/// A range of ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ports(pub RangeInclusive<u16>);

impl PartialOrd for Ports {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        (self.0.start(), self.0.end()).partial_cmp(&(other.0.start(), other.0.end()))
    }
}

impl ParameterValue for Ports {
    const ACCEPTS: &'static str = "a range of ports, such as 1024-65535, of 32 ports at least and without 0";

    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first > 0 && first <= last && last - first >= 31).then_some(Self(first..=last))
    }

    fn show(&self) -> String {
        format!("{}-{}", self.0.start(), self.0.end())
    }
}

/// Fixed pairs of IPv4 and IPv6 addresses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct Map(pub Vec<(Ipv4Addr, Ipv6Addr)>);

impl Map {
    /// The text of an empty map.
    const NONE: &'static str = "none";
}

impl ParameterValue for Map {
    const ACCEPTS: &'static str = "V4=V6, several separated by `;`, each address of a host and named once, or none";

    fn parse(text: &str) -> Option<Self> {
        if text == Self::NONE {
            return Some(Self(Vec::new()));
        }
        let pair = |text: &str| {
            let (v4, v6) = text.split_once('=')?;
            let pair: (Ipv4Addr, Ipv6Addr) = (v4.trim().parse().ok()?, v6.trim().parse().ok()?);
            (is_host(pair.0) && crate::forward::ipv6::source_fault(pair.1).is_none()).then_some(pair)
        };
        let pairs: Vec<(Ipv4Addr, Ipv6Addr)> = text.split(';').map(pair).collect::<Option<_>>()?;
        let mut sorted = pairs.clone();
        sorted.sort_unstable();
        let v4_once = sorted.windows(2).all(|two| two[0].0 != two[1].0);
        sorted.sort_unstable_by_key(|&(_, v6)| v6);
        (v4_once && sorted.windows(2).all(|two| two[0].1 != two[1].1)).then_some(Self(pairs))
    }

    fn show(&self) -> String {
        if self.0.is_empty() {
            return Self::NONE.into();
        }
        self.0.iter().map(|(v4, v6)| format!("{v4}={v6}")).collect::<Vec<_>>().join(";")
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::policy::Params;

    use super::*;

    #[test]
    fn values_are_read_and_shown() {
        let mut params = Nat64Params::default();
        for (name, good, bad) in [
            ("pool", "192.0.2.64/28;198.51.100.1/32", "192.0.2.65/28"),
            ("pool", "10.0.0.0/20", "10.0.0.0/20;11.0.0.1/32"),
            ("ports", "1024-65535", "0-65535"),
            ("ports", "5-36", "5-35"),
            ("map", "192.0.2.9=2001:db8::9;192.0.2.8=2001:db8::8", "192.0.2.9=2001:db8::9;192.0.2.9=2001:db8::8"),
            ("map", "none", "192.0.2.9=2001:db8::9;192.0.2.8=2001:db8::9"),
            ("map", "192.0.2.9=2001:db8::9", "127.0.0.1=2001:db8::9"),
            ("prefix", "2001:db8:122::/48", "2001:db8:122::/50"),
            ("prefix", "64:ff9b::/96", "2001:db8:122:344:ff00::/96"),
            ("filter", "address-dependent", "symmetric"),
        ] {
            params.set("nat64", name, good).unwrap();
            params.set("nat64", name, bad).unwrap_err();
        }
        assert_eq!(params.pool.show(), "10.0.0.0/20");
        assert_eq!((params.ports.show(), params.map.show()), ("5-36".into(), "192.0.2.9=2001:db8::9".into()));
        assert_eq!(params.prefix.show(), "64:ff9b::/96");
    }

    #[test]
    fn contradictions_are_found() {
        let said = |pairs: &[(&str, &str)]| {
            let mut params = Nat64Params::default();
            pairs.iter().for_each(|(name, value)| params.set("nat64", name, value).unwrap());
            params.contradiction().unwrap_or_default()
        };
        assert_eq!(said(&[]), "");
        assert_eq!(said(&[("mtu", "1280"), ("map", "192.0.2.9=2001:db8::9")]), "");
        for (pairs, part) in [
            (&[("pool", "192.0.2.64/28;192.0.2.65")][..], "`pool`: 192.0.2.64/28 and 192.0.2.65/32 have"),
            (&[("pool", "192.0.2.0/24")], "`router-v4`: 192.0.2.1 is in the pool"),
            (&[("prefix", "2001:db8::/96")], "`router-v6`: 2001:db8::1 is behind the prefix 2001:db8::/96"),
            (&[("map", "192.0.2.65=2001:db8::9")], "`map`: 192.0.2.65 is in the pool"),
            (&[("map", "192.0.2.9=64:ff9b::9")], "`map`: 64:ff9b::9 is behind the prefix"),
            (&[("map", "192.0.2.1=2001:db8::9")], "of the translator itself"),
            (
                &[("mtu", "1400"), ("fragment-above", "1500")],
                "`mtu` is 1400, less than `fragment-above`, which is 1500",
            ),
        ] {
            let said = said(pairs);
            assert!(said.contains(part), "{said}");
        }
    }
}
