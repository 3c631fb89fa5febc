//! Standard output and standard error, without panics on a closed pipe.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;
use crate::layout::{fitted, width};

/// Writes text for people to the standard output, with control characters made visible. A reader that has closed it, such as `head`, has
/// had enough: that is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_as_is(&visible(text))
}

/// Writes to the standard output what holds no text of an input, or escapes it already.
pub(crate) fn print_as_is(text: &str) -> Result<(), Failure> {
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
    print_as_is(&text)
}

/// Writes a line to the standard error; if that is closed there is nobody to tell.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", visible(line));
}

/// Text in which control characters, and those that turn the direction of writing, are escapes such as `\u{1b}`: names in files and
/// captures cannot move a terminal's cursor. Ends of lines and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for one in text.chars() {
        if is_hidden(one) { shown.extend(one.escape_unicode()) } else { shown.push(one) }
    }
    shown.into()
}

/// Whether a character changes what a terminal shows beside itself.
fn is_hidden(one: char) -> bool {
    let turns = matches!(one, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || one.is_control() && !matches!(one, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_as_escapes() {
        for (text, expected) in [
            ("a\tb\n", "a\tb\n"),
            ("Grüße → 你好", "Grüße → 你好"),
            ("\u{1b}[2Jgone\r", "\\u{1b}[2Jgone\\u{d}"),
            ("\u{9b}31m\u{7f}\0", "\\u{9b}31m\\u{7f}\\u{0}"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }
}
