//! The parts of a run that are done, so that a run that was ended goes on where it was.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::directory::{unwritable, write};
use super::experiment::Experiment;
use super::judged::seeds;
use super::options::ReproduceOptions;
use super::table::{Row, Table};
use humpyard_core::random::Seed;
use humpyard_lab::LabError;
use humpyard_lab::sha256_of;

/// The rows of a part, and how many seconds it took; or what kept it from being run.
pub(super) type Part = Result<(Vec<Row>, f64), String>;

/// Returns the parts of an experiment with all its seeds: those of the first seed, then those of the next.
pub(super) fn parts(experiment: &dyn Experiment, options: &ReproduceOptions) -> usize {
    seeds(experiment, options.scale) * experiment.parts(options.scale)
}

/// Returns the seed of one of these parts, and its number among those of the seed.
fn of_seed(options: &ReproduceOptions, experiment: &dyn Experiment, part: usize) -> (Seed, usize) {
    let of_seed = experiment.parts(options.scale);
    (Seed(options.seed.0.wrapping_add((part / of_seed) as u64)), part % of_seed)
}

/// The rows of parts that are done, in a directory of their own, by scale, and there by experiment, version and seed.
pub(super) struct Kept {
    directory: PathBuf,
    /// The parts of this run.
    done: Vec<PathBuf>,
    /// Where parts that are running have their files.
    scratch: PathBuf,
}

impl Kept {
    /// Finds the directory, which need not be there.
    pub(super) fn of(options: &ReproduceOptions) -> Self {
        let directory = options.directory.join(".parts").join(format!("{:?}", options.scale));
        let scratch = directory.join("running");
        let mut kept = Self { directory, done: Vec::new(), scratch };
        for experiment in &options.experiments {
            let parts = 0..parts(*experiment, options);
            kept.done.extend(parts.map(|part| kept.path(options, *experiment, part)).collect::<Vec<_>>());
        }
        kept
    }

    /// Makes the directory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn make(&self) -> Result<(), LabError> {
        fs::create_dir_all(&self.directory).map_err(|error| unwritable(&self.directory, &error))
    }

    /// Where the rows of a part are kept.
    fn path(&self, options: &ReproduceOptions, experiment: &dyn Experiment, part: usize) -> PathBuf {
        let (Seed(seed), part) = of_seed(options, experiment, part);
        self.directory.join(format!("{}-v{}-seed{seed}-{part}.rows", experiment.rows_of(), experiment.version()))
    }

    /// A part: what is kept of it, or else what it yields now.
    ///
    /// # Errors
    /// What keeps its rows from being written.
    pub(super) fn part(
        &self,
        options: &ReproduceOptions,
        experiment: &dyn Experiment,
        part: usize,
    ) -> Result<Part, LabError> {
        let path = self.path(options, experiment, part);
        if let Some(kept) = read(&path, experiment) {
            return Ok(Ok(kept));
        }
        let MadePart { table, seconds, text } = match made(options, experiment, part) {
            Ok(made) => made,
            Err(error) => return Ok(Err(error.to_string())),
        };
        write(&path, text.as_bytes())?;
        Ok(Ok((table.into_rows(), seconds)))
    }

    /// Returns the parts that are not kept, without those that measure times; of several parts with the same rows the
    /// first.
    pub(super) fn missing_parts(&self, options: &ReproduceOptions) -> Vec<(&'static str, usize)> {
        let mut seen = BTreeSet::new();
        let mut missing = Vec::new();
        for &experiment in options.experiments.iter().filter(|experiment| !experiment.is_timed()) {
            for part in 0..parts(experiment, options) {
                let path = self.path(options, experiment, part);
                if read(&path, experiment).is_none() && seen.insert(path) {
                    missing.push((experiment.about().id, part));
                }
            }
        }
        missing
    }

    /// Keeps a part that another process has made.
    ///
    /// # Errors
    /// Text that is none of a part, and what keeps it from being written.
    pub(super) fn keep(
        &self,
        options: &ReproduceOptions,
        experiment: &dyn Experiment,
        part: usize,
        text: &str,
    ) -> Result<(), LabError> {
        if rows_in(text, experiment).is_none() {
            let id = experiment.about().id;
            return Err(LabError::option(format!("{id}: part {} came back damaged: run it again", part + 1)));
        }
        write(&self.path(options, experiment, part), text.as_bytes())
    }

    /// Returns which part of an experiment's parts is not kept, from 0 to 1.
    pub(super) fn missing(&self, options: &ReproduceOptions, experiment: &dyn Experiment) -> f64 {
        let all = parts(experiment, options);
        let missing = (0..all).filter(|&part| !self.path(options, experiment, part).exists()).count();
        missing as f64 / all.max(1) as f64
    }

    /// Where parts that are running have their files.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Removes what parts that were running have left, and, where everything is done, what was kept.
    pub(super) fn clear(&self, all_is_done: bool) {
        // What cannot be removed does no harm: parts of other experiments are not ours, and keep their directory.
        let _ = fs::remove_dir_all(&self.scratch);
        for path in self.done.iter().filter(|_| all_is_done) {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir(&self.directory);
        let _ = self.directory.parent().map(fs::remove_dir);
    }
}

/// A part that was run.
struct MadePart {
    table: Table,
    seconds: f64,
    /// What is kept of it.
    text: String,
}

/// Runs a part.
///
/// # Errors
/// What keeps it from being run.
fn made(options: &ReproduceOptions, experiment: &dyn Experiment, part: usize) -> Result<MadePart, LabError> {
    let begin = Instant::now();
    let (seed, part) = of_seed(options, experiment, part);
    let rows = experiment.run(part, options.scale, seed)?;
    let seconds = begin.elapsed().as_secs_f64();
    let table = Table::of(experiment.columns(), rows);
    let text = format!("{seconds}\n{}", table.csv());
    Ok(MadePart { table, seconds, text: format!("{}\n{text}", sha256_of(text.as_bytes())) })
}

/// Runs a part, and returns what is kept of it.
///
/// # Errors
/// What keeps it from being run.
pub(super) fn text_of(
    options: &ReproduceOptions,
    experiment: &dyn Experiment,
    part: usize,
) -> Result<String, LabError> {
    made(options, experiment, part).map(|made| made.text)
}

/// Returns the kept part in this file. `None`: there is none, or it is not as it was written.
fn read(path: &Path, experiment: &dyn Experiment) -> Option<(Vec<Row>, f64)> {
    rows_in(&fs::read_to_string(path).ok()?, experiment)
}

/// Returns the part that this text keeps. `None`: it is not as it was written.
fn rows_in(text: &str, experiment: &dyn Experiment) -> Option<(Vec<Row>, f64)> {
    let (checksum, text) = text.split_once('\n')?;
    if checksum != sha256_of(text.as_bytes()) {
        return None;
    }
    let (seconds, csv) = text.split_once('\n')?;
    Some((Table::from_csv(experiment.columns(), csv)?.into_rows(), seconds.parse().ok()?))
}
