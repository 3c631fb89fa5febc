//! Simulations side by side, on as many threads as are given: what comes of them does not depend on that.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use humpyard_core::random::Seed;
use humpyard_policies::spec::PolicySpec;

use super::figures::MeasuredFigures;
use crate::config::{Rate, RunConfig};
use crate::offered::{self, Demand};
use crate::recorded::Recorded;
use crate::run::{Control, Feed, simulated};
use crate::{LabError, parts};

/// Which packets a trial has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Part {
    /// So much of the input (0 to 1), spread over all of it.
    Sample(f64),
    /// One of so many blocks of the input.
    Block(usize, usize),
}

/// A simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    pub(super) policy: &'a PolicySpec,
    pub(super) part: Part,
    /// Part of the load that is asked for.
    pub(super) load: f64,
    pub(super) cores: usize,
    /// Added to the seed: another hash of flows, other draws.
    pub(super) seed: u64,
}

impl<'a> Trial<'a> {
    /// As it is asked for, of this part of the input.
    pub(super) fn new(policy: &'a PolicySpec, part: Part, config: &RunConfig) -> Self {
        Self { policy, part, load: 1.0, cores: config.cores, seed: 0 }
    }

    /// The whole input.
    pub(super) fn whole(policy: &'a PolicySpec, config: &RunConfig) -> Self {
        Self::new(policy, Part::Sample(1.0), config)
    }
}

/// Told of simulations done, of how many, and what for.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize, &str);

/// Where trials take place.
#[derive(Debug)]
pub(super) struct Trials<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) recorded: Recorded,
    /// What the packets ask of cores; nothing where no load is asked for.
    demand: Demand,
    threads: NonZeroUsize,
    stop: &'a AtomicBool,
    /// Packets that were simulated.
    packets: AtomicUsize,
}

impl<'a> Trials<'a> {
    /// Reads the input, at most so many packets.
    ///
    /// # Errors
    /// An input that cannot be read, and a load that cannot be found.
    pub(super) fn read(
        config: &'a RunConfig,
        most: u64,
        threads: NonZeroUsize,
        stop: &'a AtomicBool,
    ) -> Result<Self, LabError> {
        let mut progress = |_, _| {};
        let control = &mut Control::new(stop, &mut progress);
        let recorded = Recorded::read(config, most, control)?;
        let demand = match config.rate {
            Rate::Load { .. } => Demand::read(config, &mut recorded.whole(), control)?,
            _ => Demand::default(),
        };
        Ok(Self { config, recorded, demand, threads, stop, packets: AtomicUsize::new(0) })
    }

    /// How many inputs' worth of packets were simulated so far.
    pub(super) fn inputs(&self) -> f64 {
        self.packets.load(Ordering::Relaxed) as f64 / self.recorded.len() as f64
    }

    /// Runs trials; their figures, in their order.
    ///
    /// # Errors
    /// The first failure, and being interrupted.
    pub(super) fn run(
        &self,
        trials: &[Trial<'_>],
        what: &str,
        progress: Progress<'_>,
    ) -> Result<Vec<MeasuredFigures>, LabError> {
        let next = AtomicUsize::new(0);
        let mut figures = vec![None; trials.len()];
        let (sender, finished) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..self.threads.get().min(trials.len()) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some((at, trial)) = take(trials, next) {
                        if sender.send((at, self.run_one(trial))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            for (done, (at, found)) in finished.into_iter().enumerate() {
                if found.is_err() {
                    next.store(trials.len(), Ordering::Relaxed);
                }
                figures[at] = Some(found?);
                progress(done + 1, trials.len(), what);
            }
            Ok::<_, LabError>(())
        })?;
        Ok(figures.into_iter().flatten().collect())
    }

    fn run_one(&self, trial: &Trial<'_>) -> Result<MeasuredFigures, LabError> {
        let seed = Seed(self.config.seed.0.wrapping_add(trial.seed));
        let rate = self.config.rate.times(trial.load);
        let config = RunConfig { policy: trial.policy.clone(), cores: trial.cores, seed, rate, ..self.config.clone() };
        let mut progress = |_, _| {};
        let result = simulated(&config, &mut Control::new(self.stop, &mut progress), |_| {
            let playback = match trial.part {
                Part::Sample(part) => self.recorded.sample(part),
                Part::Block(block, of) => self.recorded.block(block, of),
            };
            let pace = offered::pace(&config, config.cores, || Ok(self.demand))?.ok_or_else(parts::no_line_rate)?;
            let pacer = parts::pacer_of(&config, pace);
            Ok(Feed { pacer, source: Box::new(playback), work: parts::work(&config)? })
        })?;
        if result.interrupted || self.stop.load(Ordering::Relaxed) {
            return Err(LabError::option("interrupted before the search was over: there is nothing to recommend"));
        }
        self.packets.fetch_add(result.packets.arrived as usize, Ordering::Relaxed);
        Ok(MeasuredFigures::of(&result))
    }
}

/// The next trial that nobody has taken.
fn take<'a, 'p>(trials: &'a [Trial<'p>], next: &AtomicUsize) -> Option<(usize, &'a Trial<'p>)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    trials.get(at).map(|trial| (at, trial))
}
