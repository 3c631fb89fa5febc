//! What arrives at an interface of this machine, why one of its processors has most of it, and what steering policies
//! would have done with it: `humpyard steer`.
//!
//! The kernel counts in buckets of connections (`humpyard_wire::BucketCounters`). Samples of these counts are a
//! [`SteerRecord`]. Of a record a [`Diagnosis`] is made: the simulator replays it under each policy, a flow for each
//! bucket.

mod apply;
mod cause;
mod diagnosis;
mod observe;
mod record;
mod replay;
mod twin;

pub use self::apply::{Applied, ApplyOptions, Steered, Strain, apply};
pub use self::diagnosis::{Diagnosis, Foreseen, ProcessorLoad, diagnose};
pub use self::observe::{ObserveOptions, observe};
pub use self::record::{BucketSample, HeavyFlow, ProcessorSample, RecordHead, SteerRecord, SteerSample};

/// Policies that can steer buckets, in the order in which they are compared unless told otherwise.
pub const STEER_POLICIES: [&str; 7] = ["hrw", "ahrw", "ca-ahrw", "ps-hrw", "rss++", "ap", "flow-slice"];
