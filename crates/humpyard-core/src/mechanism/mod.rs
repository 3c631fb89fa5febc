//! The mechanism: where packets wait, who is asked what and when, and the account of every packet.
//!
//! [`Scheduler`] holds the packets and asks the policies; it knows no clock and no thread. Simulator and data plane are
//! two drivers that call the same methods: [`Scheduler::on_arrival`], [`Scheduler::next`], [`Scheduler::on_completion`].

mod account;
mod allocation;
mod always_ready;
mod queue;
mod scheduler;
mod slab;

pub use account::{Account, DropReason};
pub use allocation::Switch;
pub use always_ready::{AlwaysReady, Served};
pub use scheduler::{Arrival, Completed, Dispatch, FlowOrder, Limits, Never, Options, Scheduler};
