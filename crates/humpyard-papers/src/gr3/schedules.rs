//! The two schedules in the GR3 paper's drawings, slot by slot.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_sim::{ScheduleRequest, schedule};

use super::paper::PAPER;
use crate::harness::{
    About, Column, Experiment, Figure, Plots, Row, Rows, Scale, Table, TableRow, columns, line, whole,
};
use humpyard_lab::LabError;
use humpyard_plot::LinePlot;

/// A schedule from a drawing of the paper.
#[derive(Debug)]
pub(super) struct DrawnSchedule {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    /// Policies with their numbers of processors; the plot shows the first.
    runs: &'static [(&'static str, usize)],
    weights: &'static [u32],
    /// Clients in order of arrival, from 1.
    order: &'static [u32],
    slots: usize,
    figures: &'static [Figure],
}

/// Both schedules.
pub(super) static SCHEDULES: [DrawnSchedule; 2] = [
    DrawnSchedule {
        id: "gr3-fig2",
        figure: "figure 2",
        title: "24 slots of GR3 with six clients of weights 12, 3, 3, 2, 2, 2",
        description: "Client 1 is alone in its group, the other five are in the other; both groups weigh 12, so they \
            take turns, and the light clients share the turns of theirs: once each in its first round, clients 2 and 3 \
            twice in its second.",
        runs: &[("gr3", 1)],
        weights: &[12, 3, 3, 2, 2, 2],
        order: &[1, 2, 3, 4, 5, 6],
        slots: 24,
        figures: &[Figure { claim: "gr3-fig2-schedule", of: |data| served(data, "gr3", 1).collect() }],
    },
    DrawnSchedule {
        id: "gr3-fig3",
        figure: "figure 3",
        title: "GR3MP on two processors, with three clients of weights 3, 2, 1",
        description: "Client 2 comes before client 1 in the ring of their group. In the third slot the first processor \
            draws client 1, which the second is serving: it goes to that one's frontlog, and the first draws client 3. \
            GR3 on one processor has the order of draws.",
        runs: &[("gr3mp", 2), ("gr3", 1)],
        weights: &[3, 2, 1],
        order: &[2, 1, 3],
        slots: 6,
        figures: &[
            Figure { claim: "gr3-fig3-central-order", of: |data| served(data, "gr3", 1).collect() },
            Figure {
                claim: "gr3-fig3-processors",
                of: |data| [1, 2].into_iter().flat_map(|processor| served(data, "gr3mp", processor).take(3)).collect(),
            },
        ],
    },
];

const COLUMNS: &[Column] = columns![text policy, integer slot, integer processor, integer client];

/// The common description.
const ABOUT: About = About { columns: COLUMNS, ..About::of(PAPER) };

/// Returns the rows of a processor under a policy, slot by slot.
fn rows_of<'a>(data: &'a Table, policy: &'a str, processor: usize) -> impl Iterator<Item = TableRow<'a>> {
    data.rows_of("policy", policy).at("processor", processor as f64)
}

/// Returns the clients that a processor serves under a policy, slot by slot.
fn served<'a>(data: &'a Table, policy: &'a str, processor: usize) -> impl Iterator<Item = f64> {
    rows_of(data, policy, processor).map(|row| row.number("client"))
}

impl Experiment for DrawnSchedule {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn version(&self) -> u32 {
        2
    }

    fn parts(&self, _: Scale) -> usize {
        self.runs.len()
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (policy, processors) = self.runs[part];
        let weights = self.weights.iter().map(|&weight| Weight::new(weight).expect("a weight of the paper"));
        let found = schedule(&ScheduleRequest {
            policy: policy.parse()?,
            weights: weights.collect(),
            order: self.order.iter().map(|&client| ClientId(client - 1)).collect(),
            processors,
            slots: self.slots,
            ties: Ties::Lowest,
            seed,
        })?;
        let slots = found.slots.iter().enumerate().flat_map(|(slot, served)| {
            served.iter().enumerate().map(move |(processor, client)| {
                let client = client.map_or(0, |client| client.index() + 1);
                vec![policy.into(), (slot + 1).into(), (processor + 1).into(), client.into()]
            })
        });
        Ok(slots.collect())
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn plots(&self, data: &Table) -> Plots {
        let (policy, processors) = self.runs[0];
        let of_processor = |processor: usize| {
            let points = rows_of(data, policy, processor).flat_map(|row| {
                let (slot, client) = (row.number("slot"), row.number("client"));
                [(slot - 1.0, client), (slot, client)]
            });
            line(format!("processor {processor}"), points)
        };
        let plot = LinePlot {
            title: self.title.to_owned(),
            description: "The client that is served, over the slots.".to_owned(),
            x: whole("slots"),
            y: whole("client"),
            lines: (1..=processors).map(of_processor).collect(),
        };
        vec![("schedule".to_owned(), plot.svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    /// The schedule continues with its first three slots, beyond the paper's text.
    #[test]
    fn schedules_are_the_papers() {
        for experiment in &SCHEDULES {
            assert_expected(experiment, &quick(experiment));
        }
        let data = quick(&SCHEDULES[1]);
        let of = |processor| served(&data, "gr3mp", processor).collect::<Vec<f64>>();
        assert_eq!((of(1), of(2)), (vec![2.0, 2.0, 3.0, 2.0, 2.0, 3.0], vec![1.0; 6]));
    }
}
