//! What tests of experiments have in common.

use core::num::NonZeroUsize;
use std::path::Path;

use humpyard_core::random::Seed;

use super::experiment::{Experiment, Scale};
use super::options::ReproduceOptions;
use super::table::Table;
use super::verdict::{Outcome, Verdict};

/// Returns the data of these parts of a quick run.
pub(crate) fn parts(experiment: &dyn Experiment, parts: impl IntoIterator<Item = usize>) -> Table {
    let rows = parts.into_iter().flat_map(|part| experiment.run(part, Scale::Quick, Seed(1)).unwrap());
    Table::of(experiment.columns(), rows)
}

/// Returns the data of a quick run.
pub(crate) fn quick(experiment: &dyn Experiment) -> Table {
    parts(experiment, 0..experiment.parts(Scale::Quick))
}

/// Panics if a claim fails.
pub(crate) fn assert_holds(experiment: &dyn Experiment, data: &Table) {
    let verdicts = experiment.verdicts(data);
    let failed: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail).collect();
    assert!(!verdicts.is_empty() && failed.is_empty(), "{}: {failed:#?}", experiment.about().id);
}

/// Asks for a quick run of these experiments.
pub(crate) fn options(experiments: Vec<&'static dyn Experiment>, directory: &Path, threads: usize) -> ReproduceOptions {
    ReproduceOptions {
        experiments,
        scale: Scale::Quick,
        seed: Seed(1),
        directory: directory.to_owned(),
        threads: NonZeroUsize::new(threads).unwrap(),
    }
}
