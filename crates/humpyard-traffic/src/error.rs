//! What can go wrong with traffic, said so that it can be mended.

use std::io;

use humpyard_core::name::unknown;
use humpyard_core::policy::ParameterError;

/// What kind of thing went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text that names a source, a sink, a profile or a rule is not valid.
    Usage,
    /// The input gives no packet at all: missing, empty, not a capture, cut inside its header.
    Unusable,
    /// The input was good up to a point, and is not beyond it. All packets before that point were delivered.
    Damaged,
    /// The output cannot be written, or cannot hold what it was given.
    Output,
    /// A table is full, and everything in it is in use.
    Full,
}

/// An error of this crate. Its text names the file, the record and the byte, and the way out where there is one.
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

/// Where and how an input stops being good.
#[derive(Debug)]
pub(crate) struct Damage {
    /// Byte at which the bad record starts, in the uncompressed stream.
    pub(crate) offset: u64,
    /// What is wrong with it.
    pub(crate) reason: String,
}

impl TrafficError {
    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        match *self.0 {
            Problem::Usage(_) => ErrorKind::Usage,
            Problem::Unusable { .. } => ErrorKind::Unusable,
            Problem::Damaged { .. } => ErrorKind::Damaged,
            Problem::Output { .. } => ErrorKind::Output,
            Problem::Full { .. } => ErrorKind::Full,
        }
    }

    /// Whether a good input stopped being good, so that the packets before that point can be used.
    pub fn is_damage(&self) -> bool {
        self.kind() == ErrorKind::Damaged
    }

    /// How many good packets were delivered before the damage; none if this is no damage.
    pub fn packets_before(&self) -> Option<u64> {
        match *self.0 {
            Problem::Damaged { packets, .. } => Some(packets),
            _ => None,
        }
    }

    /// The byte at which the damaged record starts, in the uncompressed data; none if this is no damage.
    pub fn offset(&self) -> Option<u64> {
        match *self.0 {
            Problem::Damaged { offset, .. } => Some(offset),
            _ => None,
        }
    }

    /// A text that names a source, a sink, a profile or a rule is not valid.
    pub fn usage(message: impl Into<String>) -> Self {
        Self(Box::new(Problem::Usage(message.into())))
    }

    /// This input gives no packet.
    pub fn unusable(input: &str, reason: impl Into<String>) -> Self {
        Self(Box::new(Problem::Unusable { input: input.into(), reason: reason.into(), source: None }))
    }

    /// This input cannot be read.
    pub fn unreadable(input: &str, error: io::Error) -> Self {
        let reason = format!("cannot be read: {error}");
        Self(Box::new(Problem::Unusable { input: input.into(), reason, source: Some(error) }))
    }

    pub(crate) fn damaged(input: &str, packets: u64, compressed: bool, damage: Damage) -> Self {
        let Damage { offset, reason } = damage;
        Self(Box::new(Problem::Damaged { input: input.into(), packets, offset, compressed, reason }))
    }

    /// This output cannot hold what it was given.
    pub fn output(output: &str, reason: impl Into<String>) -> Self {
        Self(Box::new(Problem::Output { output: output.into(), reason: reason.into(), source: None }))
    }

    /// This output cannot be written.
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

/// Returns what has this name.
///
/// # Errors
/// If nothing has it: names what is near, and what there is.
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
