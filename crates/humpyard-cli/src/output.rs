//! Standard output and standard error, without panics on a closed pipe.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Writes to the standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::new(format!("cannot write to the standard output: {error}")))
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
