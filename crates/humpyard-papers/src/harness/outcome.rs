//! The outcomes of claims.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The outcome of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// It holds with at least nine of ten seeds.
    #[serde(rename = "holds")]
    Holds,
    /// It does not hold, or with at most two of ten seeds.
    #[serde(rename = "contradicted")]
    Contradicted,
    /// It holds only with some seeds.
    #[serde(rename = "depends on the seed")]
    DependsOnSeed,
    /// The required hardware or input is not available.
    #[serde(rename = "not testable here")]
    NotTestable,
}

impl Outcome {
    /// All outcomes, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Holds, Self::Contradicted, Self::DependsOnSeed, Self::NotTestable];

    /// Returns the outcome of a claim that holds with `held` of `seeds` seeds. Of 10 seeds, it holds from 9 on,
    /// and is contradicted up to 2; of 3 seeds, with all and with none.
    pub(crate) const fn of(held: usize, seeds: usize) -> Self {
        if 10 * held >= 9 * seeds {
            Self::Holds
        } else if 10 * held <= 2 * seeds {
            Self::Contradicted
        } else {
            Self::DependsOnSeed
        }
    }

    /// Returns its name, as in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Contradicted => "contradicted",
            Self::DependsOnSeed => "depends on the seed",
            Self::NotTestable => "not testable here",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_seeds_are_neither_all_nor_none() {
        let of = |seeds: usize| (0..=seeds).map(|held| Outcome::of(held, seeds)).collect::<Vec<_>>();
        let (no, some, yes) = (Outcome::Contradicted, Outcome::DependsOnSeed, Outcome::Holds);
        assert_eq!(of(1), [no, yes]);
        assert_eq!(of(3), [no, some, some, yes]);
        assert_eq!(of(10), [no, no, no, some, some, some, some, some, some, yes, yes]);
    }

    #[test]
    fn documents_have_its_name() {
        for outcome in Outcome::ALL {
            let text = serde_json::to_string(&outcome).unwrap();
            assert_eq!(text, format!("\"{outcome}\""));
            assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        }
    }
}
