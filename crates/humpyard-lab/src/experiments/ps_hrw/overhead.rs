//! Figures 11 and 12: what decisions take of the time of a packet.

use humpyard_core::mechanism::Limits;
use humpyard_core::random::Seed;

use super::super::{About, Column, Experiment, Row, Scale, Table, TableRow, Verdict};
use super::claims::{Bound, claimed, told};
use super::figures::SETTING;
use super::machine::{DecisionCost, Feed, Trial, run};
use super::workload::{Cost, FFMPEG, L7, Offered, Workload};
use super::{DRAWS, FULL, PAPER, TOPOLOGY};
use crate::LabError;
use crate::plot::{Axis, Bar, BarGroup, BarPlot, Svg};
use crate::statistics::Statistic;
use crate::topology::parse_topology;

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

const COLUMNS: [Column; 10] = [
    Column::text("workload"),
    Column::text("cost"),
    Column::text("policy"),
    Column::integer("draw"),
    Column::integer("connections"),
    Column::real("work_mean_ns"),
    Column::real("decision_mean_ns"),
    Column::real("decision_p50_ns"),
    Column::real("decision_p99_ns"),
    Column::real("overhead_percent"),
];

fn row((workload, cost): (Workload, Cost), policy: &str, draw: usize, offered: &Offered, decisions: &[u64]) -> Row {
    let part = |(decision, work): (&u64, u64)| *decision as f64 / (*decision + work) as f64;
    let parts = decisions.iter().zip(offered.packets.iter().map(|packet| packet.estimate)).map(part);
    let median_part = Statistic::of(parts.collect()).map_or(0.0, |parts| parts.median);
    let mut sorted = decisions.to_vec();
    sorted.sort_unstable();
    let quantile = |percent: usize| sorted.get(sorted.len() * percent / 100).copied().unwrap_or(0) as f64;
    let mean = sorted.iter().sum::<u64>() as f64 / sorted.len().max(1) as f64;
    vec![
        workload.name().into(),
        cost.name().into(),
        policy.into(),
        draw.into(),
        offered.flows.into(),
        offered.mean_work().into(),
        mean.into(),
        quantile(50).into(),
        quantile(99).into(),
        (100.0 * median_part).into(),
    ]
}

impl Experiment for Overhead {
    fn about(&self) -> About {
        About {
            id: self.id,
            paper: PAPER,
            figure: self.figure,
            title: self.title,
            setting: SETTING,
            description: "The time of the policy for a packet, from the real clock: where it goes, and what the policy keeps account of when it comes \
                          and when it is done. The work of the packet is that of the model, and of a group of pictures also what was measured. Overhead is the decision over decision and work, \
                          the median of all packets; the machine is saturated.",
        }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, scale: Scale) -> usize {
        self.workloads.len() * scale.pick(DRAWS.0, DRAWS.1)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (workload, draw) = (self.workloads[part % self.workloads.len()], part / self.workloads.len() + 1);
        let seed = Seed(seed.0.wrapping_add(draw as u64 - 1));
        let packets = workload.packets(scale).min(PACKETS);
        let topology = parse_topology(TOPOLOGY)?;
        let mut rows = Vec::new();
        for &cost in self.costs {
            let offered = workload.offered(cost, packets, seed)?;
            for policy in POLICIES {
                let came = run(&Trial {
                    policy,
                    packets: &offered.packets,
                    flows: offered.flows,
                    clients: 1,
                    feed: Feed::Saturated(FULL),
                    topology: &topology,
                    decision: DecisionCost::default(),
                    is_timed: true,
                    limits: Limits::default(),
                    seed,
                })?;
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
                claimed(claim, Bound::LessThan(self.most), &found)
            })
        });
        by_model.chain(measured).collect()
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let group = |workload: &Workload| {
            let bar = |policy: &&str| {
                let found = statistic(data, (workload.name(), Cost::Model), policy, |row| row("overhead_percent"));
                Bar { name: (*policy).to_owned(), value: found.median, error: Some((found.min, found.max)) }
            };
            BarGroup { name: workload.name().to_owned(), bars: POLICIES.iter().map(bar).collect() }
        };
        let plot = BarPlot {
            title: self.title.to_owned(),
            description: self.about().description.to_owned(),
            value: Axis::linear("of the time of a packet", |percent| format!("{percent:.4} %")),
            groups: self.workloads.iter().map(group).collect(),
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
    let is_of = |row: &TableRow<'_>| row.text("workload") == workload && row.text("cost") == cost.name();
    let rows = data.rows_of("policy", policy).filter(is_of);
    Statistic::of(rows.map(|row| of(&|column| row.number(column))).collect()).expect("every policy has every draw")
}

impl Overhead {
    fn verdicts_of(&self, data: &Table, workload: &str) -> Vec<Verdict> {
        let median = |policy| {
            statistic(data, (workload, Cost::Model), policy, |row| 100.0 * row("decision_p50_ns") / row("work_mean_ns"))
        };
        let claim = |policy| format!("{workload}: median decision of {policy} over the mean work of a packet, in %");
        let mut verdicts: Vec<Verdict> = ["ps-hrw", "gps-hrw"]
            .map(|policy| claimed(claim(policy), Bound::LessThan(self.most), &median(policy)))
            .into();
        let medians = |policy| statistic(data, (workload, Cost::Model), policy, |row| row("decision_p50_ns"));
        let more = medians("ps-hrw").values.into_iter().zip(medians("h-cahrw").values).map(|(ps, tree)| ps - tree);
        let work = statistic(data, (workload, Cost::Model), "ps-hrw", |row| row("work_mean_ns")).median;
        let more = Statistic::of(more.map(|more| 100.0 * more / work).collect()).expect("every policy has every draw");
        verdicts.push(claimed(
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
