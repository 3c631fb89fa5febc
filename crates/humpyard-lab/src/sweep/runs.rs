//! Simulations of cells, on as many threads as are given.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::dataset::figures_of;
use super::plan::Plan;
use crate::LabError;
use crate::config::RunConfig;
use crate::control::Control;
use crate::read_inputs::ReadInputs;
use crate::run::simulate_reading;
use crate::threads::{EndsAtPanic, join};

/// One simulation of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct CellRun {
    /// The cell.
    pub cell: usize,
    /// The repetition, from 0.
    pub repetition: u32,
    /// The figures of the dataset, in the order of its columns; not a number where the run does not tell.
    pub figures: Vec<f64>,
}

impl CellRun {
    /// Simulates a repetition of a cell. `None`: it was ended from outside.
    ///
    /// # Errors
    /// What keeps it from being simulated, and packets that are not accounted for.
    pub fn of(plan: &Plan, cell: usize, repetition: u32, stop: &AtomicBool) -> Result<Option<Self>, LabError> {
        Self::reading(plan, (cell, repetition), &ReadInputs::default(), stop)
    }

    /// As [`Self::of`], with the inputs that others have read.
    ///
    /// # Errors
    /// Those of [`Self::of`].
    pub(super) fn reading(
        plan: &Plan,
        (cell, repetition): (usize, u32),
        inputs: &ReadInputs,
        stop: &AtomicBool,
    ) -> Result<Option<Self>, LabError> {
        let config = plan.config(cell, repetition)?;
        let mut progress = |_, _| {};
        let open = |config: &RunConfig| inputs.source(config, stop);
        let result = simulate_reading(&config, &mut Control::new(stop, &mut progress), open)
            .map_err(|error| plan.blame(cell, &error))?;
        if result.interrupted {
            return Ok(None);
        }
        if !result.packets.balance() || result.unaccounted.is_some() {
            return Err(LabError::option(format!(
                "{}: packets are unaccounted for: {:?}",
                plan.cell(cell),
                result.packets
            )));
        }
        if let Some(damage) = &result.damage {
            return Err(LabError::option(format!("{}: {}", plan.cell(cell), damage.message)));
        }
        Ok(Some(Self { cell, repetition, figures: figures_of(&result) }))
    }
}

/// Calls `work` for each item on all threads, and `keep` with each result as it comes. Once `stop` is set, no thread
/// begins another item.
///
/// # Errors
/// The first failure, of `work` or of `keep`.
pub(super) fn each<T: Sync, R: Send>(
    all: &[T],
    threads: NonZeroUsize,
    stop: &AtomicBool,
    work: impl Fn(&T) -> Result<Option<R>, LabError> + Sync,
    mut keep: impl FnMut(R) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let (next, work) = (AtomicUsize::new(0), &work);
    let (sender, finished) = mpsc::channel();
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..threads.get().min(all.len()) {
            let (sender, next) = (sender.clone(), &next);
            workers.push(scope.spawn(move || {
                let _ends = EndsAtPanic { next, items: all.len() };
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) || sender.send(work(one)).is_err() {
                        break;
                    }
                }
            }));
        }
        drop(sender);
        let kept = finished.into_iter().try_for_each(|found| found?.map_or(Ok(()), &mut keep));
        if kept.is_err() {
            next.store(all.len(), Ordering::Relaxed);
        }
        join(workers);
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_together_do_all() {
        let all: Vec<u32> = (0..100).collect();
        for threads in [1, 3, 200] {
            let (stop, mut found) = (AtomicBool::new(false), Vec::new());
            let threads = NonZeroUsize::new(threads).unwrap();
            let kept = each(
                &all,
                threads,
                &stop,
                |one| Ok(Some(one * 2)),
                |double| {
                    found.push(double);
                    Ok(())
                },
            );
            kept.unwrap();
            found.sort_unstable();
            assert_eq!(found, all.iter().map(|one| one * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_failure_ends_it() {
        let all: Vec<u32> = (0..1000).collect();
        let (stop, mut kept) = (AtomicBool::new(false), 0);
        let work = |one: &u32| if *one == 10 { Err(LabError::option("broken")) } else { Ok(Some(*one)) };
        let ended = each(&all, NonZeroUsize::MIN, &stop, work, |_| {
            kept += 1;
            Ok(())
        });
        assert_eq!((ended.unwrap_err().to_string(), kept), ("broken".to_owned(), 10));
    }

    #[test]
    fn who_waits_gets_the_panic_of_a_thread_as_it_is() {
        let panicking = || {
            let work = |_: &u32| std::panic::resume_unwind(Box::new(7_u8));
            each(&[1, 2], NonZeroUsize::MIN, &AtomicBool::new(false), work, |(): ()| Ok(()))
        };
        let payload = std::panic::catch_unwind(panicking).unwrap_err();
        assert_eq!(payload.downcast_ref::<u8>(), Some(&7));
    }
}
