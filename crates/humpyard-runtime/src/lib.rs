//! The live data plane of humpyard: the mechanism and its policies on real threads.
//!
//! [`run`] is the dispatcher, on the calling thread: it reads and classifies frames, asks the mechanism, and hands packets
//! to worker threads over single-producer single-consumer rings; workers do the services' work and hand the frames back,
//! which go out. In flight are at most so many packets per worker, so the policy decides late. A run can also do everything
//! on the calling thread, and by a [`Clock`] of its own. [`run_several`] has several dispatchers, each with flows and workers of
//! its own.
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
pub use placement::{Places, Seat, Seated, Thread, places, places_of_workers, seats};
pub use replacement::Replacement;
pub use several::{Dispatching, Feed, Several, run_several};
pub use typed::{run_named, run_several_named};
pub use wait::{AWAKE_LOOKS, AWAKE_YIELDS};
pub use watch::{FlowCounts, SAMPLED_EVERY, SAMPLES, Snapshot, Watch, WatchError, Watched, watch};
