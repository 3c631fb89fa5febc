//! The cost of decisions: figures 12 and 13 of the GR3 paper.

mod churn;
pub(super) mod machine;
pub(super) mod messages;
mod select;
pub(super) mod subject;

use crate::harness::{Experiment, family};

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [family(&[select::SelectCost]), family(&[churn::ChurnCost])].concat()
}
