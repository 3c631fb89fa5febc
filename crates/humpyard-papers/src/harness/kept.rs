//! Keeps the finished parts of a run, so that an interrupted run can be resumed.

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

/// The rows of a part, and its time in seconds; or the error that prevented it.
pub(super) type Part = Result<(Vec<Row>, f64), String>;

/// Returns the number of parts of an experiment over all its seeds: those of the first seed, then those of the
/// next.
pub(super) fn parts(experiment: &dyn Experiment, options: &ReproduceOptions) -> usize {
    seeds(experiment, options.scale) * experiment.parts(options.scale)
}

/// Returns the seed of one of these parts, and the part's number within that seed.
fn of_seed(options: &ReproduceOptions, experiment: &dyn Experiment, part: usize) -> (Seed, usize) {
    let of_seed = experiment.parts(options.scale);
    (Seed(options.seed.0.wrapping_add((part / of_seed) as u64)), part % of_seed)
}

/// The rows of finished parts, in a directory of their own, by scale, experiment, version and seed.
pub(super) struct Kept {
    directory: PathBuf,
    /// The files of this run's parts.
    done: Vec<PathBuf>,
    /// The directory for files of running parts.
    scratch: PathBuf,
}

impl Kept {
    /// Returns the directory, which need not exist.
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

    /// Creates the directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(super) fn make(&self) -> Result<(), LabError> {
        fs::create_dir_all(&self.directory).map_err(|error| unwritable(&self.directory, &error))
    }

    /// Returns the file for the rows of a part.
    fn path(&self, options: &ReproduceOptions, experiment: &dyn Experiment, part: usize) -> PathBuf {
        let (Seed(seed), part) = of_seed(options, experiment, part);
        self.directory.join(format!("{}-v{}-seed{seed}-{part}.rows", experiment.rows_of(), experiment.version()))
    }

    /// Returns the kept result of a part, or runs it.
    ///
    /// # Errors
    /// If its rows cannot be written.
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

    /// Returns the parts that are not kept, except those that measure times. Of several parts with the same
    /// rows, it returns the first.
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

    /// Keeps another process's result of a part.
    ///
    /// # Errors
    /// If the text is no result of a part, or cannot be written.
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

    /// Returns the fraction of an experiment's parts that is not kept, from 0 to 1.
    pub(super) fn missing(&self, options: &ReproduceOptions, experiment: &dyn Experiment) -> f64 {
        let all = parts(experiment, options);
        let missing = (0..all).filter(|&part| !self.path(options, experiment, part).exists()).count();
        missing as f64 / all.max(1) as f64
    }

    /// Returns the directory for files of running parts.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Removes the files of running parts; if everything is done, also the kept results.
    pub(super) fn clear(&self, all_is_done: bool) {
        // Errors of removal do no harm. Parts of other experiments stay, and keep their directory.
        let _ = fs::remove_dir_all(&self.scratch);
        for path in self.done.iter().filter(|_| all_is_done) {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir(&self.directory);
        let _ = self.directory.parent().map(fs::remove_dir);
    }
}

/// The result of a part.
struct MadePart {
    table: Table,
    seconds: f64,
    /// The text to keep.
    text: String,
}

/// Runs a part.
///
/// # Errors
/// If the part fails.
fn made(options: &ReproduceOptions, experiment: &dyn Experiment, part: usize) -> Result<MadePart, LabError> {
    let begin = Instant::now();
    let (seed, part) = of_seed(options, experiment, part);
    let rows = experiment.run(part, options.scale, seed)?;
    let seconds = begin.elapsed().as_secs_f64();
    let table = Table::of(experiment.columns(), rows);
    let text = format!("{seconds}\n{}", table.csv());
    Ok(MadePart { table, seconds, text: format!("{}\n{text}", sha256_of(text.as_bytes())) })
}

/// Runs a part, and returns the text to keep.
///
/// # Errors
/// If the part fails.
pub(super) fn text_of(
    options: &ReproduceOptions,
    experiment: &dyn Experiment,
    part: usize,
) -> Result<String, LabError> {
    made(options, experiment, part).map(|made| made.text)
}

/// Returns the kept part in this file. `None`: there is none, or it is damaged.
fn read(path: &Path, experiment: &dyn Experiment) -> Option<(Vec<Row>, f64)> {
    rows_in(&fs::read_to_string(path).ok()?, experiment)
}

/// Returns the part in this text. `None`: the text is damaged.
fn rows_in(text: &str, experiment: &dyn Experiment) -> Option<(Vec<Row>, f64)> {
    let (checksum, text) = text.split_once('\n')?;
    if checksum != sha256_of(text.as_bytes()) {
        return None;
    }
    let (seconds, csv) = text.split_once('\n')?;
    Some((Table::from_csv(experiment.columns(), csv)?.into_rows(), seconds.parse().ok()?))
}
