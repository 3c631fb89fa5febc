//! The simulator against theory, exact recursions, and the promises of the policies.

mod cores;
mod ends;
mod instants;
mod link;
mod loss;
mod moves;
mod preemption;
mod queue;
mod support;
mod typed;
