//! Service errors over many draws of the weights: figures 4 to 11, the paper's claims on skew, and the law of
//! the weights that fits it.

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
