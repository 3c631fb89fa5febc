//! Common parts of runs.

use core::sync::atomic::AtomicBool;

use humpyard_policies::spec::PolicySpec;

use humpyard_lab::{Control, OrderChoice};

/// Returns the order in which packets leave in the papers' experiments, which have no exit stage. If a policy
/// keeps flows in order when a client has one packet in service at a time, the run does that. Under other
/// policies, packets leave when they are done.
pub(crate) fn held_order(policy: &PolicySpec) -> OrderChoice {
    if policy.holds_flows() { OrderChoice::Hold } else { OrderChoice::Free }
}

/// Runs a function without a stop flag and without progress reports.
pub(crate) fn unstopped<T>(run: impl FnOnce(&mut Control<'_>) -> T) -> T {
    run(&mut Control::new(&AtomicBool::new(false), &mut |_, _| ()))
}
