//! The expected outcomes of claims, by scale: `expected.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::experiment::Scale;
use super::outcome::Outcome;

/// The expected outcome of a claim.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(from = "WrittenExpectation")]
pub(crate) struct Expected {
    pub(crate) outcome: Outcome,
    /// The finding that differs from the paper's, and its cause, if a run shows it.
    pub(crate) why: Option<String>,
    /// The command that shows it.
    pub(crate) run: Option<String>,
}

/// An expectation in the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenExpectation {
    Outcome(Outcome),
    Explained { outcome: Outcome, why: String, run: String },
}

impl From<WrittenExpectation> for Expected {
    fn from(written: WrittenExpectation) -> Self {
        match written {
            WrittenExpectation::Outcome(outcome) => Self { outcome, why: None, run: None },
            WrittenExpectation::Explained { outcome, why, run } => Self { outcome, why: Some(why), run: Some(run) },
        }
    }
}

/// Expectations by claim.
type Expectations = BTreeMap<String, Expected>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedFile {
    full: Expectations,
    quick: Expectations,
}

fn of_scale(scale: Scale) -> &'static Expectations {
    static FILE: LazyLock<ExpectedFile> = LazyLock::new(|| {
        toml::from_str(include_str!("../../expected.toml")).unwrap_or_else(|error| panic!("expected.toml: {error}"))
    });
    match scale {
        Scale::Full => &FILE.full,
        Scale::Quick => &FILE.quick,
    }
}

/// Returns the expectation for a claim at this scale. `None`: there is none.
///
/// A quick run without a reason of its own has the reason of the full run.
pub(crate) fn expected(claim: &str, scale: Scale) -> Option<Expected> {
    let expected = of_scale(scale).get(claim)?;
    let full = of_scale(Scale::Full).get(claim).filter(|full| full.outcome == expected.outcome);
    let explained = if expected.why.is_some() { expected } else { full.unwrap_or(expected) };
    Some(explained.clone())
}

#[cfg(test)]
mod tests {
    use super::super::claim::claims;
    use super::*;

    #[test]
    fn expectations_are_of_claims_that_can_be_tested_and_say_why_one_does_not_hold() {
        for scale in [Scale::Full, Scale::Quick] {
            for (id, Expected { outcome, .. }) in of_scale(scale) {
                let claim = claims().iter().find(|claim| claim.id == *id);
                assert!(claim.is_some_and(|claim| claim.untestable.is_none()), "{id}");
                let needs_why = matches!(outcome, Outcome::Contradicted | Outcome::DependsOnSeed);
                assert_eq!(expected(id, scale).unwrap().why.is_some(), needs_why, "{scale:?} {id}");
                assert_ne!(*outcome, Outcome::NotTestable, "{id}: claims.toml says what cannot be tested");
            }
        }
    }
}
