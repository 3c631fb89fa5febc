//! The service errors of figures 4 to 11 of the GR3 paper: over many draws of the weights, by the number of clients and
//! the sum of the weights.

use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;

use super::super::paper::PAPER;
use super::claims;
use super::place::{COLUMNS, Place, axes};
use crate::harness::{About, Experiment, Figure, Plots, Row, Rows, Scale, Table, whole};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Sheet, SurfacePlot};

/// Numbers of clients.
pub(super) const CLIENTS: [usize; 9] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Sums of the weights.
pub(super) const TOTALS: [u32; 5] = [1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18];
/// Clients and sums in a quick run: the corners, and a place between.
const QUICK_CLIENTS: [usize; 3] = [32, 512, 8192];
const QUICK_TOTALS: [u32; 2] = [1 << 14, 1 << 18];
/// Draws per place (quick, full); the paper's are 2,500.
const DRAWS: (u32, u32) = (100, 2500);

/// A surface of service errors.
#[derive(Debug)]
pub(super) struct Surface {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    /// Policies with their numbers of processors; the plot shows the first.
    runs: &'static [(&'static str, usize)],
    ties: Ties,
    figures: &'static [Figure],
    /// What the plot shows: errors, or draws from the run queue.
    shows: Shows,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shows {
    Errors,
    QueueDraws,
}

/// The common setting: the surfaces, and the law of the weights.
const SETTING: &str = "The least and the greatest service error over one period of the schedule, by the number of \
    clients and the sum of the weights. One client has a tenth of the sum and comes first; the others' weights are \
    random (the paper does not say by which law; here the rest is divided in proportion to uniform numbers).";

/// The defaults of most surfaces: errors on one processor, with the lowest number winning ties.
const USUAL: Surface = Surface {
    id: "",
    figure: "",
    title: "",
    description: "",
    runs: &[],
    ties: Ties::Lowest,
    figures: &[],
    shows: Shows::Errors,
};

pub(super) static SURFACES: [Surface; 9] = [
    Surface {
        id: "gr3-fig4",
        figure: "figure 4",
        title: "service error of weighted round robin",
        description: "The greatest error is that of the heavy client after its first visit, whatever the others are.",
        runs: &[("wrr", 1)],
        figures: claims::WRR,
        ..USUAL
    },
    Surface {
        id: "gr3-fig5",
        figure: "figure 5",
        title: "service error of weighted fair queueing",
        description: "The heavy client wins ties, as it must for the paper's 819.",
        runs: &[("wfq", 1)],
        figures: claims::WFQ,
        ..USUAL
    },
    Surface {
        id: "gr3-fig6",
        figure: "figure 6",
        title: "service error of start-time fair queueing",
        description: "The heavy client loses ties, as it must for the paper's -819.",
        runs: &[("sfq", 1)],
        ties: Ties::Highest,
        figures: claims::SFQ,
        ..USUAL
    },
    Surface {
        id: "gr3-fig7",
        figure: "figure 7",
        title: "service error of virtual-time round robin",
        description: "The greatest error depends on the law of the weights, and on the draw.",
        runs: &[("vtrr", 1)],
        figures: claims::VTRR,
        ..USUAL
    },
    Surface {
        id: "gr3-fig8",
        figure: "figure 8",
        title: "service error of smoothed round robin",
        description: "Clients stand in the columns in the order in which they came.",
        runs: &[("srr", 1)],
        figures: claims::SRR,
        ..USUAL
    },
    Surface {
        id: "gr3-fig9",
        figure: "figure 9",
        title: "service error of group ratio round robin",
        description: "It is that of a few slots, however many clients there are.",
        runs: &[("gr3", 1)],
        figures: claims::GR3,
        ..USUAL
    },
    Surface {
        id: "gr3-wf2q+",
        figure: "section 5.1, which has no plot of it",
        title: "service error of worst-case fair weighted fair queueing",
        description: "The least that a policy can reach, at a cost that grows with the logarithm of the clients.",
        runs: &[("wf2q+", 1)],
        figures: claims::WF2Q_PLUS,
        ..USUAL
    },
    Surface {
        id: "gr3-fig10",
        figure: "figure 10",
        title: "service error of GR3MP on 8 processors",
        description: "Errors are looked at between slots, in each of which 8 units of work are done. The data have GR3 \
            on one processor beside it, with the same weights.",
        runs: &[("gr3mp", 8), ("gr3", 1)],
        figures: claims::GR3MP,
        ..USUAL
    },
    Surface {
        id: "gr3-fig11",
        figure: "figure 11",
        title: "draws of GR3MP from its run queue for one packet, on 8 processors",
        description: "The most draws that an idle processor makes until it finds a client that no other serves.",
        runs: &[("gr3mp", 8)],
        figures: claims::QUEUE_DRAWS,
        shows: Shows::QueueDraws,
        ..USUAL
    },
];

impl Surface {
    fn place(&self, part: usize, scale: Scale) -> Place {
        let (clients, totals) = scale.pick((&QUICK_CLIENTS[..], &QUICK_TOTALS[..]), (&CLIENTS[..], &TOTALS[..]));
        let places = clients.len() * totals.len();
        let ((policy, processors), part) = (self.runs[part / places], part % places);
        Place {
            policy,
            // The longest parts come first, so that no core waits for them at the end.
            clients: clients[clients.len() - 1 - part % clients.len()],
            total: totals[totals.len() - 1 - part / clients.len()],
            skew: 0.1,
            processors,
            ties: self.ties,
            draws: scale.of(DRAWS),
        }
    }

    fn sheet(&self, data: &Table, name: &str, column: &str) -> Sheet {
        let (clients, totals) = axes(data);
        let height = |clients: f64, total: f64| {
            let mut rows = data.rows_of("policy", self.runs[0].0).at("clients", clients).at("total", total);
            rows.next().map_or(f64::NAN, |row| row.number(column))
        };
        let heights = clients.iter().map(|&clients| totals.iter().map(|&total| height(clients, total)).collect());
        Sheet { name: name.to_owned(), heights: heights.collect() }
    }
}

/// The common description.
const ABOUT: About = About { setting: SETTING, columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for Surface {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn version(&self) -> u32 {
        2
    }

    fn rows_of(&self) -> &'static str {
        // Figure 11 shows the GR3MP runs of figure 10, which are its first parts.
        if self.shows == Shows::QueueDraws { "gr3-fig10" } else { self.id }
    }

    fn parts(&self, scale: Scale) -> usize {
        self.runs.len() * scale.pick(QUICK_CLIENTS.len() * QUICK_TOTALS.len(), CLIENTS.len() * TOTALS.len())
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        Ok(vec![self.place(part, scale).found(seed)?])
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn plots(&self, data: &Table) -> Plots {
        let (clients, totals) = axes(data);
        let named = |values: &[f64]| values.iter().map(|value| format!("{value:.0}")).collect::<Vec<_>>();
        let (z, sheets) = match self.shows {
            Shows::Errors => (
                Axis::linear("service error (slots)", |error| format!("{error:.1}")),
                vec![self.sheet(data, "least", "error_min"), self.sheet(data, "greatest", "error_max")],
            ),
            Shows::QueueDraws => {
                (whole("draws for one packet"), vec![self.sheet(data, "most draws", "queue_draws_max")])
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::assert_expected;

    #[test]
    fn a_surface_has_a_row_for_each_place_and_run() {
        let [.., on_eight, _] = &SURFACES;
        assert_eq!((on_eight.id, on_eight.parts(Scale::Full)), ("gr3-fig10", 90));
        let places: Vec<Place> = (0..on_eight.parts(Scale::Quick)).map(|at| on_eight.place(at, Scale::Quick)).collect();
        let of = |policy: &str| places.iter().filter(|place| place.policy == policy).count();
        assert_eq!((of("gr3mp"), of("gr3")), (6, 6));
        assert!(places.iter().all(|place| (place.processors == 8) == (place.policy == "gr3mp")));
    }

    /// The bounds of WF2Q+ hold with few draws, too.
    #[test]
    fn a_small_surface_is_judged() {
        let wf2q_plus = SURFACES.iter().find(|surface| surface.id == "gr3-wf2q+").unwrap();
        let row = Place { draws: 2, clients: 32, ..wf2q_plus.place(0, Scale::Quick) }.found(Seed(1)).unwrap();
        assert_expected(wf2q_plus, &Table::of(COLUMNS, [row]));
    }
}
