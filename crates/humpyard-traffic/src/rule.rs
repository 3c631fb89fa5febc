//! Rules, which give packets a service and a client.
//!
//! A rule has [`Conditions`], which must all hold; the first matching rule counts. Rules are compiled once to
//! bit sets, masks and ranges. An index of protocols, addresses, ports and VLAN identifiers finds the matching
//! rule.
//!
//! Each flow remembers its rule, so the number of rules costs nothing from its second packet on. Within a flow,
//! only the VLAN identifier and fragmentation can change the result; the flow remembers these, too.

use core::fmt;
use core::net::IpAddr;
use std::collections::HashSet;
use std::sync::Arc;

use etherparse::ip_number;
use humpyard_core::id::{ChainId, ClientId, FlowId, Id, ServiceId};
use humpyard_core::name::unknown;
use humpyard_core::storage::{Asked, FirstMatch, Prefix};
use humpyard_core::unit::Weight;
use ipnet::IpNet;

use crate::error::TrafficError;
use crate::header::{FlowKey, Headers, Network};
use crate::matching::Match;

/// A condition that a rule can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The name, in kebab case.
    pub name: &'static str,
    /// The field that it tests, in one line.
    pub summary: &'static str,
    /// The accepted values. Several are joined by `+`, and one of them must match.
    pub accepts: &'static str,
}

/// Every condition that a rule can have. A missing condition holds for every packet.
pub const KEYS: &[Key] = &[
    Key {
        name: "protocol",
        summary: "IP protocol, behind all extension headers",
        accepts: "any, tcp, udp, icmp (of either IP), ipv4, ipv6, other (none of tcp, udp, icmp), none (not IP), or a number from 0 to 255",
    },
    Key { name: "ip", summary: "IP version", accepts: "4 or 6" },
    Key { name: "source", summary: "Source address", accepts: PREFIXES },
    Key { name: "destination", summary: "Destination address", accepts: PREFIXES },
    Key { name: "address", summary: "Source or destination address", accepts: PREFIXES },
    Key { name: "source-port", summary: "Source port; fragments have none", accepts: PORTS },
    Key { name: "destination-port", summary: "Destination port; fragments have none", accepts: PORTS },
    Key { name: "port", summary: "Source or destination port; fragments have none", accepts: PORTS },
    Key {
        name: "vlan",
        summary: "Identifier of the outermost VLAN tag",
        accepts: "1 to 4094, a range such as 100-199, or none",
    },
    Key {
        name: "direction",
        summary: "Where an IP packet comes from and goes to, seen from the local prefixes",
        accepts: "out (from a local to another address), in, local (between local ones), or transit (between others)",
    },
    Key { name: "fragment", summary: "Whether it is a fragment of an IP packet", accepts: "yes or no" },
];

const PREFIXES: &str = "a prefix such as 10.0.0.0/8 or 2001:db8::/32, or an address";
const PORTS: &str = "1 to 65535, or a range such as 8000-8099";

/// The conditions of a rule, which must all hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Conditions {
    classes: Classes,
    source: Vec<IpNet>,
    destination: Vec<IpNet>,
    address: Vec<IpNet>,
    source_port: Ranges,
    destination_port: Ranges,
    port: Ranges,
    vlan: Ranges,
    directions: u8,
    fragment: Option<bool>,
    text: String,
}

impl Conditions {
    /// Returns conditions that match every packet.
    pub const fn any() -> Self {
        Self {
            classes: Classes::ALL,
            source: Vec::new(),
            destination: Vec::new(),
            address: Vec::new(),
            source_port: Ranges::ANY,
            destination_port: Ranges::ANY,
            port: Ranges::ANY,
            vlan: Ranges::ANY,
            directions: Direction::ALL,
            fragment: None,
            text: String::new(),
        }
    }

    /// Returns conditions that match the packets of a kind.
    pub fn of(kind: Match) -> Self {
        let text = if kind == Match::Any { String::new() } else { format!("protocol={}", kind.name()) };
        Self { classes: Classes::of(kind), text, ..Self::any() }
    }

    /// Adds a condition: a name of [`KEYS`], and values joined by `+`, of which one must match.
    ///
    /// # Errors
    /// An unknown name, an invalid value, a name given twice.
    pub fn set(&mut self, name: &str, values: &str) -> Result<(), TrafficError> {
        let name = name.replace('_', "-");
        let key = KEYS.iter().find(|key| key.name == name);
        let key = key.ok_or_else(|| {
            TrafficError::usage(unknown("condition of a rule", &name, KEYS.iter().map(|key| key.name)))
        })?;
        if self.text.split(',').any(|set| set.split_once('=').is_some_and(|(set, _)| set == name)) {
            return Err(TrafficError::usage(format!("`{name}` is given twice; join its values by `+`")));
        }
        self.narrow(&name, values).map_err(|value| {
            TrafficError::usage(format!("`{name}` takes {}; several are joined by `+`; not `{value}`", key.accepts))
        })?;
        let comma = if self.text.is_empty() { "" } else { "," };
        self.text.push_str(&format!("{comma}{name}={values}"));
        Ok(())
    }

    /// Adds a condition. The error is the invalid value.
    fn narrow<'a>(&mut self, name: &str, values: &'a str) -> Result<(), &'a str> {
        match name {
            "protocol" => self.classes = self.classes.and(&Classes::union(each(values, Classes::parse)?)),
            "ip" => self.classes = self.classes.and(&Classes::union(each(values, Classes::of_version)?)),
            "source" => self.source = each(values, prefix)?,
            "destination" => self.destination = each(values, prefix)?,
            "address" => self.address = each(values, prefix)?,
            "source-port" => self.source_port = Ranges::new(each(values, port)?),
            "destination-port" => self.destination_port = Ranges::new(each(values, port)?),
            "port" => self.port = Ranges::new(each(values, port)?),
            "vlan" => self.vlan = Ranges::new(each(values, vlan)?),
            "direction" => {
                let directions = each(values, Direction::parse)?;
                self.directions = directions.iter().fold(0, |bits, direction| bits | direction.bit());
            }
            _ => {
                let values = each(values, |value| match value {
                    "yes" => Some(true),
                    "no" => Some(false),
                    _ => None,
                })?;
                self.fragment = values.iter().all(|value| *value == values[0]).then(|| values[0]);
            }
        }
        Ok(())
    }

    /// Returns whether every packet matches.
    pub fn is_any(&self) -> bool {
        self.meaning() == Self::any()
    }

    /// Returns the same conditions without their text.
    fn meaning(&self) -> Self {
        Self { text: String::new(), ..self.clone() }
    }

    /// Returns whether no packet can match, because the conditions contradict each other.
    pub fn is_none(&self) -> bool {
        self.possible().is_empty()
    }

    /// Returns whether a condition tests the direction, which needs the local prefixes.
    pub const fn needs_local(&self) -> bool {
        self.directions != Direction::ALL
    }

    /// Returns the versions and protocols that these conditions can match.
    fn possible(&self) -> Classes {
        let mut classes = self.classes;
        for ports in [&self.source_port, &self.destination_port, &self.port] {
            if !ports.is_any() {
                classes = classes.and(&Classes::with_ports());
            }
        }
        if self.fragment == Some(true) {
            let ports = [&self.source_port, &self.destination_port, &self.port];
            classes =
                if ports.iter().all(|ports| ports.is_any()) { classes.and(&Classes::ip()) } else { Classes::NONE };
        }
        if self.needs_local() {
            classes = classes.and(&Classes::ip());
        }
        for prefixes in [&self.source, &self.destination, &self.address] {
            if !prefixes.is_empty() {
                let versions = prefixes.iter().map(|prefix| Classes::version(is_v4(prefix))).collect();
                classes = classes.and(&Classes::union(versions));
            }
        }
        classes
    }

    /// Returns whether the conditions other than version and protocol hold for every packet that `other`
    /// matches.
    fn is_wider_but_for_classes(&self, other: &Self) -> bool {
        let sources = covers(&self.source, &other.source);
        let destinations = covers(&self.destination, &other.destination);
        let addresses = [&other.address, &other.source, &other.destination];
        let ports = [&other.port, &other.source_port, &other.destination_port];
        sources
            && destinations
            && addresses.iter().any(|narrower| covers(&self.address, narrower))
            && self.source_port.covers(&other.source_port)
            && self.destination_port.covers(&other.destination_port)
            && ports.iter().any(|narrower| self.port.covers(narrower))
            && self.vlan.covers(&other.vlan)
            && other.directions & !self.directions == 0
            && (self.fragment.is_none()
                || self.fragment == other.fragment
                || self.fragment == Some(false) && other.has_ports())
    }

    /// Returns whether a condition tests a port, which no fragment has.
    fn has_ports(&self) -> bool {
        ![&self.source_port, &self.destination_port, &self.port].iter().all(|ports| ports.is_any())
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() { "any" } else { &self.text })
    }
}

/// Reads values joined by `+`. The error is the invalid value.
fn each<T>(values: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, &str> {
    values.split('+').map(|value| parse(value.trim()).ok_or(value.trim())).collect()
}

/// Reads a prefix, or a single address. Bits beyond the length are an error.
pub(crate) fn prefix(text: &str) -> Option<IpNet> {
    let prefix = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok()?;
    (prefix == prefix.trunc()).then_some(prefix)
}

fn port(text: &str) -> Option<(u16, u16)> {
    range(text, 1, u16::MAX)
}

/// Reads identifiers. `none` is 0, as in a tag with only a priority.
fn vlan(text: &str) -> Option<(u16, u16)> {
    if text == "none" { Some((0, 0)) } else { range(text, 1, 4094) }
}

fn range(text: &str, least: u16, most: u16) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (least <= first && first <= last && last <= most).then_some((first, last))
}

const fn is_v4(prefix: &IpNet) -> bool {
    matches!(prefix, IpNet::V4(_))
}

/// Returns whether each narrow prefix is inside a wide one; no prefix means all addresses.
fn covers(wide: &[IpNet], narrow: &[IpNet]) -> bool {
    let wide_enough = || {
        let wide = IpNet::aggregate(&wide.to_vec());
        narrow.iter().all(|narrow| wide.iter().any(|wide| wide.contains(narrow)))
    };
    wide.is_empty() || (!narrow.is_empty() && wide_enough())
}

/// A set of numbers as disjoint, ascending ranges that do not touch. Empty: every number.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Ranges(Vec<(u16, u16)>);

impl Ranges {
    const ANY: Self = Self(Vec::new());

    fn new(mut ranges: Vec<(u16, u16)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if u32::from(first) <= u32::from(before.1) + 1 => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    const fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the same numbers as prefixes.
    fn prefixes(&self) -> Vec<Prefix> {
        self.0.iter().flat_map(|&(first, last)| Prefix::of_range(first, last)).collect()
    }

    /// Returns one of the numbers. `None`: the set has every number.
    fn one(&self) -> Option<u128> {
        self.0.first().map(|&(first, _)| Prefix::short(first))
    }

    fn contains(&self, number: u16) -> bool {
        self.is_any() || self.0.iter().any(|&(first, last)| (first..=last).contains(&number))
    }

    fn covers(&self, narrow: &Self) -> bool {
        let inside = |&(first, last): &(u16, u16)| self.0.iter().any(|wide| wide.0 <= first && last <= wide.1);
        self.is_any() || (!narrow.is_any() && narrow.0.iter().all(inside))
    }
}

/// A set of pairs of IP version and protocol, and of packets that are not IP: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Classes([u64; 9]);

/// The class of packets that are not IP.
const NOT_IP: usize = 512;

impl Classes {
    const NONE: Self = Self([0; 9]);
    const ALL: Self = {
        let mut words = [u64::MAX; 9];
        words[8] = 1;
        Self(words)
    };

    /// Returns the class of a packet: its protocol, plus 256 for IPv6; or not IP.
    #[inline]
    fn class(key: &FlowKey) -> usize {
        match key.network {
            Network::Ipv4 => usize::from(key.protocol),
            Network::Ipv6 => 256 + usize::from(key.protocol),
            Network::Other { .. } => NOT_IP,
        }
    }

    #[inline]
    const fn contains(&self, class: usize) -> bool {
        self.0[class / 64] >> (class % 64) & 1 == 1
    }

    fn with(classes: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::NONE;
        for class in classes {
            set.0[class / 64] |= 1 << (class % 64);
        }
        set
    }

    fn protocol(number: u8) -> Self {
        Self::with([usize::from(number), 256 + usize::from(number)])
    }

    fn version(v4: bool) -> Self {
        Self::with(if v4 { 0..256 } else { 256..512 })
    }

    fn of_version(text: &str) -> Option<Self> {
        match text {
            "4" => Some(Self::version(true)),
            "6" => Some(Self::version(false)),
            _ => None,
        }
    }

    fn ip() -> Self {
        Self::with(0..NOT_IP)
    }

    /// Returns the protocols whose ports are parsed.
    fn with_ports() -> Self {
        let protocols = [ip_number::TCP, ip_number::UDP, ip_number::SCTP, ip_number::DCCP, ip_number::UDP_LITE];
        Self::union(protocols.map(|protocol| Self::protocol(protocol.0)).to_vec())
    }

    fn of(kind: Match) -> Self {
        let icmp = Self::with([usize::from(ip_number::ICMP.0), 256 + usize::from(ip_number::IPV6_ICMP.0)]);
        match kind {
            Match::Any => Self::ALL,
            Match::Tcp => Self::protocol(ip_number::TCP.0),
            Match::Udp => Self::protocol(ip_number::UDP.0),
            Match::Icmp => icmp,
            Match::Ipv4 => Self::version(true),
            Match::Ipv6 => Self::version(false),
            Match::Other => Self::ALL.without(&Self::union(vec![Self::of(Match::Tcp), Self::of(Match::Udp), icmp])),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => Some(Self::with([NOT_IP])),
            _ => text.parse().map(Self::of).ok().or_else(|| text.parse().map(Self::protocol).ok()),
        }
    }

    fn and(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    fn without(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    fn union(sets: Vec<Self>) -> Self {
        sets.iter().fold(Self::NONE, |all, set| Self(core::array::from_fn(|word| all.0[word] | set.0[word])))
    }

    fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Returns the same classes as prefixes; empty if there would be many.
    fn prefixes(&self) -> Vec<Prefix> {
        const FEW: usize = 4;
        let classes = (0..=NOT_IP as u16).filter(|&class| self.contains(usize::from(class)));
        let prefixes = Ranges::new(classes.map(|class| (class, class)).collect()).prefixes();
        if prefixes.len() > FEW { Vec::new() } else { prefixes }
    }
}

/// The direction of an IP packet relative to the local prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Out,
    In,
    Local,
    Transit,
    /// The packet is not IP.
    None,
}

impl Direction {
    /// The bits of all directions.
    const ALL: u8 = 0b1_1111;

    fn parse(text: &str) -> Option<Self> {
        match text {
            "out" => Some(Self::Out),
            "in" => Some(Self::In),
            "local" => Some(Self::Local),
            "transit" => Some(Self::Transit),
            _ => None,
        }
    }

    const fn of(from_local: bool, to_local: bool) -> Self {
        match (from_local, to_local) {
            (true, false) => Self::Out,
            (false, true) => Self::In,
            (true, true) => Self::Local,
            (false, false) => Self::Transit,
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A rule: conditions, and the outcome for matching packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The conditions.
    pub conditions: Conditions,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a rule for its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Their service.
    pub service: ServiceId,
    /// Their client, if rules define the clients.
    pub client: ClientId,
    /// Their chain of services, if there are chains.
    pub chain: ChainId,
    /// The weight of their client, if clients are flows or connections. The rule of the client's first packet
    /// counts.
    pub weight: Weight,
    /// The client's weight at the link behind the cores, likewise.
    pub link_weight: Weight,
}

impl Rule {
    /// Returns a rule that gives packets of a kind this service; client and chain have its number.
    pub fn of(kind: Match, service: ServiceId) -> Self {
        let (client, chain) = (ClientId(u32::from(service.0)), ChainId(service.0));
        let (weight, link_weight) = (Weight::ONE, Weight::ONE);
        Self { conditions: Conditions::of(kind), outcome: Outcome { service, client, chain, weight, link_weight } }
    }
}

/// Returns the rules that no packet can reach, by index, because earlier rules match all their packets.
///
/// It compares conditions one by one; for versions and protocols, with all earlier rules together. It does not
/// find a rule that several earlier rules cover together by addresses or ports. It compares a rule with up to
/// [`COMPARED_MAX`] earlier rules that match one of its packets.
pub fn shadowed(rules: &[Conditions]) -> Vec<usize> {
    let asked: Vec<_> = (0..).zip(rules).flat_map(|(at, rule)| asked(at, rule, Vec::new())).collect();
    let index = FirstMatch::new(&asked);
    (0..rules.len()).filter(|&at| is_shadowed(rules, &index, at)).collect()
}

/// Most earlier rules that [`shadowed`] compares with a rule.
pub const COMPARED_MAX: usize = 100;

fn is_shadowed(rules: &[Conditions], index: &FirstMatch<SIDES>, at: usize) -> bool {
    let rule = &rules[at];
    let mut left = rule.possible();
    if left.is_empty() {
        return true;
    }
    // A wider rule matches these addresses and ports, too.
    let address = |prefixes: &[IpNet]| prefixes.first().map(|prefix| Masked::new(prefix).bits);
    let both = |one: Option<u128>, either: Option<u128>| one.into_iter().chain(either).collect::<Vec<u128>>();
    let points = [
        Vec::new(),
        both(address(&rule.source), address(&rule.address)),
        both(address(&rule.destination), address(&rule.address)),
        both(rule.source_port.one(), rule.port.one()),
        both(rule.destination_port.one(), rule.port.one()),
        both(rule.vlan.one(), None),
    ];
    let mut compared = 0;
    index.visit(&points.each_ref().map(Vec::as_slice), at as u32, |before| {
        let before = &rules[before as usize];
        if before.is_wider_but_for_classes(rule) {
            left = left.without(&before.classes);
        }
        compared += 1;
        left.is_empty() || compared >= COMPARED_MAX
    });
    left.is_empty()
}

/// Fields by which the index finds rules: class, addresses, ports, VLAN identifier.
const SIDES: usize = 6;

/// Returns the rule's condition in each field except the class: several alternatives, if either address or
/// either port may match.
fn asked(rule: u32, conditions: &Conditions, classes: Vec<Prefix>) -> Vec<Asked<SIDES>> {
    let Conditions { source, destination, address, source_port, destination_port, port, vlan, .. } = conditions;
    let prefixes = |prefixes: &Vec<IpNet>| -> Vec<Prefix> {
        IpNet::aggregate(prefixes).iter().map(|prefix| Masked::new(prefix).prefix()).collect()
    };
    let addresses = either(prefixes(source), prefixes(destination), prefixes(address));
    let ports = either(source_port.prefixes(), destination_port.prefixes(), port.prefixes());
    let mut asked = Vec::with_capacity(addresses.len() * ports.len());
    for [source, destination] in &addresses {
        for [source_port, destination_port] in &ports {
            let sides = [&classes, source, destination, source_port, destination_port, &vlan.prefixes()];
            asked.push(Asked { rule, sides: sides.map(Clone::clone) });
        }
    }
    asked
}

/// Returns the conditions on two fields, from one for each and one for either. The last is used only if the
/// first two are empty.
fn either(one: Vec<Prefix>, other: Vec<Prefix>, both: Vec<Prefix>) -> Vec<[Vec<Prefix>; 2]> {
    if both.is_empty() || !one.is_empty() || !other.is_empty() {
        return vec![[one, other]];
    }
    vec![[both.clone(), Vec::new()], [Vec::new(), both]]
}

/// A prefix as a mask and its bits; an IPv4 address is in the first 32.
#[derive(Clone, Copy, Debug)]
struct Masked {
    v4: bool,
    mask: u128,
    bits: u128,
}

impl Masked {
    fn new(prefix: &IpNet) -> Self {
        let bits = match prefix.network() {
            IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
            IpAddr::V6(address) => address.to_bits(),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix.prefix_len())).unwrap_or(0);
        Self { v4: is_v4(prefix), mask, bits }
    }

    const fn prefix(&self) -> Prefix {
        Prefix::new(self.bits, self.mask.leading_ones() as u8)
    }

    #[inline]
    const fn contains(&self, v4: bool, address: u128) -> bool {
        self.v4 == v4 && address & self.mask == self.bits
    }
}

/// The fields of a packet that rules test.
#[derive(Clone, Copy, Debug)]
struct Looked {
    class: usize,
    v4: bool,
    source: u128,
    destination: u128,
    source_port: u16,
    destination_port: u16,
    vlan: u16,
    direction: u8,
    fragment: bool,
}

impl Looked {
    /// Returns the packet's value in each field.
    #[inline]
    const fn point(&self) -> [u128; SIDES] {
        let ports = [Prefix::short(self.source_port), Prefix::short(self.destination_port)];
        let class = Prefix::short(self.class as u16);
        [class, self.source, self.destination, ports[0], ports[1], Prefix::short(self.vlan)]
    }
}

/// Returns the index of rules. A rule with the same conditions as an earlier one never matches first, and is
/// left out.
fn index(rules: &[Rule], compiled: &[Compiled]) -> FirstMatch<SIDES> {
    let mut known = HashSet::with_capacity(rules.len());
    let new = rules.iter().zip(compiled).zip(0..).filter(|((rule, _), _)| known.insert(rule.conditions.meaning()));
    let asked: Vec<_> =
        new.flat_map(|((rule, compiled), at)| asked(at, &rule.conditions, compiled.classes.prefixes())).collect();
    FirstMatch::new(&asked)
}

/// A rule in compiled form.
#[derive(Clone, Debug)]
struct Compiled {
    /// Versions and protocols that all conditions together allow.
    classes: Classes,
    source: Vec<Masked>,
    destination: Vec<Masked>,
    address: Vec<Masked>,
    source_port: Ranges,
    destination_port: Ranges,
    port: Ranges,
    vlan: Ranges,
    directions: u8,
    fragment: Option<bool>,
    outcome: Outcome,
}

impl Compiled {
    fn new(rule: &Rule) -> Self {
        let Conditions { source, destination, address, source_port, destination_port, port, vlan, .. } =
            &rule.conditions;
        let masked = |prefixes: &Vec<IpNet>| IpNet::aggregate(prefixes).iter().map(Masked::new).collect();
        Self {
            classes: rule.conditions.possible(),
            source: masked(source),
            destination: masked(destination),
            address: masked(address),
            source_port: source_port.clone(),
            destination_port: destination_port.clone(),
            port: port.clone(),
            vlan: vlan.clone(),
            directions: rule.conditions.directions,
            fragment: rule.conditions.fragment,
            outcome: rule.outcome,
        }
    }

    #[inline]
    fn matches(&self, packet: &Looked) -> bool {
        self.classes.contains(packet.class)
            && self.directions & packet.direction != 0
            && self.source_port.contains(packet.source_port)
            && self.destination_port.contains(packet.destination_port)
            && (self.port.is_any()
                || self.port.contains(packet.source_port)
                || self.port.contains(packet.destination_port))
            && self.vlan.contains(packet.vlan)
            && self.fragment.is_none_or(|fragment| fragment == packet.fragment)
            && (self.source.is_empty() || within(&self.source, packet.v4, packet.source))
            && (self.destination.is_empty() || within(&self.destination, packet.v4, packet.destination))
            && (self.address.is_empty()
                || within(&self.address, packet.v4, packet.source)
                || within(&self.address, packet.v4, packet.destination))
    }
}

#[inline]
fn within(prefixes: &[Masked], v4: bool, address: u128) -> bool {
    prefixes.iter().any(|prefix| prefix.contains(v4, address))
}

/// Compiled rules, with the rule of each flow.
#[derive(Clone, Debug)]
pub(crate) struct RuleSet {
    rules: Arc<Matcher>,
    /// The match of each flow's last packet; empty if there are too few rules to remember.
    remembered: Vec<Remembered>,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    /// The fields that can differ from other packets of the flow.
    varying: u32,
    /// The number of the rule.
    rule: u32,
}

/// Compiled rules, independent of earlier packets.
#[derive(Debug)]
pub(crate) struct Matcher {
    rules: Vec<Compiled>,
    /// `None`: there are few rules.
    index: Option<FirstMatch<SIDES>>,
    local: Vec<Masked>,
    /// Whether a rule tests the VLAN identifier, or fragments.
    looks_at: (bool, bool),
}

/// Up to this many rules, matching is faster than remembering.
const FEW: usize = 4;

impl RuleSet {
    /// Returns rules for this many flows. The last rule gets the packets that no other matches.
    pub(crate) fn new(rules: &[Rule], local: &[IpNet], flows: usize) -> Self {
        let remembered = if rules.len() <= FEW { 0 } else { flows };
        let unknown = Remembered { varying: u32::MAX, rule: 0 };
        let conditions = || rules.iter().map(|rule| &rule.conditions);
        let compiled: Vec<Compiled> = rules.iter().map(Compiled::new).collect();
        let rules = Matcher {
            index: (rules.len() > FEW).then(|| index(rules, &compiled)),
            rules: compiled,
            local: IpNet::aggregate(&local.to_vec()).iter().map(Masked::new).collect(),
            looks_at: (conditions().any(|rule| !rule.vlan.is_any()), conditions().any(|rule| rule.fragment.is_some())),
        };
        Self { rules: Arc::new(rules), remembered: vec![unknown; remembered] }
    }

    /// Returns the rules, if flows remember nothing. Then the first match is the complete result.
    pub(crate) fn few(&self) -> Option<Arc<Matcher>> {
        self.remembered.is_empty().then(|| Arc::clone(&self.rules))
    }

    /// Returns the outcome of the rule with this number.
    #[inline]
    pub(crate) fn outcome(&self, rule: u32) -> &Outcome {
        &self.rules.rules[rule as usize].outcome
    }

    /// Returns the number of the rule for a packet of this flow.
    #[inline]
    pub(crate) fn find(&mut self, flow: FlowId, new: bool, headers: &Headers) -> u32 {
        let Some(remembered) = self.remembered.get_mut(flow.index()) else { return self.rules.first_match(headers) };
        let varying = self.rules.varying(headers);
        if new || remembered.varying != varying {
            *remembered = Remembered { varying, rule: self.rules.first_match(headers) };
        }
        remembered.rule
    }
}

impl Matcher {
    /// Returns the tested fields that can differ within a flow.
    #[inline]
    fn varying(&self, headers: &Headers) -> u32 {
        let vlan = if self.looks_at.0 { u32::from(headers.vlan) } else { 0 };
        vlan << 1 | u32::from(self.looks_at.1 && headers.fragment)
    }

    /// Returns the number of the first rule that matches.
    #[inline]
    pub(crate) fn first_match(&self, headers: &Headers) -> u32 {
        // The last rule gets the packets that no other matches.
        if self.rules.len() == 1 { 0 } else { self.first_of_several(headers) }
    }

    fn first_of_several(&self, headers: &Headers) -> u32 {
        let packet = self.look(headers);
        let found = match &self.index {
            None => self.rules.iter().position(|rule| rule.matches(&packet)).map(|rule| rule as u32),
            Some(index) => index.find(&packet.point(), |rule| self.rules[rule as usize].matches(&packet)),
        };
        found.unwrap_or(self.rules.len() as u32 - 1)
    }

    fn look(&self, headers: &Headers) -> Looked {
        let key = &headers.key;
        let (v4, is_ip) = (key.network == Network::Ipv4, !matches!(key.network, Network::Other { .. }));
        let (source, destination) = (u128::from_be_bytes(key.source), u128::from_be_bytes(key.destination));
        let local = |address| within(&self.local, v4, address);
        let direction = if is_ip { Direction::of(local(source), local(destination)) } else { Direction::None };
        Looked {
            class: Classes::class(key),
            v4,
            source,
            destination,
            source_port: key.source_port,
            destination_port: key.destination_port,
            vlan: headers.vlan,
            direction: direction.bit(),
            fragment: headers.fragment,
        }
    }
}

/// Reads the prefixes of the local side, joined by commas or `+`.
///
/// # Errors
/// If one is no prefix, or has bits set beyond its length.
pub fn parse_local(text: &str) -> Result<Vec<IpNet>, TrafficError> {
    let parts = text.split([',', '+']).map(str::trim);
    parts
        .map(|part| {
            prefix(part).ok_or_else(|| TrafficError::usage(format!("a local prefix is {PREFIXES}; not `{part}`")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    use super::*;
    use crate::header::Kind;

    /// Conditions as text: names and values.
    type Said = Vec<(&'static str, Vec<&'static str>)>;

    const PROTOCOLS: &[&str] =
        &["any", "tcp", "udp", "icmp", "ipv4", "ipv6", "other", "none", "6", "47", "58", "1", "0", "132"];
    const ADDRESSES: &[&str] = &[
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.0.0.0/9",
        "10.1.2.0/24",
        "10.1.2.3",
        "::/0",
        "2001:db8::/32",
        "2001:db8::1",
        "a01:203::/32",
    ];
    const PORT_VALUES: &[&str] = &["1", "53", "80", "81-99", "100-65535", "1-1023", "65535"];
    const VALUES: [(&str, &[&str]); 11] = [
        ("protocol", PROTOCOLS),
        ("ip", &["4", "6"]),
        ("source", ADDRESSES),
        ("destination", ADDRESSES),
        ("address", ADDRESSES),
        ("source-port", PORT_VALUES),
        ("destination-port", PORT_VALUES),
        ("port", PORT_VALUES),
        ("vlan", &["none", "1", "7", "2-100", "4094"]),
        ("direction", &["in", "out", "local", "transit"]),
        ("fragment", &["yes", "no"]),
    ];

    fn said() -> impl Strategy<Value = Said> {
        let condition = |(name, values): (&'static str, &'static [&'static str])| {
            subsequence(values, 1..=values.len().min(3)).prop_map(move |values| (name, values))
        };
        subsequence(VALUES.to_vec(), 0..=3)
            .prop_flat_map(move |picked| picked.into_iter().map(condition).collect::<Vec<_>>())
    }

    fn compiled(said: &Said) -> Conditions {
        let mut conditions = Conditions::any();
        for (name, values) in said {
            conditions.set(name, &values.join("+")).unwrap();
        }
        conditions
    }

    fn headers() -> impl Strategy<Value = Headers> {
        let v4 = select(vec!["10.1.2.3", "10.1.2.4", "10.128.0.1", "192.0.2.1", "0.0.0.0"]);
        let v6 = select(vec!["2001:db8::1", "2001:db8::2", "a01:203::", "fe80::1", "::"]);
        let v4 = v4.prop_map(|text| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&text.parse::<Ipv4Addr>().unwrap().octets());
            bytes
        });
        let v6 = v6.prop_map(|text| text.parse::<Ipv6Addr>().unwrap().octets());
        let network = prop_oneof![
            (Just(Network::Ipv4), v4.clone(), v4),
            (Just(Network::Ipv6), v6.clone(), v6),
            (Just(Network::Other { link: 1, ether_type: 0x0806 }), any::<[u8; 16]>(), any::<[u8; 16]>()),
        ];
        let protocol = select(vec![6u8, 17, 1, 58, 47, 132, 0, 255]);
        let port = || select(vec![1u16, 53, 80, 90, 100, 1023, 1024, 65535]);
        let vlan = select(vec![0u16, 1, 7, 50, 4094]);
        (network, protocol, port(), port(), vlan, any::<bool>()).prop_map(
            |((network, source, destination), protocol, source_port, destination_port, vlan, fragment)| {
                let is_ip = !matches!(network, Network::Other { .. });
                let has_ports = is_ip && !fragment && [6, 17, 132].contains(&protocol);
                let port = |port| if has_ports { port } else { 0 };
                let protocol = if is_ip { protocol } else { 0 };
                let (source_port, destination_port) = (port(source_port), port(destination_port));
                let kind = match (network, protocol) {
                    (Network::Other { .. }, _) => Kind::NonIp,
                    (_, 6) => Kind::Tcp,
                    (_, 17) => Kind::Udp,
                    (Network::Ipv4, 1) | (Network::Ipv6, 58) => Kind::Icmp,
                    _ => Kind::OtherIp,
                };
                let key = FlowKey { network, protocol, source, destination, source_port, destination_port };
                let fragment = fragment && is_ip;
                Headers {
                    kind,
                    key,
                    ip_offset: None,
                    transport_offset: None,
                    fragment,
                    vlan,
                    tunnels: 0,
                    begins_or_ends: false,
                }
            },
        )
    }

    /// Returns whether all conditions hold, by reading their text for each packet.
    fn holds(said: &Said, headers: &Headers, local: &[IpNet]) -> bool {
        said.iter().all(|(name, values)| values.iter().any(|value| holds_one(name, value, headers, local)))
    }

    fn holds_one(name: &str, value: &str, headers: &Headers, local: &[IpNet]) -> bool {
        let (source, destination) = (headers.key.source_address(), headers.key.destination_address());
        let inside = |address: Option<IpAddr>| {
            let prefix = value.parse().or_else(|_| value.parse::<IpAddr>().map(IpNet::from)).unwrap();
            address.is_some_and(|address| prefix.contains(&address))
        };
        let among = |number: u16| {
            let (first, last) = value.split_once('-').unwrap_or((value, value));
            (first.parse::<u16>().unwrap()..=last.parse().unwrap()).contains(&number)
        };
        let is_local = |address: Option<IpAddr>| local.iter().any(|prefix| prefix.contains(&address.unwrap()));
        match name {
            "protocol" => match (value, value.parse::<Match>()) {
                ("none", _) => source.is_none(),
                (_, Ok(kind)) => kind.matches(headers),
                (number, _) => source.is_some() && number.parse() == Ok(headers.key.protocol),
            },
            "ip" => headers.version().is_some_and(|version| value.parse() == Ok(version)),
            "source" => inside(source),
            "destination" => inside(destination),
            "address" => inside(source) || inside(destination),
            "source-port" => among(headers.key.source_port),
            "destination-port" => among(headers.key.destination_port),
            "port" => among(headers.key.source_port) || among(headers.key.destination_port),
            "vlan" => {
                if value == "none" {
                    headers.vlan == 0
                } else {
                    among(headers.vlan)
                }
            }
            "direction" => {
                source.is_some()
                    && match (is_local(source), is_local(destination)) {
                        (true, false) => value == "out",
                        (false, true) => value == "in",
                        (true, true) => value == "local",
                        (false, false) => value == "transit",
                    }
            }
            _ => (value == "yes") == headers.fragment,
        }
    }

    proptest! {
        /// Few rules and many, with flows that remember their rules.
        #[test]
        fn compiled_rules_agree_with_a_naive_matcher(
            saids in prop_oneof![prop::collection::vec(said(), 0..12), prop::collection::vec(said(), 30..60)],
            packets in prop::collection::vec((0u32..4, any::<bool>(), headers()), 1..40),
        ) {
            let local = parse_local("10.0.0.0/9, 2001:db8::/32").unwrap();
            let mut rules: Vec<Rule> = saids
                .iter()
                .enumerate()
                .map(|(id, said)| Rule { conditions: compiled(said), ..Rule::of(Match::Any, ServiceId::from_index(id)) })
                .collect();
            let rest = ServiceId::from_index(rules.len());
            rules.push(Rule::of(Match::Any, rest));
            let mut set = RuleSet::new(&rules, &local, 4);
            let mut flows: [Option<Headers>; 4] = [None; 4];
            for (flow, renew, headers) in packets {
                // Packets of a flow have one key; VLAN identifier and fragmentation may differ.
                let known = flows[flow as usize].filter(|_| !renew);
                let headers = Headers { key: known.map_or(headers.key, |known| known.key), ..headers };
                // Fragments have no ports, so a flow with ports has no fragments.
                let headers = known.map_or(headers, |known| {
                    let fragment = headers.fragment && known.version().is_some() && known.key.source_port == 0;
                    Headers { kind: known.kind, fragment, ..headers }
                });
                flows[flow as usize] = Some(headers);
                let expected = saids.iter().position(|said| holds(said, &headers, &local));
                let expected = expected.map_or(rest, ServiceId::from_index);
                let found = set.find(FlowId(flow), known.is_none(), &headers);
                prop_assert_eq!(set.outcome(found).service, expected, "{:?} {:?}", headers, saids);
            }
        }

        /// The index finds the same shadowed rules as a comparison of each rule with all before it.
        #[test]
        fn shadows_are_those_of_a_naive_comparison(saids in prop::collection::vec(said(), 1..40)) {
            let rules: Vec<Conditions> = saids.iter().map(compiled).collect();
            let is_shadowed = |&at: &usize| {
                let wider = rules[..at].iter().filter(|before| before.is_wider_but_for_classes(&rules[at]));
                let taken = Classes::union(wider.map(|before| before.classes).collect());
                rules[at].possible().without(&taken).is_empty()
            };
            prop_assert_eq!(shadowed(&rules), (0..rules.len()).filter(is_shadowed).collect::<Vec<_>>());
        }

        /// A shadowed rule never matches first; an impossible rule never matches.
        #[test]
        fn shadowed_rules_match_nothing_first(
            saids in prop::collection::vec(said(), 1..8),
            packets in prop::collection::vec(headers(), 60),
        ) {
            let local = parse_local("10.0.0.0/9").unwrap();
            let rules: Vec<Conditions> = saids.iter().map(compiled).collect();
            let shadowed = shadowed(&rules);
            for headers in &packets {
                let first = saids.iter().position(|said| holds(said, headers, &local));
                prop_assert!(first.is_none_or(|first| !shadowed.contains(&first)), "{:?} {:?}", headers, saids);
                for (said, rule) in saids.iter().zip(&rules) {
                    prop_assert!(!rule.is_none() || !holds(said, headers, &local), "{:?} {:?}", headers, said);
                }
            }
        }
    }

    fn conditions(text: &str) -> Conditions {
        let mut conditions = Conditions::any();
        for (name, values) in text.split_whitespace().filter_map(|pair| pair.split_once('=')) {
            conditions.set(name, values).unwrap();
        }
        conditions
    }

    /// Returns rules for networks and ports, clients and servers, like real sets of 100,000.
    fn many() -> Vec<Rule> {
        let rule = |at: u32| {
            let text = match at % 4 {
                0 => format!("destination=10.{}.{}.0/24 port={}", at >> 8 & 255, at & 255, 1 + at % 60_000),
                1 => format!("source=172.{}.{}.{} protocol=tcp", 16 + (at >> 16), at >> 8 & 255, at & 255),
                2 => format!("address=192.168.{}.0/24 destination-port={}-65535", at >> 2 & 255, 1 + at % 60_000),
                _ => format!("destination=2001:db8:{:x}::/48 vlan={}", at >> 4, 1 + at % 16),
            };
            Rule { conditions: conditions(&text), ..Rule::of(Match::Any, ServiceId(0)) }
        };
        (0..100_000).map(rule).chain([Rule::of(Match::Any, ServiceId(0))]).collect()
    }

    #[test]
    fn one_of_100_000_rules_takes_few_steps() {
        let rules = many();
        let set = RuleSet::new(&rules, &[], 1);
        let of = |conditions: &Conditions| {
            let address =
                |prefixes: &[IpNet]| prefixes.first().map_or(0, |prefix| Masked::new(prefix).bits).to_be_bytes();
            let is_v4 = conditions.destination.first().is_none_or(is_v4);
            let key = FlowKey {
                network: if is_v4 { Network::Ipv4 } else { Network::Ipv6 },
                protocol: ip_number::TCP.0,
                source: address(if conditions.address.is_empty() { &conditions.source } else { &conditions.address }),
                destination: address(&conditions.destination),
                source_port: 9,
                destination_port: conditions
                    .port
                    .0
                    .first()
                    .or(conditions.destination_port.0.first())
                    .map_or(9, |port| port.0),
            };
            Headers { key, vlan: conditions.vlan.0.first().map_or(0, |vlan| vlan.0), ..Headers::default() }
        };
        for at in (0..rules.len()).step_by(1_013) {
            let headers = of(&rules[at].conditions);
            let packet = set.rules.look(&headers);
            let expected = set.rules.rules.iter().position(|rule| rule.matches(&packet)).unwrap();
            assert!(expected <= at);
            let index = set.rules.index.as_ref().unwrap();
            let mut found = None;
            let find = || found = index.find(&packet.point(), |rule| set.rules.rules[rule as usize].matches(&packet));
            let steps = humpyard_core::steps::count(find);
            assert_eq!(found, Some(expected as u32));
            assert!(steps <= 500, "{steps} steps for rule {at}");
        }
    }

    #[test]
    fn the_shadows_of_100_000_rules_take_few_steps_each() {
        let conditions: Vec<Conditions> = many().into_iter().map(|rule| rule.conditions).collect();
        let mut found = Vec::new();
        let steps = humpyard_core::steps::count(|| found = shadowed(&conditions));
        assert!(found.len() < conditions.len() / 2, "{}", found.len());
        assert!(steps <= 1_000 * conditions.len() as u64, "{steps}");
    }

    #[test]
    fn shadows_are_found() {
        for (rules, expected) in [
            (&["", "protocol=tcp"] as &[&str], &[1usize] as &[usize]),
            (&["protocol=tcp", "port=80", "protocol=tcp port=80"], &[2]),
            (&["source=10.0.0.0/9+10.128.0.0/9", "source=10.1.0.0/16", "source=11.0.0.0/8"], &[1]),
            (&["port=80", "destination-port=80", "source-port=80 protocol=udp", "port=80-81"], &[1, 2]),
            (&["protocol=tcp", "protocol=udp+icmp", "protocol=other", "ip=6"], &[3]),
            (&["protocol=tcp", "vlan=7", ""], &[]),
            (&["direction=in+out", "direction=out", "direction=local"], &[1]),
            (&["fragment=no", "port=53", "fragment=yes"], &[1]),
            (&["protocol=icmp port=80", "source=::1 ip=4", "source=::1 destination=10.0.0.1"], &[0, 1, 2]),
            (&["address=10.0.0.0/8", "source=10.1.0.0/16", "destination=10.2.0.0/16"], &[1, 2]),
        ] {
            let rules: Vec<Conditions> = rules.iter().map(|text| conditions(text)).collect();
            assert_eq!(shadowed(&rules), expected, "{rules:?}");
        }
    }

    #[test]
    fn slips_are_told_with_what_is_taken() {
        let said = |name: &str, value: &str| Conditions::any().set(name, value).unwrap_err().to_string();
        assert!(said("protocl", "tcp").contains("did you mean `protocol`?"));
        assert!(said("protocol", "tpc").contains("`protocol` takes any, tcp"));
        assert!(said("port", "80+0").ends_with("not `0`"));
        assert!(said("port", "90-80").ends_with("not `90-80`"));
        assert!(said("port", "65536").ends_with("not `65536`"));
        assert!(said("vlan", "4095").contains("1 to 4094"));
        assert!(said("source", "10.0.0.1/8").contains("not `10.0.0.1/8`"));
        let mut conditions = conditions("port=80");
        assert!(conditions.set("port", "81").unwrap_err().to_string().contains("given twice"));
        assert_eq!(conditions.to_string(), "port=80");
        assert!(parse_local("10.0.0.0/8,nowhere").unwrap_err().to_string().contains("`nowhere`"));
    }
}
