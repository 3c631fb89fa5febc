//! How often clients migrate between processors: GR3MP, whose frontlogs bind them, and SFS. PROPORTIONAL_SHARE
//! section 4.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::random::Seed;

use super::super::paper::PAPER;
use super::super::scheduled::{scheduled, weights};
use crate::harness::{
    About, Column, Experiment, Note, Plots, Row, Rows, Scale, Table, columns, group, mean, short, whole,
};
use humpyard_lab::LabError;
use humpyard_plot::{Bar, BarPlot};

const POLICIES: [&str; 2] = ["gr3mp", "sfs"];
const PROCESSORS: [usize; 4] = [2, 4, 8, 16];
const CLIENTS: usize = 64;
/// The greatest weight: clients draw weights from 1 to 40.
const WEIGHT_MAX: u64 = 40;
/// Draws of the weights.
const DRAWS: (u32, u32) = (20, 500);
/// Slots of each processor.
const SLOTS: usize = 5000;

const COLUMNS: &[Column] = columns![
    text policy, integer processors, integer draw, real migrations_per_1000_slots, real error_min, real error_max,
];

/// The experiment.
pub(super) struct Migrations;

impl Experiment for Migrations {
    fn about(&self) -> About {
        About {
            id: "gr3-migrations",
            figure: "section 6, against surplus fair scheduling",
            title: "how often clients change the processor",
            description: "64 clients that are always ready, with weights drawn from 1 to 40. A migration is a client \
                that is served by another processor than the last time; counted are those in 1000 slots of all \
                processors together, in the mean of all draws, with a confidence interval of 95 %.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        POLICIES.len() * PROCESSORS.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (policy, processors) = (POLICIES[part % POLICIES.len()], PROCESSORS[part / POLICIES.len()]);
        let rows = (0..scale.of(DRAWS)).map(|draw| {
            // Both policies get the same clients.
            let mut random = seed.stream(&format!("gr3-migrations/{draw}"));
            let weights = weights((0..CLIENTS).map(|_| 1 + random.below(WEIGHT_MAX) as u32));
            let found = scheduled(policy, &weights, processors, SLOTS, seed)?;
            let each = 1000.0 * migrations(&found.slots) as f64 / (SLOTS * processors) as f64;
            let (least, greatest) = (found.error_min.value(), found.error_max.value());
            Ok(vec![policy.into(), processors.into(), draw.into(), each.into(), least.into(), greatest.into()])
        });
        rows.collect()
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let of = |processors: usize| {
            let [ours, theirs] = POLICIES.map(|policy| mean_of(data, policy, processors));
            let text = |(mean, half)| format!("{} ± {}", short(mean), short(half));
            let found = format!("gr3mp {}, sfs {}", text(ours), text(theirs));
            Note::new(format!("migrations in 1000 slots of {processors} processors"), "", found)
        };
        PROCESSORS.map(of).into()
    }

    fn plots(&self, data: &Table) -> Plots {
        let groups = PROCESSORS.map(|processors| {
            let bars = POLICIES.map(|policy| {
                let (mean, half) = mean_of(data, policy, processors);
                Bar { name: policy.to_owned(), value: mean, error: Some((mean - half, mean + half)) }
            });
            group(format!("{processors} processors"), bars)
        });
        let plot = BarPlot {
            title: "migrations in 1000 slots".to_owned(),
            description: "How often a client was served by another processor than the last time; error bars show 95 %."
                .to_owned(),
            value: whole("migrations"),
            groups: groups.into(),
        };
        vec![("migrations".to_owned(), plot.svg())]
    }
}

/// Returns the mean over the draws, and half of its 95 % interval.
fn mean_of(data: &Table, policy: &str, processors: usize) -> (f64, f64) {
    let rows = data.rows_of("policy", policy).at("processors", processors as f64);
    let found: Vec<f64> = rows.numbers("migrations_per_1000_slots").collect();
    let (count, mean) = (found.len() as f64, mean(&found));
    let squares: f64 = found.iter().map(|each| (each - mean).powi(2)).sum();
    (mean, 1.96 * (squares / (count - 1.0).max(1.0) / count).sqrt())
}

/// Returns how often a client was served by another processor than the last time.
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
