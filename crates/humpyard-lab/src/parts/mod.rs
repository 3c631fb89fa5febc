//! From a configuration to the parts that a driver takes.

pub(crate) mod demand;
pub(crate) mod dispatch;
pub(crate) mod link;
pub(crate) mod order;
pub(crate) mod place;
pub(crate) mod ruled;
pub(crate) mod setup;
pub(crate) mod several;

pub use demand::pacer;
pub(crate) use setup::scheduler;
pub use setup::{Records, classifier, cost_model, measured, no_line_rate, scheduler_config, source, timing};
