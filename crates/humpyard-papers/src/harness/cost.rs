//! The cost of a full run: `cost.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::kept::Kept;
use super::options::ReproduceOptions;

/// The estimated cost of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cost {
    /// Time of one core for the unfinished parts, in seconds, on the machine of `cost.toml`.
    pub seconds: f64,
    /// Experiments of unknown cost.
    pub unknown: Vec<&'static str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostFile {
    /// Seconds of a full run, by the experiment that owns the rows.
    seconds: BTreeMap<String, f64>,
}

/// Returns the cost of a full run without the parts that are kept.
pub(crate) fn cost(options: &ReproduceOptions) -> Cost {
    static FILE: LazyLock<CostFile> = LazyLock::new(|| {
        toml::from_str(include_str!("../../cost.toml")).unwrap_or_else(|error| panic!("cost.toml: {error}"))
    });
    let kept = Kept::of(options);
    let (mut cost, mut counted) = (Cost::default(), BTreeSet::new());
    for &experiment in &options.experiments {
        match FILE.seconds.get(experiment.rows_of()) {
            Some(seconds) if counted.insert(experiment.rows_of()) => {
                cost.seconds += seconds * kept.missing(options, experiment);
            }
            Some(_) => {}
            None => cost.unknown.push(experiment.about().id),
        }
    }
    cost
}
