//! Ending a run from outside.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::failure::Failure;

/// Makes a file that grows beyond what `ulimit -f` allows a failure to write, as on a full disk, instead of the end: so files that
/// are not whole are removed.
pub(crate) fn outlive_file_limit() {
    // Where the signal cannot be caught, all is as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// A flag that Ctrl-C, SIGTERM or a closed terminal (SIGHUP) sets. A second one ends the process at once.
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
    let stop = Arc::new(AtomicBool::new(false));
    for &signal in signals {
        // In this order: the first signal finds the flag unset, the second finds it set.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
