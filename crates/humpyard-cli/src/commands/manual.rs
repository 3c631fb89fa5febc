//! `completions` and `man`: from the same definitions as the command line itself.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use humpyard::traffic::capture::PartialFile;

use crate::arguments::{Arguments, CompletionsArguments, ManArguments};
use crate::failure::Failure;
use crate::output;

/// `humpyard completions`.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "humpyard", &mut text);
    output::print_as_is(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}

/// `humpyard man`.
pub(crate) fn man(arguments: &ManArguments) -> Result<ExitCode, Failure> {
    let mut root = Arguments::command();
    root.build();
    let Some(directory) = &arguments.output else {
        output::print_as_is(&page(&root)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let unwritable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::new(format!("{directory}: this is a file; name a directory")),
        _ => Failure::new(format!("{directory}: the pages cannot be written: {error}; name another directory")),
    };
    fs::create_dir_all(directory).map_err(unwritable)?;
    let mut pages = Vec::new();
    collect(&root, "humpyard", &mut pages)?;
    for (name, text) in &pages {
        let path = Path::new(directory).join(name);
        let mut file = PartialFile::create(&path).map_err(unwritable)?;
        file.write_all(text.as_bytes()).map_err(unwritable)?;
        file.finish().map_err(unwritable)?;
    }
    output::print(&format!("{} pages written to {directory}\n", pages.len()))?;
    Ok(ExitCode::SUCCESS)
}

/// The pages of a command and all below it, with their file names.
fn collect(command: &Command, name: &str, pages: &mut Vec<(String, String)>) -> Result<(), Failure> {
    pages.push((format!("{name}.1"), page(command)?));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        collect(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

fn page(command: &Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    Man::new(command.clone().disable_help_subcommand(true)).render(&mut text)?;
    Ok(String::from_utf8(text)?)
}
