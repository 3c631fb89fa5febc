//! The command line of humpyard.
//!
//! Exit codes: 0 done; 1 it ran, but a check failed or the input was damaged; 2 bad usage or input, and nothing was done.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod failure;
mod output;
mod progress;
mod stop;

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use arguments::{Arguments, Command};
use failure::Failure;
use humpyard::lab::figures;

fn main() -> ExitCode {
    let finished = parse().and_then(run);
    match finished {
        Ok(verdict) => verdict,
        Err(failure) => {
            output::say(&format!("humpyard: {failure}"));
            ExitCode::from(2)
        }
    }
}

fn parse() -> Result<Option<Arguments>, Failure> {
    match Arguments::try_parse() {
        Ok(arguments) => Ok(Some(arguments)),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let text = error.render();
            let coloured = stdout().is_terminal();
            output::print(&if coloured { text.ansi().to_string() } else { text.to_string() })?;
            Ok(None)
        }
        Err(error) => Err(Failure::usage(&error)),
    }
}

fn run(arguments: Option<Arguments>) -> Result<ExitCode, Failure> {
    let Some(Arguments { command }) = arguments else { return Ok(ExitCode::SUCCESS) };
    match command {
        Command::Demo(arguments) => commands::demo::demo(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Sim(arguments) => commands::run::sim(&arguments),
        Command::Compare(arguments) => commands::compare::compare(&arguments),
        Command::Schedule(arguments) => commands::schedule::schedule(&arguments),
        Command::Replay(arguments) => commands::replay::replay(&arguments),
        Command::Trace(arguments) => commands::trace::trace(&arguments),
        Command::List(arguments) => commands::list::list(&arguments),
        Command::Explain(arguments) => commands::list::explain(&arguments),
    }
}
