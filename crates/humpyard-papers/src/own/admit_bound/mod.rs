//! Tests admission: flows that keep to their reservation keep the delay that `humpyard admit` printed, while
//! others exceed theirs.

mod flows;
mod live;
mod simulated;
mod taken;
mod traffic;

use crate::harness::{Experiment, family};

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [family(&[simulated::AdmitBound]), family(&[live::AdmitBoundLive])].concat()
}
