//! Why a command was not done, in one line.

use core::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::arguments::moved;
use crate::output::visible;

/// Why a command was not done, in one line.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// What clap says in a paragraph, in one line.
    pub(crate) fn usage(error: &clap::Error) -> Self {
        if let (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) =
            (error.kind(), error.get(ContextKind::InvalidArg))
            && let Some(instead) = moved(option.trim_start_matches('-'))
        {
            return Self(format!("no option `{option}`; use {instead}"));
        }
        let text = error.render().to_string();
        let said =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more information"));
        let said: Vec<&str> = said.take_while(|line| !line.starts_with("Usage:")).collect();
        let said = said.join(" ").replace(" tip: ", "; ");
        Self(format!("{}; see `--help`", said.strip_prefix("error: ").unwrap_or(&said)))
    }
}

/// Characters of a message that are shown.
const SHOWN: usize = 1 << 16;

impl fmt::Display for Failure {
    /// Names in it do nothing to a terminal, and are not without end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, rest) = match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => (&self.0[..end], format!("... ({} more bytes)", self.0.len() - end)),
            None => (self.0.as_str(), String::new()),
        };
        write!(f, "{}{rest}", visible(shown))
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
