//! Runs, comparisons and results of humpyard: what stands between the command line and the two drivers.
//!
//! A [`RunConfig`] describes a run; [`simulate`] runs it in virtual time, [`run_live`] on real threads, or with a
//! virtual clock on none. Both give a [`RunResult`], the stable document of every run. [`compare()`] runs several
//! policies on the same packets, [`sweep`] every combination of options, [`recommend`] finds the policy that keeps
//! a goal.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use humpyard_lab::{Control, Host, Rate, RunConfig, compare};
//!
//! let mut config = RunConfig::new(Host::Sim, "gen:messages:packets=5000,elephant=0.5", "hrw".parse()?);
//! config.cores = 8;
//! config.rate = Rate::Load { load: 0.7, of: None };
//! let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
//! let mut control = Control::new(&stop, &mut progress);
//! let compared = compare(&config, &["hrw".parse()?, "drr".parse()?], 1, &mut control, |_, _| {})?;
//! let [hrw, drr] = &compared.runs[..] else { panic!("a run for each policy") };
//! // Half of the packets are of one flow, and a hash leaves them all to one core.
//! assert!(drr.summary.delay_ns.p99 < hrw.summary.delay_ns.p99);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod admit;
pub mod bottleneck;
pub mod calibrate;
mod check;
mod choice;
mod compare;
mod config;
mod control;
mod costs;
mod defaults;
mod demo;
mod dispatchers;
mod environment;
mod error;
pub mod findings;
mod follow;
mod journal;
mod journal_difference;
pub mod map;
mod meaning;
pub mod metrics;
mod offered;
pub mod option;
pub mod parts;
mod read_inputs;
pub mod recommend;
pub mod record;
mod recorded;
mod reload;
pub mod report;
mod result;
mod run;
#[cfg(feature = "schema")]
pub mod schema;
pub mod statistics;
pub mod steer;
pub mod sweep;
pub mod table;
mod threads;
pub mod timeline;
pub mod validate;
pub mod why;

pub use humpyard_plot::{self as plot, figures};

pub use check::{
    Checked, CheckedRule, came_to_nothing, check, check_here, full_before_late, late_by_a_switch, of_this_machine,
    without_effect,
};
pub use choice::assumed::{AssumedHost, HERE, IDEAL};
pub use choice::host::{Clock, Host};
pub use choice::link::{LinkChoice, parse_link};
pub use choice::numbers::{parse_speeds, parse_weights};
pub use choice::order::{ExitChoice, ExitParams, OrderChoice, Places, parse_order};
pub use choice::rate::Rate;
pub use choice::rule::RuleChoice;
pub use choice::service::ServiceChoice;
pub use choice::split::{SplitParams, parse_split};
pub use choice::time::Span;
pub use compare::{Comparison, compare};
pub use config::{OPTIONS, RunConfig, RunOption};
pub use control::{Control, ReadsNotes};
pub use costs::{
    AUTO, CostLine, Costs, DescribedHost, MEASURED_NOW, MachineCosts, Origin, ServiceCost, calibrated_path,
    cost_sources,
};
pub use demo::{CallDelay, DEMO_POLICIES, Demo, DemoOptions, demo};
pub use environment::{Environment, ThreadSeat, sha256_of};
pub use error::{LabError, OptionError, spelled};
pub use follow::{Follow, Follower};
pub use humpyard_text::quantity::{parse_count, parse_duration, parse_share, parse_whole};
pub use humpyard_topology::{CoreTree, TopologyChoice, Ways, parse_topology, topology_names};
pub use journal::{Replayed, ReplayedJournal, replay};
pub use journal_difference::JournalDifference;
pub use meaning::find_named;
pub use offered::{Offered, OfferedLoad};
pub use parts::dispatch::{DispatchChoice, dispatching};
pub use parts::link::link;
pub use parts::place::{Placed, placed};
pub use reload::Reload;
pub use result::link::LinkResult;
pub use result::{
    AssumedResult, Damage, DispatcherLoad, DurationSummary, ExitCounts, Hardware, HardwareThread, InForce, Measured,
    PacketCounts, Panic, PortCounts, RunResult, SplitCounts, TopFlow,
};
pub use run::{run, run_live, simulate};
