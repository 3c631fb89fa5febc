//! The rivals of the specification: policies with a central queue, a bounded queue, a quantum, a
//! table of buckets or histories.

mod batch;
mod caladan;
mod jbsq;
mod load;
mod machine;
mod nfvnice;
mod ovs;
mod paper;
mod preemption;
mod rss;
mod scr;
mod skewed;
mod slowdown;

use crate::harness::Experiment;

/// Every experiment with rivals.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    vec![
        &slowdown::Slowdown,
        &preemption::Preemption,
        &jbsq::HandOver,
        &rss::Buckets,
        &ovs::Queues,
        &scr::Skew,
        &nfvnice::Backpressure,
        &caladan::TailGoal,
        &batch::DelayGoal,
    ]
}
