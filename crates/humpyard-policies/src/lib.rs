//! The scheduling policies of humpyard, one file each, and their registry.
#![no_std]
#![forbid(unsafe_code)]
