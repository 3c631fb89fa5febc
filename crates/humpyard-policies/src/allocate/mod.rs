//! Allocation: which service does each core work for?

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
