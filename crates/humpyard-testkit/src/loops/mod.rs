//! The smallest hosts that keep a policy busy endlessly: benchmarks measure their steps.

mod allocating;
mod hopping;
mod sharing;
mod steering;

pub use allocating::Allocating;
pub use hopping::Hopping;
pub use sharing::Sharing;
pub use steering::Steering;
