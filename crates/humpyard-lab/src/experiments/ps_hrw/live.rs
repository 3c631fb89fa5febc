//! Figures 11 and 14 on live threads: what decisions take, and in which order packets leave.

use core::sync::atomic::AtomicBool;

use humpyard_core::random::Seed;
use humpyard_policies::spec::PolicySpec;

use super::super::{About, Column, Experiment, Row, Scale, Table, TableRow, Verdict, held_order, short};
use super::PAPER;
use crate::LabError;
use crate::config::{Host, RunConfig, ServiceChoice};
use crate::costs::Costs;
use crate::plot::{Axis, Bar, BarGroup, BarPlot, Svg};
use crate::result::RunResult;
use crate::run::{Control, run_live};
use crate::statistics::Statistic;

/// A figure whose runs are live.
#[derive(Debug)]
pub(super) struct Live {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    plots: &'static [Shown],
    verdicts: fn(&Table) -> Vec<Verdict>,
}

/// What a plot shows.
#[derive(Debug)]
struct Shown {
    name: &'static str,
    axis: &'static str,
    column: &'static str,
    format: fn(f64) -> String,
}

/// How they are done.
const SETTING: &str = "Threads of this machine do the work of `l7-filter` on packets of a model of the MIT trace, which come as fast as they are taken. There \
                       are four workers and the dispatcher, however many processors there are: order and jitter depend on that, and on how \
                       the system shares processors among threads.";

/// Both.
pub(super) static FIGURES: [Live; 2] = [
    Live {
        id: "ps-hrw-fig11-live",
        figure: "figure 11, live",
        title: "overhead of decisions among live threads",
        plots: &[Shown {
            name: "overhead",
            axis: "of the time of a packet",
            column: "overhead_percent",
            format: |percent| format!("{percent:.1} %"),
        }],
        verdicts: overhead_verdicts,
    },
    Live {
        id: "ps-hrw-fig14-live",
        figure: "figure 14, live",
        title: "out of order departures, and jitter, among live threads",
        plots: &[
            Shown {
                name: "order",
                axis: "of packets leave out of order",
                column: "out_of_order_percent",
                format: |percent| format!("{percent:.2} %"),
            },
            Shown { name: "jitter", axis: "jitter", column: "jitter_us", format: |us| format!("{us:.0} us") },
        ],
        verdicts: order_verdicts,
    },
];

const POLICIES: [&str; 8] = ["rr", "conn", "hrw", "ap", "gps-hrw", "ps-hrw", "ps-hrw:guard=true", "h-cahrw"];
/// Those that promise the order of a flow.
const IN_ORDER: [&str; 2] = ["conn", "hrw"];
const WORKERS: usize = 4;
/// Packets of a run, and how often each is done.
const PACKETS: (u64, u64) = (100_000, 340_000);
const RUNS: (usize, usize) = (3, 7);

const COLUMNS: [Column; 12] = [
    Column::text("policy"),
    Column::integer("run"),
    Column::integer("packets"),
    Column::integer("forwarded"),
    Column::real("packets_per_s"),
    Column::real("out_of_order_percent"),
    Column::real("jitter_us"),
    Column::real("decision_mean_ns"),
    Column::real("decision_p50_ns"),
    Column::real("work_mean_ns"),
    Column::real("overhead_percent"),
    Column::integer("processors"),
];

fn row(policy: &str, number: usize, result: &RunResult) -> Row {
    let busy: f64 =
        result.summary.cores_detail.iter().map(|core| core.utilization * result.summary.duration_ns as f64).sum();
    vec![
        policy.into(),
        number.into(),
        result.packets.arrived.into(),
        result.packets.forwarded.into(),
        result.measured.packets_per_second.into(),
        (100.0 * result.summary.order.fraction).into(),
        (result.summary.jitter_ns / 1e3).into(),
        result.measured.decision_ns.mean.into(),
        (result.measured.decision_ns.p50 as f64).into(),
        (busy / result.packets.arrived.max(1) as f64).into(),
        (100.0 * result.measured.overhead_fraction).into(),
        humpyard_runtime::processors().len().into(),
    ]
}

fn lived(policy: &str, packets: u64, seed: Seed) -> Result<RunResult, LabError> {
    let policy: PolicySpec = policy.parse()?;
    let mut config = RunConfig::new(Host::Live, &format!("gen:mit:packets={packets}"), policy);
    config.cores = WORKERS;
    config.flow_order = held_order(&config.policy);
    config.services = vec![ServiceChoice::parse("l7-filter")?];
    config.costs = Costs::table("measured")?.clone();
    config.seed = seed;
    run_live(&config, &mut Control::new(&AtomicBool::new(false), &mut |_, _| ()))
}

impl Experiment for Live {
    fn about(&self) -> About {
        About {
            id: self.id,
            paper: PAPER,
            figure: self.figure,
            title: self.title,
            setting: SETTING,
            description: "Which packet is done when is another each time: numbers are medians of runs, with their range.",
        }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.pick(RUNS.0, RUNS.1)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let packets = scale.pick(PACKETS.0, PACKETS.1);
        let rows = POLICIES.iter().map(|policy| Ok(row(policy, part + 1, &lived(policy, packets, seed)?)));
        rows.collect()
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let lost = data.rows().find(|row| row.number("packets") != row.number("forwarded"));
        let measured =
            lost.map_or_else(|| format!("in all {} runs", data.len()), |row| format!("not of {}", row.text("policy")));
        let all = Verdict::of("every packet that came in went out", "in every run", measured, lost.is_none());
        core::iter::once(all).chain((self.verdicts)(data)).collect()
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let plot = |shown: &Shown| {
            let bar = |policy: &&str| {
                let found = statistic(data, policy, shown.column);
                Bar { name: (*policy).to_owned(), value: found.median, error: Some((found.min, found.max)) }
            };
            let plot = BarPlot {
                title: format!("{}: {}", self.title, shown.axis),
                description: SETTING.to_owned(),
                value: Axis::linear(shown.axis, shown.format),
                groups: vec![BarGroup { name: "mit".to_owned(), bars: POLICIES.iter().map(bar).collect() }],
            };
            (shown.name.to_owned(), plot.svg())
        };
        self.plots.iter().map(plot).collect()
    }
}

/// A column of a policy, run by run.
fn statistic(data: &Table, policy: &str, column: &str) -> Statistic {
    let rows = data.rows_of("policy", policy).map(|row: TableRow<'_>| row.number(column));
    Statistic::of(rows.collect()).expect("every policy has every run")
}

fn text(found: &Statistic) -> String {
    format!("{} ({} to {})", short(found.median), short(found.min), short(found.max))
}

fn overhead_verdicts(data: &Table) -> Vec<Verdict> {
    let of = |policy: &str| {
        let column = |column| statistic(data, policy, column);
        let [decision, median, work] =
            ["decision_mean_ns", "decision_p50_ns", "work_mean_ns"].map(|name| short(column(name).median));
        Verdict::measured(
            format!("{policy}: what decisions take of the time of a packet, in %"),
            "less than 9, of an L7 filter that takes 5 us (paper)",
            format!(
                "{}; two decisions, for its core and for its turn, of {decision} ns in the mean ({median} in the median), the work of a \
                 packet {work} ns",
                text(&column("overhead_percent"))
            ),
        )
    };
    POLICIES.iter().map(|policy| of(policy)).collect()
}

fn order_verdicts(data: &Table) -> Vec<Verdict> {
    let order = |policy| statistic(data, policy, "out_of_order_percent");
    let in_order = IN_ORDER.map(|policy| {
        let found = order(policy);
        Verdict::of(format!("{policy}: packets out of order, in %"), "0 in every run", text(&found), found.max == 0.0)
    });
    let others = POLICIES.iter().filter(|policy| !IN_ORDER.contains(policy)).map(|policy| {
        let said = if *policy == "rr" { "most of all (paper)" } else { "less than rr (paper)" };
        Verdict::measured(format!("{policy}: packets out of order, in %"), said, text(&order(policy)))
    });
    let jitter = POLICIES.iter().map(|policy| {
        Verdict::measured(
            format!("{policy}: jitter, in us"),
            "most under rr (paper)",
            text(&statistic(data, policy, "jitter_us")),
        )
    });
    in_order.into_iter().chain(others).chain(jitter).collect()
}
