//! Content-based scheduling: which thread of a network processor gets which cell of a frame.

use humpyard_core::packet::Part;
use humpyard_core::random::Seed;

use super::machine::{PartCost, ThreadRun, Trial, run};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Range, Row, Rows, Scale, Table, listed, mean, rows, whole,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Line, LinePlot};

/// Figure 2: throughput over frame length, and how even the load of the elements is.
pub(super) struct Figure2;

/// Length of a cell, in bytes.
const CELL_BYTES: usize = 64;
/// Number of cells of the longest frame, of 1536 bytes.
const CELLS: usize = 24;
/// Number of threads of an element.
const THREADS: usize = 4;
/// Frames of a run.
const FRAMES: (usize, usize) = (1_000, 40_000);

/// Compute times of a frame of one cell, in ns: less than that of a longer frame's first cell, equal to it, and
/// more.
const SINGLES: [u64; 3] = [2_400, 3_000, 3_800];

/// Returns the costs on the IXP1200; the specification's unit of time is 20 cycles of 200 MHz.
fn cost(part: Part, single_compute: u64) -> PartCost {
    match part {
        Part::Whole => PartCost { compute: single_compute, memory: 4_000 },
        Part::First => PartCost { compute: 3_000, memory: 3_000 },
        Part::Middle => PartCost { compute: 800, memory: 1_200 },
        Part::Last => PartCost { compute: 1_600, memory: 2_000 },
    }
}

/// The policies of the figure: in turn, least load, and least load with regard to the last choice.
const SS: &str = "ss";
const ML: &str = "ml";
const MLP: &str = "mlp";
const MLP_LARGE: &str = "mlp:alpha=3";
const POLICIES: [&str; 5] = [SS, ML, MLP, MLP_LARGE, "fcfs-thread"];

rows! {
    COLUMNS, fn row(policy: &str, place: (usize, u64), cells: usize, frames: usize, came: &ThreadRun) {
        let (elements, single_compute) = place;
        let makespan = came.makespan.as_ns() as f64;
        let utilization = Range::of(came.computed.iter().map(|time| time.as_ns() as f64 / makespan));
        let first = Range::of(came.first.iter().map(|&count| count as f64 / frames as f64));
        let bytes = cells * CELL_BYTES;
    } => {
        text policy = policy, integer elements = elements, integer single_compute_ns = single_compute,
        integer cells = cells, integer bytes = bytes, real mbit_per_s = 8e3 * (frames * bytes) as f64 / makespan,
        real utilization_min = utilization.least, real utilization_max = utilization.greatest,
        real first_share_min = first.least, real first_share_max = first.greatest,
        real blocked_percent = 100.0 * came.blocked.as_ns() as f64 / makespan,
    }
}

/// The settings: the number of elements, and the compute time of a frame of one cell.
const PLACES: [(usize, u64); 5] = [(2, SINGLES[0]), (2, SINGLES[1]), (2, SINGLES[2]), (3, SINGLES[0]), (6, SINGLES[0])];

/// The figure's own setting.
const MAIN: (usize, u64) = PLACES[0];

fn run_row(policy: &str, place: (usize, u64), cells: usize, frames: usize) -> Result<Row, LabError> {
    let (elements, single_compute) = place;
    let came = run(&Trial { policy, elements, threads: THREADS, cells, frames, cost, single_compute })?;
    Ok(row(policy, place, cells, frames, &came))
}

impl Experiment for Figure2 {
    fn about(&self) -> About {
        About {
            id: "yim-fig2",
            paper: "Yim. Evaluation of the content-based packet scheduling policies on the multithreaded \
                multiprocessor network system.",
            figure: "figure 2 and section 2",
            title: "throughput of a network processor that cuts frames into cells",
            setting: "",
            description: "The paper's IXP1200 is a model: elements of four threads, of which one at a time computes \
                while the others wait for memory. To compute a cell that begins a frame takes 3 us, one in its middle \
                0.8 us, one that ends it 1.6 us, and a frame of one cell 2.4 us; after that each waits for memory, 3, \
                1.2, 2 and 4 us. The end of a frame is computed after its beginning. Cells of frames of one length \
                come as soon as a thread is idle. The load of an element is the part of the time in which it computes.",
            columns: COLUMNS,
        }
    }

    fn parts(&self, _: Scale) -> usize {
        PLACES.len()
    }

    fn run(&self, part: usize, scale: Scale, _: Seed) -> Result<Vec<Row>, LabError> {
        let frames = scale.of(FRAMES);
        let lengths = POLICIES.iter().flat_map(|policy| (1..=CELLS).map(move |cells| (policy, cells)));
        lengths.map(|(policy, cells)| run_row(policy, PLACES[part], cells, frames)).collect()
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let main = Found { data, place: MAIN };
        let of_each = [SS, ML, MLP].into_iter().flat_map(|policy| [main.beside(policy), main.balance(policy)]);
        of_each.chain([main.gigabit()]).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let main = Found { data, place: MAIN };
        let plot = |title: &str, label: &str, format: fn(f64) -> String, columns: &[(&str, &str)]| {
            let lines =
                POLICIES.iter().flat_map(|policy| columns.iter().map(|(column, what)| main.line(policy, column, what)));
            LinePlot {
                title: title.to_owned(),
                description: "Two elements of four threads; frames of one length.".to_owned(),
                x: whole("bytes of a frame"),
                y: Axis::linear(label, format),
                lines: lines.collect(),
            }
            .svg()
        };
        let part = |part: f64| format!("{part:.2}");
        vec![
            ("throughput".to_owned(), plot("throughput", "Mbit/s", |rate| format!("{rate:.0}"), &[("mbit_per_s", "")])),
            (
                "balance".to_owned(),
                plot(
                    "load of the elements",
                    "time that an element computes",
                    part,
                    &[("utilization_min", ", least"), ("utilization_max", ", greatest")],
                ),
            ),
            (
                "first".to_owned(),
                plot(
                    "cells that begin a frame",
                    "of them on the element that has most",
                    part,
                    &[("first_share_max", "")],
                ),
            ),
        ]
    }
}

/// The results of policies with this number of elements, and this compute time of a frame of one cell.
#[derive(Clone, Copy)]
struct Found<'a> {
    data: &'a Table,
    place: (usize, u64),
}

/// The specification's throughputs, in bits per unit of time of 100 ns, by cells.
const SPECIFIED_CELLS: [usize; 7] = [1, 2, 3, 4, 6, 8, 16];
const SPECIFIED: [(&str, [f64; 7]); 3] = [
    (SS, [42.6, 34.1, 54.8, 53.9, 66.8, 68.2, 91.0]),
    (ML, [42.6, 43.2, 55.7, 66.0, 76.8, 86.9, 103.5]),
    (MLP, [42.6, 44.5, 55.7, 66.0, 76.8, 86.9, 103.5]),
];

impl<'a> Found<'a> {
    fn rows(self, policy: &'a str) -> impl Rows<'a> {
        let (elements, single) = self.place;
        let rows = self.data.rows_of("policy", policy);
        rows.at("elements", elements as f64).at("single_compute_ns", single as f64)
    }

    fn value(self, policy: &'a str, cells: usize, column: &str) -> f64 {
        self.rows(policy).at("cells", cells as f64).next().expect("every length is there").number(column)
    }

    /// Returns the throughput, in Mbit/s.
    fn rate(self, policy: &'a str, cells: usize) -> f64 {
        self.value(policy, cells, "mbit_per_s")
    }

    fn ratio(self, policy: &'a str, other: &'a str, cells: usize) -> f64 {
        self.rate(policy, cells) / self.rate(other, cells)
    }

    fn line(self, policy: &'a str, column: &str, what: &str) -> Line {
        self.rows(policy).line(format!("{policy}{what}"), "bytes", column)
    }

    /// Returns the ratios of two policies at these lengths.
    fn ratios(self, policy: &'a str, other: &'a str, cells: impl IntoIterator<Item = usize>) -> Vec<f64> {
        cells.into_iter().map(|cells| self.ratio(policy, other, cells)).collect()
    }

    /// Returns the mean difference in utilization between the busiest and the least busy element, over all
    /// lengths.
    fn imbalance(self, policy: &'a str) -> f64 {
        self.rows(policy).mean("utilization_max") - self.rows(policy).mean("utilization_min")
    }

    fn beside(self, policy: &'a str) -> Note {
        let said = SPECIFIED.iter().find(|(known, _)| *known == policy).map_or([0.0; 7], |(_, rates)| *rates);
        let list = |values: [f64; 7]| values.map(|value| format!("{value:.1}")).join(" ");
        Note::new(
            format!("{policy}: bits in 100 ns, {SPECIFIED_CELLS:?} cells"),
            format!("{} (the specification's prototype)", list(said)),
            list(SPECIFIED_CELLS.map(|cells| self.rate(policy, cells) / 10.0)),
        )
    }

    fn balance(self, policy: &'a str) -> Note {
        let spread =
            |cells| self.value(policy, cells, "utilization_max") - self.value(policy, cells, "utilization_min");
        let of = |column: &str| listed([2, 4, 8, 16].map(|cells| self.value(policy, cells, column)));
        Note::new(
            format!("{policy}: load balance with 2, 4, 8 and 16 cells"),
            "even under ml and mlp (paper, without a number)",
            format!(
                "greatest less least load {}; the element that has most has {} of the cells that begin a frame; {} % \
                    of the time a cell waits while a thread is idle",
                listed([2, 4, 8, 16].map(spread)),
                of("first_share_max"),
                of("blocked_percent")
            ),
        )
    }

    fn gigabit(self) -> Note {
        let least = (1..=CELLS).find(|&cells| self.rate(ML, cells) >= 1e3);
        let measured = least.map_or("never".to_owned(), |cells| format!("from {} bytes on", cells * CELL_BYTES));
        Note::new(
            format!("{ML}: a gigabit in a second, with the unit of time we chose"),
            "above 1024 bytes (paper)",
            measured,
        )
    }
}

/// Cells of frames longer than 256 bytes.
const LARGE: core::ops::RangeInclusive<usize> = 5..=CELLS;
/// Cells of frames shorter than 256 bytes, except two cells, at which static scheduling is slow.
const SMALL_BUT_TWO: [usize; 2] = [1, 3];
/// Cells of frames shorter than 256 bytes.
const SMALL: core::ops::RangeInclusive<usize> = 1..=3;

/// Returns the results with the figure's own elements.
fn main_of(data: &Table) -> Found<'_> {
    Found { data, place: MAIN }
}

static FIGURES: [Figure; 6] = [
    Figure {
        claim: "yim-above-ss",
        of: |data| [ML, MLP].map(|policy| Range::of(main_of(data).ratios(policy, SS, LARGE)).least).into(),
    },
    Figure {
        claim: "yim-similar-below-256",
        of: |data| [ML, MLP].into_iter().flat_map(|policy| main_of(data).ratios(policy, SS, SMALL_BUT_TWO)).collect(),
    },
    Figure { claim: "yim-ss-falls-at-two", of: |data| vec![main_of(data).rate(SS, 1) / main_of(data).rate(SS, 2)] },
    Figure {
        claim: "yim-fall-from-two-elements",
        of: |data| {
            let rises = |place| Found { data, place }.rate(SS, 2) / Found { data, place }.rate(SS, 1);
            [PLACES[3], PLACES[4]].map(rises).into()
        },
    },
    Figure {
        claim: "yim-larger-gain-more",
        of: |data| {
            let gain = |cells| mean(&main_of(data).ratios(MLP, SS, cells));
            vec![gain(LARGE) / gain(SMALL)]
        },
    },
    Figure { claim: "yim-balance", of: |data| vec![main_of(data).imbalance(SS) / main_of(data).imbalance(MLP)] },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&Figure2);
        assert_expected(&Figure2, &data);
        assert_eq!(Figure2.plots(&data).len(), 3);
    }

    /// In turn, two cells are slower than one only if a single cell takes less to compute than the first of
    /// two. Dips are at the multiples of the number of elements.
    #[test]
    fn going_in_turn_has_dips() {
        let data = quick(&Figure2);
        for place in [PLACES[1], PLACES[2]] {
            let found = Found { data: &data, place };
            assert!(found.rate(SS, 2) / found.rate(SS, 1) >= 0.999, "{place:?}");
        }
        for place in [PLACES[0], PLACES[3], PLACES[4]] {
            let found = Found { data: &data, place };
            let is_dip = |&cells: &usize| {
                [cells - 1, cells + 1].into_iter().all(|other| found.rate(SS, cells) < found.rate(SS, other))
            };
            let dips: Vec<usize> = (2..CELLS).filter(is_dip).collect();
            let multiples: Vec<usize> = (2..CELLS).filter(|cells| cells % place.0 == 0).collect();
            // Six elements have further dips, at lengths that share a divisor with these.
            let is_so = if place.0 == 6 { multiples.iter().all(|at| dips.contains(at)) } else { dips == multiples };
            assert!(is_so, "{place:?}: {dips:?}");
        }
    }

    #[test]
    fn the_least_load_is_better_than_going_in_turn() {
        let data = quick(&Figure2);
        let main = main_of(&data);
        assert!((2..=CELLS).all(|cells| main.rate(ML, cells) >= main.rate(ML, cells - 1)), "it rises throughout");
        assert!([2, 4].into_iter().all(|cells| main.ratio(ML, SS, cells) >= 1.2));
        assert!((1..=CELLS).all(|cells| main.ratio(MLP, ML, cells) >= 0.98));
        let fading = main.ratios(ML, SS, [8, 16, 24]);
        assert!(fading.is_sorted_by(|before, after| after < before) && fading[2] > 1.0, "{fading:?}");
        let as_in_turn = main.ratio(MLP_LARGE, SS, 2);
        assert!((0.9..=1.05).contains(&as_in_turn), "a penalty as great as the greatest load: {as_in_turn}");
    }
}
