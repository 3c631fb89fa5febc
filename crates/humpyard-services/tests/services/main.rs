//! The services as their users see them: frames in, frames and verdicts out.

mod compress;
mod dpi;
mod encrypt;
mod fec;
mod firewall;
mod forward_captures;
mod inverses;
mod nat64;
mod support;
