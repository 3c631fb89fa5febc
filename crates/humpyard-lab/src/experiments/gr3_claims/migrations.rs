//! How often clients go from processor to processor: GR3MP, whose frontlogs bind them, and SFS. PROPORTIONAL_SHARE section 4.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_sim::{ScheduleRequest, schedule};

use super::super::short;
use super::{About, Column, Experiment, PAPER, Row, Scale, Table, Verdict};
use crate::LabError;
use crate::plot::{Axis, Bar, BarGroup, BarPlot, Svg};

const POLICIES: [&str; 2] = ["gr3mp", "sfs"];
const PROCESSORS: [usize; 4] = [2, 4, 8, 16];
const CLIENTS: usize = 64;
/// The greatest weight: the clients of a run draw theirs from 1 to 40.
const WEIGHT_MAX: u64 = 40;
/// Draws of the weights.
const DRAWS: (u32, u32) = (20, 500);
/// Slots of each processor.
const SLOTS: usize = 5000;

const COLUMNS: [Column; 6] = [
    Column::text("policy"),
    Column::integer("processors"),
    Column::integer("draw"),
    Column::real("migrations_per_1000_slots"),
    Column::real("error_min"),
    Column::real("error_max"),
];

/// The experiment.
pub(super) struct Migrations;

impl Experiment for Migrations {
    fn about(&self) -> About {
        About {
            id: "gr3-migrations",
            paper: PAPER,
            figure: "section 3.2, against surplus fair scheduling",
            title: "how often clients change the processor",
            setting: "",
            description: "64 clients that are always ready, with weights drawn from 1 to 40. A migration is a client that is served by \
                          another processor than the last time; counted are those in 1000 slots of all processors together, in the mean \
                          of all draws, with a confidence interval of 95 %.",
        }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, _: Scale) -> usize {
        POLICIES.len() * PROCESSORS.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (policy, processors) = (POLICIES[part % POLICIES.len()], PROCESSORS[part / POLICIES.len()]);
        let rows = (0..scale.pick(DRAWS.0, DRAWS.1)).map(|draw| {
            // Both policies see the same clients.
            let mut random = seed.stream(&format!("gr3-migrations/{draw}"));
            let weight = |_| Weight::new(1 + random.below(WEIGHT_MAX) as u32).expect("positive");
            let found = schedule(&ScheduleRequest {
                policy: policy.parse()?,
                weights: (0..CLIENTS).map(weight).collect(),
                order: (0..CLIENTS).map(ClientId::from_index).collect(),
                processors,
                slots: SLOTS,
                ties: Ties::Lowest,
                seed,
            })?;
            let each = 1000.0 * migrations(&found.slots) as f64 / (SLOTS * processors) as f64;
            let (least, greatest) = (found.error_min.value(), found.error_max.value());
            Ok(vec![policy.into(), processors.into(), draw.into(), each.into(), least.into(), greatest.into()])
        });
        rows.collect()
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let of = |processors: usize| {
            let [ours, theirs] = POLICIES.map(|policy| mean(data, policy, processors));
            let text = |(mean, half): (f64, f64)| format!("{} ± {}", short(mean), short(half));
            Verdict::measured(
                format!("migrations in 1000 slots of {processors} processors"),
                "the paper has no figure",
                format!("gr3mp {}, sfs {}", text(ours), text(theirs)),
            )
        };
        PROCESSORS.into_iter().map(of).collect()
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let groups = PROCESSORS.into_iter().map(|processors| {
            let bar = |policy: &str| {
                let (mean, half) = mean(data, policy, processors);
                Bar { name: policy.to_owned(), value: mean, error: Some((mean - half, mean + half)) }
            };
            BarGroup { name: format!("{processors} processors"), bars: POLICIES.into_iter().map(bar).collect() }
        });
        let plot = BarPlot {
            title: "migrations in 1000 slots".to_owned(),
            description: "How often a client was served by another processor than the last time; error bars show 95 %."
                .to_owned(),
            value: Axis::linear("migrations", |migrations| format!("{migrations:.0}")),
            groups: groups.collect(),
        };
        vec![("migrations".to_owned(), plot.svg())]
    }
}

/// The mean over the draws, and half of its 95 % interval.
fn mean(data: &Table, policy: &str, processors: usize) -> (f64, f64) {
    let rows = data.rows_of("policy", policy).filter(|row| row.number("processors") == processors as f64);
    let found: Vec<f64> = rows.map(|row| row.number("migrations_per_1000_slots")).collect();
    let count = found.len() as f64;
    let mean = found.iter().sum::<f64>() / count;
    let squares: f64 = found.iter().map(|each| (each - mean).powi(2)).sum();
    (mean, 1.96 * (squares / (count - 1.0).max(1.0) / count).sqrt())
}

/// How often a client was served by another processor than the last time.
fn migrations(slots: &[Vec<Option<ClientId>>]) -> usize {
    let mut last = [None; CLIENTS];
    let served = slots.iter().flat_map(|slot| slot.iter().enumerate());
    let moved = served.filter(|&(processor, client)| {
        let before = client.and_then(|client| last[client.index()].replace(processor));
        before.is_some_and(|before| before != processor)
    });
    moved.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_service_is_no_migration() {
        let slots = [[Some(0), Some(1)], [Some(1), Some(0)], [None, Some(0)], [Some(2), Some(1)]];
        let slots: Vec<_> = slots.iter().map(|slot| slot.map(|client| client.map(ClientId)).to_vec()).collect();
        assert_eq!(migrations(&slots), 3);
    }
}
