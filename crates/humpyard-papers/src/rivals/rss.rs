//! RSS++ against receive-side scaling, while few connections send most packets.

use humpyard_core::random::Seed;

use super::paper::PAPER;
use super::skewed::{self, COLUMNS, LOADS, over, value};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Scale, Table};
use humpyard_lab::LabError;

/// Both policies over the load.
pub(super) struct Buckets;

const RSS: &str = "steer=conn";
const RSS_PLUS_PLUS: &str = "steer=rss++";
const POLICIES: [&str; 2] = [RSS, RSS_PLUS_PLUS];

impl Experiment for Buckets {
    fn about(&self) -> About {
        About {
            id: "rivals-rss",
            figure: "STEERING.md, section 2, RSS++",
            title: "delays under RSS++ and under receive-side scaling",
            setting: "",
            description: "8 cores, and packets of 5.2 us each that come as a Poisson process. They belong to 10,000 \
                connections: the n-th has 1/n as many packets as the first, which has a tenth of all. Each seed has \
                other hashes. Both policies hash connections to 128 buckets. RSS++ moves buckets every 10 ms. The \
                first tenth of the packets is left out. A full run has 400,000 packets with each of ten seeds, and a \
                quick one 20,000, which is one or two intervals.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        LOADS.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        skewed::run(&POLICIES, LOADS[part], scale, seed)
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        skewed::notes(data, &POLICIES)
    }

    fn plots(&self, data: &Table) -> Plots {
        let description = "Means over the seeds. 8 cores, 10,000 connections.";
        skewed::plots(data, &POLICIES, "Delays while few connections send most packets", description)
    }
}

const FIGURES: &[Figure] = &[
    Figure { claim: "rivals-rss-p95", of: |data| over(data, &LOADS, (RSS, RSS_PLUS_PLUS), "p95_us") },
    Figure {
        claim: "rivals-rss-even",
        of: |data| LOADS.map(|load| value(data, load, RSS_PLUS_PLUS, "busiest_over_mean")).into(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&Buckets);
        assert_expected(&Buckets, &data);
        assert_eq!(Buckets.plots(&data).len(), 1);
    }
}
