//! Policies that a program defines. A [`PolicySpec`](crate::spec::PolicySpec) names them beside
//! those of the registry.
//!
//! ```
//! use humpyard_core::config::SchedulerConfig;
//! use humpyard_policies::own::OwnPolicy;
//! use humpyard_policies::share::drr::{Drr, DrrParams};
//! use humpyard_policies::spec::PolicySpec;
//! use humpyard_core::policy::Build;
//!
//! // Stands for a policy that the program defines.
//! let double = OwnPolicy::share("drr-double", |config: &SchedulerConfig| {
//!     let quantum = humpyard_core::policy::Auto::Given(2 * config.longest);
//!     Drr::new(&DrrParams { quantum, ..DrrParams::default() }, config)
//! })?;
//! let spec = "hrw".parse::<PolicySpec>()?.with(double)?;
//! assert_eq!(spec.to_string(), "steer=hrw/share=drr-double");
//! spec.build(&SchedulerConfig::new(4))?;
//! # Ok::<(), humpyard_core::policy::BuildError>(())
//! ```

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use ambassador::delegate_to_methods;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, FlowId, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{
    Allocate, BuildError, BuildErrorKind, Cause, Estimate, Family, Machine, Move, Policy, Promise, Reach, Share, Steer,
    Target, View, ambassador_impl_Allocate, ambassador_impl_Estimate, ambassador_impl_Policy, ambassador_impl_Share,
    ambassador_impl_Steer,
};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work};

use crate::registry::find;

/// Generates, for one family, the box that holds a policy that a program defines.
macro_rules! own {
    ($(#[$doc:meta])* $own:ident: $trait:ident by $object:ident) => {
        trait $object: $trait + fmt::Debug + Send {}

        impl<P: $trait + fmt::Debug + Send> $object for P {}

        $(#[$doc])*
        #[derive(Debug)]
        pub struct $own(Box<dyn $object>);

        impl $own {
            /// Boxes a policy.
            #[allow(clippy::implied_bounds_in_impls, reason = "not every family implies `Debug`")]
            pub fn new(policy: impl $trait + fmt::Debug + Send + 'static) -> Self {
                Self(Box::new(policy))
            }
        }

        #[delegate_to_methods]
        #[delegate(Policy, target_ref = "policy", target_mut = "policy_mut")]
        #[delegate($trait, target_ref = "policy", target_mut = "policy_mut")]
        impl $own {
            fn policy(&self) -> &dyn $object {
                &*self.0
            }

            fn policy_mut(&mut self) -> &mut dyn $object {
                &mut *self.0
            }
        }
    };
}

own! {
    /// A steering policy that a program defines.
    OwnSteer: Steer by SteerObject
}

own! {
    /// A sharing policy that a program defines.
    OwnShare: Share by ShareObject
}

own! {
    /// An allocation policy that a program defines.
    OwnAllocate: Allocate by AllocateObject
}

own! {
    /// An estimator that a program defines.
    OwnEstimate: Estimate by EstimateObject
}

/// Makes a policy for a run.
type Make<P> = Arc<dyn Fn(&SchedulerConfig) -> Result<P, BuildError> + Send + Sync>;

/// Makes a policy of one of the families.
#[derive(Clone)]
enum Maker {
    Steer(Make<OwnSteer>),
    Share(Make<OwnShare>),
    Allocate(Make<OwnAllocate>),
    Estimate(Make<OwnEstimate>),
}

/// A policy that a program defines: its name, its promises, and the function that builds it.
///
/// Every run builds the policy anew, and a sharing policy once for each queue.
#[derive(Clone)]
pub struct OwnPolicy {
    name: String,
    promises: Vec<Promise>,
    merges_clients: bool,
    simulated_only: bool,
    maker: Maker,
}

impl OwnPolicy {
    /// Returns a steering policy.
    ///
    /// # Errors
    /// Rejects a name that a registered policy has, and a name with characters other than letters,
    /// digits, `-` and `_`.
    pub fn steer<P: Steer + fmt::Debug + Send + 'static>(
        name: &str,
        make: impl Fn(&SchedulerConfig) -> Result<P, BuildError> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        Self::new(name, Maker::Steer(Arc::new(move |config| make(config).map(OwnSteer::new))))
    }

    /// Returns a sharing policy.
    ///
    /// # Errors
    /// As [`OwnPolicy::steer`].
    pub fn share<P: Share + fmt::Debug + Send + 'static>(
        name: &str,
        make: impl Fn(&SchedulerConfig) -> Result<P, BuildError> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        Self::new(name, Maker::Share(Arc::new(move |config| make(config).map(OwnShare::new))))
    }

    /// Returns an allocation policy.
    ///
    /// # Errors
    /// As [`OwnPolicy::steer`].
    pub fn allocate<P: Allocate + fmt::Debug + Send + 'static>(
        name: &str,
        make: impl Fn(&SchedulerConfig) -> Result<P, BuildError> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        Self::new(name, Maker::Allocate(Arc::new(move |config| make(config).map(OwnAllocate::new))))
    }

    /// Returns an estimator.
    ///
    /// # Errors
    /// As [`OwnPolicy::steer`].
    pub fn estimate<P: Estimate + Send + 'static>(
        name: &str,
        make: impl Fn(&SchedulerConfig) -> Result<P, BuildError> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        Self::new(name, Maker::Estimate(Arc::new(move |config| make(config).map(OwnEstimate::new))))
    }

    fn new(name: &str, maker: Maker) -> Result<Self, BuildError> {
        let refuse = |message| Err(BuildError::new(BuildErrorKind::Syntax, message));
        let is_plain = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
        if name.is_empty() || !name.chars().all(is_plain) {
            return refuse(format!("the name of a policy is letters, digits, `-` and `_`, not `{name}`"));
        }
        if find(name).is_some() {
            return refuse(format!("a policy of your own cannot be called `{name}`: there is one of that name"));
        }
        Ok(Self { name: name.to_owned(), promises: Vec::new(), merges_clients: false, simulated_only: false, maker })
    }

    /// Sets what the policy promises. By default it promises nothing.
    #[must_use]
    pub fn promising(self, promises: &[Promise]) -> Self {
        Self { promises: promises.to_owned(), ..self }
    }

    /// Declares that the sharing policy treats its queue as one client: see
    /// [`Share::merges_clients`].
    #[must_use]
    pub fn merging_clients(self) -> Self {
        Self { merges_clients: true, ..self }
    }

    /// Declares that the policy needs a virtual clock: live runs reject it.
    #[must_use]
    pub fn simulated_only(self) -> Self {
        Self { simulated_only: true, ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the policy decides.
    pub fn family(&self) -> Family {
        match self.maker {
            Maker::Steer(_) => Family::Steer,
            Maker::Share(_) => Family::Share,
            Maker::Allocate(_) => Family::Allocate,
            Maker::Estimate(_) => Family::Estimate,
        }
    }

    /// Returns what the policy promises.
    pub fn promises(&self) -> &[Promise] {
        &self.promises
    }

    pub(crate) fn merges_clients(&self) -> bool {
        self.merges_clients
    }

    pub(crate) fn is_simulated_only(&self) -> bool {
        self.simulated_only
    }

    /// Makes the steering policy. `None`: the policy is of another family.
    pub(crate) fn build_steer(&self, config: &SchedulerConfig) -> Option<Result<OwnSteer, BuildError>> {
        if let Maker::Steer(make) = &self.maker { Some(make(config)) } else { None }
    }

    /// Makes the sharing policy. `None`: the policy is of another family.
    pub(crate) fn build_share(&self, config: &SchedulerConfig) -> Option<Result<OwnShare, BuildError>> {
        if let Maker::Share(make) = &self.maker { Some(make(config)) } else { None }
    }

    /// Makes the allocation policy. `None`: the policy is of another family.
    pub(crate) fn build_allocate(&self, config: &SchedulerConfig) -> Option<Result<OwnAllocate, BuildError>> {
        if let Maker::Allocate(make) = &self.maker { Some(make(config)) } else { None }
    }

    /// Makes the estimator. `None`: the policy is of another family.
    pub(crate) fn build_estimate(&self, config: &SchedulerConfig) -> Option<Result<OwnEstimate, BuildError>> {
        if let Maker::Estimate(make) = &self.maker { Some(make(config)) } else { None }
    }
}

/// Two policies are equal if they have the same name and the same function builds them.
impl PartialEq for OwnPolicy {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.maker, &other.maker) {
            (Maker::Steer(one), Maker::Steer(two)) => Arc::ptr_eq(one, two),
            (Maker::Share(one), Maker::Share(two)) => Arc::ptr_eq(one, two),
            (Maker::Allocate(one), Maker::Allocate(two)) => Arc::ptr_eq(one, two),
            (Maker::Estimate(one), Maker::Estimate(two)) => Arc::ptr_eq(one, two),
            _ => false,
        };
        is_same && self.name == other.name
    }
}

impl Eq for OwnPolicy {}

impl fmt::Debug for OwnPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OwnPolicy");
        shown.field("name", &self.name).field("family", &self.family()).field("promises", &self.promises);
        shown.finish_non_exhaustive()
    }
}

impl fmt::Display for OwnPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
