//! Estimation: what is a packet believed to cost before it is served?

pub mod least_squares;
pub mod oracle;
pub mod table;
