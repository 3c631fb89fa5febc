//! Simulations side by side, on as many threads as are given: what comes of them does not depend on that.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use humpyard_core::measure::{self, Observer};
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_policies::spec::PolicySpec;
use humpyard_traffic::pace::Pacer;

use super::division::{Division, Piece};
use super::elsewhere::{Elsewhere, asked, figures_of};
use super::figures::MeasuredFigures;
use super::goal::Goal;
use super::pilot::Pilot;
use super::scope::{ScopeCounts, Scopes};
use super::workload::Workload;
use crate::LabError;
use crate::config::RunConfig;
use crate::control::Control;
use crate::dispatchers::{host_of_several, simulate_each};
use crate::offered::{Demand, Offered};
use crate::parts::demand::{pace_of, pacer_of};
use crate::parts::setup;
use crate::recorded::Recorded;
use crate::result::RunResult;
use crate::run::{Feed, simulated};
use crate::threads::{EndsAtPanic, join};

/// Which packets a trial has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// This part (0 to 1) of what is searched.
    Searched(f64),
    /// One of the blocks that are held out.
    HeldOut(usize),
}

/// A simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    pub(super) policy: &'a PolicySpec,
    pub(super) part: Part,
    /// Times faster than the traffic that is asked for.
    pub(super) times: f64,
    pub(super) cores: usize,
    /// Added to the seed: another hash of flows, other draws.
    pub(super) seed: u64,
}

impl<'a> Trial<'a> {
    /// As it is asked for, of this part of the input.
    pub(super) fn new(policy: &'a PolicySpec, part: Part, config: &RunConfig) -> Self {
        Self { policy, part, times: 1.0, cores: config.cores, seed: 0 }
    }

    /// The whole input.
    pub(super) fn whole(policy: &'a PolicySpec, config: &RunConfig) -> Self {
        Self::new(policy, Part::Whole, config)
    }
}

/// Told of simulations done, of how many, and what for.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize, &str);

/// Where trials take place.
#[derive(Debug)]
pub(super) struct Trials<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) recorded: Recorded,
    pub(super) division: Division,
    pub(super) workload: Workload,
    /// The services and clients that the goal names.
    scopes: Scopes,
    /// What the packets ask of cores.
    demand: Demand,
    threads: NonZeroUsize,
    /// Other processes that make trials. `None`: the threads of this one do.
    elsewhere: Option<Arc<dyn Elsewhere>>,
    stop: &'a AtomicBool,
    /// Packets that were simulated.
    packets: AtomicUsize,
}

impl<'a> Trials<'a> {
    /// Reads the input, at most this many packets.
    ///
    /// # Errors
    /// An input that cannot be read, a load that cannot be found, and a goal for what there is not.
    pub(super) fn read(
        config: &'a RunConfig,
        goal: &Goal,
        most: u64,
        threads: NonZeroUsize,
        stop: &'a AtomicBool,
    ) -> Result<Self, LabError> {
        let mut progress = |_, _| {};
        let control = &mut Control::new(stop, &mut progress);
        let recorded = Recorded::read(config, most, control)?;
        let demand = Demand::read(config, &mut recorded.whole(), control)?;
        let division = Division::of(recorded.len());
        let workload = Workload::read(config, &recorded, stop)?;
        let scopes = Scopes::find(goal, config, workload.clients_count)?;
        let packets = AtomicUsize::new(0);
        let elsewhere = None;
        Ok(Self { config, recorded, division, workload, scopes, demand, threads, elsewhere, stop, packets })
    }

    /// Has other processes make trials.
    pub(super) fn with_elsewhere(self, elsewhere: Option<Arc<dyn Elsewhere>>) -> Self {
        Self { elsewhere, ..self }
    }

    /// Returns how many packets were simulated so far.
    pub(super) fn packets(&self) -> usize {
        self.packets.load(Ordering::Relaxed)
    }

    /// How many inputs' worth of packets were simulated so far.
    pub(super) fn inputs(&self) -> f64 {
        self.packets() as f64 / self.recorded.len() as f64
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
        match &self.elsewhere {
            Some(elsewhere) => self.run_elsewhere(&**elsewhere, trials, what, progress),
            None => self.each(trials, what, progress, |trial| self.run_one(trial)),
        }
    }

    fn run_elsewhere(
        &self,
        elsewhere: &dyn Elsewhere,
        trials: &[Trial<'_>],
        what: &str,
        progress: Progress<'_>,
    ) -> Result<Vec<MeasuredFigures>, LabError> {
        let texts = trials.iter().map(|trial| asked(trial, self.division.peaks())).collect::<Result<_, _>>()?;
        let mut results: Vec<Option<MeasuredFigures>> = vec![None; trials.len()];
        let mut done = 0;
        let ended = elsewhere.run(texts, self.stop, &mut |at, outcome| {
            let (packets, figures) = figures_of(outcome)?;
            self.packets.fetch_add(packets, Ordering::Relaxed);
            results[at] = Some(figures);
            done += 1;
            progress(done, trials.len(), what);
            Ok(())
        });
        if self.stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        ended?;
        let missing = || LabError::option("an executor ended before its trials were done: run it again");
        results.into_iter().map(|found| found.ok_or_else(missing)).collect()
    }

    /// Does the same to each of these on all threads, and returns the results in their order.
    ///
    /// # Errors
    /// The first failure, and being interrupted.
    pub(super) fn each<T: Sync, R: Send>(
        &self,
        all: &[T],
        what: &str,
        progress: Progress<'_>,
        of: impl Fn(&T) -> Result<R, LabError> + Sync,
    ) -> Result<Vec<R>, LabError> {
        let (next, of) = (AtomicUsize::new(0), &of);
        let mut results: Vec<Option<R>> = all.iter().map(|_| None).collect();
        let (sender, finished) = mpsc::channel();
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for _ in 0..self.threads.get().min(all.len()) {
                let (sender, next) = (sender.clone(), &next);
                workers.push(scope.spawn(move || {
                    let _ends = EndsAtPanic { next, items: all.len() };
                    while let Some((at, one)) = take(all, next) {
                        if sender.send((at, of(one))).is_err() {
                            break;
                        }
                    }
                }));
            }
            drop(sender);
            for (done, (at, found)) in finished.into_iter().enumerate() {
                if found.is_err() {
                    next.store(all.len(), Ordering::Relaxed);
                }
                results[at] = Some(found?);
                progress(done + 1, all.len(), what);
            }
            join(workers);
            Ok::<_, LabError>(())
        })?;
        Ok(results.into_iter().flatten().collect())
    }

    /// Finds out where these policies delay packets, so that samples have these windows.
    ///
    /// # Errors
    /// The first failure, and being interrupted.
    pub(super) fn find_peaks(&mut self, policies: &[PolicySpec]) -> Result<(), LabError> {
        let mut orders = Vec::with_capacity(policies.len());
        for policy in policies {
            let pilot = Pilot::new(self.division.windows().iter().map(ExactSizeIterator::len));
            let trial = Trial::new(policy, Part::Searched(1.0), self.config);
            let mut config = self.config_of(&trial);
            if host_of_several(&config).is_some() {
                // A pilot observes one dispatcher. On the ideal host, packets wait for cores alone.
                (config.dispatchers, config.assumed) = (Some(1), None);
            }
            for piece in self.pieces(trial.part) {
                self.simulate(&config, &piece, Some(Box::new(pilot.clone())))?;
            }
            orders.push(pilot.peaks());
        }
        self.division.set_peaks(&orders);
        Ok(())
    }

    /// What all packets offer when they come as asked for, and for how long.
    ///
    /// # Errors
    /// A load where all packets come at once, and a line rate.
    pub(super) fn offered(&self) -> Result<(Offered, Time), LabError> {
        let arrived = self.recorded.arrived(&mut self.pacer(self.config)?);
        let Demand { work, services, .. } = self.demand;
        Ok((Offered::of_sum(self.config, measure::Offered { work, services, ..arrived }), arrived.span()))
    }

    fn pieces(&self, part: Part) -> Vec<Piece> {
        match part {
            Part::Whole => vec![self.division.whole()],
            Part::Searched(part) => self.division.sample(part),
            Part::HeldOut(block) => vec![Piece { ranges: vec![self.division.held_out()[block].clone()], weight: 1.0 }],
        }
    }

    fn pacer(&self, config: &RunConfig) -> Result<Pacer, LabError> {
        let pace = pace_of(config, config.cores, || Ok(self.demand))?.ok_or_else(setup::no_line_rate)?;
        Ok(pacer_of(config, pace))
    }

    /// Runs one, and returns its figures.
    ///
    /// # Errors
    /// What keeps it from being run, and being interrupted.
    pub(super) fn run_one(&self, trial: &Trial<'_>) -> Result<MeasuredFigures, LabError> {
        let (mut parts, mut counts): (Vec<(RunResult, f64)>, Vec<Vec<ScopeCounts>>) = (Vec::new(), Vec::new());
        let config = self.config_of(trial);
        for piece in self.pieces(trial.part) {
            let listener = self.scopes.listener(&self.workload, &piece);
            let observer = listener.clone().map(|listener| Box::new(listener) as _);
            let run = self.simulate(&config, &piece, observer)?;
            counts.push(self.scopes.counts(&run, listener.as_ref()));
            parts.push((run, piece.weight));
        }
        Ok(MeasuredFigures { scopes: self.scopes.figures(&parts, &counts), ..MeasuredFigures::of_parts(&parts) })
    }

    /// Whether the goal names clients. An observer counts their packets.
    pub(super) fn names_clients(&self) -> bool {
        self.scopes.listener_of_all().is_some()
    }

    /// Returns the configuration of a trial.
    fn config_of(&self, trial: &Trial<'_>) -> RunConfig {
        let seed = Seed(self.config.seed.0.wrapping_add(trial.seed));
        let rate = self.config.rate.times(trial.times);
        let mut config =
            RunConfig { policy: trial.policy.clone(), cores: trial.cores, seed, rate, ..self.config.clone() };
        if let Some(processors) = larger_host(self.config, trial.cores) {
            let host = config.assumed.as_mut().and_then(|assumed| assumed.machine.host.as_mut());
            host.expect("a host with dispatchers").processors = processors;
        }
        config
    }

    /// Simulates some of the packets.
    fn simulate(
        &self,
        config: &RunConfig,
        piece: &Piece,
        observer: Option<Box<dyn Observer + Send>>,
    ) -> Result<RunResult, LabError> {
        let mut progress = |_, _| {};
        let mut control = Control { observer, ..Control::new(self.stop, &mut progress) };
        let result = match host_of_several(config) {
            Some(host) => {
                let open = || Ok(Box::new(self.recorded.play(&piece.ranges)) as _);
                simulate_each(config, host, &mut control, (self.pacer(config)?, open))?
            }
            None => simulated(config, &mut control, |_| {
                let source = Box::new(self.recorded.play(&piece.ranges));
                Ok(Feed { pacer: self.pacer(config)?, source, timing: setup::timing(config)? })
            })?,
        };
        if result.interrupted || self.stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        self.packets.fetch_add(result.packets.arrived as usize, Ordering::Relaxed);
        Ok(result)
    }
}

/// Returns the number of processors of a larger host with this many cores: one for each core, each of several
/// dispatchers and their reader. `None`: the host as it is simulates these cores.
pub fn larger_host(config: &RunConfig, cores: usize) -> Option<usize> {
    let host = config.assumed.as_ref()?.machine.host.as_ref()?;
    let dispatchers = config.dispatchers.unwrap_or(1);
    let threads = cores + dispatchers + 1;
    let shares = dispatchers > 1 && (cores..threads).contains(&host.processors);
    // The host is larger anyway if what was asked for does not fit.
    let is_larger = cores > config.cores || config.cores > host.processors;
    (shares && is_larger).then_some(threads)
}

fn interrupted() -> LabError {
    LabError::option("interrupted before the search was over: there is nothing to recommend")
}

/// Returns the next that no thread has taken.
fn take<'a, T>(all: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    all.get(at).map(|one| (at, one))
}
