//! The mechanism: it holds the waiting packets, asks the policies, and accounts for every packet.
//!
//! [`Scheduler`] has no clock and no thread. The simulator and the data plane are two drivers that
//! call the same methods: [`Scheduler::on_arrival`], [`Scheduler::next`],
//! [`Scheduler::on_completion`].

mod account;
mod allocation;
mod always_ready;
mod answer;
mod cores;
mod estimator;
mod exit;
mod explain;
mod family;
mod flow_order;
mod journal;
mod journey;
mod layout;
mod limits;
mod next_core;
mod plain;
mod preemption;
mod queue;
mod release;
mod replace;
mod replay;
mod retype;
mod room;
mod scheduler;
mod slab;
mod split;
mod steering;
mod swap;
mod withhold;

pub use account::{Account, DropReason};
pub use allocation::Switch;
pub use always_ready::{AlwaysReady, Served};
pub use answer::{Arrival, Completed, Dispatch, Done, Dropped, Effect};
pub use exit::{Exit, ExitAccount, ExitOrder};
pub use flow_order::FlowOrder;
pub use journal::{Event, Given, Journal, Record};
pub use limits::{Limits, WhenFull};
pub use replay::Divergence;
pub use scheduler::{Never, Scheduler};
pub use split::{Split, SplitAccount};
pub use swap::{PlannedSwap, TakeOver, TakenOver};
