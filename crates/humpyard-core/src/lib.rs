//! The heart of humpyard: what a scheduling policy is, and the mechanism that asks it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod frame;
pub mod hash;
pub mod id;
pub mod packet;
pub mod random;
pub mod unit;
