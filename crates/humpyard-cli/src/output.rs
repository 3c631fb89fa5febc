//! Standard output and standard error, without panics on a closed pipe.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;
use crate::layout::{fitted, width};

/// Writes to the standard output. A reader that has closed it, such as `head`, has had enough: that is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    let written = written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) });
    written.map_err(|error| Failure::new(format!("cannot write to the standard output: {error}")))
}

/// Writes text for people to the standard output, in lines that fit the terminal.
pub(crate) fn tell(text: &str) -> Result<(), Failure> {
    print(&fitted(text, width()))
}

/// Writes one JSON document to the standard output.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    print(&text)
}

/// Writes a line to the standard error; if that is closed there is nobody to tell.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
