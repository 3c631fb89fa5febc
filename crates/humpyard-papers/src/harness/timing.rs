//! Measures the time of a step by the clock of the thread, over several batches.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use humpyard_lab::LabError;

/// The number and the duration of measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Number of batches.
    pub(crate) batches: usize,
    /// The least time of a batch.
    pub(crate) least: Duration,
    /// The greatest time of a batch, unless a whole round needs more.
    pub(crate) most: Duration,
}

/// The effort per seed; a full run has more seeds.
pub(crate) const EFFORT: Effort =
    Effort { batches: 15, least: Duration::from_millis(1), most: Duration::from_millis(20) };

/// An effort that only shows that the code works.
#[cfg(test)]
pub(crate) const BRIEF: Effort =
    Effort { batches: 2, least: Duration::from_micros(1), most: Duration::from_micros(100) };

/// The time of a select, in ns of processor time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Timing {
    /// The time in the best batch.
    pub(crate) best: f64,
    /// The time in the median batch.
    pub(crate) median: f64,
    /// Number of batches.
    pub(crate) batches: usize,
    /// Slots per batch.
    pub(crate) slots: u64,
}

/// Returns the processor time of this thread.
pub(crate) fn thread_time() -> Result<Duration, LabError> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_err(|error| LabError::option(format!("this system does not say what time a thread has taken: {error}")))?;
    Ok(time.into())
}

/// Measures the time of a select, in ns. `run` runs this many slots, and returns the number of selects. The
/// first round does not count. Batches are whole rounds of `round` slots, if the time suffices.
pub(crate) fn measure(round: u64, effort: Effort, mut run: impl FnMut(u64) -> u64) -> Result<Timing, LabError> {
    let mut timed = |slots: u64| {
        let begun = thread_time()?;
        let selects = run(slots);
        let time = thread_time()?.saturating_sub(begun);
        Ok::<_, LabError>((time, time.as_nanos() as f64 / selects.max(1) as f64))
    };
    let (first, _) = timed(round)?;
    let slots = batch(round, first, effort);
    let mut times = Vec::with_capacity(effort.batches);
    for _ in 0..effort.batches {
        times.push(timed(slots)?.1);
    }
    Ok(summary(times, slots))
}

/// Returns the slots of a batch, if a round takes this time.
fn batch(round: u64, time: Duration, effort: Effort) -> u64 {
    let part = |limit: Duration| limit.as_secs_f64() / time.as_secs_f64().max(1e-9);
    let rounds = part(effort.least).ceil().max(1.0);
    ((round as f64 * rounds.min(part(effort.most))) as u64).max(1)
}

/// Returns the best and the median time of a select over the batches.
pub(crate) fn summary(mut times: Vec<f64>, slots: u64) -> Timing {
    times.sort_by(f64::total_cmp);
    Timing { best: times[0], median: times[times.len() / 2], batches: times.len(), slots }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Effort = Effort { batches: 3, least: Duration::from_millis(1), most: Duration::from_millis(20) };

    #[test]
    fn batches_are_whole_rounds_while_there_is_time() {
        for (round_us, slots) in [(3, 33_400), (300, 400), (1000, 100), (15_000, 100), (40_000, 50), (2_000_000, 1)] {
            assert_eq!(batch(100, Duration::from_micros(round_us), THREE), slots, "{round_us} us");
        }
        assert!(batch(100, Duration::ZERO, THREE) >= 100);
    }

    #[test]
    fn a_select_costs_its_part_of_the_best_batch() {
        let timing = summary(vec![3.0, 2.0, 9.0], 10);
        assert_eq!(timing, Timing { best: 2.0, median: 3.0, batches: 3, slots: 10 });
        let mut runs = 0;
        let timing = measure(10, THREE, |slots| {
            runs += 1;
            let until = thread_time().unwrap() + Duration::from_millis(2);
            while thread_time().unwrap() < until {}
            2 * slots
        })
        .unwrap();
        assert_eq!((runs, timing.batches, timing.slots), (4, 3, 10));
        assert!((100_000.0..1e9).contains(&timing.best) && timing.best <= timing.median, "{timing:?}");
    }
}
