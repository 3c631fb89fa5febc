//! Tests for the promises of policies: random histories, a driver for them, and reference models.
//!
//! A [`History`] is drawn from a [`Shape`]; equal shapes give equal histories. A [`Player`] runs a
//! scheduler through it in virtual time, and checks the account of every packet. Other types check
//! the promises on decisions. [`Checked`] and [`CheckedSteer`] wrap a policy and assert the
//! contract of its trait. Observers such as [`Fairness`] and [`FlowWatch`] check which packet was
//! served when.
//!
//! ```
//! use humpyard_core::mechanism::{Never, Scheduler};
//! use humpyard_core::policy::Promise;
//! use humpyard_testkit::reference::Arbitrary;
//! use humpyard_testkit::{Checked, History, Player, Shape};
//!
//! let history = History::generate(&Shape { seed: 7, cores: 3, ..Shape::default() });
//! let share = || Ok(Checked::new(Arbitrary::new(7), &[Promise::WorkConserving]));
//! let mut scheduler =
//!     Scheduler::<Never, _, Never>::new(&history.config(), None, None, share).unwrap();
//! let log = Player::new(&history).run(&mut scheduler, &mut ());
//! assert_eq!(log.decisions.len() + log.drops.len(), history.arrivals());
//! ```
#![forbid(unsafe_code)]

extern crate alloc;

mod checked;
mod checked_allocate;
mod checked_estimate;
mod checked_steer;
pub mod conformance;
mod explain;
mod fairness;
mod flow_watch;
mod generate;
mod history;
mod idle_watch;
pub mod loops;
mod memory;
#[cfg(target_os = "linux")]
pub mod network;
mod observer;
mod player;
pub mod reference;
mod scenario;
mod service_count;
mod shape;

pub use checked::Checked;
pub use checked_allocate::CheckedAllocate;
pub use checked_estimate::CheckedEstimate;
pub use checked_steer::CheckedSteer;
pub use explain::explain;
pub use fairness::{Backlog, Bound, Count, Extent, Fairness};
pub use flow_watch::FlowWatch;
pub use history::{Event, History};
pub use idle_watch::IdleWatch;
pub use memory::Memory;
pub use observer::Observer;
pub use player::{Decision, Log, Player};
pub use scenario::{Scenario, ScenarioError};
pub use service_count::ServiceCount;
pub use shape::Shape;
