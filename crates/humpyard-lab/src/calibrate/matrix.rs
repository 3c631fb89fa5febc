//! How long a word takes from one core to another and back.

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

/// Round trips of a cache line between cores.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Matrix {
    /// The processors, by the numbers of the system.
    pub processors: Vec<usize>,
    /// The median time of a round trip from the one to the other and back, in ns: a row for each processor, 0 to itself. Empty
    /// where only one processor is allowed.
    pub round_trip_ns: Vec<Vec<f64>>,
}

/// Round trips that are timed together.
const TRIPS: u64 = 100;
/// Times that are taken at least.
const TIMES_MIN: usize = 11;

/// A word in a cache line of its own, and in that of the neighbour that is fetched with it.
#[repr(align(128))]
struct Word(AtomicU64);

/// Measures all pairs of these processors, for so long in all, if that is enough.
pub(super) fn measure(processors: &[usize], budget: Duration, steps: &mut Steps<'_>) -> Result<Matrix, LabError> {
    let count = if processors.len() > 1 { processors.len() } else { 0 };
    let mut round_trip_ns = vec![vec![0.0; count]; count];
    let pairs = (count * count.saturating_sub(1) / 2).max(1);
    let longest = budget / pairs as u32;
    for one in 0..count {
        for other in one + 1..count {
            steps.next("cores")?;
            let time = round_trip(processors[one], processors[other], longest);
            round_trip_ns[one][other] = time;
            round_trip_ns[other][one] = time;
        }
    }
    Ok(Matrix { processors: processors.to_vec(), round_trip_ns })
}

/// The median time from the one to the other and back. The other answers each number with the next, until it is told to end.
fn round_trip(one: usize, other: usize, longest: Duration) -> f64 {
    const END: u64 = u64::MAX;
    let (there, back) = (Word(AtomicU64::new(0)), Word(AtomicU64::new(0)));
    let seat = |processor| Seat { thread: Thread::Worker(0), processor: Some(processor), shared: false };
    let answer = || {
        let _seated = seat(other).take();
        let mut last = 0;
        loop {
            let word = there.0.load(Ordering::Acquire);
            match word {
                END => return,
                word if word == last => spin_loop(),
                word => {
                    last = word;
                    back.0.store(word, Ordering::Release);
                }
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(answer);
        let _seated = seat(one).take();
        let mut number = 0;
        let mut times = Vec::new();
        let started = Instant::now();
        // What comes first waits for the thread.
        while times.len() <= TIMES_MIN || started.elapsed() < longest {
            let began = Instant::now();
            for _ in 0..TRIPS {
                number += 1;
                there.0.store(number, Ordering::Release);
                while back.0.load(Ordering::Acquire) != number {
                    spin_loop();
                }
            }
            times.push(began.elapsed().as_nanos() as f64 / TRIPS as f64);
        }
        there.0.store(END, Ordering::Release);
        median(&sorted(times.into_iter().skip(1)))
    })
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
        assert_eq!(measured(&[3]), Matrix { processors: vec![3], round_trip_ns: Vec::new() });
    }

    #[test]
    fn each_way_is_the_same() {
        let processors = humpyard_runtime::processors();
        if let [one, other, ..] = processors[..] {
            let matrix = measured(&[one, other]);
            assert_eq!(matrix.round_trip_ns[0][1], matrix.round_trip_ns[1][0]);
            assert!(matrix.round_trip_ns[0][1] > 0.0 && matrix.round_trip_ns[0][0] == 0.0, "{matrix:?}");
        }
    }
}
