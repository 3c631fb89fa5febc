//! What the machine adds to the work: how threads that never wait are interrupted, and what it takes to hand a packet over.
//!
//! A thread on each processor looks at the clock all the time, as dispatcher and workers do, and all of them at once: where two
//! looks are far apart something else had the processor. The stops of a worker and the dispatcher together give the most that is
//! taken of any time: a part of it, and an amount at once. The cost of handing over is the time per packet of a live run whose
//! one worker has no work to do and gets one packet at a time.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use humpyard_core::measure::Histogram;
use humpyard_core::name::Named;
use humpyard_core::random::Seed;
use humpyard_runtime::{Seat, Thread, processors};
use humpyard_sim::Interruptions;
use humpyard_traffic::sink::create;

use super::fit::{median, sorted};
use super::matrix::round_trip;
use super::packets::Packets;
use super::{PACKETS, Steps, host};
use crate::LabError;
use crate::choice::host::Host;
use crate::choice::service::ServiceChoice;
use crate::config::RunConfig;
use crate::control::Control;
use crate::costs::MachineCosts;
use crate::costs::taken::Taken;
use crate::run::run_live;

/// Between two looks at the clock that are this far apart, something else had the processor, in ns.
const STOP: u64 = 1_000;
/// Parts of the time, for each of which the result has the amount that is taken at once.
const PARTS: [f64; 9] = [0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5];
/// Runs that are made to see what handing over takes, and the length of their packets in bytes.
const RUNS: usize = 5;
const LENGTH: usize = 1_280;
/// What of the time is for looking at the clock; the rest is for handing over, which takes as long as it takes.
const LOOKING: f64 = 0.9;

/// When a thread was stopped, and for how long, in ns.
pub(super) type Stop = (u64, u64);

/// Measures for so long, about.
pub(super) fn measure(seed: Seed, longest: Duration, steps: &mut Steps<'_>) -> Result<MachineCosts, LabError> {
    steps.next("interruptions")?;
    let stops = look(&processors(), longest.mul_f64(LOOKING));
    let (dispatcher, workers) = match &stops[..] {
        [alone] => (alone.as_slice(), core::slice::from_ref(alone)),
        [first, others @ ..] => (first.as_slice(), others),
        [] => return Err(LabError::option("the system does not say which processors there are")),
    };
    let worst = |part: f64| {
        let at_once = workers.iter().map(|worker| taken(dispatcher, worker, part)).max().unwrap_or(0);
        Taken { part, at_once: Duration::from_nanos(at_once) }
    };
    steps.next("handing over")?;
    Ok(MachineCosts {
        hand_over_ns: hand_over(seed)?,
        round_trip_ns: round_trip(&processors(), usize::MAX).unwrap_or(0.0),
        taken: PARTS.into_iter().map(worst).collect(),
        workers: interruptions(workers.iter().map(Vec::as_slice)),
        dispatcher: interruptions([dispatcher].into_iter()),
        host: Some(host::measure(seed, steps)?),
    })
}

/// Returns the stops of a thread on each processor, all looking at once for this time. The first is
/// the dispatcher's.
pub(super) fn look_at(longest: Duration) -> Vec<Vec<Stop>> {
    look(&processors(), longest)
}

/// The stops of a thread on each of these processors, all looking at once.
fn look(processors: &[usize], longest: Duration) -> Vec<Vec<Stop>> {
    let begin = Instant::now() + Duration::from_millis(5);
    let looker = |(at, &processor): (usize, &usize)| {
        let seat = Seat { thread: Thread::Worker(at), processor: Some(processor), shared: false };
        move || {
            let _seated = seat.take();
            while Instant::now() < begin {}
            stops(begin, longest.as_nanos() as u64)
        }
    };
    thread::scope(|scope| {
        let lookers: Vec<_> = processors.iter().enumerate().map(looker).map(|look| scope.spawn(look)).collect();
        lookers.into_iter().map(|looker| looker.join().unwrap_or_default()).collect()
    })
}

fn stops(begin: Instant, longest: u64) -> Vec<Stop> {
    // More than there are within a minute, so that nothing is allocated meanwhile.
    let mut stops = Vec::with_capacity(1 << 16);
    let mut last = begin.elapsed().as_nanos() as u64;
    while last < longest {
        let now = begin.elapsed().as_nanos() as u64;
        if now - last > STOP {
            stops.push((last, now - last));
        }
        last = now;
    }
    stops
}

/// What is taken at once from a worker that waits for its dispatcher, beside a part of the time, in ns: the level of a bucket
/// that this part leaks from.
fn taken(dispatcher: &[Stop], worker: &[Stop], part: f64) -> u64 {
    let mut stops: Vec<Stop> = dispatcher.iter().chain(worker).copied().collect();
    stops.sort_unstable();
    let (mut level, mut most, mut last) = (0.0_f64, 0.0_f64, 0);
    for (begin, length) in stops {
        level = (level - part * begin.saturating_sub(last) as f64).max(0.0) + (1.0 - part) * length as f64;
        most = most.max(level);
        last = last.max(begin + length);
    }
    most.ceil() as u64
}

/// The distributions of runs and stops of these threads.
pub(super) fn interruptions<'a>(threads: impl Iterator<Item = &'a [Stop]>) -> Interruptions {
    let (mut runs, mut lengths) = (Histogram::new(), Histogram::new());
    for stops in threads {
        let mut last = 0;
        for &(begin, length) in stops {
            // One stop may follow another at once; a run of a file is 1 ns at least.
            runs.record((begin - last).max(1));
            lengths.record(length);
            last = begin + length;
        }
    }
    Interruptions { runs: runs.counts(), stops: lengths.counts() }
}

/// What a live run takes for a packet without work, in ns; the median of some.
fn hand_over(seed: Seed) -> Result<f64, LabError> {
    let no_place = |error| LabError::option(format!("no place for a capture: {error}"));
    let directory = tempfile::tempdir().map_err(no_place)?;
    let path = directory.path().join("packets.pcapng");
    let path = path.to_string_lossy();
    let pass: Named = "pass".parse()?;
    let mut sink = create(&path)?;
    for frame in Packets::generate(seed).pool(&pass, LENGTH, PACKETS)? {
        sink.write(&frame)?;
    }
    sink.finish()?;
    let mut config = RunConfig::new(Host::Live, &path, "fcfs".parse()?);
    config.cores = 1;
    config.in_flight = 1;
    config.services = vec![ServiceChoice::pass()];
    let run = || {
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
        let result = run_live(&config, &mut Control::new(&stop, &mut progress))?;
        Ok(1e9 / result.summary.throughput_pps)
    };
    let times = (0..RUNS).map(|_| run()).collect::<Result<Vec<f64>, LabError>>()?;
    Ok(median(&sorted(times.into_iter())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_a_bucket_that_leaks() {
        let (one, other): ([Stop; 2], [Stop; 1]) = ([(1_000, 100), (1_200, 100)], [(5_000, 150)]);
        assert_eq!(taken(&one, &other, 0.0), 350);
        // 50 of the first leak while it is there and 50 until the next begins; then half of that.
        assert_eq!(taken(&one, &other, 0.5), 75);
        assert_eq!(taken(&[], &[], 0.1), 0);
    }

    #[test]
    fn runs_and_stops_take_turns() {
        let stops: [Stop; 2] = [(50, 10), (110, 20)];
        let found = interruptions([stops.as_slice()].into_iter());
        assert_eq!(found, Interruptions { runs: vec![(50, 2)], stops: vec![(10, 1), (20, 1)] });
    }

    #[test]
    fn a_machine_is_measured() {
        let stop = AtomicBool::new(false);
        let mut tell = |_: usize, _: usize, _: &str| ();
        let mut steps = Steps::new(2 + host::STEPS, &stop, &mut tell);
        let machine = measure(Seed(1), Duration::from_millis(30), &mut steps).unwrap();
        assert!(machine.hand_over_ns > 0.0 && machine.taken.len() == PARTS.len());
        let times = machine.host.unwrap().times;
        assert_eq!(times.deal > times.give, processors().len() > 1, "reading a packet takes time");
        assert!(machine.taken.is_sorted_by(|one, next| one.at_once >= next.at_once), "{:?}", machine.taken);
    }
}
