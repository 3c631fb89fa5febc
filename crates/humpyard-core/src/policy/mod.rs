//! What a scheduling policy is: a pure state machine that is told of events and asked for decisions.
//!
//! A verb asks, `on_` tells. Three families decide three things, each in a trait of its own: [`Steer`] which queue an
//! arriving packet joins, [`Share`] which client an idle core serves next, [`Allocate`] which service a core works for.
//!
//! # Contract
//! * `now` never goes back. Events of one instant come in this order: completions and ends of switches by ascending core,
//!   timeouts, arrivals, questions of idle cores.
//! * A policy has no clock, thread, I/O or global state, allocates nothing after [`Build::new`], and cannot fail there:
//!   overload is a drop by the mechanism, misuse by a host is an assertion.
//! * Ties go to the lower id, unless [`SchedulerConfig::ties`] says otherwise.
//! * The same events give the same decisions, on every machine.

mod allocate;
mod build_error;
mod estimate;
mod info;
mod machine;
mod parameter;
mod share;
mod steer;
mod ties;
mod topology;
mod view;

pub use allocate::{Allocate, Cause, Move};
pub use build_error::{BuildError, BuildErrorKind};
pub use estimate::Estimate;
pub use info::{Family, Info, Promise};
pub use machine::{Activity, CoreState, Machine, ServiceState};
#[doc(hidden)]
pub use parameter::in_unit;
pub use parameter::{Auto, Entry, Parameter, ParameterError, ParameterValue, Params};
pub use share::Share;
pub use steer::{Reach, Steer, Target};
pub use ties::Ties;
pub use topology::{Apart, Level, LevelKind, Topology};
pub use view::{CoreView, View};
#[doc(hidden)]
pub use {
    allocate::ambassador_impl_Allocate, estimate::ambassador_impl_Estimate, share::ambassador_impl_Share,
    steer::ambassador_impl_Steer,
};

use ambassador::delegatable_trait;

use crate::config::SchedulerConfig;
use crate::unit::Time;

/// What all policies share.
#[delegatable_trait]
pub trait Policy {
    /// Whether the policy may ever want to be told of the time. The answer must never change. If it is
    /// false, nobody calls [`Policy::next_timeout`], which saves a call for every event.
    fn keeps_time(&self) -> bool {
        true
    }

    /// When the policy wants to be told of the time; none is never. Asked after every event; steering and allocation have
    /// the time, sharing works without.
    fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// The time that [`Policy::next_timeout`] named has come, or passed. Being told too often does no harm.
    fn on_timeout(&mut self, _now: Time) {}

    /// Panics if a documented invariant is broken. May be slow: tests call it after every event.
    fn check(&self) {}
}

/// How a policy comes to be. Apart from [`Policy`], so that the others make trait objects.
pub trait Build: Policy + Sized {
    /// Its parameters, self-describing.
    type Params: Params;
    /// What it is called, what it does, and what it promises.
    const INFO: Info;
    /// Parameters with which it decides otherwise than with the defaults, each as text (`quantum=3000,surplus=true`): tests
    /// that play every policy play it with these too.
    const VARIANTS: &'static [&'static str] = &[];

    /// The steering policy that goes before it with these parameters where none is named, so that each core has its own.
    fn steered_by(_: &Self::Params) -> Option<&'static str> {
        None
    }

    /// Makes the policy: the only call that may allocate or fail.
    ///
    /// # Errors
    /// A parameter that does not go with the configuration; the message says what would.
    fn new(params: &Self::Params, config: &SchedulerConfig) -> Result<Self, BuildError>;
}
