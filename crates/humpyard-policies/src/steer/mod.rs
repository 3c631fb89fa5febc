//! Steering: which queue does an arriving packet join?

pub mod ahrw;
pub mod ap;
mod bid;
mod buckets;
pub mod ca_ahrw;
pub mod conn;
mod connections;
mod core_sets;
mod element_loads;
pub mod fcfs_thread;
pub mod flow_slice;
pub mod gps_hrw;
pub mod h_cahrw;
pub mod hrw;
pub mod hrw_kencl;
mod interval;
pub mod jsq;
pub mod jsq2;
pub mod ml;
pub mod mlp;
pub mod ovs;
mod parts;
mod prefix_tree;
pub mod ps_hrw;
pub mod rr;
pub mod rss_plus_plus;
pub mod scr;
pub mod sprayer;
pub mod ss;
pub mod theorem1;
mod tree;

#[cfg(test)]
mod testing;
