//! The scheduling policies of humpyard, one file each, and their registry.
//!
//! Each policy is a pure state machine behind a trait of `humpyard_core::policy`. [`registry`]
//! finds the policies by name. [`own`] adds policies that a program defines itself. Depend on this
//! crate to schedule without `std`; the crate `humpyard` re-exports it as `humpyard::policies`.
//!
//! A [`spec::PolicySpec`] is parsed from a specification such as `gr3`, `drr:quantum=3000` or
//! `steer=hrw/share=drr`, and builds a [`spec::AnyScheduler`].
//!
//! ```
//! use humpyard_core::config::SchedulerConfig;
//! use humpyard_core::id::{CoreId, FlowId};
//! use humpyard_core::packet::Packet;
//! use humpyard_core::unit::Time;
//! use humpyard_policies::spec::PolicySpec;
//!
//! let policy: PolicySpec = "hrw".parse()?;
//! let mut scheduler = policy.build(&SchedulerConfig { flows: 2, ..SchedulerConfig::new(4) })?;
//! for flow in [0, 0, 1] {
//!     let packet = Packet { flow: FlowId(flow), key: 7 + u64::from(flow), length: 100, ..Packet::default() };
//!     scheduler.on_arrival(Time::ZERO, &packet);
//! }
//! // Both packets of flow 0 wait for one core, which is chosen by the hash of its connection.
//! let mut cores = Vec::new();
//! while let Some(core) = scheduler.next_core(Time::ZERO) {
//!     if let Some(dispatch) = scheduler.next(Time::ZERO, core) {
//!         scheduler.on_completion(Time::ZERO, dispatch.slot, Time::ZERO);
//!         cores.push((dispatch.packet.flow, core));
//!     }
//! }
//! let of_flow_0: Vec<CoreId> = cores.iter().filter(|(flow, _)| flow.0 == 0).map(|&(_, core)| core).collect();
//! assert_eq!((cores.len(), of_flow_0.len()), (3, 2));
//! assert_eq!(of_flow_0[0], of_flow_0[1]);
//!
//! let error = "deficit".parse::<PolicySpec>().unwrap_err();
//! assert!(error.to_string().contains("deficit"));
//! # Ok::<(), humpyard_core::policy::BuildError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod allocate;
pub mod estimate;
pub mod own;
pub mod registry;
pub mod share;
pub mod spec;
pub mod steer;

#[cfg(test)]
mod testing;
