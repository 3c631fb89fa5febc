//! Estimation: how much work is a packet expected to take before it is served?

pub mod least_squares;
pub mod oracle;
pub mod table;
