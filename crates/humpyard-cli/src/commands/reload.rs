//! SIGHUP: a run with a configuration file reads it again, and goes on as it says.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use humpyard::lab::{LabError, Reload, RunConfig};

use crate::arguments::Command;
use crate::commands::run::run_configuration;
use crate::failure::Failure;
use crate::output::say;
use crate::{read_again, stop};

/// The configuration file of this run, which a signal has it read again.
pub(crate) struct ReadAgain {
    asked: Arc<AtomicBool>,
    typed: Vec<OsString>,
}

impl ReadAgain {
    /// From now on SIGHUP asks for it.
    pub(crate) fn on_signal() -> Result<Self, Failure> {
        Ok(Self { asked: stop::on_hangup()?, typed: std::env::args_os().collect() })
    }

    fn configuration(&self) -> Result<RunConfig, Failure> {
        match read_again(&self.typed)?.map(|arguments| arguments.command) {
            Some(Command::Run(arguments)) => run_configuration(&arguments),
            _ => unreachable!("what was typed is a run"),
        }
    }
}

impl Reload for ReadAgain {
    fn wanted(&self) -> Option<RunConfig> {
        if !self.asked.swap(false, Ordering::Relaxed) {
            return None;
        }
        let read = self.configuration();
        read.map_err(|failure| say(&format!("humpyard: {failure}; the run goes on as it was"))).ok()
    }

    fn told(&self, outcome: Result<(), LabError>) {
        match outcome {
            Ok(()) => say("humpyard: the configuration was read again, and is in force"),
            Err(error) => say(&format!("humpyard: {error}; the run goes on as it was")),
        }
    }
}
