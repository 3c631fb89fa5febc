//! Experiments: figures, tables and claims of the papers, done again.
//!
//! An experiment is a folder: what it is, what it claims, what it varies, the code that yields rows of data, and plots shaped
//! like the paper's. It falls into parts that know nothing of each other, each of which is run from its own streams of chance,
//! so that [`reproduce`] may run them on all cores, and go on where it was ended.

mod admit_bound;
mod directory;
mod everest;
mod gr3_claims;
mod gr3_costs;
mod gr3_live;
mod gr3_schedules;
mod gr3_surfaces;
mod gr3_web_servers;
mod kept;
mod page;
mod predictive;
mod ps_hrw;
mod recommend;
mod reproduce;
mod scratch;
mod table;
mod verdict;
mod yim;

use humpyard_core::name::unknown;
use humpyard_core::random::Seed;
use humpyard_policies::spec::PolicySpec;
use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::order::OrderChoice;
use crate::plot::Svg;

pub use directory::Reproduced;
pub use reproduce::{Missing, ReproduceOptions, Reproduction, reproduce};
pub use table::{Column, Kind, Row, Table, TableRow, Value};
pub use verdict::{Outcome, Verdict, short};

/// How packets leave in the experiments of the papers, which have no exit: under a policy that keeps flows in order if a client has one
/// packet in service at a time, it has; under others packets leave as they are done.
fn held_order(policy: &PolicySpec) -> OrderChoice {
    if policy.holds_flows() { OrderChoice::Hold } else { OrderChoice::Free }
}

/// How much of an experiment is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// A fixed part of it, within a minute.
    Quick,
    /// All of it.
    Full,
}

impl Scale {
    /// One of two numbers.
    pub const fn pick<T: Copy>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// What an experiment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct About {
    /// Its name.
    #[serde(rename = "name")]
    pub id: &'static str,
    /// The paper.
    #[serde(rename = "source")]
    pub paper: &'static str,
    /// Which figure, table or passage of it.
    pub figure: &'static str,
    /// What it shows, in a few words.
    #[serde(rename = "summary")]
    pub title: &'static str,
    /// How it is done together with those beside it, word for word the same for all of them; empty where it stands alone.
    #[serde(skip)]
    pub setting: &'static str,
    /// How it is done, and what of the paper cannot be known.
    pub description: &'static str,
}

impl About {
    /// The setting and the description.
    pub fn whole_description(&self) -> String {
        format!("{} {}", self.setting, self.description).trim_start().to_owned()
    }
}

/// An experiment.
pub trait Experiment: Sync {
    /// What it is.
    fn about(&self) -> About;

    /// The version of its rows. Raise it whenever a seed gives other rows than before: parts that an interrupted run kept are then
    /// run again.
    fn version(&self) -> u32 {
        1
    }

    /// The columns of its data.
    fn columns(&self) -> &'static [Column];

    /// How many parts it has at this scale.
    fn parts(&self, scale: Scale) -> usize;

    /// Runs a part, numbered from 0.
    ///
    /// # Errors
    /// Whatever keeps it from being run.
    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError>;

    /// What the data say of the claims.
    fn verdicts(&self, data: &Table) -> Vec<Verdict>;

    /// Plots of the data, by name.
    fn plots(&self, data: &Table) -> Vec<(String, Svg)>;

    /// Whether it measures times, so that nothing else may run beside it.
    fn is_timed(&self) -> bool {
        false
    }
}

/// Every experiment, paper by paper.
pub fn all() -> Vec<&'static dyn Experiment> {
    let schedules = gr3_schedules::ALL.iter().map(|experiment| experiment as _);
    let surfaces = gr3_surfaces::all().chain(gr3_costs::all());
    let servers = gr3_web_servers::all().chain(gr3_live::all());
    schedules
        .chain(surfaces)
        .chain(servers)
        .chain(gr3_claims::all())
        .chain(ps_hrw::all())
        .chain(yim::all())
        .chain(everest::all())
        .chain(predictive::all())
        .chain(admit_bound::all())
        .chain(recommend::all())
        .collect()
}

/// The experiments of these names, each once, in the order of [`all`]; a name may be a pattern with `*` and `?`, or `all`.
///
/// # Errors
/// A name of none, and a pattern that nothing fits.
pub fn find(names: &[String]) -> Result<Vec<&'static dyn Experiment>, LabError> {
    let all = all();
    let mut chosen = vec![false; all.len()];
    for name in names {
        let pattern = if name == "all" { "*" } else { name };
        let pattern = glob::Pattern::new(pattern)
            .map_err(|error| LabError::option(format!("`{name}` is no pattern of names: {error}")))?;
        let mut found = false;
        for (experiment, chosen) in all.iter().zip(&mut chosen) {
            let fits = pattern.matches(experiment.about().id);
            found |= fits;
            *chosen |= fits;
        }
        if !found {
            return Err(LabError::option(unknown("experiment", name, all.iter().map(|known| known.about().id))));
        }
    }
    Ok(all.into_iter().zip(chosen).filter_map(|(experiment, chosen)| chosen.then_some(experiment)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn found(names: &[&str]) -> Vec<&'static str> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        find(&names).unwrap().into_iter().map(|experiment| experiment.about().id).collect()
    }

    #[test]
    fn experiments_are_found_by_name_and_pattern() {
        assert_eq!(found(&["gr3-fig3", "gr3-fig2", "gr3-fig2"]), ["gr3-fig2", "gr3-fig3"]);
        assert_eq!(found(&["gr3-fig[23]"]), ["gr3-fig2", "gr3-fig3"]);
        assert_eq!(found(&["all"]).len(), all().len());
        let refused = |name: &str| find(&[name.to_owned()]).err().unwrap().to_string();
        assert!(refused("gr3-fg2").contains("did you mean `gr3-fig2`?"));
        assert!(refused("gr3-fig[").contains("no pattern"));
    }

    #[test]
    fn every_experiment_says_what_it_is() {
        let mut ids = BTreeSet::new();
        for experiment in all() {
            let About { id, paper, figure, title, description, .. } = experiment.about();
            assert!(ids.insert(id), "{id} twice");
            assert!([paper, figure, title, description].iter().all(|text| !text.is_empty()), "{id}");
            assert!(
                experiment.parts(Scale::Quick) > 0 && experiment.parts(Scale::Quick) <= experiment.parts(Scale::Full)
            );
        }
    }
}
