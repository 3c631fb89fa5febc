//! Bounded queues, and the time that it takes to hand a packet to a core.

use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use super::load::{EXP, poisson};
use super::machine::{RivalRun, RivalTrial};
use super::paper::{CORES, PACKETS, PAPER, SETTING};
use crate::harness::{About, Experiment, Figure, Plots, Row, Rows, Scale, Table, line, rows, short};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

/// Bounded queues over the time of a hand-over.
pub(super) struct HandOver;

rows! {
    COLUMNS, fn row(hand_over_us: f64, policy: &str, packets: usize, came: &RivalRun) {
        real hand_over_us = hand_over_us, text policy = policy, integer packets = packets, real mean_us = came.mean(),
        real p99_us = came.sojourn(0.99), real slowdown_p99 = came.slowdown(0.99),
        real slowdown_p999 = came.slowdown(0.999),
    }
}

const LOAD: f64 = 0.8;
/// Times of a hand-over, in us.
const HAND_OVER_US: [f64; 5] = [0.0, 0.2, 0.5, 1.0, 2.0];

const CENTRAL: &str = "share=fcfs";
const ONE: &str = "share=jbsq:n=1";
const TWO: &str = "share=jbsq:n=2";
const FOUR: &str = "share=jbsq:n=4";
const JSQ: &str = "steer=jsq";
/// Policies, and the most packets at a core.
const POLICIES: [(&str, u32); 5] = [(CENTRAL, 1), (ONE, 1), (TWO, 2), (FOUR, 4), (JSQ, 1 << 12)];

impl Experiment for HandOver {
    fn about(&self) -> About {
        About {
            id: "rivals-jbsq",
            figure: "policy `jbsq` and reference values of RIVALS.md",
            title: "bounded queues over the time that it takes to hand a packet to a core",
            setting: SETTING,
            description: "Load 0.8, exponential times. A core with room for n packets is handed n of them ahead. A \
                packet that is handed to an idle core starts after the time of the hand-over; a busy core overlaps it \
                with its work. So with n of 1 a core waits for every packet, and its load is 0.8 times the time of \
                service and hand-over: above 1 from 0.25 us on. Times of overloaded cores grow with the number of \
                packets. Under `jsq` all packets wait at cores.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        HAND_OVER_US.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (us, packets) = (HAND_OVER_US[part], scale.of(PACKETS));
        let jobs = poisson(EXP, CORES, LOAD, packets, seed);
        let run = |(policy, in_flight)| {
            let hand_over = Time::from_ns((us * 1e3) as u64);
            let trial = RivalTrial { hand_over, in_flight, ..RivalTrial::of(policy, CORES, &jobs) };
            Ok(row(us, policy, packets, &trial.run()?))
        };
        POLICIES.into_iter().map(run).collect()
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |column: &str, label: &str| {
            let drawn = |(policy, _)| line(policy, HAND_OVER_US.map(|us| (us, value(data, us, policy, column))));
            let svg = LinePlot {
                title: format!("{label}, over the hand-over"),
                description: "Means over the seeds. Load 0.8, exponential times.".to_owned(),
                x: Axis::linear("time of a hand-over, in us", short),
                y: Axis::logarithmic(label, short),
                lines: POLICIES.map(drawn).into(),
            };
            (column.to_owned(), svg.svg())
        };
        vec![plot("mean_us", "mean time of a packet, in us"), plot("p99_us", "time of 1 in 100 packets, in us")]
    }
}

/// Returns a column of a row.
fn value(data: &Table, hand_over_us: f64, policy: &str, column: &str) -> f64 {
    data.rows_of("policy", policy).at("hand_over_us", hand_over_us).mean(column)
}

/// Returns mean and p99 of one policy over those of another.
fn ratios(data: &Table, hand_over_us: f64, policy: &str, other: &str) -> [f64; 2] {
    let of = |column| value(data, hand_over_us, policy, column) / value(data, hand_over_us, other, column);
    ["mean_us", "p99_us"].map(of)
}

/// Returns mean and p99 without a hand-over.
fn ideal(data: &Table, policy: &str) -> Vec<f64> {
    ["mean_us", "p99_us"].map(|column| value(data, 0.0, policy, column)).into()
}

const FIGURES: &[Figure] = &[
    Figure { claim: "rivals-jbsq-one", of: |data| ideal(data, ONE) },
    Figure { claim: "rivals-jbsq-four", of: |data| ideal(data, FOUR) },
    Figure { claim: "rivals-jbsq-ideal", of: |data| ratios(data, 0.0, TWO, CENTRAL).into() },
    Figure {
        claim: "rivals-jbsq-hides",
        of: |data| HAND_OVER_US[1..].iter().flat_map(|&us| ratios(data, us, CENTRAL, TWO)).collect(),
    },
    Figure { claim: "rivals-jbsq-room", of: |data| ratios(data, 2.0, TWO, FOUR).into() },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&HandOver);
        assert_expected(&HandOver, &data);
        assert_eq!(HandOver.plots(&data).len(), 2);
        for us in HAND_OVER_US {
            assert_eq!(ratios(&data, us, ONE, CENTRAL), [1.0, 1.0], "room for one is the central queue");
        }
    }
}
