//! Films that are really transcoded, by libav: what a group of pictures takes, and figures 8, 10, 12 and 14 on live threads.

mod costs;
mod films;
mod host;
mod live;

use super::Experiment;

/// Every experiment here.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Experiment> {
    let all: [&dyn Experiment; 2] = [&costs::GopCosts, &live::LiveFilms];
    all.into_iter()
}
