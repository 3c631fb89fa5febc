//! Sweeps: one simulation for each combination of options, and all results in one table.
//!
//! A [`Plan`] says which options vary, over what, and how often each combination, a cell, is simulated. Repetition `r`
//! has the seed of the plan plus `r`, whatever the cell: so all policies get identical arrivals, and cells can be
//! compared pair by pair. [`sweep`] keeps each simulation as soon as it is done, and goes on where it was ended.

mod axes;
mod dataset;
mod difference;
mod kept;
mod lasting;
mod places;
mod plan;
mod plot;
mod runs;
mod until;

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

pub(crate) use dataset::read;
pub use dataset::{COLUMNS_OF_RUNS, DATASET, MANIFEST};
pub use difference::{Difference, difference};
pub use plan::{Cell, Plan};
pub use plot::{PlotRequest, plot};
pub use runs::CellRun;

use crate::LabError;
use crate::read_inputs::ReadInputs;
use dataset::Manifest;
use kept::Kept;
use plan::Identity;
use runs::each;

/// What a sweep came to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Swept {
    /// Combinations of options.
    pub cells: usize,
    /// Simulations that are done.
    pub runs: usize,
    /// Simulations that there are to be, as far as is known: `until` may want more.
    pub planned: usize,
    /// Simulations that were made now.
    pub simulated: usize,
    /// The dataset.
    pub dataset: String,
    /// What it was made of.
    pub manifest: String,
    /// Whether the sweep was ended from outside: then there is no dataset yet.
    pub interrupted: bool,
}

impl Swept {
    /// Describes a sweep that a user ended, of which the given number of simulations is done;
    /// `before` of them by earlier calls.
    pub fn interrupted(plan: &Plan, directory: &Path, before: usize, (runs, planned): (usize, usize)) -> Self {
        let swept = swept(plan, &directory.join(DATASET), &directory.join(MANIFEST), runs);
        Self { planned: planned.max(runs), simulated: runs.saturating_sub(before), interrupted: true, ..swept }
    }
}

/// Told of simulations that are done, and of how many there are, as far as is known.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Simulates all cells of a plan on these threads, which change nothing but the time it takes, and writes the dataset
/// and its manifest into a directory. What an earlier call has simulated is not simulated again.
///
/// # Errors
/// A cell that cannot be simulated, a directory that has another sweep, and files that cannot be read or written.
pub fn sweep(
    plan: &Plan,
    directory: &Path,
    threads: NonZeroUsize,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<Swept, LabError> {
    let mut open = match OpenSweep::begin(plan.clone(), directory, stop)? {
        Begun::Done(swept) => return Ok(swept),
        Begun::Open(open) => *open,
    };
    match open.simulate(threads, stop, progress) {
        Ok(()) => open.finish(stop.load(Ordering::Relaxed), Some(threads)),
        Err(error) => {
            open.give_up();
            Err(error)
        }
    }
}

/// A sweep that is not done: it knows which simulations are missing, and keeps those that come.
#[derive(Debug)]
pub struct OpenSweep {
    plan: Plan,
    identity: Identity,
    directory: PathBuf,
    begin: Instant,
    kept: Kept,
    /// Simulations that were kept before.
    before: usize,
    /// Cells that may have to be repeated.
    cells: Vec<usize>,
}

/// What a sweep begins as.
#[derive(Debug)]
pub enum Begun {
    /// An earlier call has done it.
    Done(Swept),
    /// Something is missing.
    Open(Box<OpenSweep>),
}

impl OpenSweep {
    /// Begins a sweep, or goes on with it, in a directory. Once `stop` is set, cells are not checked any more.
    ///
    /// # Errors
    /// A cell that cannot be configured, a directory that has another sweep, and files that cannot be read or written.
    pub fn begin(plan: Plan, directory: &Path, stop: &AtomicBool) -> Result<Begun, LabError> {
        let identity = plan.identity(stop)?;
        let (dataset, manifest) = (directory.join(DATASET), directory.join(MANIFEST));
        if let Some(done) = Manifest::read(&manifest, &identity, &dataset)? {
            return Ok(Begun::Done(Swept { simulated: 0, ..swept(&plan, &dataset, &manifest, done.runs) }));
        }
        dataset::may_write(directory)?;
        plan.check(stop)?;
        let kept = Kept::open(directory, &identity)?;
        let (before, cells) = (kept.len(), (0..plan.cells()).collect());
        let (begin, directory) = (Instant::now(), directory.to_owned());
        Ok(Begun::Open(Box::new(Self { plan, identity, directory, begin, kept, before, cells })))
    }

    /// Returns the files that options name, with their SHA-256.
    pub const fn files(&self) -> &BTreeMap<String, String> {
        &self.identity.files
    }

    /// Returns how many simulations are kept.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Returns the cells and repetitions that are to be simulated next. Empty: nothing is missing. When these are kept, a
    /// cell whose figure is not known well enough is missing once more.
    pub fn missing(&mut self) -> Vec<(usize, u32)> {
        let cells = self.plan.cells();
        let first =
            (0..self.plan.repeat().least()).flat_map(|repetition| (0..cells).map(move |cell| (cell, repetition)));
        let first: Vec<(usize, u32)> = first.filter(|&(cell, repetition)| !self.kept.has(cell, repetition)).collect();
        if !first.is_empty() {
            return first;
        }
        let more: Vec<(usize, u32)> = self.cells.iter().filter_map(|&cell| self.kept.next(&self.plan, cell)).collect();
        self.cells = more.iter().map(|&(cell, _)| cell).collect();
        more
    }

    /// Keeps a simulation.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn keep(&mut self, run: CellRun) -> Result<(), LabError> {
        self.kept.keep(run)
    }

    /// Simulates what is missing on these threads.
    fn simulate(&mut self, threads: NonZeroUsize, stop: &AtomicBool, progress: Progress<'_>) -> Result<(), LabError> {
        let inputs = ReadInputs::default();
        loop {
            let mut missing = self.missing();
            // Those that read the same input are simulated one after the other.
            missing.sort_by_key(|&(cell, repetition)| (repetition, self.plan.input_of(cell)));
            let all = self.kept.len() + missing.len();
            progress(self.kept.len(), all);
            if missing.is_empty() || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (plan, kept) = (&self.plan, &mut self.kept);
            each(
                &missing,
                threads,
                stop,
                |&one| CellRun::reading(plan, one, &inputs, stop),
                |run| {
                    kept.keep(run)?;
                    progress(kept.len(), all);
                    Ok(())
                },
            )?;
        }
    }

    /// Writes the dataset and its manifest, unless the sweep was ended from outside. `threads` made it; `None`: others
    /// did.
    ///
    /// # Errors
    /// A file of the sweep that has changed meanwhile, and files that cannot be written.
    pub fn finish(mut self, is_interrupted: bool, threads: Option<NonZeroUsize>) -> Result<Swept, LabError> {
        self.kept.end()?;
        let missing = if is_interrupted { self.missing().len() } else { 0 };
        let Self { plan, identity, directory, begin, kept, before, .. } = self;
        let (dataset, manifest) = (directory.join(DATASET), directory.join(MANIFEST));
        let simulated = kept.len() - before;
        if is_interrupted {
            return Ok(Swept::interrupted(&plan, &directory, before, (kept.len(), kept.len() + missing)));
        }
        if plan.identity(&AtomicBool::new(false))? != identity {
            return Err(LabError::option(format!(
                "a file of the sweep has changed while it ran: remove `{}` and start again",
                directory.display()
            )));
        }
        let count = kept.len();
        dataset::write(&plan, &kept.runs(&plan), &dataset)?;
        Manifest::of(&plan, &identity, &dataset, count, begin.elapsed(), threads)?.write(&manifest)?;
        kept.remove();
        Ok(Swept { simulated, ..swept(&plan, &dataset, &manifest, count) })
    }

    /// Leaves no file behind if nothing was kept.
    pub fn give_up(self) {
        self.kept.forget_if_empty();
    }
}

fn swept(plan: &Plan, dataset: &Path, manifest: &Path, runs: usize) -> Swept {
    Swept {
        cells: plan.cells(),
        runs,
        planned: runs,
        simulated: 0,
        dataset: dataset.display().to_string(),
        manifest: manifest.display().to_string(),
        interrupted: false,
    }
}
