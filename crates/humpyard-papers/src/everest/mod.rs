//! The allocation paper: Everest and its rivals on the six services of a gateway between IPv4 and IPv6.

mod claims;
mod figures;
mod live;
mod notes;
mod paper;
mod places;
mod prototype;
mod traces;
mod trial;

use crate::harness::{Experiment, family};

/// Every experiment of the paper.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [family(&figures::SERIES), family(&[prototype::Figure6]), family(&[live::Figure6Live]), family(&[traces::Traces])]
        .concat()
}
