//! Allocation: which service does each core work for?

pub mod r#static;
