//! A service that panics: its packets end under their own drop reason, and no other packet is
//! affected.

use humpyard_core::frame::Frame;
use humpyard_core::hash::mix;
use humpyard_core::id::ServiceId;
use humpyard_policies::registry;
use humpyard_runtime::RunError;
use humpyard_services::{Context, DropReason, Factory, Generated, Service, Verdict};

use crate::ends::Failing;
use crate::order::by_flow;
use crate::support::{Run, frames};

const INPUT: &str = "gen:messages:packets=20000";

/// Selects about one packet in fifty, by its bytes and its time.
pub(crate) fn is_unbearable(frame: &Frame) -> bool {
    let bytes = frame.data.iter().fold(frame.time.as_ns(), |hash, &byte| mix(hash ^ u64::from(byte)));
    bytes.is_multiple_of(50)
}

/// Forwards frames unchanged, but panics at some and leaves its state inconsistent.
#[derive(Default)]
struct Fragile {
    broken: bool,
}

impl Service for Fragile {
    fn process(&mut self, frame: &mut Frame, _: &Context, generated: &mut Generated) -> Verdict {
        assert!(!self.broken, "an instance that panicked is used again");
        if is_unbearable(frame) {
            self.broken = true;
            generated.add().expect("what was made before a panic is gone").data.push(7);
            let data = core::mem::replace(&mut frame.data, vec![1, 2, 3]);
            frame.wire_length = 0;
            panic!("cannot bear {} bytes:\nthis panic is part of a test", data.len());
        }
        Verdict::Forward
    }
}

pub(crate) fn fragile() -> Factory {
    Factory::new("fragile", Fragile::default)
}

fn run<'a>(policy: &'a str, workers: usize) -> Run<'a> {
    Run { policy, workers, input: INPUT, factory: Some(fragile), ..Run::default() }
}

/// Returns the frames at which the service panics, and the others.
fn parted() -> (Vec<Frame>, Vec<Frame>) {
    frames(INPUT).into_iter().partition(is_unbearable)
}

/// Frames in an order that does not depend on that in which they came.
pub(crate) fn sorted(mut frames: Vec<Frame>) -> Vec<Frame> {
    frames.sort_by(|a, b| (a.time, &a.data).cmp(&(b.time, &b.data)));
    frames
}

#[test]
fn packets_at_which_a_service_panics_are_put_aside_as_they_came() {
    let (unbearable, others) = parted();
    assert!((200..1000).contains(&unbearable.len()), "{}", unbearable.len());
    let first = frames(INPUT).iter().position(is_unbearable).expect("there are some") as u64 + 1;
    for policy in registry::entries().iter().map(|entry| entry.info.name) {
        for workers in 0..=2 {
            let (outcome, left, aside) = run(policy, workers).quarantined();
            let dropped: Vec<_> = outcome.out.dropped().collect();
            assert_eq!(dropped, [(DropReason::ServicePanicked, unbearable.len() as u64)], "{policy} {workers}");
            assert_eq!(outcome.out.generated, 0);
            assert!(sorted(aside) == sorted(unbearable.clone()), "{policy} {workers}: what is in the quarantine");
            assert!(sorted(left) == sorted(others.clone()), "{policy} {workers}: what went out");
            let panic = outcome.panic.expect("there were panics");
            assert_eq!((panic.packet, panic.service), (first, ServiceId(0)), "{policy} {workers}");
            assert!(panic.message.starts_with("cannot bear "), "{panic:?}");
            assert!(panic.message.contains(" bytes: this panic is part of a test (at "), "{panic:?}");
            assert!(panic.message.contains("panics.rs:"), "{panic:?}");
        }
    }
}

#[test]
fn flows_keep_their_order_around_the_packets_they_lose() {
    let (_, others) = parted();
    for (policy, workers) in [("fcfs", 0), ("fcfs", 1), ("hrw", 2), ("drr", 2), ("steer=hrw/share=sfq", 2)] {
        let (outcome, left, _) = run(policy, workers).quarantined();
        assert_eq!(outcome.measured.summary().order.out_of_order, 0, "{policy} {workers}");
        if policy == "fcfs" {
            assert!(left == others, "{policy} {workers}");
        }
        assert!(by_flow(left) == by_flow(others.clone()), "{policy} {workers}");
    }
}

#[test]
fn without_a_quarantine_they_are_counted_alone() {
    let (unbearable, others) = parted();
    for workers in 0..=2 {
        let (outcome, left) = run("hrw", workers).go();
        let dropped: Vec<_> = outcome.out.dropped().collect();
        assert_eq!(dropped, [(DropReason::ServicePanicked, unbearable.len() as u64)]);
        assert!(sorted(left) == sorted(others.clone()) && outcome.panic.is_some(), "{workers}");
    }
}

#[test]
fn a_good_service_leaves_a_quarantine_empty() {
    for workers in [0, 2] {
        let (outcome, _, aside) = Run { workers, input: INPUT, ..Run::default() }.quarantined();
        assert!(aside.is_empty() && outcome.panic.is_none(), "{workers}");
        assert_eq!(outcome.measured.account().processed, 20_000);
    }
}

#[test]
fn a_quarantine_that_fails_ends_the_run_with_its_error() {
    for workers in [0, 2] {
        for room in [0, 3, u64::MAX] {
            let error = run("hrw", workers).aside(Box::new(Failing(room))).expect_err("it fails");
            assert!(matches!(error, RunError::Traffic(_)), "{error}");
        }
    }
}
