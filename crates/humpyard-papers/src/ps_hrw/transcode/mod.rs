//! Films that libav really transcodes: the time of a group of pictures, and figures 8, 10, 12 and 14 on live
//! threads.

mod costs;
mod films;
mod host;
mod live;

use crate::harness::{Experiment, family};

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [family(&[costs::GopCosts]), family(&[live::LiveFilms])].concat()
}
