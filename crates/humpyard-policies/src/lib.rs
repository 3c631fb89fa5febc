//! The scheduling policies of humpyard, one file each, and their registry.
//!
//! Each policy is a pure state machine behind a trait of `humpyard_core::policy`. [`registry`] finds them by name,
//! and [`own`] names policies of a program's own beside them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod allocate;
pub mod estimate;
pub mod own;
pub mod registry;
pub mod share;
pub mod spec;
pub mod steer;

#[cfg(test)]
mod testing;
