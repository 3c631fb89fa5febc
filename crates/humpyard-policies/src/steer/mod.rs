//! Steering: which queue does an arriving packet join?

pub mod ahrw;
mod bid;
pub mod conn;
mod core_sets;
pub mod h_cahrw;
pub mod hrw;
pub mod jsq;
pub mod ml;
pub mod ps_hrw;
pub mod rr;
pub mod ss;
pub mod theorem1;
mod tree;

#[cfg(test)]
mod testing;
