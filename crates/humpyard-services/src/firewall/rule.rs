//! Rules: their syntax, and the packets that they match.

use core::net::IpAddr;
use core::ops::RangeInclusive;

use humpyard_core::name::unknown;
use humpyard_core::storage::{Asked, Prefix};
use ipnet::IpNet;

use super::Action;
use crate::ip::protocol;

/// The headers of a packet that rules test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Headers {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    pub(super) protocol: u8,
    /// Source and destination port. `None`: the packet has no ports.
    pub(super) ports: Option<(u16, u16)>,
    /// The direction across the border of the inside. `None`: it does not cross.
    pub(super) direction: Option<Direction>,
}

/// Fields by which the index finds rules: protocol, addresses, ports.
pub(super) const SIDES: usize = 5;

impl Headers {
    /// Returns the packet's value in each field.
    #[inline]
    pub(super) fn point(&self) -> [u128; SIDES] {
        let (source_port, destination_port) = self.ports.unwrap_or((0, 0));
        let protocol = Prefix::short(u16::from(self.protocol));
        [protocol, bits(self.from), bits(self.to), Prefix::short(source_port), Prefix::short(destination_port)]
    }
}

/// Returns an address as 128 bits; an IPv4 address is in the first 32.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The direction in which a packet crosses the border of the inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    In,
    Out,
}

/// One rule: an action, and conditions that must all hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    pub(super) action: Action,
    /// Its text, with words joined by `+`.
    pub(super) text: String,
    protocol: Option<u8>,
    direction: Option<Direction>,
    from: Option<IpNet>,
    to: Option<IpNet>,
    source_port: Option<RangeInclusive<u16>>,
    destination_port: Option<RangeInclusive<u16>>,
    either_port: Option<RangeInclusive<u16>>,
}

const CONDITIONS: [&str; 12] =
    ["any", "tcp", "udp", "icmp", "icmpv6", "in", "out", "from", "to", "sport", "dport", "port"];

impl Rule {
    /// Reads rules, separated by `;` or line ends. A `#` starts a comment up to the end of the line.
    pub(super) fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let lines = text.lines().map(|line| line.split_once('#').map_or(line, |(rule, _)| rule));
        lines.flat_map(|line| line.split(';')).map(str::trim).filter(|rule| !rule.is_empty()).map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split(['+', ' ', '\t']).filter(|word| !word.is_empty());
        let action = match words.next() {
            Some("allow") => Action::Allow,
            Some("deny") => Action::Deny,
            _ => {
                return Err(format!(
                    "`{text}`: a rule begins with allow or deny, as in allow+tcp+to=10.0.0.0/8+dport=443"
                ));
            }
        };
        let mut rule = Self {
            action,
            text: text.split(['+', ' ', '\t']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("+"),
            protocol: None,
            direction: None,
            from: None,
            to: None,
            source_port: None,
            destination_port: None,
            either_port: None,
        };
        words.try_for_each(|word| rule.add(word)).map_err(|why| format!("`{text}`: {why}"))?;
        Ok(rule)
    }

    fn add(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let twice = match name {
            "any" => false,
            "tcp" => self.protocol.replace(protocol::TCP).is_some(),
            "udp" => self.protocol.replace(protocol::UDP).is_some(),
            "icmp" => self.protocol.replace(protocol::ICMP).is_some(),
            "icmpv6" => self.protocol.replace(protocol::ICMPV6).is_some(),
            "in" => self.direction.replace(Direction::In).is_some(),
            "out" => self.direction.replace(Direction::Out).is_some(),
            "from" => self.from.replace(prefix(value)?).is_some(),
            "to" => self.to.replace(prefix(value)?).is_some(),
            "sport" => self.source_port.replace(ports(value)?).is_some(),
            "dport" => self.destination_port.replace(ports(value)?).is_some(),
            "port" => self.either_port.replace(ports(value)?).is_some(),
            _ => return Err(unknown("condition", name, CONDITIONS)),
        };
        if twice { Err(format!("a second condition of the kind of `{word}`")) } else { Ok(()) }
    }

    /// Returns the rule's condition in each field: several alternatives, if either port may match.
    pub(super) fn asked(&self, number: u32) -> Vec<Asked<SIDES>> {
        let address = |prefix: &Option<IpNet>| {
            prefix.iter().map(|prefix| Prefix::new(bits(prefix.addr()), prefix.prefix_len())).collect::<Vec<_>>()
        };
        let range = |range: &Option<RangeInclusive<u16>>| -> Vec<Prefix> {
            range.iter().flat_map(|range| Prefix::of_range(*range.start(), *range.end())).collect()
        };
        let protocol: Vec<Prefix> =
            self.protocol.map(u16::from).map_or(vec![], |one| Prefix::of_range(one, one).collect());
        let (source, destination, either) =
            (range(&self.source_port), range(&self.destination_port), range(&self.either_port));
        let ports = if either.is_empty() || !source.is_empty() || !destination.is_empty() {
            vec![[source, destination]]
        } else {
            vec![[either.clone(), vec![]], [vec![], either]]
        };
        let asked = |[source, destination]: [Vec<Prefix>; 2]| Asked {
            rule: number,
            sides: [protocol.clone(), address(&self.from), address(&self.to), source, destination],
        };
        ports.into_iter().map(asked).collect()
    }

    #[inline]
    pub(super) fn matches(&self, headers: &Headers) -> bool {
        let port_in = |range: &Option<RangeInclusive<u16>>, pick: fn((u16, u16)) -> u16| match range {
            Some(range) => headers.ports.is_some_and(|ports| range.contains(&pick(ports))),
            None => true,
        };
        let either =
            |range: &RangeInclusive<u16>| headers.ports.is_some_and(|(a, b)| range.contains(&a) || range.contains(&b));
        self.protocol.is_none_or(|protocol| protocol == headers.protocol)
            && (self.direction.is_none() || self.direction == headers.direction)
            && self.from.is_none_or(|prefix| prefix.contains(&headers.from))
            && self.to.is_none_or(|prefix| prefix.contains(&headers.to))
            && port_in(&self.source_port, |ports| ports.0)
            && port_in(&self.destination_port, |ports| ports.1)
            && self.either_port.as_ref().is_none_or(either)
    }
}

/// Reads a prefix, or one address.
pub(super) fn prefix(text: &str) -> Result<IpNet, String> {
    let prefix = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    prefix.map_err(|_| {
        format!("`{text}` is no prefix; accepted: an address, or a prefix such as 10.0.0.0/8 or 2001:db8::/32")
    })
}

/// Reads a port, or a range of ports.
fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err(format!("`{text}` is no port; accepted: 443, or several such as 8000-8080")),
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::{Random, Seed};
    use humpyard_core::storage::FirstMatch;

    use super::*;

    fn headers(from: &str, to: &str, protocol: u8, ports: Option<(u16, u16)>) -> Headers {
        Headers {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            protocol,
            ports,
            direction: Some(Direction::Out),
        }
    }

    #[test]
    fn all_conditions_must_hold() {
        let [rule] = &Rule::parse_all("allow+tcp+out+from=10.0.0.0/8+to=192.0.2.1+dport=80-443").unwrap()[..] else {
            panic!()
        };
        let good = headers("10.1.2.3", "192.0.2.1", 6, Some((5000, 80)));
        assert!(rule.matches(&good));
        for bad in [
            Headers { protocol: 17, ..good },
            Headers { direction: Some(Direction::In), ..good },
            Headers { direction: None, ..good },
            Headers { ports: Some((5000, 79)), ..good },
            Headers { ports: Some((443, 444)), ..good },
            Headers { ports: None, ..good },
            headers("11.0.0.1", "192.0.2.1", 6, Some((5000, 80))),
            headers("10.0.0.1", "192.0.2.2", 6, Some((5000, 80))),
            headers("::a00:1", "::1", 6, Some((5000, 80))),
        ] {
            assert!(!rule.matches(&bad), "{bad:?}");
        }
    }

    /// Picks from few values, so that rules often match packets.
    fn one_of<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
        of[random.below(of.len() as u64) as usize]
    }

    const HOSTS: [&str; 5] = ["10.0.0.1", "10.0.3.7", "192.0.2.9", "2001:db8::1", "::a00:1"];
    const PORTS: [&str; 5] = ["0", "53", "443", "5000", "65535"];

    fn random_rule(random: &mut Random) -> String {
        let mut text = one_of(random, &["allow", "deny"]).to_owned();
        let prefixes = ["10.0.0.0/8", "10.0.0.0/22", "10.0.0.1", "192.0.2.0/24", "2001:db8::/32", "::/0", "0.0.0.0/0"];
        let ranges = ["0-1023", "443", "53-5000", "0-65535", "65535"];
        for condition in ["", "from", "to", "sport", "dport", "port"] {
            if random.below(3) > 0 {
                continue;
            }
            text += "+";
            text += &match condition {
                "" => one_of(random, &["tcp", "udp", "icmp", "icmpv6", "in", "out"]).to_owned(),
                "from" | "to" => format!("{condition}={}", one_of(random, &prefixes)),
                _ => format!("{condition}={}", one_of(random, &ranges)),
            };
        }
        text
    }

    fn random_headers(random: &mut Random) -> Headers {
        let port = |random: &mut Random| one_of(random, &PORTS).parse().unwrap();
        let ports = (random.below(4) > 0).then(|| (port(random), port(random)));
        let protocol = [protocol::TCP, protocol::UDP, protocol::ICMP, 50][random.below(4) as usize];
        let direction = [None, Some(Direction::In), Some(Direction::Out)][random.below(3) as usize];
        Headers { direction, ..headers(one_of(random, &HOSTS), one_of(random, &HOSTS), protocol, ports) }
    }

    #[test]
    fn the_index_finds_the_rule_that_a_scan_finds() {
        let mut random = Seed(1).stream("firewall");
        let mut found = 0;
        for size in (0..40).chain([200, 1_000]) {
            let text: Vec<String> = (0..size).map(|_| random_rule(&mut random)).collect();
            let rules = Rule::parse_all(&text.join("\n")).unwrap();
            let asked: Vec<_> = (0..).zip(&rules).flat_map(|(number, rule)| rule.asked(number)).collect();
            let index = FirstMatch::new(&asked);
            for _ in 0..200 {
                let headers = random_headers(&mut random);
                let scanned = rules.iter().position(|rule| rule.matches(&headers));
                let searched = index.find(&headers.point(), |number| rules[number as usize].matches(&headers));
                assert_eq!(searched.map(|number| number as usize), scanned, "{headers:?} among {text:?}");
                found += usize::from(scanned.is_some_and(|number| number > 8));
            }
        }
        assert!(found > 100, "{found}: packets meet late rules, too");
    }

    #[test]
    fn rules_of_a_file_and_of_a_command_line_read_the_same() {
        let file = "# the web\nallow tcp  port=443\n\ndeny any # the rest\n";
        assert_eq!(Rule::parse_all(file), Rule::parse_all("allow+tcp+port=443; deny+any"));
        assert_eq!(Rule::parse_all(file).unwrap()[0].text, "allow+tcp+port=443");
        assert_eq!(Rule::parse_all("  # nothing\n"), Ok(vec![]));
    }

    #[test]
    fn slips_are_told() {
        for (text, expected) in [
            ("permit+tcp", "`permit+tcp`: a rule begins with allow or deny, as in allow+tcp+to=10.0.0.0/8+dport=443"),
            (
                "deny+tpc",
                "`deny+tpc`: no condition `tpc`; did you mean `tcp`? There are: any, tcp, udp, icmp, icmpv6, in, out, from, to, sport, dport, port",
            ),
            ("deny+tcp+udp", "`deny+tcp+udp`: a second condition of the kind of `udp`"),
            (
                "deny+from=10/8",
                "`deny+from=10/8`: `10/8` is no prefix; accepted: an address, or a prefix such as 10.0.0.0/8 or 2001:db8::/32",
            ),
            ("deny+port=9-1", "`deny+port=9-1`: `9-1` is no port; accepted: 443, or several such as 8000-8080"),
        ] {
            assert_eq!(Rule::parse_all(text).unwrap_err(), expected);
        }
    }
}
