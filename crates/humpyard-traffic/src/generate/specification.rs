//! Specifications of sources as parameters of other sources.

use humpyard_core::policy::ParameterValue;

/// The specification of a source, or of a law, inside another specification.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(super) struct Specification(pub(super) String);

impl Specification {
    /// Returns the specification in its usual form.
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
