//! The interface of experiments.

use humpyard_core::random::Seed;
use serde::{Deserialize, Serialize};

use super::table::{Column, Row, Table};
use humpyard_lab::LabError;
use humpyard_plot::Svg;

/// The scale of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// A fixed part of the experiment, within a minute.
    Quick,
    /// The whole experiment.
    Full,
}

impl Scale {
    /// Returns the default output directory.
    pub const fn directory(self) -> &'static str {
        match self {
            Self::Quick => "reproduction-quick",
            Self::Full => "reproduction",
        }
    }

    /// Returns `quick` or `full`, by the scale.
    pub const fn pick<T: Copy>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    /// Returns the first of a pair if quick, else the second.
    pub const fn of<T: Copy>(self, (quick, full): (T, T)) -> T {
        self.pick(quick, full)
    }
}

/// The description of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct About {
    /// Its name.
    #[serde(rename = "name")]
    pub id: &'static str,
    /// The paper.
    #[serde(rename = "source")]
    pub paper: &'static str,
    /// The figure, table or passage of the paper.
    pub figure: &'static str,
    /// Its title, in a few words.
    #[serde(rename = "summary")]
    pub title: &'static str,
    /// The method that it shares with related experiments, in the same words; empty if it has no related ones.
    #[serde(skip)]
    pub setting: &'static str,
    /// The method, and what the paper leaves open.
    pub description: &'static str,
    /// The columns of its data.
    #[serde(skip)]
    pub columns: &'static [Column],
}

impl About {
    /// Returns the description of an experiment of this paper, for struct update; its name is empty.
    pub(crate) const fn of(paper: &'static str) -> Self {
        Self { id: "", paper, figure: "", title: "", setting: "", description: "", columns: &[] }
    }

    /// Returns the setting and the description.
    pub fn whole_description(&self) -> String {
        format!("{} {}", self.setting, self.description).trim_start().to_owned()
    }
}

/// The figure of merit of a claim.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The claim's name in `claims.toml`.
    pub claim: &'static str,
    /// Computes it from the data of one seed.
    pub of: fn(&Table) -> Vec<f64>,
}

/// An observation that is no claim of the paper.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Its subject.
    pub about: String,
    /// Statements elsewhere; empty if there are none.
    pub said: String,
    /// The finding.
    pub found: String,
}

impl Note {
    /// Returns a note.
    pub(crate) fn new(about: impl Into<String>, said: impl Into<String>, found: impl Into<String>) -> Self {
        Self { about: about.into(), said: said.into(), found: found.into() }
    }
}

/// Plots, each with its name.
pub type Plots = Vec<(String, Svg)>;

/// An experiment.
pub trait Experiment: Sync {
    /// Returns the description.
    fn about(&self) -> About;

    /// Returns the columns of its data.
    fn columns(&self) -> &'static [Column] {
        self.about().columns
    }

    /// Returns the version of its rows. Increase it when a seed gives other rows than before: kept parts of
    /// interrupted runs are then run again.
    fn version(&self) -> u32 {
        1
    }

    /// Returns the experiment that owns its rows: the first of several with the same parts, which are run only
    /// once.
    fn rows_of(&self) -> &'static str {
        self.about().id
    }

    /// Returns the number of its parts at this scale.
    fn parts(&self, scale: Scale) -> usize;

    /// Runs a part, numbered from 0.
    ///
    /// # Errors
    /// If the part cannot be run.
    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError>;

    /// Returns the figures of merit of the claims that it tests.
    fn figures(&self) -> &'static [Figure] {
        &[]
    }

    /// Returns the column with seeds. `None`: the harness runs all parts with one seed after the other.
    fn seed_column(&self) -> Option<&'static str> {
        None
    }

    /// Returns observations from the data besides the paper's claims.
    fn notes(&self, _: &Table) -> Vec<Note> {
        Vec::new()
    }

    /// Returns plots of the data, by name.
    fn plots(&self, data: &Table) -> Plots;

    /// Returns whether it measures times, so that nothing else may run at the same time.
    fn is_timed(&self) -> bool {
        false
    }
}

/// Lists experiments of one kind.
pub(crate) fn family<E: Experiment>(of: &'static [E]) -> Vec<&'static dyn Experiment> {
    of.iter().map(|experiment| experiment as _).collect()
}
