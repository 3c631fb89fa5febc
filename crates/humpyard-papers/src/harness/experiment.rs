//! What an experiment is.

use humpyard_core::random::Seed;
use serde::{Deserialize, Serialize};

use super::table::{Column, Row, Table};
use humpyard_lab::LabError;
use humpyard_plot::Svg;

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
    /// Returns the directory for what is made, where none is named.
    pub const fn directory(self) -> &'static str {
        match self {
            Self::Quick => "reproduction-quick",
            Self::Full => "reproduction",
        }
    }

    /// One of two numbers.
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
    /// How it is done together with those beside it, word for word the same for all of them; empty where it stands
    /// alone.
    #[serde(skip)]
    pub setting: &'static str,
    /// How it is done, and what of the paper cannot be known.
    pub description: &'static str,
    /// The columns of its data.
    #[serde(skip)]
    pub columns: &'static [Column],
}

impl About {
    /// Starts to describe an experiment of this paper, for struct update; it has no name yet.
    pub(crate) const fn of(paper: &'static str) -> Self {
        Self { id: "", paper, figure: "", title: "", setting: "", description: "", columns: &[] }
    }

    /// The setting and the description.
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

/// Something that was found and is no claim of the paper.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// What it is about.
    pub about: String,
    /// What is said of it elsewhere; empty if nothing is.
    pub said: String,
    /// What was found.
    pub found: String,
}

impl Note {
    /// Makes a note.
    pub(crate) fn new(about: impl Into<String>, said: impl Into<String>, found: impl Into<String>) -> Self {
        Self { about: about.into(), said: said.into(), found: found.into() }
    }
}

/// Plots, each with its name.
pub type Plots = Vec<(String, Svg)>;

/// An experiment.
pub trait Experiment: Sync {
    /// What it is.
    fn about(&self) -> About;

    /// The columns of its data.
    fn columns(&self) -> &'static [Column] {
        self.about().columns
    }

    /// The version of its rows. Raise it whenever a seed gives other rows than before: parts that an interrupted run
    /// kept are then run again.
    fn version(&self) -> u32 {
        1
    }

    /// The experiment whose rows it has: of several that run the same, the first. Parts of that are not run again.
    fn rows_of(&self) -> &'static str {
        self.about().id
    }

    /// How many parts it has at this scale.
    fn parts(&self, scale: Scale) -> usize;

    /// Runs a part, numbered from 0.
    ///
    /// # Errors
    /// Whatever keeps it from being run.
    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError>;

    /// The figures of merit of the paper's claims that it tests.
    fn figures(&self) -> &'static [Figure] {
        &[]
    }

    /// The column whose numbers are seeds. `None`: the harness runs all parts with one seed after the other.
    fn seed_column(&self) -> Option<&'static str> {
        None
    }

    /// What the data show beside the paper's claims.
    fn notes(&self, _: &Table) -> Vec<Note> {
        Vec::new()
    }

    /// Plots of the data, by name.
    fn plots(&self, data: &Table) -> Plots;

    /// Whether it measures times, so that nothing else may run beside it.
    fn is_timed(&self) -> bool {
        false
    }
}

/// Lists experiments of one kind.
pub(crate) fn family<E: Experiment>(of: &'static [E]) -> Vec<&'static dyn Experiment> {
    of.iter().map(|experiment| experiment as _).collect()
}
