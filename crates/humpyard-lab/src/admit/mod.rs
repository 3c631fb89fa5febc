//! Admission: which flows can be sure of their engines and links, and of what delay.
//!
//! A flow of B bits per second in packets of l bytes in the mean takes P = B/(8 l) (alpha + beta l) engines (equation 4; exact for
//! any lengths of that mean, for the cost is a straight line), and its service makes gamma B of it on the links behind. Flows
//! are admitted in the order given, as long as all P at a node are at most its m engines less a margin, and all bits on a
//! link at most its rate.
//!
//! **Source.** The EFQ and LAP paper, section 3.3; PREDICTIVE sections 3 and 5.

mod bound;
mod machine;
mod network;
mod reservation;
mod route;

use std::collections::BTreeSet;

use humpyard_core::cost::LinearCost;
use humpyard_core::mechanism::FlowOrder;
use humpyard_core::name::unknown;
use serde::Serialize;

use crate::LabError;
use crate::choice::link::QUEUE;
use crate::costs::{Costs, ServiceCost, name_of};
use bound::{Busy, bound};
use route::{Route, Ways, best};

pub use crate::costs::taken::Taken;
pub use bound::Bound;
pub use machine::Machine;
pub use network::{Link, Network, Node};
pub use reservation::Reservation;

/// What admission decides by.
#[derive(Clone, Debug)]
pub struct AdmitOptions {
    /// The flows, in the order in which they ask.
    pub reservations: Vec<Reservation>,
    /// Where they go through.
    pub network: Network,
    /// What services cost.
    pub costs: Costs,
    /// The part of the engines that stays free, from 0 to below 1.
    pub margin: f64,
    /// The part of packets that meet a cold core, from 0 to 1; only 1 makes the bound sure.
    pub cold: f64,
    /// How far packets are from what they are estimated to take, as a part of it, by service; the empty name is for all others.
    pub errors: Vec<(String, f64)>,
    /// Whether a flow keeps its order, and so has one packet in service at a time.
    pub flow_order: FlowOrder,
    /// What the machine adds to the work; nothing, unless told.
    pub machine: Machine,
}

/// How far packets of the papers' services are from what they are estimated to take, as a part of it.
const ERROR: f64 = 0.05;
/// That of `compress`, whose work depends on the bytes.
const COMPRESS_ERROR: f64 = 0.25;
/// What all weights of a node add up to, if it is full.
const TOTAL_WEIGHT: f64 = 1e6;
/// What sums may be off by, for they are sums of fractions.
const ROUNDING: f64 = 1e-9;
/// Most engines that a node can have, and how fast those of a router can be.
const ENGINES_MAX: u64 = 16_384;
const SPEED_MAX: f64 = 1e3;

impl AdmitOptions {
    /// The defaults for these flows, here, at these costs.
    pub fn new(reservations: Vec<Reservation>, network: Network, costs: Costs) -> Self {
        Self {
            reservations,
            network,
            costs,
            margin: 0.05,
            cold: 1.0,
            errors: Vec::new(),
            flow_order: FlowOrder::Free,
            machine: Machine::IDEAL,
        }
    }

    fn error(&self, service: &str) -> f64 {
        let given = |name: &str| self.errors.iter().rev().find(|(known, _)| known == name).map(|&(_, error)| error);
        let name = name_of(service);
        let usual = if name == "compress" { COMPRESS_ERROR } else { ERROR };
        given(service).or_else(|| given(name)).or_else(|| given("")).unwrap_or(usual)
    }

    /// What each service that a flow asks for costs.
    fn service_costs(&self) -> Result<Vec<ServiceCost>, LabError> {
        let services: BTreeSet<&str> = self.reservations.iter().map(|flow| flow.service.as_str()).collect();
        services.into_iter().map(|service| Ok(self.costs.find(&service.parse()?)?.of(service))).collect()
    }

    /// What handing a packet over takes an engine, in ns.
    fn hand_over_ns(&self) -> f64 {
        self.machine.hand_over.as_nanos() as f64
    }

    /// What a cold engine adds to a packet at most, in ns.
    fn coldest(&self, cost: LinearCost) -> f64 {
        if self.cold > 0.0 { cost.cold as f64 } else { 0.0 }
    }

    /// The most that a packet is charged, in times its estimate. No packet that had its engine for itself is charged less than it
    /// took. A packet without length decides, because a cold engine adds most to it. `None`: the machine takes nothing.
    fn charge_most(&self) -> Result<Option<f64>, LabError> {
        if self.machine.taken.is_nothing() {
            return Ok(None);
        }
        let mut most: f64 = 1.0;
        for flow in &self.reservations {
            let cost = self.costs.cost(&flow.service)?;
            let (fixed, error) = (work(cost, 0.0), self.error(&flow.service));
            let taken = fixed * (1.0 + error) + self.coldest(cost) + self.hand_over_ns();
            most = most.max(1.0 + error).max(taken / (fixed + self.hand_over_ns()));
        }
        Ok(Some((most * 1e3).ceil() / 1e3))
    }
}

/// The flows that are admitted, and the capacity that they leave.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Admission {
    /// Fraction of the engines that stays free, from 0 to below 1.
    pub margin: f64,
    /// Fraction of packets assumed to meet a cold core, from 0 to 1.
    pub cold: f64,
    /// Costs of each service of the flows, and their source.
    pub costs: Vec<ServiceCost>,
    /// Time that the machine adds to the work.
    pub machine: Machine,
    /// The most that a packet is charged, as a multiple of its estimate: `charge-most` of `efq`.
    /// `None`: it is charged all that it used.
    pub charge_most: Option<f64>,
    /// Reservations at each node with engines.
    pub nodes: Vec<NodeUse>,
    /// Reservations on each link.
    pub links: Vec<LinkUse>,
    /// One entry for each flow, in the order given.
    pub flows: Vec<FlowVerdict>,
    /// Number of flows admitted.
    pub admitted: usize,
    /// Number of flows refused.
    pub refused: usize,
}

impl Admission {
    /// The policy by which the flows of a node have what they reserved, with the weights that they are given.
    pub fn policy(&self, node: &NodeUse) -> String {
        let most = self.charge_most.map_or(String::new(), |most| format!(",charge-most={most}"));
        format!("efq:total={},clock=work{most}", node.total_weight)
    }

    /// The link behind a router, as [`parse_link`](crate::parse_link) reads it, on which they have what they reserved; none without.
    pub fn link(&self) -> Option<String> {
        let LinkUse { rate_bps, total_weight, queue, .. } = self.links.first()?;
        Some(format!("{rate_bps:.0}bit:queue={},share=efq:total={},clock=work", (*queue)?, (*total_weight)?))
    }
}

/// Reservations at a node.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeUse {
    /// Name of the node.
    pub name: String,
    /// Number of engines of the node.
    pub engines: usize,
    /// Speed of the slowest engine of the node. 1: services cost what `costs` says.
    pub speed: f64,
    /// Number of engines reserved, in fractions of engines.
    pub reserved: f64,
    /// The most engines that can be reserved: all of the node, less `margin`.
    pub limit: f64,
    /// Total of weights: `total` of `efq`. The share of a flow is its `weight` divided by this
    /// total.
    pub total_weight: u64,
}

/// Reservations on a link.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkUse {
    /// Name of the link.
    pub name: String,
    /// Rate of the link, in bits per second.
    pub rate_bps: f64,
    /// Rate reserved on the link, in bits per second.
    pub reserved_bps: f64,
    /// Total of weights: `total` of `efq`. The share of a flow is its `link_weight` divided by this
    /// total. `None`: in a network, where flows have other shares of each link.
    pub total_weight: Option<u64>,
    /// Queue of a client at the link, in packets, that is long enough for every flow that keeps to
    /// its reservation. `None`: in a network.
    pub queue: Option<u32>,
}

/// The verdict on a flow.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowVerdict {
    /// The reservation that it asked for.
    #[serde(flatten)]
    pub reservation: Reservation,
    /// Whether the flow is admitted.
    pub admitted: bool,
    /// Number of engines that the flow needs, at its node or, if refused, at the best node.
    pub engines: f64,
    /// Rate of the flow after its service, in bits per second.
    pub link_bps: f64,
    /// Weight of the flow in the sharing policy of its node. `None`: the flow is refused.
    pub weight: Option<u32>,
    /// Weight of the flow at the link behind the router. `None`: the flow is refused, or there is
    /// no such link, as in a network.
    pub link_weight: Option<u32>,
    /// Node that processes the flow. `None`: the flow is refused.
    pub node: Option<String>,
    /// Nodes on the path of the flow, in order. Empty: the flow is refused.
    pub path: Vec<String>,
    /// Upper bound on the delay of the packets, in ns, and its parts. `None`: the flow is refused.
    pub bound_ns: Option<Bound>,
    /// The missing resources, and what would fit. `None`: the flow is admitted.
    pub refusal: Option<Refusal>,
}

impl FlowVerdict {
    /// Most of its packets that can be under way at once, if it is admitted: what it sends at once, and what comes in its bound.
    fn most_under_way(&self) -> Option<f64> {
        let Reservation { burst_bytes, length_bytes, .. } = self.reservation;
        let comes = self.reservation.packets_per_second() * self.bound_ns?.total / 1e9;
        Some(burst_bytes / length_bytes + comes + 1.0)
    }
}

/// The resources that a refused flow lacks, and what would fit.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// Resources of which there is too little. Empty: no path leads through an engine.
    pub lacks: Vec<Lack>,
    /// The greatest bandwidth that would be admitted now, in bits per second. 0: none.
    pub largest_bandwidth_bps: f64,
}

/// A resource of which there is too little.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "of")]
pub enum Lack {
    /// Too few engines of a node are free.
    Engines {
        /// Name of the node.
        node: String,
        /// Number of engines that the flow needs.
        needed: f64,
        /// Number of engines that are free.
        free: f64,
        /// Number of engines of the node that would be enough. `None`: more than a node can have.
        would_do: Option<u64>,
    },
    /// One engine is too slow, and a flow that keeps its order has one engine at a time.
    OneEngine {
        /// Name of the node.
        node: String,
        /// Number of engines that the flow needs.
        needed: f64,
        /// Speed that would be enough, for the same number of engines. `None`: more than engines
        /// can have.
        would_do_speed: Option<f64>,
    },
    /// Too little of the rate of a link is free.
    Link {
        /// Name of the link.
        link: String,
        /// Rate that the flow needs, in bits per second.
        needed_bps: f64,
        /// Rate that is free, in bits per second.
        free_bps: f64,
        /// Rate of the link that would be enough, in bits per second.
        would_do_bps: f64,
    },
}

/// What a flow takes of whatever it goes through.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// Work per second in the mean, in parts of an engine of speed 1.
    engines: f64,
    /// Bits per second, before and after its service.
    rates: [f64; 2],
    /// Bits per second after its service, of packets of whole bytes.
    whole_bps: f64,
    /// Work of its mean packet on an engine of speed 1, in ns.
    packet_ns: f64,
    /// Length of that packet in bits, before and after.
    packet_bits: [f64; 2],
    /// Most work of a packet, and most by which one is off its estimate, in ns of such an engine.
    longest_ns: f64,
    error_ns: f64,
    /// Length of the longest packet in bits, before and after.
    longest_bits: [f64; 2],
}

impl Need {
    fn of(flow: &Reservation, options: &AdmitOptions, charge_most: Option<f64>) -> Result<Self, LabError> {
        let said = |said: String| LabError::option(format!("flow `{}`: {said}", flow.name));
        let line = options.costs.line(&flow.service).map_err(|error| said(error.to_string()))?;
        let (cost, expansion) = (line.cost(), line.expansion());
        let hand_over = options.hand_over_ns();
        let warm = |bytes: f64| work(cost, bytes) + hand_over;
        let mean_ns = warm(flow.length_bytes) + options.cold * cost.cold as f64;
        // Estimates that are all off to the same side, for a machine is slower today than when they were made, are charged.
        let packet_ns = charge_most.map_or(mean_ns, |most| mean_ns.max(most * warm(flow.length_bytes)));
        let own = options.error(&flow.service) * work(cost, flow.longest_bytes) + options.coldest(cost);
        // A packet that was interrupted may be charged as much as any.
        let error_ns = charge_most.map_or(own, |most| (most - 1.0) * warm(flow.longest_bytes));
        let bits = |bytes: f64| [8.0 * bytes, 8.0 * bytes * expansion];
        let rounding = if expansion.fract() == 0.0 { 0.0 } else { 8.0 * flow.packets_per_second() };
        let [longest, made] = bits(flow.longest_bytes);
        Ok(Self {
            engines: flow.packets_per_second() * packet_ns / 1e9,
            rates: [flow.bandwidth_bps, flow.bandwidth_bps * expansion],
            whole_bps: flow.bandwidth_bps * expansion + rounding,
            packet_ns,
            packet_bits: bits(flow.length_bytes),
            longest_ns: warm(flow.longest_bytes) + own,
            error_ns,
            longest_bits: [longest, 8.0 * (made / 8.0 - ROUNDING).ceil()],
        })
    }

    /// Returns the same flow with this many times its bandwidth.
    fn times(self, factor: f64) -> Self {
        Self {
            engines: self.engines * factor,
            rates: self.rates.map(|rate| rate * factor),
            whole_bps: self.whole_bps * factor,
            ..self
        }
    }

    /// Bits per second on a link that is taken before, after, or both.
    fn on(&self, route: &Route, link: usize) -> f64 {
        let taken = |layer: usize| route.links[layer].contains(&link);
        (0..2).filter(|&layer| taken(layer)).map(|layer| self.rates[layer]).sum()
    }
}

/// The weight of this share.
fn weight(share: f64) -> u32 {
    (share * TOTAL_WEIGHT).ceil().max(1.0) as u32
}

/// Returns the work of a packet of this many bytes, which need not be whole, on a warm engine, in ns.
fn work(cost: LinearCost, bytes: f64) -> f64 {
    (cost.fixed as f64 + cost.per_byte_milli as f64 / 1e3 * bytes).max(1.0)
}

/// What was decided of a flow.
struct Decided<'a> {
    flow: &'a Reservation,
    need: Need,
    /// The node at which it comes in.
    from: usize,
    /// The way it takes; or why there is none, and the engines that it would take where it would best be processed.
    outcome: Result<Route, (Refusal, f64)>,
}

impl Decided<'_> {
    fn busy(&self) -> Option<Busy<'_>> {
        Some(Busy { flow: self.flow, need: &self.need, route: self.outcome.as_ref().ok()? })
    }
}

/// What is reserved so far.
struct Reserved<'a> {
    options: &'a AdmitOptions,
    charge_most: Option<f64>,
    /// From which node to which each link goes.
    ends: Vec<(usize, usize)>,
    engines: Vec<f64>,
    links: Vec<f64>,
}

impl<'a> Reserved<'a> {
    fn new(options: &'a AdmitOptions, charge_most: Option<f64>) -> Self {
        let Network { nodes, links, .. } = &options.network;
        let ends = links.iter().map(|link| (link.from, link.to)).collect();
        Self { options, charge_most, ends, engines: vec![0.0; nodes.len()], links: vec![0.0; links.len()] }
    }

    fn node(&self, node: usize) -> &Node {
        &self.options.network.nodes[node]
    }

    /// Engines of a node that can be reserved in all.
    fn limit(&self, node: usize) -> f64 {
        self.node(node).engines as f64 * (1.0 - self.options.margin)
    }

    /// Whether a flow that is alone at a node keeps within one engine, if it must.
    fn fits_alone(&self, need: &Need, node: usize) -> bool {
        self.options.flow_order == FlowOrder::Free || need.engines / self.node(node).speed <= 1.0 + ROUNDING
    }

    fn has_engines(&self, need: &Need, node: usize) -> bool {
        let engines = need.engines / self.node(node).speed;
        self.node(node).engines > 0
            && self.fits_alone(need, node)
            && self.engines[node] + engines <= self.limit(node) * (1.0 + ROUNDING)
    }

    fn has_rate(&self, link: usize, rate: f64) -> bool {
        self.links[link] + rate <= self.options.network.links[link].rate_bps * (1.0 + ROUNDING)
    }

    /// The best route of this flow on which there is room, or if `room` does not matter, of all.
    fn route(&self, need: &Need, (from, to): (usize, usize), room: bool) -> Option<Route> {
        let Network { nodes, links, .. } = &self.options.network;
        let on_link = |id: usize, layer: usize| {
            let link = &links[id];
            let cost = link.delay.as_nanos() as f64 + 1e9 * need.packet_bits[layer] / link.rate_bps;
            (!room || self.has_rate(id, need.rates[layer])).then_some(cost)
        };
        let at_node = |id: usize| {
            let may = if room { self.has_engines(need, id) } else { nodes[id].engines > 0 };
            may.then_some(need.packet_ns / nodes[id].speed)
        };
        let links: Vec<[Option<f64>; 2]> = (0..links.len()).map(|id| [on_link(id, 0), on_link(id, 1)]).collect();
        let twice: Vec<bool> = (0..links.len()).map(|id| !room || self.has_rate(id, need.rates.iter().sum())).collect();
        let nodes: Vec<Option<f64>> = (0..nodes.len()).map(at_node).collect();
        best(&Ways { ends: &self.ends, links: &links, twice: &twice, nodes: &nodes }, from, to)
    }

    /// What there is too little of on this route.
    fn lacks(&self, need: &Need, route: &Route) -> Vec<Lack> {
        let mut lacks = Vec::new();
        let node = self.node(route.node);
        let needed = need.engines / node.speed;
        let all = self.engines[route.node] + needed;
        if !self.fits_alone(need, route.node) {
            // What is reserved and needed becomes less, the faster engines are.
            let factor = needed.max(all / self.limit(route.node)) * (1.0 - ROUNDING);
            let speed = (node.speed * factor * 1e3).ceil() / 1e3;
            let would_do_speed = (speed <= SPEED_MAX).then_some(speed);
            lacks.push(Lack::OneEngine { node: node.name.clone(), needed, would_do_speed });
        }
        if all > self.limit(route.node) * (1.0 + ROUNDING) {
            let free = self.limit(route.node) - self.engines[route.node];
            let would_do = (all / (1.0 - self.options.margin) * (1.0 - ROUNDING)).ceil() as u64;
            let would_do = (would_do <= ENGINES_MAX).then_some(would_do);
            lacks.push(Lack::Engines { node: node.name.clone(), needed, free, would_do });
        }
        let mut links: Vec<usize> = route.links.concat();
        links.sort_unstable();
        links.dedup();
        for link in links {
            let needed_bps = need.on(route, link);
            if !self.has_rate(link, needed_bps) {
                lacks.push(Lack::Link {
                    link: self.options.network.link_name(link),
                    needed_bps,
                    free_bps: self.options.network.links[link].rate_bps - self.links[link],
                    would_do_bps: (self.links[link] + needed_bps).ceil(),
                });
            }
        }
        lacks
    }

    /// The most bits per second with which this flow would be admitted. What limits it is some node or link that is full then.
    fn largest(&self, need: &Need, ends: (usize, usize)) -> f64 {
        let rate = need.rates[0];
        let mut limits: Vec<f64> = Vec::new();
        for (id, node) in self.options.network.nodes.iter().enumerate().filter(|(_, node)| node.engines > 0) {
            let engines = need.engines / node.speed / rate;
            limits.extend([(self.limit(id) - self.engines[id]) / engines, 1.0 / engines]);
        }
        for (id, link) in self.options.network.links.iter().enumerate() {
            let free = link.rate_bps - self.links[id];
            let [before, after] = need.rates.map(|layer| layer / rate);
            limits.extend([free / before, free / after, free / (before + after)]);
        }
        limits.retain(|limit| *limit >= 1.0);
        limits.sort_by(|a, b| b.total_cmp(a));
        let fits = |limit: &f64| self.route(&need.times(limit.floor() / rate), ends, true).is_some();
        // From some limit on all that are less fit.
        limits.get(limits.partition_point(|limit| !fits(limit))).map_or(0.0, |limit| limit.floor())
    }

    /// Admits a flow, if there is room, or says why not.
    fn decide<'f>(&mut self, flow: &'f Reservation) -> Result<Decided<'f>, LabError> {
        let (need, ends) = (Need::of(flow, self.options, self.charge_most)?, ends(flow, &self.options.network)?);
        let outcome = match self.route(&need, ends, true) {
            Some(route) => {
                self.engines[route.node] += need.engines / self.node(route.node).speed;
                for layer in 0..2 {
                    route.links[layer].iter().for_each(|&link| self.links[link] += need.rates[layer]);
                }
                Ok(route)
            }
            None => {
                let tried = self.route(&need, ends, false);
                let lacks = tried.as_ref().map(|route| self.lacks(&need, route)).unwrap_or_default();
                let speed = tried.map_or(1.0, |route| self.node(route.node).speed);
                Err((Refusal { lacks, largest_bandwidth_bps: self.largest(&need, ends) }, need.engines / speed))
            }
        };
        Ok(Decided { flow, need, from: ends.0, outcome })
    }

    /// What is said of a flow, beside all those that are admitted.
    fn verdict(&self, decided: &Decided<'_>, all: &[Busy<'_>]) -> FlowVerdict {
        let Decided { flow, need, from, outcome } = decided;
        let verdict = FlowVerdict {
            reservation: (*flow).clone(),
            admitted: outcome.is_ok(),
            engines: need.engines,
            link_bps: need.rates[1],
            weight: None,
            link_weight: None,
            node: None,
            path: Vec::new(),
            bound_ns: None,
            refusal: None,
        };
        match outcome {
            Ok(route) => {
                let engines = need.engines / self.node(route.node).speed;
                let share = engines / self.limit(route.node);
                FlowVerdict {
                    engines,
                    weight: Some(weight(share)),
                    link_weight: self.options.network.link_behind().map(|link| weight(need.whole_bps / link.rate_bps)),
                    node: Some(self.node(route.node).name.clone()),
                    path: self.path(*from, route),
                    bound_ns: Some(bound(&Busy { flow, need, route }, all, self.options)),
                    ..verdict
                }
            }
            Err((refusal, engines)) => FlowVerdict { engines: *engines, refusal: Some(refusal.clone()), ..verdict },
        }
    }

    /// The nodes on a route by name.
    fn path(&self, from: usize, route: &Route) -> Vec<String> {
        let ends = route.links.iter().flatten().map(|&link| self.ends[link].1);
        core::iter::once(from).chain(ends).map(|node| self.node(node).name.clone()).collect()
    }

    /// What is reserved at the nodes that have engines. `weight` returns the sum of the weights of a node's flows.
    fn nodes(&self, weight: impl Fn(&Node) -> u64) -> Vec<NodeUse> {
        let node = |(id, node): (usize, &Node)| NodeUse {
            name: node.name.clone(),
            engines: node.engines,
            speed: node.speed,
            reserved: self.engines[id],
            limit: self.limit(id),
            total_weight: weight(node).max(TOTAL_WEIGHT as u64),
        };
        self.options.network.nodes.iter().enumerate().filter(|(_, node)| node.engines > 0).map(node).collect()
    }

    /// What is reserved on links, of which one behind a router is shared by these flows.
    fn links(&self, flows: &[FlowVerdict]) -> Vec<LinkUse> {
        let is_behind = self.options.network.link_behind().is_some();
        let total = flows.iter().filter_map(|flow| flow.link_weight).map(u64::from).sum::<u64>();
        let waiting = flows.iter().filter_map(FlowVerdict::most_under_way).fold(f64::from(QUEUE), f64::max);
        let link = |(id, link): (usize, &Link)| LinkUse {
            name: self.options.network.link_name(id),
            rate_bps: link.rate_bps,
            reserved_bps: self.links[id],
            total_weight: is_behind.then(|| total.max(TOTAL_WEIGHT as u64)),
            queue: is_behind.then_some(waiting.ceil() as u32),
        };
        self.options.network.links.iter().enumerate().map(link).collect()
    }
}

/// Admits flows in the order given.
///
/// # Errors
/// Flows whose service costs nobody knows what, whose nodes there are not, or of which two have the same name; an error of a
/// service that no flow has.
pub fn admit(options: &AdmitOptions) -> Result<Admission, LabError> {
    let flows = &options.reservations;
    if let Some(twice) = (1..flows.len()).find(|&i| flows[..i].iter().any(|flow| flow.name == flows[i].name)) {
        return Err(LabError::option(format!(
            "two flows are called `{}`: give each a name of its own",
            flows[twice].name
        )));
    }
    let named = || flows.iter().map(|flow| flow.service.as_str());
    let errors = options.errors.iter().map(|(service, _)| service.as_str());
    if let Some(service) = errors.filter(|service| !service.is_empty()).find(|name| named().all(|other| other != *name))
    {
        let mut services: Vec<&str> = named().collect();
        services.sort_unstable();
        services.dedup();
        return Err(LabError::option(format!("@error: {}", unknown("service of these flows", service, services))));
    }
    options.machine.taken.check(options.margin)?;
    if options.machine.in_flight > 1 && options.flow_order == FlowOrder::Hold {
        return Err(LabError::option(
            "@in-flight above 1 does not work with @flow-order hold, where a flow has one packet in service: give @in-flight 1, or \
             @flow-order exit",
        ));
    }
    let charge_most = options.charge_most()?;
    let mut reserved = Reserved::new(options, charge_most);
    let decided: Vec<Decided<'_>> = flows.iter().map(|flow| reserved.decide(flow)).collect::<Result<_, _>>()?;
    let busy: Vec<Busy<'_>> = decided.iter().filter_map(Decided::busy).collect();
    let flows: Vec<FlowVerdict> = decided.iter().map(|decided| reserved.verdict(decided, &busy)).collect();
    let weight = |node: &Node| {
        let here = flows.iter().filter(|flow| flow.node.as_ref() == Some(&node.name));
        here.filter_map(|flow| flow.weight).map(u64::from).sum::<u64>()
    };
    let admitted = busy.len();
    Ok(Admission {
        margin: options.margin,
        cold: options.cold,
        costs: options.service_costs()?,
        machine: options.machine,
        charge_most,
        nodes: reserved.nodes(weight),
        links: reserved.links(&flows),
        admitted,
        refused: flows.len() - admitted,
        flows,
    })
}

/// Where a flow comes in and leaves.
fn ends(flow: &Reservation, network: &Network) -> Result<(usize, usize), LabError> {
    let said = |said: String| LabError::option(format!("flow `{}`: {said}", flow.name));
    if network.is_router {
        return match (&flow.from, &flow.to) {
            (None, None) => Ok((0, network.nodes.len() - 1)),
            _ => Err(said("`from` and `to` are nodes of a @topology".to_owned())),
        };
    }
    match (&flow.from, &flow.to) {
        (Some(from), Some(to)) => Ok((network.node(from).map_err(said)?, network.node(to).map_err(said)?)),
        _ => Err(said("in a @topology a flow has a `from` and a `to`: name its nodes".to_owned())),
    }
}

#[cfg(test)]
mod tests;
