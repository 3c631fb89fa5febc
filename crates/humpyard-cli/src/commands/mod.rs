//! The commands, one file each.

pub(crate) mod admit;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod compare;
mod costs;
pub(crate) mod dask;
pub(crate) mod demo;
pub(crate) mod files;
mod findings;
mod keys;
pub(crate) mod list;
#[cfg(feature = "manual")]
pub(crate) mod manual;
pub(crate) mod map;
pub(crate) mod recommend;
mod recommendation;
mod reload;
pub(crate) mod replay;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod steer;
pub(crate) mod sweep;
pub(crate) mod table;
#[cfg(feature = "top")]
pub(crate) mod top;
pub(crate) mod topology;
pub(crate) mod trace;
pub(crate) mod validate;
pub(crate) mod why;

mod configuration;
mod draws;
mod page;
mod schema;
mod service_error;
