//! Whether the processors of a run are still as far apart as they were when they were measured.
//!
//! A hypervisor moves the processors of a virtual machine. On one with two processors, a cache line took 80 ns from one
//! to the other and back, and for some seconds of each minute 400 ns; on another 215 and 740 ns. Everything that threads
//! hand over takes longer then. A prediction is for processors that are where they were.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use humpyard_runtime::processors;

use super::matrix::round_trip;
use crate::LabError;
use crate::config::RunConfig;

/// Round trips that differ by more than this factor are of processors in other places. Those of processors in the same
/// place differed by up to 1.6.
const MOVED: f64 = 2.0;
/// How long to wait for processors that have moved, in all runs together.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks at processors that have moved.
const LOOKS: Duration = Duration::from_millis(100);

/// Makes runs while the processors are where they were.
pub(crate) struct SteadyRuns {
    workers: usize,
    /// The round trip to the farthest worker, in ns. `None`: that of the first run.
    round_trip: Option<f64>,
    /// How much time is left for waiting and for runs that do not count.
    left: Duration,
    /// Runs that did not count.
    repeated: usize,
    /// Runs that counted although the processors had moved.
    moved: usize,
}

impl SteadyRuns {
    /// Returns runs with this many workers, of processors that have this round trip in ns; 0: that of the first run.
    pub(crate) fn new(workers: usize, round_trip_ns: f64) -> Self {
        let round_trip = (round_trip_ns > 0.0).then_some(round_trip_ns);
        Self { workers, round_trip, left: PATIENCE, repeated: 0, moved: 0 }
    }

    /// Returns live runs of this configuration, of processors that are where they were when its host was measured.
    pub(crate) fn of(config: &RunConfig) -> Self {
        let host = config.assumed.as_ref().filter(|host| host.is_here());
        Self::new(config.cores, host.map_or(0.0, |host| host.machine.round_trip_ns))
    }

    /// Makes a run. It does not count, and is made again, if the processors move meanwhile, as long as patience lasts.
    ///
    /// # Errors
    /// That of the run.
    pub(crate) fn run<T>(&mut self, mut run: impl FnMut() -> Result<T, LabError>) -> Result<T, LabError> {
        let processors = processors();
        let workers = self.workers;
        self.run_as(|| round_trip(&processors, workers), &mut run)
    }

    fn run_as<T>(
        &mut self,
        now: impl Fn() -> Option<f64>,
        run: &mut impl FnMut() -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        loop {
            let Some(before) = now() else { return run() };
            let expected = *self.round_trip.get_or_insert(before);
            let started = Instant::now();
            if has_moved(expected, before) && self.left > Duration::ZERO {
                thread::sleep(LOOKS);
                self.left = self.left.saturating_sub(started.elapsed());
                continue;
            }
            let result = run()?;
            let is_steady = !has_moved(expected, before) && now().is_none_or(|after| !has_moved(expected, after));
            if is_steady || self.left.is_zero() {
                self.moved += usize::from(!is_steady);
                return Ok(result);
            }
            self.left = self.left.saturating_sub(started.elapsed());
            self.repeated += 1;
        }
    }

    /// Makes this many runs of processors that are in one place. If they move meanwhile, begins again from where they are
    /// then, as long as patience lasts.
    ///
    /// # Errors
    /// That of a run.
    pub(crate) fn run_together<T>(
        &mut self,
        count: usize,
        mut run: impl FnMut() -> Result<T, LabError>,
    ) -> Result<Vec<T>, LabError> {
        let processors = processors();
        let workers = self.workers;
        self.run_together_as(|| round_trip(&processors, workers), count, &mut run)
    }

    fn run_together_as<T>(
        &mut self,
        now: impl Fn() -> Option<f64>,
        count: usize,
        run: &mut impl FnMut() -> Result<T, LabError>,
    ) -> Result<Vec<T>, LabError> {
        let mut results = Vec::with_capacity(count);
        self.round_trip = now();
        while results.len() < count {
            let started = Instant::now();
            results.push(run()?);
            let after = now();
            let has_moved = self.round_trip.zip(after).is_some_and(|(expected, after)| has_moved(expected, after));
            if has_moved && self.left.is_zero() {
                self.moved += 1;
            } else if has_moved {
                self.left = self.left.saturating_sub(started.elapsed());
                self.repeated += results.len();
                results.clear();
                self.round_trip = after;
            }
        }
        Ok(results)
    }

    /// Returns the round trip of the runs, in ns; 0: there was none, or no other processor.
    pub(crate) fn round_trip_ns(&self) -> f64 {
        self.round_trip.unwrap_or(0.0)
    }

    /// Returns the number of runs that did not count.
    pub(crate) fn repeated(&self) -> usize {
        self.repeated
    }

    /// Returns the number of runs that counted although the processors had moved.
    pub(crate) fn moved(&self) -> usize {
        self.moved
    }
}

fn has_moved(expected: f64, now: f64) -> bool {
    now > MOVED * expected || expected > MOVED * now
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// Returns a measurement that finds these round trips, one at each look.
    fn found(looks: &[f64]) -> impl Fn() -> Option<f64> {
        let look = Cell::new(0);
        move || looks.get(look.replace(look.get() + 1)).copied()
    }

    /// Returns runs with the numbers 1, 2, ...
    fn numbered() -> impl FnMut() -> Result<usize, LabError> {
        let mut number = 0;
        move || {
            number += 1;
            Ok(number)
        }
    }

    /// Makes a run of processors that have these round trips, one at each look. Returns the run that counts.
    fn run_at(runs: &mut SteadyRuns, looks: &[f64]) -> usize {
        runs.run_as(found(looks), &mut numbered()).unwrap()
    }

    #[test]
    fn a_run_in_which_processors_move_is_made_again() {
        let mut runs = SteadyRuns::new(1, 0.0);
        assert_eq!(run_at(&mut runs, &[80.0, 120.0]), 1);
        assert_eq!((runs.round_trip_ns(), runs.repeated()), (80.0, 0), "the first look is where they are");
        // They move in the first run, and come back before the second.
        assert_eq!(run_at(&mut runs, &[90.0, 400.0, 400.0, 85.0, 85.0]), 2);
        assert_eq!((runs.round_trip_ns(), runs.repeated()), (80.0, 1));
        // Nearer is another place, too.
        assert_eq!(run_at(&mut SteadyRuns::new(1, 400.0), &[400.0, 90.0, 400.0, 390.0]), 2);
    }

    #[test]
    fn patience_ends() {
        let mut runs = SteadyRuns { left: Duration::ZERO, ..SteadyRuns::new(1, 80.0) };
        assert_eq!(run_at(&mut runs, &[400.0, 400.0]), 1);
        assert_eq!((runs.repeated(), runs.moved()), (0, 1));
        let together = runs.run_together_as(found(&[80.0, 400.0, 80.0]), 2, &mut numbered()).unwrap();
        assert_eq!((together, runs.repeated(), runs.moved()), (vec![1, 2], 0, 2));
    }

    #[test]
    fn runs_together_begin_again_where_processors_are_then() {
        let mut runs = SteadyRuns::new(1, 0.0);
        let together = runs.run_together_as(found(&[80.0, 81.0, 400.0, 410.0, 390.0]), 2, &mut numbered()).unwrap();
        assert_eq!((together, runs.round_trip_ns()), (vec![3, 4], 400.0));
        assert_eq!((runs.repeated(), runs.moved()), (2, 0));
    }

    #[test]
    fn a_thread_alone_has_no_way_to_go() {
        let mut runs = SteadyRuns::new(0, 0.0);
        assert_eq!(runs.run(|| Ok(7)).unwrap(), 7);
        assert_eq!(runs.round_trip_ns(), 0.0);
        let mut runs = SteadyRuns::new(1, 0.0);
        assert_eq!(runs.run(|| Ok(7)).unwrap(), 7);
        assert_eq!(runs.round_trip_ns() > 0.0, processors().len() > 1);
    }
}
