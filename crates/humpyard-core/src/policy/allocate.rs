//! Allocate: which service does each core work for?

use super::Policy;
use crate::id::{CoreId, IdVec, ServiceId};

/// An allocation policy.
pub trait Allocate: Policy {
    /// The service of each core at the start. Every service has at least one core.
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>);
}
