//! The proportional share paper: group ratio round-robin (GR3) and its rivals.

mod claims;
mod costs;
mod errors;
mod live;
mod paper;
mod scheduled;
mod schedules;
mod surfaces;
mod web_servers;

use crate::harness::{Experiment, family};

/// Every experiment of the paper.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [
        family(&schedules::SCHEDULES),
        surfaces::experiments(),
        costs::experiments(),
        web_servers::experiments(),
        live::experiments(),
        claims::experiments(),
    ]
    .concat()
}
