//! The processes of web servers, the policies that dispatch them, and their plots.

use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;

use super::super::scheduled::weights;
use crate::harness::{Rows, Scale, Table, TableRow};
use humpyard_plot::{Line, Point};

/// Processes of each server.
pub(crate) const PROCESSES: usize = 100;
/// The process in the plots, in the middle of its server, from 1.
pub(crate) const SHOWN: usize = 50;
/// Periods per run. The schedules of most policies repeat after a slot for each unit of weight.
pub(crate) const PERIODS: u64 = 2;

/// The weights of the servers' processes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mix {
    /// All processes of a server have the same weight.
    ByServer(&'static [u32]),
    /// Each process of this many servers has a random weight from 1 to 10.
    Random(usize),
}

/// The processes of one server have weight 10, those of five servers 1.
pub(crate) const FIRST: Mix = Mix::ByServer(&[10, 1, 1, 1, 1, 1]);
pub(crate) const SECOND: Mix = Mix::ByServer(&[1, 2, 3, 4, 5]);
pub(crate) const THIRD: Mix = Mix::Random(5);

impl Mix {
    /// Returns the weights of all processes, server by server; random ones by the number of the draw, from 1.
    pub(crate) fn weights(self, draw: usize, seed: Seed) -> Vec<Weight> {
        match self {
            Self::ByServer(servers) => {
                weights(servers.iter().flat_map(|&server| core::iter::repeat_n(server, PROCESSES)))
            }
            Self::Random(servers) => {
                let mut random = seed.stream(&format!("web-servers/draw/{draw}"));
                weights((0..servers * PROCESSES).map(|_| 1 + random.below(10) as u32))
            }
        }
    }

    /// Returns the number of draws of the weights.
    pub(crate) fn draws(self, scale: Scale) -> usize {
        match self {
            Self::ByServer(_) => 1,
            Self::Random(_) => scale.pick(20, 100),
        }
    }
}

/// A policy, with its number of processors.
pub(crate) type Run = (&'static str, usize);

/// All policies with figures in the specification.
pub(crate) const ALL_POLICIES: [Run; 9] =
    [("gr3", 1), ("wfq", 1), ("sfq", 1), ("vtrr", 1), ("srr", 1), ("wf2q+", 1), ("wrr", 1), ("strr", 1), ("qfq", 1)];
/// The number of them in one plot: more lines would be hard to distinguish.
pub(crate) const DRAWN: usize = 6;

/// Returns the rows of a run.
pub(crate) fn rows_of(data: &Table, (policy, processors): Run) -> impl Rows<'_> {
    data.rows_of("policy", policy).at("processors", processors as f64)
}

/// Draws the service of the shown process of a server as stairs, in the first draw; `point` returns time and
/// service.
pub(crate) fn stairs<'a>(
    rows: impl Rows<'a>,
    server: usize,
    point: impl Fn(&TableRow<'a>) -> (f64, f64),
    name: String,
) -> Line {
    let rows = rows.at("draw", 1.0).at("server", server as f64);
    let mut points: Vec<Point> = Vec::new();
    for (at, service) in rows.map(|row| point(&row)) {
        if let Some(&Point { y, .. }) = points.last() {
            points.push((at, y).into());
        }
        points.push((at, service).into());
    }
    Line { name, points }
}

/// Draws the service of the shown process of each server in this run.
pub(crate) fn each_server<'a>(data: &'a Table, run: Run, point: impl Fn(&TableRow<'a>) -> (f64, f64)) -> Vec<Line> {
    let starts = rows_of(data, run).at("draw", 1.0).at("slot", 0.0);
    let line = |row: TableRow<'a>| {
        let (server, weight) = (row.number("server"), row.number("weight"));
        stairs(rows_of(data, run), server as usize, &point, format!("server {server}, weight {weight}"))
    };
    starts.map(line).collect()
}

/// Draws the service of the first server's process in the first of these runs.
pub(crate) fn rivals<'a>(data: &'a Table, runs: &[Run], point: impl Fn(&TableRow<'a>) -> (f64, f64)) -> Vec<Line> {
    let drawn = runs.iter().take(DRAWN);
    drawn.map(|&run| stairs(rows_of(data, run), 1, &point, run_name(run))).collect()
}

/// Returns the slot, and the service up to it.
pub(crate) fn over_slots(row: &TableRow<'_>) -> (f64, f64) {
    (row.number("slot"), row.number("service"))
}

/// Returns the name of a run.
pub(crate) fn run_name((policy, processors): Run) -> String {
    if processors == 1 { policy.to_owned() } else { format!("{policy} on {processors} processors") }
}
