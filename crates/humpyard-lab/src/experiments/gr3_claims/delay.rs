//! Delay and service error are not the same: the end of the GR3 paper's section on related work, PROPORTIONAL_SHARE section 3.3.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_sim::{ScheduleRequest, schedule};

use super::super::short;
use super::{About, Column, Experiment, PAPER, Row, Scale, Table, Verdict};
use crate::LabError;
use crate::plot::{Axis, Line, LinePlot, Svg};

const CLIENTS: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];
/// How many of them a quick run has.
const QUICK: usize = 6;
const POLICIES: [&str; 2] = ["gr3", "wf2q+"];
/// The greatest and the least weight of one group of gr3: of the client that is looked at, and of all others.
const WEIGHT: u32 = 31;
const OTHERS: u32 = 16;
/// So many periods, in each of which everybody is served its weight.
const PERIODS: usize = 2;

const COLUMNS: [Column; 6] = [
    Column::text("policy"),
    Column::integer("clients"),
    Column::real("interval_slots"),
    Column::real("delay_max_slots"),
    Column::real("error_min"),
    Column::real("error_max"),
];

/// The experiment.
pub(super) struct Delay;

impl Experiment for Delay {
    fn about(&self) -> About {
        About {
            id: "gr3-delay",
            paper: PAPER,
            figure: "section 5, on delay",
            title: "delays grow with the number of clients, service errors do not",
            setting: "",
            description: "A client of weight 31 that comes last in the round of N - 1 others of weight 16, with which it is one group of \
                          gr3. In almost every round it is served two slots in a row, and between them waits for all others. Delay \
                          is the time at which a packet of it is done, less the time at which it would be done if clients were served \
                          all at once, each at its weight's rate: the longest of two periods.",
        }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.pick(QUICK, CLIENTS.len()) * POLICIES.len()
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (policy, clients) = (POLICIES[part % POLICIES.len()], CLIENTS[part / POLICIES.len()]);
        let last = clients - 1;
        let weight = |client| if client == last { WEIGHT } else { OTHERS };
        let total: u32 = (0..clients).map(weight).sum();
        let found = schedule(&ScheduleRequest {
            policy: policy.parse()?,
            weights: (0..clients).map(|client| Weight::new(weight(client)).expect("positive")).collect(),
            order: (0..clients).map(ClientId::from_index).collect(),
            processors: 1,
            slots: PERIODS * total as usize,
            ties: Ties::Lowest,
            seed,
        })?;
        let served = |&slot: &usize| found.slots[slot][0] == Some(ClientId::from_index(last));
        let interval = f64::from(total) / f64::from(WEIGHT);
        let delay = longest_delay((0..found.slots.len()).filter(served), interval);
        Ok(vec![vec![
            policy.into(),
            clients.into(),
            interval.into(),
            delay.into(),
            found.error_min.value().into(),
            found.error_max.value().into(),
        ]])
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let text = |policy| delays(data, policy).map(|(_, delay)| short(delay)).collect::<Vec<_>>().join(", ");
        let first = delays(data, "gr3").next().expect("a row for each number of clients");
        let last = delays(data, "gr3").last().expect("a row for each number of clients");
        let (more_clients, more_delay) = (last.0 / first.0, last.1 / first.1);
        let range = data.rows_of("policy", "gr3").fold((0.0, 0.0), |(least, greatest): (f64, f64), row| {
            (least.min(row.number("error_min")), greatest.max(row.number("error_max")))
        });
        vec![
            Verdict::of(
                format!("gr3: longest delay with {more_clients} times the clients"),
                format!("at least {} times as long", short(0.9 * more_clients)),
                format!("{} times: {}", short(more_delay), text("gr3")),
                more_delay >= 0.9 * more_clients,
            ),
            Verdict::of(
                "wf2q+: longest delay",
                "at most a slot",
                text("wf2q+"),
                delays(data, "wf2q+").all(|(_, delay)| delay <= 1.0),
            ),
            Verdict::of(
                "gr3: all errors, with one group",
                "-4 to 4",
                format!("{} to {}", short(range.0), short(range.1)),
                range.0 > -4.0 && range.1 < 4.0,
            ),
        ]
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let line =
            |policy: &str| Line { name: policy.to_owned(), points: delays(data, policy).map(Into::into).collect() };
        let plot = LinePlot {
            title: "longest delay of a client".to_owned(),
            description:
                "Over the number of clients: it grows in proportion for gr3, and stays below a slot for wf2q+."
                    .to_owned(),
            x: Axis::logarithmic("clients", |clients| format!("{clients:.0}")),
            y: Axis::linear("slots", |slots| format!("{slots:.0}")),
            lines: POLICIES.into_iter().map(line).collect(),
        };
        vec![("delay".to_owned(), plot.svg())]
    }
}

/// The longest delay, by the number of clients.
fn delays<'a>(data: &'a Table, policy: &'a str) -> impl Iterator<Item = (f64, f64)> {
    data.rows_of("policy", policy).map(|row| (row.number("clients"), row.number("delay_max_slots")))
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
