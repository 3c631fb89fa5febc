//! Figure 6: how often sets of cores are rebuilt, with the cost and the benefit.

use humpyard_core::random::Seed;

use super::machine::{DecisionCost, Feed, MachineRun, Trial, run};
use super::paper::{FULL, PAPER, TOPOLOGY, drawn_seed};
use super::workload::{ALL, Cost, Workload};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Range, Row, Rows, Scale, Table, line, rows, short, split,
};
use humpyard_lab::{LabError, parse_topology};
use humpyard_plot::statistics::Statistic;
use humpyard_plot::{Axis, LinePlot, Point, Svg};

pub(super) struct BetaSweep;

/// Draws of traffic. The films that share cores differ in each draw.
const DRAWS: usize = 10;
/// Packets of a quick run.
const QUICK_PACKETS: u64 = 15_000;

/// Relative changes of a connection's bytes at which its set is rebuilt.
const BETAS: [f64; 8] = [0.0, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28];
/// The paper's choice.
const CHOSEN: f64 = 0.16;
/// Values between which all are equally good.
const PLATEAU: [f64; 4] = [0.04, 0.08, 0.16, 0.32];
/// Cost of decisions, in ns: about that on a server core of 2.6 GHz.
const DECISION: DecisionCost = DecisionCost { packet: 50, rebuild: 200 };
/// Rules for the core that gets the rest of a connection's part.
const RESIDUALS: [&str; 2] = ["capacity", "literal"];

rows! {
    COLUMNS, fn row(
        workload: Workload, residual: &str, draw: usize, beta: f64, came: &MachineRun, free: &MachineRun, packets: usize
    ) {
        text workload = workload.name(), text residual = residual, integer draw = draw, real beta = beta,
        real throughput_per_s = came.summary.throughput_pps,
        real throughput_without_cost_per_s = free.summary.throughput_pps,
        real rebuilds_per_packet = came.rebuilt as f64 / packets as f64,
    }
}

impl Experiment for BetaSweep {
    fn about(&self) -> About {
        About {
            id: "ps-hrw-fig6",
            figure: "figure 6",
            title: "throughput by how much a connection changes before its cores are chosen anew",
            setting: super::figures::SETTING,
            description: "A decision takes 50 ns of the core that gets the packet, a set of cores that is built anew \
                200 ns more. Without that cost the best is to choose anew for every packet. The paper chose 16 %.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        ALL.len() * DRAWS
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (workload, draw) = split(part, &ALL);
        let seed = drawn_seed(seed, draw);
        let offered =
            workload.offered(Cost::Model, workload.packets(scale).min(scale.pick(QUICK_PACKETS, u64::MAX)), seed)?;
        let topology = parse_topology(TOPOLOGY)?;
        let places = RESIDUALS.into_iter().flat_map(|residual| BETAS.map(|beta| (residual, beta)));
        let rows = places.map(|(residual, beta)| {
            let policy = format!("ps-hrw:beta={beta},residual={residual}");
            let trial =
                Trial { policy: &policy, feed: Feed::Saturated(FULL), ..Trial::on(&topology, seed).of(&offered) };
            let came = run(&Trial { decision: DECISION, ..trial })?;
            let free = run(&trial)?;
            Ok(row(workload, residual, draw, beta, &came, &free, offered.packets.len()))
        });
        rows.collect()
    }

    fn version(&self) -> u32 {
        2
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let sweeps = ALL.into_iter().flat_map(|workload| RESIDUALS.map(|residual| Sweep { data, workload, residual }));
        sweeps.flat_map(|sweep| sweep.notes()).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        vec![
            ("throughput".to_owned(), plot(data, "throughput over that at 16 %", |sweep, beta| sweep.relative(beta))),
            (
                "rebuilds".to_owned(),
                plot(data, "sets built for each packet", |sweep, beta| sweep.statistic(beta, "rebuilds_per_packet")),
            ),
        ]
    }
}

/// All values of beta with one workload and one rule for the rest.
#[derive(Clone, Copy)]
struct Sweep<'a> {
    data: &'a Table,
    workload: Workload,
    residual: &'a str,
}

impl Sweep<'_> {
    /// Returns the rows at this beta, draw by draw.
    fn rows(&self, beta: f64) -> impl Rows<'_> {
        self.data.rows_of("workload", self.workload.name()).of("residual", self.residual).at("beta", beta)
    }

    /// Returns a column at this beta, draw by draw.
    fn values(&self, beta: f64, column: &str) -> Vec<f64> {
        self.rows(beta).numbers(column).collect()
    }

    fn statistic(&self, beta: f64, column: &str) -> Statistic {
        self.rows(beta).statistic(column)
    }

    /// Returns the throughput at this beta relative to the best, draw by draw.
    fn of_best(&self, beta: f64) -> Statistic {
        let all = BETAS.map(|beta| self.values(beta, "throughput_per_s"));
        let best = |draw: usize| all.iter().map(|values| values[draw]).fold(0.0, f64::max);
        let found = self.values(beta, "throughput_per_s");
        Statistic::of(found.iter().enumerate().map(|(draw, found)| found / best(draw)).collect())
            .expect("every draw has every beta")
    }

    /// Returns the throughput at this beta relative to that at the paper's, draw by draw.
    fn relative(&self, beta: f64) -> Statistic {
        let (found, chosen) = (self.values(beta, "throughput_per_s"), self.values(CHOSEN, "throughput_per_s"));
        Statistic::of(found.iter().zip(&chosen).map(|(found, chosen)| found / chosen).collect())
            .expect("every draw has every beta")
    }

    fn name(&self) -> String {
        format!("{}, {}", self.workload.name(), self.residual)
    }

    /// Returns the beta with the greatest median of a column.
    fn best(&self, column: &str) -> f64 {
        let median = |beta: f64| self.statistic(beta, column).median;
        BETAS.into_iter().fold(BETAS[0], |best, beta| if median(beta) > median(best) { beta } else { best })
    }

    fn notes(&self) -> [Note; 3] {
        let name = self.name();
        let median = |beta| short(self.of_best(beta).median);
        let free = short(self.best("throughput_without_cost_per_s"));
        [
            Note::new(
                format!("{name}: throughput over the best, beta 0.04 to 0.32"),
                "",
                PLATEAU.map(median).join(", "),
            ),
            Note::new(format!("{name}: throughput over the best, beta 1.28"), "", median(BETAS[BETAS.len() - 1])),
            Note::new(format!("{name}: the best beta if decisions cost nothing"), "", free),
        ]
    }
}

/// Returns the sweeps of the judged policy.
fn judged(data: &Table) -> [Sweep<'_>; 4] {
    ALL.map(|workload| Sweep { data, workload, residual: RESIDUALS[0] })
}

static FIGURES: [Figure; 2] = [
    Figure {
        claim: "ps-hrw-beta-rebuilds",
        of: |data| {
            let greatest_rise = |sweep: Sweep<'_>| {
                let built = BETAS.map(|beta| sweep.statistic(beta, "rebuilds_per_packet").median);
                Range::of(built.windows(2).map(|pair| pair[1] - pair[0])).greatest
            };
            judged(data).map(greatest_rise).into()
        },
    },
    Figure {
        claim: "ps-hrw-fig6-best-beta",
        of: |data| judged(data).map(|sweep| sweep.best("throughput_per_s")).into(),
    },
];

fn plot(data: &Table, title: &str, of: impl Fn(&Sweep<'_>, f64) -> Statistic) -> Svg {
    let sweeps = ALL.into_iter().flat_map(|workload| RESIDUALS.map(|residual| Sweep { data, workload, residual }));
    let over_beta = |sweep: Sweep<'_>| {
        let points = BETAS.into_iter().filter(|&beta| beta > 0.0).map(|beta| {
            let found = of(&sweep, beta);
            Point { x: beta, y: found.median, error: Some((found.min, found.max)) }
        });
        line(sweep.name(), points)
    };
    LinePlot {
        title: title.to_owned(),
        description: "Over beta, by which part the bytes of a connection change before its cores are chosen anew."
            .to_owned(),
        x: Axis::logarithmic("beta", |beta| format!("{beta:.2}")),
        y: Axis::linear(title, |number| format!("{number:.2}")),
        lines: sweeps.map(over_beta).collect(),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Value;
    use crate::harness::testing::parts;

    #[test]
    fn the_best_is_where_throughput_is_greatest() {
        let rows = ALL.into_iter().flat_map(|workload| {
            BETAS.map(|beta| {
                let mut row: Row = vec![workload.name().into(), "capacity".into(), 1u32.into()];
                row.extend([beta, -(beta - 0.3).abs(), 1.0, 1.0 - beta / 2.0].map(Value::from));
                row
            })
        });
        let data = Table::of(COLUMNS, rows);
        let [rebuilds, best] = &FIGURES;
        assert_eq!((best.of)(&data), [0.32; 4]);
        let rises = (rebuilds.of)(&data);
        assert!(rises.iter().all(|rise| (rise + 0.01).abs() < 1e-9), "the least fall: {rises:?}");
    }

    /// EXPERIMENTS section 4: flat up to 0.32, and less at 1.28.
    #[test]
    fn traces_are_as_good_over_a_wide_range() {
        let data = parts(&BetaSweep, [0]);
        for residual in RESIDUALS {
            let sweep = Sweep { data: &data, workload: ALL[0], residual };
            let of_best = |beta| sweep.of_best(beta).median;
            assert!(PLATEAU.into_iter().all(|beta| of_best(beta) >= 0.98), "{residual}");
            assert!(of_best(BETAS[BETAS.len() - 1]) <= 0.985, "{residual}");
        }
    }
}
