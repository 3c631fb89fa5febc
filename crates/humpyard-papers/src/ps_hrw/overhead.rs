//! Figures 11 and 12: the time of decisions relative to the time of a packet.

use humpyard_core::random::Seed;

use super::claims::least;
use super::figures::SETTING;
use super::machine::{Feed, Trial, run};
use super::paper::{DRAWS, FULL, PAPER, TOPOLOGY, drawn_seed};
use super::workload::{ALL, Cost, FFMPEG, L7, Offered, Workload};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, bar_of, group, rows, split};
use humpyard_lab::{LabError, parse_topology};
use humpyard_plot::statistics::Statistic;
use humpyard_plot::{Axis, BarPlot};

/// A figure of overhead.
#[derive(Debug)]
pub(super) struct Overhead {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    workloads: &'static [Workload],
    /// Further workloads for the claims, which are not in plots.
    besides: &'static [Workload],
    costs: &'static [Cost],
    figures: &'static [Figure],
}

/// Both figures.
pub(super) static OVERHEADS: [Overhead; 2] = [
    Overhead {
        id: "ps-hrw-fig11",
        figure: "figure 11",
        title: "overhead of decisions in the L7 filter",
        workloads: &L7,
        besides: &FFMPEG,
        costs: &[Cost::Model],
        figures: &[Figure {
            claim: "ps-hrw-fig11-above-baseline",
            of: |data| {
                let over = |workload: Workload, policy, other| {
                    let decision = |policy| value(data, (workload, Cost::Model), policy, "decision_p50_ns");
                    decision(policy) / decision(other)
                };
                let of = |workload| least([over(workload, "gps-hrw", "hrw"), over(workload, "ps-hrw", "h-cahrw")]);
                ALL.map(of).into()
            },
        }],
    },
    Overhead {
        id: "ps-hrw-fig12",
        figure: "figure 12",
        title: "overhead of decisions in FFmpeg",
        workloads: &FFMPEG,
        besides: &[],
        costs: &[Cost::Model, Cost::Measured],
        figures: &[Figure {
            claim: "ps-hrw-fig12-one-percent",
            of: |data| {
                let part = |policy| {
                    let of = |column| value(data, (FFMPEG[0], Cost::Measured), policy, column);
                    100.0 * of("decision_mean_ns") / of("work_mean_ns")
                };
                ["gps-hrw", "ps-hrw"].map(part).into()
            },
        }],
    },
];

/// The paper's policies, and the one that may exceed its shares.
const POLICIES: [&str; 9] = ["rr", "conn", "hrw", "ap", "gps-hrw", "ps-hrw", "ps-hrw:eager=true", "h-cahrw", "ahrw"];
/// Most packets of a run: timed runs must be short.
const PACKETS: u64 = 400_000;

rows! {
    COLUMNS, fn row(
        (workload, cost): (Workload, Cost), policy: &str, draw: usize, offered: &Offered, decisions: &[u64]
    ) {
        let part = |(decision, work): (&u64, u64)| *decision as f64 / (*decision + work) as f64;
        let parts = decisions.iter().zip(offered.packets.iter().map(|packet| packet.estimate)).map(part);
        let median_part = Statistic::of(parts.collect()).map_or(0.0, |parts| parts.median);
        let mut sorted = decisions.to_vec();
        sorted.sort_unstable();
        let quantile = |percent: usize| sorted.get(sorted.len() * percent / 100).copied().unwrap_or(0) as f64;
        let mean = sorted.iter().sum::<u64>() as f64 / sorted.len().max(1) as f64;
    } => {
        text workload = workload.name(), text cost = cost.name(), text policy = policy, integer draw = draw,
        integer connections = offered.flows, real work_mean_ns = offered.mean_work(), real decision_mean_ns = mean,
        real decision_p50_ns = quantile(50), real decision_p99_ns = quantile(99),
        real overhead_percent = 100.0 * median_part,
    }
}

impl Experiment for Overhead {
    fn about(&self) -> About {
        About {
            id: self.id,
            paper: PAPER,
            figure: self.figure,
            title: self.title,
            setting: SETTING,
            description: "The time of the policy for a packet, from the real clock: where it goes, and what the policy \
                keeps account of when it comes and when it is done. The work of the packet is that of the model, and \
                of a group of pictures also what was measured. Overhead is the decision over decision and work, the \
                median of all packets; the machine is saturated.",
            columns: COLUMNS,
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        (self.workloads.len() + self.besides.len()) * scale.of(DRAWS)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (workload, draw) = split(part, &[self.workloads, self.besides].concat());
        let seed = drawn_seed(seed, draw);
        let packets = workload.packets(scale).min(PACKETS);
        let topology = parse_topology(TOPOLOGY)?;
        let mut rows = Vec::new();
        for &cost in self.costs {
            let offered = workload.offered(cost, packets, seed)?;
            for policy in POLICIES {
                let trial = Trial { policy, feed: Feed::Saturated(FULL), is_timed: true, ..Trial::on(&topology, seed) };
                let came = run(&trial.of(&offered))?;
                rows.push(row((workload, cost), policy, draw, &offered, &came.decisions));
            }
        }
        Ok(rows)
    }

    fn version(&self) -> u32 {
        2
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let of = |workload: &Workload| POLICIES.map(|policy| noted(data, *workload, policy));
        self.workloads.iter().flat_map(of).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let of_workload = |workload: &Workload| {
            let found = |policy| statistic(data, (workload.name(), Cost::Model), policy, |row| row("overhead_percent"));
            group(workload.name(), POLICIES.map(|policy| bar_of(policy, &found(policy))))
        };
        let plot = BarPlot {
            title: self.title.to_owned(),
            description: self.about().description.to_owned(),
            value: Axis::linear("of the time of a packet", |percent| format!("{percent:.4} %")),
            groups: self.workloads.iter().map(of_workload).collect(),
        };
        vec![("overhead".to_owned(), plot.svg())]
    }
}

/// Returns the statistic of a policy's figure over the draws.
fn statistic(
    data: &Table,
    (workload, cost): (&str, Cost),
    policy: &str,
    of: impl Fn(&dyn Fn(&str) -> f64) -> f64,
) -> Statistic {
    let rows = data.rows_of("policy", policy).of("workload", workload).of("cost", cost.name());
    Statistic::of(rows.map(|row| of(&|column| row.number(column))).collect()).expect("every policy has every draw")
}

/// Returns a column of a policy in the first draw; NaN if there is none.
fn value(data: &Table, (workload, cost): (Workload, Cost), policy: &str, column: &str) -> f64 {
    let mut rows = data.rows_of("policy", policy).of("workload", workload.name()).of("cost", cost.name());
    rows.next().map_or(f64::NAN, |row| row.number(column))
}

/// Notes the median time of a policy's decisions over the draws.
fn noted(data: &Table, workload: Workload, policy: &str) -> Note {
    let column = |column| statistic(data, (workload.name(), Cost::Model), policy, |row| row(column)).median;
    let found = format!(
        "{:.0}, {:.0} and {:.0} ns; {:.4} %",
        column("decision_p50_ns"),
        column("decision_mean_ns"),
        column("decision_p99_ns"),
        column("overhead_percent")
    );
    let about = format!(
        "{}: decision of {policy}, median, mean and 99 %, and what it takes of the time of a packet",
        workload.name()
    );
    Note::new(about, "", found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Value;

    fn timed(workload: Workload, cost: Cost, policy: &str, decision_ns: f64) -> Row {
        let mut row: Row = vec![workload.name().into(), cost.name().into(), policy.into(), 1u32.into(), 9u32.into()];
        row.extend([5_000.0, decision_ns, 2.0 * decision_ns, decision_ns, 1.0].map(Value::from));
        row
    }

    #[test]
    fn decisions_are_compared_with_those_they_are_made_of() {
        let of_workload = |workload| {
            [("hrw", 10.0), ("gps-hrw", 30.0), ("h-cahrw", 20.0), ("ps-hrw", 40.0)]
                .map(|(policy, decision)| timed(workload, Cost::Model, policy, decision))
        };
        let data = Table::of(COLUMNS, ALL.into_iter().flat_map(of_workload));
        let [fig11, fig12] = &OVERHEADS;
        assert_eq!((fig11.figures[0].of)(&data), [2.0; 4]);
        let policies = [("gps-hrw", 40.0), ("ps-hrw", 60.0)];
        let films = policies.map(|(policy, decision)| timed(FFMPEG[0], Cost::Measured, policy, decision));
        let found = (fig12.figures[0].of)(&Table::of(COLUMNS, films));
        assert!(found.iter().zip([0.8, 1.2]).all(|(found, expected)| (found - expected).abs() < 1e-9), "{found:?}");
    }
}
