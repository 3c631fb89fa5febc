//! Tests the services as their users see them: frames in, frames and verdicts out.

mod accuracy;
mod compress;
mod detectors;
mod dpi;
mod encrypt;
mod fec;
mod firewall;
mod forward_captures;
mod inverses;
mod l7_filter;
mod nat64;
mod support;
mod turns;
