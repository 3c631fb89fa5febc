//! How long a word takes from one core to another and back, and what it costs to go on with what another core has written.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use humpyard_runtime::{Seat, Thread};
use serde::Serialize;

use super::Steps;
use super::fit::{median, sorted};
use crate::LabError;
use humpyard_topology::{CoreTree, Ways};

/// Ways between cores.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Matrix {
    /// The processors, by the numbers of the system.
    pub processors: Vec<usize>,
    /// The median time of a round trip of a cache line from the one to the other and back, in ns: a row for each processor, 0
    /// to itself. Empty where only one processor is allowed.
    pub round_trip_ns: Vec<Vec<f64>>,
    /// What it takes longer to read and write [`HANDED_OVER`] bytes that the other has written last than one's own, in ns, by
    /// the median of each: likewise.
    pub hand_over_ns: Vec<Vec<f64>>,
}

/// Round trips that are timed together.
const TRIPS: u64 = 100;
/// Times that are taken at least.
const TIMES_MIN: usize = 11;
/// Bytes that are handed over: a long packet, with what is kept of its flow.
pub const HANDED_OVER: usize = 1536;
/// Bytes of a cache line.
const LINE: usize = 64;

/// A word in a cache line of its own, and in that of the neighbour that is fetched with it.
#[repr(align(128))]
struct Word(AtomicU64);

/// What is handed over: a word of each line is read and written.
#[repr(align(128))]
struct Lines([[AtomicU64; LINE / 8]; HANDED_OVER / LINE]);

impl Lines {
    fn new() -> Self {
        Self(core::array::from_fn(|_| core::array::from_fn(|_| AtomicU64::new(0))))
    }

    /// Reads and writes each line. Only one thread does at a time, so that no line needs to be locked.
    fn touch(&self) {
        for line in &self.0 {
            line[0].store(line[0].load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }
}

/// What the threads of a pair share.
struct Between {
    there: Word,
    back: Word,
    lines: Lines,
}

/// Tells the other thread to end.
const END: u64 = u64::MAX;
/// In a number that is sent: the other is to touch the lines before it answers.
const TOUCH: u64 = 1 << 62;

impl Between {
    fn new() -> Self {
        Self { there: Word(AtomicU64::new(0)), back: Word(AtomicU64::new(0)), lines: Lines::new() }
    }

    /// Answers each number with the same, until the end is sent.
    fn answer(&self, processor: usize) {
        let _seated = seat(processor).take();
        let mut last = 0;
        loop {
            let word = self.there.0.load(Ordering::Acquire);
            match word {
                END => return,
                word if word == last => spin_loop(),
                word => {
                    last = word;
                    if word & TOUCH != 0 {
                        self.lines.touch();
                    }
                    self.back.0.store(word, Ordering::Release);
                }
            }
        }
    }

    /// Sends a number, and waits for the answer.
    fn ask(&self, number: u64) {
        self.there.0.store(number, Ordering::Release);
        while self.back.0.load(Ordering::Acquire) != number {
            spin_loop();
        }
    }

    /// The median time of a round trip.
    fn round_trip(&self, number: &mut u64, longest: Duration) -> f64 {
        let mut times = Vec::new();
        let started = Instant::now();
        // What comes first waits for the thread.
        while times.len() <= TIMES_MIN || started.elapsed() < longest {
            let began = Instant::now();
            for _ in 0..TRIPS {
                *number += 1;
                self.ask(*number);
            }
            times.push(began.elapsed().as_nanos() as f64 / TRIPS as f64);
        }
        median(&sorted(times.into_iter().skip(1)))
    }

    /// What the lines take longer that the other has touched.
    fn hand_over(&self, number: &mut u64, longest: Duration) -> f64 {
        let time = || {
            let began = Instant::now();
            self.lines.touch();
            began.elapsed().as_nanos() as f64
        };
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let started = Instant::now();
        while own.len() < TRIPS as usize || started.elapsed() < longest {
            own.push(time());
            *number += 1;
            self.ask(*number | TOUCH);
            others.push(time());
        }
        let median_of = |times: Vec<f64>| median(&sorted(times.into_iter().skip(1)));
        (median_of(others) - median_of(own)).max(0.0)
    }
}

pub(super) fn seat(processor: usize) -> Seat {
    Seat { thread: Thread::Worker(0), processor: Some(processor), shared: false }
}

/// Measures all pairs of these processors, for so long in all, if that is enough.
pub(super) fn measure(processors: &[usize], budget: Duration, steps: &mut Steps<'_>) -> Result<Matrix, LabError> {
    let count = if processors.len() > 1 { processors.len() } else { 0 };
    let rows = || vec![vec![0.0; count]; count];
    let mut matrix = Matrix { processors: processors.to_vec(), round_trip_ns: rows(), hand_over_ns: rows() };
    let pairs = (count * count.saturating_sub(1) / 2).max(1);
    let longest = budget / pairs as u32;
    for one in 0..count {
        for other in one + 1..count {
            steps.next("cores")?;
            let (round_trip, hand_over) = pair(processors[one], processors[other], longest);
            for (from, to) in [(one, other), (other, one)] {
                matrix.round_trip_ns[from][to] = round_trip;
                matrix.hand_over_ns[from][to] = hand_over;
            }
        }
    }
    Ok(matrix)
}

/// Round trip and hand-over between two processors.
fn pair(one: usize, other: usize, longest: Duration) -> (f64, f64) {
    alternate(one, other, |between| {
        let mut number = 0;
        (between.round_trip(&mut number, longest / 2), between.hand_over(&mut number, longest / 2))
    })
}

/// Measures on the one processor, while a thread on the other answers.
fn alternate<T>(one: usize, other: usize, measure: impl FnOnce(&Between) -> T) -> T {
    let between = Between::new();
    thread::scope(|scope| {
        scope.spawn(|| between.answer(other));
        let _seated = seat(one).take();
        let measured = measure(&between);
        between.there.0.store(END, Ordering::Release);
        measured
    })
}

/// Returns the longest time of a round trip from the first of these processors to those that this many workers are on,
/// in ns. `None`: they are on no other.
pub(super) fn round_trip(processors: &[usize], workers: usize) -> Option<f64> {
    let (&first, others) = processors.split_first()?;
    let of = |&other: &usize| alternate(first, other, |between| between.round_trip(&mut 0, Duration::ZERO));
    others.iter().take(workers).map(of).reduce(f64::max)
}

impl Matrix {
    /// The tree of these processors, with what was measured between them; `packet_ns` is what a packet takes that stays.
    ///
    /// # Errors
    /// The system does not tell of the processors, and there are too many of them.
    pub(super) fn topology(&self, packet_ns: f64, source: &str) -> Result<CoreTree, LabError> {
        let tree = CoreTree::machine().ok().filter(|tree| self.has_all_of(tree));
        let tree = tree.map_or_else(|| self.flat(), Ok)?;
        let place = |processor: &usize| self.processors.iter().position(|other| other == processor);
        let places: Vec<usize> = tree.processors.iter().filter_map(place).collect();
        let arranged = |rows: &[Vec<f64>]| -> Vec<Vec<f64>> {
            let value = |row: usize, column: usize| rows.get(row).map_or(0.0, |row| row[column]);
            places.iter().map(|&row| places.iter().map(|&column| value(row, column)).collect()).collect()
        };
        let ways = Ways {
            hand_over_ns: arranged(&self.hand_over_ns),
            packet_ns,
            round_trip_ns: Some(arranged(&self.round_trip_ns)),
        };
        Ok(CoreTree { source: source.to_owned(), ..tree }.with_ways(ways)?)
    }

    fn has_all_of(&self, tree: &CoreTree) -> bool {
        tree.processors.len() == self.processors.len()
            && tree.processors.iter().all(|processor| self.processors.contains(processor))
    }

    /// The processors as cores that have nothing in common but what is measured.
    fn flat(&self) -> Result<CoreTree, LabError> {
        let list: Vec<String> = self.processors.iter().map(ToString::to_string).collect();
        let text = format!("version = 1\nlevels = [{{ kind = \"core\" }}]\ncores = [{}]\n", list.join(", "));
        Ok(CoreTree::parse("calibrated", &text)?)
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;

    fn measured(processors: &[usize]) -> Matrix {
        let stop = AtomicBool::new(false);
        let mut silent = |_: usize, _: usize, _: &str| ();
        let mut steps = Steps::new(9, &stop, &mut silent);
        measure(processors, Duration::from_millis(5), &mut steps).unwrap()
    }

    #[test]
    fn one_core_has_no_neighbour() {
        let expected = Matrix { processors: vec![3], round_trip_ns: Vec::new(), hand_over_ns: Vec::new() };
        assert_eq!(measured(&[3]), expected);
    }

    #[test]
    fn each_way_is_the_same() {
        let processors = humpyard_runtime::processors();
        if let [one, other, ..] = processors[..] {
            let matrix = measured(&[one, other]);
            for rows in [&matrix.round_trip_ns, &matrix.hand_over_ns] {
                assert_eq!(rows[0][1], rows[1][0]);
                assert!(rows[0][0] == 0.0 && rows[1][1] == 0.0, "{matrix:?}");
            }
            assert!(matrix.round_trip_ns[0][1] > 0.0, "{matrix:?}");
        }
    }

    #[test]
    fn a_topology_has_what_was_measured_in_its_own_order() {
        // No machine has these processors.
        let matrix = Matrix {
            processors: vec![7000, 7002, 7004],
            round_trip_ns: vec![vec![0.0, 100.0, 300.0], vec![100.0, 0.0, 300.0], vec![300.0, 300.0, 0.0]],
            hand_over_ns: vec![vec![0.0, 50.0, 500.0], vec![50.0, 0.0, 500.0], vec![500.0, 500.0, 0.0]],
        };
        let tree = matrix.topology(1000.0, "made up").unwrap();
        assert_eq!((tree.processors.clone(), tree.source.as_str()), (vec![7000, 7002, 7004], "made up"));
        assert_eq!(tree.matrix()[0], [1.0, 1.05, 1.5]);
        assert_eq!(tree.ways.unwrap().round_trip_ns.unwrap()[2], [300.0, 300.0, 0.0]);
        let alone = Matrix { processors: vec![7000], round_trip_ns: Vec::new(), hand_over_ns: Vec::new() };
        assert_eq!(alone.topology(1000.0, "").unwrap().matrix(), [[1.0]]);
    }

    #[test]
    fn a_tree_of_this_machine_is_measured_in_the_order_of_the_tree() {
        let Ok(machine) = CoreTree::machine() else { return };
        let count = machine.processors.len();
        let mut processors = machine.processors.clone();
        processors.sort_unstable();
        let far =
            |row: usize, column: usize| if row == column { 0.0 } else { (processors[row] + processors[column]) as f64 };
        let rows: Vec<Vec<f64>> = (0..count).map(|row| (0..count).map(|column| far(row, column)).collect()).collect();
        let matrix = Matrix { processors: processors.clone(), round_trip_ns: rows.clone(), hand_over_ns: rows };
        let tree = matrix.topology(1000.0, "").unwrap();
        assert_eq!(tree.processors, machine.processors);
        for (row, costs) in tree.matrix().iter().enumerate() {
            for (column, &cost) in costs.iter().enumerate().filter(|&(column, _)| column != row) {
                let expected = 1.0 + (tree.processors[row] + tree.processors[column]) as f64 / 1000.0;
                assert!((cost - expected).abs() < 1e-6, "{row} {column}");
            }
        }
    }
}
