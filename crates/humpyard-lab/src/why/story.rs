//! The answer of `why`: the document that programs read.

use serde::Serialize;

use super::otherwise::{Alternative, QueueAtArrival};
use super::table::BlameTable;

/// The answer of `why`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Why {
    /// Source of the packets: a file, a generator, or the journal.
    pub input: String,
    /// Whether the answer is from a journal. False: the run was simulated.
    pub is_journal: bool,
    /// Policies at the start of the run.
    pub policy: String,
    /// Number of cores.
    pub cores: usize,
    /// Fate of every packet of the run.
    pub packets: PacketFates,
    /// Delay of the packets that left, in ns. Packets of the warm-up do not count.
    pub delay_ns: DelayFigures,
    /// Subject of the question: `flow`, `packet` or `p99`.
    pub asked: &'static str,
    /// The flow of the question. `None`: the question is not about a flow.
    pub flow: Option<FlowStory>,
    /// The packet that is explained: that of the question, the slowest of the flow, or the one at
    /// the p99.
    pub packet: PacketStory,
    /// Causes of the delay of the slowest packets: those whose delay is at least the p99.
    pub blame: BlameTable,
    /// Damage of the input, in words. `None`: the input is intact.
    pub damage: Option<String>,
}

/// Number of packets of each fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketFates {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that left.
    pub left: u64,
    /// Packets that their service consumed or dropped.
    pub ended: u64,
    /// Packets that were dropped before their last service was complete.
    pub dropped: u64,
    /// Packets that had not left when the run or its journal ended.
    pub held: u64,
}

/// Delays, in ns.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayFigures {
    /// Mean, in ns.
    pub mean: f64,
    /// Median, in ns.
    pub p50: u64,
    /// 99th percentile, in ns.
    pub p99: u64,
    /// Maximum, in ns.
    pub max: u64,
}

/// The account of a flow.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowStory {
    /// Protocol, addresses and ports of the flow.
    pub flow: String,
    /// Other flows that were asked for together with `flow`, such as the other direction. All
    /// figures count their packets, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_flows: Vec<String>,
    /// Fate of every packet of the flow.
    pub packets: PacketFates,
    /// Delay of the packets of the flow that left, in ns. Packets of the warm-up do not count.
    pub delay_ns: DelayFigures,
    /// Cores that served packets of the flow, with the number of packets.
    pub cores: Vec<CorePackets>,
    /// Causes of the delay of the packets of the flow that left.
    pub blame: BlameTable,
}

/// Packets that a core served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CorePackets {
    /// Number of the core, from 0.
    pub core: u16,
    /// Packets of the flow that the core served.
    pub packets: u64,
}

/// The account of a packet.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketStory {
    /// Number of the packet among all that arrived, from 1.
    pub number: u64,
    /// Protocol, addresses and ports of the flow of the packet.
    pub flow: String,
    /// Number of the client of the packet, from 0.
    pub client: u32,
    /// Length of the packet, in bytes.
    pub length: u32,
    /// Time of arrival, in ns since the start of the run.
    pub arrival_ns: u64,
    /// Fate of the packet: `left`, `ended`, `held`, or the reason why it was dropped.
    pub fate: &'static str,
    /// Delay of the packet, in ns. `None`: it did not leave.
    pub delay_ns: Option<u64>,
    /// Fraction of the packets that left with a shorter delay, from 0 to 1. `None`: the packet did
    /// not leave.
    pub faster_fraction: Option<f64>,
    /// Services that the packet went through, in order.
    pub hops: Vec<PacketHop>,
    /// Causes of the delay of the packet. All values are 0 if it did not leave.
    pub blame: BlameTable,
    /// Knowledge of the policies about the packet. It is incomplete if the input is a pipe, which
    /// cannot be read twice.
    pub knew: PolicyKnowledge,
    /// The delay of the packet with one thing changed, one entry for each change. Empty: the packet
    /// did not leave.
    pub otherwise: Vec<Alternative>,
    /// The same account in sentences.
    pub words: StoryWords,
}

/// A packet at one service. Times count from the start of the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketHop {
    /// Name of the service.
    pub service: String,
    /// Number of the core, from 0.
    pub core: u16,
    /// Whether the core was cold: the packet is its first, or follows a packet of another service.
    pub cold: bool,
    /// Time at which the packet joined the queue, in ns since the start of the run.
    pub joined_ns: u64,
    /// Time at which the core was given the packet, in ns since the start of the run.
    pub given_ns: u64,
    /// Time at which the service began, in ns since the start of the run.
    pub begin_ns: u64,
    /// Time at which the service ended, in ns since the start of the run.
    pub end_ns: u64,
}

/// Knowledge of the policies about a packet when it arrived.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyKnowledge {
    /// Policies in force when the packet arrived.
    pub policy: String,
    /// Number of the core to which the packet was steered, from 0. `None`: no policy steers, or the
    /// packet was dropped on arrival.
    pub steered_to: Option<usize>,
    /// State of each core when the packet arrived. Empty: no policy steers.
    pub cores: Vec<CoreAtArrival>,
    /// Unit of the backlogs: `ns`, `bytes` or `packets`.
    pub unit: &'static str,
    /// The reasons of the steering policy, in words. `None`: it gives none.
    pub steering: Option<String>,
    /// The queue of the packet when it arrived.
    pub queue: QueueAtArrival,
    /// The reasons of the sharing policy when the packet arrived, in words. `None`: it gives none.
    pub at_arrival: Option<String>,
    /// The reasons of the sharing policy when it chose the packet for a core, in words. `None`: it
    /// gives none.
    pub at_choice: Option<String>,
    /// Numbers of the cores allocated to the service of the packet when it arrived. Empty: cores
    /// are not allocated.
    pub cores_of_service: Vec<u16>,
}

/// The state of a core when a packet arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoreAtArrival {
    /// Number of the core, from 0.
    pub core: usize,
    /// Packets of the core, waiting and in service.
    pub packets: u32,
    /// Estimated work of these packets, in the unit given by `unit`.
    pub backlog: u64,
}

/// The account of a packet in sentences.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoryWords {
    /// The packet and its delay.
    pub heading: String,
    /// The decisions about the packet, and the knowledge of the policies.
    pub decided: Vec<String>,
    /// The causes of the delay.
    pub delayed: Vec<String>,
    /// The delay of the packet with one thing changed.
    pub otherwise: Vec<String>,
}
