//! Policies with a quantum: cores give packets back at the yield points of services, and any core goes on with them.

use core::sync::atomic::{AtomicU64, Ordering};

use humpyard_core::frame::Frame;
use humpyard_services::{Context, DropReason, Factory, Generated, Service, Turn, Verdict};

use crate::order::by_flow;
use crate::panics::{is_unbearable, sorted};
use crate::support::{Run, frames};

const INPUT: &str = "gen:messages:packets=20000,expiring=0";
/// The shortest quantum: it is over at every yield point.
const POLICIES: [&str; 7] = [
    "ps:quantum=1",
    "ps:quantum=1,idle=yield",
    "shinjuku:quantum=1",
    "shinjuku:quantum=1,idle=yield",
    "concord:quantum=1",
    "concord:quantum=1,idle=yield",
    "srpt:quantum=1",
];

/// Turns at instances that had not worked on the packet in its turn before.
static MOVED: AtomicU64 = AtomicU64::new(0);
static INSTANCES: AtomicU64 = AtomicU64::new(0);

/// Returns the number of pieces of the work on a frame: from 1 to 4.
fn pieces(frame: &Frame) -> u64 {
    1 + frame.data.len() as u64 % 4
}

/// Reads a frame in pieces, with a yield point after each, and panics at the last piece of some if it is `fragile`.
struct InPieces {
    instance: u64,
    fragile: bool,
}

/// What was done of a packet.
struct Read {
    sequence: u64,
    pieces: u64,
    instance: u64,
}

impl InPieces {
    fn factory(fragile: bool) -> Factory {
        Factory::new("in-pieces", move || Self { instance: INSTANCES.fetch_add(1, Ordering::Relaxed), fragile })
    }
}

impl Service for InPieces {
    fn process(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Verdict {
        let never = || false;
        self.process_turn(frame, context, generated, &mut Turn::new(&never, None)).expect("the turn is never over")
    }

    fn process_turn(
        &mut self,
        frame: &mut Frame,
        context: &Context,
        _: &mut Generated,
        turn: &mut Turn<'_>,
    ) -> Option<Verdict> {
        let sequence = context.sequence;
        let first = || Box::new(Read { sequence, pieces: 0, instance: self.instance });
        let mut read = turn.resume::<Read>().unwrap_or_else(first);
        assert_eq!(read.sequence, sequence, "the work of another packet");
        MOVED.fetch_add(u64::from(read.instance != self.instance), Ordering::Relaxed);
        loop {
            read.pieces += 1;
            if read.pieces == pieces(frame) {
                assert!(!self.fragile || !is_unbearable(frame), "this panic is part of a test");
                return Some(Verdict::Forward);
            }
            if turn.is_over() {
                turn.keep(Box::new(Read { instance: self.instance, ..*read }));
                return None;
            }
        }
    }
}

fn run(policy: &str, workers: usize) -> Run<'_> {
    let factory = || InPieces::factory(false);
    Run { policy, workers, input: INPUT, factory: Some(factory), in_flight: 1, ..Run::default() }
}

#[test]
fn packets_have_turns_until_they_are_done_and_flows_keep_their_order() {
    let expected = by_flow(frames(INPUT));
    let yields: u64 = frames(INPUT).iter().map(|frame| pieces(frame) - 1).sum();
    for policy in POLICIES {
        for workers in 0..=2 {
            let (outcome, left) = run(policy, workers).go();
            let preemptions = outcome.measured.summary().preemptions.unwrap_or_default();
            if policy.ends_with("idle=yield") {
                assert_eq!(preemptions, yields, "{policy} {workers}: a core gives packets back at each yield point");
            } else {
                assert!((1..=yields).contains(&preemptions), "{policy} {workers}: {preemptions} of {yields}");
            }
            assert_eq!(outcome.measured.summary().order.out_of_order, 0, "{policy} {workers}");
            assert!(by_flow(left) == expected, "{policy} {workers}: a flow is not what it was");
        }
    }
    assert!(MOVED.load(Ordering::Relaxed) > 1_000, "packets go on at other cores");
}

#[test]
fn packets_with_little_work_overtake_those_with_more() {
    // How many packets left before one that had come earlier, and that had more work.
    let overtakings = |policy: &str| {
        let (_, left) = run(policy, 0).go();
        let pairs = left.windows(2).filter(|pair| pair[1].time < pair[0].time && pieces(&pair[1]) > pieces(&pair[0]));
        pairs.count()
    };
    assert_eq!(overtakings("fcfs"), 0);
    let preempted = overtakings("shinjuku:quantum=1");
    assert!(preempted > 1_000, "{preempted}");
}

#[test]
fn a_panic_in_a_later_turn_puts_the_packet_aside_as_it_came() {
    let (unbearable, others): (Vec<Frame>, Vec<Frame>) = frames(INPUT).into_iter().partition(is_unbearable);
    let factory = || InPieces::factory(true);
    for policy in ["shinjuku:quantum=1,idle=yield", "ps:quantum=1"] {
        let (outcome, left, aside) = Run { factory: Some(factory), ..run(policy, 2) }.quarantined();
        let dropped: Vec<_> = outcome.out.dropped().collect();
        assert_eq!(dropped, [(DropReason::ServicePanicked, unbearable.len() as u64)], "{policy}");
        assert!(sorted(aside) == sorted(unbearable.clone()), "{policy}: what is in the quarantine");
        assert!(sorted(left) == sorted(others.clone()), "{policy}: what went out");
    }
}

#[test]
fn cores_that_are_handed_several_packets_serve_each_to_its_end() {
    let (outcome, left) = Run { policy: "shinjuku:quantum=1", in_flight: 8, input: INPUT, ..Run::default() }.go();
    assert_eq!(outcome.measured.summary().preemptions, None);
    assert!(by_flow(left) == by_flow(frames(INPUT)));
}
