//! What a port has to say at the start of a run.

/// A word on a port, for the user to read before its first packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// What there is to say, with the port's name before it.
    pub text: String,
    /// Whether something is lost unless the user acts.
    pub is_warning: bool,
}

impl Note {
    pub(crate) fn remark(port: &str, what: impl AsRef<str>) -> Self {
        Self { text: format!("{port}: {}", what.as_ref()), is_warning: false }
    }

    pub(crate) fn warning(port: &str, what: impl AsRef<str>) -> Self {
        Self { is_warning: true, ..Self::remark(port, what) }
    }
}
