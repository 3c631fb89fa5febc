//! Service errors if one client has half of all weights instead of a tenth. Also the paper's headline: how much
//! smaller GR3's errors are than the others'.

use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;

use super::super::errors::errors;
use super::super::paper::PAPER;
use super::figures::{CLIENTS as ALL_CLIENTS, TOTALS as ALL_TOTALS};
use super::place::{COLUMNS, Place};
use crate::harness::{About, Experiment, Figure, Plots, Range, Row, Rows, Scale, Table, bar, group, whole};
use humpyard_lab::LabError;
use humpyard_plot::BarPlot;

const CLIENTS: usize = 8192;
const TOTAL: u32 = 1 << 18;
const SKEWS: [f64; 2] = [0.1, 0.5];
/// The policies; ties are resolved as in figures 4 to 9.
const POLICIES: [(&str, Ties); 6] = [
    ("wrr", Ties::Lowest),
    ("wfq", Ties::Lowest),
    ("sfq", Ties::Highest),
    ("vtrr", Ties::Lowest),
    ("srr", Ties::Lowest),
    ("gr3", Ties::Lowest),
];
/// Draws per place (quick, full). GR3's extremes are rare, so it has more draws in a quick run.
const DRAWS: (u32, u32) = (20, 2500);
const GR3_DRAWS: (u32, u32) = (100, 2500);

/// Returns the places: the corner for every policy; in a full run also all others for GR3 with half of the
/// weights.
fn places(scale: Scale) -> Vec<Place> {
    let corner = POLICIES.into_iter().flat_map(|(policy, ties)| {
        let draws = scale.of(if policy == "gr3" { GR3_DRAWS } else { DRAWS });
        SKEWS.map(|skew| Place { policy, clients: CLIENTS, total: TOTAL, skew, processors: 1, ties, draws })
    });
    let mut places: Vec<Place> = corner.collect();
    if scale == Scale::Full {
        let gr3 = places[places.len() - 1];
        let all = ALL_CLIENTS.into_iter().flat_map(|clients| ALL_TOTALS.map(|total| Place { clients, total, ..gr3 }));
        places.extend(all.filter(|place| (place.clients, place.total) != (CLIENTS, TOTAL)));
    }
    places
}

/// Returns the errors at the corner.
fn at_corner(data: &Table, policy: &str, skew: f64) -> Range {
    let rows = data.rows_of("policy", policy).at("skew", skew);
    errors(rows.at("clients", CLIENTS as f64).at("total", TOTAL.into()))
}

/// Returns the growth of a policy's largest error.
fn growth(data: &Table, policy: &str) -> f64 {
    let [tenth, half] = SKEWS.map(|skew| at_corner(data, policy, skew).magnitude());
    half / tenth
}

/// Returns the narrowest range of errors of another policy over GR3's, with a tenth of the weights at one
/// client.
fn narrowest_other(data: &Table) -> f64 {
    let span = |policy| at_corner(data, policy, SKEWS[0]).span();
    let others = POLICIES.iter().map(|(policy, _)| *policy).filter(|policy| *policy != "gr3");
    others.map(span).fold(f64::INFINITY, f64::min) / span("gr3")
}

static FIGURES: [Figure; 9] = [
    Figure {
        claim: "gr3-fig5-wfq-below-wrr",
        of: |data| vec![at_corner(data, "wrr", SKEWS[0]).span() / at_corner(data, "wfq", SKEWS[0]).span()],
    },
    Figure {
        claim: "gr3-both-ends-below-round-robins",
        of: |data| {
            let gr3 = at_corner(data, "gr3", SKEWS[0]);
            let ratios = ["wrr", "vtrr", "srr"].map(|policy| {
                let errors = at_corner(data, policy, SKEWS[0]);
                [errors.least / gr3.least, errors.greatest / gr3.greatest]
            });
            ratios.concat()
        },
    },
    Figure {
        claim: "gr3-against-wfq",
        of: |data| {
            let [wfq, gr3] = ["wfq", "gr3"].map(|policy| at_corner(data, policy, SKEWS[0]));
            vec![wfq.greatest / gr3.greatest, gr3.least / wfq.least]
        },
    },
    Figure {
        claim: "gr3-against-sfq",
        of: |data| {
            let [sfq, gr3] = ["sfq", "gr3"].map(|policy| at_corner(data, policy, SKEWS[0]));
            vec![sfq.least / gr3.least, gr3.greatest / sfq.greatest]
        },
    },
    Figure { claim: "gr3-smallest-range", of: |data| vec![narrowest_other(data)] },
    Figure { claim: "gr3-two-orders", of: |data| vec![narrowest_other(data)] },
    Figure {
        claim: "gr3-skew50-five-times",
        of: |data| ["wfq", "sfq", "srr"].map(|policy| growth(data, policy)).into(),
    },
    Figure { claim: "gr3-skew50-worse", of: |data| ["wrr", "vtrr"].map(|policy| growth(data, policy)).into() },
    Figure {
        claim: "gr3-skew50-gr3",
        of: |data| {
            let Range { least, greatest } = errors(data.rows_of("policy", "gr3").at("skew", SKEWS[1]));
            vec![least, greatest]
        },
    },
];

/// The experiment.
pub(super) struct Skew;

impl Experiment for Skew {
    fn about(&self) -> About {
        About {
            id: "gr3-skew50",
            figure: "section 5.1, on skew",
            title: "service errors where one client has half of the weights instead of a tenth",
            description: "8192 clients, weights that add up to 2^18, drawn as in figures 4 to 9: the heavy client has \
                first a tenth, then half of them. In a full run GR3 has half of them at all places of figure 9 too.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn version(&self) -> u32 {
        2
    }

    fn parts(&self, scale: Scale) -> usize {
        places(scale).len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        Ok(vec![places(scale)[part].found(seed)?])
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn plots(&self, data: &Table) -> Plots {
        let groups = POLICIES.map(|(policy, _)| {
            let bars = SKEWS.into_iter().zip(["10 %", "50 %"]);
            group(policy, bars.map(|(skew, name)| bar(name, at_corner(data, policy, skew).magnitude())))
        });
        let plot = BarPlot {
            title: "largest service error, with 10 % and 50 % of the weights in one hand".to_owned(),
            description: "For each policy the largest service error, over all draws.".to_owned(),
            value: whole("slots"),
            groups: groups.into(),
        };
        vec![("skew".to_owned(), plot.svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_run_has_every_place_of_gr3_once() {
        let count = |scale| places(scale).len();
        assert_eq!((count(Scale::Quick), count(Scale::Full)), (12, 12 + 44));
        let half = |place: &Place| place.policy == "gr3" && place.skew == SKEWS[1];
        assert_eq!(places(Scale::Full).iter().filter(|place| half(place)).count(), 45);
    }
}
