//! Helpers for tests of experiments.

use core::num::NonZeroUsize;
use std::path::Path;

use humpyard_core::random::Seed;

use super::experiment::{Experiment, Scale};
use super::judged::ClaimVerdict;
pub(crate) use super::judged::judge;
use super::options::ReproduceOptions;
use super::outcome::Outcome;
use super::table::Table;

/// Returns the data of these parts of a quick run.
pub(crate) fn parts(experiment: &dyn Experiment, parts: impl IntoIterator<Item = usize>) -> Table {
    let rows = parts.into_iter().flat_map(|part| experiment.run(part, Scale::Quick, Seed(1)).unwrap());
    Table::of(experiment.columns(), rows)
}

/// Returns the data of a quick run.
pub(crate) fn quick(experiment: &dyn Experiment) -> Table {
    parts(experiment, 0..experiment.parts(Scale::Quick))
}

/// Panics if an outcome of a quick run differs from the expected one, or has no expectation.
pub(crate) fn assert_expected(experiment: &dyn Experiment, data: &Table) {
    let claims = match experiment.seed_column() {
        Some(column) => judge(experiment, &data.split_by(column), Scale::Quick),
        None => judge(experiment, core::slice::from_ref(data), Scale::Quick),
    };
    let line = |claim: &ClaimVerdict| {
        let expected = claim.expected.map_or("nothing", Outcome::name);
        let (demanded, found) = (claim.demanded_text(), claim.found_text());
        format!("{} = \"{}\", expected {expected}: demanded {demanded}, found {found}\n", claim.claim, claim.outcome)
    };
    let odd: String = claims.iter().filter(|claim| claim.expected != Some(claim.outcome)).map(line).collect();
    assert!(!claims.is_empty() && odd.is_empty(), "{}:\n{odd}", experiment.about().id);
}

/// Judges data from a file. `None`: they do not belong to this experiment.
pub(crate) fn judged_data(experiment: &dyn Experiment, csv: &str, scale: Scale) -> Option<Vec<ClaimVerdict>> {
    let by_seed = Table::by_seed_from_csv(experiment.columns(), csv)?;
    Some(match experiment.seed_column() {
        Some(column) => judge(experiment, &by_seed[0].split_by(column), scale),
        None => judge(experiment, &by_seed, scale),
    })
}

/// Returns the options of a quick run of these experiments.
pub(crate) fn options(experiments: Vec<&'static dyn Experiment>, directory: &Path, threads: usize) -> ReproduceOptions {
    ReproduceOptions {
        experiments,
        scale: Scale::Quick,
        seed: Seed(1),
        directory: directory.to_owned(),
        threads: NonZeroUsize::new(threads).unwrap(),
        judges_only: false,
    }
}
