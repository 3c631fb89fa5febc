//! Observation of a run while it continues.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use humpyard_runtime::{SAMPLES, Snapshot, Watch, WatchError, watch};
use humpyard_traffic::pace::Pace;

use crate::support::Run;

pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Everything that is a count, in an order of its own.
fn counts(of: &Snapshot) -> Vec<u64> {
    let mut counts = vec![of.elapsed.as_ns(), of.account.arrived, of.account.processed, of.account.dropped_total()];
    counts.extend([of.out.processed, of.out.forwarded, of.out.consumed, of.tally.bytes, of.tally.late]);
    counts.extend([of.flows.seen, of.flows.evicted, of.decision.sum as u64, of.tally.delay.sum as u64]);
    counts.extend(of.tally.cores.iter().flat_map(|core| [core.busy.as_ns(), core.packets, core.cold]));
    counts.extend(of.tally.services.iter().flat_map(|service| [service.packets, service.bytes, service.late]));
    counts.extend(
        of.tally.services.iter().map(|service| service.delay.buckets.iter().map(|&(_, count)| count).sum::<u64>()),
    );
    counts
}

/// Asks this number of times, and returns the last answer. Every answer balances, and no count
/// falls.
pub(crate) fn ask(watch: &mut Watch, times: usize) -> Snapshot {
    let mut last = *watch.ask(LONG).expect("an answer");
    for _ in 0..times {
        let now = *watch.ask(LONG).expect("an answer");
        assert!(now.account.balances() && now.out.balances(), "{now:?}");
        assert_eq!(now.account.processed, now.out.processed, "{now:?}");
        let (before, after) = (counts(&last), counts(&now));
        assert!(before.iter().zip(&after).all(|(before, after)| before <= after), "{before:?} {after:?}");
        last = now;
    }
    last
}

#[test]
fn a_run_tells_how_it_stands_as_often_as_it_is_asked() {
    for (policy, workers, pace) in
        [("hrw", 2, None), ("drr", 0, None), ("hrw", 1, Some(Pace::PacketsPerSecond(20_000.0))), ("drr", 2, None)]
    {
        let run = Run { policy, workers, pace, input: "gen:messages:packets=1000000000", ..Run::default() };
        let (mut watch, watched) = watch();
        let stop = AtomicBool::new(false);
        let (outcome, last) = thread::scope(|scope| {
            let running = scope.spawn(|| run.watched(watched, &stop));
            let last = ask(&mut watch, 200);
            stop.store(true, Ordering::Relaxed);
            (running.join().expect("the run ends well"), last)
        });
        assert_eq!(watch.ask(LONG).map(drop), Err(WatchError::Over), "{policy}");
        let summary = outcome.measured.summary();
        assert!(last.account.arrived > 0 && last.account.arrived <= outcome.measured.account().arrived);
        assert!(last.tally.bytes <= summary.bytes && last.flows.seen <= outcome.flows);
        assert_eq!(last.tally.cores.len(), workers.max(1));
        assert_eq!(last.waiting.iter().all(Option::is_some), policy == "hrw", "{policy}: {:?}", last.waiting);
        assert!(!last.sampled.is_empty() && last.sampled.len() <= SAMPLES);
    }
}

/// A dispatcher that waits for the next packet is woken, answers, and sleeps again.
#[test]
fn a_run_that_waits_answers_at_once() {
    let run = Run { pace: Some(Pace::PacketsPerSecond(0.5)), workers: 1, ..Run::default() };
    let (mut watch, watched) = watch();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| run.watched(watched, &stop));
        watch.ask(LONG).expect("it has begun");
        let started = Instant::now();
        ask(&mut watch, 200);
        // A sleep is 20 ms: 200 of these would be 4 s.
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        stop.store(true, Ordering::Relaxed);
        running.join().expect("the run ends well");
    });
}
