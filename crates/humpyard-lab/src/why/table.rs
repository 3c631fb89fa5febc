//! The blame table: what the delays of packets consist of.

use serde::Serialize;

use super::blame::{Behind, BehindFlow, Blamed, DelayParts, DispatcherParts, blame};
use super::recorder::History;

/// What the delays of some packets consist of. The parts add up to the whole.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlameTable {
    /// The number of packets.
    pub packets: u64,
    /// The shortest of their delays.
    pub from_ns: u64,
    /// All their delays together.
    pub total_ns: u64,
    /// Their mean delay.
    pub mean_ns: f64,
    /// The parts of all delays together.
    pub parts: DelayParts,
    /// The parts of `dispatcher_ns`.
    pub dispatcher: DispatcherParts,
    /// The part of `waiting_ns` behind packets of the same flow.
    pub own_flow_ns: u64,
    /// Each part: its name, sum, mean, and fraction of the whole.
    pub causes: Vec<BlamePart>,
    /// The flows that were waited behind longest.
    pub flows: Vec<BlamedFlow>,
    /// The other flows that were waited behind.
    pub other_flows: OtherFlows,
}

/// A part of delays.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamePart {
    /// `waiting`, `switching`, `dispatcher`, `service` or `exit`.
    pub cause: &'static str,
    /// Of all packets together.
    pub total_ns: u64,
    /// Of a packet.
    pub mean_ns: f64,
    /// Of the whole delay, from 0 to 1.
    pub fraction: f64,
}

/// A flow that was waited behind.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedFlow {
    /// The flow.
    pub flow: String,
    /// Its packets, each as often as a packet waited behind it.
    pub packets: u64,
    /// Time for which packets waited behind it, together.
    pub total_ns: u64,
    /// Of a packet.
    pub mean_ns: f64,
    /// Of the whole delay, from 0 to 1.
    pub fraction: f64,
}

/// Flows that were waited behind, together.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherFlows {
    /// The number of flows.
    pub flows: u64,
    /// As [`BlamedFlow::packets`].
    pub packets: u64,
    /// As [`BlamedFlow::total_ns`].
    pub total_ns: u64,
    /// As [`BlamedFlow::mean_ns`].
    pub mean_ns: f64,
    /// As [`BlamedFlow::fraction`].
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
