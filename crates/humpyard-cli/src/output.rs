//! Standard output and standard error, without panics on a closed pipe.

use std::io::{self, ErrorKind, Write};

use clap::Args;
use humpyard::lab::spelled;
use serde::Serialize;

use crate::caller;
use crate::failure::Failure;
use crate::layout::{fitted, width};
use crate::visible::visible;

/// Writes text for people to the standard output, with control characters made visible. A reader that has closed it, such as `head`, has
/// had enough: that is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_as_is(&visible(text))
}

/// Writes to the standard output what holds no text of an input, or escapes it already.
pub(crate) fn print_as_is(text: &str) -> Result<(), Failure> {
    if caller::answered(text) {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    let written = written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) });
    written.map_err(|error| Failure::new(format!("cannot write to the standard output: {error}")))
}

/// Writes text for people to the standard output, in lines that fit the terminal.
pub(crate) fn tell(text: &str) -> Result<(), Failure> {
    print(&fitted(text, width()))
}

/// The formats of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// Text for people, in lines that fit the terminal.
    Text,
    /// One JSON document, for programs.
    Json,
}

/// The options that ask for a format.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputOptions {
    /// Print one JSON document on the standard output
    #[arg(long, display_order = 21)]
    json: bool,
}

/// How a command answers: the one place that knows the formats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
    /// Whether packets have the standard output, so that text goes to the standard error.
    is_beside_packets: bool,
    /// Whether lines stay as long as they are.
    is_unwrapped: bool,
}

impl Output {
    /// Returns the output that the options of a command ask for.
    pub(crate) const fn of(options: &OutputOptions) -> Self {
        Self {
            format: if options.json { Format::Json } else { Format::Text },
            is_beside_packets: false,
            is_unwrapped: false,
        }
    }

    /// Leaves the standard output to packets, if they go there.
    ///
    /// # Errors
    /// A document that needs it, too.
    pub(crate) fn beside_packets(self, is_beside_packets: bool) -> Result<Self, Failure> {
        match self.format {
            Format::Json if is_beside_packets => {
                Err(Failure::new("--output - and --json both need the standard output: name a file for one of them"))
            }
            _ => Ok(Self { is_beside_packets, ..self }),
        }
    }

    /// Leaves lines as long as they are, for text that programs may read, too.
    pub(crate) const fn unwrapped(self) -> Self {
        Self { is_unwrapped: true, ..self }
    }

    /// Whether the answer is text for people.
    pub(crate) fn is_text(self) -> bool {
        self.format == Format::Text
    }

    /// Writes the answer of a command: a document, or its text.
    pub(crate) fn answer(self, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        match self.format {
            Format::Json => print_json(document),
            Format::Text if self.is_beside_packets => {
                say(text().trim_end_matches('\n'));
                Ok(())
            }
            Format::Text if self.is_unwrapped => print(&text()),
            Format::Text => tell(&text()),
        }
    }

    /// Writes a remark for people, which documents have no place for, to the standard error.
    pub(crate) fn remark(self, line: &str) {
        if self.is_text() {
            say(&format!("humpyard: {line}"));
        }
    }

    /// Warns people of things that documents have no place for.
    pub(crate) fn warn<'a>(self, warnings: impl IntoIterator<Item = &'a String>) {
        warnings.into_iter().for_each(|warning| self.remark(&format!("warning: {}", spelled(warning, "--"))));
    }
}

/// Writes one JSON document to the standard output.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    print_as_is(&text)
}

/// Writes a line to the standard error; if that is closed there is nobody to tell.
pub(crate) fn say(line: &str) {
    if caller::said(line) {
        return;
    }
    let _ = writeln!(io::stderr(), "{}", visible(line));
}
