//! How long packets of an admitted flow can take.
//!
//! At its engines a flow that keeps to its reservation is served as if it had an engine of its own that is P as fast as one, but
//! for what schedulers of whole packets add: it waits for what it sent at once (burst / B), for a packet that was begun before
//! its own came, and for what estimates are wrong by. The last is equation 18, as PREDICTIVE section 5 mends it:
//!
//! ```text
//! (sum of V_i over the others) / m - V_a / m + V_a / P_a
//! ```
//!
//! where V_i is the most by which a packet of flow i is off its estimate. The packet that is waited for is the longest of
//! all, and on m engines (m - 1) / m of one more, for a packet is served by one engine and not by all together. Where an engine
//! has N packets at a time, each decision is made N - 1 packets early, so there are N of the longest, and of each flow up to N
//! packets are off their estimates before anybody knows. Flows do not keep their order then: a flow that has one packet in service at a
//! time would wait for N - 1 others before each of its own.
//!
//! **The machine.** Of any time t that packets wait an engine has at least (1 - p) t - s for them: a server of fluctuating
//! constraint (Goyal, Vin, Cheng. Start-time fair queueing. 1996). Where virtual time is the work that was done (`clock=work`),
//! all of the above holds by a clock that stands still when the machine takes an engine. A flow has the share P / (1 - margin) by that
//! clock, and p is at most the margin, so it has P by a real one: the parts at its own rate stay as they are. The others get longer by
//! 1 / (1 - p), and s / (1 - p) comes once.
//!
//! Each link on the way, or behind the engines, adds a packet of the flow at its own rate and the longest of all that the link may
//! have begun, and the time that a bit is under way: bursts are paid once (Goyal, Vin. Generalized guaranteed rate scheduling
//! algorithms. 1997).

use serde::Serialize;

use super::network::Network;
use super::route::Route;
use super::{AdmitOptions, Need, Reservation};

/// An upper bound on the delay of the packets of a flow, in ns, and its parts.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bound {
    /// Time of a full burst at the bandwidth of the flow, in ns.
    pub burst: f64,
    /// Wait for packets whose service began before, in ns.
    pub packet: f64,
    /// Wait because of wrong estimates of work, in ns.
    pub misordering: f64,
    /// Wait for time that the machine takes from the engines at once, in ns.
    pub machine: f64,
    /// Delay at the engines, from arrival to completion, in ns: the sum of `burst`, `packet`,
    /// `misordering` and `machine`.
    pub engines: f64,
    /// Delay on the links, in ns: the wait for packets begun before, the transmission of the
    /// packet, and the propagation.
    pub links: f64,
    /// Delay from arrival to departure, in ns: the sum of `engines` and `links`.
    pub total: f64,
}

/// A flow that is admitted.
#[derive(Clone, Copy)]
pub(super) struct Busy<'a> {
    pub(super) flow: &'a Reservation,
    pub(super) need: &'a Need,
    pub(super) route: &'a Route,
}

/// The bound of one flow beside all flows, of which it is one.
pub(super) fn bound(flow: &Busy<'_>, all: &[Busy<'_>], options: &AdmitOptions) -> Bound {
    let AdmitOptions { network, machine, .. } = options;
    let node = &network.nodes[flow.route.node];
    let (engines, speed) = (node.engines as f64, node.speed);
    let here = || all.iter().filter(|other| other.route.node == flow.route.node);
    let reserved = flow.need.engines / speed;
    // Of each flow an engine may have this many packets whose work is not known yet.
    let unknown = f64::from(machine.in_flight);
    let error = unknown * flow.need.error_ns / speed;
    let errors: f64 = here().map(|other| unknown * other.need.error_ns / speed).sum();
    let longest = here().map(|other| other.need.longest_ns / speed).fold(0.0, f64::max);
    let burst = 8e9 * flow.flow.burst_bytes / flow.flow.bandwidth_bps;
    // What is done at the speed of the engines takes longer by what the machine takes of them.
    let left = 1.0 - machine.taken.part;
    let packet = longest * (f64::from(machine.in_flight) + (engines - 1.0) / engines) / left;
    let misordering = ((errors - error) / engines - error / engines) / left + error / reserved;
    let taken = machine.taken.at_once.as_nanos() as f64 / left;
    let links = links(flow, all, network);
    let at_engines = burst + packet + misordering + taken;
    Bound { burst, packet, misordering, machine: taken, engines: at_engines, links, total: at_engines + links }
}

fn links(flow: &Busy<'_>, all: &[Busy<'_>], network: &Network) -> f64 {
    let at_engines = flow.need.longest_ns / flow.need.engines;
    let own = at_engines.max(1e9 * flow.need.longest_bits[0] / flow.need.rates[0]);
    let mut links = 0.0;
    for layer in 0..2 {
        for &id in &flow.route.links[layer] {
            let longest = |other: &Busy<'_>| {
                let taken = (0..2).filter(|&layer| other.route.links[layer].contains(&id));
                taken.map(|layer| other.need.longest_bits[layer]).fold(0.0, f64::max)
            };
            let longest = all.iter().map(longest).fold(0.0, f64::max);
            let link = &network.links[id];
            links += own + 1e9 * longest / link.rate_bps + link.delay.as_nanos() as f64;
        }
    }
    links
}
