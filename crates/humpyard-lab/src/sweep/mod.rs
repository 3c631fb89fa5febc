//! Sweeps: one simulation for each combination of options, and all results in one table.
//!
//! A [`Plan`] says which options vary, over what, and how often each combination, a cell, is simulated. Repetition `r`
//! has the seed of the plan plus `r`, whatever the cell: so all policies get identical arrivals, and cells can be
//! compared pair by pair. [`sweep`] keeps each simulation as soon as it is done, and goes on where it was ended.

mod axes;
mod dataset;
mod difference;
mod kept;
mod plan;
mod plot;
mod runs;
mod until;

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, Ordering};
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

pub use dataset::{COLUMNS_OF_RUNS, DATASET, MANIFEST};
pub use difference::{Difference, difference};
pub use plan::{Cell, Plan};
pub use plot::{PlotRequest, plot};

use crate::LabError;
use dataset::Manifest;
use kept::Kept;
use runs::{Run, each};

/// What a sweep came to.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Swept {
    /// Combinations of options.
    pub cells: usize,
    /// Simulations in the dataset.
    pub runs: usize,
    /// Simulations that were made now.
    pub simulated: usize,
    /// The dataset.
    pub dataset: String,
    /// What it was made of.
    pub manifest: String,
    /// Whether the sweep was ended from outside: then there is no dataset yet.
    pub interrupted: bool,
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
    let identity = plan.identity()?;
    let begin = Instant::now();
    let dataset = directory.join(DATASET);
    let manifest = directory.join(MANIFEST);
    if let Some(done) = Manifest::read(&manifest, &identity, &dataset)? {
        return Ok(Swept { simulated: 0, ..swept(plan, &dataset, &manifest, done.runs) });
    }
    dataset::may_write(directory)?;
    plan.check(stop)?;
    let mut kept = Kept::open(directory, &identity)?;
    let before = kept.len();
    let made = first_repetitions(plan, &mut kept, threads, stop, progress)
        .and_then(|()| more_repetitions(plan, &mut kept, threads, stop, progress));
    if let Err(error) = made {
        kept.forget_if_empty();
        return Err(error);
    }
    let simulated = kept.len() - before;
    if stop.load(Ordering::Relaxed) {
        let runs = kept.len();
        return Ok(Swept { interrupted: true, simulated, ..swept(plan, &dataset, &manifest, runs) });
    }
    if plan.identity()? != identity {
        return Err(LabError::option(format!(
            "a file of the sweep has changed while it ran: remove `{}` and start again",
            directory.display()
        )));
    }
    let count = kept.len();
    dataset::write(plan, &kept.runs(plan), &dataset)?;
    Manifest::of(plan, &identity, &dataset, count, begin.elapsed(), threads)?.write(&manifest)?;
    kept.remove();
    Ok(Swept { simulated, ..swept(plan, &dataset, &manifest, count) })
}

fn swept(plan: &Plan, dataset: &Path, manifest: &Path, runs: usize) -> Swept {
    Swept {
        cells: plan.cells(),
        runs,
        simulated: 0,
        dataset: dataset.display().to_string(),
        manifest: manifest.display().to_string(),
        interrupted: false,
    }
}

/// Makes the repetitions that every cell has.
fn first_repetitions(
    plan: &Plan,
    kept: &mut Kept,
    threads: NonZeroUsize,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<(), LabError> {
    let least = plan.repeat().least();
    let all = plan.cells() * least as usize;
    let is_missing = |&(cell, repetition): &(usize, u32)| !kept.has(cell, repetition);
    let pairs = (0..least).flat_map(|repetition| (0..plan.cells()).map(move |cell| (cell, repetition)));
    let missing: Vec<(usize, u32)> = pairs.filter(is_missing).collect();
    let mut done = all - missing.len();
    progress(done, all);
    each(
        &missing,
        threads,
        stop,
        |&(cell, repetition)| Run::of(plan, cell, repetition, stop),
        |run| {
            done += 1;
            progress(done, all);
            kept.keep(run)
        },
    )
}

/// Repeats cells whose figure is not known well enough, until it is or there were most repetitions.
fn more_repetitions(
    plan: &Plan,
    kept: &mut Kept,
    threads: NonZeroUsize,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<(), LabError> {
    let mut cells: Vec<usize> = (0..plan.cells()).collect();
    loop {
        let open: Vec<(usize, u32)> = cells.iter().filter_map(|&cell| kept.next(plan, cell)).collect();
        if open.is_empty() || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        cells = open.iter().map(|(cell, _)| *cell).collect();
        let all = kept.len() + open.len();
        each(
            &open,
            threads,
            stop,
            |&(cell, repetition)| Run::of(plan, cell, repetition, stop),
            |run| {
                kept.keep(run)?;
                progress(kept.len(), all);
                Ok(())
            },
        )?;
    }
}
