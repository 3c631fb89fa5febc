//! humpyard: scheduling policies that share many cores among packets, and three places to run them.
//!
//! A policy is a pure state machine; the same code decides in the simulator, in the live data plane, and in your program.
//!
//!
#![cfg_attr(feature = "lab", doc = "```")]
#![cfg_attr(not(feature = "lab"), doc = "```ignore")]
//! use core::sync::atomic::AtomicBool;
//! use humpyard::lab::{Control, Host, RunConfig, run};
//!
//! let mut config = RunConfig::new(Host::Sim, "gen:poisson:packets=10000", "drr".parse()?);
//! config.cores = 4;
//! let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
//! let mut control = Control::new(&stop, &mut progress);
//! let result = run(&config, &mut control)?;
//! assert_eq!(result.packets.processed, 10_000);
//! assert_eq!(result.summary.order.out_of_order, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To schedule your own packets, feed the mechanism yourself: see [`mechanism::Scheduler`] and
//! `examples/own_packets.rs`. Hosts in other languages stand on [`embed`].
#![forbid(unsafe_code)]

pub mod embed;

pub use humpyard_core::{
    config, cost, frame, hash, id, measure, mechanism, name, packet, policy, random, rendezvous, storage, unit,
};
#[cfg(feature = "lab")]
pub use humpyard_lab as lab;
#[cfg(feature = "lab")]
pub use humpyard_papers as papers;
pub use humpyard_policies as policies;
#[cfg(feature = "live")]
pub use humpyard_runtime as runtime;
#[cfg(feature = "live")]
pub use humpyard_services as services;
#[cfg(feature = "sim")]
pub use humpyard_sim as sim;
pub use humpyard_simd as simd;
pub use humpyard_text as text;
pub use humpyard_topology as topology;
#[cfg(any(feature = "sim", feature = "live"))]
pub use humpyard_traffic as traffic;
#[cfg(feature = "live")]
pub use humpyard_wire as wire;
