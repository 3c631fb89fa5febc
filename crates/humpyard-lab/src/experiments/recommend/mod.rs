//! Whether the search of `recommend` finds the policy that trying everything finds.

mod scenarios;

use core::num::NonZeroUsize;

use humpyard_core::random::Seed;

use super::{About, Column, Experiment, Row, Scale, Table, TableRow, Verdict, short};
use crate::LabError;
use crate::plot::{Axis, Bar, BarGroup, BarPlot, Svg};
use crate::recommend::{RecommendOptions, hold};
use scenarios::SCENARIOS;

/// Every experiment here.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Experiment> {
    core::iter::once(&Scenarios as _)
}

/// Composed scenarios, each searched and then tried with every candidate.
struct Scenarios;

/// Packets of each scenario.
const PACKETS: (u64, u64) = (4_000, 40_000);
/// Scenarios of the quick scale.
const FEW: usize = 3;
/// The pick may be so much worse than the best.
const NEARLY: f64 = 0.02;
/// In such a part of the scenarios it is not.
const OFTEN: f64 = 0.95;

const COLUMNS: [Column; 13] = [
    Column::text("scenario"),
    Column::text("input"),
    Column::text("goal"),
    Column::integer("cores"),
    Column::real("load"),
    Column::integer("candidates"),
    Column::text("pick"),
    Column::text("best"),
    Column::text("kept"),
    Column::real("regret"),
    Column::real("hashing_margin"),
    Column::real("searched_inputs"),
    Column::real("exhausted_inputs"),
];

impl Experiment for Scenarios {
    fn about(&self) -> About {
        About {
            id: "recommend-scenarios",
            paper: "this project's own measure of `humpyard recommend`",
            figure: "20 composed scenarios",
            title: "whether successive halving finds the policy that trying everything finds",
            setting: "",
            description: "Each scenario has traffic, services, costs, cores, a load and a goal. The search of `humpyard recommend` picks \
                          a policy; then every candidate is simulated on all of the input under each of the three seeds, also on what \
                          was held out of the search, and the best of them is the truth. Regret is by what part the pick is worse: in the figure that is to be as good as \
                          can be, else in the margin of the bounds, or in how far the worst of them is broken. Effort is in simulations \
                          of the whole input. The quick scale has the first three, with fewer packets.",
        }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.pick(FEW, SCENARIOS.len())
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let scenario = &SCENARIOS[part];
        let packets = scale.pick(PACKETS.0, PACKETS.1);
        let held = hold(&RecommendOptions {
            config: scenario.config(packets, seed)?,
            goal: scenario.goal.parse()?,
            policies: Vec::new(),
            packets,
            budget: None,
            threads: NonZeroUsize::MIN,
        })?;
        let kept = |holds| if holds { "kept" } else { "broken" };
        Ok(vec![vec![
            scenario.name.into(),
            scenario.input.into(),
            scenario.goal.into(),
            scenario.cores.into(),
            scenario.load.into(),
            held.candidates.into(),
            held.pick.policy.into(),
            held.best.policy.into(),
            kept(held.best.holds).into(),
            held.regret.into(),
            held.hashing.map_or(f64::NEG_INFINITY, |hashing| hashing.margin).into(),
            held.searched.into(),
            held.exhausted.into(),
        ]])
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let all = data.len();
        let near = data.rows().filter(|row| row.number("regret") <= NEARLY).count();
        let needed = (OFTEN * all as f64).ceil() as usize;
        let sum = |column: &str| data.rows().map(|row| row.number(column)).sum::<f64>();
        let worst = data.rows().max_by(|one, other| one.number("regret").total_cmp(&other.number("regret")));
        let worst = worst.map_or(String::new(), |row| {
            format!("; the worst is {} % worse, in {}", short(100.0 * row.number("regret")), row.text("scenario"))
        });
        let broken = data.rows_of("kept", "broken").count();
        let enough = data.rows().filter(|row| row.number("hashing_margin") >= 0.0).count();
        vec![
            Verdict::of(
                format!("the pick is within {} % of the best", short(100.0 * NEARLY)),
                format!("in at least {needed} of {all} scenarios"),
                format!("in {near}{worst}"),
                near >= needed,
            ),
            Verdict::measured(
                "effort of the search, of that of trying everything",
                "less",
                format!("{} %", short(100.0 * sum("searched_inputs") / sum("exhausted_inputs"))),
            ),
            Verdict::measured("scenarios whose goal no policy keeps", "some", broken.to_string()),
            Verdict::measured("scenarios whose goal plain hashing keeps", "some", enough.to_string()),
        ]
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let group = |row: TableRow<'_>| BarGroup {
            name: row.text("scenario").to_owned(),
            bars: vec![Bar { name: row.text("pick").to_owned(), value: 100.0 * row.number("regret"), error: None }],
        };
        let plot = BarPlot {
            title: "by how much the pick is worse than the best".to_owned(),
            description:
                "For each scenario the policy that the search picks, and by what part it is worse than the best."
                    .to_owned(),
            value: Axis::linear("% worse", |percent| format!("{percent:.1}")),
            groups: data.rows().map(group).collect(),
        };
        vec![("regret".to_owned(), plot.svg())]
    }
}
