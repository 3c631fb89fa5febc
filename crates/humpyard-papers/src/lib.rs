//! Experiments: figures, tables and claims of the papers, done again.
//!
//! An experiment is data over one harness: what it is, what it varies, the columns of its rows, the claims of the paper
//! that it tests, and plots shaped like the paper's. It falls into parts that know nothing of each other, each of which
//! is run from its own streams of chance, so that [`reproduce`] may run them on all cores, and go on where it was ended.
//!
//! ```
//! use humpyard_papers::{Scale, all, find};
//!
//! let gr3 = find(&["gr3-*".to_owned()])?;
//! assert!(!gr3.is_empty() && gr3.len() < all().len());
//! for experiment in gr3 {
//!     let about = experiment.about();
//!     println!("{}: {} ({}), {} parts", about.id, about.title, about.figure, experiment.parts(Scale::Quick));
//! }
//! # Ok::<(), humpyard_lab::LabError>(())
//! ```
//!
//! To add one, write a file or folder in the folder of its paper, and two lines in the `mod.rs` there: the module, and
//! its experiments in the list.

mod everest;
mod gr3;
mod harness;
mod own;
mod predictive;
mod ps_hrw;
#[cfg(test)]
mod tests;
mod yim;

use core::sync::atomic::AtomicBool;

use humpyard_lab::LabError;

pub use harness::{
    About, ClaimVerdict, Column, Cost, Experiment, Figure, Kind, Missing, Note, Outcome, Plots, ReproduceOptions,
    Reproduced, Reproduction, Row, Scale, Table, TableRow, Value, short,
};

/// Every experiment, paper by paper.
pub fn all() -> Vec<&'static dyn Experiment> {
    [
        gr3::experiments(),
        ps_hrw::experiments(),
        yim::experiments(),
        everest::experiments(),
        predictive::experiments(),
        own::experiments(),
    ]
    .concat()
}

/// The experiments of these names, each once, in the order of [`all`]; a name may be a pattern with `*` and `?`, or
/// `all`.
///
/// # Errors
/// A name of none, and a pattern that nothing fits.
pub fn find(names: &[String]) -> Result<Vec<&'static dyn Experiment>, LabError> {
    harness::find(all(), names)
}

/// Returns what a full run of these experiments costs, beyond the parts of it that the directory keeps.
pub fn cost(options: &ReproduceOptions) -> Cost {
    harness::cost(options)
}

/// Runs experiments and writes their data, plots, and pages of all experiments that are in the directory. `progress`
/// hears of parts done, of how many, and of which experiment the last was. Parts that an earlier run of the same
/// experiments, in the same version and with the same seed and scale, had done when it was ended are not run again.
///
/// Once `stop` is set, this returns within a second, whatever the parts do: what is whole is written, and the pages
/// name what is missing. Parts that are running are given up; their threads end when they are done or the process ends.
///
/// # Errors
/// Whatever keeps an experiment from being run, which keeps no other from it; a directory that cannot be written, and
/// files in it that are not ours.
pub fn reproduce(
    options: &ReproduceOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Reproduction, LabError> {
    harness::reproduce(&all(), options, stop, progress)
}

/// Returns the parts that other processes may run before [`reproduce`] is called with the same options: each one's
/// experiment, and its number among those of all seeds. What is kept already is not among them, nor what measures
/// times.
///
/// # Errors
/// A directory that cannot be written, and files in it that are not ours.
pub fn missing_parts(options: &ReproduceOptions) -> Result<Vec<(&'static str, usize)>, LabError> {
    harness::missing_parts(options)
}

/// Runs a part of the first experiment, and returns what [`keep_part`] takes.
///
/// # Errors
/// What keeps it from being run.
///
/// # Panics
/// If there is no experiment, or no such part of it.
pub fn run_part(options: &ReproduceOptions, part: usize) -> Result<String, LabError> {
    harness::run_part(options, part)
}

/// Keeps what [`run_part`] made in another process: [`reproduce`] does not run that part again.
///
/// # Errors
/// An experiment that is not asked for, text that is none of a part, and a directory that cannot be written.
pub fn keep_part(options: &ReproduceOptions, id: &str, part: usize, text: &str) -> Result<(), LabError> {
    harness::keep_part(options, id, part, text)
}
