//! Allocation: which service does each core work for?

pub mod everest;
pub mod r#static;

#[cfg(test)]
mod testing;
