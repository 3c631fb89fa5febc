//! Allocation: which service does each core work for?

mod demand;
mod engine;
pub mod everest;
pub mod everest_env;
pub mod r#static;

#[cfg(test)]
mod testing;
