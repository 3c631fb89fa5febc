//! Every way a run can end: the source, the clock, the user, a fault. All of them leave accounts that balance or an error.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::Cursor;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_runtime::RunError;
use humpyard_traffic::pace::Pace;
use humpyard_traffic::{CaptureReader, ErrorKind, Sink, TrafficError, create};

use crate::support::{Kept, Outcome, Run, assert_balanced};

/// More packets than any test waits for.
pub(crate) const ENDLESS: &str = "gen:poisson:packets=1000000000000";

/// The error that this sink is full.
pub(crate) fn full() -> TrafficError {
    create("").err().expect("an empty name is refused")
}

/// Fails after this number of frames.
pub(crate) struct Failing(pub(crate) u64);

impl Sink for Failing {
    fn write(&mut self, _: &Frame) -> Result<(), TrafficError> {
        self.0 = self.0.checked_sub(1).ok_or_else(full)?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Err(full())
    }
}

#[test]
fn a_sink_that_fails_ends_the_run_with_its_error() {
    for workers in [0, 1, 3] {
        for room in [0, 1, 100, 5_000] {
            let run = Run { workers, input: ENDLESS, ..Run::default() };
            let error = run.to(Box::new(Failing(room))).expect_err("the sink fails");
            assert!(matches!(error, RunError::Traffic(_)), "{error}");
            assert_eq!(error.to_string(), full().to_string());
        }
        let run = Run { workers, input: "gen:poisson:packets=10", ..Run::default() };
        assert!(matches!(run.to(Box::new(Failing(u64::MAX))), Err(RunError::Traffic(_))), "it fails at the end");
    }
}

#[test]
fn more_flows_under_way_than_there_is_room_for_is_an_error() {
    for workers in [0, 2] {
        let run = Run { workers, flows: 4, packets: 64, ..Run::default() };
        match run.to(Box::new(Kept::default())) {
            Err(RunError::Traffic(error)) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_damaged_capture_is_run_up_to_the_damage() {
    // Two packets of ten bytes on Ethernet, and a third that is truncated.
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for second in 1..=3 {
        capture.extend([second, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 10, 0, 0, 0]);
        capture.extend([7; 10]);
    }
    capture.pop();
    for workers in [0, 2] {
        let source = CaptureReader::new("cut.pcap", Cursor::new(capture.clone())).expect("the header is good");
        let kept = Box::new(Kept::default());
        let run = Run { workers, ..Run::default() };
        let outcome = run.with(Box::new(source), kept, &AtomicBool::new(false), &mut |_, _| {}).expect("no error");
        assert_balanced(&outcome);
        assert_eq!(outcome.measured.account().processed, 2);
        let damage = outcome.damage.expect("the capture is damaged");
        assert_eq!((damage.packets_before(), damage.offset()), (Some(2), Some(24 + 2 * 26)));
        assert!(!outcome.interrupted);
    }
}

#[test]
fn the_longest_time_ends_a_run() {
    let longest = Duration::from_millis(100);
    for (workers, pace) in [(0, None), (2, None), (1, Some(Pace::PacketsPerSecond(1000.0)))] {
        let started = Instant::now();
        let (outcome, _) = Run { workers, pace, input: ENDLESS, longest: Some(longest), ..Run::default() }.go();
        assert!(started.elapsed() >= longest && started.elapsed() < Duration::from_secs(20));
        assert!(!outcome.interrupted, "an end that was asked for is none from outside");
        assert!(outcome.measured.account().processed > 0);
        if pace.is_some() {
            assert!(outcome.measured.account().arrived <= 101, "no packet came before its time");
        }
    }
    let (outcome, _) = Run { input: ENDLESS, longest: Some(Duration::ZERO), ..Run::default() }.go();
    assert_eq!(outcome.measured.account().arrived, 0);
}

/// Runs it, and stops when this number of packets has been reported.
fn stopped_at(run: Run<'_>, packets: u64) -> (Outcome, Vec<Frame>) {
    let stop = AtomicBool::new(packets == 0);
    let kept = Kept::default();
    let mut progress = |told: u64, _| stop.store(told >= packets, Ordering::Relaxed);
    let outcome = run.with(run.source(), Box::new(kept.clone()), &stop, &mut progress).expect("no error");
    assert_balanced(&outcome);
    (outcome, kept.take())
}

#[test]
fn a_stop_before_the_start_is_an_empty_run() {
    for workers in [0, 2] {
        for pace in [None, Some(Pace::Trace)] {
            let (outcome, frames) = stopped_at(Run { workers, pace, input: ENDLESS, ..Run::default() }, 0);
            assert!(outcome.interrupted && frames.is_empty());
            assert_eq!(outcome.measured.account().arrived, 0);
            assert_eq!(outcome.measured.summary().duration_ns, 0);
        }
    }
}

#[test]
fn a_stop_serves_and_writes_what_is_held() {
    for (policy, workers) in [("hrw", 0), ("rr", 2), ("drr", 3), ("static", 8)] {
        let (outcome, frames) = stopped_at(Run { policy, workers, input: ENDLESS, ..Run::default() }, 1 << 14);
        assert!(outcome.interrupted);
        assert!(outcome.measured.account().arrived >= 1 << 14);
        assert_eq!(frames.len() as u64, outcome.measured.account().processed);
    }
}

#[test]
fn an_empty_source_is_an_empty_run() {
    for workers in [0, 3] {
        let (outcome, frames) = Run { workers, input: "gen:poisson:packets=0", ..Run::default() }.go();
        assert!(frames.is_empty() && !outcome.interrupted && outcome.damage.is_none());
        assert_eq!((outcome.flows, outcome.measured.account().arrived), (0, 0));
    }
}

#[test]
fn packets_arrive_when_the_pace_says() {
    let pace = Some(Pace::PacketsPerSecond(10_000.0));
    let started = Instant::now();
    let (outcome, _) = Run { pace, input: "gen:poisson:packets=1001", ..Run::default() }.go();
    assert!(started.elapsed() >= Duration::from_millis(100));
    assert!(outcome.measured.summary().duration_ns >= 100_000_000);
}

#[test]
fn progress_is_told_and_ends_at_one() {
    let mut told = Vec::new();
    let run = Run { input: "gen:poisson:packets=100000", ..Run::default() };
    let kept = Box::new(Kept::default());
    run.with(run.source(), kept, &AtomicBool::new(false), &mut |packets, part| told.push((packets, part))).unwrap();
    assert!(told.len() > 3 && told.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1), "{told:?}");
    assert_eq!(told.last(), Some(&(100_000, Some(1.0))));
}
