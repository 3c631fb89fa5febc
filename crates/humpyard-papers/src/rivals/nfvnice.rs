//! Work for nothing in a chain of services, with and without backpressure.

use humpyard_core::random::Seed;

use super::paper::PAPER;
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, line, listed, rows, short, split, unstopped,
};
use humpyard_lab::{Host, LabError, Rate, RunConfig, RunResult, ServiceChoice, simulate};
use humpyard_plot::{Axis, LinePlot};

/// The packets that are dropped after a service has worked on them, over the load.
pub(super) struct Backpressure;

rows! {
    COLUMNS, fn row(cores: usize, load: f64, policy: &str, came: &RunResult) {
        integer cores = cores, real load = load, text policy = policy, integer packets = came.packets.arrived,
        integer processed = came.packets.processed, integer wasted = came.packets.wasted.unwrap_or(0),
        real pps = came.summary.throughput_pps, real p99_us = came.summary.delay_ns.p99 as f64 / 1e3,
    }
}

/// Numbers of cores, and loads of them.
const PLACES: [(usize, f64); 6] = [(1, 0.8), (1, 1.5), (1, 3.0), (2, 0.8), (2, 1.5), (2, 3.0)];
/// Loads at which packets must be dropped.
const OVERLOADED: [(usize, f64); 4] = [PLACES[1], PLACES[2], PLACES[4], PLACES[5]];
const PACKETS: (u64, u64) = (5_000, 100_000);
/// Room for the packets of each service.
const ROOM: u32 = 100;

const NFVNICE: &str = "nfvnice";
/// Nothing is full before it drops packets itself.
const WITHOUT: &str = "nfvnice:high=1,low=1";
/// Weights stay equal in most of the run.
const EQUAL: &str = "nfvnice:update=1s,window=1s";
const POLICIES: [&str; 3] = [NFVNICE, WITHOUT, EQUAL];

impl Experiment for Backpressure {
    fn about(&self) -> About {
        About {
            id: "rivals-nfvnice",
            figure: "RIVALS.md, nfvnice",
            title: "work for nothing in a chain of services, with and without backpressure",
            setting: "",
            description: "Packets of 200 bytes come as a Poisson process, and go through forwarding, encryption and \
                forward error correction, with the costs of the table `predictive`. The services share one core or \
                two, and each has room for 100 packets. `high=1,low=1` is without backpressure. `update=1s` leaves \
                weights equal for a second. A full run has 100,000 packets with each of ten seeds, and a quick one \
                5,000.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        PLACES.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let ((cores, load), _) = split(part, &PLACES);
        let input = format!("gen:poisson:packets={},flows=50,length=200", scale.of(PACKETS));
        let run = |policy: &&str| {
            let mut config = RunConfig::new(Host::Sim, &input, policy.parse()?);
            (config.services, config.chains) = ServiceChoice::parse_all(&["forward,encrypt,fec"])?;
            (config.cores, config.seed) = (cores, seed);
            config.rate = Rate::Load { load, of: None };
            config.costs = "table:predictive".parse()?;
            config.limits.client = ROOM;
            let came = unstopped(|control| simulate(&config, control))?;
            Ok(row(cores, load, policy, &came))
        };
        POLICIES.iter().map(run).collect()
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let said = |policy| {
            let wasted = PLACES
                .map(|place| 100.0 * value(data, place, policy, "wasted") / value(data, place, policy, "packets"));
            Note::new(
                format!(
                    "{policy}: packets dropped after work on them, at loads 0.8, 1.5 and 3 of one core, then of two"
                ),
                "",
                format!("{} %", listed(wasted)),
            )
        };
        POLICIES.map(said).into()
    }

    fn plots(&self, data: &Table) -> Plots {
        let drawn = |policy| {
            let of_one = PLACES.into_iter().filter(|&(cores, _)| cores == 1);
            line(policy, of_one.map(|place| (place.1, value(data, place, policy, "pps"))))
        };
        let svg = LinePlot {
            title: "Throughput of a chain of three services on one core".to_owned(),
            description: "Means over the seeds.".to_owned(),
            x: Axis::linear("load", short),
            y: Axis::linear("packets through the chain, per second", short),
            lines: POLICIES.map(drawn).into(),
        };
        vec![("throughput".to_owned(), svg.svg())]
    }
}

/// Returns a column of a row.
fn value(data: &Table, (cores, load): (usize, f64), policy: &str, column: &str) -> f64 {
    data.rows_of("policy", policy).at("cores", cores as f64).at("load", load).mean(column)
}

const FIGURES: &[Figure] = &[
    Figure {
        claim: "rivals-nfvnice-wasted",
        of: |data| OVERLOADED.map(|place| value(data, place, NFVNICE, "wasted")).into(),
    },
    Figure {
        claim: "rivals-nfvnice-less-wasted",
        of: |data| {
            let wasted = |place, policy| value(data, place, policy, "wasted");
            OVERLOADED.map(|place| wasted(place, WITHOUT) / wasted(place, NFVNICE)).into()
        },
    },
    Figure {
        claim: "rivals-nfvnice-throughput",
        of: |data| {
            let pps = |place, policy| value(data, place, policy, "pps");
            OVERLOADED.map(|place| pps(place, NFVNICE) / pps(place, WITHOUT)).into()
        },
    },
    Figure {
        claim: "rivals-nfvnice-weights",
        of: |data| {
            let pps = |place, policy| value(data, place, policy, "pps");
            OVERLOADED.map(|place| pps(place, NFVNICE) / pps(place, EQUAL)).into()
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&Backpressure);
        assert_expected(&Backpressure, &data);
        assert_eq!(Backpressure.plots(&data).len(), 1);
    }
}
