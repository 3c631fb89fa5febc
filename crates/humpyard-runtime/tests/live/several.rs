//! Several dispatchers behave as one, except that each connection belongs to one of them.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_core::measure::{LostOutside, Measurements, SameClient, Summary};
use humpyard_core::mechanism::Account;
use humpyard_runtime::{Overload, RunError, Thread, WatchError, watch};
use humpyard_services::DropReason;
use humpyard_traffic::pace::Pace;
use humpyard_traffic::{Sink, TrafficError};

use crate::ends::{ENDLESS, Failing, full};
use crate::order::by_flow;
use crate::panics::{fragile, is_unbearable, sorted};
use crate::support::{Ends, Kept, Run, SeveralOutcome, assert_parts_balance, frames};
use crate::watching::{LONG, ask};

/// No packet expires, so all packets go out, and nothing else.
const INPUT: &str = "gen:messages:packets=30000,expiring=0";

fn account(outcome: &SeveralOutcome) -> Account {
    let mut sum = Account::default();
    outcome.measured.iter().for_each(|part| sum.add(part.measured.account()));
    sum
}

fn summary(outcome: &SeveralOutcome) -> Summary {
    let parts: Vec<&Measurements> = outcome.measured.iter().map(|part| part.measured.measurements()).collect();
    Measurements::summary_of(&parts, &account(outcome), SameClient::Never, LostOutside::default())
}

/// Policies of each family, with and without partners, and whether they keep the order of flows.
const POLICIES: [(&str, bool); 9] = [
    ("hrw", true),
    ("conn", true),
    ("drr", true),
    ("efq", true),
    ("steer=hrw/share=sfq", true),
    ("static/share=sfq", true),
    ("rr", false),
    ("ps-hrw", false),
    ("everest", false),
];

#[test]
fn nothing_is_lost_and_flows_leave_as_they_came() {
    let expected = by_flow(frames(INPUT));
    let (_, alone) = Run { policy: "fcfs", workers: 0, input: INPUT, ..Run::default() }.go();
    for (policy, keeps_order) in POLICIES {
        for (dispatchers, workers) in [(2, 2), (3, 1)] {
            let (outcome, left) = Run { policy, workers, input: INPUT, ..Run::default() }.on_several(dispatchers);
            let (account, summary) = (account(&outcome), summary(&outcome));
            assert_eq!((account.arrived, account.processed, outcome.skipped), (30_000, 30_000, 0), "{policy}");
            assert!(outcome.measured.iter().all(|part| part.measured.account().arrived > 1000), "{policy}");
            assert_eq!((outcome.flows, summary.fairness.clients), (expected.len() as u64, expected.len() as u64));
            assert_eq!(summary.cores_detail.len(), dispatchers * workers);
            assert_eq!(summary.cores_detail.iter().map(|core| core.packets).sum::<u64>(), 30_000);
            assert_eq!(summary.services[0].packets, 30_000);
            assert_eq!(summary.services[0].delay_counts.iter().map(|&(_, count)| count).sum::<u64>(), 30_000);
            if keeps_order {
                assert_eq!(summary.order.out_of_order, 0, "{policy} {dispatchers}");
                assert!(by_flow(left) == expected, "{policy} {dispatchers}: a flow is not what it was");
            } else {
                assert!(sorted(left) == sorted(alone.clone()), "{policy} {dispatchers}: a packet is not what it was");
            }
        }
    }
}

#[test]
fn packets_of_both_directions_are_seen_by_one() {
    let (outcome, _) = Run { workers: 1, input: INPUT, ..Run::default() }.on_several(3);
    let (alone, _) = Run { workers: 1, input: INPUT, ..Run::default() }.go();
    assert_eq!(outcome.flows, alone.flows, "no flow is with two dispatchers");
    assert_eq!(summary(&outcome).bytes, alone.measured.summary().bytes);
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    let pace = Some(Pace::PacketsPerSecond(1e9));
    for policy in ["hrw", "drr", "fcfs"] {
        let run = Run { policy, workers: 1, packets: 8, pace, overload: Overload::Drop, ..Run::default() };
        let (outcome, _) = run.on_several(2);
        let account = account(&outcome);
        assert!(account.arrived == 20_000 && account.dropped_total() > 0 && account.processed > 0, "{account:?}");
    }
}

#[test]
fn panics_cost_their_packets_alone_and_the_first_is_told() {
    const INPUT: &str = "gen:messages:packets=20000";
    let (unbearable, others): (Vec<_>, Vec<_>) = frames(INPUT).into_iter().partition(is_unbearable);
    let first = frames(INPUT).iter().position(is_unbearable).expect("there are some") as u64 + 1;
    let run = Run { policy: "hrw", workers: 2, input: INPUT, factory: Some(fragile), ..Run::default() };
    let (kept, aside) = (Kept::default(), Kept::default());
    let ends = Ends {
        sink: Some(Box::new(kept.clone())),
        quarantine: Some(Box::new(aside.clone())),
        ..Ends::new(run.source())
    };
    let outcome = run.on_several_into(2, ends, &AtomicBool::new(false)).expect("panics end nothing");
    assert_parts_balance(&outcome);
    let dropped: Vec<_> = outcome.out.dropped().collect();
    assert_eq!(dropped, [(DropReason::ServicePanicked, unbearable.len() as u64)]);
    assert_eq!(outcome.panic.expect("there were panics").packet, first, "by its number in the input");
    assert!(sorted(aside.take()) == sorted(unbearable) && sorted(kept.take()) == sorted(others));
}

#[test]
fn a_sink_that_fails_ends_the_run_with_its_error() {
    for (input, room) in [(ENDLESS, 0), (ENDLESS, 5_000), ("gen:poisson:packets=10", u64::MAX)] {
        let run = Run { input, ..Run::default() };
        let ends = Ends { sink: Some(Box::new(Failing(room))), ..Ends::new(run.source()) };
        let error = run.on_several_into(2, ends, &AtomicBool::new(false)).expect_err("the sink fails");
        assert!(matches!(error, RunError::Traffic(_)), "{error}");
        assert_eq!(error.to_string(), full().to_string());
    }
}

#[test]
fn a_dispatcher_that_fails_ends_the_run_with_its_error() {
    let run = Run { flows: 4, packets: 64, input: "gen:messages:packets=1000000000", ..Run::default() };
    let error = run.on_several_into(2, Ends::new(run.source()), &AtomicBool::new(false)).expect_err("too many flows");
    assert!(error.to_string().contains("flows"), "{error}");
}

/// Stops the run when the first packet goes out.
struct Ending(Arc<AtomicBool>);

impl Sink for Ending {
    fn write(&mut self, _: &Frame) -> Result<(), TrafficError> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Ok(0)
    }
}

/// From outside, by the time limit, and while packets come late.
#[test]
fn every_end_leaves_accounts_that_balance() {
    let soon = Duration::from_millis(100);
    for pace in [None, Some(Pace::PacketsPerSecond(20_000.0)), Some(Pace::PacketsPerSecond(0.5))] {
        for stops in [true, false] {
            let longest = (!stops).then_some(soon);
            let run = Run { pace, input: ENDLESS, longest, ..Run::default() };
            let stop = Arc::new(AtomicBool::new(false));
            let sink = stops.then(|| Box::new(Ending(Arc::clone(&stop))) as Box<dyn Sink + Send>);
            let started = Instant::now();
            let outcome = run.on_several_into(2, Ends { sink, ..Ends::new(run.source()) }, &stop).expect("a good end");
            assert_parts_balance(&outcome);
            // If the next packet comes later, there is nothing to wait for.
            assert!(stops || pace.is_some() || started.elapsed() >= soon);
            assert_eq!(outcome.interrupted, stops, "{pace:?}");
            assert!(!stops || account(&outcome).arrived > 0, "{pace:?}");
            if pace.is_some() && !stops {
                assert!(account(&outcome).arrived <= 2_000, "no packet comes before its time");
            }
        }
    }
}

#[test]
fn packets_keep_their_pace() {
    let pace = Some(Pace::PacketsPerSecond(10_000.0));
    let run = Run { pace, input: "gen:messages:packets=2000", overload: Overload::Drop, ..Run::default() };
    let (outcome, _) = run.on_several(2);
    // From the first packet to the last it is 200 ms, whichever dispatcher has them.
    assert!(summary(&outcome).duration_ns >= 199_900_000, "{}", summary(&outcome).duration_ns);
    assert_eq!(account(&outcome).arrived, 2000);
}

#[test]
fn threads_are_told_apart() {
    let (outcome, _) = Run { workers: 2, ..Run::default() }.on_several(2);
    let threads: Vec<Thread> = outcome.seats.iter().map(|seat| seat.thread).collect();
    let (one, worker) = (Thread::OneDispatcher, Thread::Worker);
    assert_eq!(threads, [one(0), worker(0), worker(1), one(1), worker(2), worker(3), Thread::Reader, Thread::Writer]);
}

#[test]
fn a_run_tells_how_it_stands() {
    let run = Run { workers: 1, input: "gen:messages:packets=1000000000", ..Run::default() };
    let (mut watch, watched) = watch();
    let stop = AtomicBool::new(false);
    let (outcome, last) = thread::scope(|scope| {
        let ends = Ends { watched: Some(watched), sink: Some(Box::new(Failing(u64::MAX))), ..Ends::new(run.source()) };
        let running = scope.spawn(|| run.on_several_into(2, ends, &stop));
        let started = Instant::now();
        let mut last = ask(&mut watch, 20);
        while last.sampled.is_empty() && started.elapsed() < LONG {
            last = ask(&mut watch, 20);
        }
        stop.store(true, Ordering::Relaxed);
        // The sink fails at the end.
        (running.join().expect("no panic").expect_err("an error"), last)
    });
    assert!(matches!(outcome, RunError::Traffic(_)));
    assert_eq!(watch.ask(LONG).map(drop), Err(WatchError::Over));
    assert_eq!((last.tally.cores.len(), last.in_flight.len(), last.waiting.len()), (2, 2, 2));
    assert!(last.account.arrived > 0 && !last.sampled.is_empty());
}
