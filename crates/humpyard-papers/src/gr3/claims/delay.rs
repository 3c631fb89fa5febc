//! Delay and service error differ: the end of the GR3 paper's section on related work, PROPORTIONAL_SHARE
//! section 3.3.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::random::Seed;
use humpyard_sim::Schedule;

use super::super::errors::errors;
use super::super::paper::PAPER;
use super::super::scheduled::{scheduled, total, weights};
use crate::harness::{About, Experiment, Figure, Plots, Range, Row, Rows, Scale, Table, logarithmic, rows, whole};
use humpyard_lab::LabError;
use humpyard_plot::LinePlot;

const CLIENTS: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Number of them in a quick run.
const QUICK: usize = 6;
const POLICIES: [&str; 2] = ["gr3", "wf2q+"];
/// The greatest and the least weight of one group of gr3: the observed client's, and that of all others.
const WEIGHT: u32 = 31;
const OTHERS: u32 = 16;
/// Number of periods per run. In each, every client is served its weight.
const PERIODS: usize = 2;

rows! {
    COLUMNS, fn row(policy: &str, clients: usize, interval: f64, delay: f64, found: &Schedule) {
        text policy = policy, integer clients = clients, real interval_slots = interval, real delay_max_slots = delay,
        real error_min = found.error_min.value(), real error_max = found.error_max.value(),
    }
}

/// The experiment.
pub(super) struct Delay;

impl Experiment for Delay {
    fn about(&self) -> About {
        About {
            id: "gr3-delay",
            figure: "section 6, on delay",
            title: "delays grow with the number of clients, service errors do not",
            description: "A client of weight 31 that comes last in the round of N - 1 others of weight 16, with which \
                it is one group of gr3. In almost every round it is served two slots in a row, and between them waits \
                for all others. Delay is the time at which a packet of it is done, less the time at which it would be \
                done if clients were served all at once, each at its weight's rate: the longest of two periods.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.pick(QUICK, CLIENTS.len()) * POLICIES.len()
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (policy, clients) = (POLICIES[part % POLICIES.len()], CLIENTS[part / POLICIES.len()]);
        let last = clients - 1;
        let weights = weights((0..clients).map(|client| if client == last { WEIGHT } else { OTHERS }));
        let total = total(&weights);
        let found = scheduled(policy, &weights, 1, PERIODS * total as usize, seed)?;
        let served = |&slot: &usize| found.slots[slot][0] == Some(ClientId::from_index(last));
        let interval = total as f64 / f64::from(WEIGHT);
        let delay = longest_delay((0..found.slots.len()).filter(served), interval);
        Ok(vec![row(policy, clients, interval, delay, &found)])
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn plots(&self, data: &Table) -> Plots {
        let line = |policy| data.rows_of("policy", policy).line(policy, "clients", "delay_max_slots");
        let plot = LinePlot {
            title: "longest delay of a client".to_owned(),
            description:
                "Over the number of clients: it grows in proportion for gr3, and stays below a slot for wf2q+."
                    .to_owned(),
            x: logarithmic("clients"),
            y: whole("slots"),
            lines: POLICIES.map(line).into(),
        };
        vec![("delay".to_owned(), plot.svg())]
    }
}

static FIGURES: [Figure; 2] = [
    Figure {
        claim: "gr3-group-relative-error",
        of: |data| {
            let Range { least, greatest } = errors(data.rows_of("policy", "gr3"));
            vec![least, greatest]
        },
    },
    Figure {
        claim: "gr3-delay-grows",
        of: |data| {
            let delays = || data.rows_of("policy", "gr3").numbers("delay_max_slots");
            delays().next().zip(delays().last()).map(|(first, last)| last - first).into_iter().collect()
        },
    },
];

/// Returns the greatest delay of a packet, in slots, if one packet is due in every interval.
fn longest_delay(slots: impl Iterator<Item = usize>, interval: f64) -> f64 {
    let delays = (1u32..).zip(slots).map(|(packet, slot)| (slot + 1) as f64 - f64::from(packet) * interval);
    delays.fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::parts;

    /// With four times the clients, GR3's delay is four times as long, and WF2Q+'s at most a slot.
    #[test]
    fn delays_are_in_proportion_to_the_clients() {
        let data = parts(&Delay, 0..6);
        let delays = |policy| data.rows_of("policy", policy).numbers("delay_max_slots").collect::<Vec<f64>>();
        assert!(delays("gr3")[2] >= 3.6 * delays("gr3")[0], "{:?}", delays("gr3"));
        assert!(delays("wf2q+").iter().all(|&delay| delay <= 1.0), "{:?}", delays("wf2q+"));
    }

    /// The first packet is done at 1, the second at 6, the third at 7.
    #[test]
    fn delays_are_from_when_packets_should_be_done() {
        assert_eq!(longest_delay([0, 5, 6].into_iter(), 2.5), 1.0);
        assert_eq!(longest_delay([0, 1, 2].into_iter(), 2.0), -1.0);
    }
}
