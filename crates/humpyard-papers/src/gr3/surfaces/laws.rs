//! Finds the law of the random weights that fits the paper's numbers; the paper does not name it.

use core::num::NonZeroUsize;

use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_sim::{Draws, DrawsRequest, Heavy, SkewedWeights, WeightLaw, draws};

use super::super::paper::PAPER;
use crate::harness::{About, Experiment, Note, Plots, Range, Row, Rows, Scale, Table, bar, group, rows, whole};
use humpyard_lab::LabError;
use humpyard_plot::BarPlot;

const TOTAL: u32 = 1 << 18;
/// The fewest and the most clients of the paper's surfaces.
const CLIENTS: [usize; 2] = [32, 8192];
const LAWS: [(&str, WeightLaw); 5] = [
    ("uniform, 0 to 1", WeightLaw::Uniform),
    ("uniform, 0.5 to 1.5", WeightLaw::NearMean),
    ("uniform, squared", WeightLaw::Squared),
    ("exponential", WeightLaw::Exponential),
    ("integers, 1 to 40", WeightLaw::UpTo40),
];
/// Policies, the heavy client's part of the weights, and the paper's least and greatest errors over all places.
const SUBJECTS: [(&str, f64, Range); 4] = [
    ("wrr", 0.1, Range { least: -12_067.0, greatest: 23_593.0 }),
    ("vtrr", 0.1, Range { least: -2_129.0, greatest: 10_079.0 }),
    ("srr", 0.1, Range { least: -369.0, greatest: 369.0 }),
    ("gr3", 0.5, Range { least: -2.3, greatest: 4.6 }),
];
/// Draws per place (quick, full).
const DRAWS: (u32, u32) = (3, 2500);

rows! {
    COLUMNS, fn row(law: &str, place: (&str, f64, usize), found: &Draws) {
        let (policy, skew, clients) = place;
    } => {
        text law = law, text policy = policy, real skew = skew, integer clients = clients,
        real error_min = found.least.error.value(), real error_max = found.greatest.error.value(),
    }
}

/// The experiment.
pub(super) struct Laws;

/// Returns the least and the greatest error of a policy under a law.
fn errors(data: &Table, law: &str, policy: &str) -> Range {
    let rows = || data.rows_of("law", law).of("policy", policy);
    Range { least: rows().range("error_min").least, greatest: rows().range("error_max").greatest }
}

impl Experiment for Laws {
    fn about(&self) -> About {
        About {
            id: "gr3-weight-laws",
            figure: "section 5.1, which says nothing of it",
            title: "service errors by the law of the random weights",
            description: "Weights add up to 2^18, and one client has a tenth of them, with GR3 half. The others divide \
                the rest in proportion to random numbers of five laws, with 32 and with 8192 clients. A quick run has \
                3 draws of each, a full one 2500.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        LAWS.len() * SUBJECTS.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let ((name, law), (policy, skew, _)) = (LAWS[part / SUBJECTS.len()], SUBJECTS[part % SUBJECTS.len()]);
        let place = |clients: usize| {
            let request = DrawsRequest {
                policy: policy.parse()?,
                weights: SkewedWeights::new(clients, TOTAL, skew, Heavy::First)?.by(law),
                draws: scale.of(DRAWS),
                processors: 1,
                slots: None,
                ties: Ties::Lowest,
                seed,
                threads: NonZeroUsize::MIN,
            };
            Ok(row(name, (policy, skew, clients), &draws(&request, |_| ())?))
        };
        CLIENTS.into_iter().map(place).collect()
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let note = |(policy, _, said): (&str, f64, Range)| {
            LAWS.map(|(law, _)| {
                let about = format!("{policy}, weights by {law}: least and greatest error");
                Note::new(about, said.to_string(), errors(data, law, policy).to_string())
            })
        };
        SUBJECTS.into_iter().flat_map(note).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |(policy, _, said): (&str, f64, Range)| {
            let ends = |range: Range| [bar("least", -range.least), bar("greatest", range.greatest)];
            let of_laws = LAWS.map(|(law, _)| group(law, ends(errors(data, law, policy))));
            let plot = BarPlot {
                title: format!("errors of {policy} by the law of the weights"),
                description: "For each law the least error, without its sign, and the greatest; last the paper's."
                    .to_owned(),
                value: whole("slots"),
                groups: of_laws.into_iter().chain([group("the paper", ends(said))]).collect(),
            };
            (policy.to_owned(), plot.svg())
        };
        SUBJECTS.map(plot).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::parts;

    /// Under weighted round robin, the heavy client is ahead by its weight, and the heaviest of the others
    /// falls behind by its own.
    #[test]
    fn a_law_decides_how_far_a_client_falls_behind() {
        let of_wrr = |law: usize| law * SUBJECTS.len();
        let data = parts(&Laws, [of_wrr(0), of_wrr(1)]);
        let [uniform, near_mean] = [0, 1].map(|law| errors(&data, LAWS[law].0, "wrr"));
        assert!((uniform.greatest - 23_592.6).abs() < 1.0 && uniform.greatest == near_mean.greatest, "{uniform}");
        assert!(uniform.least < near_mean.least, "{uniform}, {near_mean}");
    }
}
