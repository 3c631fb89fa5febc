//! What is asked of a run, and what it answers.

use core::num::NonZeroUsize;
use std::path::PathBuf;

use humpyard_core::random::Seed;

use super::directory::Reproduced;
use super::experiment::{Experiment, Scale};

/// What is to be run, and where to.
#[derive(Clone)]
pub struct ReproduceOptions {
    /// The experiments.
    pub experiments: Vec<&'static dyn Experiment>,
    /// How much of them.
    pub scale: Scale,
    /// Where all randomness comes from.
    pub seed: Seed,
    /// The directory for data, plots and pages.
    pub directory: PathBuf,
    /// Threads; they change nothing but times.
    pub threads: NonZeroUsize,
    /// Nothing is run: the data that the directory has are judged again, and the pages written.
    pub judges_only: bool,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// The experiments of it that are whole.
    pub experiments: Vec<Reproduced>,
    /// Parts done.
    pub done: usize,
    /// Parts there are: more, if the run was ended from outside.
    pub all: usize,
    /// What is missing then.
    pub missing: Vec<Missing>,
    /// Documents in the directory that cannot be read: the pages leave out what they were of.
    pub unreadable: Vec<PathBuf>,
}

/// The parts of an experiment that an interrupted run has not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The experiment.
    pub experiment: &'static str,
    /// Its parts that are missing, numbered from 0, rising.
    pub parts: Vec<usize>,
    /// Parts that it has.
    pub of: usize,
}

impl Missing {
    /// What is missing, with parts numbered from 1.
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
