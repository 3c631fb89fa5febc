//! The web servers of figures 14 to 19, in virtual time.

mod claims;
mod figures;
pub(super) mod servers;
pub(super) mod service;

use crate::harness::{Experiment, family};

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    family(&figures::SERVERS)
}
