//! What becomes of service errors when one client has half of all weights instead of a tenth, and the headline of the
//! paper: by how much GR3's are smaller than everybody's.

use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;

use super::super::paper::PAPER;
use super::place::{COLUMNS, Place};
use crate::harness::{About, Bound, Experiment, Plots, Range, Row, Scale, Table, Verdict, bar, group, whole};
use humpyard_lab::LabError;
use humpyard_plot::BarPlot;

const CLIENTS: usize = 8192;
const TOTAL: u32 = 1 << 18;
const SKEWS: [f64; 2] = [0.1, 0.5];
/// The policies; their ties go as in figures 4 to 9.
const POLICIES: [(&str, Ties); 6] = [
    ("wrr", Ties::Lowest),
    ("wfq", Ties::Lowest),
    ("sfq", Ties::Highest),
    ("vtrr", Ties::Lowest),
    ("srr", Ties::Lowest),
    ("gr3", Ties::Lowest),
];
/// Draws at each place; those of GR3, whose extremes are rare, are more.
const DRAWS: (u32, u32) = (20, 100);
const GR3_DRAWS: (u32, u32) = (100, 1000);

/// The experiment.
pub(super) struct Skew;

impl Experiment for Skew {
    fn about(&self) -> About {
        About {
            id: "gr3-skew50",
            figure: "section 4.1, on skew",
            title: "service errors where one client has half of the weights instead of a tenth",
            description: "8192 clients, weights that add up to 2^18, drawn as in figures 4 to 9: the heavy client has \
                first a tenth, then half of them.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        POLICIES.len() * SKEWS.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (policy, ties) = POLICIES[part / SKEWS.len()];
        let (quick, full) = if policy == "gr3" { GR3_DRAWS } else { DRAWS };
        let (skew, draws) = (SKEWS[part % SKEWS.len()], scale.pick(quick, full));
        let place = Place { policy, clients: CLIENTS, total: TOTAL, skew, processors: 1, ties, draws };
        Ok(vec![place.found(seed)?])
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let of = |policy: &str, skew: usize| {
            let row = data.rows_of("policy", policy).nth(skew).expect("a row for each skew");
            Range { least: row.number("error_min"), greatest: row.number("error_max") }
        };
        let grown = |policy| {
            let ratio = of(policy, 1).magnitude() / of(policy, 0).magnitude();
            Verdict::within(format!("{policy}: largest error with 50 % over that with 10 %"), (4.9, 6.0), ratio)
        };
        let gr3 = of("gr3", 1);
        let others = POLICIES.iter().map(|(policy, _)| *policy).filter(|policy| *policy != "gr3");
        let wider = others.map(|policy| {
            let ratio = of(policy, 0).span() / of("gr3", 0).span();
            let least = if policy == "vtrr" { 1000.0 } else { 100.0 };
            let claim = format!("{policy}: range of errors with 10 % over that of gr3");
            Verdict::bounded(claim, Bound::AtLeast(least), ratio)
        });
        let mut verdicts = ["wfq", "sfq", "srr"].map(grown).to_vec();
        verdicts.push(Verdict::of(
            "gr3: all errors with 50 %",
            "-3 to 6 (paper: -2.3 to 4.6)",
            gr3.to_string(),
            gr3.least >= -3.0 && gr3.greatest <= 6.0,
        ));
        verdicts.push(Verdict::within("wrr: greatest error with 50 %", (65_536.0, 65_536.0), of("wrr", 1).greatest));
        verdicts.extend(wider);
        verdicts
    }

    fn plots(&self, data: &Table) -> Plots {
        let groups = POLICIES.map(|(policy, _)| {
            let bars = data.rows_of("policy", policy).zip(["10 %", "50 %"]);
            group(policy, bars.map(|(row, skew)| bar(skew, row.number("error_max").max(-row.number("error_min")))))
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
