//! Steering: which queue does an arriving packet join?

pub mod conn;
pub mod hrw;
pub mod rr;

#[cfg(test)]
mod testing;
