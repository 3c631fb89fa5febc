//! Every registered policy, in every scenario of the corpus: packets are conserved, promises kept, and nothing is allocated.
//!
//! What is registered is found in the registry, with the variants that each policy names; what is promised is in its `INFO`.
//! So a new policy is held to all of this without a line here.

mod allocation;
mod corpus;
mod counting;
mod faults;
mod memory;
mod registered;
mod subject;
