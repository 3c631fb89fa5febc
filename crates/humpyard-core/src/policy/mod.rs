//! The interface of a scheduling policy: a pure state machine that receives events and answers
//! questions.
//!
//! Methods named by a verb ask a question; `on_` methods report an event. Three families make three
//! decisions, each in its own trait. [`Steer`] chooses the queue of an arriving packet, [`Share`]
//! the client that an idle core serves next, and [`Allocate`] the service of a core.
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
pub use topology::{CoreDistance, Level, LevelKind, Topology};
pub use view::{CoreView, View};
#[doc(hidden)]
pub use {
    allocate::ambassador_impl_Allocate, estimate::ambassador_impl_Estimate, share::ambassador_impl_Share,
    steer::ambassador_impl_Steer,
};

use ambassador::delegatable_trait;

use crate::config::SchedulerConfig;
use crate::unit::Time;

/// The methods that all policies have.
#[delegatable_trait]
pub trait Policy {
    /// Whether the policy may ever set a timer. The answer must never change. If it is false,
    /// [`Policy::next_timeout`] is never called, which saves a call for every event.
    fn keeps_time(&self) -> bool {
        true
    }

    /// Returns when the policy wants its next [`Policy::on_timeout`]. `None`: no timer is set.
    /// Called after every event. Steering and allocation use timers; of sharing policies those that hold back heads
    /// do ([`Share::holds_back`]).
    fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// The time that [`Policy::next_timeout`] returned has come or passed. Extra calls do no harm.
    fn on_timeout(&mut self, _now: Time) {}

    /// Panics if a documented invariant is broken. May be slow: tests call it after every event.
    fn check(&self) {}
}

/// How a policy is built. Separate from [`Policy`], so that the other traits can be trait objects.
pub trait Build: Policy + Sized {
    /// Its parameters, self-describing.
    type Params: Params;
    /// The policy's name, description and promises.
    const INFO: Info;
    /// Parameter sets with which the policy decides differently than with its defaults, each as
    /// text (`quantum=3000,surplus=true`). Tests that run every policy also run it with these.
    const VARIANTS: &'static [&'static str] = &[];

    /// Returns the steering policy that precedes this one with these parameters, if the user names
    /// none. Each core then has its own queue.
    fn steered_by(_: &Self::Params) -> Option<&'static str> {
        None
    }

    /// Builds the policy: the only call that may allocate or fail.
    ///
    /// # Errors
    /// A parameter does not fit the configuration; the message says which values do.
    fn new(params: &Self::Params, config: &SchedulerConfig) -> Result<Self, BuildError>;
}
