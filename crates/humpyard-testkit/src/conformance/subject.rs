//! The policy under test.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::policy::{Allocate, BuildError, Estimate, Family, Promise, Share, Steer};

/// A policy, and the partners that it plays with.
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
    /// The policy rejects the configuration.
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

    /// Returns the promises to check for the part of this family.
    fn promises_of(&self, family: Family) -> &[Promise] {
        if family == self.family() { self.promises() } else { &[] }
    }
}
