//! Packets in turn with their history, against sharding, while one connection has more and more of the packets.

use humpyard_core::random::Seed;

use super::load::one_heavy;
use super::machine::{ClientBy, RivalTrial};
use super::paper::{PACKETS, PAPER};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, line, listed, rows, short};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

/// Throughput over the share of the heaviest connection, and over the cores.
pub(super) struct Skew;

rows! {
    COLUMNS, fn row(cores: usize, share: f64, policy: &str, packets: usize, mpps: f64) {
        integer cores = cores, real share = share, text policy = policy, integer packets = packets, real mpps = mpps,
    }
}

/// Parts of the packets that the heaviest connection has.
const SHARES: [f64; 6] = [0.0, 0.05, 0.1, 0.2, 0.4, 0.8];
/// Shares with which one connection is more work than a core has time for, at full load of 8 cores.
const SKEWED: [f64; 3] = [0.2, 0.4, 0.8];
const CORES: [usize; 4] = [1, 2, 4, 8];
const MOST_CORES: usize = 8;
/// Time of a packet in ns, of the specification's example.
const WORK: u64 = 100;
const CONNECTIONS: usize = 10_000;

const SCR: &str = "steer=scr:history=10";
const RSS: &str = "steer=conn";
const RSS_PLUS_PLUS: &str = "steer=rss++:interval=1000";
const POLICIES: [&str; 3] = [SCR, RSS, RSS_PLUS_PLUS];

impl Experiment for Skew {
    fn about(&self) -> About {
        About {
            id: "rivals-scr",
            figure: "RIVALS.md, scr",
            title: "throughput with histories and with sharding over the share of the heaviest connection",
            setting: "",
            description: "Packets of 100 ns each come as fast as all cores together could serve them without any \
                history. One connection has a share of them, and 9,999 others have the rest, each as much. \
                Throughput is the number of packets over the time until the last one is served; none is lost. Under \
                `scr` each packet takes 10 ns more for each other core. `rss++` moves buckets every millisecond. A \
                full run has 400,000 packets with each of ten seeds, and a quick one 20,000.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        SHARES.len() * CORES.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (share, cores) = (SHARES[part / CORES.len()], CORES[part % CORES.len()]);
        let packets = scale.of(PACKETS);
        let jobs = one_heavy((CONNECTIONS, WORK), share, cores, packets, seed);
        let run = |policy: &&str| {
            let clients = ClientBy::Connections(CONNECTIONS);
            let came = RivalTrial { clients, ..RivalTrial::of(policy, cores, &jobs) }.run()?;
            Ok(row(cores, share, policy, packets, packets as f64 / came.ended_us))
        };
        POLICIES.iter().map(run).collect()
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let said = |policy| {
            let found = SHARES.map(|share| value(data, MOST_CORES, share, policy));
            Note::new(
                format!("{policy}, 8 cores: packets at shares {}", listed(SHARES)),
                "",
                format!("{} M/s", listed(found)),
            )
        };
        POLICIES.map(said).into()
    }

    fn plots(&self, data: &Table) -> Plots {
        let drawn = |policy| line(policy, SHARES.map(|share| (100.0 * share, value(data, MOST_CORES, share, policy))));
        let svg = LinePlot {
            title: "Throughput of 8 cores while one connection has many of the packets".to_owned(),
            description: "Means over the seeds. Packets of 100 ns; a history of 10 ns for each other core.".to_owned(),
            x: Axis::linear("share of the heaviest connection, in %", short),
            y: Axis::linear("packets, in M/s", short),
            lines: POLICIES.map(drawn).into(),
        };
        vec![("throughput".to_owned(), svg.svg())]
    }
}

/// Returns the throughput in a row, in packets per microsecond.
fn value(data: &Table, cores: usize, share: f64, policy: &str) -> f64 {
    data.rows_of("policy", policy).at("cores", cores as f64).at("share", share).mean("mpps")
}

const FIGURES: &[Figure] = &[
    Figure {
        claim: "rivals-scr-throughput",
        of: |data| CORES.map(|cores| value(data, cores, SHARES[SHARES.len() - 1], SCR)).into(),
    },
    Figure {
        claim: "rivals-scr-any-skew",
        of: |data| {
            let even = value(data, MOST_CORES, SHARES[0], SCR);
            SHARES[1..].iter().map(|&share| value(data, MOST_CORES, share, SCR) / even).collect()
        },
    },
    Figure {
        claim: "rivals-scr-above-sharding",
        of: |data| {
            let ratio = |share, policy| value(data, MOST_CORES, share, SCR) / value(data, MOST_CORES, share, policy);
            SKEWED.into_iter().flat_map(|share| [RSS, RSS_PLUS_PLUS].map(|policy| ratio(share, policy))).collect()
        },
    },
    Figure {
        claim: "rivals-scr-below-sharding",
        of: |data| {
            let even = |policy| value(data, MOST_CORES, SHARES[0], policy);
            vec![even(RSS) / even(SCR), even(RSS_PLUS_PLUS) / even(SCR)]
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&Skew);
        assert_expected(&Skew, &data);
        assert_eq!(Skew.plots(&data).len(), 1);
    }
}
