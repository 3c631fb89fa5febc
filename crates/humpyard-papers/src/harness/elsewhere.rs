//! Parts of experiments that other processes run. Their results are kept as those of an interrupted run are. The next
//! run does the rest, the parts that measure times, and writes everything.

use humpyard_lab::LabError;

use super::directory::Directory;
use super::kept::{self, Kept};
use super::options::ReproduceOptions;

/// Returns the parts that other processes may run: each one's experiment, and its number among those of all seeds.
///
/// # Errors
/// A directory that cannot be written, and files in it that are not ours.
pub(crate) fn missing_parts(options: &ReproduceOptions) -> Result<Vec<(&'static str, usize)>, LabError> {
    let ids = options.experiments.iter().map(|experiment| experiment.about().id);
    Directory::open(&options.directory, options.scale, ids)?;
    let kept = Kept::of(options);
    kept.make()?;
    Ok(kept.missing_parts(options))
}

/// Runs a part of the first experiment, and returns what is kept of it.
///
/// # Errors
/// What keeps it from being run.
///
/// # Panics
/// If there is no experiment.
pub(crate) fn run_part(options: &ReproduceOptions, part: usize) -> Result<String, LabError> {
    kept::text_of(options, options.experiments[0], part)
}

/// Keeps what another process has made of a part of this experiment.
///
/// # Errors
/// An experiment that is not asked for, text that is none of a part, and a directory that cannot be written.
pub(crate) fn keep_part(options: &ReproduceOptions, id: &str, part: usize, text: &str) -> Result<(), LabError> {
    let found = options.experiments.iter().find(|experiment| experiment.about().id == id);
    let experiment = found.ok_or_else(|| LabError::option(format!("no part of `{id}` is to be run")))?;
    Kept::of(options).keep(options, *experiment, part, text)
}
