//! Runs parts of experiments in other processes. Their results are kept like those of an interrupted run. The
//! next run completes the rest, including the parts that measure times, and writes all files.

use humpyard_lab::LabError;

use super::directory::Directory;
use super::kept::{self, Kept};
use super::options::ReproduceOptions;

/// Returns the parts that other processes may run: the experiment of each part, and its number among those of
/// all seeds.
///
/// # Errors
/// If the directory cannot be written, or contains foreign files.
pub(crate) fn missing_parts(options: &ReproduceOptions) -> Result<Vec<(&'static str, usize)>, LabError> {
    let ids = options.experiments.iter().map(|experiment| experiment.about().id);
    Directory::open(&options.directory, options.scale, ids)?;
    let kept = Kept::of(options);
    kept.make()?;
    Ok(kept.missing_parts(options))
}

/// Runs a part of the first experiment, and returns the text to keep.
///
/// # Errors
/// If the part fails.
///
/// # Panics
/// If there is no experiment.
pub(crate) fn run_part(options: &ReproduceOptions, part: usize) -> Result<String, LabError> {
    kept::text_of(options, options.experiments[0], part)
}

/// Keeps another process's result of a part of this experiment.
///
/// # Errors
/// If the options lack the experiment, the text is no result of a part, or the directory cannot be written.
pub(crate) fn keep_part(options: &ReproduceOptions, id: &str, part: usize, text: &str) -> Result<(), LabError> {
    let found = options.experiments.iter().find(|experiment| experiment.about().id == id);
    let experiment = found.ok_or_else(|| LabError::option(format!("no part of `{id}` is to be run")))?;
    Kept::of(options).keep(options, *experiment, part, text)
}
