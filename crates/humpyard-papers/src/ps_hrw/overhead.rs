//! Figures 11 and 12: what decisions take of the time of a packet.

use humpyard_core::random::Seed;

use super::claims::told;
use super::figures::SETTING;
use super::machine::{Feed, Trial, run};
use super::paper::{DRAWS, FULL, PAPER, TOPOLOGY, drawn_seed};
use super::workload::{Cost, FFMPEG, L7, Offered, Workload};
use crate::harness::{About, Bound, Experiment, Plots, Row, Rows, Scale, Table, Verdict, bar_of, group, rows, split};
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
    costs: &'static [Cost],
    /// Decisions take less than this part of a packet, in %.
    most: f64,
}

/// Both.
pub(super) static FIGURES: [Overhead; 2] = [
    Overhead {
        id: "ps-hrw-fig11",
        figure: "figure 11",
        title: "overhead of decisions in the L7 filter",
        workloads: &L7,
        costs: &[Cost::Model],
        most: 9.0,
    },
    Overhead {
        id: "ps-hrw-fig12",
        figure: "figure 12",
        title: "overhead of decisions in FFmpeg",
        workloads: &FFMPEG,
        costs: &[Cost::Model, Cost::Measured],
        most: 1.0,
    },
];

/// Those of the paper, and the one that shares go beyond.
const POLICIES: [&str; 9] = ["rr", "conn", "hrw", "ap", "gps-hrw", "ps-hrw", "ps-hrw:eager=true", "h-cahrw", "ahrw"];
/// Most packets of a run: what is timed must not take long.
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
        self.workloads.len() * scale.of(DRAWS)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (workload, draw) = split(part, self.workloads);
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

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let by_model = self.workloads.iter().flat_map(|workload| self.verdicts_of(data, workload.name()));
        let measured = self.workloads.iter().filter(|_| self.costs.contains(&Cost::Measured)).flat_map(|workload| {
            let name = workload.name();
            ["ps-hrw", "gps-hrw"].map(|policy| {
                let of = |row: &dyn Fn(&str) -> f64| 100.0 * row("decision_p50_ns") / row("work_mean_ns");
                let found = statistic(data, (name, Cost::Measured), policy, of);
                let claim =
                    format!("{name}, measured: median decision of {policy} over the mean work of a packet, in %");
                Verdict::bounded(claim, Bound::LessThan(self.most), &found)
            })
        });
        by_model.chain(measured).collect()
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

/// A figure of each draw of a policy.
fn statistic(
    data: &Table,
    (workload, cost): (&str, Cost),
    policy: &str,
    of: impl Fn(&dyn Fn(&str) -> f64) -> f64,
) -> Statistic {
    let rows = data.rows_of("policy", policy).of("workload", workload).of("cost", cost.name());
    Statistic::of(rows.map(|row| of(&|column| row.number(column))).collect()).expect("every policy has every draw")
}

impl Overhead {
    fn verdicts_of(&self, data: &Table, workload: &str) -> Vec<Verdict> {
        let median = |policy| {
            statistic(data, (workload, Cost::Model), policy, |row| 100.0 * row("decision_p50_ns") / row("work_mean_ns"))
        };
        let claim = |policy| format!("{workload}: median decision of {policy} over the mean work of a packet, in %");
        let mut verdicts: Vec<Verdict> = ["ps-hrw", "gps-hrw"]
            .map(|policy| Verdict::bounded(claim(policy), Bound::LessThan(self.most), &median(policy)))
            .into();
        let medians = |policy| statistic(data, (workload, Cost::Model), policy, |row| row("decision_p50_ns"));
        let more = medians("ps-hrw").values.into_iter().zip(medians("h-cahrw").values).map(|(ps, tree)| ps - tree);
        let work = statistic(data, (workload, Cost::Model), "ps-hrw", |row| row("work_mean_ns")).median;
        let more = Statistic::of(more.map(|more| 100.0 * more / work).collect()).expect("every policy has every draw");
        verdicts.push(Verdict::bounded(
            format!("{workload}: median decision of ps-hrw less that of h-cahrw, over the mean work of a packet, in %"),
            Bound::LessThan(4.0),
            &more,
        ));
        let ratio = medians("ps-hrw").values.into_iter().zip(medians("h-cahrw").values).map(|(ps, tree)| ps / tree);
        let ratio = Statistic::of(ratio.collect()).expect("every policy has every draw");
        verdicts.push(told(
            format!("{workload}: median decision of ps-hrw over that of h-cahrw"),
            "more than 1",
            &ratio,
        ));
        verdicts.extend(POLICIES.map(|policy| {
            let column = |column| statistic(data, (workload, Cost::Model), policy, |row| row(column)).median;
            let measured = format!(
                "{:.0}, {:.0} and {:.0} ns; {:.4} %",
                column("decision_p50_ns"),
                column("decision_mean_ns"),
                column("decision_p99_ns"),
                column("overhead_percent")
            );
            let claim = format!(
                "{workload}: decision of {policy}, median, mean and 99 %, and what it takes of the time of a packet"
            );
            Verdict::measured(claim, "5 to 260 ns, and at most 9 % (1 % of FFmpeg)", measured)
        }));
        verdicts
    }
}
