//! The heart of humpyard: what a scheduling policy is, and the mechanism that asks it.
//!
//! Nothing here has a clock, a thread or I/O. A driver (the simulator, the data plane, your program) feeds
//! [`mechanism::Scheduler`] with arrivals and completions and asks it what each core does next; the scheduler asks the
//! policies, whose traits are in [`policy`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// What the macros of this crate use in crates that do not name `alloc`.
#[doc(hidden)]
pub mod policy_alloc {
    pub use alloc::{format, string, vec};
}

pub mod config;
pub mod cost;
pub mod frame;
pub mod hash;
pub mod id;
pub mod link;
pub mod measure;
pub mod mechanism;
pub mod name;
pub mod packet;
pub mod policy;
pub mod random;
pub mod rendezvous;
pub mod steps;
pub mod storage;
pub mod unit;
