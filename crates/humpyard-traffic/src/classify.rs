//! The classifier, which turns a frame into the packet that policies see.

use core::str::FromStr;
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::id::{ChainId, ClientId, FlowId, Id, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight};
use ipnet::IpNet;

use crate::error::{TrafficError, by_name};
use crate::flow::{FlowNames, FlowTable, LookupHash};
use crate::hash_fields::HashFields;
use crate::header::{FlowKey, Headers, Kind, SteeringHashes};
pub use crate::matching::Match;
use crate::pace::CaptureClock;
use crate::rule::{Conditions, Matcher, Outcome, Rule, RuleSet};
use crate::source::Numbered;
use crate::tunnel::Tunnels;

/// The unit that is a client, with a weight and a backlog.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Granularity {
    /// Each flow is a client, with the flow's number.
    #[default]
    Flow,
    /// Each connection is a client, with a dense number of its own.
    Connection,
    /// Each service is a client, with the service's number.
    Service,
    /// The rules give the client of each packet.
    Rule,
}

impl Granularity {
    const NAMES: [(&'static str, Self); 4] =
        [("flow", Self::Flow), ("connection", Self::Connection), ("service", Self::Service), ("rule", Self::Rule)];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for Granularity {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Self, TrafficError> {
        by_name("kind of client", text, &Self::NAMES)
    }
}

/// The parameters of a classifier.
#[derive(Clone, Debug)]
pub struct ClassifierConfig {
    /// Most flows at a time; their memory is allocated at the start. Policies need not prepare for more.
    pub flows: usize,
    /// The unit that is a client.
    pub granularity: Granularity,
    /// The services of packets, of which the first matching rule counts. The last rule must match every packet
    /// or [`Match::Other`]; it also gets packets that no rule matches.
    pub rules: Vec<Rule>,
    /// The prefixes of the local side, which define directions.
    pub local: Vec<IpNet>,
    /// The seed of the keyed hashes.
    pub seed: Seed,
    /// Idle timeout of a flow without packets in flight, by the times of the packets. `None`: a flow ends only
    /// when its place is needed.
    pub timeout: Option<Time>,
    /// The tunnels to look into.
    pub tunnels: Tunnels,
    /// What the hashes for steering are computed from.
    pub hash: HashFields,
}

impl Default for ClassifierConfig {
    fn default() -> Self {
        Self {
            flows: 65_536,
            granularity: Granularity::default(),
            rules: vec![Rule::of(Match::Any, ServiceId(0))],
            local: Vec::new(),
            seed: Seed::default(),
            timeout: None,
            tunnels: Tunnels::NONE,
            hash: HashFields::default(),
        }
    }
}

/// The result of classifying a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Classified {
    /// The packet as policies see it. Its arrival is 0: the driver sets it.
    pub packet: Packet,
    /// Whether the packet starts a new flow.
    pub new_flow: bool,
    /// A client that ended to make room. The new client may have its number, so end it first.
    pub ended_client: Option<ClientId>,
    /// A flow that ended to make room. The new flow has its number, so end it first.
    pub ended_flow: Option<FlowId>,
    /// The weight that rules give to a new client. `None`: they give none, or the client is not new.
    pub weight: Option<Weight>,
    /// The weight of a new client at the link behind the cores, likewise.
    pub link_weight: Option<Weight>,
    /// The firewall mark that a service gave the flow: its packets leave with it.
    pub fwmark: Option<u32>,
}

/// A flow that ended by its idle timeout, and the client that ended with it, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Expired {
    /// The flow, whose number is free.
    pub flow: FlowId,
    /// The client, whose number is free.
    pub client: Option<ClientId>,
}

/// Computes the part of a classification that does not depend on earlier packets. It is the slow half, and may
/// run on another thread.
#[derive(Clone, Debug)]
pub struct Digester {
    lookup: LookupHash,
    /// The rules. `None`: they are matched once per flow.
    rules: Option<Arc<Matcher>>,
}

/// The result of a [`Digester`] for headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digest {
    /// The hash of the flow's key.
    hash: u32,
    /// The number of the matching rule.
    rule: Option<u32>,
}

impl Digester {
    /// Computes the digest of these headers.
    #[inline]
    pub fn digest(&self, headers: &Headers) -> Digest {
        let rule = self.rules.as_ref().map(|rules| rules.first_match(headers));
        Digest { hash: self.lookup.of_key(&headers.key), rule }
    }
}

/// Finds the flow, the client and the service of frames.
#[derive(Clone, Debug)]
pub struct Classifier {
    flows: FlowTable,
    digester: Digester,
    tunnels: Tunnels,
    /// The time by the frames, whose clock may jump.
    clock: CaptureClock,
    clients: Clients,
    /// Upper bound of client numbers, exclusive.
    clients_max: usize,
    rules: RuleSet,
    /// Whether rules give weights to flows or connections.
    weighs: bool,
    /// The findings of services about each flow; empty before the first.
    marks: Vec<Found>,
    /// The listener to new flows, if any.
    names: Option<Arc<dyn FlowNames>>,
}

/// Number of flows whose state fits into a second-level cache.
const NEAR: usize = 4_096;

/// The findings of services about a flow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Found {
    service: Option<ServiceId>,
    weight: Option<Weight>,
    fwmark: Option<u32>,
}

#[derive(Clone, Debug)]
enum Clients {
    Flow,
    /// The connections, and the connection of each flow. A flow holds its connection while it lives, so that a
    /// packet needs only one search.
    Connection(Box<FlowTable>, Vec<FlowId>),
    Service,
    Rule,
}

impl Classifier {
    /// Returns a classifier, and allocates all its memory.
    ///
    /// # Errors
    /// If the limit of flows or the timeout is invalid, or the last rule does not match all remaining packets.
    pub fn new(config: ClassifierConfig) -> Result<Self, TrafficError> {
        let ClassifierConfig { flows, granularity, rules, local, seed, timeout, tunnels, hash } = config;
        check_rules(&rules)?;
        let one_more = |id: &dyn Fn(&Rule) -> usize| rules.iter().map(|rule| id(rule) + 1).max().unwrap_or(0);
        let clients_max = match granularity {
            Granularity::Flow | Granularity::Connection => flows,
            Granularity::Service => one_more(&|rule| rule.outcome.service.index()),
            Granularity::Rule => one_more(&|rule| rule.outcome.client.index()),
        };
        let clients = match granularity {
            Granularity::Flow => Clients::Flow,
            Granularity::Service => Clients::Service,
            Granularity::Rule => Clients::Rule,
            Granularity::Connection => {
                let connections = FlowTable::of("connections", flows, seed)?;
                Clients::Connection(Box::new(connections), Vec::with_capacity(flows))
            }
        };
        // The table comes first, because it checks the limits.
        let table = FlowTable::new(flows, seed)?.with_timeout(timeout)?.with_hash_fields(hash);
        let by_flow = matches!(granularity, Granularity::Flow | Granularity::Connection);
        let is_weighed = |Outcome { weight, link_weight, .. }| (weight, link_weight) != (Weight::ONE, Weight::ONE);
        let weighs = by_flow && rules.iter().any(|rule| is_weighed(rule.outcome));
        let rules = RuleSet::new(&rules, &local, flows);
        let digester = Digester { lookup: table.lookup_hash().clone(), rules: rules.few() };
        Ok(Self {
            flows: table,
            digester,
            tunnels,
            clock: CaptureClock::default(),
            clients,
            clients_max,
            rules,
            weighs,
            marks: Vec::new(),
            names: None,
        })
    }

    /// Sets a listener to new flows.
    #[must_use]
    pub fn with_names(self, names: Option<Arc<dyn FlowNames>>) -> Self {
        Self { names, ..self }
    }

    /// Returns whether flows have an idle timeout: [`Self::next_expired`].
    #[inline(always)]
    pub fn has_timeout(&self) -> bool {
        self.flows.has_timeout()
    }

    /// Ends a flow whose idle timeout is over at this time. `None`: there is no such flow. Call it before every
    /// frame, until it returns `None`. O(1) for each flow that ends; without a timeout, no flow ends.
    #[inline(always)]
    pub fn next_expired(&mut self, time: Time) -> Option<Expired> {
        if self.flows.has_timeout() { self.find_expired(time) } else { None }
    }

    fn find_expired(&mut self, time: Time) -> Option<Expired> {
        let (flow, _) = self.flows.next_expired(self.clock.elapsed(time, false))?;
        let client = match &mut self.clients {
            Clients::Flow => Some(ClientId(flow.0)),
            Clients::Service | Clients::Rule => None,
            Clients::Connection(connections, of_flow) => {
                let connection = of_flow[flow.index()];
                connections.release(connection);
                connections.is_idle(connection).then(|| {
                    connections.end(connection);
                    ClientId(connection.0)
                })
            }
        };
        Some(Expired { flow, client })
    }

    /// Prefetches the flows of these frames before their classification: [`FlowTable::look_ahead`]. For hosts
    /// with several frames at hand, and more flows than the processor's caches hold.
    pub fn look_ahead(&self, frames: &[Frame]) {
        for frames in frames.chunks(FlowTable::LOOK_AHEAD) {
            let mut keys = [FlowKey::default(); FlowTable::LOOK_AHEAD];
            for (key, frame) in keys.iter_mut().zip(frames) {
                *key = Headers::parse_inside(frame, self.tunnels).key;
            }
            self.flows.look_ahead(&keys[..frames.len()]);
        }
    }

    /// Like [`Self::look_ahead`], for packets of flows that have numbers: [`Self::classify_numbered`]. Does
    /// nothing while there are few flows, which are in the caches anyway.
    pub fn look_ahead_numbered(&self, packets: &[Numbered]) {
        if self.flows.len() > NEAR {
            self.flows.look_ahead_numbered(packets);
        }
    }

    /// Like [`Self::look_ahead`], for digests by [`Self::digester`]. Does nothing while there are few flows,
    /// which are in the caches anyway.
    pub fn look_ahead_digested<'a>(&self, digests: impl IntoIterator<Item = &'a Digest>) {
        if self.flows.len() <= NEAR {
            return;
        }
        let mut digests = digests.into_iter().map(|digest| digest.hash);
        loop {
            let (mut hashes, mut count) = ([0; FlowTable::LOOK_AHEAD], 0);
            for (hash, digest) in hashes.iter_mut().zip(&mut digests) {
                *hash = digest;
                count += 1;
            }
            self.flows.look_ahead_hashed(&hashes[..count]);
            if count < FlowTable::LOOK_AHEAD {
                return;
            }
        }
    }

    /// Classifies a frame, and takes a hold on its flow until [`Self::release`].
    ///
    /// # Errors
    /// If it starts a new flow, the table of flows is full, and every flow in it has packets in flight.
    #[inline]
    pub fn classify(&mut self, frame: &Frame) -> Result<Classified, TrafficError> {
        self.classify_headers(&Headers::parse_inside(frame, self.tunnels), frame.wire_length)
    }

    /// Returns the tunnels to look into.
    pub fn tunnels(&self) -> Tunnels {
        self.tunnels
    }

    /// Like [`Self::classify`], for a frame of this length on the wire with these headers, parsed inside
    /// [`Self::tunnels`].
    ///
    /// # Errors
    /// Those of [`Self::classify`].
    #[inline]
    pub fn classify_headers(&mut self, headers: &Headers, length: u32) -> Result<Classified, TrafficError> {
        let digest = self.digester.digest(headers);
        self.classify_digest(headers, &digest, length)
    }

    /// Returns the digester for [`Self::classify_digest`]. It may run on any thread.
    pub fn digester(&self) -> &Digester {
        &self.digester
    }

    /// Like [`Self::classify_headers`], with the digest of these headers by [`Self::digester`].
    ///
    /// # Errors
    /// Those of [`Self::classify`].
    #[inline(always)]
    pub fn classify_digest(
        &mut self,
        headers: &Headers,
        digest: &Digest,
        length: u32,
    ) -> Result<Classified, TrafficError> {
        let Some((packet, fwmark)) = self.classify_known(headers, digest, length) else {
            return self.classify_new(headers, digest, length);
        };
        Ok(Classified {
            packet,
            new_flow: false,
            ended_client: None,
            ended_flow: None,
            weight: None,
            link_weight: None,
            fwmark,
        })
    }

    /// Like [`Self::classify_digest`], for a packet of a known flow. Returns the packet and
    /// [`Classified::fwmark`]. `None`: the flow is not known, and nothing has changed.
    #[inline(always)]
    pub fn classify_known(&mut self, headers: &Headers, digest: &Digest, length: u32) -> Option<(Packet, Option<u32>)> {
        let flow = self.flows.find_hashed(&headers.key, digest.hash)?;
        let rule = digest.rule.unwrap_or_else(|| self.rules.find(flow, false, headers));
        let Outcome { mut service, client, mut chain, .. } = *self.rules.outcome(rule);
        let mut fwmark = None;
        if let Some(mark) = self.marks.get(flow.index()) {
            if let Some(marked) = mark.service {
                (service, chain) = (marked, ChainId(marked.0));
            }
            fwmark = mark.fwmark;
        }
        let client = match &self.clients {
            Clients::Flow => ClientId(flow.0),
            Clients::Service => ClientId(u32::from(service.0)),
            Clients::Rule => client,
            Clients::Connection(_, of_flow) => ClientId(of_flow[flow.index()].0),
        };
        Some((self.packet(flow, client, (service, chain), headers, length), fwmark))
    }

    /// Like [`Self::classify_digest`], for a packet of a new flow: [`Self::classify_known`] has just returned
    /// `None`.
    ///
    /// # Errors
    /// Those of [`Self::classify`].
    #[cold]
    #[inline(never)]
    pub fn classify_new(
        &mut self,
        headers: &Headers,
        digest: &Digest,
        length: u32,
    ) -> Result<Classified, TrafficError> {
        let found = self.flows.insert_hashed(&headers.key, digest.hash)?;
        if let Some(names) = &self.names {
            names.on_flow(found.flow, &headers.key);
        }
        let rule = digest.rule.unwrap_or_else(|| self.rules.find(found.flow, true, headers));
        let Outcome { service, client, chain, weight, link_weight } = *self.rules.outcome(rule);
        if let Some(mark) = self.marks.get_mut(found.flow.index()) {
            *mark = Found::default();
        }
        let (client, ended_client, new_client) = match &mut self.clients {
            Clients::Flow => (ClientId(found.flow.0), found.ended.map(|flow| ClientId(flow.0)), true),
            Clients::Service => (ClientId(u32::from(service.0)), None, false),
            Clients::Rule => (client, None, false),
            Clients::Connection(connections, of_flow) => {
                if found.ended.is_some() {
                    connections.release(of_flow[found.flow.index()]);
                }
                // There is room, because at most as many connections are held as there are other flows.
                let connection = connections.classify(&headers.key.connection())?;
                match of_flow.get_mut(found.flow.index()) {
                    Some(known) => *known = connection.flow,
                    None => of_flow.push(connection.flow),
                }
                let ended = connection.ended.map(|ended| ClientId(ended.0));
                (ClientId(connection.flow.0), ended, connection.new)
            }
        };
        let packet = self.packet(found.flow, client, (service, chain), headers, length);
        let weighs = new_client && self.weighs;
        Ok(Classified {
            packet: Packet { changes_connection: headers.begins_or_ends || headers.kind != Kind::Tcp, ..packet },
            new_flow: true,
            ended_client,
            ended_flow: found.ended,
            weight: weighs.then_some(weight),
            link_weight: weighs.then_some(link_weight),
            fwmark: None,
        })
    }

    /// Returns a packet of a known flow.
    #[inline(always)]
    fn packet(
        &self,
        flow: FlowId,
        client: ClientId,
        (service, chain): (ServiceId, ChainId),
        headers: &Headers,
        length: u32,
    ) -> Packet {
        let SteeringHashes { key, rss } = self.flows.steering(flow);
        let changes_connection = headers.begins_or_ends;
        Packet { key, flow, client, length, rss, service, chain, changes_connection, ..Packet::default() }
    }

    /// Like [`Self::classify_numbered`], for a flow that is not known by this number, whose packets have these
    /// headers. It is known by the number afterwards.
    ///
    /// # Errors
    /// Those of [`Self::classify`].
    pub fn classify_new_number(
        &mut self,
        number: u64,
        headers: &Headers,
        length: u32,
    ) -> Result<Classified, TrafficError> {
        let digest = self.digester.digest(headers);
        let classified = self.classify_digest(headers, &digest, length)?;
        self.flows.set_number(number, &classified.packet);
        Ok(classified)
    }

    /// Like [`Self::classify`], for a packet of the flow that its source knows by this number. `None`: this
    /// classifier does not know it; use [`Self::classify_new_number`]. The packets of a flow must have the same
    /// headers, as those of [`NumberedFlows`](crate::source::NumberedFlows) have. O(1).
    #[inline(always)]
    pub fn classify_numbered(&mut self, number: u64, length: u32) -> Option<Packet> {
        if !self.marks.is_empty() {
            return None;
        }
        let packet = self.flows.find_numbered(number)?;
        Some(Packet { length, ..packet })
    }

    /// Stores a service's findings about the flow of this packet, which must be held. The findings are the
    /// service of its later packets, and the weight of its client, if flows or connections are clients. Returns
    /// the weight if it differs from the stored one: the driver then passes it to the scheduler. The marks end
    /// with the flow.
    ///
    /// The first mark allocates memory for all flows. O(1).
    pub fn mark(&mut self, packet: &Packet, service: Option<ServiceId>, weight: Option<Weight>) -> Option<Weight> {
        let mark = self.found(packet);
        mark.service = service.or(mark.service);
        if weight.is_none() || mark.weight == weight {
            return None;
        }
        mark.weight = weight;
        weight.filter(|_| matches!(self.clients, Clients::Flow | Clients::Connection(..)))
    }

    /// Stores the firewall mark of the flow of this packet, which must be held: the [`Classified::fwmark`] of
    /// its later packets.
    ///
    /// Memory and cost are those of [`Self::mark`].
    pub fn set_fwmark(&mut self, packet: &Packet, fwmark: u32) {
        self.found(packet).fwmark = Some(fwmark);
    }

    /// Returns the services' findings about the flow of this packet.
    fn found(&mut self, packet: &Packet) -> &mut Found {
        if self.marks.is_empty() {
            self.marks = vec![Found::default(); self.flows.capacity()];
        }
        &mut self.marks[packet.flow.index()]
    }

    /// Takes one more hold on the flow of this packet, for a packet made from it. Call it before another packet
    /// is classified.
    #[inline]
    pub fn hold(&mut self, packet: &Packet) {
        self.flows.hold_again(packet.flow);
    }

    /// Releases the hold of this packet on its flow: it was processed, or dropped.
    ///
    /// # Panics
    /// If it was released before.
    #[inline]
    pub fn release(&mut self, packet: &Packet) {
        self.release_flow(packet.flow);
    }

    /// Like [`Self::release`], for a packet of this flow.
    ///
    /// # Panics
    /// Those of [`Self::release`].
    #[inline]
    pub fn release_flow(&mut self, flow: FlowId) {
        self.flows.release(flow);
    }

    /// Returns the table of flows.
    pub fn flows(&self) -> &FlowTable {
        &self.flows
    }

    /// Returns the upper bound of client numbers, exclusive.
    pub fn clients_max(&self) -> usize {
        self.clients_max
    }
}

fn check_rules(rules: &[Rule]) -> Result<(), TrafficError> {
    let found = match rules.last() {
        Some(last) if last.conditions.is_any() || last.conditions == Conditions::of(Match::Other) => return Ok(()),
        Some(last) => format!("the last service rule is for `{}`", last.conditions),
        None => String::from("there is no service rule"),
    };
    Err(TrafficError::usage(format!("{found}; end with one for `any` or `other`, which gets what no rule matches")))
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use humpyard_core::frame::LinkType;

    use super::*;

    fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Frame {
        let mut data = Vec::new();
        write(&mut data);
        Frame { link: LinkType::Ethernet, wire_length: data.len() as u32 + 4, data, ..Frame::default() }
    }

    fn udp(from: (u8, u16), to: (u8, u16)) -> Frame {
        let builder = PacketBuilder::ethernet2([2; 6], [2; 6]).ipv4([198, 18, 0, from.0], [198, 18, 0, to.0], 64);
        frame(|data| builder.udp(from.1, to.1).write(data, b"car").unwrap())
    }

    fn tcp6(vlan: bool) -> Frame {
        let builder = PacketBuilder::ethernet2([2; 6], [2; 6]);
        let (from, to) = ([0xfd; 16], [0xfe; 16]);
        frame(|data| {
            if vlan {
                let vlan = etherparse::VlanId::try_new(7).unwrap();
                builder.single_vlan(vlan).ipv6(from, to, 64).tcp(1, 2, 3, 4).write(data, b"").unwrap();
            } else {
                builder.ipv6(from, to, 64).tcp(1, 2, 3, 4).write(data, b"").unwrap();
            }
        })
    }

    /// Returns a segment with these flags: FIN 1, SYN 2, RST 4, PSH 8.
    fn segment(flags: u8) -> Frame {
        let mut tcp = etherparse::TcpHeader::new(1, 2, 3, 4);
        (tcp.fin, tcp.syn, tcp.rst, tcp.psh) = (flags & 1 > 0, flags & 2 > 0, flags & 4 > 0, flags & 8 > 0);
        tcp.ack = true;
        let builder = PacketBuilder::ethernet2([2; 6], [2; 6]).ipv4([198, 18, 0, 1], [198, 18, 0, 2], 64);
        frame(|data| builder.tcp_header(tcp).write(data, b"car").unwrap())
    }

    fn classifier(granularity: Granularity, flows: usize) -> Classifier {
        let rule = |matches, service| Rule::of(matches, ServiceId(service));
        let rules = vec![rule(Match::Tcp, 3), rule(Match::Ipv4, 1), rule(Match::Other, 2)];
        Classifier::new(ClassifierConfig { flows, granularity, rules, seed: Seed(1), ..ClassifierConfig::default() })
            .unwrap()
    }

    /// With so few rules that the digest contains the match, and with more.
    #[test]
    fn headers_may_be_digested_elsewhere() {
        for rules in [2u16, 9] {
            let rule = |at: u16| Rule::of([Match::Udp, Match::Tcp][usize::from(at % 2)], ServiceId(at));
            let rules: Vec<Rule> = (0..rules).map(rule).chain([Rule::of(Match::Any, ServiceId(99))]).collect();
            let of =
                || Classifier::new(ClassifierConfig { flows: 8, rules: rules.clone(), ..ClassifierConfig::default() });
            let (mut here, mut elsewhere) = (of().unwrap(), of().unwrap());
            let digester = elsewhere.digester().clone();
            for n in 0..100u8 {
                let frame = if n % 3 == 0 { tcp6(n % 2 == 0) } else { udp((n % 7, 1), (n % 5, 2)) };
                let headers = Headers::parse(&frame);
                let found = elsewhere.classify_digest(&headers, &digester.digest(&headers), frame.wire_length).unwrap();
                assert_eq!(found, here.classify(&frame).unwrap());
                here.release(&found.packet);
                elsewhere.release(&found.packet);
            }
        }
    }

    /// Flows and connections are those that they are by ports.
    #[test]
    fn hashes_of_addresses_leave_flows_and_connections_alone() {
        let granularity = Granularity::Connection;
        let config = ClassifierConfig { flows: 8, granularity, hash: HashFields::Addresses, ..Default::default() };
        let mut classifier = Classifier::new(config).unwrap();
        let mut packet = |from, to| classifier.classify(&udp(from, to)).unwrap().packet;
        let [there, back] = [packet((1, 10), (2, 20)), packet((2, 20), (1, 10))];
        let [next, elsewhere] = [packet((1, 11), (2, 20)), packet((1, 10), (3, 20))];
        assert_eq!([there, back, next, elsewhere].map(|packet| packet.flow.0), [0, 1, 2, 3]);
        assert_eq!([there, back, next, elsewhere].map(|packet| packet.client.0), [0, 0, 1, 2]);
        let hashes = |packet: Packet| (packet.key, packet.rss);
        assert_eq!([hashes(back), hashes(next)], [hashes(there); 2]);
        assert_ne!(hashes(elsewhere), hashes(there));
    }

    #[test]
    fn both_directions_are_two_flows_and_one_connection() {
        let (there, back) = (udp((1, 10), (2, 20)), udp((2, 20), (1, 10)));
        let mut by_flow = classifier(Granularity::Flow, 8);
        let (a, b) = (by_flow.classify(&there).unwrap().packet, by_flow.classify(&back).unwrap().packet);
        assert_eq!((a.flow, b.flow, a.client, b.client), (FlowId(0), FlowId(1), ClientId(0), ClientId(1)));
        assert_eq!((a.key, a.rss), (b.key, b.rss));
        assert_eq!(a.length, there.wire_length);
        let mut by_connection = classifier(Granularity::Connection, 8);
        let (a, b) = (by_connection.classify(&there).unwrap().packet, by_connection.classify(&back).unwrap().packet);
        let c = by_connection.classify(&udp((3, 1), (4, 1))).unwrap().packet;
        let again = by_connection.classify(&back).unwrap().packet;
        assert_eq!([a.client, b.client, c.client, again.client], [0, 0, 1, 0].map(ClientId));
        assert_eq!([a.flow, b.flow, c.flow, again.flow], [0, 1, 2, 1].map(FlowId));
    }

    #[test]
    fn a_mark_lasts_as_long_as_its_flow() {
        let mut classifier = classifier(Granularity::Flow, 2);
        let weight = Weight::new(5);
        let of = |classifier: &mut Classifier, from: u8| {
            let packet = classifier.classify(&udp((from, 1), (9, 1))).unwrap().packet;
            classifier.release(&packet);
            packet
        };
        let first = of(&mut classifier, 1);
        assert_ne!(first.service, ServiceId(3));
        assert_eq!(classifier.mark(&first, Some(ServiceId(3)), weight), weight);
        assert_eq!(classifier.mark(&first, None, weight), None);
        assert_eq!((of(&mut classifier, 1).service, of(&mut classifier, 2).service), (ServiceId(3), first.service));
        // Another flow takes its place.
        let third = of(&mut classifier, 3);
        assert_eq!((third.flow, third.service), (first.flow, first.service));
        assert_eq!(classifier.mark(&third, None, weight), weight);
        // A firewall mark belongs to the flow, too.
        classifier.set_fwmark(&third, 9);
        let fwmark = |classifier: &mut Classifier, from| {
            let classified = classifier.classify(&udp((from, 1), (9, 1))).unwrap();
            classifier.release(&classified.packet);
            classified.fwmark
        };
        let [third, second, fourth] = [3, 2, 4].map(|from| fwmark(&mut classifier, from));
        assert_eq!((third, second, fourth), (Some(9), None, None));
        // The weight of a client by rules does not depend on a mark of one flow.
        let mut classifier = self::classifier(Granularity::Service, 2);
        let packet = of(&mut classifier, 1);
        assert_eq!(classifier.mark(&packet, None, weight), None);
    }

    #[test]
    fn what_changes_a_connection_is_told() {
        let mut classifier = classifier(Granularity::Flow, 8);
        let mut changes = |frame: &Frame| classifier.classify(frame).unwrap().packet.changes_connection;
        assert!(!changes(&segment(0)), "the first of its flow, and does not begin it");
        assert_eq!([2, 8, 0, 1, 4].map(|flags| changes(&segment(flags))), [true, false, false, true, true]);
        let (there, back) = (udp((1, 10), (2, 20)), udp((2, 20), (1, 10)));
        assert_eq!([&there, &there, &back, &back].map(changes), [true, false, true, false]);
        let mut cut = segment(2);
        cut.data.truncate(14 + 20 + 13);
        assert!(!Headers::parse(&cut).begins_or_ends, "cut before its flags");
    }

    #[test]
    fn the_first_matching_rule_gives_the_service() {
        let mut classifier = classifier(Granularity::Service, 8);
        let arp = frame(|data| data.extend_from_slice(&[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 8, 6, 0, 1]));
        for (frame, service) in [(tcp6(false), 3), (tcp6(true), 3), (udp((1, 1), (2, 2)), 1), (arp, 2)] {
            let packet = classifier.classify(&frame).unwrap().packet;
            assert_eq!((packet.service, packet.client), (ServiceId(service), ClientId(u32::from(service))));
        }
        assert_eq!(Headers::parse(&tcp6(true)).vlan, 7);
        // A VLAN tag does not make another flow.
        assert_eq!(classifier.flows().seen(), 3);
        assert_eq!(classifier.clients_max(), 4);
    }

    #[test]
    fn a_client_has_the_weight_of_the_rule_that_its_first_packet_meets() {
        let weight = |value| Weight::new(value).unwrap();
        let mut heavy = Rule::of(Match::Udp, ServiceId(0));
        (heavy.outcome.weight, heavy.outcome.link_weight) = (weight(5), weight(2));
        let given = |granularity, rules: Vec<Rule>| {
            let config =
                ClassifierConfig { flows: 8, granularity, rules, seed: Seed(1), ..ClassifierConfig::default() };
            let mut classifier = Classifier::new(config).unwrap();
            let frames = [udp((1, 10), (2, 20)), udp((1, 10), (2, 20)), udp((2, 20), (1, 10)), tcp6(false)];
            frames.map(|frame| {
                let Classified { weight, link_weight, .. } = classifier.classify(&frame).unwrap();
                weight.zip(link_weight).map(|(weight, link_weight)| (weight.get(), link_weight.get()))
            })
        };
        let rest = || Rule::of(Match::Other, ServiceId(0));
        let (heavy_ones, one) = (Some((5, 2)), Some((1, 1)));
        assert_eq!(given(Granularity::Flow, vec![heavy.clone(), rest()]), [heavy_ones, None, heavy_ones, one]);
        assert_eq!(given(Granularity::Connection, vec![heavy.clone(), rest()]), [heavy_ones, None, None, one]);
        assert_eq!(given(Granularity::Service, vec![heavy.clone(), rest()]), [None; 4]);
        assert_eq!(given(Granularity::Flow, vec![rest()]), [None; 4]);
        heavy.outcome.weight = Weight::ONE;
        assert_eq!(given(Granularity::Flow, vec![heavy, rest()]), [Some((1, 2)), None, Some((1, 2)), one]);
    }

    #[test]
    fn rules_must_catch_the_rest() {
        let rules = vec![Rule::of(Match::Tcp, ServiceId(0))];
        let error = Classifier::new(ClassifierConfig { rules, ..ClassifierConfig::default() }).err().unwrap();
        assert!(error.to_string().contains("end with one for `any`"), "{error}");
        let error = Classifier::new(ClassifierConfig { rules: vec![], ..ClassifierConfig::default() }).err().unwrap();
        assert!(error.to_string().contains("no service rule"), "{error}");
        assert!("tpc".parse::<Match>().unwrap_err().to_string().contains("did you mean `tcp`?"));
        assert_eq!("connection".parse::<Granularity>().unwrap(), Granularity::Connection);
    }

    #[test]
    fn ended_flows_and_clients_are_told() {
        let mut by_flow = classifier(Granularity::Flow, 2);
        for n in 0..2 {
            let packet = by_flow.classify(&udp((n, 1), (9, 1))).unwrap().packet;
            by_flow.release(&packet);
        }
        let third = by_flow.classify(&udp((3, 1), (9, 1))).unwrap();
        assert_eq!((third.ended_flow, third.ended_client), (Some(FlowId(0)), Some(ClientId(0))));
        assert!(third.new_flow);
    }

    #[test]
    fn a_connection_lives_as_long_as_one_of_its_flows() {
        let mut random = Seed(3).stream("test");
        let mut classifier = classifier(Granularity::Connection, 6);
        let mut client_of = std::collections::BTreeMap::new();
        let mut held: Vec<Packet> = Vec::new();
        for _ in 0..20_000 {
            if held.len() == 5 {
                let packet = held.swap_remove(random.below(5) as usize);
                classifier.release(&packet);
            }
            let (a, b) = (random.below(6) as u8, 100 + random.below(3) as u8);
            let frame = if random.below(2) == 0 { udp((a, 1), (b, 1)) } else { udp((b, 1), (a, 1)) };
            let found = classifier.classify(&frame).unwrap();
            if let Some(ended) = found.ended_client {
                client_of.retain(|_, client| *client != ended);
                assert!(held.iter().all(|packet| packet.client != ended), "a client with packets under way ended");
            }
            let client = *client_of.entry((a, b)).or_insert(found.packet.client);
            assert_eq!(client, found.packet.client);
            assert!(client.index() < classifier.clients_max());
            held.push(found.packet);
        }
    }

    #[test]
    fn idle_flows_and_their_clients_end() {
        let config = |granularity| ClassifierConfig {
            flows: 8,
            granularity,
            seed: Seed(1),
            timeout: Some(Time::from_ns(100)),
            ..ClassifierConfig::default()
        };
        let at = |frame: Frame, time: u64| Frame { time: Time::from_ns(time), ..frame };
        let (there, back) = (udp((1, 10), (2, 20)), udp((2, 20), (1, 10)));
        let served = |classifier: &mut Classifier, frame: &Frame| {
            let mut expired = Vec::new();
            while let Some(Expired { flow, client }) = classifier.next_expired(frame.time) {
                expired.push((flow.0, client.map(|client| client.0)));
            }
            let packet = classifier.classify(frame).unwrap().packet;
            classifier.release(&packet);
            (expired, packet.flow.0, packet.client.0)
        };
        // Times since 1970; the first is the start. A connection ends with the last of its flows.
        let start = 1_700_000_000_000_000_000;
        let mut connections = Classifier::new(config(Granularity::Connection)).unwrap();
        assert_eq!(served(&mut connections, &at(there.clone(), start)), (vec![], 0, 0));
        assert_eq!(served(&mut connections, &at(back.clone(), start + 50)), (vec![], 1, 0));
        assert_eq!(served(&mut connections, &at(udp((3, 1), (4, 1)), start + 120)), (vec![(0, None)], 0, 1));
        assert_eq!(served(&mut connections, &at(there.clone(), start + 160)), (vec![(1, Some(0))], 1, 0));
        let mut flows = Classifier::new(config(Granularity::Flow)).unwrap();
        assert_eq!(served(&mut flows, &at(there.clone(), start)), (vec![], 0, 0));
        assert_eq!(served(&mut flows, &at(there.clone(), start + 100)), (vec![(0, Some(0))], 0, 0));
        // A clock that goes back a little stands still; one that was set back continues from there.
        assert_eq!(served(&mut flows, &at(back.clone(), start + 90)), (vec![], 1, 1));
        assert_eq!(served(&mut flows, &at(back.clone(), start - 5_000_000_000)), (vec![], 1, 1));
        assert_eq!(
            served(&mut flows, &at(back, start - 5_000_000_000 + 101)),
            (vec![(0, Some(0)), (1, Some(1))], 1, 1)
        );
        let mut services = Classifier::new(config(Granularity::Service)).unwrap();
        assert_eq!(served(&mut services, &at(there.clone(), start)), (vec![], 0, 0));
        assert_eq!(served(&mut services, &at(there, start + 100)), (vec![(0, None)], 0, 0));
    }
}
