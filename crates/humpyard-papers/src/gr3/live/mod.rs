//! Figures 13 to 19 of the GR3 paper on live threads, which a policy dispatches from user space, or only the
//! kernel.

mod kernel;
mod messages;
mod names;
mod notes;
mod processors;
mod search;
mod turns;
mod web_servers;

use crate::harness::{Experiment, family};

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [family(&[messages::LiveMessages]), family(&web_servers::SERVERS)].concat()
}
