//! The services as their users see them: frames in, frames and verdicts out.

mod compress;
mod encrypt;
mod fec;
mod forward_captures;
mod inverses;
mod support;
