//! The promises of the policies, checked with random histories.

mod conformance;
mod cores;
mod fairness;
mod journal;
mod kernels;
mod long_run;
mod order;
mod shapes;
mod split;
mod steering;
mod swap;
mod twin;
mod withhold;
