//! Allocation: which service does each core work for?
//!
//! A core has the code of one service at a time, and no policy here leaves a service without any at the start: so many services need
//! at least so many cores, or [`Build::new`](humpyard_core::policy::Build::new) refuses. Services that may share cores are one
//! service, or clients of a sharing policy instead. What the papers leave open is chosen in `docs/allocation.md`.

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
