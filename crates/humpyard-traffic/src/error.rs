//! Errors of traffic, worded so that a user can correct the cause.

use std::io;

use humpyard_core::name::unknown;
use humpyard_core::policy::ParameterError;

/// The kind of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text that names a source, a sink, a profile or a rule is invalid.
    Usage,
    /// The input has no packet at all: it is missing, empty, no capture, or cut inside its header.
    Unusable,
    /// The input is valid up to a point. All packets before that point were delivered.
    Damaged,
    /// The output cannot be written, or cannot hold a frame.
    Output,
    /// A table is full, and everything in it is in use.
    Full,
}

/// An error of this crate. Its text names the file, the record and the byte, and a remedy if there is one.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub struct TrafficError(Box<Problem>);

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Usage(String),
    #[error("{input}: {reason}")]
    Unusable { input: String, reason: String, source: Option<io::Error> },
    #[error(
        "{input}: damaged at byte {offset}{unpacked}, in record {record}: {reason}; the {packets} packets before it are good",
        record = packets.saturating_add(1),
        unpacked = if *compressed { " of the uncompressed data" } else { "" }
    )]
    Damaged { input: String, packets: u64, offset: u64, compressed: bool, reason: String },
    #[error("{output}: {reason}")]
    Output { output: String, reason: String, source: Option<io::Error> },
    #[error(
        "all {capacity} {what} of the table have packets under way, and there is no room for another; raise the limit of {what}"
    )]
    Full { what: &'static str, capacity: usize },
}

/// Where and how an input is damaged.
#[derive(Debug)]
pub(crate) struct Damage {
    /// Offset of the damaged record in the uncompressed stream, in bytes.
    pub(crate) offset: u64,
    /// The kind of damage.
    pub(crate) reason: String,
}

impl TrafficError {
    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match *self.0 {
            Problem::Usage(_) => ErrorKind::Usage,
            Problem::Unusable { .. } => ErrorKind::Unusable,
            Problem::Damaged { .. } => ErrorKind::Damaged,
            Problem::Output { .. } => ErrorKind::Output,
            Problem::Full { .. } => ErrorKind::Full,
        }
    }

    /// Returns whether the input is damaged at some point, so that the packets before it are usable.
    pub fn is_damage(&self) -> bool {
        self.kind() == ErrorKind::Damaged
    }

    /// Returns how many packets were delivered before the damage. `None`: this error is no damage.
    pub fn packets_before(&self) -> Option<u64> {
        match *self.0 {
            Problem::Damaged { packets, .. } => Some(packets),
            _ => None,
        }
    }

    /// Returns the offset of the damaged record in the uncompressed data, in bytes. `None`: this error is no
    /// damage.
    pub fn offset(&self) -> Option<u64> {
        match *self.0 {
            Problem::Damaged { offset, .. } => Some(offset),
            _ => None,
        }
    }

    /// Returns the error for an invalid text that names a source, a sink, a profile or a rule.
    pub fn usage(message: impl Into<String>) -> Self {
        Self(Box::new(Problem::Usage(message.into())))
    }

    /// Returns the error for an input without packets.
    pub fn unusable(input: &str, reason: impl Into<String>) -> Self {
        Self(Box::new(Problem::Unusable { input: input.into(), reason: reason.into(), source: None }))
    }

    /// Returns the error for an input that cannot be read.
    pub fn unreadable(input: &str, error: io::Error) -> Self {
        let reason = format!("cannot be read: {error}");
        Self(Box::new(Problem::Unusable { input: input.into(), reason, source: Some(error) }))
    }

    pub(crate) fn damaged(input: &str, packets: u64, compressed: bool, damage: Damage) -> Self {
        let Damage { offset, reason } = damage;
        Self(Box::new(Problem::Damaged { input: input.into(), packets, offset, compressed, reason }))
    }

    /// Returns the error for an output that cannot hold a frame.
    pub fn output(output: &str, reason: impl Into<String>) -> Self {
        Self(Box::new(Problem::Output { output: output.into(), reason: reason.into(), source: None }))
    }

    /// Returns the error for an output that cannot be written.
    pub fn unwritable(output: &str, error: io::Error) -> Self {
        let reason = format!("cannot be written: {error}");
        Self(Box::new(Problem::Output { output: output.into(), reason, source: Some(error) }))
    }

    pub(crate) fn full(what: &'static str, capacity: usize) -> Self {
        Self(Box::new(Problem::Full { what, capacity }))
    }
}

impl From<ParameterError> for TrafficError {
    fn from(error: ParameterError) -> Self {
        Self::usage(error.to_string())
    }
}

/// Returns the value with this name.
///
/// # Errors
/// If there is none: the text suggests similar names, and lists all.
pub(crate) fn by_name<T: Copy>(what: &str, text: &str, names: &[(&'static str, T)]) -> Result<T, TrafficError> {
    let found = names.iter().find(|(name, _)| *name == text).map(|&(_, value)| value);
    found.ok_or_else(|| TrafficError::usage(unknown(what, text, names.iter().map(|(name, _)| *name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_file_record_and_byte() {
        let damage = Damage { offset: 1234, reason: "it ends there".into() };
        let error = TrafficError::damaged("a.pcap.gz", 7, true, damage);
        assert_eq!(
            error.to_string(),
            "a.pcap.gz: damaged at byte 1234 of the uncompressed data, in record 8: it ends there; \
             the 7 packets before it are good"
        );
        assert!(error.is_damage());
        assert_eq!((error.packets_before(), error.offset()), (Some(7), Some(1234)));
    }

    #[test]
    fn a_full_table_says_what_to_raise() {
        let error = TrafficError::full("flows", 8);
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(error.to_string().ends_with("raise the limit of flows"), "{error}");
    }
}
