//! What a preemption may cost.

use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use super::load::{BI1, BI2, EXP, ServiceTimes, poisson};
use super::machine::{RivalRun, RivalTrial};
use super::paper::{CORES, PAPER, SETTING, packets};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, line, listed, rows, short, split,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

/// Policies with a quantum over the time of a preemption.
pub(super) struct Preemption;

rows! {
    COLUMNS, fn row(
        times: &str, load: f64, policy: &str, switch_out_us: f64, packets: usize, came: &RivalRun
    ) {
        text times = times, real load = load, text policy = policy, real switch_out_us = switch_out_us,
        integer packets = packets, real mean_us = came.mean(), real p99_us = came.sojourn(0.99),
        real slowdown_p99 = came.slowdown(0.99), real slowdown_p999 = came.slowdown(0.999),
        integer preemptions = came.preemptions,
    }
}

/// Distributions, and loads.
const PLACES: [(ServiceTimes, f64); 6] = [(EXP, 0.8), (EXP, 0.9), (BI1, 0.8), (BI1, 0.9), (BI2, 0.8), (BI2, 0.9)];

const CENTRAL: &str = "share=fcfs";
const PS: &str = "share=ps:idle=yield";
const SHINJUKU: &str = "share=shinjuku:idle=yield";
const CONCORD: &str = "share=concord:idle=yield";
const PREEMPTING: [&str; 3] = [PS, SHINJUKU, CONCORD];
/// Times of a preemption, in us.
const SWITCH_OUT_US: [f64; 3] = [0.0, 0.1, 1.0];

impl Experiment for Preemption {
    fn about(&self) -> About {
        About {
            id: "rivals-preemption",
            figure: "reference values of RIVALS.md, line `same, switch_out 1`, and its last paragraph",
            title: "times of packets over what a preemption takes",
            setting: SETTING,
            description: "After a quantum the core is held for the time of a preemption. Policies preempt also where \
                nothing waits (`idle=yield`), and pay for it, as the prototype does. The central queue, which does not \
                preempt, is there to compare with. Times of overloaded cores grow with the number of packets.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        PLACES.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let ((times, load), _) = split(part, &PLACES);
        let packets = packets(times, scale);
        let jobs = poisson(times, CORES, load, packets, seed);
        let run = |(policy, us): (&str, f64)| {
            let switch_out = Time::from_ns((us * 1e3) as u64);
            let trial = RivalTrial { switch_out, ..RivalTrial::of(policy, CORES, &jobs) };
            Ok(row(times.name(), load, policy, us, packets, &trial.run()?))
        };
        let costs = PREEMPTING.into_iter().flat_map(|policy| SWITCH_OUT_US.map(|us| (policy, us)));
        [(CENTRAL, 0.0)].into_iter().chain(costs).map(run).collect()
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let of_place = |(times, load): (ServiceTimes, f64)| {
            let said = |policy| {
                Note::new(
                    format!("{} at {load}, {policy}: p99 with 0, 0.1 and 1 us a preemption", times.name()),
                    "",
                    format!("{} us", listed(SWITCH_OUT_US.map(|us| value(data, (times, load), policy, us, "p99_us")))),
                )
            };
            PREEMPTING.map(said)
        };
        PLACES.into_iter().flat_map(of_place).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |at: (ServiceTimes, f64)| {
            let drawn =
                |policy: &str| line(policy, SWITCH_OUT_US.map(|us| (us, value(data, at, policy, us, "p99_us"))));
            let central = value(data, at, CENTRAL, 0.0, "p99_us");
            let central = line(CENTRAL, SWITCH_OUT_US.map(|us| (us, central)));
            let svg = LinePlot {
                title: format!("{} at load {}", at.0.name(), at.1),
                description: "Means over the seeds. The central queue does not preempt.".to_owned(),
                x: Axis::linear("time of a preemption, in us", short),
                y: Axis::logarithmic("time of 1 in 100 packets, in us", short),
                lines: [central].into_iter().chain(PREEMPTING.map(drawn)).collect(),
            };
            (format!("{}-{}", at.0.name(), (at.1 * 100.0).round()), svg.svg())
        };
        PLACES.map(plot).into()
    }
}

/// Returns a column of a row.
fn value(data: &Table, at: (ServiceTimes, f64), policy: &str, switch_out_us: f64, column: &str) -> f64 {
    let rows = data.rows_of("times", at.0.name()).of("policy", policy).at("load", at.1);
    rows.at("switch_out_us", switch_out_us).mean(column)
}

/// Returns p99 with 1 us a preemption over that of the central queue, at load 0.9, with `bi1` and `bi2`.
fn eaten(data: &Table, policy: &str) -> Vec<f64> {
    let p99 = |times, policy, us| value(data, (times, 0.9), policy, us, "p99_us");
    [BI1, BI2].map(|times| p99(times, policy, 1.0) / p99(times, CENTRAL, 0.0)).into()
}

/// Returns columns of `shinjuku` with 1 us a preemption.
fn costly(data: &Table, times: ServiceTimes, loads: &[f64], columns: &[&str]) -> Vec<f64> {
    let at = |&load: &f64| columns.iter().map(move |column| value(data, (times, load), SHINJUKU, 1.0, column));
    loads.iter().flat_map(at).collect()
}

const FIGURES: &[Figure] = &[
    Figure { claim: "rivals-eaten-ps", of: |data| eaten(data, PS) },
    Figure { claim: "rivals-eaten-shinjuku", of: |data| eaten(data, SHINJUKU) },
    Figure { claim: "rivals-eaten-concord", of: |data| eaten(data, CONCORD) },
    Figure { claim: "rivals-costly-exp", of: |data| costly(data, EXP, &[0.8, 0.9], &["mean_us", "p99_us"]) },
    Figure { claim: "rivals-costly-bi1", of: |data| costly(data, BI1, &[0.8], &["mean_us", "p99_us"]) },
    Figure { claim: "rivals-costly-bi2-mean", of: |data| costly(data, BI2, &[0.8], &["mean_us"]) },
    Figure { claim: "rivals-costly-bi2-p99", of: |data| costly(data, BI2, &[0.8], &["p99_us"]) },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&Preemption);
        assert_expected(&Preemption, &data);
        assert_eq!(Preemption.plots(&data).len(), PLACES.len());
    }
}
