//! Why a policy or a scheduler cannot be built.

use alloc::string::String;
use core::fmt;

/// The kind of a [`BuildError`], for programs: its text says more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum BuildErrorKind {
    /// No policy, or no family, has this name.
    UnknownPolicy,
    /// The policy has no parameter of this name.
    UnknownParameter,
    /// The text is no specification, or gives a family or a parameter twice.
    Syntax,
    /// A parameter does not take this value.
    BadValue,
    /// Policies, parameters and configuration are each valid, but do not work together.
    Combination,
    /// The run would need more memory, or larger numbers, than are available.
    TooLarge,
    /// The configuration describes no possible run: it has no cores, for example.
    SetUp,
}

impl BuildErrorKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::UnknownPolicy,
        Self::UnknownParameter,
        Self::Syntax,
        Self::BadValue,
        Self::Combination,
        Self::TooLarge,
        Self::SetUp,
    ];

    /// Returns the kind's name for other languages, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownPolicy => "unknown_policy",
            Self::UnknownParameter => "unknown_parameter",
            Self::Syntax => "syntax",
            Self::BadValue => "bad_value",
            Self::Combination => "combination",
            Self::TooLarge => "too_large",
            Self::SetUp => "set_up",
        }
    }
}

/// Why a policy could not be built: the value given, the values accepted, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    kind: BuildErrorKind,
    message: String,
}

impl BuildError {
    /// Returns an error of this kind with this message of one line.
    pub fn new(kind: BuildErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns an error of the kind [`BuildErrorKind::BadValue`].
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(BuildErrorKind::BadValue, message)
    }

    /// Returns an error of the kind [`BuildErrorKind::Combination`].
    pub fn combination(message: impl Into<String>) -> Self {
        Self::new(BuildErrorKind::Combination, message)
    }

    /// Returns an error of the kind [`BuildErrorKind::TooLarge`].
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(BuildErrorKind::TooLarge, message)
    }

    /// Returns an error of the kind [`BuildErrorKind::SetUp`].
    pub fn set_up(message: impl Into<String>) -> Self {
        Self::new(BuildErrorKind::SetUp, message)
    }

    /// Returns the kind of the error.
    pub const fn kind(&self) -> BuildErrorKind {
        self.kind
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for BuildError {}
