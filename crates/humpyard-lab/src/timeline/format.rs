//! The part of Perfetto's trace format that timelines are written in, for programs that read them. Names and numbers are
//! those of Perfetto's `trace.proto`, `trace_packet.proto` and `track_event/*.proto`.

use prost::Message;

/// A whole file.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// What it says, one thing after the other.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// One thing that a trace says.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// When, in ns since the start of the run.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Who says so: one writer, so always 1.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// Something happened.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// There is a track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// Something that happened on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// More that is known of it.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// What kind of event.
    #[prost(enumeration = "EventType", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// The track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// What happened.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// The value from now on.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
}

/// Kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum EventType {
    /// None of those below.
    Unspecified = 0,
    /// Something begins.
    SliceBegin = 1,
    /// What began last on this track ends.
    SliceEnd = 2,
    /// Something took no time.
    Instant = 3,
    /// A counter has another value.
    Counter = 4,
}

/// A name and a value.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// The name.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    /// The value, if it is one of two.
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    /// The value, if it is a number.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// The value, if it is a text.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
}

/// A track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Its number.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Its name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The track that it is shown below.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// That it is a counter.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// How the tracks below it are ordered: [`EXPLICIT`].
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Its place among the tracks below the same one.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
}

/// Tracks are ordered by their rank.
pub const EXPLICIT: i32 = 3;

/// A counter.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// What it counts.
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}
