//! Runs, comparisons and results of humpyard: what stands between the command line and the two drivers.
//!
//! A [`RunConfig`] says what is to be run; [`simulate`] runs it in virtual time, [`run_live`] on real threads, or with a virtual clock on none. Both give a
//! [`RunResult`], the stable document of every run.
#![forbid(unsafe_code)]

pub mod admit;
pub mod bottleneck;
pub mod calibrate;
mod check;
mod compare;
mod config;
mod costs;
mod demo;
mod environment;
mod error;
pub mod experiments;
pub mod figures;
pub mod findings;
mod journal;
mod link;
pub mod metrics;
mod offered;
mod order;
mod page;
mod parts;
pub mod plot;
pub mod recommend;
mod recorded;
mod reload;
pub mod report;
mod result;
mod rule;
mod run;
mod several;
mod split;
pub mod statistics;
pub mod timeline;
mod topology;
pub mod validate;

pub use check::{
    Checked, CheckedRule, came_to_nothing, check, check_here, full_before_late, late_by_a_switch, without_effect,
};
pub use compare::{Comparison, compare};
pub use config::{Clock, Host, Rate, RunConfig, ServiceChoice, parse_duration, parse_share};
pub use costs::{AUTO, CostLine, Costs, MachineCosts, Origin, ServiceCost, calibrated_path, cost_sources};
pub use demo::{DEMO_POLICIES, Demo, DemoOptions, OFFERED, demo};
pub use environment::{Environment, ThreadSeat};
pub use error::LabError;
pub use journal::{Parting, Replayed, replay};
pub use link::{LinkChoice, LinkResult, parse_link};
pub use offered::{Offered, OfferedLoad};
pub use order::{ExitChoice, ExitParams, OrderChoice, Places, parse_order};
pub use reload::Reload;
pub use result::{
    Damage, DispatcherLoad, DurationSummary, ExitCounts, Hardware, HardwareThread, InForce, Measured, PacketCounts,
    Panic, PortCounts, RunResult, SplitCounts, TopFlow,
};
pub use rule::RuleChoice;
pub use run::{Control, run, run_live, simulate};
pub use split::{Span, SplitParams, parse_split};
pub use topology::{CoreTree, TopologyChoice, Ways, parse_topology, topology_names};
