//! A batch of simulations on all processors: three policies at three loads, on the same packets.
//!
//! A simulation is deterministic and has a thread to itself, so the table is the same whatever the number of
//! threads. To keep results in files and to resume, use `humpyard::lab::sweep`.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use humpyard::lab::{Control, Host, Rate, RunConfig, RunResult, run};

const POLICIES: [&str; 3] = ["hrw", "drr", "ps-hrw"];
const LOADS: [f64; 3] = [0.3, 0.6, 0.9];

/// Half of the packets are of one flow.
const INPUT: &str = "gen:messages:packets=20000,elephant=0.5";

/// Returns the configuration of a simulation for each policy at each load.
fn cells() -> Result<Vec<RunConfig>, Box<dyn Error>> {
    let mut cells = Vec::new();
    for policy in POLICIES {
        for load in LOADS {
            let mut config = RunConfig::new(Host::Sim, INPUT, policy.parse()?);
            config.cores = 8;
            config.rate = Rate::Load { load, of: None };
            cells.push(config);
        }
    }
    Ok(cells)
}

/// Runs all simulations on this number of threads. Returns their results in the order of `cells`.
fn run_all(cells: &[RunConfig], threads: usize) -> Result<Vec<RunResult>, Box<dyn Error>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let stop = AtomicBool::new(false); // Set it, and the simulations end early.
    let work = || {
        let mut progress = |_, _| {};
        let mut control = Control::new(&stop, &mut progress);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(config) = cells.get(number) else { return };
            let result = run(config, &mut control).map_err(|error| error.to_string());
            results.lock().expect("no thread panicked").push((number, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().expect("no thread panicked");
    results.sort_by_key(|(number, _)| *number);
    Ok(results.into_iter().map(|(_, result)| result).collect::<Result<_, String>>()?)
}

/// The 99th percentile of the delay in ns, and the part of the packets that was lost.
fn figures(result: &RunResult) -> (u64, f64) {
    let packets = &result.packets;
    (result.summary.delay_ns.p99, 1.0 - packets.processed as f64 / packets.arrived as f64)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let cells = cells()?;
    let threads = thread::available_parallelism()?.get();
    let figures: Vec<_> = run_all(&cells, threads)?.iter().map(figures).collect();
    println!("policy   load   p99 of the delay     lost");
    for (number, (p99, lost)) in figures.iter().enumerate() {
        let (policy, load) = (POLICIES[number / LOADS.len()], LOADS[number % LOADS.len()]);
        println!("{policy:<8} {load:>4} {p99:>15} ns {:>6.1} %", 100.0 * lost);
    }
    let again: Vec<_> = run_all(&cells[..2], 1)?.iter().map(self::figures).collect();
    assert_eq!(again, figures[..2], "one thread finds the same");
    let lost = |policy: usize, load: usize| figures[policy * LOADS.len() + load].1;
    assert!(lost(0, 2) > 0.1, "hrw keeps the heavy flow on one core, which is too slow for it");
    assert!(lost(1, 2) == 0.0 && lost(2, 2) == 0.0, "drr and ps-hrw use all cores");
    Ok(())
}
