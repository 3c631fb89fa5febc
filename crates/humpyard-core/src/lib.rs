//! The core of humpyard: the interface of a scheduling policy, and the mechanism that calls it.
//!
//! Nothing here has a clock, a thread or I/O. A driver (the simulator, the data plane, your program) feeds
//! [`mechanism::Scheduler`] with arrivals and completions and asks it what each core does next; the scheduler asks the
//! policies, whose traits are in [`policy`].
//!
//! To write a policy you need only this crate; `humpyard-policies` has many, and the crate
//! `humpyard` has everything. The main types are [`mechanism::Scheduler`],
//! [`config::SchedulerConfig`], [`packet::Packet`], and the traits [`policy::Steer`],
//! [`policy::Share`], [`policy::Allocate`] and [`policy::Estimate`]. The crate needs an allocator,
//! but no `std`.
//!
//! ```
//! use humpyard_core::config::SchedulerConfig;
//! use humpyard_core::id::{ClientId, CoreId};
//! use humpyard_core::mechanism::{Never, Scheduler};
//! use humpyard_core::packet::Packet;
//! use humpyard_core::policy::{Policy, Share};
//! use humpyard_core::unit::{Time, Weight};
//!
//! /// Serves the client with the highest number.
//! struct Highest(Vec<bool>);
//!
//! impl Policy for Highest {}
//!
//! impl Share for Highest {
//!     fn on_wake(&mut self, _: Time, client: ClientId, _: &Packet) {
//!         self.0[client.0 as usize] = true;
//!     }
//!     fn on_head(&mut self, _: Time, client: ClientId, _: &Packet) {
//!         self.0[client.0 as usize] = true;
//!     }
//!     fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
//!         self.0.iter().rposition(|&offered| offered).map(|client| ClientId(client as u32))
//!     }
//!     fn on_dispatch(&mut self, _: Time, _: CoreId, client: ClientId, _: &Packet) {
//!         self.0[client.0 as usize] = false;
//!     }
//!     fn on_idle(&mut self, _: Time, _: ClientId) {}
//!     fn on_client_end(&mut self, _: Time, _: ClientId) {}
//!     fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
//! }
//!
//! let config = SchedulerConfig::new(1).with_clients(vec![Weight::ONE; 3]);
//! let share = || Ok(Highest(vec![false; 3]));
//! let mut scheduler = Scheduler::<Never, _, Never>::new(&config, None, None, share)?;
//! for client in [0, 2, 1] {
//!     scheduler.on_arrival(Time::ZERO, &Packet { client: ClientId(client), length: 100, ..Packet::default() });
//! }
//! for expected in [2, 1, 0] {
//!     let dispatch = scheduler.next(Time::ZERO, CoreId(0)).expect("packets wait");
//!     assert_eq!(dispatch.packet.client, ClientId(expected));
//!     scheduler.on_completion(Time::ZERO, dispatch.slot, Time::ZERO);
//! }
//! # Ok::<(), humpyard_core::policy::BuildError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// Items that this crate's macros use, for crates that do not name `alloc`.
#[doc(hidden)]
pub mod policy_alloc {
    pub use alloc::{format, string, vec};
}

pub mod config;
pub mod cost;
pub mod frame;
pub mod hash;
pub mod id;
pub mod link;
pub mod measure;
pub mod mechanism;
pub mod name;
pub mod packet;
pub mod policy;
pub mod random;
pub mod rendezvous;
pub mod steps;
pub mod storage;
pub mod unit;
