//! Trials that other processes make: each as text, and its outcome as numbers that are the same there and here.

use core::fmt::Debug;
use core::num::NonZeroUsize;
use core::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::figures::{Delivered, MeasuredFigures};
use super::scope::ScopeFigures;
use super::trials::{Part, Trial, Trials};
use super::{RecommendOptions, fixed};
use crate::LabError;

/// Other processes that make trials: each has a [`TrialPlace`] with the options of the search.
pub trait Elsewhere: Debug + Send + Sync {
    /// Makes these trials, in any order, and calls `done` with the number and the outcome of each. Ends early once
    /// `stop` is set.
    ///
    /// # Errors
    /// What keeps a trial from being made, being stopped, and what `done` returns.
    fn run(
        &self,
        trials: Vec<String>,
        stop: &AtomicBool,
        done: &mut dyn FnMut(usize, TrialOutcome) -> Result<(), LabError>,
    ) -> Result<(), LabError>;
}

/// What comes of a trial.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TrialOutcome {
    /// Packets that were simulated, then the figures of the run, then those of each service and client of the goal.
    pub numbers: Vec<f64>,
    /// The services and clients of the goal.
    pub scopes: Vec<String>,
}

/// A trial as text. Numbers that are not whole are their bits, which JSON does not round.
#[derive(Serialize, Deserialize)]
struct AskedTrial {
    policy: String,
    part: AskedPart,
    times: u64,
    cores: usize,
    seed: u64,
    peaks: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
enum AskedPart {
    Whole,
    Searched(u64),
    HeldOut(usize),
}

/// Writes a trial as text, with the windows in which packets are delayed most.
pub(super) fn asked(trial: &Trial<'_>, peaks: &[usize]) -> Result<String, LabError> {
    let part = match trial.part {
        Part::Whole => AskedPart::Whole,
        Part::Searched(part) => AskedPart::Searched(part.to_bits()),
        Part::HeldOut(block) => AskedPart::HeldOut(block),
    };
    let &Trial { policy, times, cores, seed, .. } = trial;
    let asked =
        AskedTrial { policy: policy.to_string(), part, times: times.to_bits(), cores, seed, peaks: peaks.to_vec() };
    serde_json::to_string(&asked).map_err(|error| LabError::option(error.to_string()))
}

/// The input of a search and what is known of it, where trials of several tasks take place.
#[derive(Debug)]
pub struct TrialPlace(Trials<'static>);

impl TrialPlace {
    /// Reads the input of a search with these options. A few kB of memory, its configuration, are never given back.
    ///
    /// # Errors
    /// What keeps a search from being begun.
    pub fn read(options: &RecommendOptions) -> Result<Self, LabError> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let RecommendOptions { config, goal, packets, .. } = options;
        let config = Box::leak(Box::new(fixed(config, goal)?));
        Ok(Self(Trials::read(config, goal, *packets, NonZeroUsize::MIN, &NEVER)?))
    }

    /// Makes trials.
    ///
    /// # Errors
    /// Text that is no trial, and what keeps it from being made.
    pub fn run(&mut self, trials: &[String]) -> Result<Vec<TrialOutcome>, LabError> {
        trials.iter().map(|trial| self.run_one(trial)).collect()
    }

    fn run_one(&mut self, text: &str) -> Result<TrialOutcome, LabError> {
        let Self(place) = self;
        let refused = |error| LabError::option(format!("`{text}` is no trial: {error}"));
        let AskedTrial { policy, part, times, cores, seed, peaks } = serde_json::from_str(text).map_err(refused)?;
        let policy = place.config.named(&policy)?;
        let part = match part {
            AskedPart::Whole => Part::Whole,
            AskedPart::Searched(part) => Part::Searched(f64::from_bits(part)),
            AskedPart::HeldOut(block) => Part::HeldOut(block),
        };
        place.division.take_peaks(peaks);
        let before = place.packets();
        let figures = place.run_one(&Trial { policy: &policy, part, times: f64::from_bits(times), cores, seed })?;
        Ok(outcome(place.packets() - before, &figures))
    }
}

fn outcome(packets: usize, figures: &MeasuredFigures) -> TrialOutcome {
    let mut numbers = vec![packets as f64];
    let mut all = figures.clone();
    each(&mut all, |figure| numbers.push(*figure));
    TrialOutcome { numbers, scopes: all.scopes.into_iter().map(|of| of.scope).collect() }
}

/// Reads an outcome: the packets that were simulated, and the figures.
///
/// # Errors
/// Numbers that are too few or too many.
pub(super) fn figures_of(outcome: TrialOutcome) -> Result<(usize, MeasuredFigures), LabError> {
    let TrialOutcome { numbers, scopes } = outcome;
    let scopes = scopes.into_iter().map(|scope| ScopeFigures { scope, ..ScopeFigures::default() }).collect();
    let mut figures = MeasuredFigures { scopes, ..MeasuredFigures::default() };
    let mut left = numbers.into_iter();
    let packets = left.next();
    let mut is_whole = packets.is_some();
    each(&mut figures, |figure| match left.next() {
        Some(number) => *figure = number,
        None => is_whole = false,
    });
    if !is_whole || left.next().is_some() {
        return Err(LabError::option("a worker returned no figures of a trial: it has another version of humpyard"));
    }
    Ok((packets.unwrap_or_default() as usize, figures))
}

/// Visits each figure, in an order that is the same everywhere.
fn each(figures: &mut MeasuredFigures, mut visit: impl FnMut(&mut f64)) {
    let MeasuredFigures {
        late,
        mean_ns,
        p50_ns,
        p90_ns,
        p99_ns,
        p999_ns,
        max_ns,
        jitter_ns,
        out_of_order,
        loss,
        fairness,
        throughput_pps,
        scopes,
        delivered,
        dispatcher,
    } = figures;
    [late, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, jitter_ns, out_of_order, loss, fairness, throughput_pps]
        .into_iter()
        .chain([dispatcher])
        .for_each(&mut visit);
    each_delivered(delivered, &mut visit);
    for scope in scopes {
        scope.each(&mut visit);
    }
}

pub(super) fn each_delivered(delivered: &mut Delivered, visit: &mut impl FnMut(&mut f64)) {
    let Delivered { late, p50_ns, p90_ns, p99_ns, p999_ns, max_ns } = delivered;
    [late, p50_ns, p90_ns, p99_ns, p999_ns, max_ns].into_iter().for_each(visit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_read_as_it_was() {
        let mut figures =
            MeasuredFigures { scopes: vec![ScopeFigures::default(), ScopeFigures::default()], ..Default::default() };
        figures.scopes[1].scope = "dpi".to_owned();
        let mut number = 0.1;
        each(&mut figures, |figure| {
            *figure = number;
            number += 0.1;
        });
        figures.max_ns = f64::INFINITY;
        assert_eq!(figures_of(outcome(7, &figures)).unwrap(), (7, figures.clone()));
        let mut cut = outcome(7, &figures);
        cut.numbers.pop();
        assert!(figures_of(cut).is_err());
    }
}
