//! Service errors over many draws of the weights: figures 4 to 11, what the paper says of skew, and which law of
//! the weights fits it.

mod claims;
mod figures;
mod laws;
mod place;
mod skew;

use crate::harness::{Experiment, family};

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [family(&figures::SURFACES), family(&[skew::Skew]), family(&[laws::Laws])].concat()
}
