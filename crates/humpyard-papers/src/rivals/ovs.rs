//! Automatic load balance of Open vSwitch, RSS++ and AHRW, which even out the load of the same buckets.

use humpyard_core::random::Seed;

use super::load::skewed;
use super::machine::{ClientBy, RivalRun, RivalTrial};
use super::paper::{PACKETS, PAPER};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, line, listed, rows, short};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

/// All of them over the load.
pub(super) struct Queues;

rows! {
    COLUMNS, fn row(load: f64, policy: &str, packets: usize, came: &RivalRun) {
        real load = load, text policy = policy, integer packets = packets, real mean_us = came.mean(),
        real p95_us = came.sojourn(0.95), real p99_us = came.sojourn(0.99), real busiest_over_mean = came.busiest,
    }
}

const LOADS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
/// Loads at which the busiest core of a hash is busy throughout.
const BUSY: [f64; 2] = [0.8, 0.9];
const HASHED: &str = "steer=ovs:queues=32,autolb=false";
const GROUP: &str = "steer=ovs:queues=32,interval=10000";
const CYCLES: &str = "steer=ovs:queues=32,interval=10000,assign=cycles";
const RSS_PLUS_PLUS: &str = "steer=rss++:buckets=32";
const AHRW: &str = "steer=ahrw";
const POLICIES: [&str; 5] = [HASHED, GROUP, CYCLES, RSS_PLUS_PLUS, AHRW];
/// Cores, and the time of a packet in ns, of the specification's measurements.
const CORES: usize = 8;
const WORK: u64 = 5_200;
const CONNECTIONS: usize = 10_000;

impl Experiment for Queues {
    fn about(&self) -> About {
        About {
            id: "rivals-ovs",
            figure: "RIVALS.md, ovs",
            title: "delays under the automatic load balance of Open vSwitch, RSS++ and AHRW",
            setting: "",
            description: "8 cores, and packets of 5.2 us each that come as a Poisson process. They belong to 10,000 \
                connections: the n-th has 1/n as many packets as the first, which has a tenth of all. Each seed has \
                other hashes. `ovs` and `rss++` hash connections to 32 buckets, and may move them every 10 ms; Open \
                vSwitch itself waits for a minute. `autolb=false` leaves buckets where they are. `ahrw` has no \
                buckets: it weighs hashes by queues. The first tenth of the packets is left out. A full run has \
                400,000 packets with each of ten seeds, and a quick one 20,000, which is one or two intervals.",
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
            title: "Delays while policies even out the load of buckets".to_owned(),
            description: "Means over the seeds. 8 cores, 10,000 connections, 32 buckets.".to_owned(),
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

/// Returns a column of the first policy over that of the second, at each load.
fn over(data: &Table, loads: &[f64], (first, second): (&str, &str), column: &str) -> Vec<f64> {
    let ratio = |&load: &f64| value(data, load, first, column) / value(data, load, second, column);
    loads.iter().map(ratio).collect()
}

const FIGURES: &[Figure] = &[
    Figure { claim: "rivals-ovs-even", of: |data| over(data, &BUSY, (HASHED, GROUP), "busiest_over_mean") },
    Figure { claim: "rivals-ovs-p95", of: |data| over(data, &BUSY, (HASHED, GROUP), "p95_us") },
    Figure { claim: "rivals-ovs-group", of: |data| over(data, &BUSY, (CYCLES, GROUP), "busiest_over_mean") },
    Figure { claim: "rivals-ovs-rss", of: |data| over(data, &LOADS, (GROUP, RSS_PLUS_PLUS), "p95_us") },
    Figure { claim: "rivals-ovs-ahrw", of: |data| over(data, &LOADS, (GROUP, AHRW), "p95_us") },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&Queues);
        assert_expected(&Queues, &data);
        assert_eq!(Queues.plots(&data).len(), 1);
    }
}
