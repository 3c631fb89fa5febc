//! Data structures for policies, each written and tested once. None allocates after construction.

mod first_match;
mod id_circles;
mod id_ring;
mod id_rings;
mod id_set;
mod indexed_heap;

pub use first_match::{Asked, FirstMatch, Prefix};
pub use id_circles::IdCircles;
pub use id_ring::IdRing;
pub use id_rings::IdRings;
pub use id_set::IdSet;
pub use indexed_heap::IndexedHeap;
