//! A source as a parameter of another one.

use humpyard_core::policy::ParameterValue;

/// The specification of a source, or of a law, inside another specification.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(super) struct Specification(pub(super) String);

impl Specification {
    /// As it reads outside.
    pub(super) fn text(&self) -> String {
        self.0.replace(';', ",")
    }
}

impl ParameterValue for Specification {
    const ACCEPTS: &'static str = "a specification, in which `;` stands for `,`";

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}
