//! The simulator of humpyard: the mechanism and its policies in virtual time.
//!
//! [`simulate`] feeds the frames of a source to the mechanism at their arrival times and serves packets on cores whose work
//! is a cost model. It is a [`Driver`], the one event loop, whose [`Workload`] says which packets come and whose [`Cores`] say
//! how long they take. [`schedule`] asks a sharing policy for the bare sequence of its decisions, and
//! [`draws`] for its service errors over many random weights. Nothing here depends on
//! the machine: the same input and seed give the same result everywhere.
#![forbid(unsafe_code)]

mod agenda;
mod ahead;
mod cores;
mod driver;
mod host;
mod interruptions;
mod schedule;
mod simulate;
mod typed;
mod work;
mod workload;

pub use cores::{Cores, Doing, TimedCores};
pub use driver::{Driven, Driver, SimulationError};
pub use host::{Host, HostCosts, RESTED};
pub use interruptions::{Disturbance, Interrupted, Interruptions};
pub use schedule::{
    Draws, DrawsRequest, Extreme, Fraction, Heavy, Schedule, ScheduleRequest, SkewedWeights, Spread, WeightLaw, draws,
    schedule,
};
pub use simulate::{DispatcherTime, Outcome, Simulation, simulate, simulate_with};
pub use typed::simulate_named;
pub use work::{MeasuredWork, Taken, Work};
pub use workload::{Feed, Packets, Windows, Workload};
