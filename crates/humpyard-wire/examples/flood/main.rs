//! Sends frames into an interface, and measures at another which arrive and when.
//!
//! ```text
//! flood send va 02:00:00:00:00:01 64 2.5          frames of 64 bytes to that address, of 1,024 flows, for 2.5 seconds
//! flood send va 02:00:00:00:00:01 64 2.5 500000   500,000 of them a second
//! flood receive vb                                counts them by the time that they took, until its input ends
//! ```
#![expect(clippy::print_stdout, reason = "a program for the command line")]

mod bpf;
#[path = "../../src/bpf.rs"]
#[allow(dead_code, reason = "the crate needs more of it")]
mod kernel;
mod receive;
mod send;

use std::error::Error;
use std::time::Duration;

const USAGE: &str = "usage: flood send INTERFACE ADDRESS BYTES SECONDS [FRAMES_A_SECOND], or flood receive INTERFACE";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (interface, to, length, seconds, rate) = match words[..] {
        ["receive", interface] => return receive::receive(interface),
        ["send", interface, to, length, seconds] => (interface, to, length, seconds, None),
        ["send", interface, to, length, seconds, rate] => (interface, to, length, seconds, Some(rate.parse()?)),
        _ => return Err(USAGE.into()),
    };
    let time = Duration::try_from_secs_f64(seconds.parse()?)?;
    let (frames, time) = send::send(interface, to, length.parse()?, time, rate)?;
    println!("{frames} {}", time.as_secs_f64());
    Ok(())
}
