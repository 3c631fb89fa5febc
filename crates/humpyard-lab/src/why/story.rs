//! The answer of `why`: the document that programs read.

use serde::Serialize;

use super::otherwise::{Alternative, QueueAtArrival};
use super::table::BlameTable;

/// The answer of `why`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Why {
    /// Where packets came from, or the journal.
    pub input: String,
    /// Whether a journal was read: else the run was simulated.
    pub is_journal: bool,
    /// The policies at the start of the run.
    pub policy: String,
    /// The number of cores.
    pub cores: usize,
    /// What became of the packets.
    pub packets: PacketFates,
    /// The delays of the packets that left.
    pub delay_ns: DelayFigures,
    /// What was asked about: `flow`, `packet` or `p99`.
    pub asked: &'static str,
    /// The flow, if one was asked about.
    pub flow: Option<FlowStory>,
    /// The packet.
    pub packet: PacketStory,
    /// What the delays of the packets from the p99 on consist of.
    pub blame: BlameTable,
    /// Where and how the input is damaged, if it is.
    pub damage: Option<String>,
}

/// What became of the packets of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketFates {
    /// All that came.
    pub arrived: u64,
    /// Those that left.
    pub left: u64,
    /// Those that their service consumed or dropped.
    pub ended: u64,
    /// Those that were dropped.
    pub dropped: u64,
    /// Those that were still there when the run or its journal ended.
    pub held: u64,
}

/// Delays, in ns.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayFigures {
    /// The mean.
    pub mean: f64,
    /// 50 of 100 are at most this long.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// How a flow fared.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowStory {
    /// Its name.
    pub flow: String,
    /// The fate of its packets.
    pub packets: PacketFates,
    /// Their delays.
    pub delay_ns: DelayFigures,
    /// The cores that served them, with the number of packets.
    pub cores: Vec<CorePackets>,
    /// What their delays consist of.
    pub blame: BlameTable,
}

/// Packets that a core served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CorePackets {
    /// The core.
    pub core: u16,
    /// Its packets.
    pub packets: u64,
}

/// How a packet fared.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketStory {
    /// Its number among all that came, from 1.
    pub number: u64,
    /// Its flow.
    pub flow: String,
    /// Its client.
    pub client: u32,
    /// Its length, in bytes.
    pub length: u32,
    /// When it came, since the start of the run.
    pub arrival_ns: u64,
    /// Its fate: `left`, `ended`, `held`, or the reason why it was dropped.
    pub fate: &'static str,
    /// Its delay. `None`: it did not leave.
    pub delay_ns: Option<u64>,
    /// The part of the packets that left sooner.
    pub faster_fraction: Option<f64>,
    /// The services that it went through.
    pub hops: Vec<PacketHop>,
    /// What its delay consists of; empty unless it left.
    pub blame: BlameTable,
    /// What the policies knew.
    pub knew: PolicyKnowledge,
    /// What would have made it otherwise.
    pub otherwise: Vec<Alternative>,
    /// All of it in sentences.
    pub words: StoryWords,
}

/// A packet at one service. Times count from the start of the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketHop {
    /// The service.
    pub service: String,
    /// The core.
    pub core: u16,
    /// Whether the packet before it on the core had another service.
    pub cold: bool,
    /// When it joined the queue.
    pub joined_ns: u64,
    /// When the core was given it.
    pub given_ns: u64,
    /// When its service began.
    pub begin_ns: u64,
    /// When its service ended.
    pub end_ns: u64,
}

/// What policies knew of a packet when it came.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyKnowledge {
    /// The policies in force.
    pub policy: String,
    /// The core to which it was steered. `None`: none steers.
    pub steered_to: Option<usize>,
    /// What each core had when it came; empty where no policy steers.
    pub cores: Vec<CoreAtArrival>,
    /// The unit of the backlogs.
    pub unit: &'static str,
    /// The words of the steering policy.
    pub steering: Option<String>,
    /// Its queue when it came.
    pub queue: QueueAtArrival,
    /// The words of the sharing policy when it came.
    pub at_arrival: Option<String>,
    /// The words of the sharing policy when it chose the packet.
    pub at_choice: Option<String>,
    /// The cores of its service when it came; empty where cores are not allocated.
    pub cores_of_service: Vec<u16>,
}

/// What a core had when a packet came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoreAtArrival {
    /// The core.
    pub core: usize,
    /// Its packets, waiting and in service.
    pub packets: u32,
    /// Their estimated work.
    pub backlog: u64,
}

/// A packet's story in sentences.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoryWords {
    /// Which packet it is, and how long it took.
    pub heading: String,
    /// What was decided, and what the policies knew.
    pub decided: Vec<String>,
    /// What delayed it.
    pub delayed: Vec<String>,
    /// What would have made it otherwise.
    pub otherwise: Vec<String>,
}
