//! Figures 11 and 14 on live threads: the time of decisions, and the order in which packets leave.

use humpyard_core::measure::CoreSummary;
use humpyard_core::random::Seed;
use humpyard_policies::spec::PolicySpec;

use super::paper::PAPER;
use super::shown::{Shown, text};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, group, held_order, rows, short, unstopped,
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
    figures: &'static [Figure],
    notes: fn(&Table) -> Vec<Note>,
}

/// The common setting.
const SETTING: &str = "Threads of this machine do the work of `l7-filter` on packets of a model of the MIT trace, \
    which come as fast as they are taken. There are four workers and the dispatcher, however many processors there \
    are: order and jitter depend on that, and on how the system shares processors among threads.";

/// Both figures.
pub(super) static LIVE: [Live; 2] = [
    Live {
        id: "ps-hrw-fig11-live",
        figure: "figure 11, live",
        title: "overhead of decisions among live threads",
        plots: &[Shown::of("overhead", "of the time of a packet", "overhead_percent", |percent| {
            format!("{percent:.1} %")
        })],
        figures: &[
            Figure {
                claim: "ps-hrw-fig11-nine-percent",
                of: |data| ["gps-hrw", "ps-hrw"].map(|policy| overhead(data, policy)).into(),
            },
            Figure {
                claim: "ps-hrw-two-percent-more",
                of: |data| vec![overhead(data, "ps-hrw") - overhead(data, "h-cahrw")],
            },
        ],
        notes: overhead_notes,
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
        figures: &[],
        notes: order_notes,
    },
];

const POLICIES: [&str; 8] = ["rr", "conn", "hrw", "ap", "gps-hrw", "ps-hrw", "ps-hrw:guard=true", "h-cahrw"];
/// The policies that promise the order of a flow.
const IN_ORDER: [&str; 2] = ["conn", "hrw"];
const WORKERS: usize = 4;
/// Packets per run (quick, full), and number of runs.
const PACKETS: (u64, u64) = (100_000, 340_000);
const RUNS: (usize, usize) = (3, 10);

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

/// Rejects a run that lost packets, or the order of a flow whose policy promises it.
fn check(policy: &str, result: &RunResult) -> Result<(), LabError> {
    let is_whole = result.packets.arrived == result.packets.forwarded;
    let is_in_order = !IN_ORDER.contains(&policy) || result.summary.order.fraction == 0.0;
    if is_whole && is_in_order {
        return Ok(());
    }
    Err(LabError::option(format!("l7-filter under {policy}: packets were lost, or left out of order")))
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
        let rows = POLICIES.iter().map(|policy| {
            let result = lived(policy, packets, seed)?;
            check(policy, &result)?;
            Ok(row(policy, part + 1, &result))
        });
        rows.collect()
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("run")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        (self.notes)(data)
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |shown: &Shown| {
            let bars = POLICIES.map(|policy| shown.bar(policy, |column| statistic(data, policy, column)));
            shown.plot(self.title, SETTING, vec![group("mit", bars)])
        };
        self.plots.iter().map(plot).collect()
    }
}

/// Returns the statistic of a policy's column over the runs.
fn statistic(data: &Table, policy: &str, column: &str) -> Statistic {
    data.rows_of("policy", policy).statistic(column)
}

/// Returns the time of decisions relative to the time of a packet, in %, in the first run.
fn overhead(data: &Table, policy: &str) -> f64 {
    data.rows_of("policy", policy).next().map_or(f64::NAN, |row| row.number("overhead_percent"))
}

fn overhead_notes(data: &Table) -> Vec<Note> {
    let of = |policy: &&str| {
        let column = |column| statistic(data, policy, column);
        let [decision, median, work] =
            ["decision_mean_ns", "decision_p50_ns", "work_mean_ns"].map(|name| short(column(name).median));
        Note::new(
            format!("{policy}: what decisions take of the time of a packet, in %"),
            "less than 9, of an L7 filter that takes 5 us (paper)",
            format!(
                "{}; two decisions, for its core and for its turn, of {decision} ns in the mean ({median} in the \
                    median), the work of a packet {work} ns",
                text(&column("overhead_percent"))
            ),
        )
    };
    POLICIES.iter().map(of).collect()
}

fn order_notes(data: &Table) -> Vec<Note> {
    let of = |what: &str, column: &str| {
        let note = |policy: &&str| {
            Note::new(format!("{policy}: {what}"), "most under rr (paper)", text(&statistic(data, policy, column)))
        };
        POLICIES.iter().map(note).collect::<Vec<Note>>()
    };
    [of("packets out of order, in %", "out_of_order_percent"), of("jitter, in us", "jitter_us")].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_and_those_of_some_policies_in_order() {
        let rows = POLICIES.map(|policy| {
            let result = lived(policy, 2_000, Seed(1)).unwrap();
            check(policy, &result).unwrap();
            row(policy, 1, &result)
        });
        let data = Table::of(COLUMNS, rows);
        for live in &LIVE {
            assert_eq!((live.notes(&data).is_empty(), live.plots(&data).len()), (false, live.plots.len()));
            assert!(live.figures.iter().all(|figure| !(figure.of)(&data).is_empty()));
        }
    }

    #[test]
    fn runs_that_lose_packets_are_rejected() {
        let mut result = lived("conn", 500, Seed(1)).unwrap();
        result.packets.forwarded -= 1;
        assert!(check("conn", &result).is_err());
        result.packets.forwarded += 1;
        result.summary.order.fraction = 0.1;
        assert!(check("conn", &result).is_err());
        assert!(check("rr", &result).is_ok());
    }
}
