//! Ending a run from outside.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::caller;
use crate::failure::Failure;

/// Makes a file that grows beyond what `ulimit -f` allows a failure to write, as on a full disk, instead of the end: so files that
/// are not whole are removed.
pub(crate) fn outlive_file_limit() {
    // Where the signal cannot be caught, all is as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Signals within this time of the first mean the same end: `timeout` sends one to the process and one to its group.
const ONE_END: Duration = Duration::from_secs(1);

/// Returns a flag that Ctrl-C, SIGTERM or a closed terminal (SIGHUP) sets. A later signal ends the process at once. A
/// command that a program calls has the flag of that program, which handles its own signals.
pub(crate) fn on_signal() -> Result<Arc<AtomicBool>, Failure> {
    on_signals(&[SIGINT, SIGTERM, SIGHUP])
}

/// As [`on_signal`], for who has other use for SIGHUP.
pub(crate) fn on_signal_but_hangup() -> Result<Arc<AtomicBool>, Failure> {
    on_signals(&[SIGINT, SIGTERM])
}

/// A flag that SIGHUP sets.
pub(crate) fn on_hangup() -> Result<Arc<AtomicBool>, Failure> {
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&asked))?;
    Ok(asked)
}

fn on_signals(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    if let Some(caller) = caller::caller() {
        return Ok(caller.stop());
    }
    let stop = Arc::new(AtomicBool::new(false));
    for &signal in signals {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut arriving = Signals::new(signals)?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut first: Option<Instant> = None;
        for signal in arriving.forever() {
            if first.get_or_insert_with(Instant::now).elapsed() >= ONE_END {
                signal_hook::low_level::exit(128 + signal);
            }
        }
    })?;
    Ok(stop)
}
