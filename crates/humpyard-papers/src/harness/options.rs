//! The options of a run, and its result.

use core::num::NonZeroUsize;
use std::path::PathBuf;

use humpyard_core::random::Seed;

use super::directory::Reproduced;
use super::experiment::{Experiment, Scale};

/// The options of a run.
#[derive(Clone)]
pub struct ReproduceOptions {
    /// The experiments.
    pub experiments: Vec<&'static dyn Experiment>,
    /// The scale.
    pub scale: Scale,
    /// The seed of all randomness.
    pub seed: Seed,
    /// The directory for data, plots and pages.
    pub directory: PathBuf,
    /// Number of threads; it changes only times.
    pub threads: NonZeroUsize,
    /// Whether to judge the data in the directory again and write the pages, without running anything.
    pub judges_only: bool,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// The complete experiments.
    pub experiments: Vec<Reproduced>,
    /// Number of finished parts.
    pub done: usize,
    /// Number of all parts; greater than `done` if the run was interrupted.
    pub all: usize,
    /// The missing parts, if the run was interrupted.
    pub missing: Vec<Missing>,
    /// Unreadable documents in the directory; the pages omit their experiments.
    pub unreadable: Vec<PathBuf>,
}

/// The unfinished parts of an experiment after an interrupted run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The experiment.
    pub experiment: &'static str,
    /// Its missing parts, numbered from 0, ascending.
    pub parts: Vec<usize>,
    /// Number of its parts.
    pub of: usize,
}

impl Missing {
    /// Returns the missing parts as text, numbered from 1.
    pub fn text(&self) -> String {
        let Self { experiment, parts, of } = self;
        if parts.len() == *of {
            return format!("{experiment} (all of it)");
        }
        let numbered: Vec<usize> = parts.iter().map(|part| part + 1).collect();
        let range = |range: &[usize]| match range {
            [one] => one.to_string(),
            several => format!("{} to {}", several[0], several[several.len() - 1]),
        };
        let ranges: Vec<String> = numbered.chunk_by(|one, next| one + 1 == *next).map(range).collect();
        let word = if parts.len() == 1 { "part" } else { "parts" };
        format!("{experiment} ({word} {} of {of})", ranges.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_in_ranges() {
        let text = |parts: &[usize], of| Missing { experiment: "x", parts: parts.to_vec(), of }.text();
        assert_eq!(text(&[0, 1], 2), "x (all of it)");
        assert_eq!(text(&[4], 5), "x (part 5 of 5)");
        assert_eq!(text(&[0, 2, 3, 4, 8], 10), "x (parts 1, 3 to 5, 9 of 10)");
    }
}
