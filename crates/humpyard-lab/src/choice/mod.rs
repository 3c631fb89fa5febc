//! What options of a run can say: types, and how they read and are shown.

pub(crate) mod assumed;
pub(crate) mod host;
pub(crate) mod link;
pub(crate) mod numbers;
pub(crate) mod order;
pub(crate) mod rate;
pub(crate) mod rule;
pub(crate) mod service;
pub(crate) mod split;
pub(crate) mod swap;
pub(crate) mod time;
