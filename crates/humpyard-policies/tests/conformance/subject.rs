//! The subjects whose promises are checked.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::policy::{BuildError, Family, Info, Promise};
use humpyard_policies::registry::{AnyAllocate, AnyEstimate, AnyShare, AnySteer, Entry};
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::conformance::Subject;

/// A registered policy.
pub(crate) struct Registered {
    pub(crate) spec: PolicySpec,
    info: Info,
}

impl Registered {
    /// Returns a registered policy in all its configurations: each of its variants, alone and with partners.
    pub(crate) fn all(entry: &Entry) -> Vec<Self> {
        let partnered = |spec: String| match entry.info.family {
            Family::Steer => vec![format!("allocate=static/steer={spec}"), spec],
            Family::Share => vec![format!("steer=hrw/share={spec}"), format!("allocate=static/share={spec}"), spec],
            Family::Allocate => vec![format!("allocate={spec}/share=drr"), spec],
            Family::Estimate => vec![format!("estimate={spec}/share=sfq")],
        };
        let parse = |text: String| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        entry.specs().flat_map(partnered).map(|text| Self { spec: parse(text), info: entry.info }).collect()
    }
}

impl Subject for Registered {
    type Steer = AnySteer;
    type Share = AnyShare;
    type Allocate = AnyAllocate;
    type Estimate = AnyEstimate;

    fn family(&self) -> Family {
        self.info.family
    }
    fn promises(&self) -> &'static [Promise] {
        self.info.promises
    }
    fn steer(&self, config: &SchedulerConfig) -> Result<Option<AnySteer>, BuildError> {
        self.spec.build_steer(config)
    }
    fn share(&self, config: &SchedulerConfig) -> Result<AnyShare, BuildError> {
        self.spec.build_share(config)
    }
    fn allocate(&self, config: &SchedulerConfig) -> Result<Option<AnyAllocate>, BuildError> {
        self.spec.build_allocate(config)
    }
    fn estimate(&self, config: &SchedulerConfig) -> Result<Option<AnyEstimate>, BuildError> {
        self.spec.build_estimate(config)
    }
}
