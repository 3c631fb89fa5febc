//! Why a command was not done, in one line.

use core::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::arguments::moved;

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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
