//! Tests whether the search of `recommend` finds the policy that an exhaustive search finds.

mod scenarios;
mod search;

use crate::harness::{Experiment, family};

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    family(&[search::Scenarios])
}
