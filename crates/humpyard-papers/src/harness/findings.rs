//! The most interesting findings: `findings.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::outcome::Outcome;
use super::page::Shown;

/// A finding in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFinding {
    title: String,
    text: String,
    /// The claims that support it, each with the required outcome.
    claims: Vec<(String, Outcome)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindingsFile {
    finding: Vec<WrittenFinding>,
}

/// A finding, with the outcomes that support it.
pub(super) struct Finding {
    pub(super) title: &'static str,
    pub(super) text: &'static str,
    pub(super) outcomes: Vec<(&'static str, Outcome)>,
}

fn written() -> &'static [WrittenFinding] {
    static FINDINGS: LazyLock<Vec<WrittenFinding>> = LazyLock::new(|| {
        let read: Result<FindingsFile, _> = toml::from_str(include_str!("../../findings.toml"));
        read.unwrap_or_else(|error| panic!("findings.toml: {error}")).finding
    });
    &FINDINGS
}

/// Returns the findings that these experiments support: all claims of each have the required outcome.
pub(super) fn findings(shown: &[Shown]) -> Vec<Finding> {
    let outcome = |claim: &str| {
        let mut found = shown.iter().flat_map(|one| &one.document.claims).filter(|verdict| verdict.claim == claim);
        found.next().map(|verdict| verdict.outcome)
    };
    let is_shown = |finding: &&WrittenFinding| finding.claims.iter().all(|(claim, said)| outcome(claim) == Some(*said));
    let finding = |finding: &'static WrittenFinding| Finding {
        title: &finding.title,
        text: &finding.text,
        outcomes: finding.claims.iter().map(|(claim, said)| (claim.as_str(), *said)).collect(),
    };
    written().iter().filter(is_shown).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::claim::claims;
    use super::super::expected::expected;
    use super::super::experiment::Scale;
    use super::*;

    /// A finding requires of its claims the outcomes expected of a full run, where there is an expectation.
    #[test]
    fn findings_rest_on_claims() {
        assert!(written().len() <= 10);
        for WrittenFinding { title, claims: of, .. } in written() {
            assert!(!of.is_empty(), "{title}");
            for (id, said) in of {
                assert!(claims().iter().any(|claim| claim.id == *id), "{title}: no claim {id}");
                let expected = expected(id, Scale::Full).map(|expected| expected.outcome);
                assert!(expected.is_none_or(|expected| expected == *said), "{title}: {id}");
            }
        }
    }
}
