//! Allocation: which service does each core work for?
//!
//! A core has the code of one service at a time, and every service has a core at the start. So
//! there must be at least as many cores as services, or
//! [`Build::new`](humpyard_core::policy::Build::new) fails. Services that may share cores should be
//! one service, or clients of a sharing policy. Choices that the papers leave open are in
//! `docs/concepts/allocation.md`.

pub mod caladan;
pub mod cohort;
pub mod cohort_e;
mod deadlines;
mod demand;
mod eager;
mod engine;
pub mod everest;
pub mod everest_ae;
pub mod everest_env;
pub mod everest_ld;
mod idle;
pub mod quantum;
pub mod seda;
pub mod r#static;

#[cfg(test)]
mod isolation;
#[cfg(test)]
mod testing;
