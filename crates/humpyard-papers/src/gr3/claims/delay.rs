//! Delay and service error are not the same: the end of the GR3 paper's section on related work, PROPORTIONAL_SHARE
//! section 3.3.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::random::Seed;
use humpyard_sim::Schedule;

use super::super::errors::errors;
use super::super::paper::PAPER;
use super::super::scheduled::{scheduled, total, weights};
use crate::harness::{About, Experiment, Plots, Row, Rows, Scale, Table, Verdict, logarithmic, rows, short, whole};
use humpyard_lab::LabError;
use humpyard_plot::LinePlot;

const CLIENTS: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];
/// How many of them a quick run has.
const QUICK: usize = 6;
const POLICIES: [&str; 2] = ["gr3", "wf2q+"];
/// The greatest and the least weight of one group of gr3: of the client that is looked at, and of all others.
const WEIGHT: u32 = 31;
const OTHERS: u32 = 16;
/// Periods of a run. In each of them every client is served its weight.
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
            figure: "section 5, on delay",
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

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let listed = |policy| data.rows_of("policy", policy).listed("delay_max_slots");
        let (first, last) = (delays(data).next(), delays(data).last());
        let (first, last) = first.zip(last).expect("a row for each number of clients");
        let (more_clients, more_delay) = (last.0 / first.0, last.1 / first.1);
        let longest = data.rows_of("policy", "wf2q+").range("delay_max_slots").greatest;
        let errors = errors(data.rows_of("policy", "gr3"));
        vec![
            Verdict::of(
                format!("gr3: longest delay with {more_clients} times the clients"),
                format!("at least {} times as long", short(0.9 * more_clients)),
                format!("{} times: {}", short(more_delay), listed("gr3")),
                more_delay >= 0.9 * more_clients,
            ),
            Verdict::of("wf2q+: longest delay", "at most a slot", listed("wf2q+"), longest <= 1.0),
            Verdict::of(
                "gr3: all errors, with one group",
                "-4 to 4",
                errors.to_string(),
                errors.least > -4.0 && errors.greatest < 4.0,
            ),
        ]
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

/// The longest delay of gr3, by the number of clients.
fn delays(data: &Table) -> impl Iterator<Item = (f64, f64)> {
    data.rows_of("policy", "gr3").map(|row| (row.number("clients"), row.number("delay_max_slots")))
}

/// The most slots by which a packet is done later than it should be, if one should be done in every interval.
fn longest_delay(slots: impl Iterator<Item = usize>, interval: f64) -> f64 {
    let delays = (1u32..).zip(slots).map(|(packet, slot)| (slot + 1) as f64 - f64::from(packet) * interval);
    delays.fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first packet is done at 1, the second at 6, the third at 7.
    #[test]
    fn delays_are_from_when_packets_should_be_done() {
        assert_eq!(longest_delay([0, 5, 6].into_iter(), 2.5), 1.0);
        assert_eq!(longest_delay([0, 1, 2].into_iter(), 2.0), -1.0);
    }
}
