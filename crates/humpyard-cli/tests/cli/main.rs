//! The command line from outside: the real binary, its exit codes, and what it says where.
#![cfg(unix)]

mod damage;
mod documents;
mod help;
mod journals;
mod live;
mod memory;
mod refusals;
mod schedule;
mod services;
mod signals;
mod simulated;
mod support;
