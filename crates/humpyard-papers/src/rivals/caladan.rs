//! The fewest cores that keep a goal for the tail of delays, while services have bursts.

use core::time::Duration;

use humpyard_core::random::Seed;

use super::paper::PAPER;
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, line, listed, rows, short, unstopped,
};
use humpyard_lab::{Host, LabError, Rate, RunConfig, RunResult, ServiceChoice, simulate};
use humpyard_plot::{Axis, LinePlot};

/// Policies that allocate cores, over the cores.
pub(super) struct TailGoal;

rows! {
    COLUMNS, fn row(cores: usize, policy: &str, came: &RunResult) {
        integer cores = cores, text policy = policy, integer packets = came.packets.arrived,
        real p99_us = came.summary.delay_ns.p99 as f64 / 1e3, real worst_p99_us = worst(came),
        integer dropped = came.packets.dropped.values().sum::<u64>(),
    }
}

const CORES: [usize; 17] = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];
const PACKETS: (u64, u64) = (20_000, 300_000);
/// Goals for the p99 of each service, in us.
const GOALS_US: [f64; 3] = [50.0, 100.0, 200.0];
const STATIC: &str = "static";
const CALADAN: &str = "caladan";
const EVEREST: &str = "everest";
const POLICIES: [&str; 3] = [STATIC, CALADAN, EVEREST];

/// Returns the longest p99 of a service, in us.
fn worst(came: &RunResult) -> f64 {
    came.summary.services.iter().map(|service| service.delay_ns.p99).max().unwrap_or(0) as f64 / 1e3
}

impl Experiment for TailGoal {
    fn about(&self) -> About {
        About {
            id: "rivals-caladan",
            figure: "RIVALS.md, caladan",
            title: "the fewest cores at which each service keeps a goal for its p99",
            setting: "",
            description: "Three services get 40, 40 and 20 % of 300,000 packets a second, in self-similar bursts \
                (`gen:onoff`). A packet takes 13.7 us (table `everest`), so that 4.1 cores are busy in the mean. Going \
                over to a service takes a core 5 us. `static` gives each service a third of the cores. `everest` has \
                a tolerance of 100 us. A full run has 300,000 packets with each of ten seeds, and a quick one 20,000.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        CORES.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let cores = CORES[part];
        let packets = scale.of(PACKETS);
        let input = format!("gen:onoff:packets={packets},sources=16,pps=300000,udp=0.4,icmp=0.2");
        let run = |policy: &&str| {
            let mut config = RunConfig::new(Host::Sim, &input, policy.parse()?);
            let services = ["tcp=v4-v6-tcp", "udp=v4-v6-udp", "other=v4-v6-icmp"];
            (config.services, config.chains) = ServiceChoice::parse_all(&services)?;
            (config.cores, config.seed, config.rate) = (cores, seed, Rate::Trace);
            config.costs = "table:everest".parse()?;
            config.switch_costs = vec![(String::new(), Duration::from_micros(5))];
            config.tolerances = vec![(String::new(), Duration::from_micros(100))];
            let came = unstopped(|control| simulate(&config, control))?;
            Ok(row(cores, policy, &came))
        };
        POLICIES.iter().map(run).collect()
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let said = |policy| {
            let needed = GOALS_US.map(|goal| needed(data, policy, goal));
            Note::new(format!("{policy}: the fewest cores for a p99 of 50, 100 and 200 us"), "", listed(needed))
        };
        POLICIES.map(said).into()
    }

    fn plots(&self, data: &Table) -> Plots {
        let drawn = |policy| line(policy, CORES.map(|cores| (cores as f64, p99(data, cores, policy))));
        let svg = LinePlot {
            title: "The longest p99 of three services with bursts".to_owned(),
            description: "Means over the seeds. 4.1 cores are busy in the mean.".to_owned(),
            x: Axis::linear("cores", short),
            y: Axis::logarithmic("p99 of the service with the longest, in us", short),
            lines: POLICIES.map(drawn).into(),
        };
        vec![("p99".to_owned(), svg.svg())]
    }
}

/// Returns the longest p99 of a service, in us.
fn p99(data: &Table, cores: usize, policy: &str) -> f64 {
    data.rows_of("policy", policy).at("cores", cores as f64).mean("worst_p99_us")
}

/// Returns the fewest cores from which on each service keeps this goal, in us. Infinite: there are none.
fn needed(data: &Table, policy: &str, goal: f64) -> f64 {
    let keep = CORES.iter().rev().take_while(|&&cores| p99(data, cores, policy) <= goal);
    keep.last().map_or(f64::INFINITY, |&cores| cores as f64)
}

const FIGURES: &[Figure] = &[
    Figure {
        claim: "rivals-caladan-below-static",
        of: |data| GOALS_US.map(|goal| needed(data, STATIC, goal) / needed(data, CALADAN, goal)).into(),
    },
    Figure {
        claim: "rivals-caladan-below-everest",
        of: |data| GOALS_US.map(|goal| needed(data, EVEREST, goal) / needed(data, CALADAN, goal)).into(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&TailGoal);
        assert_expected(&TailGoal, &data);
        assert_eq!(TailGoal.plots(&data).len(), 1);
    }
}
