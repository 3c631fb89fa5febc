//! The blame table: what the delays of packets consist of.

use serde::Serialize;

use super::blame::{Behind, BehindFlow, Blamed, DelayParts, DispatcherParts, blame};
use super::recorder::History;

/// Causes of the delay of some packets. The parts add up to the whole.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlameTable {
    /// Number of packets in this table.
    pub packets: u64,
    /// Shortest delay of these packets, in ns.
    pub from_ns: u64,
    /// Sum of the delays, in ns.
    pub total_ns: u64,
    /// Mean delay, in ns.
    pub mean_ns: f64,
    /// Parts of the delay, each as a sum over the packets.
    pub parts: DelayParts,
    /// Parts of `dispatcher_ns`, each as a sum over the packets.
    pub dispatcher: DispatcherParts,
    /// Part of `waiting_ns` during which the core served packets of the same flow, in ns.
    pub own_flow_ns: u64,
    /// Parts of the delay with their names, one entry for each.
    pub causes: Vec<BlamePart>,
    /// Flows behind which the packets waited longest, in descending order, at most 8.
    pub flows: Vec<BlamedFlow>,
    /// All other flows behind which the packets waited, together.
    pub other_flows: OtherFlows,
}

/// A part of the delay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamePart {
    /// Name of the part: `waiting`, `switching`, `dispatcher`, `service` or `exit`.
    pub cause: &'static str,
    /// Sum over all packets, in ns.
    pub total_ns: u64,
    /// Mean over all packets, in ns.
    pub mean_ns: f64,
    /// Fraction of the whole delay, from 0 to 1.
    pub fraction: f64,
}

/// A flow behind which packets waited.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedFlow {
    /// Protocol, addresses and ports of the flow.
    pub flow: String,
    /// Packets of the flow that were served meanwhile. A packet counts once for each packet that
    /// waited behind it.
    pub packets: u64,
    /// Time that the packets of this table waited behind the flow, as a sum, in ns.
    pub total_ns: u64,
    /// Time that a packet of this table waited behind the flow, on average, in ns.
    pub mean_ns: f64,
    /// Wait behind the flow as a fraction of the whole delay, from 0 to 1.
    pub fraction: f64,
}

/// All other flows behind which packets waited, together.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherFlows {
    /// Number of other flows.
    pub flows: u64,
    /// Packets of the other flows that were served meanwhile. A packet counts once for each packet
    /// that waited behind it.
    pub packets: u64,
    /// Time that the packets of this table waited behind the other flows, as a sum, in ns.
    pub total_ns: u64,
    /// Time that a packet of this table waited behind the other flows, on average, in ns.
    pub mean_ns: f64,
    /// Wait behind the other flows as a fraction of the whole delay, from 0 to 1.
    pub fraction: f64,
}

/// Flows that a table names.
const NAMED: usize = 8;

impl BlameTable {
    /// Returns the table of these packets, which left; the shortest of their delays is `from_ns`.
    pub(super) fn of(history: &History, packets: impl Iterator<Item = u32>, from_ns: u64) -> Self {
        let Blamed { packets, parts, dispatcher, own_ns, behind } = blame(history, packets);
        let total_ns = parts.total_ns();
        let mean = |ns: u64| ns as f64 / packets.max(1) as f64;
        let fraction = |ns: u64| ns as f64 / total_ns.max(1) as f64;
        let cause = |(cause, ns)| BlamePart { cause, total_ns: ns, mean_ns: mean(ns), fraction: fraction(ns) };
        let flows = by_name(history, &behind);
        let (named, others) = flows.split_at(flows.len().min(NAMED));
        let other_ns = others.iter().map(|(_, behind)| behind.ns).sum();
        Self {
            packets,
            from_ns,
            total_ns,
            mean_ns: mean(total_ns),
            parts,
            dispatcher,
            own_flow_ns: own_ns,
            causes: parts.named().into_iter().map(cause).collect(),
            flows: named
                .iter()
                .map(|(name, behind)| BlamedFlow {
                    flow: (*name).to_owned(),
                    packets: behind.packets,
                    total_ns: behind.ns,
                    mean_ns: mean(behind.ns),
                    fraction: fraction(behind.ns),
                })
                .collect(),
            other_flows: OtherFlows {
                flows: others.len() as u64,
                packets: others.iter().map(|(_, behind)| behind.packets).sum(),
                total_ns: other_ns,
                mean_ns: mean(other_ns),
                fraction: fraction(other_ns),
            },
        }
    }
}

/// Returns the flows by name, the longest first: the lives of a flow that ended and came again are one.
fn by_name<'a>(history: &'a History, behind: &Behind) -> Vec<(&'a str, BehindFlow)> {
    let mut flows: Vec<(&str, BehindFlow)> =
        behind.flows().into_iter().map(|flow| (history.flows[flow.flow as usize].as_str(), flow)).collect();
    flows.sort_by_key(|(name, _)| *name);
    flows.dedup_by(|(name, flow), (before, all)| {
        let is_same = name == before;
        if is_same {
            (all.ns, all.packets) = (all.ns + flow.ns, all.packets + flow.packets);
        }
        is_same
    });
    flows.sort_by_key(|(_, flow)| core::cmp::Reverse(flow.ns));
    flows
}
