//! What runs of experiments have in common.

use core::sync::atomic::AtomicBool;

use humpyard_policies::spec::PolicySpec;

use humpyard_lab::{Control, OrderChoice};

/// How packets leave in the experiments of the papers, which have no exit: under a policy that keeps flows in order if
/// a client has one packet in service at a time, it has; under others packets leave as they are done.
pub(crate) fn held_order(policy: &PolicySpec) -> OrderChoice {
    if policy.holds_flows() { OrderChoice::Hold } else { OrderChoice::Free }
}

/// Runs something that nobody stops, and of whose progress nobody hears.
pub(crate) fn unstopped<T>(run: impl FnOnce(&mut Control<'_>) -> T) -> T {
    run(&mut Control::new(&AtomicBool::new(false), &mut |_, _| ()))
}
