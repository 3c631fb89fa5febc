//! Service errors over many draws of the weights: figures 4 to 11, and what the paper says of skew.

mod claims;
mod figures;
mod place;
mod skew;

use crate::harness::{Experiment, family};

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [family(&figures::SURFACES), family(&[skew::Skew])].concat()
}
