//! What is held to its promises.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::policy::{Allocate, BuildError, Estimate, Family, Promise, Share, Steer};

/// A policy, and the partners that it is played with.
pub trait Subject {
    /// The steering policy.
    type Steer: Steer;
    /// The sharing policy.
    type Share: Share;
    /// The allocation policy.
    type Allocate: Allocate;
    /// The estimator.
    type Estimate: Estimate + Send + 'static;

    /// Returns the family of the policy; the others are partners.
    fn family(&self) -> Family;

    /// Returns what the policy promises.
    fn promises(&self) -> &[Promise];

    /// Returns whether flows stay in order if each client has one packet in service: no partner sends them elsewhere.
    fn holds_flows(&self) -> bool {
        true
    }

    /// Makes the steering policy, if there is one.
    ///
    /// # Errors
    /// A configuration that the policy refuses.
    fn steer(&self, config: &SchedulerConfig) -> Result<Option<Self::Steer>, BuildError>;

    /// Makes the sharing policy.
    ///
    /// # Errors
    /// As [`Subject::steer`].
    fn share(&self, config: &SchedulerConfig) -> Result<Self::Share, BuildError>;

    /// Makes the allocation policy, if there is one.
    ///
    /// # Errors
    /// As [`Subject::steer`].
    fn allocate(&self, config: &SchedulerConfig) -> Result<Option<Self::Allocate>, BuildError>;

    /// Makes the estimator, if there is one.
    ///
    /// # Errors
    /// As [`Subject::steer`].
    fn estimate(&self, config: &SchedulerConfig) -> Result<Option<Self::Estimate>, BuildError>;

    /// Returns what the part of this family is held to.
    fn promises_of(&self, family: Family) -> &[Promise] {
        if family == self.family() { self.promises() } else { &[] }
    }
}
