//! The two schedules that the GR3 paper draws, slot by slot.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_sim::{ScheduleRequest, schedule};

use super::paper::PAPER;
use crate::harness::{About, Column, Experiment, Plots, Row, Rows, Scale, Table, Verdict, columns, line, whole};
use humpyard_lab::LabError;
use humpyard_plot::LinePlot;

/// A schedule of the paper.
#[derive(Debug)]
pub(super) struct DrawnSchedule {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    policy: &'static str,
    weights: &'static [u32],
    /// Clients in order of arrival, from 1.
    order: &'static [u32],
    processors: usize,
    /// Whom each processor serves in each slot, from 1.
    expected: &'static [&'static [u32]],
}

/// Both.
pub(super) static SCHEDULES: [DrawnSchedule; 2] = [
    DrawnSchedule {
        id: "gr3-fig2",
        figure: "figure 2",
        title: "24 slots of GR3 with six clients of weights 12, 3, 3, 2, 2, 2",
        description: "Client 1 is alone in its group, the other five are in the other; both groups weigh 12, so they \
            take turns, and the light clients share the turns of theirs: once each in its first round, clients 2 and 3 \
            twice in its second.",
        policy: "gr3",
        weights: &[12, 3, 3, 2, 2, 2],
        order: &[1, 2, 3, 4, 5, 6],
        processors: 1,
        expected: &[&[2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 2, 1, 2, 1, 3, 1, 3, 1, 4, 1, 5, 1, 6, 1]],
    },
    DrawnSchedule {
        id: "gr3-fig3",
        figure: "figure 3",
        title: "GR3MP on two processors, with three clients of weights 3, 2, 1",
        description: "Client 2 comes before client 1 in the ring of their group. In the third slot the first processor \
            draws client 1, which the second is serving: it goes to that one's frontlog, and the first draws client 3.",
        policy: "gr3mp",
        weights: &[3, 2, 1],
        order: &[2, 1, 3],
        processors: 2,
        expected: &[&[2, 2, 3, 2, 2, 3], &[1, 1, 1, 1, 1, 1]],
    },
];

const COLUMNS: &[Column] = columns![integer slot, integer processor, integer client];

/// What is common to them.
const ABOUT: About = About { columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for DrawnSchedule {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn parts(&self, _: Scale) -> usize {
        1
    }

    fn run(&self, _: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let weights = self.weights.iter().map(|&weight| Weight::new(weight).expect("a weight of the paper"));
        let found = schedule(&ScheduleRequest {
            policy: self.policy.parse()?,
            weights: weights.collect(),
            order: self.order.iter().map(|&client| ClientId(client - 1)).collect(),
            processors: self.processors,
            slots: self.expected[0].len(),
            ties: Ties::Lowest,
            seed,
        })?;
        let slots = found.slots.iter().enumerate().flat_map(|(slot, served)| {
            served.iter().enumerate().map(move |(processor, client)| {
                let client = client.map_or(0, |client| client.index() + 1);
                vec![(slot + 1).into(), (processor + 1).into(), client.into()]
            })
        });
        Ok(slots.collect())
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let of_processor = |(at, &expected): (usize, &&[u32])| {
            let served = data.rows().at("processor", (at + 1) as f64).numbers("client");
            let served: Vec<u32> = served.map(|client| client as u32).collect();
            let text = |clients: &[u32]| clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            let claim = match self.processors {
                1 => "clients served, slot by slot".to_owned(),
                _ => format!("clients served by processor {}, slot by slot", at + 1),
            };
            Verdict::of(claim, text(expected), text(&served), served == expected)
        };
        self.expected.iter().enumerate().map(of_processor).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let of_processor = |processor: usize| {
            let points = data.rows().at("processor", processor as f64).flat_map(|row| {
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
            lines: (1..=self.processors).map(of_processor).collect(),
        };
        vec![("schedule".to_owned(), plot.svg())]
    }
}
