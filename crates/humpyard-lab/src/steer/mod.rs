//! What arrives at an interface of this machine, why one of its processors has most of it, and what steering policies
//! would have done with it: `humpyard steer`.
//!
//! The kernel counts in buckets of connections (`humpyard_wire::BucketCounters`). Samples of these counts are a
//! [`SteerRecord`]. Of a record a [`Diagnosis`] is made: the simulator replays it under each policy, a flow for each
//! bucket.

mod apply;
mod card;
mod cause;
mod change;
mod diagnosis;
mod fanout;
mod figures;
mod foresee;
mod observe;
mod receive;
mod replay;
mod report;
mod tables;
mod target;
mod twin;

pub use self::apply::{Applied, ApplyOptions, HandedOver, Steered, Steering, Strain, check_policies};
pub use self::change::{Undone, check_free, undo};
pub use self::diagnosis::{DiagnoseOptions, Diagnosis, ProcessorLoad, QueueLoad, RPS, diagnose};
pub use self::figures::LiveFigures;
pub use self::foresee::Foreseen;
pub use self::observe::{ObserveOptions, observe};
pub use self::report::report;
pub use self::target::SteerTarget;
pub use humpyard_traffic::steer_record::{
    BucketSample, HeavyFlow, ProcessorSample, RecordHead, SteerRecord, SteerSample,
};

use humpyard_core::config::SchedulerConfig;
use humpyard_policies::spec::PolicySpec;

use crate::LabError;

/// Says what an operator has to know of an interface before its packets go to other processors; mostly nothing.
pub fn caution(interface: &str) -> Option<String> {
    humpyard_wire::BucketCounters::caution(interface)
}

/// Checks that a policy does nothing but steer, on this many cores.
fn check_steers(policy: &PolicySpec, cores: usize) -> Result<(), LabError> {
    let config = SchedulerConfig::new(cores).with_flows(2);
    let refused = |error: humpyard_core::policy::BuildError| LabError::option(error.to_string());
    let steers = policy.build_steer(&config).map_err(refused)?.is_some();
    match steers && policy.build_allocate(&config).map_err(refused)?.is_none() {
        true => Ok(()),
        false => Err(LabError::option(format!(
            "`{policy}` does not steer packets to cores: name one of {}",
            STEER_POLICIES.join(", ")
        ))),
    }
}

/// Policies that can steer buckets, in the order in which they are compared unless told otherwise.
pub const STEER_POLICIES: [&str; 7] = ["hrw", "ahrw", "ca-ahrw", "ps-hrw", "rss++", "ap", "flow-slice"];
