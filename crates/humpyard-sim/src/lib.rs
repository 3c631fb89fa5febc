//! The simulator of humpyard: the mechanism and its policies in virtual time.
//!
//! [`simulate`] feeds the frames of a source to the mechanism at their arrival times, and serves
//! packets on cores whose work is a cost model. It is a [`Driver`], the only event loop: its
//! [`Workload`] determines the packets, and its [`Cores`] the time that they take. [`schedule`]
//! asks a sharing policy for the bare sequence of its decisions, and [`draws`] for its service
//! errors over many random weights. Results do not depend on the machine: the same input and seed
//! give the same result everywhere.
//!
//! Depend on this crate for your own workload or cores; `humpyard_lab::simulate` takes a
//! configuration and returns a result.
//!
//! ```
//! use humpyard_core::config::SchedulerConfig;
//! use humpyard_core::cost::Span;
//! use humpyard_core::id::ClientId;
//! use humpyard_core::measure::{Measured, Measurements};
//! use humpyard_core::mechanism::Dispatch;
//! use humpyard_core::packet::Packet;
//! use humpyard_core::unit::Time;
//! use humpyard_policies::spec::PolicySpec;
//! use humpyard_sim::{Driver, Feed, Packets, TimedCores};
//!
//! // Six packets at once, on two cores that take 10 ns for each.
//! let config = SchedulerConfig { clients: 6, ..SchedulerConfig::new(2) };
//! let packet = |client| Packet { client: ClientId(client), length: 100, ..Packet::default() };
//! let packets: Vec<Packet> = (0..6).map(packet).collect();
//! let cores = TimedCores::new(2, |now: Time, _, _: &Dispatch<&Packet>| {
//!     let busy = Time::from_ns(10);
//!     Span { finished: now + busy, busy }
//! });
//! let scheduler = "drr".parse::<PolicySpec>()?.build(&config)?;
//! let measured = Measured::new(scheduler, Measurements::new(&config));
//! let driven = Driver::new(measured, Packets::new(packets, Feed::Arrivals), cores).drive()?;
//! assert_eq!(driven.end, Time::from_ns(30));
//! assert_eq!(driven.measured.account().processed, 6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod agenda;
mod ahead;
mod cores;
mod driver;
mod host;
mod interruptions;
mod kernel;
mod part;
mod schedule;
mod simulate;
mod timing;
mod turns;
mod typed;
mod workload;

pub use cores::{Cores, Doing, TimedCores, Turn};
pub use driver::{Driven, Driver, SimulationError};
pub use host::{Host, HostCosts, RESTED};
pub use interruptions::{Disturbance, Interrupted, Interruptions};
pub use kernel::{Kernel, Received, Receiver};
pub use part::Part;
pub use schedule::{
    Draws, DrawsRequest, Extreme, Fraction, Heavy, Schedule, ScheduleRequest, SkewedWeights, Spread, WeightLaw, draws,
    schedule,
};
pub use simulate::{DispatcherTime, Outcome, Simulation, simulate, simulate_with};
pub use timing::{MeasuredTimes, PacketTimes, Timing};
pub use typed::simulate_named;
pub use workload::{Feed, Packets, Windows, Workload};
