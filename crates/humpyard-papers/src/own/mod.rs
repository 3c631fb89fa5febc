//! Experiments of this project, without a paper.

mod admit_bound;
mod recommend;

use crate::harness::Experiment;

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [admit_bound::experiments(), recommend::experiments()].concat()
}
