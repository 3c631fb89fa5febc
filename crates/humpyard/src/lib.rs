//! humpyard: scheduling policies that share many cores among packets, and three places to run them.
//!
//! A policy is a pure state machine; the same code decides in the simulator, in the live data plane, and in your program.
//!
//! To schedule packets, jobs or requests of your own, drive a [`mechanism::Scheduler`]:
//!
//! ```
//! use humpyard::config::SchedulerConfig;
//! use humpyard::id::{ClientId, CoreId};
//! use humpyard::mechanism::Arrival;
//! use humpyard::packet::Packet;
//! use humpyard::policies::spec::PolicySpec;
//! use humpyard::unit::{Time, Weight};
//!
//! let weights = [3, 1].map(|weight| Weight::new(weight).unwrap());
//! let mut scheduler =
//!     "drr".parse::<PolicySpec>()?.build(&SchedulerConfig::new(1).with_clients(weights.to_vec()))?;
//! for number in 0..80 {
//!     let packet = Packet { client: ClientId(number % 2), length: 1000, ..Packet::default() };
//!     assert!(matches!(scheduler.on_arrival(Time::ZERO, &packet), Arrival::Queued(_)));
//! }
//! let mut served = [0; 2];
//! for now in (1..=40).map(Time::from_ns) {
//!     let dispatch = scheduler.next(now, CoreId(0)).expect("packets wait");
//!     served[dispatch.packet.client.0 as usize] += 1; // Your work would stand here.
//!     scheduler.on_completion(now, dispatch.slot, Time::from_ns(1));
//! }
//! assert!((29..=31).contains(&served[0]), "the first client has three quarters: {served:?}");
//! # Ok::<(), humpyard::policy::BuildError>(())
//! ```
//!
//! With the feature `lab`, the default, whole runs are one call:
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
//! | feature | adds | modules |
//! |---|---|---|
//! | none | the scheduler and its policies | [`mechanism`], [`policies`], [`embed`] |
//! | `sim` | the simulator and its traffic | `sim`, `traffic` |
//! | `live` | the data plane, services and interfaces | `runtime`, `services`, `wire`, `traffic` |
//! | `lab` | runs, comparisons, recommendations, experiments | `lab`, `papers` |
//! | `schema` | JSON schemas of results: `lab::schema` | |
//! | `vectorscan`, `transcode` | what needs a library of the system | |
//!
//! `examples/` has whole programs: a thread pool, an event loop, a server on tokio, your own
//! policy, service and traffic model, a batch of simulations, and a hot swap. Hosts in other
//! languages use [`embed`].
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
