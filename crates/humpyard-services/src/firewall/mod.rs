//! A packet filter: rules over headers, of which the first match decides.
//!
//! # Work
//! The first rule that matches decides. An index of protocols, addresses and ports finds it. If no rule matches
//! a packet, `otherwise` applies. Each rule counts the packets that it decided. With `state=true`, packets of a
//! connection that a rule has allowed are allowed in both directions, before the rules are tried.
//!
//! A network card may deliver a packet in parts of 64 bytes. The start (SOP) has the headers, and is decided.
//! The middle parts (MOP) are appended to it. At the end (EOP), the verdict takes effect: the whole packet is
//! forwarded, or dropped. This is the application of the content-based steering paper. One instance must get
//! all parts of a packet, in order.
//!
//! # Source
//! Yim, content-based steering (the parts); RFC 2979 for the traffic that a firewall should allow.
//!
//! # Departures
//! * Fragments after the first have no ports: a rule with ports does not match them.
//! * A connection ends when its place is needed, not when it is closed: in captures played at line rate, a
//!   service has no useful clock.
//! * Frames that are not IP are dropped for `not_ip`, as by a router.

mod connections;
mod rule;

use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::hash::mix;
use humpyard_core::id::FlowId;
use humpyard_core::packet::Part;
use humpyard_core::policy::ParameterValue;
use humpyard_core::storage::FirstMatch;
use humpyard_core::{choice, params};
use ipnet::IpNet;

use self::connections::Connections;
use self::rule::{Direction, Headers, Rule, SIDES, prefix};
use crate::ip::IpPacket;
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};
use humpyard_text::read_text;

params! {
    /// Parameters of the packet filter.
    pub struct FirewallParams {
        /// The rules, in order.
        rules: Rules = Rules(String::new()), cost "always";
        /// A file of rules, in lines of their own, which are tried after those of `rules`; `none` is no file.
        file: File = File(None), cost "always";
        /// What becomes of a packet that no rule matches.
        otherwise: Action = Action::Allow;
        /// The prefixes that are inside: a packet from there to elsewhere goes out, one from elsewhere to there comes in.
        inside: Prefixes = Prefixes(PRIVATE.into()), cost "always";
        /// Whether connections that a rule has allowed are allowed in both directions.
        state: bool = false;
        /// Connections remembered with `state=true`.
        connections: u64 = 65_536, in 8..=16_777_216;
    }
}

/// The private addresses of RFC 1918 and RFC 4193.
const PRIVATE: &str = "10.0.0.0/8;172.16.0.0/12;192.168.0.0/16;fc00::/7";

choice! {
    /// The action of a rule.
    pub enum Action {
        /// Lets the packet pass.
        Allow = "allow",
        /// Drops the packet.
        Deny = "deny",
    }
}

/// The text of rules.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct Rules(pub String);

/// Accepts every text; the service reports a wrong rule more precisely.
impl ParameterValue for Rules {
    const ACCEPTS: &'static str = "allow or deny, then any of any, tcp, udp, icmp, icmpv6, in, out, from=PREFIX, to=PREFIX, sport=PORTS, \
         dport=PORTS, port=PORTS, with + between; several rules separated by `;`";

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.into()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// The name of a file. `None`: no file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct File(pub Option<String>);

impl ParameterValue for File {
    const ACCEPTS: &'static str = "the name of a file, or none";

    fn parse(text: &str) -> Option<Self> {
        Some(Self(Some(text).filter(|&text| text != "none").map(Into::into)))
    }

    fn show(&self) -> String {
        self.0.clone().unwrap_or_else(|| "none".into())
    }
}

/// The text of prefixes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct Prefixes(pub String);

/// Accepts every text; the service reports a wrong prefix more precisely.
impl ParameterValue for Prefixes {
    const ACCEPTS: &'static str = "prefixes separated by `;`";

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.into()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// The data that all instances share.
#[derive(Debug)]
struct Table {
    rules: Vec<Rule>,
    index: FirstMatch<SIDES>,
    otherwise: Action,
    inside: Vec<IpNet>,
    /// The connections allowed. `None`: the filter keeps no state.
    allowed: Option<Connections>,
}

/// Most packets being assembled from parts; each belongs to one flow.
const ASSEMBLED_MAX: usize = 64;

/// A packet being assembled.
#[derive(Clone, Debug, Default)]
struct Assembly {
    flow: Option<FlowId>,
    verdict: Option<DropReason>,
    data: Vec<u8>,
}

/// A packet filter; see the [module](self).
#[derive(Clone, Debug)]
pub struct Firewall {
    table: Arc<Table>,
    /// Packets decided by each rule; the last entry counts those that no rule decided.
    decided: Vec<u64>,
    /// Packets allowed because their connection was allowed before.
    established: u64,
    /// Packets being assembled. A flow has one place, which another flow may take.
    assemblies: Vec<Assembly>,
}

impl Build for Firewall {
    type Params = FirewallParams;

    const INFO: Info = Info {
        name: "firewall",
        summary: "packet filter: allow and deny by prefix, port, protocol and direction; the first rule that matches decides",
        source: "RFC 2979; the content-based steering paper (packets in parts)",
    };

    fn new(params: &FirewallParams) -> Result<Self, ServiceError> {
        let why = |parameter: &str, why: String| ServiceError::new(format!("firewall: `{parameter}`: {why}"));
        let mut rules = Rule::parse_all(&params.rules.0).map_err(|error| why("rules", error))?;
        if let Some(file) = &params.file.0 {
            let text = read_text(file).map_err(|error| why("file", format!("cannot read `{file}`: {error}")))?;
            rules.extend(Rule::parse_all(&text).map_err(|error| why("file", format!("{file}: {error}")))?);
        }
        let inside = params.inside.0.split(';').map(str::trim).filter(|text| !text.is_empty());
        let inside = inside.map(prefix).collect::<Result<_, _>>().map_err(|error| why("inside", error))?;
        let allowed = params.state.then(|| Connections::new(params.connections as usize));
        let decided = vec![0; rules.len() + 1];
        let index =
            FirstMatch::new(&(0..).zip(&rules).flat_map(|(number, rule)| rule.asked(number)).collect::<Vec<_>>());
        let table = Arc::new(Table { rules, index, otherwise: params.otherwise, inside, allowed });
        Ok(Self { table, decided, established: 0, assemblies: Vec::new() })
    }

    fn follows_connections(&self) -> bool {
        self.table.allowed.is_some()
    }
}

impl Table {
    fn headers(&self, frame: &Frame) -> Result<Headers, DropReason> {
        let packet = IpPacket::find(frame)?;
        let (from, to) = packet.addresses(frame);
        let upper = packet.upper(frame);
        let protocol = upper.map_or(packet.protocol, |upper| upper.protocol);
        let is_inside = |address| self.inside.iter().any(|prefix| prefix.contains(&address));
        let direction = match (is_inside(from), is_inside(to)) {
            (true, false) => Some(Direction::Out),
            (false, true) => Some(Direction::In),
            _ => None,
        };
        Ok(Headers { from, to, protocol, ports: upper.and_then(|upper| upper.ports(frame)), direction })
    }
}

impl Firewall {
    /// Decides on a packet by its headers.
    fn decide(&mut self, frame: &Frame, context: &Context) -> Result<(), DropReason> {
        let headers = self.table.headers(frame)?;
        let allowed = self.table.allowed.as_ref();
        if allowed.is_some_and(|allowed| allowed.contains(context.connection)) {
            self.established += 1;
            return Ok(());
        }
        let rules = &self.table.rules;
        let found = self.table.index.find(&headers.point(), |number| rules[number as usize].matches(&headers));
        let number = found.map_or(rules.len(), |number| number as usize);
        self.decided[number] += 1;
        let (action, reason) = match rules.get(number) {
            Some(rule) => (rule.action, DropReason::RuleDenied),
            None => (self.table.otherwise, DropReason::DefaultDenied),
        };
        if action == Action::Deny {
            return Err(reason);
        }
        if let Some(allowed) = allowed {
            allowed.insert(context.connection);
        }
        Ok(())
    }

    /// Decides on the headers in the start of a packet, and keeps its bytes.
    fn begin(&mut self, frame: &Frame, context: &Context) -> Verdict {
        let verdict = self.decide(frame, context).err();
        let assembly = self.place(context.flow);
        assembly.flow = Some(context.flow);
        assembly.verdict = verdict;
        assembly.data.clear();
        assembly.data.extend_from_slice(&frame.data);
        Verdict::Consume
    }

    /// Appends a later part to the parts before. With the last part, the frame gets the whole packet, and the
    /// verdict on its start applies.
    fn go_on(&mut self, frame: &mut Frame, context: &Context) -> Verdict {
        let assembly = self.place(context.flow);
        if assembly.flow != Some(context.flow) {
            return Verdict::Drop(DropReason::StartMissing);
        }
        assembly.data.extend_from_slice(&frame.data);
        if context.part == Part::Middle {
            return Verdict::Consume;
        }
        assembly.flow = None;
        core::mem::swap(&mut frame.data, &mut assembly.data);
        frame.wire_length = frame.data.len() as u32;
        assembly.verdict.map_or(Verdict::Forward, Verdict::Drop)
    }

    fn place(&mut self, flow: FlowId) -> &mut Assembly {
        if self.assemblies.is_empty() {
            self.assemblies.resize_with(ASSEMBLED_MAX, Assembly::default);
        }
        let at = mix(u64::from(flow.0)) as usize % ASSEMBLED_MAX;
        &mut self.assemblies[at]
    }
}

impl Service for Firewall {
    fn process(&mut self, frame: &mut Frame, context: &Context, _: &mut Generated) -> Verdict {
        match context.part {
            Part::Whole => self.decide(frame, context).map_or_else(Verdict::Drop, |()| Verdict::Forward),
            Part::First => self.begin(frame, context),
            Part::Middle | Part::Last => self.go_on(frame, context),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let rules = self.table.rules.iter().enumerate().zip(&self.decided);
        let mut counters: Vec<Counter> = rules
            .map(|((number, rule), &count)| Counter::new(format!("rule_{} {}", number + 1, rule.text), count))
            .collect();
        counters.push(Counter::new("otherwise", self.decided[self.table.rules.len()]));
        if self.table.allowed.is_some() {
            counters.push(Counter::new("established", self.established));
        }
        counters
    }
}
