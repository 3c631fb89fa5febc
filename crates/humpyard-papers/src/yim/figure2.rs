//! Content-based scheduling: which thread of a network processor gets which cell of a frame.

use humpyard_core::packet::Part;
use humpyard_core::random::Seed;

use super::machine::{Came, PartCost, Trial, run};
use crate::harness::{
    About, Bound, Experiment, Plots, Range, Row, Rows, Scale, Table, Verdict, listed, rows, short, whole,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Line, LinePlot};

/// Figure 2: throughput over the length of frames, and how even the load of the elements is.
pub(super) struct Figure2;

/// Bytes of a cell.
const CELL_BYTES: usize = 64;
/// Cells of the longest frame, of 1536 bytes.
const CELLS: usize = 24;
/// Threads of an element.
const THREADS: usize = 4;
/// Frames of a run.
const FRAMES: (usize, usize) = (1_000, 40_000);

/// What elements take to compute a frame of one cell, in ns: less than to begin a longer frame, as much, and more.
const SINGLES: [u64; 3] = [2_400, 3_000, 3_800];

/// The IXP1200, with the specification's unit of time at 20 cycles of 200 MHz.
fn cost(part: Part, single_compute: u64) -> PartCost {
    match part {
        Part::Whole => PartCost { compute: single_compute, memory: 4_000 },
        Part::First => PartCost { compute: 3_000, memory: 3_000 },
        Part::Middle => PartCost { compute: 800, memory: 1_200 },
        Part::Last => PartCost { compute: 1_600, memory: 2_000 },
    }
}

/// The policies of the figure: in turn, the least load, and that with a look at the last choice.
const SS: &str = "ss";
const ML: &str = "ml";
const MLP: &str = "mlp";
const MLP_LARGE: &str = "mlp:alpha=3";
const POLICIES: [&str; 5] = [SS, ML, MLP, MLP_LARGE, "fcfs-thread"];

rows! {
    COLUMNS, fn row(policy: &str, place: (usize, u64), cells: usize, frames: usize, came: &Came) {
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

/// What is run together: elements, and what a frame of one cell takes.
const PLACES: [(usize, u64); 5] = [(2, SINGLES[0]), (2, SINGLES[1]), (2, SINGLES[2]), (3, SINGLES[0]), (6, SINGLES[0])];

/// The figure's own.
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

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let main = Found { data, place: MAIN };
        let mut verdicts =
            vec![main.fall(), Found { data, place: PLACES[1] }.fall(), Found { data, place: PLACES[2] }.fall()];
        verdicts.extend([PLACES[0], PLACES[3], PLACES[4]].map(|place| Found { data, place }.dips()));
        verdicts.push(main.rises());
        verdicts.extend([2, 4].map(|cells| main.at_least(ML, SS, cells, 1.2)));
        verdicts.push(main.everywhere(MLP, ML, 0.98));
        verdicts.extend([1, 2, 3].map(|cells| main.similar(cells)));
        verdicts.push(main.fades());
        verdicts.push(main.too_large());
        verdicts.extend([SS, ML, MLP].map(|policy| main.beside(policy)));
        verdicts.extend([SS, ML, MLP].map(|policy| main.balance(policy)));
        verdicts.push(main.gigabit());
        verdicts
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

/// What policies came to with so many elements and such a cost of a frame of one cell.
#[derive(Clone, Copy)]
struct Found<'a> {
    data: &'a Table,
    place: (usize, u64),
}

/// Throughputs of the specification, in bits for each of its units of time of 100 ns, by cells.
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

    /// Throughput, in Mbit/s.
    fn rate(self, policy: &'a str, cells: usize) -> f64 {
        self.value(policy, cells, "mbit_per_s")
    }

    fn ratio(self, policy: &'a str, other: &'a str, cells: usize) -> f64 {
        self.rate(policy, cells) / self.rate(other, cells)
    }

    fn line(self, policy: &'a str, column: &str, what: &str) -> Line {
        self.rows(policy).line(format!("{policy}{what}"), "bytes", column)
    }

    /// In turn, two cells are slower than one if one alone takes less to compute than the first of two.
    fn fall(self) -> Verdict {
        let (one, two) = (self.rate(SS, 1), self.rate(SS, 2));
        let begins = cost(Part::First, 0).compute;
        let claim =
            format!("{SS}: two cells over one, where one alone takes {} us to compute", self.place.1 as f64 / 1e3);
        let measured = short(two / one);
        if self.place.1 < begins {
            Verdict::of(claim, "less than 1", measured, two < one)
        } else {
            Verdict::of(claim, "at least 1: no fall (to a thousandth)", measured, two / one >= 0.999)
        }
    }

    /// In turn, frames of some lengths are slower than those of a cell less and of a cell more: those that begin on the
    /// same element all the time. With six elements others are, too, that have a divisor in common with these.
    fn dips(self) -> Verdict {
        let elements = self.place.0;
        let is_dip = |&cells: &usize| {
            [cells - 1, cells + 1].into_iter().all(|other| self.rate(SS, cells) < self.rate(SS, other))
        };
        let dips: Vec<usize> = (2..CELLS).filter(is_dip).collect();
        let expected: Vec<usize> = (2..CELLS).filter(|cells| cells % elements == 0).collect();
        let text = |cells: &[usize]| cells.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let claim = format!("{SS}: numbers of cells that are slower than one less and one more, {elements} elements");
        let said = format!("the multiples of {elements}: {}", text(&expected));
        if elements == 6 {
            let holds = expected.iter().all(|cells| dips.contains(cells));
            return Verdict::of(claim, format!("{said}, and others with a divisor in common"), text(&dips), holds);
        }
        Verdict::of(claim, said, text(&dips), dips == expected)
    }

    fn rises(self) -> Verdict {
        let fall = (2..=CELLS).find(|&cells| self.rate(ML, cells) < self.rate(ML, cells - 1));
        let measured = fall.map_or_else(
            || format!("it does, from 1 to {CELLS}"),
            |cells| format!("not from {} to {cells}", cells - 1),
        );
        Verdict::of(format!("{ML}: throughput rises with the number of cells"), "always", measured, fall.is_none())
    }

    fn at_least(self, policy: &'a str, other: &'a str, cells: usize, least: f64) -> Verdict {
        let ratio = self.ratio(policy, other, cells);
        let claim = format!("throughput of {policy} over that of {other}, {cells} cells");
        Verdict::bounded(claim, Bound::AtLeast(least), ratio)
    }

    fn everywhere(self, policy: &'a str, other: &'a str, least: f64) -> Verdict {
        let worst = (1..=CELLS).map(|cells| self.ratio(policy, other, cells)).fold(f64::INFINITY, f64::min);
        let claim = format!("throughput of {policy} over that of {other}, the least of all lengths");
        Verdict::bounded(claim, Bound::AtLeast(least), worst)
    }

    /// The paper finds no difference below 256 bytes, which holds but for two cells.
    fn similar(self, cells: usize) -> Verdict {
        let ratio = self.ratio(ML, SS, cells);
        let claim = format!("throughput of {ML} over that of {SS}, {cells} cells");
        if cells == 2 {
            return Verdict::measured(claim, "about 1 (paper)", short(ratio));
        }
        Verdict::of(claim, "0.95 to 1.05: similar below 256 bytes", short(ratio), (0.95..=1.05).contains(&ratio))
    }

    fn fades(self) -> Verdict {
        let ratios = [8, 16, 24].map(|cells| self.ratio(ML, SS, cells));
        let text = listed(ratios);
        let falls = ratios.is_sorted_by(|before, after| after < before);
        Verdict::of(
            format!("throughput of {ML} over that of {SS}, 8, 16 and 24 cells"),
            "towards 1",
            text,
            falls && ratios[2] > 1.0,
        )
    }

    /// A penalty as great as the greatest load is as good as going in turn.
    fn too_large(self) -> Verdict {
        let ratio = self.ratio(MLP_LARGE, SS, 2);
        let claim = format!("{MLP_LARGE}: throughput over that of {SS}, 2 cells");
        Verdict::of(claim, "0.9 to 1.05: as if in turn", short(ratio), (0.9..=1.05).contains(&ratio))
    }

    fn beside(self, policy: &'a str) -> Verdict {
        let said = SPECIFIED.iter().find(|(known, _)| *known == policy).map_or([0.0; 7], |(_, rates)| *rates);
        let list = |values: [f64; 7]| values.map(|value| format!("{value:.1}")).join(" ");
        Verdict::measured(
            format!("{policy}: bits in 100 ns, {SPECIFIED_CELLS:?} cells"),
            format!("{} (the specification's prototype)", list(said)),
            list(SPECIFIED_CELLS.map(|cells| self.rate(policy, cells) / 10.0)),
        )
    }

    fn balance(self, policy: &'a str) -> Verdict {
        let spread =
            |cells| self.value(policy, cells, "utilization_max") - self.value(policy, cells, "utilization_min");
        let of = |column: &str| listed([2, 4, 8, 16].map(|cells| self.value(policy, cells, column)));
        Verdict::measured(
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

    fn gigabit(self) -> Verdict {
        let least = (1..=CELLS).find(|&cells| self.rate(ML, cells) >= 1e3);
        let measured = least.map_or("never".to_owned(), |cells| format!("from {} bytes on", cells * CELL_BYTES));
        Verdict::measured(
            format!("{ML}: a gigabit in a second, with the unit of time we chose"),
            "above 1024 bytes (paper)",
            measured,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_holds, quick};

    #[test]
    fn claims_hold() {
        let data = quick(&Figure2);
        assert_holds(&Figure2, &data);
        assert_eq!(Figure2.plots(&data).len(), 3);
    }
}
