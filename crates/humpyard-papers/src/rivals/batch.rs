//! Batches of a service under a goal for delays: the most packets that one core serves.

use humpyard_core::random::Seed;

use super::paper::PAPER;
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, line, listed, rows, short, unstopped,
};
use humpyard_lab::{CostLine, Costs, Host, LabError, Rate, RunConfig, RunResult, ServiceChoice, simulate};
use humpyard_plot::{Axis, LinePlot};

/// Sizes of batches, over the packets that arrive.
pub(super) struct DelayGoal;

rows! {
    COLUMNS, fn row(mpps: f64, policy: &str, came: &RunResult) {
        real offered_mpps = mpps, text policy = policy, integer packets = came.packets.arrived,
        integer processed = came.packets.processed, real mpps = came.summary.throughput_pps / 1e6,
        real p99_us = came.summary.delay_ns.p99 as f64 / 1e3,
    }
}

/// Packets that arrive, in M/s. One core serves 1.11 of them alone, and 10 in endless batches.
const OFFERED: [f64; 16] = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.5, 8.0, 8.5, 9.0, OVERLOAD];
/// More than any batches can serve.
const OVERLOAD: f64 = 12.0;
const PACKETS: (u64, u64) = (20_000, 200_000);
/// Goals for the p99 of all packets, in us.
const GOALS_US: [f64; 3] = [50.0, 100.0, 200.0];
const ALONE: &str = "fcfs";
const USUAL: &str = "batch";
const LARGE: &str = "batch:size=128";
const POLICIES: [&str; 5] = [ALONE, "batch:size=8", "batch:hold=20us", USUAL, LARGE];
/// The time of a batch, and of each of its packets.
const PER_BATCH_NS: f64 = 800.0;
const PER_PACKET_NS: f64 = 100.0;

impl Experiment for DelayGoal {
    fn about(&self) -> About {
        About {
            id: "rivals-batch",
            figure: "RIVALS.md, batch",
            title: "the most packets that one core serves in batches under a goal for their p99",
            setting: "",
            description: "Three services on one core get 88, 11 and 1 % of the packets, which come as a Poisson \
                process. A batch takes 800 ns and each of its packets 100. Under `fcfs` each packet is a batch. \
                `batch` has batches of 32 packets, and packets wait for others for at most 50 us. A full run has \
                200,000 packets with each of ten seeds, and a quick one 20,000.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        OFFERED.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let offered = OFFERED[part];
        let input = format!("gen:poisson:packets={},flows=60,pps={},mix=services", scale.of(PACKETS), offered * 1e6);
        let line = CostLine { fixed_ns: PER_PACKET_NS, per_batch_ns: PER_BATCH_NS, ..CostLine::default() };
        let works = ["v4-v6-tcp", "v4-v6-udp", "v4-v6-icmp"];
        let costs = Costs::of_lines("RIVALS.md", "batch", works.map(|work| (work.to_owned(), line.clone())));
        let run = |policy: &&str| {
            let mut config = RunConfig::new(Host::Sim, &input, policy.parse()?);
            let services = ["tcp=v4-v6-tcp", "udp=v4-v6-udp", "other=v4-v6-icmp"];
            (config.services, config.chains) = ServiceChoice::parse_all(&services)?;
            (config.cores, config.seed, config.rate) = (1, seed, Rate::Trace);
            config.costs = costs.clone();
            let came = unstopped(|control| simulate(&config, control))?;
            Ok(row(offered, policy, &came))
        };
        POLICIES.iter().map(run).collect()
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let said = |policy| {
            let most = GOALS_US.map(|goal| most(data, policy, goal));
            Note::new(format!("{policy}: the most packets for a p99 of 50, 100 and 200 us"), "M/s", listed(most))
        };
        POLICIES.map(said).into()
    }

    fn plots(&self, data: &Table) -> Plots {
        let drawn = |policy| line(policy, OFFERED.map(|offered| (offered, value(data, offered, policy, "p99_us"))));
        let svg = LinePlot {
            title: "The p99 of packets that are served in batches".to_owned(),
            description: "Means over the seeds. Alone, one core serves 1.11 M/s.".to_owned(),
            x: Axis::linear("packets that arrive, in M/s", short),
            y: Axis::logarithmic("p99, in us", short),
            lines: POLICIES.map(drawn).into(),
        };
        vec![("p99".to_owned(), svg.svg())]
    }
}

/// Returns a column of a row.
fn value(data: &Table, offered: f64, policy: &str, column: &str) -> f64 {
    data.rows_of("policy", policy).at("offered_mpps", offered).mean(column)
}

/// Returns the most packets, in M/s, of which this goal for p99 is kept and none is dropped. 0: there are none.
fn most(data: &Table, policy: &str, goal: f64) -> f64 {
    let keeps = |&&offered: &&f64| {
        let of = |column| value(data, offered, policy, column);
        of("p99_us") <= goal && of("processed") == of("packets")
    };
    OFFERED.iter().rev().find(keeps).copied().unwrap_or(0.0)
}

/// Returns the most packets under a goal with the best of all batches.
fn most_in_batches(data: &Table, goal: f64) -> f64 {
    POLICIES[1..].iter().map(|policy| most(data, policy, goal)).fold(0.0, f64::max)
}

const FIGURES: &[Figure] = &[
    Figure {
        claim: "rivals-batch-formula",
        of: |data| [ALONE, USUAL].map(|policy| 1e3 / value(data, OVERLOAD, policy, "mpps")).into(),
    },
    Figure {
        claim: "rivals-batch-goal",
        of: |data| GOALS_US.map(|goal| most_in_batches(data, goal) / most(data, ALONE, goal)).into(),
    },
    Figure {
        claim: "rivals-batch-price",
        of: |data| {
            let p99 = |offered, policy| value(data, offered, policy, "p99_us");
            OFFERED[..4].iter().map(|&offered| p99(offered, USUAL) / p99(offered, ALONE)).collect()
        },
    },
    Figure {
        claim: "rivals-batch-larger",
        // The first goal is as long as packets are held.
        of: |data| GOALS_US[1..].iter().map(|&goal| most(data, LARGE, goal) / most(data, USUAL, goal)).collect(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&DelayGoal);
        assert_expected(&DelayGoal, &data);
        assert_eq!(DelayGoal.plots(&data).len(), 1);
    }
}
