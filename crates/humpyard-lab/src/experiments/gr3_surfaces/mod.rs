//! The service errors of figures 4 to 11 of the GR3 paper: over many draws of the weights, by the number of clients and the sum
//! of the weights.

mod claims;
mod skew;

use core::num::NonZeroUsize;

use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_sim::{DrawsRequest, Heavy, SkewedWeights, draws};

use super::gr3_schedules::PAPER;
use super::{About, Column, Experiment, Row, Scale, Table, Verdict};
use crate::LabError;
use crate::plot::{Axis, Sheet, SurfacePlot, Svg};

/// Numbers of clients.
const CLIENTS: [usize; 9] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Sums of the weights.
const TOTALS: [u32; 5] = [1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18];
/// Those of a quick run: the corners, and a place between.
const QUICK_CLIENTS: [usize; 3] = [32, 512, 8192];
const QUICK_TOTALS: [u32; 2] = [1 << 14, 1 << 18];
/// Draws at each place; the paper's are 2,500.
const DRAWS: (u32, u32) = (100, 2500);

const COLUMNS: [Column; 15] = [
    Column::text("policy"),
    Column::integer("clients"),
    Column::integer("total"),
    Column::integer("heaviest"),
    Column::integer("draws"),
    Column::real("error_min"),
    Column::real("error_max"),
    Column::text("error_min_exact"),
    Column::text("error_max_exact"),
    Column::real("draw_min_mean"),
    Column::real("draw_min_half_interval_95"),
    Column::real("draw_max_mean"),
    Column::real("draw_max_half_interval_95"),
    Column::integer("processors"),
    Column::integer("queue_draws_max"),
];

/// One place of a surface.
#[derive(Clone, Copy, Debug)]
struct Place {
    policy: &'static str,
    clients: usize,
    total: u32,
    /// The part of the heavy client.
    skew: f64,
    processors: usize,
    ties: Ties,
    draws: u32,
}

impl Place {
    /// Draws weights and looks at the schedules: a row of [`COLUMNS`].
    fn row(&self, seed: Seed) -> Result<Row, LabError> {
        let weights = SkewedWeights::new(self.clients, self.total, self.skew, Heavy::First)?;
        let request = DrawsRequest {
            policy: self.policy.parse()?,
            weights,
            draws: self.draws,
            processors: self.processors,
            slots: None,
            ties: self.ties,
            seed,
            threads: NonZeroUsize::MIN,
        };
        let found = draws(&request, |_| ())?;
        let half_interval = |deviation: f64| 1.96 * deviation / f64::from(self.draws).sqrt();
        Ok(vec![
            self.policy.into(),
            self.clients.into(),
            self.total.into(),
            weights.heaviest().into(),
            self.draws.into(),
            found.least.error.value().into(),
            found.greatest.error.value().into(),
            found.least.error.to_string().into(),
            found.greatest.error.to_string().into(),
            found.least_spread.mean.into(),
            half_interval(found.least_spread.deviation).into(),
            found.greatest_spread.mean.into(),
            half_interval(found.greatest_spread.deviation).into(),
            self.processors.into(),
            found.queue_draws_max.unwrap_or(0).into(),
        ])
    }
}

/// A surface of service errors.
#[derive(Debug)]
struct Surface {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    policy: &'static str,
    ties: Ties,
    processors: usize,
    verdicts: fn(&Table) -> Vec<Verdict>,
    /// What is drawn: errors, or draws from the run queue.
    shows: Shows,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shows {
    Errors,
    QueueDraws,
}

/// What they all show, and how the weights are drawn.
const SETTING: &str = "The least and the greatest service error over one period of the schedule, by the number of clients and the \
                       sum of the weights. One client has a tenth of the sum and comes first; the others' weights are random (the \
                       paper does not say by which law; here the rest is divided in proportion to uniform numbers).";

const SURFACES: [Surface; 9] = [
    Surface {
        id: "gr3-fig4",
        figure: "figure 4",
        title: "service error of weighted round robin",
        description: "The greatest error is that of the heavy client after its first visit, whatever the others are.",
        policy: "wrr",
        ties: Ties::Lowest,
        processors: 1,
        verdicts: claims::wrr,
        shows: Shows::Errors,
    },
    Surface {
        id: "gr3-fig5",
        figure: "figure 5",
        title: "service error of weighted fair queueing",
        description: "The heavy client wins ties, as it must for the paper's 819.",
        policy: "wfq",
        ties: Ties::Lowest,
        processors: 1,
        verdicts: claims::wfq,
        shows: Shows::Errors,
    },
    Surface {
        id: "gr3-fig6",
        figure: "figure 6",
        title: "service error of start-time fair queueing",
        description: "The heavy client loses ties, as it must for the paper's -819.",
        policy: "sfq",
        ties: Ties::Highest,
        processors: 1,
        verdicts: claims::sfq,
        shows: Shows::Errors,
    },
    Surface {
        id: "gr3-fig7",
        figure: "figure 7",
        title: "service error of virtual-time round robin",
        description: "The greatest error depends on the law of the weights, and on the draw.",
        policy: "vtrr",
        ties: Ties::Lowest,
        processors: 1,
        verdicts: claims::vtrr,
        shows: Shows::Errors,
    },
    Surface {
        id: "gr3-fig8",
        figure: "figure 8",
        title: "service error of smoothed round robin",
        description: "Clients stand in the columns in the order in which they came.",
        policy: "srr",
        ties: Ties::Lowest,
        processors: 1,
        verdicts: claims::srr,
        shows: Shows::Errors,
    },
    Surface {
        id: "gr3-fig9",
        figure: "figure 9",
        title: "service error of group ratio round robin",
        description: "It is that of a few slots, however many clients there are.",
        policy: "gr3",
        ties: Ties::Lowest,
        processors: 1,
        verdicts: claims::gr3,
        shows: Shows::Errors,
    },
    Surface {
        id: "gr3-wf2q+",
        figure: "section 4.1, which has no plot of it",
        title: "service error of worst-case fair weighted fair queueing",
        description: "The least that a policy can reach, at a cost that grows with the logarithm of the clients.",
        policy: "wf2q+",
        ties: Ties::Lowest,
        processors: 1,
        verdicts: claims::wf2q_plus,
        shows: Shows::Errors,
    },
    Surface {
        id: "gr3-fig10",
        figure: "figure 10",
        title: "service error of GR3MP on 8 processors",
        description: "Errors are looked at between slots, in each of which 8 units of work are done.",
        policy: "gr3mp",
        ties: Ties::Lowest,
        processors: 8,
        verdicts: claims::gr3mp,
        shows: Shows::Errors,
    },
    Surface {
        id: "gr3-fig11",
        figure: "figure 11",
        title: "draws of GR3MP from its run queue for one packet, on 8 processors",
        description: "The most draws that an idle processor makes until it finds a client that no other serves.",
        policy: "gr3mp",
        ties: Ties::Lowest,
        processors: 8,
        verdicts: claims::queue_draws,
        shows: Shows::QueueDraws,
    },
];

/// Every experiment here.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Experiment> {
    static ALL: [Surface; 9] = SURFACES;
    let surfaces = ALL.iter().map(|surface| surface as &dyn Experiment);
    surfaces.chain([&skew::Skew as &dyn Experiment])
}

impl Surface {
    fn place(&self, part: usize, scale: Scale) -> Place {
        let (clients, totals) = scale.pick((&QUICK_CLIENTS[..], &QUICK_TOTALS[..]), (&CLIENTS[..], &TOTALS[..]));
        Place {
            policy: self.policy,
            // The longest first, so that no core waits for it at the end.
            clients: clients[clients.len() - 1 - part % clients.len()],
            total: totals[totals.len() - 1 - part / clients.len()],
            skew: 0.1,
            processors: self.processors,
            ties: self.ties,
            draws: scale.pick(DRAWS.0, DRAWS.1),
        }
    }

    fn sheet(&self, data: &Table, name: &str, column: &str) -> Sheet {
        let (clients, totals) = axes(data);
        let height = |clients: f64, total: f64| {
            let found = data.rows().find(|row| row.number("clients") == clients && row.number("total") == total);
            found.map_or(f64::NAN, |row| row.number(column))
        };
        let heights = clients.iter().map(|&clients| totals.iter().map(|&total| height(clients, total)).collect());
        Sheet { name: name.to_owned(), heights: heights.collect() }
    }
}

/// The places along both axes, ascending.
fn axes(data: &Table) -> (Vec<f64>, Vec<f64>) {
    let values = |column: &'static str| {
        let mut values: Vec<f64> = data.rows().map(|row| row.number(column)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    (values("clients"), values("total"))
}

impl Experiment for Surface {
    fn about(&self) -> About {
        About {
            id: self.id,
            paper: PAPER,
            figure: self.figure,
            title: self.title,
            setting: SETTING,
            description: self.description,
        }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.pick(QUICK_CLIENTS.len() * QUICK_TOTALS.len(), CLIENTS.len() * TOTALS.len())
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        Ok(vec![self.place(part, scale).row(seed)?])
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        (self.verdicts)(data)
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let (clients, totals) = axes(data);
        let named = |values: &[f64]| values.iter().map(|value| format!("{value:.0}")).collect::<Vec<_>>();
        let (z, sheets) = match self.shows {
            Shows::Errors => (
                Axis::linear("service error (slots)", |error| format!("{error:.1}")),
                vec![self.sheet(data, "least", "error_min"), self.sheet(data, "greatest", "error_max")],
            ),
            Shows::QueueDraws => (
                Axis::linear("draws for one packet", |draws| format!("{draws:.0}")),
                vec![self.sheet(data, "most draws", "queue_draws_max")],
            ),
        };
        let plot = SurfacePlot {
            title: self.title.to_owned(),
            description: self.about().whole_description(),
            x: ("clients".to_owned(), named(&clients)),
            y: ("sum of weights".to_owned(), named(&totals)),
            z,
            sheets,
        };
        vec![("surface".to_owned(), plot.svg())]
    }
}
