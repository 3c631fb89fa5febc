//! Lists every policy by name, in reading order. Lookup, help, JSON and error messages derive from this list.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter;

use ambassador::Delegate;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, FlowId, IdVec, ServiceId};
use humpyard_core::mechanism::Never;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{
    Allocate, Build, BuildError, Cause, Estimate, Family, Info, Machine, Move, Parameter, Params, Policy, Reach, Share,
    Steer, Target, View, ambassador_impl_Allocate, ambassador_impl_Estimate, ambassador_impl_Policy,
    ambassador_impl_Share, ambassador_impl_Steer,
};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work};
use serde::Serialize;

use crate::own::{OwnAllocate, OwnEstimate, OwnShare, OwnSteer};
use crate::{allocate, estimate, share, steer};

/// One policy in the registry.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The policy's description of itself.
    #[serde(flatten)]
    pub info: Info,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Parameters with which the policy decides differently than with its defaults: see
    /// [`Build::VARIANTS`].
    #[serde(skip)]
    pub variants: &'static [&'static str],
}

impl Entry {
    /// Returns the specs of this policy, as a [`PolicySpec`](crate::spec::PolicySpec) reads them:
    /// first with the defaults, then each variant.
    pub fn specs(&self) -> impl Iterator<Item = String> + use<> {
        let name = self.info.name;
        let variants = self.variants.iter().map(move |variant| format!("{name}:{variant}"));
        iter::once(name.to_owned()).chain(variants)
    }
}

fn entry<P: Build>() -> Entry {
    Entry { info: P::INFO, parameters: P::Params::parameters(), variants: P::VARIANTS }
}

/// Checks the parameters alone, so that errors are reported before the configuration is known.
/// Returns the steering policy that these parameters require. `None`: they require none.
fn check_parameters<P: Build>(pairs: &[(String, String)]) -> Result<Option<&'static str>, BuildError> {
    Ok(P::steered_by(&P::Params::from_pairs(P::INFO.name, pairs)?))
}

fn build<P: Build>(pairs: &[(String, String)], config: &SchedulerConfig) -> Result<P, BuildError> {
    P::new(&P::Params::from_pairs(P::INFO.name, pairs)?, config)
}

/// Generates the code of one family from one list: an enum of its policies, its table, and the
/// delegation of all methods of its trait. With the enum, one instantiation of the mechanism serves
/// all policies. A new policy is one line here. `$own` holds a policy that a program defines.
macro_rules! family {
    (
        $(#[$doc:meta])* $any:ident: $trait:ident or $own:ident
        [$($variant:ident($policy:ty)),+ $(,)?] $(visited by $visitor:ident)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Delegate)]
        // A tag of its own is read by one instruction; a niche inside a policy takes five.
        #[repr(u8)]
        #[delegate(Policy)]
        #[delegate($trait)]
        #[expect(missing_docs, reason = "each variant is the policy of its name")]
        #[allow(clippy::large_enum_variant, reason = "there is one for each queue, and a detour would cost every decision")]
        pub enum $any {
            $($variant($policy),)+
            Own($own),
        }

        impl $any {
            /// The policies of this family, in reading order.
            pub fn entries() -> Vec<Entry> {
                [$(entry::<$policy>()),+].into()
            }

            /// Checks whether the policy of this name accepts these parameters. Returns the
            /// steering policy that they require if the spec names none. `None`: this family has no
            /// policy of this name.
            pub(crate) fn check_parameters(
                name: &str,
                pairs: &[(String, String)],
            ) -> Option<Result<Option<&'static str>, BuildError>> {
                $(if name == <$policy>::INFO.name {
                    return Some(check_parameters::<$policy>(pairs));
                })+
                None
            }

            /// Builds the policy of this name. `None`: this family has no such policy.
            pub(crate) fn build(
                name: &str,
                pairs: &[(String, String)],
                config: &SchedulerConfig,
            ) -> Option<Result<Self, BuildError>> {
                $(if name == <$policy>::INFO.name {
                    return Some(build::<$policy>(pairs, config).map(Self::$variant));
                })+
                None
            }
        }

        $(convert! { $any::$variant($policy) })+
        convert! { $any::Own($own) }

        /// Unreachable: a [`Never`] does not exist.
        impl From<Never> for $any {
            fn from(never: Never) -> Self {
                match never {}
            }
        }

        /// Always fails, because every enum value holds a policy.
        impl TryFrom<$any> for Never {
            type Error = $any;

            fn try_from(any: $any) -> Result<Self, $any> {
                Err(any)
            }
        }

        visit! { $any [$($variant)+ Own] $($visitor)* }
    };
}

/// Generates the conversions between the enum of a family and one of its policies.
macro_rules! convert {
    ($any:ident::$variant:ident($policy:ty)) => {
        impl From<$policy> for $any {
            fn from(policy: $policy) -> Self {
                Self::$variant(policy)
            }
        }

        /// Fails and returns the enum if it holds another policy.
        impl TryFrom<$any> for $policy {
            type Error = $any;

            fn try_from(any: $any) -> Result<Self, $any> {
                match any {
                    $any::$variant(policy) => Ok(policy),
                    other => Err(other),
                }
            }
        }
    };
}

/// Generates `visit` for a family with a visitor trait; it passes the policy inside the enum, with
/// its own type, to a visitor.
macro_rules! visit {
    ($any:ident $variants:tt) => {};
    ($any:ident [$($variant:ident)+] $visitor:ident) => {
        impl $any {
            /// Passes the policy inside to a visitor. The visitor calls it by its own type, without
            /// a branch for each call.
            pub fn visit<V: $visitor>(self, visitor: V) -> V::Answer {
                match self {
                    $(Self::$variant(policy) => visitor.visit(policy)),+
                }
            }
        }
    };
}

family! {
    /// Any steering policy.
    AnySteer: Steer or OwnSteer [
        Rr(steer::rr::Rr),
        Conn(steer::conn::Conn),
        RssPlusPlus(steer::rss_plus_plus::RssPlusPlus),
        Ovs(steer::ovs::Ovs),
        Jsq(steer::jsq::Jsq),
        Jsq2(steer::jsq2::Jsq2),
        Hrw(steer::hrw::Hrw),
        HrwKencl(steer::hrw_kencl::HrwKencl),
        Ahrw(steer::ahrw::Ahrw),
        CaAhrw(steer::ca_ahrw::CaAhrw),
        HCahrw(steer::h_cahrw::HCahrw),
        Ap(steer::ap::Ap),
        GpsHrw(steer::gps_hrw::GpsHrw),
        PsHrw(steer::ps_hrw::PsHrw),
        FlowSlice(steer::flow_slice::FlowSlice),
        Sprayer(steer::sprayer::Sprayer),
        Scr(steer::scr::Scr),
        Ss(steer::ss::Ss),
        FcfsThread(steer::fcfs_thread::FcfsThread),
        Ml(steer::ml::Ml),
        Mlp(steer::mlp::Mlp),
    ]
}

family! {
    /// Any sharing policy.
    AnyShare: Share or OwnShare [
        Fcfs(share::fcfs::Fcfs),
        Wrr(share::wrr::Wrr),
        Drr(share::drr::Drr),
        Lottery(share::lottery::Lottery),
        Stride(share::stride::Stride),
        VirtualClock(share::virtual_clock::VirtualClock),
        Wfq(share::wfq::WfqTree),
        WfqList(share::wfq::WfqList),
        Sfq(share::sfq::Sfq),
        Wf2qPlus(share::wf2q_plus::Wf2qPlus),
        Eevdf(share::eevdf::Eevdf),
        Vtrr(share::vtrr::Vtrr),
        Srr(share::srr::Srr),
        Strr(share::strr::Strr),
        Gr3(share::gr3::Gr3),
        Gr3mp(share::gr3mp::Gr3mp),
        Qfq(share::qfq::Qfq),
        QfqPlus(share::qfq_plus::QfqPlus),
        Sfs(share::sfs::Sfs),
        Linux24(share::linux24::Linux24),
        LinuxO1(share::linux_o1::LinuxO1),
        Efq(share::efq::Efq),
        EfqWarm(share::efq_warm::EfqWarm),
        Lap(share::lap::Lap),
        EfqLap(share::efq_lap::EfqLap),
        TOpt(share::t_opt::TOpt),
        Darc(share::darc::Darc),
        Jbsq(share::jbsq::Jbsq),
        Ps(share::ps::Ps),
        Shinjuku(share::shinjuku::Shinjuku),
        Concord(share::concord::Concord),
        Edf(share::edf::Edf),
        Srpt(share::srpt::Srpt),
        NfvNice(share::nfvnice::NfvNice),
        Batch(share::batch::Batch),
    ]
    visited by ShareVisitor
}

/// An operation on a sharing policy of any type: see [`AnyShare::visit`].
pub trait ShareVisitor {
    /// The result of the operation.
    type Answer;

    /// Runs the operation.
    fn visit<Q: Share>(self, policy: Q) -> Self::Answer;
}

impl AnyShare {
    /// Returns the most draws from the run queue that one pick has taken so far. `None`: the policy
    /// has no such queue.
    pub fn draws_max(&self) -> Option<u32> {
        match self {
            Self::Gr3mp(policy) => Some(policy.draws_max()),
            _ => None,
        }
    }
}

family! {
    /// Any allocation policy.
    AnyAllocate: Allocate or OwnAllocate [
        Static(allocate::r#static::Static),
        Quantum(allocate::quantum::Quantum),
        Cohort(allocate::cohort::Cohort),
        CohortE(allocate::cohort_e::CohortE),
        Seda(allocate::seda::Seda),
        Caladan(allocate::caladan::Caladan),
        Everest(allocate::everest::Everest),
        EverestLd(allocate::everest_ld::EverestLd),
        EverestAe(allocate::everest_ae::EverestAe),
        EverestEnv(allocate::everest_env::EverestEnv),
    ]
}

family! {
    /// Any estimator.
    AnyEstimate: Estimate or OwnEstimate [
        Table(estimate::table::Table),
        Oracle(estimate::oracle::Oracle),
        LeastSquares(estimate::least_squares::LeastSquares),
    ]
}

/// A policy of the family `Any`, for a host that compiles a loop for this policy alone.
pub trait OneOf<Any>: TryFrom<Any> + Into<Any> {
    /// Returns the policy, which must be of this type.
    ///
    /// # Panics
    /// If it is another policy.
    fn of(any: Any) -> Self {
        Self::try_from(any).unwrap_or_else(|_| unreachable!("the policy is of another type"))
    }
}

impl<Any, P: TryFrom<Any> + Into<Any>> OneOf<Any> for P {}

/// Every policy of every family, in reading order.
pub fn entries() -> Vec<Entry> {
    let mut all = AnySteer::entries();
    all.extend(AnyShare::entries());
    all.extend(AnyAllocate::entries());
    all.extend(AnyEstimate::entries());
    all
}

/// Returns the policy of this name.
pub fn find(name: &str) -> Option<Entry> {
    entries().into_iter().find(|entry| entry.info.name == name)
}

/// Returns the names of all policies, or of one family.
pub(crate) fn names(family: Option<Family>) -> Vec<String> {
    entries()
        .into_iter()
        .filter(|entry| family.is_none_or(|family| entry.info.family == family))
        .map(|entry| entry.info.name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::PolicySpec;
    use alloc::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_entry_is_complete() {
        let mut names = BTreeSet::new();
        for entry in entries() {
            assert!(names.insert(entry.info.name), "{} twice", entry.info.name);
            assert!(!entry.info.summary.is_empty() && !entry.info.source.is_empty(), "{}", entry.info.name);
            assert!(!entry.info.complexity.is_empty(), "{}", entry.info.name);
            let decides = entry.info.family != Family::Estimate;
            assert_eq!(!entry.info.promises.is_empty(), decides, "what {} promises", entry.info.name);
            for parameter in &entry.parameters {
                assert!(!parameter.summary.is_empty(), "{}: {}", entry.info.name, parameter.name);
            }
            for spec in entry.specs() {
                assert!(spec.parse::<PolicySpec>().is_ok(), "{spec}");
            }
        }
    }
}
