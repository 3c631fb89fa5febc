//! Why a run cannot be.

use core::fmt::{self, Display};

use humpyard_core::policy::{BuildError, ParameterError};
use humpyard_runtime::RunError;
use humpyard_services::ServiceError;
use humpyard_sim::SimulationError;
use humpyard_text::TextError;
use humpyard_traffic::TrafficError;

/// Why a run cannot be, in one line: what was given, what is accepted, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A policy or the configuration.
    #[error(transparent)]
    Policy(#[from] BuildError),
    /// A parameter.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A source, a sink, or the classifier.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A service.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The simulator.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The live driver.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file of text: costs, a topology, a network.
    #[error(transparent)]
    Text(#[from] TextError),
    /// An option.
    #[error(transparent)]
    Option(#[from] OptionError),
}

impl LabError {
    /// Returns an error of options, in one line. Names of options stand behind `@`, which [`OptionError`] spells.
    pub fn option(message: impl Into<String>) -> Self {
        OptionError { message: message.into() }.into()
    }

    /// Returns an error of this option: the message goes on behind its name.
    pub fn of_option(option: &str, message: impl Display) -> Self {
        OptionError { message: format!("@{option} {message}") }.into()
    }

    /// Returns the same error with the option that it is of.
    #[must_use]
    pub(crate) fn of(self, option: &str) -> Self {
        let message = format!("{self:#}");
        let is_of_one = message.starts_with(MARK);
        OptionError { message: if is_of_one { message } else { format!("@{option}: {message}") } }.into()
    }
}

/// What is wrong with options, in one line. Shown, it names options as configuration files do; [`Self::spelled`] names them as a
/// command line does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionError {
    /// With a mark before each name of an option.
    message: String,
}

impl OptionError {
    /// Returns the name of the option, where it is of one: the message begins with it.
    pub fn option(&self) -> Option<&str> {
        let name = self.message.strip_prefix(MARK)?;
        let end = name.find(|next: char| !next.is_ascii_lowercase() && next != '-');
        Some(&name[..end.unwrap_or(name.len())])
    }

    /// Returns the message with this before each name of an option: see [`spelled`].
    pub fn spelled(&self, before: &str) -> String {
        spelled(&self.message, before)
    }
}

/// Returns a text of the laboratory with this instead of the mark before each name of an option: `--` for a command line.
pub fn spelled(text: &str, before: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    let mut last = ' ';
    for (at, character) in text.char_indices() {
        let is_name = text[at + character.len_utf8()..].starts_with(|next: char| next.is_ascii_lowercase());
        if character == MARK && is_name && !last.is_alphanumeric() {
            spelled.push_str(before);
        } else {
            spelled.push(character);
        }
        last = character;
    }
    spelled
}

impl Display for OptionError {
    /// Writes the message; the alternate form keeps the marks, for errors that quote this one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { f.write_str(&self.message) } else { f.write_str(&self.spelled("")) }
    }
}

impl std::error::Error for OptionError {}

/// What stands before the name of an option.
const MARK: char = '@';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_spelled_as_the_host_spells_them() {
        let error = LabError::of_option("buffer", "(4) must be less than @flows (3)");
        let LabError::Option(error) = error else { panic!("an option") };
        assert_eq!(error.option(), Some("buffer"));
        assert_eq!(error.to_string(), "buffer (4) must be less than flows (3)");
        assert_eq!(error.spelled("--"), "--buffer (4) must be less than --flows (3)");
        assert_eq!(LabError::option("a@b.pcap: no @ such file").to_string(), "a@b.pcap: no @ such file");
    }

    #[test]
    fn an_error_learns_its_option_once() {
        let said = |error: LabError| error.of("split").to_string();
        assert_eq!(said(LabError::option("no such thing")), "split: no such thing");
        assert_eq!(said(LabError::option("@split: no such thing")), "split: no such thing");
        assert_eq!(said(LabError::of_option("chain", "takes services")), "chain takes services");
    }
}
