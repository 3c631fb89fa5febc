//! The simulator against theory, against exact recursions, and against the promises of the policies.

mod cores;
mod ends;
mod instants;
mod link;
mod loss;
mod moves;
mod queue;
mod support;
mod typed;
