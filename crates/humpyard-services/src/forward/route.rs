//! The route table, which maps a destination to its next hop.

use core::net::{Ipv4Addr, Ipv6Addr};

use humpyard_core::policy::ParameterValue;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

use crate::link::Mac;

/// The next hop of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Out, with unchanged link addresses. As text: `out`.
    Out,
    /// Out to this station. As text: its MAC address.
    Station(Mac),
    /// The router itself, which consumes the packets. As text: `local`.
    Local,
    /// None: drops packets without an ICMP error. As text: `discard`.
    Discard,
    /// None: drops packets and reports it to the sender. As text: `unreachable`.
    Unreachable,
}

impl Next {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "out" => Self::Out,
            "local" => Self::Local,
            "discard" => Self::Discard,
            "unreachable" => Self::Unreachable,
            mac => Self::Station(<Mac as ParameterValue>::parse(mac)?),
        })
    }
}

/// Routes for IPv4 and IPv6, found by longest prefix. A shared table is read-only.
#[derive(Clone, Debug)]
pub struct RouteTable {
    v4: PrefixMap<Ipv4Net, Next>,
    v6: PrefixMap<Ipv6Net, Next>,
}

impl RouteTable {
    /// Returns a table without routes: every destination is unreachable.
    pub fn new() -> Self {
        Self { v4: PrefixMap::new(), v6: PrefixMap::new() }
    }

    /// Reads routes `PREFIX=NEXT`, separated by white space or `;`. A `#` starts a comment up to the end of the
    /// line. The table holds only these routes.
    ///
    /// # Errors
    /// Names the rejected route, and what is accepted: a prefix is `ADDRESS/LENGTH` with no bits set beyond its
    /// length, or a single address; the next hop is one of the texts of [`Next`]; a prefix has one route.
    pub fn parse(text: &str) -> Result<Self, RouteError> {
        let mut table = Self::new();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        for route in lines.flat_map(|line| line.split([';', ' ', '\t', '\r'])).filter(|route| !route.is_empty()) {
            table.parse_route(route).map_err(|kind| RouteError { route: route.into(), kind })?;
        }
        Ok(table)
    }

    fn parse_route(&mut self, route: &str) -> Result<(), RouteErrorKind> {
        let (prefix, next) = route.split_once('=').ok_or(RouteErrorKind::NoNext)?;
        let prefix = parse_prefix(prefix)?;
        let next = Next::parse(next).ok_or_else(|| RouteErrorKind::BadNext(next.into()))?;
        if self.insert(prefix, next).is_some() { Err(RouteErrorKind::Twice(prefix)) } else { Ok(()) }
    }

    /// Adds a route. Returns the next hop of the route that it replaces, if any. Ignores bits beyond the prefix
    /// length.
    pub fn insert(&mut self, prefix: IpNet, next: Next) -> Option<Next> {
        match prefix.trunc() {
            IpNet::V4(prefix) => self.v4.insert(prefix, next),
            IpNet::V6(prefix) => self.v6.insert(prefix, next),
        }
    }

    /// Returns the next hop of the longest prefix that covers `destination`, if any.
    #[inline]
    pub fn lookup_v4(&self, destination: Ipv4Addr) -> Option<Next> {
        self.v4.get_lpm(&Ipv4Net::from(destination)).map(|(_, next)| *next)
    }

    /// Returns the next hop of the longest prefix that covers `destination`, if any.
    #[inline]
    pub fn lookup_v6(&self, destination: Ipv6Addr) -> Option<Next> {
        self.v6.get_lpm(&Ipv6Net::from(destination)).map(|(_, next)| *next)
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Returns whether there are no routes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for RouteTable {
    /// Returns a table that sends everything out: `0.0.0.0/0=out;::/0=out`.
    fn default() -> Self {
        let mut table = Self::new();
        table.insert(IpNet::V4(Ipv4Net::default()), Next::Out);
        table.insert(IpNet::V6(Ipv6Net::default()), Next::Out);
        table
    }
}

fn parse_prefix(text: &str) -> Result<IpNet, RouteErrorKind> {
    let prefix: IpNet = match text.parse() {
        Ok(prefix) => prefix,
        Err(_) => IpNet::from(text.parse::<core::net::IpAddr>().map_err(|_| RouteErrorKind::BadPrefix(text.into()))?),
    };
    if prefix == prefix.trunc() { Ok(prefix) } else { Err(RouteErrorKind::BitsBeyond(prefix.trunc())) }
}

/// Why a route was rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{route}`: {kind}")]
pub struct RouteError {
    route: String,
    kind: RouteErrorKind,
}

impl RouteError {
    /// Returns the route as given.
    pub fn route(&self) -> &str {
        &self.route
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum RouteErrorKind {
    #[error("no next hop; accepted: PREFIX=NEXT, such as 10.0.0.0/8=out")]
    NoNext,
    #[error(
        "no prefix `{0}`; accepted: an address and a length, such as 10.0.0.0/8 or 2001:db8::/32, or an address alone"
    )]
    BadPrefix(String),
    #[error("bits are set beyond the length of the prefix; did you mean `{0}`?")]
    BitsBeyond(IpNet),
    #[error(
        "no next hop `{0}`; accepted: out, local, discard, unreachable, or the MAC address of one station, such as \
         02:00:00:00:00:01"
    )]
    BadNext(String),
    #[error("there is a route for {0} already")]
    Twice(IpNet),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn routes_as_text() {
        let table = RouteTable::parse(
            "# the way out\n0.0.0.0/0=out;10.0.0.0/8=discard 10.1.0.0/16=02:00:00:00:00:09\n\
             10.1.2.3=local # this one is ours\r\n2001:db8::/32=unreachable",
        )
        .unwrap();
        assert_eq!(table.len(), 5);
        let v4 = |text: &str| table.lookup_v4(text.parse().unwrap());
        let v6 = |text: &str| table.lookup_v6(text.parse().unwrap());
        assert_eq!(v4("9.255.255.255"), Some(Next::Out));
        assert_eq!(v4("10.255.0.0"), Some(Next::Discard));
        assert_eq!(v4("10.1.2.4"), Some(Next::Station(Mac([2, 0, 0, 0, 0, 9]))));
        assert_eq!(v4("10.1.2.3"), Some(Next::Local));
        assert_eq!(v6("2001:db8:ffff::1"), Some(Next::Unreachable));
        assert_eq!(v6("2001:db9::1"), None);
        assert!(RouteTable::parse(" \n;").unwrap().is_empty());
    }

    #[test]
    fn messages() {
        const PREFIX: &str =
            "accepted: an address and a length, such as 10.0.0.0/8 or 2001:db8::/32, or an address alone";
        const NEXT: &str =
            "accepted: out, local, discard, unreachable, or the MAC address of one station, such as 02:00:00:00:00:01";
        for (text, expected) in [
            ("10.0.0.0/8", "`10.0.0.0/8`: no next hop; accepted: PREFIX=NEXT, such as 10.0.0.0/8=out".into()),
            ("::/0=out 10/8=out", format!("`10/8=out`: no prefix `10/8`; {PREFIX}")),
            ("10.0.0.0/33=out", format!("`10.0.0.0/33=out`: no prefix `10.0.0.0/33`; {PREFIX}")),
            ("10.0.0.0/8=", format!("`10.0.0.0/8=`: no next hop ``; {NEXT}")),
            ("::/0=ff:ff:ff:ff:ff:ff", format!("`::/0=ff:ff:ff:ff:ff:ff`: no next hop `ff:ff:ff:ff:ff:ff`; {NEXT}")),
            (
                "10.1.0.0/8=out",
                "`10.1.0.0/8=out`: bits are set beyond the length of the prefix; did you mean `10.0.0.0/8`?".into(),
            ),
            ("::/0=out;::/0=local", "`::/0=local`: there is a route for ::/0 already".into()),
        ] {
            assert_eq!(RouteTable::parse(text).unwrap_err().to_string(), expected);
        }
    }

    /// Returns a next hop that identifies a route.
    fn station(number: usize) -> Next {
        let [.., a, b] = number.to_be_bytes();
        Next::Station(Mac([2, 0, 0, 0, a, b]))
    }

    /// Few distinct bits, so that prefixes nest, and destinations match them.
    fn bits() -> impl Strategy<Value = u32> {
        prop_oneof![any::<u32>(), (0u32..16).prop_map(|b| b << 28), (0u32..256).prop_map(|b| 0x0a00_0000 | b)]
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(
            routes in proptest::collection::vec((bits(), 0u8..=32), 0..60),
            destinations in proptest::collection::vec(bits(), 60),
        ) {
            let mut table = RouteTable::new();
            let mut list: Vec<(IpNet, Next)> = Vec::new();
            for (number, &(bits, length)) in routes.iter().enumerate() {
                let v4 = IpNet::V4(Ipv4Net::new(Ipv4Addr::from_bits(bits), length).unwrap().trunc());
                let v6 = Ipv6Addr::from_bits(u128::from(bits) << 96 | u128::from(bits));
                let v6 = IpNet::V6(Ipv6Net::new(v6, length * 4).unwrap().trunc());
                for prefix in [v4, v6] {
                    list.retain(|(other, _)| *other != prefix);
                    list.push((prefix, station(number)));
                    table.insert(prefix, station(number));
                }
            }
            prop_assert_eq!(table.len(), list.len());
            let scan = |address: core::net::IpAddr| {
                let covering = list.iter().filter(|(prefix, _)| prefix.contains(&address));
                covering.max_by_key(|(prefix, _)| prefix.prefix_len()).map(|&(_, next)| next)
            };
            let ends = routes.iter().map(|&(bits, _)| bits);
            for bits in destinations.into_iter().chain(ends) {
                let v4 = Ipv4Addr::from_bits(bits);
                prop_assert_eq!(table.lookup_v4(v4), scan(v4.into()));
                let v6 = Ipv6Addr::from_bits(u128::from(bits) << 96 | u128::from(bits));
                prop_assert_eq!(table.lookup_v6(v6), scan(v6.into()));
            }
        }
    }
}
