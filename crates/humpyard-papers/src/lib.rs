//! Experiments that reproduce figures, tables and claims of the papers.
//!
//! An experiment is data for one harness: its description, its parameters, the columns of its rows, the tested
//! claims of the paper, and plots shaped like the paper's. It has independent parts, each with its own random
//! streams. So [`reproduce`] can run them on all cores, and resume an interrupted run.
//!
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
//! To add one, write a file or folder in the folder of its paper, and two lines in the `mod.rs` there: the
//! module, and its experiments in the list.

mod everest;
mod gr3;
mod harness;
mod own;
mod predictive;
mod ps_hrw;
mod rivals;
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
        rivals::experiments(),
        own::experiments(),
    ]
    .concat()
}

/// Returns the experiments of these names, each once, in the order of [`all`]. A name may be a pattern with `*`
/// and `?`, or `all`.
///
/// # Errors
/// If a name is unknown, or a pattern matches none.
pub fn find(names: &[String]) -> Result<Vec<&'static dyn Experiment>, LabError> {
    harness::find(all(), names)
}

/// Returns the cost of a full run of these experiments, without the parts that the directory keeps.
pub fn cost(options: &ReproduceOptions) -> Cost {
    harness::cost(options)
}

/// Runs experiments, and writes their data, plots, and the pages of all experiments in the directory.
/// `progress` gets the number of finished parts, the number of all parts, and the experiment of the last one.
/// Parts that an interrupted run with the same experiments, version, seed and scale has finished are not run
/// again.
///
/// After `stop` is set, this returns within a second, whatever the parts do. Complete experiments are written,
/// and the pages name the missing parts. Running parts are abandoned; their threads end with the part, or with
/// the process.
///
/// # Errors
/// If an experiment fails (the others still run), if the directory cannot be written, or if it contains foreign
/// files.
pub fn reproduce(
    options: &ReproduceOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Reproduction, LabError> {
    harness::reproduce(&all(), options, stop, progress)
}

/// Returns the parts that other processes may run before [`reproduce`] is called with the same options: the
/// experiment of each part, and its number among those of all seeds. Omits parts that are kept already, and
/// parts that measure times.
///
/// # Errors
/// If the directory cannot be written, or contains foreign files.
pub fn missing_parts(options: &ReproduceOptions) -> Result<Vec<(&'static str, usize)>, LabError> {
    harness::missing_parts(options)
}

/// Runs a part of the first experiment, and returns the text for [`keep_part`].
///
/// # Errors
/// If the part fails.
///
/// # Panics
/// If there is no experiment, or no such part of it.
pub fn run_part(options: &ReproduceOptions, part: usize) -> Result<String, LabError> {
    harness::run_part(options, part)
}

/// Keeps the result of [`run_part`] in another process: [`reproduce`] does not run that part again.
///
/// # Errors
/// If the options lack the experiment, the text is no result of a part, or the directory cannot be written.
pub fn keep_part(options: &ReproduceOptions, id: &str, part: usize, text: &str) -> Result<(), LabError> {
    harness::keep_part(options, id, part, text)
}
