//! Every registered policy, in every scenario of the corpus: packets are conserved, promises kept,
//! and nothing is allocated.
//!
//! The registry lists the policies, and each policy names its variants and, in its `INFO`, its
//! promises. So a new policy is checked without a line here.

mod allocation;
mod corpus;
mod counting;
mod faults;
mod memory;
mod registered;
mod subject;
