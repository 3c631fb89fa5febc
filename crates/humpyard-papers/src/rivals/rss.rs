//! RSS++ against receive-side scaling, while few connections send most packets.

use humpyard_core::random::Seed;

use super::load::skewed;
use super::machine::{ClientBy, RivalRun, RivalTrial};
use super::paper::{PACKETS, PAPER};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, line, listed, rows, short};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

/// Both policies over the load.
pub(super) struct Buckets;

rows! {
    COLUMNS, fn row(load: f64, policy: &str, packets: usize, came: &RivalRun) {
        real load = load, text policy = policy, integer packets = packets, real mean_us = came.mean(),
        real p95_us = came.sojourn(0.95), real p99_us = came.sojourn(0.99), real busiest_over_mean = came.busiest,
    }
}

const LOADS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
const RSS: &str = "steer=conn";
const RSS_PLUS_PLUS: &str = "steer=rss++";
const POLICIES: [&str; 2] = [RSS, RSS_PLUS_PLUS];
/// Cores, and the time of a packet in ns, of the specification's measurements.
const CORES: usize = 8;
const WORK: u64 = 5_200;
const CONNECTIONS: usize = 10_000;

impl Experiment for Buckets {
    fn about(&self) -> About {
        About {
            id: "rivals-rss",
            figure: "STEERING.md, section 2, RSS++",
            title: "delays under RSS++ and under receive-side scaling",
            setting: "",
            description: "8 cores, and packets of 5.2 us each that come as a Poisson process. They belong to 10,000 \
                connections: the n-th has 1/n as many packets as the first, which has a tenth of all. Each seed has \
                other hashes. Both policies hash connections to 128 buckets. RSS++ moves buckets every 10 ms. The \
                first tenth of the packets is left out. A full run has 400,000 packets with each of ten seeds, and a \
                quick one 20,000, which is one or two intervals.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        LOADS.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (load, packets) = (LOADS[part], scale.of(PACKETS));
        let jobs = skewed((CONNECTIONS, WORK), CORES, load, packets, seed);
        let run = |policy: &&str| {
            let clients = ClientBy::Connections(CONNECTIONS);
            let trial = RivalTrial { clients, ..RivalTrial::of(policy, CORES, &jobs) };
            Ok(row(load, policy, packets, &trial.run()?))
        };
        POLICIES.iter().map(run).collect()
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let said = |policy| {
            Note::new(
                format!("{policy}: work of the busiest core over that of the mean core, at loads {}", listed(LOADS)),
                "",
                listed(LOADS.map(|load| value(data, load, policy, "busiest_over_mean"))),
            )
        };
        POLICIES.map(said).into()
    }

    fn plots(&self, data: &Table) -> Plots {
        let drawn = |policy| line(policy, LOADS.map(|load| (load, value(data, load, policy, "p95_us"))));
        let svg = LinePlot {
            title: "Delays while few connections send most packets".to_owned(),
            description: "Means over the seeds. 8 cores, 10,000 connections.".to_owned(),
            x: Axis::linear("load", |load| format!("{load:.1}")),
            y: Axis::logarithmic("time of 1 in 20 packets, in us", short),
            lines: POLICIES.map(drawn).into(),
        };
        vec![("p95".to_owned(), svg.svg())]
    }
}

/// Returns a column of a row.
fn value(data: &Table, load: f64, policy: &str, column: &str) -> f64 {
    data.rows_of("policy", policy).at("load", load).mean(column)
}

const FIGURES: &[Figure] = &[
    Figure {
        claim: "rivals-rss-p95",
        of: |data| {
            let ratio = |load| value(data, load, RSS, "p95_us") / value(data, load, RSS_PLUS_PLUS, "p95_us");
            LOADS.map(ratio).into()
        },
    },
    Figure {
        claim: "rivals-rss-even",
        of: |data| LOADS.map(|load| value(data, load, RSS_PLUS_PLUS, "busiest_over_mean")).into(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&Buckets);
        assert_expected(&Buckets, &data);
        assert_eq!(Buckets.plots(&data).len(), 1);
    }
}
