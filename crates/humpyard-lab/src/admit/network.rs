//! Where flows go through: nodes with engines, links with a rate, and what of both is reserved.

use core::time::Duration;
use std::io;

use humpyard_core::name::unknown;
use humpyard_text::{TextError, TomlFile, read_text};

use super::ENGINES_MAX;
use super::reservation::{pairs, tables};
use crate::LabError;
use humpyard_text::quantity::{parse_bit_rate, parse_duration};

/// A node: a router with engines.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Engines; 0 where packets only pass.
    pub engines: usize,
    /// How fast the slowest of them is, where costs hold for 1.
    pub speed: f64,
}

/// A link, one way.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// The node it leaves, by number.
    pub from: usize,
    /// The node it goes to.
    pub to: usize,
    /// Bits per second.
    pub rate_bps: f64,
    /// How long a bit is under way.
    pub delay: Duration,
}

/// Nodes and the links between them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Network {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The links; one that goes both ways is two.
    pub links: Vec<Link>,
    /// Whether it is one router, whose flows all come in at the first node and leave at the last.
    pub is_router: bool,
}

/// The keys of a file, of a node and of a link.
const KEYS: [&str; 3] = ["version", "node", "link"];
const NODE_KEYS: [&str; 3] = ["name", "engines", "speed"];
const LINK_KEYS: [&str; 5] = ["from", "to", "rate", "delay", "both-ways"];

impl Network {
    /// One router, and the link behind it if there is one. Its slowest engine counts for all: nobody knows which of them a packet
    /// will find.
    pub fn router(engines: usize, speeds: &[f64], link_bps: Option<f64>) -> Self {
        let unnamed = if speeds.len() < engines { 1.0 } else { f64::INFINITY };
        let speed = speeds.iter().copied().fold(unnamed, f64::min);
        let node = |name: &str, engines| Node { name: name.to_owned(), engines, speed };
        let mut network = Self { nodes: vec![node("router", engines)], links: Vec::new(), is_router: true };
        if let Some(rate_bps) = link_bps {
            network.nodes.push(node("out", 0));
            network.links.push(Link { from: 0, to: 1, rate_bps, delay: Duration::ZERO });
        }
        network
    }

    /// Reads a file of nodes and links.
    ///
    /// # Errors
    /// A file that cannot be read, is no network, or says what cannot be: with the place in it.
    pub fn read(path: &str) -> Result<Self, LabError> {
        let text = read_text(path).map_err(|error| {
            LabError::option(match error.kind() {
                io::ErrorKind::NotFound => format!("@topology: there is no file `{path}`"),
                _ => format!("@topology: `{path}` cannot be read: {error}"),
            })
        })?;
        Self::parse(path, &text)
    }

    /// Understands the text of a file of this name.
    ///
    /// # Errors
    /// See [`Network::read`].
    pub fn parse(path: &str, text: &str) -> Result<Self, LabError> {
        Ok(Self::understand(path, text)?)
    }

    fn understand(path: &str, text: &str) -> Result<Self, TextError> {
        let place = TomlFile { path, text };
        let table = place.table()?;
        let table = table.get_ref();
        place.keys(table, "key of a network", &KEYS)?;
        let mut network = Self::default();
        for (start, table) in tables(&place, table, "node")? {
            place.keys(table, "key of a node", &NODE_KEYS)?;
            let node = node(&pairs(&place, table)?).map_err(|said| place.slip(start, &said))?;
            if network.nodes.iter().any(|known| known.name == node.name) {
                return Err(
                    place.slip(start, &format!("two nodes are called `{}`: give each a name of its own", node.name))
                );
            }
            network.nodes.push(node);
        }
        for (start, table) in tables(&place, table, "link")? {
            place.keys(table, "key of a link", &LINK_KEYS)?;
            network.add_link(&pairs(&place, table)?).map_err(|said| place.slip(start, &said))?;
        }
        if network.nodes.is_empty() {
            return Err(place
                .slip(0, "there is no node in it: [[node]] with a `name` and `engines`, and [[link]] between them"));
        }
        Ok(network)
    }

    /// The node of this name.
    ///
    /// # Errors
    /// There is none; the message names those there are.
    pub fn node(&self, name: &str) -> Result<usize, String> {
        let found = self.nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| unknown("node", name, self.nodes.iter().map(|node| node.name.as_str())))
    }

    /// The link behind a router, if it has one.
    pub fn link_behind(&self) -> Option<&Link> {
        self.links.first().filter(|_| self.is_router)
    }

    /// How people call a link.
    pub fn link_name(&self, link: usize) -> String {
        let Link { from, to, .. } = self.links[link];
        if self.is_router {
            "the link".to_owned()
        } else {
            format!("{}-{}", self.nodes[from].name, self.nodes[to].name)
        }
    }

    fn add_link(&mut self, pairs: &[(String, String)]) -> Result<(), String> {
        let must =
            |key: &str| value(pairs, key).ok_or_else(|| format!("a link has a `{key}`: name two nodes, and a rate"));
        let (from, to, rate) = (self.node(must("from")?)?, self.node(must("to")?)?, must("rate")?);
        if from == to {
            return Err(format!("a link goes to another node, not from `{0}` to `{0}`", self.nodes[from].name));
        }
        let rate_bps = parse_bit_rate(rate)
            .ok_or_else(|| format!("`rate` takes bits per second, 1Gbit for example, not `{rate}`"))?;
        let delay =
            value(pairs, "delay").map(parse_duration).transpose().map_err(|error| format!("`delay`: {error}"))?;
        let link = Link { from, to, rate_bps, delay: delay.unwrap_or_default() };
        match value(pairs, "both-ways").unwrap_or("true") {
            "true" => self.links.push(Link { from: to, to: from, ..link }),
            "false" => {}
            other => return Err(format!("`both-ways` is true or false, not `{other}`")),
        }
        self.links.push(link);
        Ok(())
    }
}

fn value<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

fn node(pairs: &[(String, String)]) -> Result<Node, String> {
    let name = value(pairs, "name").filter(|name| !name.is_empty()).ok_or("a node has a `name`")?.to_owned();
    let engines = value(pairs, "engines").unwrap_or("0");
    let known = engines.parse().ok().filter(|&engines: &usize| engines as u64 <= ENGINES_MAX);
    let engines = known.ok_or_else(|| format!("`engines` takes a number from 0 to {ENGINES_MAX}, not `{engines}`"))?;
    let speed = value(pairs, "speed").unwrap_or("1");
    let known = speed.parse().ok().filter(|speed| (1e-3..=1e6).contains(speed));
    let speed = known.ok_or_else(|| format!("`speed` takes a number from 0.001 to 1e6, not `{speed}`"))?;
    Ok(Node { name, engines, speed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\nengines = 2\nspeed = 10\n\
                        [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1Gbit\"\ndelay = \"5us\"\n";

    #[test]
    fn files_are_read() {
        let network = Network::parse("n.toml", GOOD).unwrap();
        assert_eq!(network.nodes[1], Node { name: "b".into(), engines: 2, speed: 10.0 });
        assert_eq!((network.links.len(), network.links[0].from, network.links[1].from), (2, 1, 0));
        assert_eq!(network.links[1].delay, Duration::from_micros(5));
        let one_way = Network::parse("n.toml", &format!("{GOOD}both-ways = false\n")).unwrap();
        assert_eq!((one_way.links.len(), one_way.link_name(0)), (1, "a-b".to_owned()));
    }

    #[test]
    fn the_slowest_engine_counts() {
        let speed = |engines, speeds: &[f64]| Network::router(engines, speeds, None).nodes[0].speed;
        assert_eq!([speed(2, &[]), speed(2, &[4.0]), speed(2, &[4.0, 3.0]), speed(3, &[0.5])], [1.0, 1.0, 3.0, 0.5]);
    }

    #[test]
    fn slips_have_their_place() {
        let slip = |text: &str| Network::parse("n.toml", text).unwrap_err().to_string();
        assert!(slip("").starts_with("n.toml:1:1: there is no node in it"));
        for (change, to, said) in [
            ("to = \"b\"", "to = \"c\"", "n.toml:7:1: no node `c`; there are: a, b"),
            ("to = \"b\"", "to = \"a\"", "a link goes to another node"),
            ("name = \"b\"", "name = \"a\"", "n.toml:3:1: two nodes are called `a`"),
            ("1Gbit", "quick", "`rate` takes bits per second"),
            ("5us", "5", "`delay`: a time has a unit"),
            ("engines = 2", "engines = -2", "`engines` takes a number from 0 to 16384, not `-2`"),
            ("speed = 10", "sped = 10", "n.toml:6:1: no key of a node `sped`; did you mean `speed`?"),
        ] {
            let text = slip(&GOOD.replace(change, to));
            assert!(text.contains(said), "{text}");
        }
    }
}
