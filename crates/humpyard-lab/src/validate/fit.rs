//! The straight line of each service through what was measured of it.

use std::collections::BTreeMap;

use humpyard_core::cost::LinearCost;
use humpyard_core::measure::Histogram;
use humpyard_core::unit::Time;
use humpyard_sim::{Disturbance, Interruptions};

use super::recorder::{Record, Served};
use crate::LabError;
use crate::calibrate::LineFit;
use crate::config::RunConfig;
use crate::costs::{CostLine, Costs, cost_key};

/// Groups of lengths through whose mean times the line goes.
const GROUPS: usize = 8;
/// What takes so much longer than it should, and at least as long again, was interrupted: lines are those of the work. In ns.
const INTERRUPTION: u64 = 10_000;

/// Fewer cold packets say nothing.
const FEW: usize = 16;

/// The costs of a run's services, from what was measured of them.
pub(super) fn costs(config: &RunConfig, record: &Record) -> Result<Costs, LabError> {
    let mut lines = BTreeMap::new();
    for (at, choice) in config.services.iter().enumerate() {
        let served: Vec<&Served> = record.served.iter().filter(|served| served.service == at).collect();
        // Of several with the same work the one that was seen counts.
        let spec = cost_key(&choice.work)?;
        if !served.is_empty() || !lines.contains_key(&spec) {
            lines.insert(spec, line(&served));
        }
    }
    Ok(Costs::of_lines("measured in this run", "this run", lines))
}

fn line(served: &[&Served]) -> CostLine {
    let mut warm: Vec<(u32, u64)> =
        served.iter().filter(|served| !served.cold).map(|served| (served.length, served.busy.as_ns())).collect();
    if warm.is_empty() {
        warm = served.iter().map(|served| (served.length, served.busy.as_ns())).collect();
    }
    warm.sort_unstable();
    let group = |group: usize| {
        let of = &warm[warm.len() * group / GROUPS..warm.len() * (group + 1) / GROUPS];
        let times = sorted(of.iter().map(|&(_, busy)| busy));
        let median = quantile(&times, 0.5);
        let most = median + median.max(INTERRUPTION);
        let kept: Vec<u64> = times.into_iter().take_while(|&busy| busy <= most).collect();
        let mean = |sum: f64, count: usize| sum / count.max(1) as f64;
        let length = mean(of.iter().map(|&(length, _)| f64::from(length)).sum(), of.len());
        (!of.is_empty()).then(|| (length, mean(kept.iter().map(|&busy| busy as f64).sum(), kept.len())))
    };
    let points: Vec<(f64, f64)> = (0..GROUPS).filter_map(group).collect();
    let fit = LineFit::of(&points);
    let above = served.iter().filter(|served| served.cold);
    let above = sorted(above.map(|served| served.busy.as_ns().saturating_sub(fit.at(f64::from(served.length)) as u64)));
    CostLine {
        fixed_ns: fit.fixed_ns,
        per_byte_ns: fit.per_byte_ns,
        cold_ns: if above.len() < FEW { 0.0 } else { quantile(&above, 0.5) as f64 },
        ..CostLine::default()
    }
}

/// From when a packet comes to an idle core until that begins: the median.
pub(super) fn hand_over(record: &Record) -> Time {
    let waits = sorted(record.served.iter().filter(|served| served.was_idle).map(|served| served.wait.as_ns()));
    Time::from_ns(quantile(&waits, 0.5))
}

/// What each service of a run takes.
pub(super) fn lines(config: &RunConfig) -> Result<Vec<LinearCost>, LabError> {
    crate::parts::setup::costs(config)
}

/// What interrupted a worker, by a time that goes on in one of its states alone.
#[derive(Clone, Default)]
struct Stops {
    runs: Histogram,
    stops: Histogram,
    /// How long it has run since.
    ran: u64,
}

impl Stops {
    /// It was to be so long in this state, and was it for so long.
    fn add(&mut self, should: u64, took: u64, stop_from: u64) {
        let longer = took.saturating_sub(should);
        if longer < stop_from.max(INTERRUPTION) {
            self.ran += took;
            return;
        }
        self.ran += should;
        self.runs.record(self.ran);
        self.stops.record(longer);
        self.ran = 0;
    }

    /// What was found; the last run was cut off by the end, and counts all the same: else who is seldom interrupted would be more often.
    fn found(mut self) -> Interruptions {
        self.runs.record(self.ran);
        Interruptions { runs: self.runs.counts(), stops: self.stops.counts() }
    }
}

/// How workers were interrupted, at work and when a packet was there for an idle one: what each took longer than it should. What
/// interrupted the dispatcher is in the times at which packets reached it.
pub(super) fn disturbance(record: &Record, lines: &[LinearCost], hand_over: Time, cores: usize) -> Disturbance {
    let (mut at_work, mut idle) = (Stops::default(), Stops::default());
    let mut before = vec![record.begun(); cores];
    for served in &record.served {
        let (wait, busy) = (served.wait.as_ns(), served.busy.as_ns());
        let there = served.finished.as_ns().saturating_sub(busy + wait);
        let without = there.saturating_sub(before[served.core].as_ns());
        before[served.core] = served.finished;
        idle.add(without + hand_over.as_ns(), without + wait, 0);
        let should = lines[served.service].total(served.length, served.cold);
        at_work.add(should, busy, should);
    }
    Disturbance { at_work: at_work.found(), idle: idle.found(), dispatcher: Interruptions::default() }
}

/// From the least to the greatest.
pub(super) fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values
}

/// The value that this part of them keeps; 0 of none.
pub(super) fn quantile(sorted: &[u64], part: f64) -> u64 {
    let at = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(length: u32, cold: bool, busy: u64) -> Served {
        Served {
            core: 0,
            finished: Time::ZERO,
            service: 0,
            length,
            cold,
            busy: Time::from_ns(busy),
            wait: Time::ZERO,
            was_idle: true,
        }
    }

    #[test]
    fn the_line_is_that_of_the_work() {
        let mut all: Vec<Served> = (0..800).map(|at| served(64 + at, false, 100 + u64::from(64 + at) / 2)).collect();
        all.extend((0..100).map(|at| served(64 + 8 * at, true, 100 + u64::from(64 + 8 * at) / 2 + 70)));
        // An interrupt does not move it.
        all.push(served(500, false, 4_000_000));
        let line = line(&all.iter().collect::<Vec<_>>());
        assert!((line.fixed_ns - 100.0).abs() < 2.0 && (line.per_byte_ns - 0.5).abs() < 0.01, "{line:?}");
        assert!((line.cold_ns - 70.0).abs() < 3.0, "{line:?}");
    }

    #[test]
    fn what_takes_longer_than_it_should_was_interrupted() {
        let mut record = Record::new(1, 0);
        let at = |finished, wait, busy| {
            let time = Time::from_ns;
            Served { finished: time(finished), wait: time(wait), ..served(100, false, busy) }
        };
        // Interrupted for 50 us at work, up to 100 us; then 20 us before a packet, up to 200 us.
        record.served = vec![at(10_000, 500, 1_000), at(100_000, 500, 51_000), at(201_000, 20_500, 1_000)];
        let lines = [LinearCost { fixed: 1_000, per_byte_milli: 0, cold: 0 }];
        let found = disturbance(&record, &lines, Time::from_ns(500), 1);
        let counts = |lengths: &[u64]| {
            let mut counts = Histogram::new();
            lengths.iter().for_each(|&length| counts.record(length));
            counts.counts()
        };
        assert_eq!(found.at_work, Interruptions { runs: counts(&[2_000, 1_000]), stops: counts(&[50_000]) });
        // Idle for 9,000, 39,000 and 79,500, the last 20,000 before it, which was stopped.
        assert_eq!(
            found.idle,
            Interruptions { runs: counts(&[9_000 + 39_000 + 79_500 + 500, 0]), stops: counts(&[20_000]) }
        );
    }

    #[test]
    fn quantiles_are_of_the_values() {
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| quantile(&[1, 2, 3, 4], part)), [1, 2, 4, 4]);
        assert_eq!(quantile(&[], 0.5), 0);
    }
}
