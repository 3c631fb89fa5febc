//! Policies over the load while few connections send most packets. The experiments with RSS++ and with Open vSwitch
//! share this.

use humpyard_core::random::Seed;

use super::load::skewed;
use super::machine::{ClientBy, RivalRun, RivalTrial};
use super::paper::PACKETS;
use crate::harness::{Note, Plots, Row, Rows, Scale, Table, line, listed, rows, short};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

rows! {
    pub(super) COLUMNS, fn row(load: f64, policy: &str, packets: usize, came: &RivalRun) {
        real load = load, text policy = policy, integer packets = packets, real mean_us = came.mean(),
        real p95_us = came.sojourn(0.95), real p99_us = came.sojourn(0.99), real busiest_over_mean = came.busiest,
    }
}

pub(super) const LOADS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
/// Cores, and the time of a packet in ns, of the specification's measurements.
const CORES: usize = 8;
const WORK: u64 = 5_200;
const CONNECTIONS: usize = 10_000;

/// Returns a row for each policy at this load.
pub(super) fn run(policies: &[&str], load: f64, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
    let packets = scale.of(PACKETS);
    let jobs = skewed((CONNECTIONS, WORK), CORES, load, packets, seed);
    let run = |policy: &&str| {
        let clients = ClientBy::Connections(CONNECTIONS);
        let trial = RivalTrial { clients, ..RivalTrial::of(policy, CORES, &jobs) };
        Ok(row(load, policy, packets, &trial.run()?))
    };
    policies.iter().map(run).collect()
}

/// Returns a column of a row.
pub(super) fn value(data: &Table, load: f64, policy: &str, column: &str) -> f64 {
    data.rows_of("policy", policy).at("load", load).mean(column)
}

/// Returns a column of the first policy over that of the second, at each of these loads.
pub(super) fn over(data: &Table, loads: &[f64], (first, second): (&str, &str), column: &str) -> Vec<f64> {
    let ratio = |&load: &f64| value(data, load, first, column) / value(data, load, second, column);
    loads.iter().map(ratio).collect()
}

/// Returns a note for each policy on how evenly the cores share the work.
pub(super) fn notes(data: &Table, policies: &[&str]) -> Vec<Note> {
    let said = |policy: &&str| {
        Note::new(
            format!("{policy}: work of the busiest core over that of the mean core, at loads {}", listed(LOADS)),
            "",
            listed(LOADS.map(|load| value(data, load, policy, "busiest_over_mean"))),
        )
    };
    policies.iter().map(said).collect()
}

/// Draws the p95 of each policy over the load.
pub(super) fn plots(data: &Table, policies: &[&str], title: &str, description: &str) -> Plots {
    let drawn = |policy: &&str| line(*policy, LOADS.map(|load| (load, value(data, load, policy, "p95_us"))));
    let svg = LinePlot {
        title: title.to_owned(),
        description: description.to_owned(),
        x: Axis::linear("load", |load| format!("{load:.1}")),
        y: Axis::logarithmic("time of 1 in 20 packets, in us", short),
        lines: policies.iter().map(drawn).collect(),
    };
    vec![("p95".to_owned(), svg.svg())]
}
