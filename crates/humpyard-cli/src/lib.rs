//! The command line of humpyard, for the program `humpyard` and for programs that [`call`] its commands.
//!
//! Exit codes: 0 done; 1 it ran, but a check failed or the input was damaged; 2 bad usage or input, and nothing was
//! done.
//!
//! ```
//! use std::rc::Rc;
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicBool;
//!
//! use humpyard_cli::{Caller, call};
//!
//! struct Quiet(Arc<AtomicBool>);
//!
//! impl Caller for Quiet {
//!     fn stop(&self) -> Arc<AtomicBool> {
//!         Arc::clone(&self.0)
//!     }
//!     fn progress(&self, _: u64, _: Option<f64>, _: &str) {}
//! }
//!
//! let words = "sim --input gen:poisson:packets=1000 --policy drr --json".split(' ').map(str::to_owned);
//! let answer = call(words, Rc::new(Quiet(Arc::default())))?;
//! assert!(answer.is_success && answer.document.contains("\"drr\""));
//! # Ok::<(), String>(())
//! ```
#![forbid(unsafe_code)]

mod arguments;
mod caller;
mod commands;
mod configuration_file;
mod examples;
mod failure;
mod layout;
mod moved;
mod options;
mod output;
mod progress;
mod stop;
#[cfg(feature = "top")]
mod top;
mod visible;

use std::ffi::OsString;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::rc::Rc;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use arguments::{Arguments, Command};
use configuration_file::{ConfigurationFile, typed_file};
use failure::Failure;
use humpyard::lab::figures;
use humpyard::lab::recommend::TrialPlace;

use caller::Calling;
pub use caller::{Answer, Caller, OwnPolicies, call};

/// Does what was typed.
pub fn main() -> ExitCode {
    stop::outlive_file_limit();
    match run_typed(&caller::typed()) {
        Ok(verdict) => verdict,
        Err(failure) => {
            output::say(&format!("humpyard: {failure}"));
            ExitCode::from(2)
        }
    }
}

/// Reads the input of a search for a policy, by the words of the command behind `humpyard`, for a [`Caller`] that has
/// its trials made by several processes.
///
/// # Errors
/// In one line, why nothing was done: another command, options that are wrong, and an input that cannot be read.
pub fn recommend_place(words: impl IntoIterator<Item = String>, caller: Rc<dyn Caller>) -> Result<TrialPlace, String> {
    let words: Vec<OsString> = ["humpyard".to_owned()].into_iter().chain(words).map(OsString::from).collect();
    let _calling = Calling::begin(&words, caller);
    let read = read_again(&words).map_err(|failure| failure.to_string())?;
    let Some(Arguments { command: Command::Recommend(arguments) }) = read else {
        return Err("trials are those of `recommend`".to_owned());
    };
    commands::recommend::place(&arguments).map_err(|failure| failure.to_string())
}

/// Runs what was typed, with the options of the configuration file that it names.
fn run_typed(typed: &[OsString]) -> Result<ExitCode, Failure> {
    let Some(path) = typed_file(typed) else { return parse(typed).and_then(run) };
    let file = ConfigurationFile::read(&path)?;
    let finished = file.merged(typed, &|_| true).and_then(|merged| parse(&merged)).and_then(run);
    finished.map_err(|failure| file.blame(typed, failure, &commands::check::attempt))
}

/// What was typed, with the options of the configuration file as it is now.
fn read_again(typed: &[OsString]) -> Result<Option<Arguments>, Failure> {
    let Some(path) = typed_file(typed) else { return parse(typed) };
    let file = ConfigurationFile::read(&path)?;
    let read = file.merged(typed, &|_| true).and_then(|merged| parse(&merged));
    read.map_err(|failure| file.blame(typed, failure, &commands::check::attempt))
}

/// Longer lines of help are hard to read.
const HELP_WIDTH_MAX: usize = 100;

fn parse(typed: &[OsString]) -> Result<Option<Arguments>, Failure> {
    let mut command = Arguments::command().term_width(layout::width().min(HELP_WIDTH_MAX));
    let matched = command.try_get_matches_from_mut(typed);
    let parsed =
        matched.and_then(|found| Arguments::from_arg_matches(&found).map_err(|error| error.format(&mut command)));
    match parsed {
        Ok(arguments) => {
            commands::files::distinct(&arguments.command)?;
            Ok(Some(arguments))
        }
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => show(&error).map(|()| None),
            // The program alone is asked for nothing, so nothing is wrong; a command alone lacks what it needs.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if typed.len() < 2 => show(&error).map(|()| None),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let text = error.render().to_string();
                let usage = text.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or_default();
                Err(Failure::new(format!("an argument is missing: {usage}; see `--help`")))
            }
            _ => Err(Failure::usage(&error)),
        },
    }
}

/// Prints the help or the version.
fn show(text: &clap::Error) -> Result<(), Failure> {
    let text = text.render();
    output::print_as_is(&if stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() })
}

fn run(arguments: Option<Arguments>) -> Result<ExitCode, Failure> {
    let Some(Arguments { command }) = arguments else { return Ok(ExitCode::SUCCESS) };
    match command {
        Command::Demo(arguments) => commands::demo::demo(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        #[cfg(feature = "top")]
        Command::Top(arguments) => commands::top::top(&arguments),
        Command::Sim(arguments) => commands::run::sim(&arguments),
        Command::Admit(arguments) => commands::admit::admit(&arguments),
        Command::Compare(arguments) => commands::compare::compare(&arguments),
        Command::Sweep(arguments) => commands::sweep::sweep(&arguments),
        Command::Map(arguments) => commands::map::map(&arguments),
        Command::Recommend(arguments) => commands::recommend::recommend(&arguments),
        Command::Validate(arguments) => commands::validate::validate(&arguments),
        Command::Reproduce(arguments) => commands::reproduce::reproduce(&arguments),
        Command::Calibrate(arguments) => commands::calibrate::calibrate(&arguments),
        Command::Topology(arguments) => commands::topology::topology(&arguments),
        Command::Check(arguments) => commands::check::check(&arguments),
        #[cfg(feature = "manual")]
        Command::Completions(arguments) => commands::manual::completions(&arguments),
        #[cfg(feature = "manual")]
        Command::Man(arguments) => commands::manual::man(&arguments),
        Command::Schedule(arguments) => commands::schedule::schedule(&arguments),
        Command::Replay(arguments) => commands::replay::replay(&arguments),
        Command::Steer(arguments) => commands::steer::steer(&arguments),
        Command::Why(arguments) => commands::why::why(&arguments),
        Command::Trace(arguments) => commands::trace::trace(&arguments),
        Command::List(arguments) => commands::list::list(&arguments),
        Command::Explain(arguments) => commands::list::explain(&arguments),
    }
}
