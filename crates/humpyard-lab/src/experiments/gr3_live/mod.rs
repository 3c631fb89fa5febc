//! Figures 13 to 19 of the GR3 paper on live threads, which a policy dispatches from user space, or the kernel alone.

mod claims;
mod kernel;
mod messages;
mod processors;
mod search;
mod turns;
mod web_servers;

use super::Experiment;

/// Every experiment here.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Experiment> {
    core::iter::once(&messages::LiveMessages as _).chain(web_servers::all())
}
