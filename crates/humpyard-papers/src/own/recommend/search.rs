//! Tests whether the search of `recommend` finds the policy that an exhaustive search finds.

use core::num::NonZeroUsize;

use humpyard_core::random::Seed;

use super::scenarios::{SCENARIOS, Scenario};
use crate::harness::{About, Experiment, Note, Plots, Row, Rows, Scale, Table, TableRow, rows, short};
use humpyard_lab::LabError;
use humpyard_lab::recommend::{Held, RecommendOptions, hold};
use humpyard_plot::{Axis, Bar, BarGroup, BarPlot};

/// Composed scenarios, each with the search and with a run of every candidate.
pub(super) struct Scenarios;

/// Packets of each scenario.
const PACKETS: (u64, u64) = (4_000, 40_000);
/// Number of scenarios in a quick run.
const FEW: usize = 3;
/// Greatest relative distance of the pick from the best policy.
const NEARLY: f64 = 0.02;
/// Least part of the scenarios in which the pick must be that good.
const OFTEN: f64 = 0.95;

rows! {
    COLUMNS, fn row(scenario: &Scenario, held: Held) {
        let kept = if held.best.holds { "kept" } else { "broken" };
    } => {
        text scenario = scenario.name, text input = scenario.input, text goal = scenario.goal,
        integer cores = scenario.cores, real load = scenario.load, integer candidates = held.candidates,
        text pick = held.pick.policy, text best = held.best.policy, text kept = kept, real regret = held.regret,
        real hashing_margin = held.hashing.map_or(f64::NEG_INFINITY, |hashing| hashing.margin),
        real searched_inputs = held.searched, real exhausted_inputs = held.exhausted,
    }
}

impl Experiment for Scenarios {
    fn about(&self) -> About {
        About {
            id: "recommend-scenarios",
            paper: "this project's own measure of `humpyard recommend`",
            figure: "20 composed scenarios",
            title: "whether successive halving finds the policy that trying everything finds",
            setting: "",
            description: "Each scenario has traffic, services, costs, cores, a load and a goal. The search of \
                `humpyard recommend` picks a policy; then every candidate is simulated on all of the input under each \
                of the three seeds, also on what was held out of the search, and the best of them is the truth. Regret \
                is by what part the pick is worse: in the figure that is to be as good as can be, else in the margin \
                of the bounds, or in how far the worst of them is broken. Effort is in simulations of the whole input. \
                The quick scale has the first three, with fewer packets.",
            columns: COLUMNS,
        }
    }

    fn version(&self) -> u32 {
        2
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.pick(FEW, SCENARIOS.len())
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let scenario = &SCENARIOS[part];
        let packets = scale.of(PACKETS);
        let held = hold(&RecommendOptions {
            config: scenario.config(packets, seed)?,
            goal: scenario.goal.parse()?,
            policies: Vec::new(),
            packets,
            budget: None,
            threads: NonZeroUsize::MIN,
            size: false,
            baseline: None,
            elsewhere: None,
        })?;
        Ok(vec![row(scenario, held)])
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let all = data.len();
        let near = data.rows().filter(|row| row.number("regret") <= NEARLY).count();
        let needed = (OFTEN * all as f64).ceil() as usize;
        let sum = |column: &str| data.rows().total(column);
        let worst = data.rows().max_by(|one, other| one.number("regret").total_cmp(&other.number("regret")));
        let worst = worst.map_or(String::new(), |row| {
            format!("; the worst is {} % worse, in {}", short(100.0 * row.number("regret")), row.text("scenario"))
        });
        let broken = data.rows_of("kept", "broken").count();
        let enough = data.rows().filter(|row| row.number("hashing_margin") >= 0.0).count();
        vec![
            Note::new(
                format!("the pick is within {} % of the best", short(100.0 * NEARLY)),
                format!("the aim: in at least {needed} of {all} scenarios"),
                format!("in {near}{worst}"),
            ),
            Note::new(
                "effort of the search, of that of trying everything",
                "",
                format!("{} %", short(100.0 * sum("searched_inputs") / sum("exhausted_inputs"))),
            ),
            Note::new("scenarios whose goal no policy keeps", "", broken.to_string()),
            Note::new("scenarios whose goal plain hashing keeps", "", enough.to_string()),
        ]
    }

    fn plots(&self, data: &Table) -> Plots {
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
