//! Automatic load balance of Open vSwitch, RSS++ and AHRW, which even out the load of the same buckets.

use humpyard_core::random::Seed;

use super::paper::PAPER;
use super::skewed::{self, COLUMNS, LOADS, over};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Scale, Table};
use humpyard_lab::LabError;

/// The policies over the load.
pub(super) struct Queues;

/// Loads at which hashing keeps one core busy throughout.
const BUSY: [f64; 2] = [0.8, 0.9];
const HASHED: &str = "steer=ovs:queues=32,autolb=false";
const GROUP: &str = "steer=ovs:queues=32,interval=10000";
const CYCLES: &str = "steer=ovs:queues=32,interval=10000,assign=cycles";
const RSS_PLUS_PLUS: &str = "steer=rss++:buckets=32";
const AHRW: &str = "steer=ahrw";
const POLICIES: [&str; 5] = [HASHED, GROUP, CYCLES, RSS_PLUS_PLUS, AHRW];

impl Experiment for Queues {
    fn about(&self) -> About {
        About {
            id: "rivals-ovs",
            figure: "RIVALS.md, ovs",
            title: "delays under the automatic load balance of Open vSwitch, RSS++ and AHRW",
            setting: "",
            description: "8 cores, and packets of 5.2 us each that come as a Poisson process. They belong to 10,000 \
                connections: the n-th has 1/n as many packets as the first, which has a tenth of all. Each seed has \
                other hashes. `ovs` and `rss++` hash connections to 32 buckets, and may move them every 10 ms; Open \
                vSwitch itself waits for a minute. `autolb=false` leaves buckets where they are. `ahrw` has no \
                buckets: it weighs hashes by queues. The first tenth of the packets is left out. A full run has \
                400,000 packets with each of ten seeds, and a quick one 20,000, which is one or two intervals.",
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
        let description = "Means over the seeds. 8 cores, 10,000 connections, 32 buckets.";
        skewed::plots(data, &POLICIES, "Delays while policies even out the load of buckets", description)
    }
}

const FIGURES: &[Figure] = &[
    Figure { claim: "rivals-ovs-even", of: |data| over(data, &BUSY, (HASHED, GROUP), "busiest_over_mean") },
    Figure { claim: "rivals-ovs-p95", of: |data| over(data, &BUSY, (HASHED, GROUP), "p95_us") },
    Figure { claim: "rivals-ovs-group", of: |data| over(data, &BUSY, (CYCLES, GROUP), "busiest_over_mean") },
    Figure { claim: "rivals-ovs-rss", of: |data| over(data, &LOADS, (GROUP, RSS_PLUS_PLUS), "p95_us") },
    Figure { claim: "rivals-ovs-ahrw", of: |data| over(data, &LOADS, (GROUP, AHRW), "p95_us") },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&Queues);
        assert_expected(&Queues, &data);
        assert_eq!(Queues.plots(&data).len(), 1);
    }
}
