//! SIGHUP: a run with a configuration file reads it again, and goes on as it says.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use humpyard::lab::{LabError, Reload, RunConfig};

use crate::arguments::Command;
use crate::commands::configuration::run_configuration;
use crate::failure::Failure;
use crate::output::say;
use crate::{caller, read_again, stop};

/// The configuration file of this run, which a signal has it read again.
pub(crate) struct ReadAgain {
    asked: Arc<AtomicBool>,
    typed: Vec<OsString>,
}

/// Options that may change while a run goes on.
const CHANGEABLE: [&str; 4] = ["--policy", "--weights", "--workers", "--in-flight"];

/// Whether a word that was typed gives this option.
fn is_option(word: &str, option: &str) -> bool {
    word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

impl ReadAgain {
    /// From now on SIGHUP asks for it.
    pub(crate) fn on_signal() -> Result<Self, Failure> {
        Ok(Self { asked: stop::on_hangup()?, typed: caller::typed() })
    }

    /// The options that the file cannot change because they are on the command line, in words to append.
    fn typed_before(&self) -> String {
        let typed = |option: &&str| self.typed.iter().any(|word| is_option(&word.to_string_lossy(), option));
        let typed: Vec<&str> = CHANGEABLE.iter().copied().filter(typed).collect();
        if typed.is_empty() {
            String::new()
        } else {
            format!(", but for {}: options on the command line come first", typed.join(", "))
        }
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
            Ok(()) => {
                say(&format!("humpyard: the configuration was read again, and is in force{}", self.typed_before()))
            }
            Err(error) => say(&format!("humpyard: {}; the run goes on as it was", Failure::from(error))),
        }
    }
}
