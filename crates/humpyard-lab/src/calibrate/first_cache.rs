//! Whether something else works on the same cores.
//!
//! A core may have two hardware threads, which share its units and its first cache. A hypervisor may give the second one
//! to another machine, and no time is then counted as stolen. On a virtual machine with two processors, data of 32 KiB
//! took 2.2 ns an access, and 4.2 ns for three quarters of the time, in stretches of 0.1 to 6 s. Calculations took 1.2
//! times as long then.

use core::hint::black_box;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use humpyard_runtime::processors;

use super::fit::{median, sorted};
use super::matrix::seat;

/// Cache lines of a tour: 32 KiB, which fill the first cache of many processors.
const LINES: u32 = 512;
/// Tours of a look at a processor, which take 40 us in all. Some are interrupted, so their median counts.
const TOURS: usize = 32;
/// Looks at each processor in a row, and the time between two.
const LOOKS: usize = 10;
const BETWEEN: Duration = Duration::from_millis(20);
/// A slow tour takes at least this many times as long as the fastest. Then something else works on the core, or the
/// clock of the core is slower.
const SLOW: f64 = 1.4;

/// A cache line, with the number of the next one of a tour.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct ChainedLine(u32);

/// Looks at the first caches of all processors.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstCaches {
    /// The median time of a tour in each look, in ns, by processor.
    tours: Vec<Vec<f64>>,
}

/// Looks that found a core slower than at its fastest.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SlowLooks {
    /// The part of the looks, from 0 to 1.
    pub(crate) part: f64,
    /// How many times as long as the fastest they took, in the median.
    pub(crate) factor: f64,
}

impl FirstCaches {
    /// Looks at each processor several times, for 0.2 s in all.
    pub(crate) fn look(&mut self) {
        let processors = processors();
        self.tours.resize_with(processors.len(), Vec::new);
        let lines = lines();
        for _ in 0..LOOKS {
            for (tours, &processor) in self.tours.iter_mut().zip(&processors) {
                let _seated = seat(processor).take();
                tours.push(tour_ns(&lines));
            }
            thread::sleep(BETWEEN);
        }
    }

    /// Returns what part of the looks found a core slower than it can be.
    pub(crate) fn slow(&self) -> SlowLooks {
        let factors = self.tours.iter().flat_map(|tours| {
            let fastest = tours.iter().copied().fold(f64::INFINITY, f64::min);
            tours.iter().map(move |tour| tour / fastest)
        });
        let looks = self.tours.iter().map(Vec::len).sum::<usize>();
        let slow = sorted(factors.filter(|&factor| factor >= SLOW));
        SlowLooks { part: slow.len() as f64 / looks.max(1) as f64, factor: median(&slow) }
    }
}

/// Returns lines that each name the next one, at changing distances: a processor does not fetch them beforehand.
fn lines() -> Vec<ChainedLine> {
    // With this multiplier and addend a sequence modulo a power of two visits every number (Hull and Dobell, 1962).
    (0..LINES).map(|line| ChainedLine((5 * line + 131) % LINES)).collect()
}

/// Returns the median time of a tour through these lines, in ns.
fn tour_ns(lines: &[ChainedLine]) -> f64 {
    let mut at = 0;
    let tour = |_| {
        let began = Instant::now();
        for _ in 0..LINES {
            at = lines[at as usize].0;
        }
        black_box(at);
        began.elapsed().as_nanos() as f64
    };
    median(&sorted((0..TOURS).map(tour)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tour_visits_every_line_once() {
        let lines = lines();
        let mut visited = vec![false; lines.len()];
        let mut at = 0;
        for _ in 0..LINES {
            assert!(!visited[at as usize], "line {at} twice");
            visited[at as usize] = true;
            at = lines[at as usize].0;
        }
        assert_eq!(at, 0);
    }

    #[test]
    fn a_core_is_held_against_its_own_fastest_look() {
        let caches =
            FirstCaches { tours: vec![vec![1000.0, 1100.0, 1900.0, 2100.0], vec![3000.0, 3100.0, 2900.0, 3000.0]] };
        assert_eq!(caches.slow(), SlowLooks { part: 0.25, factor: 2.0 });
        assert_eq!(FirstCaches::default().slow().part, 0.0);
    }

    #[test]
    fn every_processor_is_looked_at() {
        let mut caches = FirstCaches::default();
        caches.look();
        assert_eq!(caches.tours.len(), processors().len());
        assert!(caches.tours.iter().flatten().all(|&tour| tour > 0.0), "{caches:?}");
    }
}
