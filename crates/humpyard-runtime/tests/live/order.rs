//! Flows leave in order under the policies that promise it: by the measurements, and by the bytes
//! that went out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use humpyard_core::frame::Frame;
use humpyard_core::mechanism::ExitOrder;
use humpyard_core::unit::Time;
use humpyard_services::{Context, Factory, Generated, Service, Verdict};
use humpyard_traffic::{FlowKey, Headers};

use crate::support::{Run, frames};

/// No packet expires, so all packets go out, and nothing else.
const INPUT: &str = "gen:messages:packets=30000,expiring=0";

/// The packets of each flow, in order, without the fields that forwarding changes.
pub(crate) fn by_flow(frames: Vec<Frame>) -> BTreeMap<FlowKey, Vec<Vec<u8>>> {
    let mut flows: BTreeMap<FlowKey, Vec<Vec<u8>>> = BTreeMap::new();
    for mut frame in frames {
        let headers = Headers::parse(&frame);
        let ip = headers.ip_offset.expect("the generator makes IP packets") as usize;
        match headers.version() {
            // Time to live, and the checksum over it.
            Some(4) => [ip + 8, ip + 10, ip + 11].into_iter().for_each(|byte| frame.data[byte] = 0),
            // Hop limit.
            _ => frame.data[ip + 7] = 0,
        }
        flows.entry(headers.key).or_default().push(frame.data);
    }
    flows
}

#[test]
fn flows_leave_as_they_came() {
    let expected = by_flow(frames(INPUT));
    assert!(expected.len() > 200 && expected.values().any(|packets| packets.len() > 1000));
    for policy in ["hrw", "conn", "drr", "sfq", "steer=hrw/share=drr", "static/share=sfq"] {
        for workers in [0, 1, 3] {
            let (outcome, left) = Run { policy, workers, input: INPUT, ..Run::default() }.go();
            assert_eq!(outcome.measured.summary().order.out_of_order, 0, "{policy} {workers}");
            assert!(by_flow(left) == expected, "{policy} {workers}: a flow is not what it was");
        }
    }
}

#[test]
fn measured_disorder_is_the_disorder_of_what_left() {
    for (policy, workers) in [("rr", 3), ("fcfs", 3), ("rr", 1), ("hrw", 3)] {
        let (outcome, left) = Run { policy, workers, input: INPUT, ..Run::default() }.go();
        // The times are those of arrival, which ascend within a flow.
        let mut latest: BTreeMap<FlowKey, u64> = BTreeMap::new();
        let mut out_of_order = 0;
        for frame in &left {
            let latest = latest.entry(Headers::parse(frame).key).or_default();
            out_of_order += u64::from(frame.time.as_ns() < *latest);
            *latest = (*latest).max(frame.time.as_ns());
        }
        assert_eq!(outcome.measured.summary().order.out_of_order, out_of_order, "{policy} {workers}");
    }
}

/// Makes a copy of every packet, and is slow for some.
struct Copying;

impl Service for Copying {
    fn process(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Verdict {
        let started = Instant::now();
        while context.sequence.is_multiple_of(5) && started.elapsed() < Duration::from_micros(20) {}
        generated.add().expect("there is room for one").clone_from(frame);
        Verdict::Forward
    }
}

/// Packets of a flow are on all workers, and leave in order, each followed by its copy. This also
/// holds if the exit has only as many places as the run has packets, which are few, so that the
/// source waits.
#[test]
fn flows_on_all_workers_leave_as_they_came_with_what_was_made_of_each_packet() {
    let exit = |packets: usize| Some(ExitOrder { packets: packets as u32, timeout: Time::from_ns(60_000_000_000) });
    let mut waited = 0;
    for (policy, packets) in [("rr", 1024), ("fcfs", 64), ("rr", 3), ("fcfs", 2), ("rr", 1)] {
        let factory: fn() -> Factory = || Factory::new("copying", || Copying);
        let input = "gen:messages:packets=4000,expiring=0";
        let run = Run { policy, packets, input, exit: exit(packets), factory: Some(factory), ..Run::default() };
        let (outcome, left) = run.go();
        assert_eq!(left.len(), 8000, "{policy} {packets}");
        let (copies, originals): (Vec<_>, Vec<_>) = left.into_iter().enumerate().partition(|(at, _)| at % 2 == 1);
        let copied = copies.iter().zip(&originals).all(|((_, copy), (_, frame))| copy.data == frame.data);
        assert!(copied, "{policy} {packets}: a copy follows its packet");
        let originals = originals.into_iter().map(|(_, frame)| frame).collect();
        assert!(by_flow(originals) == by_flow(frames(input)), "{policy} {packets}: a flow is not what it was");
        let account = outcome.measured.scheduler().exit_account();
        assert_eq!((account.missed_turn, account.given_up), (0, 0), "{policy} {packets}");
        waited += account.reordered;
    }
    assert!(waited > 0, "no packet waited for an earlier one");
}
