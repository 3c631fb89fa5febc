//! Flows leave as they came, under the policies that promise it: by the measurements, and by the bytes that went out.

use std::collections::BTreeMap;

use humpyard_core::frame::Frame;
use humpyard_traffic::{FlowKey, Headers};

use crate::support::{Run, frames};

/// Nothing of it expires, so that all of it goes out and nothing else does.
const INPUT: &str = "gen:messages:packets=30000,expiring=0";

/// The packets of each flow, in order, without what forwarding changes.
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
        // Times are those of arrival, which rise along a flow.
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
