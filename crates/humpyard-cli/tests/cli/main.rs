//! The command line from outside: the real binary, its exit codes, and what it says where.
#![cfg(unix)]

mod admit;
mod calibrate;
mod configuration;
mod costs;
mod damage;
mod decisions;
mod dispatchers;
mod documents;
mod help;
mod journals;
mod layout;
mod link;
mod live;
mod manual;
mod memory;
mod metrics;
mod offered;
mod order;
mod recommend;
mod refusals;
mod reload;
mod repetitions;
mod reports;
mod reproduce;
mod schedule;
mod services;
mod signals;
mod simulated;
mod split;
mod support;
mod timelines;
mod topology;
mod trace;
mod traffic;
mod validate;
