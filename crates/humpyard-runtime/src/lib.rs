//! The live data plane of humpyard: the mechanism and its policies on real threads.
//!
//! [`run`] is the dispatcher, on the calling thread. It reads and classifies frames, asks the
//! mechanism, and hands packets to worker threads over single-producer single-consumer rings.
//! Workers do the services' work and return the frames, which go out. Each worker has a bounded
//! number of packets in flight, so the policy decides late. A run can also do everything on the
//! calling thread, and by a virtual [`Clock`]. [`run_several`] has several dispatchers, each with
//! its own flows and workers.
//!
//! Depend on this crate to run your own services, sources or sinks. `humpyard_lab::run_live` takes
//! a configuration and returns a result. A run is a [`Live`], and ends as an [`Outcome`].
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use humpyard_core::config::SchedulerConfig;
//! use humpyard_core::measure::{Measured, Measurements};
//! use humpyard_core::random::Seed;
//! use humpyard_policies::spec::PolicySpec;
//! use humpyard_runtime::{Input, Live, run};
//! use humpyard_traffic::{Classifier, ClassifierConfig, open};
//!
//! let classifier = Classifier::new(ClassifierConfig { flows: 64, ..ClassifierConfig::default() })?;
//! let config = SchedulerConfig { flows: 64, clients: classifier.clients_max(), ..SchedulerConfig::new(2) };
//! let measured = Measured::new("hrw".parse::<PolicySpec>()?.build(&config)?, Measurements::new(&config));
//! let services = vec![humpyard_services::prepare(&"pass".parse()?)?];
//! let input = Input::new(open("gen:poisson:flows=8,packets=1000", Seed(1))?, None);
//! let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
//! let mut live = Live::new(measured, services, classifier, input, &stop, &mut progress);
//! live.workers = 2;
//! let outcome = run(live)?;
//! assert!(outcome.out.balances());
//! assert_eq!(outcome.out.forwarded, 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod clock;
mod counters;
mod crew;
mod dispatcher;
mod hardware;
mod held;
mod input;
mod lane;
mod live;
mod load;
mod loss;
mod outcome;
mod own;
pub mod panic;
mod placement;
mod replacement;
mod several;
mod threads;
mod turns;
mod typed;
mod virtual_cores;
mod wait;
mod watch;
mod worker;

pub use clock::Clock;
pub use counters::Counters;
pub use dispatcher::run;
pub use hardware::{HardwareCounts, ThreadCounts};
pub use humpyard_topology::processors;
pub use input::Input;
pub use live::{Live, Overload};
pub use load::{Hears, Load};
pub use outcome::{OutAccount, Outcome, Part, RunError, ServicePanic};
pub use placement::{Places, Seat, Seated, Thread, places, places_of_workers, places_on, seats};
pub use replacement::Replacement;
pub use several::{Dispatching, Feed, Several, run_several};
pub use typed::{run_named, run_several_named};
pub use wait::{AWAKE_LOOKS, AWAKE_YIELDS};
pub use watch::{FlowCounts, SAMPLED_EVERY, SAMPLES, Snapshot, Watch, WatchError, Watched, watch};
pub use worker::HELD_BACK_MAX;
