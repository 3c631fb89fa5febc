//! Figures 11 and 14 on live threads: what decisions take, and in which order packets leave.

use humpyard_core::measure::CoreSummary;
use humpyard_core::random::Seed;
use humpyard_policies::spec::PolicySpec;

use super::paper::PAPER;
use super::shown::Shown;
use crate::harness::{
    About, Experiment, Plots, Range, Row, Rows, Scale, Table, Verdict, group, held_order, rows, short, unstopped,
};
use humpyard_lab::{Costs, Host, LabError, RunConfig, RunResult, ServiceChoice, run_live};
use humpyard_plot::statistics::Statistic;

/// A figure whose runs are live.
#[derive(Debug)]
pub(super) struct Live {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    plots: &'static [Shown],
    verdicts: fn(&Table) -> Vec<Verdict>,
}

/// How they are done.
const SETTING: &str = "Threads of this machine do the work of `l7-filter` on packets of a model of the MIT trace, \
    which come as fast as they are taken. There are four workers and the dispatcher, however many processors there \
    are: order and jitter depend on that, and on how the system shares processors among threads.";

/// Both.
pub(super) static FIGURES: [Live; 2] = [
    Live {
        id: "ps-hrw-fig11-live",
        figure: "figure 11, live",
        title: "overhead of decisions among live threads",
        plots: &[Shown::of("overhead", "of the time of a packet", "overhead_percent", |percent| {
            format!("{percent:.1} %")
        })],
        verdicts: overhead_verdicts,
    },
    Live {
        id: "ps-hrw-fig14-live",
        figure: "figure 14, live",
        title: "out of order departures, and jitter, among live threads",
        plots: &[
            Shown::of("order", "of packets leave out of order", "out_of_order_percent", |percent| {
                format!("{percent:.2} %")
            }),
            Shown::of("jitter", "jitter", "jitter_us", |us| format!("{us:.0} us")),
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

rows! {
    COLUMNS, fn row(policy: &str, number: usize, result: &RunResult) {
        let on_core = |core: &CoreSummary| core.utilization * result.summary.duration_ns as f64;
        let busy: f64 = result.summary.cores_detail.iter().map(on_core).sum();
    } => {
        text policy = policy, integer run = number, integer packets = result.packets.arrived,
        integer forwarded = result.packets.forwarded, real packets_per_s = result.measured.packets_per_second,
        real out_of_order_percent = 100.0 * result.summary.order.fraction,
        real jitter_us = result.summary.jitter_ns / 1e3, real decision_mean_ns = result.measured.decision_ns.mean,
        real decision_p50_ns = result.measured.decision_ns.p50 as f64,
        real work_mean_ns = busy / result.packets.arrived.max(1) as f64,
        real overhead_percent = 100.0 * result.measured.overhead_fraction,
        integer processors = humpyard_runtime::processors().len(),
    }
}

fn lived(policy: &str, packets: u64, seed: Seed) -> Result<RunResult, LabError> {
    let policy: PolicySpec = policy.parse()?;
    let mut config = RunConfig::new(Host::Live, &format!("gen:mit:packets={packets}"), policy);
    config.cores = WORKERS;
    config.flow_order = held_order(&config.policy);
    config.services = vec![ServiceChoice::parse("l7-filter")?];
    config.costs = Costs::table("measured")?.clone();
    config.seed = seed;
    unstopped(|control| run_live(&config, control))
}

impl Experiment for Live {
    fn about(&self) -> About {
        About {
            id: self.id,
            paper: PAPER,
            figure: self.figure,
            title: self.title,
            setting: SETTING,
            description: "Which packet is done when is another each time: numbers are medians of runs, with their \
                range.",
            columns: COLUMNS,
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.of(RUNS)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let packets = scale.of(PACKETS);
        let rows = POLICIES.iter().map(|policy| Ok(row(policy, part + 1, &lived(policy, packets, seed)?)));
        rows.collect()
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let all = Verdict::everywhere(
            ("every packet that came in went out", "in every run"),
            data.rows(),
            |row| row.number("packets") == row.number("forwarded"),
            |count| format!("in all {count} runs"),
            |row| format!("not of {}", row.text("policy")),
        );
        all.into_iter().chain((self.verdicts)(data)).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |shown: &Shown| {
            let bars = POLICIES.map(|policy| shown.bar(policy, |column| statistic(data, policy, column)));
            shown.plot(self.title, SETTING, vec![group("mit", bars)])
        };
        self.plots.iter().map(plot).collect()
    }
}

/// A column of a policy, run by run.
fn statistic(data: &Table, policy: &str, column: &str) -> Statistic {
    data.rows_of("policy", policy).statistic(column)
}

fn text(found: &Statistic) -> String {
    format!("{} ({})", short(found.median), Range::from(found))
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
                "{}; two decisions, for its core and for its turn, of {decision} ns in the mean ({median} in the \
                    median), the work of a packet {work} ns",
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
